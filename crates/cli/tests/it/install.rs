//! `quipu install` and `quipu uninstall`: what agents are told, and what is left of it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::place::{Ended, Place};

const AGENTS: [&str; 6] = ["claude-code", "codex", "gemini", "qwen", "cursor", "zed"];

fn settings(place: &Place, file: &str) -> PathBuf {
    place.home().join(file)
}

fn write(place: &Place, file: &str, text: &str) -> PathBuf {
    let path = settings(place, file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// What differs between machines is left out: where the program lies.
fn shown(ended: &Ended) -> String {
    ended.shown().replace(env!("CARGO_BIN_EXE_quipu"), "<quipu>")
}

/// All files below a folder, with what is in them.
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
    let place = Place::new();
    let file = write(
        &place,
        ".cursor/mcp.json",
        "{\n  \"mcpServers\": { \"a\": { \"url\": \"b\" } }\n}\n",
    );
    let before = files_in(&place.home());
    let ended = place.run(&["install", "cursor", "--dry-run"]);
    insta::assert_snapshot!(shown(&ended), @r#"
    status 0
    --- stdout
    --- <place>/home/.cursor/mcp.json
    +++ <place>/home/.cursor/mcp.json
    @@ -1,3 +1,3 @@
     {
    -  "mcpServers": { "a": { "url": "b" } }
    +  "mcpServers": { "a": { "url": "b" }, "quipu": { "type": "stdio", "command": "<quipu>", "args": ["mcp"] } }
     }
    "#);
    assert_eq!(files_in(&place.home()), before);
    assert!(file.exists());
}

#[test]
fn each_agent_is_told_once_and_left_as_it_was() {
    let place = Place::new();
    for agent in AGENTS {
        for scope in ["user", "project"] {
            let before = files_in(place.path());
            place.done(&["install", agent, "--scope", scope]);
            let after = files_in(place.path());
            assert_ne!(after, before, "{agent} {scope}");
            let again = place.run(&["install", agent, "--scope", scope]);
            assert!(again.stderr.contains("is told already; nothing to write"), "{again:?}");
            assert_eq!(files_in(place.path()), after, "{agent} {scope}");
            place.done(&["uninstall", agent, "--scope", scope]);
            assert_eq!(files_in(place.path()), before, "{agent} {scope}");
        }
    }
}

#[test]
fn the_files_are_those_that_agents_read() {
    let place = Place::new();
    let mut told = Vec::new();
    for agent in AGENTS {
        for scope in ["user", "project"] {
            let value = place.json(&["install", agent, "--scope", scope, "--dry-run"]);
            for file in value["files"].as_array().unwrap() {
                told.push(format!("{agent} {scope}: {}", file["file"].as_str().unwrap()));
            }
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
    cursor user: <place>/home/.cursor/mcp.json
    cursor project: <place>/app/.cursor/mcp.json
    zed user: <place>/home/.config/zed/settings.json
    zed project: <place>/app/.zed/settings.json
    ");
    let elsewhere = place.path().join("elsewhere");
    for (agent, variable) in [
        ("claude-code", "CLAUDE_CONFIG_DIR"),
        ("codex", "CODEX_HOME"),
        ("gemini", "GEMINI_CLI_HOME"),
        ("qwen", "QWEN_HOME"),
    ] {
        let mut command = place.quipu(&["install", agent, "--dry-run", "--json"]);
        let ended = place.end(command.env(variable, &elsewhere));
        let value: Value = serde_json::from_str(&ended.stdout).unwrap();
        for file in value["files"].as_array().unwrap() {
            let file = file["file"].as_str().unwrap();
            assert!(file.starts_with("<place>/elsewhere/"), "{agent} {file}");
        }
    }
}

#[test]
fn a_project_is_told_what_runs_on_every_machine() {
    let place = Place::new();
    let deep = place.checkout().join("src/deep");
    fs::create_dir_all(&deep).unwrap();
    let mut command = place.quipu(&["install", "claude-code", "--scope", "project"]);
    place.end(command.current_dir(&deep));
    let text = fs::read_to_string(place.checkout().join(".mcp.json")).unwrap();
    let servers: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        servers,
        json!({ "mcpServers": { "quipu": { "type": "stdio", "command": "quipu", "args": ["mcp"] } } })
    );
    let text = fs::read_to_string(place.checkout().join(".claude/settings.json")).unwrap();
    let hooks: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        hooks["hooks"]["Stop"],
        json!([{ "hooks": [{
            "type": "command", "command": "quipu hook stop --agent claude-code", "timeout": 5
        }] }])
    );
}

#[test]
fn permissions_stay_and_new_files_are_yours_alone_but_for_those_of_a_project() {
    let place = Place::new();
    let file = write(&place, ".claude/settings.json", "{}\n");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    place.done(&["install", "claude-code"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file), 0o640);
    assert_eq!(mode(settings(&place, ".claude.json")), 0o600);
    place.done(&["install", "claude-code", "--scope", "project"]);
    let usual = write(&place, "usual", "");
    assert_eq!(mode(place.checkout().join(".mcp.json")), mode(usual));
}

#[test]
fn what_is_not_understood_is_named_and_no_file_is_written() {
    let place = Place::new();
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
    let place = Place::new();
    let dotfiles = write(&place, "dotfiles/settings.json", "{}\n");
    let link = settings(&place, ".gemini/settings.json");
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&dotfiles, &link).unwrap();
    let ended = place.run(&["install", "gemini"]);
    insta::assert_snapshot!(ended.stderr, @r"
    error: `<place>/home/.gemini/settings.json` is a link to `<place>/home/dotfiles/settings.json`
      help: links are not written through: edit that file, or put a file in its place
    ");
    assert_eq!((ended.status, fs::read_to_string(&dotfiles).unwrap().as_str()), (4, "{}\n"));
    let file = write(&place, ".qwen/settings.json", "{}\n");
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    let ended = place.run(&["install", "qwen"]);
    insta::assert_snapshot!(ended.stderr, @r"
    error: `<place>/home/.qwen/settings.json` is read-only
      help: `chmod u+w` lets it be written
    ");
    assert_eq!((ended.status, fs::read_to_string(&file).unwrap().as_str()), (4, "{}\n"));
}

#[test]
fn flags_that_an_agent_is_not_told_are_refused() {
    let place = Place::new();
    let ended = place.run(&["install", "qwen", "--flat", "."]);
    insta::assert_snapshot!(ended.shown(), @r"
    status 2
    --- stderr
    error: an agent is not told which memories to mount
      help: add such flags to `args` of the server in the agent's settings
    ");
    let ended = place.run(&["install", "qwen", "--project", "."]);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert_eq!(place.run(&["install", "emacs"]).status, 2);
}
