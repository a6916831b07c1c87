//! Tests of `lukasa install` and `lukasa uninstall`: the settings that they write, and that uninstall removes them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::{CommandOutput, Sandbox};

/// Agents with project settings.
const AGENTS: [&str; 8] =
    ["claude-code", "codex", "gemini", "qwen", "opencode", "cursor", "vscode", "zed"];

/// Agents with user settings only.
const PERSONAL: [&str; 4] = ["copilot", "cline", "windsurf", "claude-desktop"];

/// Returns all pairs of an agent and one of its scopes.
fn agents_and_scopes() -> Vec<(&'static str, &'static str)> {
    let both = AGENTS.iter().flat_map(|agent| [(*agent, "user"), (*agent, "project")]);
    both.chain(PERSONAL.iter().map(|agent| (*agent, "user"))).collect()
}

/// Returns all files and folders of a sandbox, except our own state.
fn names_in(place: &Sandbox) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut folders = vec![place.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("home/state") {
                folders.push(path.clone());
            }
            found.push(path);
        }
    }
    found.retain(|path| !path.starts_with(place.home().join("state")));
    found.sort();
    found
}

fn settings(place: &Sandbox, file: &str) -> PathBuf {
    place.home().join(file)
}

fn write(place: &Sandbox, file: &str, text: &str) -> PathBuf {
    let path = settings(place, file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Returns the output without the path of the program, which differs between machines.
fn shown(ended: &CommandOutput) -> String {
    ended.shown().replace(env!("CARGO_BIN_EXE_lukasa"), "<lukasa>")
}

/// Returns all files below a folder with their texts.
fn files_in(folder: &std::path::Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_in(&path));
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path, text));
        }
    }
    found.sort();
    found
}

#[test]
fn the_difference_is_shown_and_a_dry_run_writes_nothing() {
    let place = Sandbox::new();
    let file = write(
        &place,
        ".config/Code/User/mcp.json",
        "{\n  \"servers\": { \"a\": { \"url\": \"b\" } }\n}\n",
    );
    let before = files_in(&place.home());
    let ended = place.run(&["install", "vscode", "--dry-run"]);
    insta::assert_snapshot!(shown(&ended), @r#"
    status 0
    --- stdout
    --- <place>/home/.config/Code/User/mcp.json
    +++ <place>/home/.config/Code/User/mcp.json
    @@ -1,3 +1,3 @@
     {
    -  "servers": { "a": { "url": "b" } }
    +  "servers": { "a": { "url": "b" }, "lukasa": { "type": "stdio", "command": "<lukasa>", "args": ["mcp"] } }
     }
    --- stderr
    VS Code: would change 1 file, 1 server (<place>/home/.config/Code/User/mcp.json)
    "#);
    assert_eq!(files_in(&place.home()), before);
    assert!(file.exists());
}

#[test]
fn each_agent_is_installed_once_and_restored() {
    let place = Sandbox::new();
    place.run_ok(&["status"]);
    for (agent, scope) in agents_and_scopes() {
        for consent in [&["--diff"][..], &["--yes"], &["--yes", "--no-permissions"]] {
            let (before, names) = (files_in(place.path()), names_in(&place));
            let install = [&["install", agent, "--scope", scope], consent].concat();
            place.run_ok(&install);
            let after = files_in(place.path());
            assert_ne!(after, before, "{agent} {scope}");
            let again = place.run(&install);
            assert!(again.stderr.contains("is set up already; nothing to write"), "{again:?}");
            assert_eq!(files_in(place.path()), after, "{agent} {scope}");
            place.run_ok(&["uninstall", agent, "--scope", scope]);
            assert_eq!(files_in(place.path()), before, "{agent} {scope}");
            assert_eq!(names_in(&place), names, "{agent} {scope}: folders that were made go");
        }
    }
}

#[test]
fn a_file_gets_its_exact_bytes_back_after_two_installations() {
    let place = Sandbox::new();
    let texts = [
        (
            ".claude/settings.json",
            "{\"permissions\": {\"allow\": [ ]}, \"autoMemoryEnabled\": true}",
        ),
        (".claude.json", "{ }"),
        (".codex/config.toml", "model = 'o'"),
        (".codex/hooks.json", ""),
        (".qwen/settings.json", "{\n  \"memory\": {},\n  \"hooks\": {} // none\n}"),
    ];
    for (file, text) in texts {
        write(&place, file, text);
    }
    for agent in ["claude-code", "codex", "qwen"] {
        place.run_ok(&["install", agent]);
        place.run_ok(&["install", agent, "--yes"]);
        place.run_ok(&["uninstall", agent]);
    }
    for (file, text) in texts {
        assert_eq!(fs::read_to_string(settings(&place, file)).unwrap(), text, "{file}");
    }
}

#[test]
fn later_changes_of_an_agent_stay() {
    let place = Sandbox::new();
    let file = write(&place, ".claude/settings.json", "{\"autoMemoryEnabled\": true}\n");
    place.run_ok(&["install", "claude-code", "--yes"]);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen('{', "{\"model\": \"x\", ", 1)).unwrap();
    place.run_ok(&["uninstall", "claude-code"]);
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(left, "{\"model\": \"x\", \"autoMemoryEnabled\": true}\n");
}

#[test]
fn without_a_terminal_only_what_is_harmless_is_written_and_the_rest_is_named() {
    let place = Sandbox::new();
    fs::create_dir_all(place.home().join(".claude")).unwrap();
    let ended = place.run(&["install", "claude-code"]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 0
    --- stderr
    Claude Code: changed 2 files, 6 hooks, 1 server (<place>/home/.claude/settings.json, <place>/home/.claude.json)
    left out: let Claude Code run Lukasa's tools without asking (`mcp__lukasa` in `permissions.allow`)
    left out: switch off Claude Code's own memory (`autoMemoryEnabled: false`)
    `lukasa install claude-code --yes` includes it
    restart Claude Code; `/hooks` and `/mcp` show the result
    ");
    let read = |file: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(settings(&place, file)).unwrap()).unwrap()
    };
    assert_eq!(read(".claude.json")["mcpServers"]["lukasa"]["alwaysLoad"], true);
    assert_eq!(read(".claude/settings.json")["permissions"], Value::Null);
    place.run_ok(&["install", "claude-code", "--yes", "--no-replace-memory"]);
    assert_eq!(read(".claude/settings.json")["permissions"]["allow"], json!(["mcp__lukasa"]));
    assert_eq!(read(".claude/settings.json")["autoMemoryEnabled"], Value::Null);
    place.run_ok(&["install", "claude-code", "--yes"]);
    assert_eq!(read(".claude/settings.json")["autoMemoryEnabled"], false);
    place.run_ok(&["install", "gemini", "--yes"]);
    assert_eq!(read(".gemini/settings.json")["mcpServers"]["lukasa"]["trust"], true);
    place.run_ok(&["install", "qwen", "--yes"]);
    let qwen = read(".qwen/settings.json");
    assert_eq!(qwen["mcpServers"]["lukasa"]["trust"], true);
    assert_eq!(qwen["mcpServers"]["lukasa"]["alwaysLoadTools"], true);
    assert_eq!(qwen["memory"]["enableManagedAutoMemory"], false);
}

#[test]
fn each_agent_has_the_server_in_its_own_form() {
    let place = Sandbox::new();
    let program = env!("CARGO_BIN_EXE_lukasa");
    let read = |file: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(settings(&place, file)).unwrap()).unwrap()
    };
    for (agent, file, expected) in [
        (
            "opencode",
            ".config/opencode/opencode.json",
            json!({ "mcp": { "lukasa": {
                "type": "local", "command": [program, "mcp"], "enabled": true,
            } } }),
        ),
        (
            "copilot",
            ".copilot/mcp-config.json",
            json!({ "mcpServers": { "lukasa": {
                "type": "local", "command": program, "args": ["mcp"], "tools": ["*"],
            } } }),
        ),
        (
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            json!({ "mcpServers": { "lukasa": { "transport": {
                "type": "stdio", "command": program, "args": ["mcp"],
            } } } }),
        ),
        (
            "windsurf",
            ".codeium/windsurf/mcp_config.json",
            json!({ "mcpServers": { "lukasa": { "command": program, "args": ["mcp"] } } }),
        ),
    ] {
        place.run_ok(&["install", agent]);
        assert_eq!(read(file), expected, "{agent}");
    }
    let hooks = read(".copilot/hooks/lukasa.json");
    assert_eq!(hooks["version"], 1);
    assert_eq!(
        hooks["hooks"]["sessionStart"],
        json!([{
            "type": "command",
            "bash": format!("{program} hook session-start --agent copilot"),
            "timeoutSec": 5,
        }])
    );
    place.run_ok(&["install", "cursor"]);
    let hooks = read(".cursor/hooks.json");
    assert_eq!(hooks["version"], 1);
    let command = format!("{program} hook session-start --agent cursor");
    assert_eq!(hooks["hooks"]["sessionStart"], json!([{ "command": command, "timeout": 5 }]));
    fs::write(settings(&place, ".config/opencode/opencode.jsonc"), "{ /* mine */ }\n").unwrap();
    let dry = place.json(&["install", "opencode", "--dry-run"]);
    assert!(dry["files"][0]["file"].as_str().unwrap().ends_with("opencode.jsonc"), "{dry}");
    let printed: Value = serde_json::from_str(&place.run_ok(&["install", "--print"])).unwrap();
    let generic = json!({ "command": program, "args": ["mcp"] });
    assert_eq!(printed, json!({ "mcpServers": { "lukasa": generic } }));
    for agent in PERSONAL {
        let ended = place.run(&["install", agent, "--scope", "project"]);
        assert!(ended.status == 2 && ended.stderr.contains("no project settings"), "{ended:?}");
    }
}

#[test]
fn the_plugin_calls_the_program_and_goes_as_a_whole() {
    let place = Sandbox::new();
    let file = settings(&place, ".config/opencode/plugin/lukasa.js");
    let text = || fs::read_to_string(&file).unwrap();
    let before = files_in(&place.home());
    let told = place.run(&["install", "opencode"]);
    assert!(told.stderr.contains("opencode: changed 2 files, 1 plugin, 1 server"), "{told:?}");
    let line = format!("const PROGRAM = {}\n", json!(env!("CARGO_BIN_EXE_lukasa")));
    assert!(text().contains(&line), "{}", text());
    let told = place.run(&["install", "opencode"]);
    assert!(told.stderr.contains("nothing to write"), "{told:?}");
    // An older or edited plugin is updated, and is removed too.
    fs::write(&file, text().replace("2_000", "1")).unwrap();
    place.run_ok(&["install", "opencode"]);
    assert!(text().contains("2_000"));
    fs::write(&file, text().replace("2_000", "1")).unwrap();
    place.run_ok(&["uninstall", "opencode"]);
    assert_eq!(files_in(&place.home()), before);
    // An existing empty file has no settings.
    write(&place, ".config/opencode/plugin/lukasa.js", "");
    place.run_ok(&["install", "opencode"]);
    fs::write(&file, text() + "// mine\n").unwrap();
    place.run_ok(&["uninstall", "opencode"]);
    assert!(!file.exists());
    // Without it, only the server is written.
    place.run_ok(&["install", "opencode", "--no-plugin"]);
    assert!(!file.exists());
    // A foreign plugin of this name stays.
    write(&place, ".config/opencode/plugin/lukasa.js", "export const Mine = 1\n");
    for command in ["install", "uninstall"] {
        let told = place.run(&[command, "opencode"]);
        assert!(
            told.stderr.contains("`lukasa.js` is another plugin; it was not changed"),
            "{told:?}"
        );
        assert_eq!(text(), "export const Mine = 1\n");
    }
    place.run_ok(&["install", "opencode", "--scope", "project"]);
    let shared = place.checkout().join(".opencode/plugin/lukasa.js");
    assert!(fs::read_to_string(shared).unwrap().contains("const PROGRAM = \"lukasa\"\n"));
}

#[test]
fn an_empty_file_that_was_there_stays_empty_and_is_no_json() {
    let place = Sandbox::new();
    let file = write(&place, ".codex/config.toml", "");
    place.run_ok(&["install", "codex"]);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("\n{text}")).unwrap();
    place.run_ok(&["uninstall", "codex"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "");
}

#[test]
fn without_a_name_the_agents_on_the_machine_are_listed_and_offered() {
    let place = Sandbox::new();
    fs::create_dir_all(place.home().join(".gemini")).unwrap();
    fs::create_dir_all(place.home().join("programs")).unwrap();
    write(&place, "programs/opencode", "");
    let run = |args: &[&str]| {
        let mut command = place.lukasa(args);
        place.run_command(command.env("PATH", place.home().join("programs")))
    };
    let listed = run(&["install"]);
    assert_eq!(listed.status, 1, "{listed:?}");
    assert_eq!(listed.stdout, "gemini          Gemini CLI\nopencode        opencode\n");
    assert!(listed.stderr.contains("nothing was written: name an agent"), "{listed:?}");
    assert_eq!(run(&["install", "--yes", "--no-permissions"]).status, 0);
    assert!(settings(&place, ".gemini/settings.json").exists());
    assert!(settings(&place, ".config/opencode/opencode.json").exists());
    assert!(!settings(&place, ".claude.json").exists());
    let told = run(&["install", "zed"]);
    assert!(told.stderr.contains("Zed was not found on this machine"), "{told:?}");
}

#[test]
fn a_hook_of_a_project_is_silent_where_the_program_is_missing() {
    let place = Sandbox::new();
    place.run_ok(&["install", "claude-code", "--scope", "project"]);
    let text = fs::read_to_string(place.checkout().join(".claude/settings.json")).unwrap();
    let hooks: Value = serde_json::from_str(&text).unwrap();
    let command = hooks["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap();
    let mut shell = place.program("/bin/sh");
    let output = shell.args(["-c", command]).env("PATH", place.temporary()).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let called = "#!/bin/sh\necho called \"$@\"\n";
    let program = place.temporary().join("lukasa");
    fs::write(&program, called).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut shell = place.program("/bin/sh");
    let output = shell.args(["-c", command]).env("PATH", place.temporary()).output().unwrap();
    assert_eq!(output.stdout, b"called hook stop --agent claude-code\n", "{output:?}");
}

#[test]
fn nothing_of_a_project_is_written_through_a_link() {
    let place = Sandbox::new();
    let elsewhere = place.home().join("elsewhere");
    fs::create_dir_all(&elsewhere).unwrap();
    symlink(&elsewhere, place.checkout().join(".claude")).unwrap();
    let ended = place.run(&["install", "claude-code", "--scope", "project"]);
    assert_eq!(ended.status, 4, "{ended:?}");
    assert!(ended.stderr.contains("`<place>/app/.claude` is a link to"), "{ended:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert!(!place.checkout().join(".mcp.json").exists());
}

#[test]
fn the_files_are_those_that_agents_read() {
    let place = Sandbox::new();
    let mut told = Vec::new();
    for (agent, scope) in agents_and_scopes() {
        let value = place.json(&["install", agent, "--scope", scope, "--dry-run", "--yes"]);
        for file in value["files"].as_array().unwrap() {
            told.push(format!("{agent} {scope}: {}", file["file"].as_str().unwrap()));
        }
    }
    insta::assert_snapshot!(told.join("\n"), @r"
    claude-code user: <place>/home/.claude/settings.json
    claude-code user: <place>/home/.claude.json
    claude-code project: <place>/app/.claude/settings.json
    claude-code project: <place>/app/.mcp.json
    codex user: <place>/home/.codex/config.toml
    codex user: <place>/home/.codex/hooks.json
    codex project: <place>/app/.codex/config.toml
    codex project: <place>/app/.codex/hooks.json
    gemini user: <place>/home/.gemini/settings.json
    gemini project: <place>/app/.gemini/settings.json
    qwen user: <place>/home/.qwen/settings.json
    qwen project: <place>/app/.qwen/settings.json
    opencode user: <place>/home/.config/opencode/opencode.json
    opencode user: <place>/home/.config/opencode/plugin/lukasa.js
    opencode project: <place>/app/opencode.json
    opencode project: <place>/app/.opencode/plugin/lukasa.js
    cursor user: <place>/home/.cursor/mcp.json
    cursor user: <place>/home/.cursor/hooks.json
    cursor project: <place>/app/.cursor/mcp.json
    cursor project: <place>/app/.cursor/hooks.json
    vscode user: <place>/home/.config/Code/User/mcp.json
    vscode project: <place>/app/.vscode/mcp.json
    zed user: <place>/home/.config/zed/settings.json
    zed project: <place>/app/.zed/settings.json
    copilot user: <place>/home/.copilot/mcp-config.json
    copilot user: <place>/home/.copilot/hooks/lukasa.json
    copilot user: <place>/home/.copilot/settings.json
    cline user: <place>/home/.cline/data/settings/cline_mcp_settings.json
    windsurf user: <place>/home/.codeium/windsurf/mcp_config.json
    claude-desktop user: <place>/home/.config/Claude/claude_desktop_config.json
    ");
    let elsewhere = place.path().join("elsewhere");
    for (agent, variable) in [
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("gemini", "GEMINI_CLI_HOME"),
        ("qwen", "QWEN_HOME"),
        ("copilot", "COPILOT_HOME"),
        ("cline", "CLINE_DATA_DIR"),
    ] {
        let mut command = place.lukasa(&["install", agent, "--dry-run", "--json"]);
        let ended = place.run_command(command.env(variable, &elsewhere));
        let value: Value = serde_json::from_str(&ended.stdout).unwrap();
        for file in value["files"].as_array().unwrap() {
            let file = file["file"].as_str().unwrap();
            assert!(file.starts_with("<place>/elsewhere/"), "{agent} {file}");
        }
    }
}

#[test]
fn an_installation_for_a_project_warns_about_every_machine() {
    let place = Sandbox::new();
    let deep = place.checkout().join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let mut command = place.lukasa(&["install", "claude-code", "--scope", "project"]);
    place.run_command(command.current_dir(&deep));
    let text = fs::read_to_string(place.checkout().join(".mcp.json")).unwrap();
    let servers: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        servers,
        json!({ "mcpServers": { "lukasa": {
            "type": "stdio", "command": "lukasa", "args": ["mcp"], "alwaysLoad": true,
        } } })
    );
    let text = fs::read_to_string(place.checkout().join(".claude/settings.json")).unwrap();
    let hooks: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        hooks["hooks"]["Stop"],
        json!([{ "hooks": [{
            "type": "command",
            "command": "! command -v lukasa >/dev/null 2>&1 || lukasa hook stop --agent claude-code",
            "timeout": 5,
        }] }])
    );
}

#[test]
fn permissions_stay_and_new_files_are_yours_alone_but_for_those_of_a_project() {
    let place = Sandbox::new();
    let file = write(&place, ".claude/settings.json", "{}\n");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    place.run_ok(&["install", "claude-code"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file), 0o640);
    assert_eq!(mode(settings(&place, ".claude.json")), 0o600);
    place.run_ok(&["install", "claude-code", "--scope", "project"]);
    let usual = write(&place, "usual", "");
    assert_eq!(mode(place.checkout().join(".mcp.json")), mode(usual));
}

#[test]
fn unparsable_settings_are_named_and_no_file_is_written() {
    let place = Sandbox::new();
    let broken = write(&place, ".claude.json", "{\n  \"a\": 1,,\n}\n");
    let before = files_in(&place.home());
    for command in ["install", "uninstall"] {
        let ended = place.run(&[command, "claude-code"]);
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.stderr.contains("<place>/home/.claude.json`: line 2: "), "{ended:?}");
        assert!(ended.stderr.contains("nothing was written"), "{ended:?}");
        assert_eq!(files_in(&place.home()), before);
    }
    fs::write(&broken, [b'{', 0xff, b'}']).unwrap();
    let ended = place.run(&["install", "claude-code"]);
    assert!(ended.stderr.contains("is not UTF-8 text; nothing was written"), "{ended:?}");
    assert_eq!(fs::read(&broken).unwrap(), [b'{', 0xff, b'}']);
}

#[test]
fn a_link_and_a_read_only_file_are_left_alone() {
    let place = Sandbox::new();
    let dotfiles = write(&place, "dotfiles/settings.json", "{}\n");
    let link = settings(&place, ".gemini/settings.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&dotfiles, &link).unwrap();
    let ended = place.run(&["install", "gemini"]);
    insta::assert_snapshot!(ended.stderr, @r"
    error: `<place>/home/.gemini/settings.json` is a link to `<place>/home/dotfiles/settings.json`
      help: links are not followed: edit that file, or replace the link by a file
    ");
    assert_eq!((ended.status, fs::read_to_string(&dotfiles).unwrap().as_str()), (4, "{}\n"));
    let file = write(&place, ".qwen/settings.json", "{}\n");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    let ended = place.run(&["install", "qwen"]);
    insta::assert_snapshot!(ended.stderr, @r"
    error: `<place>/home/.qwen/settings.json` is read-only
      help: make it writable with `chmod u+w`
    ");
    assert_eq!((ended.status, fs::read_to_string(&file).unwrap().as_str()), (4, "{}\n"));
}

#[test]
fn flags_that_cannot_be_installed_are_refused() {
    let place = Sandbox::new();
    let ended = place.run(&["install", "qwen", "--flat", "."]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 2
    --- stderr
    error: `install` does not take flags that select memories
      help: add such flags to `args` of the server in the agent's settings
    ");
    let ended = place.run(&["install", "qwen", "--project", "."]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert_eq!(place.run(&["install", "emacs"]).status, 2);
}

#[test]
fn a_damaged_record_is_named_and_not_replaced() {
    let place = Sandbox::new();
    place.run_ok(&["install", "qwen"]);
    let record = place.home().join("state/installed.json");
    fs::write(&record, "{").unwrap();
    for command in [["install", "gemini"], ["uninstall", "qwen"]] {
        let ended = place.run(&command);
        assert_ne!(ended.status, 0, "{command:?}");
        assert!(ended.stderr.contains("is damaged"), "{command:?}: {}", ended.stderr);
        assert_eq!(fs::read_to_string(&record).unwrap(), "{", "{command:?}");
    }
}

#[test]
fn agents_start_a_copy_of_a_program_that_npx_may_remove() {
    let place = Sandbox::new();
    let cache = place.home().join(".npm/_npx");
    let cached = cache.join("1f2e/node_modules/@lukasa/linux-x64/bin/lukasa");
    fs::create_dir_all(cached.parent().unwrap()).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_lukasa"), &cached).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = place.program(cached.to_str().unwrap());
        command.args(arguments);
        place.run_command(&mut assert_cmd::Command::from_std(command))
    };
    let copy = place.home().join("bin/lukasa");
    assert_eq!(run(&["install", "claude-code", "--yes", "--dry-run"]).status, 0);
    assert!(!copy.exists(), "a dry run writes nothing");
    let ended = run(&["install", "claude-code", "--yes"]);
    assert_eq!(ended.status, 0, "{}", ended.shown());
    assert!(ended.stderr.contains("agents start the copy"), "{}", ended.shown());
    fs::remove_dir_all(cache).unwrap();
    let settings = fs::read_to_string(place.home().join(".claude.json")).unwrap();
    let settings: Value = serde_json::from_str(&settings).unwrap();
    let program = settings["mcpServers"]["lukasa"]["command"].as_str().unwrap();
    assert_eq!(Some(program), copy.to_str());
    assert!(place.program(program).arg("--version").status().unwrap().success());
}
