//! Tests of an agent whose worktree is removed while it works: the global memories stay available, and errors name the
//! missing project.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{CommandOutput, Sandbox};

/// Returns a command that runs in a folder that no longer exists.
fn in_removed_folder(place: &Sandbox, args: &[&str]) -> Command {
    let gone = place.path().join("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = place.program("sh");
    let lukasa = env!("CARGO_BIN_EXE_lukasa");
    command
        .current_dir(&gone)
        .args(["-c", "rmdir ../gone && exec \"$@\"", "sh", lukasa])
        .args(args);
    command
}

fn run(place: &Sandbox, args: &[&str], stdin: &str) -> CommandOutput {
    let mut command = assert_cmd::Command::from_std(in_removed_folder(place, args));
    place.run_command(command.write_stdin(stdin))
}

#[test]
fn commands_that_need_no_project_still_work() {
    let place = Sandbox::new();
    place.create("global/tea.md", "- Bea drinks green tea at four.\n");
    place.create("project/plan.md", "- Ship in May.\n");
    let warning = "warning: the current folder no longer exists, so there is no project\n";
    for args in [
        &["view", "global/tea.md"][..],
        &["recall", "when does Bea drink green tea?"],
        &["grep", "green"],
        &["context"],
    ] {
        let ended = run(&place, args, "");
        assert_eq!(ended.status, 0, "{}", ended.shown());
        assert!(ended.stderr.starts_with(warning), "{}", ended.shown());
        assert!(ended.stdout.contains("tea"), "{}", ended.shown());
        assert!(!ended.stdout.contains("May"), "{}", ended.shown());
    }
    let refused = run(&place, &["view", "project/plan.md"], "");
    assert_eq!(refused.status, 4, "{}", refused.shown());
    assert!(refused.stderr.contains("no project is associated"), "{}", refused.shown());
    let checkout = place.checkout();
    let named =
        run(&place, &["--project", checkout.to_str().unwrap(), "view", "project/plan.md"], "");
    assert_eq!((named.status, named.stdout.as_str()), (0, "- Ship in May.\n"));
    let trusted = run(&place, &["trust"], "");
    assert_eq!(trusted.status, 2, "{}", trusted.shown());
}

#[test]
fn hooks_and_tools_that_need_no_project_still_work() {
    let place = Sandbox::new();
    place.create("global/tea.md", "- Bea drinks green tea at four.\n");
    place.create("project/plan.md", "- Ship the green release in May.\n");
    let event = |name: &str| {
        json!({
            "hook_event_name": name,
            "session_id": "s",
            "cwd": place.path().join("gone"),
            "source": "startup",
            "prompt": "when does Bea drink green tea, and when do we ship the green release?",
        })
        .to_string()
    };
    for (hook, name) in [("user-prompt", "UserPromptSubmit"), ("session-start", "SessionStart")] {
        let shown = run(&place, &["hook", hook], &event(name));
        assert!(shown.stdout.contains("Bea drinks"), "{}", shown.shown());
        // The session's folder is removed, not the folder of the hook process.
        let mut elsewhere = place.lukasa(&["hook", hook]);
        let other = place.run_command(elsewhere.write_stdin(event(name).replace("\"s\"", "\"t\"")));
        assert!(other.stdout.contains("Bea drinks"), "{}", other.shown());
        assert!(!other.stdout.contains("release in May"), "{}", other.shown());
    }
    let calls = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "memory",
            "arguments": { "command": "view", "path": "/memories/global/tea.md" },
        } }),
    ];
    let calls = calls.map(|call| call.to_string()).join("\n") + "\n";
    let served = run(&place, &["mcp"], &calls);
    let answer: Value = serde_json::from_str(served.stdout.lines().last().unwrap()).unwrap();
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Bea drinks"), "{answer}");
}
