//! Tests of `lukasa service`: service managers accept its files, and it touches nothing else.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::mcp_clients::tool;
use crate::sandbox::{CommandOutput, Sandbox};

const UNIT: &str = ".config/systemd/user/lukasa.service";

/// Returns the errors that systemd reports for a unit; empty if it is valid.
fn complaints(place: &Sandbox, unit: &Path) -> String {
    let mut verify = place.program("systemd-analyze");
    verify.env("XDG_RUNTIME_DIR", place.temporary()).args(["--user", "verify"]).arg(unit);
    let output = verify.output().expect("systemd-analyze is there; Debian has it in `systemd`");
    let status = if output.status.success() { "" } else { "failed " };
    format!("{status}{}", String::from_utf8_lossy(&output.stderr))
}

#[test]
fn systemd_understands_the_unit() {
    let place = Sandbox::new();
    let shop = place.path().join("a $shop of 100%");
    fs::create_dir(&shop).unwrap();
    let shop = shop.display().to_string();
    let ended = place.run(&["service", "install", "--", "--workspace", &shop, "--port", "0"]);
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""));
    insta::assert_snapshot!(ended.stdout, @"
    wrote <place>/home/.config/systemd/user/lukasa.service

    Next:
      systemctl --user daemon-reload        # makes systemd read the file
      systemctl --user enable --now lukasa  # starts the daemon, now and at each login
      systemctl --user status lukasa        # shows its status
      journalctl --user -u lukasa -f        # shows its log
      loginctl enable-linger                # keeps it running while you are logged out
    ");
    let unit = place.home().join(UNIT);
    assert_eq!(complaints(&place, &unit), "");
    // The check reports an invalid unit.
    let text = fs::read_to_string(&unit).unwrap();
    let wrong = place.path().join("wrong.service");
    fs::write(&wrong, text.replace("LockPersonality=yes", "LockPersonality=perhaps")).unwrap();
    assert!(complaints(&place, &wrong).contains("perhaps"));
}

#[test]
fn the_unit_starts_a_daemon_for_the_folder_of_its_installation() {
    let place = Sandbox::new();
    place.run_ok(&["service", "install", "--", "--port", "0", "--json"]);
    let text = fs::read_to_string(place.home().join(UNIT)).unwrap();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.replace('"', "")
    };
    let start = value("ExecStart=");
    let mut words = start.split(' ');
    let mut command = Command::new(words.next().unwrap());
    command.args(words).env_clear().current_dir(value("WorkingDirectory="));
    let environment = value("Environment=");
    let (name, home) = environment.split_once('=').unwrap();
    let daemon = Daemon::start_by({
        command.env(name, home);
        command
    });
    let checkout = place.checkout().canonicalize().unwrap();
    assert_eq!(daemon.log_lines["workspaces"][0]["cwd"], json!(checkout));
    let status = place.json(&["service", "status"]);
    assert_eq!(
        status,
        json!({
            "file": format!("<place>/home/{UNIT}"), "installed": true, "enabled": false,
            "url": daemon.log_lines["url"],
        })
    );
    daemon.kill();
    assert_eq!(place.json(&["service", "status"])["url"], Value::Null, "it left its word behind");
}

#[test]
fn launchd_understands_the_agent() {
    let place = Sandbox::new();
    let install = ["service", "install", "--manager", "launchd", "--", "--workspace", "a & <b>"];
    place.run_ok(&install);
    let file = place.home().join("Library/LaunchAgents/lukasa.plist");
    let script = "import json, plistlib, sys; print(json.dumps(plistlib.load(sys.stdin.buffer)))";
    let python = Command::new(tool("LUKASA_TEST_PYTHON"))
        .args(["-c", script])
        .stdin(fs::File::open(&file).unwrap())
        .output()
        .unwrap();
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let agent: Value = serde_json::from_slice(&python.stdout).unwrap();
    let lukasa = env!("CARGO_BIN_EXE_lukasa");
    assert_eq!(agent["ProgramArguments"], json!([lukasa, "serve", "--workspace", "a & <b>"]));
    assert_eq!(agent["EnvironmentVariables"], json!({ "LUKASA_HOME": place.home() }));
    assert_eq!(agent["WorkingDirectory"], json!(place.checkout().canonicalize().unwrap()));
    assert_eq!(
        (&agent["RunAtLoad"], &agent["KeepAlive"]),
        (&json!(true), &json!({ "SuccessfulExit": false }))
    );
    let shown = place.run(&["service", "uninstall", "--manager", "launchd"]);
    assert!(shown.stdout.contains("launchctl bootout gui/$(id -u)/lukasa"), "{}", shown.stdout);
    assert!(!file.exists());
}

#[test]
fn install_creates_the_service_and_uninstall_removes_it() {
    let place = Sandbox::new();
    let unit = place.home().join(UNIT);
    let run = |args: &[&str]| place.run(&[&["service"], args].concat());
    let shown = |ended: CommandOutput| (ended.status, ended.stdout);
    let nothing = "not installed: `lukasa service install`\nno daemon runs\n".to_owned();
    assert_eq!(shown(run(&["status"])), (1, nothing.clone()));
    let dry = run(&["install", "--dry-run"]);
    assert_eq!((dry.status, dry.stderr.contains("would write")), (0, true), "{}", dry.stderr);
    assert!(dry.stdout.contains("\nExecStart="), "{}", dry.stdout);
    let told = place.json(&["service", "install", "--dry-run"]);
    assert_eq!(told["would"], "write");
    assert_eq!(told["file"], format!("<place>/home/{UNIT}"));
    assert_eq!(place.stable(told["text"].as_str().unwrap()), dry.stdout);
    assert!(!unit.exists());

    place.run_ok(&["service", "install"]);
    let written = fs::read_to_string(&unit).unwrap();
    assert_eq!(place.stable(&written), dry.stdout);
    place.run_ok(&["service", "install", "--", "--no-tasks"]);
    assert!(fs::read_to_string(&unit).unwrap().contains("\"--no-tasks\""), "it is replaced");
    // The link that `systemctl enable` creates.
    let link = unit.parent().unwrap().join("default.target.wants/lukasa.service");
    fs::create_dir(link.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&unit, &link).unwrap();
    assert!(run(&["status"]).stdout.contains("\nstarts at login\n"));

    assert_eq!(run(&["uninstall", "--dry-run"]).status, 0);
    assert_eq!(place.json(&["service", "uninstall", "--dry-run"])["would"], "remove");
    assert!(unit.exists());
    let gone = place.json(&["service", "uninstall"]);
    assert_eq!(gone["next"][0], "systemctl --user stop lukasa");
    assert!(!unit.exists() && fs::symlink_metadata(&link).is_err());
    assert_eq!(shown(run(&["status"])), (1, nothing));
    assert_eq!(run(&["uninstall"]).status, 1, "there is nothing to remove");
}

#[test]
fn foreign_or_unparsable_units_are_refused() {
    let place = Sandbox::new();
    let check = |args: &[&str], status: i32, told: &str| {
        let ended = place.run(&[&["service"], args].concat());
        assert_eq!(ended.status, status, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{args:?}: {}", ended.stderr);
    };
    check(&["install", "--", "--nonsense"], 2, "invalid arguments for `lukasa serve`");
    check(&["install", "--", "--token", "0123456789abcdef"], 2, "all users can read a token");
    check(&["install", "--flat", "x"], 2, "after `--`");
    check(&["status", "--", "--port", "1"], 2, "only `install`");
    check(&["begin"], 2, "invalid value 'begin'");
    let unit = place.home().join(UNIT);
    assert!(!unit.exists());
    fs::create_dir_all(unit.parent().unwrap()).unwrap();
    fs::write(&unit, "[Service]\nExecStart=/bin/true\n").unwrap();
    for action in ["install", "uninstall", "status"] {
        check(&[action], 3, "was not written by `lukasa service`");
    }
    assert_eq!(fs::read_to_string(&unit).unwrap(), "[Service]\nExecStart=/bin/true\n");
}
