//! Tests of `lukasa status` and `lukasa doctor`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::daemon::{Daemon, TOKEN};
use crate::mcp_clients::tool;
use crate::sandbox::{Sandbox, pretty};

#[test]
fn the_status_shows_the_folders_of_memories() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let mut status = place.json(&["status"]);
    status["state"]["database_bytes"] = "<bytes>".into();
    status["state"]["content_bytes"] = "<bytes>".into();
    insta::assert_snapshot!(pretty(&status), @r#"
    {
      "next_dream": null,
      "roots": [
        {
          "scope": "global",
          "folder": "<place>/home/memory",
          "unavailable": null,
          "exists": false,
          "files": 0,
          "files_max": 1000,
          "bytes": 0,
          "holder": null
        },
        {
          "scope": "project",
          "folder": "<place>/app/.lukasa/memory",
          "unavailable": null,
          "exists": true,
          "files": 1,
          "files_max": 1000,
          "bytes": 2,
          "holder": null
        },
        {
          "scope": "workspace",
          "folder": "<place>/home/state/workspaces/<id>/memory",
          "unavailable": null,
          "exists": false,
          "files": 0,
          "files_max": 1000,
          "bytes": 0,
          "holder": null
        }
      ],
      "findings": [],
      "state": {
        "file": "<place>/home/state/lukasa.db",
        "changes": 1,
        "open": 0,
        "content_bytes": "<bytes>",
        "database_bytes": "<bytes>"
      },
      "pending": 0,
      "encoder": "missing"
    }
    "#);
    let text = place.run_ok(&["status"]);
    assert!(text.contains("1 of 1000 memories, 2B"), "{text}");
    let elsewhere = place.run_ok(&["status", "--project", "/"]);
    assert!(elsewhere.contains("unavailable: no workspace"), "{elsewhere}");
    assert!(!text.contains("dream"), "nobody dreams by schedule: {text}");
}

#[test]
fn the_status_shows_the_condition_of_the_next_scheduled_dream() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    fs::write(place.home().join("config.toml"), "[dream]\nschedule = true\n").unwrap();
    let text = place.run_ok(&["status"]);
    assert!(text.contains("dream      after 5 more sessions\n"), "{text}");
    place.run_ok(&["dream", "-y"]);
    let text = place.run_ok(&["status"]);
    assert!(text.contains("dream      not before "), "{text}");
    assert!(text.contains(", after 5 more sessions\n"), "{text}");
    let value = place.json(&["status"]);
    assert_eq!(value["next_dream"]["sessions_missing"], 5, "{value}");
    assert!(value["next_dream"]["not_before"].is_string(), "{value}");
}

#[test]
fn a_healthy_place_needs_no_attention() {
    let place = Sandbox::with(&[("global/a.md", "---\ndescription: The letter\n---\na\n")]);
    let ended = place.run(&["doctor"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "nothing needs attention\n"));
}

#[test]
fn merge_leftovers_need_attention_and_suggestions_do_not() {
    let place = Sandbox::new();
    place.create("project/c.md", "---\ndescription: x\n---\n- I keep bees in the garden\n");
    place.create(
        "project/d.md",
        "- I keep bees in the garden.\n- Two\n- Tea at four\n- tea at four\n",
    );
    place.create("project/e.md", "---\ndescription: build: use make\n---\n- x\n");
    let advised = place.run(&["doctor"]);
    insta::assert_snapshot!(advised.shown(), @r"
    status 0
    --- stdout
    nothing needs attention

    hints:
    repeated-entry project/d.md
        line 1 repeats line 4 of /memories/project/c.md, and 1 more lines repeat others; `lukasa dream` merges repeated entries
    unquoted-value project/e.md
        frontmatter is not valid YAML at line 2; the value was read as plain text: put it in quotes
    missing-description 1 memory
        without a description, a memory is listed with its first line: project/d.md
    ");
    let root = place.checkout().join(".lukasa/memory");
    fs::write(root.join("a.md"), "<<<<<<< HEAD\n- one\n=======\n- two\n>>>>>>> main\n").unwrap();
    fs::write(root.join("b.md"), "---\nname: b\n---\n\n---\ndescription: c\n---\n- x\n").unwrap();
    let ended = place.run(&["doctor"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 1
    --- stdout
    conflict-marker project/a.md
        line 1 begins a merge conflict that was not resolved; keep what is right and remove its markers
    second-frontmatter project/b.md
        line 5 begins a second block of frontmatter, which is read as text; move its fields into the first

    hints:
    repeated-entry project/d.md
        line 1 repeats line 4 of /memories/project/c.md, and 1 more lines repeat others; `lukasa dream` merges repeated entries
    unquoted-value project/e.md
        frontmatter is not valid YAML at line 2; the value was read as plain text: put it in quotes
    missing-description 1 memory
        without a description, a memory is listed with its first line: project/d.md
    ");
    let found = place.run(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    let kinds = |field: &str| {
        let all = found[field].as_array().unwrap().iter();
        all.map(|one| one["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("findings"), ["conflict-marker", "second-frontmatter"]);
    assert_eq!(kinds("advice"), ["missing-description", "repeated-entry", "unquoted-value"]);
    for number in 0..12 {
        place.create(&format!("global/{number}.md"), "- x\n- y\n");
    }
    let many = place.run(&["doctor"]).stdout;
    assert!(many.contains("missing-description 13 memories\n"), "{many}");
    assert!(many.contains("global/7.md and 3 more\n"), "{many}");
    // The output stays short even with many repeated entries.
    for number in 0..25 {
        let text = "---\ndescription: x\n---\n".to_owned() + &"- the same again\n".repeat(30);
        place.create(&format!("global/log-{number}.md"), &text);
    }
    let many = place.run(&["doctor"]).stdout;
    assert!(many.contains("line 5 repeats line 4, and 28 more lines repeat others; "));
    assert!(many.contains("and 7 more; `lukasa doctor --json` lists all\n"), "{many}");
    assert!(many.lines().count() < 60, "{many}");
}

#[test]
fn doctor_names_problems_and_fails() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let root = place.checkout().join(".lukasa/memory");
    symlink("/etc/passwd", root.join("link.md")).unwrap();
    fs::write(root.join("big.md"), "x".repeat(200_000)).unwrap();
    fs::write(root.join("odd\u{202e}name.md"), "x").unwrap();
    let ended = place.run(&["doctor"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 1
    --- stdout
    link project: link.md
        is a link, and links are not followed
    unaddressable-name project: odd<U+202E>name.md
        no memory path can name it; rename it by hand
    over-cap project/big.md
        is larger than a memory may be; it can be viewed in part, renamed or deleted, not edited
    ");
    let found = place.run(&["doctor", "--json"]);
    assert_eq!(found.status, 1);
    let found: serde_json::Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(found["findings"].as_array().unwrap().len(), 3, "{found}");
    assert!(place.run_ok(&["status"]).contains("3 findings; `lukasa doctor` shows details"));
}

/// A file in place of the folder prevents its creation even for root.
#[test]
fn a_memory_is_viewed_without_a_warning_if_no_state_can_be_created() {
    let place = Sandbox::new();
    fs::create_dir_all(place.checkout().join(".lukasa/memory")).unwrap();
    fs::write(place.checkout().join(".lukasa/memory/a.md"), "hello\n").unwrap();
    fs::write(place.home().join("state"), "").unwrap();
    let run = |args: &[&str], stdin: &str| {
        let ended = place.run_with(args, stdin);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{args:?}");
        ended.stdout
    };
    assert_eq!(run(&["view", "project/a.md"], ""), "hello\n");
    let client = r#"{"name":"t","version":"1"}"#;
    let initialize = format!(
        r#""method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{client}}}"#
    );
    let view = r#""method":"tools/call","params":{"name":"memory","arguments":{"command":"view","path":"/memories/project/a.md"}}"#;
    let stdin = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,{initialize}}}\n{}\n{{\"jsonrpc\":\"2.0\",\"id\":2,{view}}}\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    );
    let answers = run(&["mcp"], &stdin);
    assert!(answers.contains("     1\\thello"), "{answers}");
}

#[test]
fn an_unreadable_state_is_reported_and_memories_are_not_lost() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let state = place.json(&["status"])["state"]["file"].as_str().unwrap().to_owned();
    let state = state.replace("<place>", &place.path().display().to_string());
    fs::write(&state, "this is no database, and it is long enough to be looked at".repeat(100))
        .unwrap();
    assert_eq!(place.view("global/a.md"), "a\n");
    let ended = place.run(&["create", "global/b.md", "b"]);
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let told = "WARN the state database was damaged and a new one was started";
    assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
    assert_eq!(place.view("global/b.md"), "b\n");
    let old = format!("{state}.damaged-1");
    let status = place.run(&["status"]).stdout;
    let shown = old.replace(&place.path().display().to_string(), "<place>");
    assert!(status.contains(&format!("damaged and set aside: {shown}\n")), "{status}");
    assert_eq!(place.json(&["status"])["state"]["set_aside"], serde_json::json!([shown]));
    let checked = place.run(&["doctor"]);
    assert_eq!(checked.status, 0, "{}", checked.shown());
    assert!(checked.stdout.contains(&format!("set-aside {shown}\n")), "{}", checked.shown());
    assert_eq!(place.json(&["doctor"])["set_aside"], serde_json::json!([shown]));
    assert!(place.run_ok(&["self", "check"]).contains("a damaged one is set aside"));
    // The commands copied and changed nothing.
    assert!(fs::read_to_string(&old).unwrap().starts_with("this is no database"));
}

#[test]
fn a_damaged_state_is_repaired_on_request() {
    let place = Sandbox::with(&[("project/a.md", "a\n")]);
    let state = place.home().join("state/lukasa.db");
    let mut bytes = fs::read(&state).unwrap();
    // The second page of the database, which belongs to a table.
    bytes[4096..6000].fill(0xff);
    fs::write(&state, bytes).unwrap();
    let ended = place.run(&["doctor", "--fix"]);
    assert_eq!(ended.status, 0, "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.starts_with("repaired state: "), "{}{}", ended.stdout, ended.stderr);
    place.check_healthy();
    assert_eq!(place.view("project/a.md"), "a\n");
}

#[test]
fn a_database_of_a_later_version_does_not_fit_and_stays() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let checked = place.json(&["self", "check"]);
    assert_eq!(checked["parts"][1]["fits"], true, "{checked}");
    let daemon = Daemon::start(&place);
    let checked = place.run_ok(&["self", "check"]);
    assert!(checked.contains("was not asked"), "{checked}");
    let mut command = place.lukasa(&["self", "check"]);
    let checked = place.run_command(command.env("LUKASA_TOKEN", TOKEN)).stdout;
    assert!(checked.contains(&format!("daemon    fits, process {}", daemon.id())), "{checked}");
    drop(daemon);
    let later = "import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as state:
    state.execute(\"INSERT INTO _sqlx_migrations SELECT 99, 'later', installed_on, 1, checksum, 0 \"
                  \"FROM _sqlx_migrations WHERE version = 1\")";
    let state = place.home().join("state/lukasa.db");
    let mut python = Command::new(tool("LUKASA_TEST_PYTHON"));
    assert!(python.args(["-c", later]).arg(state).status().unwrap().success());
    let refused = place.run(&["self", "check"]);
    assert_eq!(refused.status, 1, "{}", refused.shown());
    assert!(refused.stdout.contains("has schema 99"), "{}", refused.shown());
    assert!(refused.stdout.contains("update lukasa"), "{}", refused.shown());
}
