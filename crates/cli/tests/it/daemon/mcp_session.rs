//! Tests of sessions of a published MCP client with a daemon: agents of several classes, and clients in several
//! projects at once.

use std::path::Path;

use serde_json::{Value, json};

use super::{Daemon, PATIENCE, TOKEN};
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// Runs a client with a plan; returns its report.
fn client(place: &Sandbox, server: &str, plan: &Value) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/session.mjs");
    let mut command = place.program(tool("LUKASA_TEST_NODE").to_str().unwrap());
    command.arg(script).arg(tool("LUKASA_TEST_NODE_MODULES")).arg(server).arg(plan.to_string());
    command.env("LUKASA_TOKEN", TOKEN);
    let output = assert_cmd::Command::from_std(command).timeout(PATIENCE).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}"))
}

/// Returns the outcomes of the calls.
fn outcomes(seen: &Value) -> Vec<&str> {
    let calls = seen.as_array().unwrap_or_else(|| panic!("{seen}"));
    calls.iter().map(|call| call["outcome"].as_str().unwrap()).collect()
}

fn create(path: &str) -> Value {
    json!({ "command": "create", "path": format!("/memories/{path}"), "file_text": "x\n" })
}

fn mcp(daemon: &Daemon) -> String {
    format!("{}/mcp", daemon.log_lines["url"].as_str().unwrap())
}

#[test]
fn a_session_keeps_its_class_and_a_call_may_have_a_lower_one() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let check = |class: Option<&str>, asked: Option<&str>, expected: [&str; 2]| {
        let word = format!("{}-{}", class.unwrap_or("none"), asked.unwrap_or("none"));
        let meta = asked.map(|asked| json!({ "lukasa/agentClass": asked }));
        let call = |scope: &str| json!({ "arguments": create(&format!("{scope}/{word}.md")), "meta": meta });
        let plan = json!({ "class": class, "calls": [call("global"), call("project")] });
        let seen = client(&place, &mcp(&daemon), &plan);
        assert_eq!(outcomes(&seen), expected, "{word}: {seen}");
    };
    let above = "error -32602";
    check(None, None, ["ok", "ok"]);
    check(Some("exec"), None, ["ok", "ok"]);
    check(Some("plan"), None, ["ok", "read_only"]);
    check(Some("explore"), None, ["read_only", "read_only"]);
    check(None, Some("plan"), ["ok", "read_only"]);
    check(Some("exec"), Some("explore"), ["read_only", "read_only"]);
    check(Some("plan"), Some("plan"), ["ok", "read_only"]);
    // The class of a call is never above that of the session.
    check(Some("plan"), Some("exec"), [above, above]);
    check(Some("explore"), Some("exec"), [above, above]);
    check(Some("explore"), Some("plan"), [above, above]);
    check(Some("exec"), Some("robot"), [above, above]);

    let look = json!({ "command": "view", "path": "/memories" });
    let call = json!({ "arguments": look, "meta": { "lukasa/agentClass": "robot" } });
    let seen = client(&place, &mcp(&daemon), &json!({ "calls": [call] }));
    let text = seen[0]["text"].as_str().unwrap();
    assert!(
        text.contains("`lukasa/agentClass` is \"robot\"; it must be `exec`, `plan` or `explore`"),
        "{text}"
    );
    let seen = client(&place, &mcp(&daemon), &json!({ "class": "robot", "calls": [] }));
    let why = seen["noSession"].as_str().unwrap_or_else(|| panic!("{seen}"));
    assert!(
        why.contains("`x-lukasa-agent-class` is `robot`; it must be `exec`, `plan` or `explore`"),
        "{why}"
    );
}

#[test]
fn a_header_later_in_a_session_cannot_raise_its_class() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let send = |body: &Value, session: Option<&str>, class: Option<&str>| {
        let mut ask = daemon.ask("POST", "/mcp").json(body);
        ask = ask.header("Accept", "application/json, text/event-stream");
        if let Some(session) = session {
            ask = ask.header("Mcp-Session-Id", session);
        }
        if let Some(class) = class {
            ask = ask.header("X-Lukasa-Agent-Class", class);
        }
        ask.send()
    };
    let params = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "older", "version": "3" },
    });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let begun = send(&initialize, None, Some("plan"));
    let session = begun.header("Mcp-Session-Id").unwrap().to_owned();
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(send(&ready, Some(&session), None).status, 202);
    let write = |name: &str, class: Option<&str>| {
        let arguments = create(&format!("project/{name}.md"));
        let params = json!({ "name": "memory", "arguments": arguments });
        let call = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params });
        let answer = send(&call, Some(&session), class);
        (answer.status, answer.text())
    };
    // Left out, the header means the class of the session, not `exec`.
    let (status, text) = write("silent", None);
    assert!(status == 200 && text.contains("read_only"), "{status} {text}");
    let (status, text) = write("raised", Some("exec"));
    assert!(status == 403 && text.contains("its session only `plan`"), "{status} {text}");
    let (status, text) = write("lowered", Some("explore"));
    assert!(status == 200 && text.contains("read_only"), "{status} {text}");
    assert_eq!(daemon.get("/v1/memories").json()["memories"], json!([]));
}

#[test]
fn a_client_with_roots_in_several_projects_has_to_name_one() {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let daemon = Daemon::start(&here);
    let global = json!({ "arguments": create("global/a.md") });
    let project = |name: &str| json!({ "arguments": create(&format!("project/{name}.md")) });
    let save = json!({
        "tool": "save_memory", "arguments": { "fact": "The tests run.", "scope": "project" },
    });
    let both = [here.checkout(), there.checkout()];
    let plan = |name: &str, roots: &[std::path::PathBuf]| json!({ "roots": roots, "calls": [project(name)] });
    let unnamed = json!({ "roots": both, "calls": [project("first"), global, save] });

    let seen = client(&here, &mcp(&daemon), &unnamed);
    assert_eq!(outcomes(&seen), ["scope_unavailable", "ok", "scope_unavailable"], "{seen}");
    for (index, text) in [0, 2].map(|index| (index, seen[index]["text"].as_str().unwrap())) {
        assert!(
            text.contains("the client has roots in several projects (`app`, `app`)"),
            "{index} {text}"
        );
        assert!(text.contains("`?workspace=ID` in the URL"), "{index} {text}");
    }
    let named = format!("{}?workspace={}", mcp(&daemon), daemon.workspace(0));
    assert_eq!(outcomes(&client(&here, &named, &plan("named", &both))), ["ok"]);
    // Two folders of one checkout are one project.
    let deeper = here.checkout().join("deeper");
    std::fs::create_dir(&deeper).unwrap();
    let one = [here.checkout(), deeper];
    assert_eq!(outcomes(&client(&here, &mcp(&daemon), &plan("one", &one))), ["ok"]);

    // The same over pipes.
    let lukasa = env!("CARGO_BIN_EXE_lukasa");
    let seen = client(&there, lukasa, &plan("piped", &both));
    assert_eq!(outcomes(&seen), ["scope_unavailable"], "{seen}");
    let text = seen[0]["text"].as_str().unwrap();
    assert!(text.contains("`lukasa mcp --project DIR`"), "{text}");
    let named = json!({
        "roots": both, "args": ["--project", there.checkout()], "calls": [project("named")],
    });
    assert_eq!(outcomes(&client(&there, lukasa, &named)), ["ok"]);
    for name in ["first", "piped"] {
        for place in [&here, &there] {
            let file = place.checkout().join(format!(".lukasa/memory/{name}.md"));
            assert!(!file.exists(), "{} was written", file.display());
        }
    }
    assert!(here.checkout().join(".lukasa/memory/named.md").exists());
    assert!(there.checkout().join(".lukasa/memory/named.md").exists());
}
