//! Tests of the start of a daemon: its address, its token, its output, and the limit of one for a state folder.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use serde_json::json;
use testkit::eventually;

use super::Daemon;
use crate::processes::{Locks, hold_locks};
use crate::sandbox::Sandbox;

#[test]
fn the_first_start_creates_a_private_token_that_is_kept() {
    let place = Sandbox::new();
    let daemon = Daemon::start_by(Daemon::command(&place, &[]));
    let file = place.home().join("state/token");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let token = place.run_ok(&["token"]);
    assert_eq!(token, std::fs::read_to_string(&file).unwrap());
    let token = token.trim();
    assert_eq!(token.len(), 64);
    let ask =
        || daemon.ask("GET", "/capabilities").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(ask().send().status, 200);
    daemon.signal("TERM");
    assert_eq!(daemon.end().0, Some(0));
    let daemon = Daemon::start_by(Daemon::command(&place, &[]));
    let ask =
        daemon.ask("GET", "/capabilities").header("Authorization", &format!("Bearer {token}"));
    assert_eq!(ask.send().status, 200, "it is the same after a restart");
    assert_eq!(place.json(&["token"])["token"], token);
}

#[test]
fn a_state_folder_has_one_daemon_and_a_second_one_names_it() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let second = place.run(&["serve", "--port", "0"]);
    let url = daemon.log_lines["url"].as_str().unwrap();
    let told = format!("error: a daemon already listens on {url} (process ");
    assert!(second.stderr.starts_with(&told), "{}", second.stderr);
    assert_eq!(second.status, 75);
    assert_eq!(daemon.get("/health").status, 200);
    // A killed daemon leaves its files behind, and the next one uses them.
    daemon.kill();
    let daemon = Daemon::start(&place);
    assert_eq!(daemon.get("/health").status, 200);
}

#[test]
fn an_unusable_start_is_refused_with_a_remedy() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let port = daemon.address().rsplit(':').next().unwrap().to_owned();
    let other = Sandbox::new();
    let check = |args: &[&str], status: i32, told: &str| {
        let ended = other.run(&[&["serve"], args].concat());
        assert_eq!(ended.status, status, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(told), "{args:?}: {}", ended.stderr);
    };
    check(&["--port", &port], 6, "`--port 0` takes any free port");
    check(&["--host", "0.0.0.0", "--port", "0"], 2, "--allow-remote --behind-proxy");
    check(&["--host", "0.0.0.0", "--port", "0", "--allow-remote"], 2, "--behind-proxy");
    check(&["--host", "nonsense"], 2, "expected an IP address");
    check(&["--port", "0", "--token", "short"], 2, "a token is 16 to 1024");
    check(&["--port", "0", "--allow-origin", "*"], 2, "--allow-origin: `*` is not an origin");
    check(
        &["--port", "0", "--allow-host", "http://x"],
        2,
        "--allow-host: `http://x` is not a host",
    );
    check(&["--port", "0", "--workspace", "nowhere"], 1, "cannot serve the workspace");
}

#[test]
fn the_lines_that_are_printed_work_as_printed() {
    let place = Sandbox::new();
    let mut command = place.command(&["serve", "--port", "0"]);
    command.stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("Ctrl-C") {
        assert_ne!(stdout.read_line(&mut printed).unwrap(), 0, "{printed}");
    }
    let lines: Vec<_> = printed.lines().filter(|line| line.trim().starts_with("curl")).collect();
    assert_eq!(lines.len(), 3, "{printed}");
    let run = |line: &str| {
        let ended = place.program("sh").args(["-c", line]).output().unwrap();
        String::from_utf8(ended.stdout).unwrap()
    };
    let queued = run(lines[0]);
    assert!(queued.contains("\"status\":\"queued\""), "{queued}");
    let listed = run(lines[1]);
    assert!(listed.contains("\"memories\":["), "{listed}");
    // The command for an agent is one line too. Here curl starts a session instead of an agent.
    let hint = printed.lines().find(|line| line.trim().starts_with("claude mcp add")).unwrap();
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "curl", "version": "1" },
    } });
    let served = run(&format!(
        "claude() {{ curl -sS -H \"$8\" -H 'Accept: application/json, text/event-stream' \
         -H 'Content-Type: application/json' -d '{begin}' \"$6\"; }}\n{hint}"
    ));
    assert!(served.contains("\"serverInfo\":{\"name\":\"lukasa\""), "{served}");
    // The last command runs without end, so only its first lines are read.
    let mut stream = place.program("sh");
    let follow = format!("exec {}", lines[2].trim());
    let mut stream = stream.args(["-c", &follow]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 13];
    stream.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"retry: 3000\n\n");
    stream.kill().unwrap();
    stream.wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn several_workspaces_are_served_side_by_side() {
    let place = Sandbox::new();
    std::fs::create_dir_all(place.path().join("shop/.git")).unwrap();
    let daemon = Daemon::start_with(&place, &["--workspace", ".", "--workspace", "../shop"]);
    let capabilities = daemon.get("/capabilities").json();
    let workspaces = capabilities["workspaces"].as_array().unwrap();
    assert_eq!(workspaces.len(), 2, "{capabilities}");
    assert_eq!(capabilities["workspaceCwd"], workspaces[0]["cwd"]);
    assert_eq!(
        (&workspaces[0]["primary"], &workspaces[1]["primary"]),
        (&json!(true), &json!(false))
    );
    let shop = workspaces[1]["id"].as_str().unwrap();
    let body = json!({ "content": "This project builds with make.", "scope": "project" });
    let asked = daemon.post(&format!("/workspaces/{shop}/memory/remember"), &body).json();
    let id = asked["taskId"].as_str().unwrap();
    assert_eq!(daemon.ask("GET", &format!("/workspace/memory/remember/{id}")).send().status, 404);
    daemon.wait_for_status(&format!("/workspaces/{shop}/memory/remember/{id}"), "completed");
    let listed = |query: &str| {
        daemon.get(&format!("/v1/memories?scope=project{query}")).json()["total"].clone()
    };
    assert_eq!((listed(""), listed(&format!("&workspace={shop}"))), (json!(0), json!(1)));
    let session = daemon.post("/session", &json!({ "cwd": workspaces[1]["cwd"] })).json();
    assert_eq!(session["workspaceCwd"], workspaces[1]["cwd"]);
    let nowhere = daemon.ask("POST", "/session").json(&json!({ "cwd": "/nowhere" }));
    assert_eq!(nowhere.code(), (400, "workspace_mismatch".to_owned()));
    assert_eq!(daemon.ask("GET", "/v1/memories?workspace=x").code().1, "workspace_not_found");
}

#[test]
fn while_it_ends_a_daemon_takes_no_tasks_and_polls_are_answered() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let task = daemon.task("remember", &json!({ "content": "I like tea." }));
    // The lock of the root is held, so that a task runs for a while.
    let held = hold_locks(&place, Locks::Roots);
    let running =
        daemon.post("/workspace/memory/remember", &json!({ "content": "I drive a bus." })).json();
    let id = running["taskId"].as_str().unwrap();
    daemon.wait_for_status(&format!("/workspace/memory/remember/{id}"), "running");
    daemon.signal("TERM");
    eventually(|| match daemon.ask("POST", "/workspace/memory/dream").code() {
        (503, code) => {
            assert_eq!(code, "workspace_draining");
            Ok(())
        }
        (202, _) => Err("it does not end"),
        other => panic!("{other:?}"),
    });
    let poll = format!("/workspace/memory/remember/{}", task["taskId"].as_str().unwrap());
    assert_eq!(daemon.get(&poll).json()["status"], "completed");
    drop(held);
    assert_eq!(daemon.end().0, Some(0));
    assert!(place.run_ok(&["grep", "-l", "bus"]).contains("global/"), "what ran was done");
}

#[test]
fn no_memory_no_prompt_and_no_secret_is_logged() {
    let place = Sandbox::new();
    place.create(
        "global/tea.md",
        "---\ndescription: zanzibar-description\n---\n- zanzibar-memory\n",
    );
    let daemon = Daemon::start_with(&place, &["-vv"]);
    let kept = json!({ "content": "I like the zanzibar-remembered harbour best." });
    assert_eq!(daemon.task("remember", &kept)["status"], "completed");
    let secret = json!({ "content": "The key is ghp_zanzibarQ7w8E9r0T1y2U3i4O5p6A7s8D9f0." });
    daemon.task("remember", &secret);
    assert_eq!(daemon.post("/v1/sessions", &json!({ "sessionId": "talk" })).status, 200);
    let prompt = json!({ "text": "zanzibar-prompt: where is the zanzibar-memory?" });
    assert_eq!(daemon.post("/v1/sessions/talk/prompts", &prompt).status, 200);
    assert_eq!(daemon.get("/v1/memories/global/tea.md").status, 200);
    assert_eq!(daemon.get("/v1/recall?q=zanzibar-query").status, 200);
    let log = daemon.log();
    assert!(log.contains("DEBUG"), "nothing is logged: {log}");
    assert!(!log.contains("zanzibar"), "{log}");
}
