//! Tests of the published client of the task API, in its oldest version with these routes and its newest,
//! driving the daemon from Node. It is the work of other authors.

use std::path::Path;

use serde_json::{Value, json};

use super::{Daemon, TOKEN};
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// The npm names under which the two versions are installed.
const VERSIONS: [&str; 2] = ["qwen-code-sdk-0.1.8", "qwen-code-sdk-0.1.14"];

/// The settings for the runner of tasks: the default, and a child process.
const RUNNERS: &[&[&str]] =
    if cfg!(feature = "child") { &[&[], &["--runner", "child"]] } else { &[&[]] };

#[test]
fn the_published_client_is_served_unchanged() {
    for (version, runner) in
        VERSIONS.into_iter().flat_map(|version| RUNNERS.iter().map(move |runner| (version, runner)))
    {
        let place = Sandbox::new();
        let daemon = Daemon::start_with(&place, runner);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/daemon.mjs");
        let mut client = assert_cmd::Command::new(tool("LUKASA_TEST_NODE"));
        client.arg(script).arg(tool("LUKASA_TEST_NODE_MODULES").join(version));
        client.args([daemon.log_lines["url"].as_str().unwrap(), TOKEN]).timeout(super::PATIENCE);
        let output = client.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{version}: {complaint}");
        let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(seen, expected(version.ends_with("0.1.14")), "{version} {complaint}");
    }
}

/// Returns the expected report of the script. Only the newest version knows scopes.
fn expected(knows_scopes: bool) -> Value {
    let scoped = if knows_scopes { json!(["project"]) } else { Value::Null };
    json!({
        "health": "ok",
        "mode": "native",
        "offered": true,
        "remembered": { "status": "completed", "files": 1, "scopes": ["user"] },
        "known": { "status": "completed", "files": 0, "scopes": [] },
        "scoped": scoped,
        "dreamt": { "status": "completed", "deduped": 0 },
        "forgotten": { "status": "completed", "removed": 1, "topics": ["user"], "scopes": ["user"] },
        "events": [
            { "id": 1, "known": true, "source": "workspace_memory_remember", "mine": true },
            { "id": 2, "known": true, "source": "workspace_memory_forget", "mine": true },
        ],
        "replayed": [2, "replay_complete"],
        "contextFiles": {
            "offered": true,
            "writes": [
                { "file": "app/QWEN.md", "ok": true, "bytesWritten": 45, "mode": "append", "changed": true },
                { "file": "app/QWEN.md", "ok": true, "bytesWritten": 19, "mode": "append", "changed": true },
                { "file": "home/QWEN.md", "ok": true, "bytesWritten": 10, "mode": "replace", "changed": true },
                { "file": "home/QWEN.md", "ok": true, "bytesWritten": 0, "mode": "append", "changed": false },
            ],
            "files": [
                ["home/QWEN.md", "memory_file", "global", 10],
                ["app/QWEN.md", "memory_file", "workspace", 64],
            ],
            "counts": [1, true, 74, 2, 0],
            "sameFiles": true,
            "events": [
                written(["workspace", "app/QWEN.md", "append"], 45),
                written(["workspace", "app/QWEN.md", "append"], 19),
                written(["global", "home/QWEN.md", "replace"], 10),
            ],
        },
        "errors": {
            "noContent": [400, "invalid_content"],
            "noMode": [400, "invalid_mode"],
            "noScope": [400, "invalid_scope"],
            "secret": [422, "screened"],
            "tooLarge": [413, "too_large"],
            "nobody": [400, "invalid_client_id"],
            "nowhere": [404, "workspace_not_found"],
            "noToken": [401, "unauthorized"],
            "blank": [400, "invalid_content"],
            "mode": [400, "invalid_context_mode"],
            "query": [400, "invalid_query"],
            "stranger": [400, "invalid_client_id"],
            "unknown": [404, "dream_task_not_found"],
            "theirs": [404, "remember_task_not_found"],
            "token": [401, "unauthorized"],
            "session": [404, "session_not_found"],
            "detached": [400, "invalid_client_id"],
        },
        "closedTwice": true,
    })
}

/// Returns the expected report of the event of a context file.
fn written([scope, file, mode]: [&str; 3], bytes: usize) -> Value {
    let told = json!(["workspace.memory.changed", scope, file, mode, bytes]);
    json!({ "known": true, "told": told, "mine": true })
}
