//! Tests of `lukasa mcp` as a process: its start, its output and its end.

#![expect(clippy::unwrap_used, reason = "a helper that cannot go on ends its test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// A server before its first request.
struct McpProcess {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    log: ChildStderr,
    _home: tempfile::TempDir,
}

impl McpProcess {
    fn start() -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lukasa"))
            .arg("mcp")
            .env("LUKASA_HOME", home.path())
            .current_dir(home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let log = child.stderr.take().unwrap();
        Self { child, input, output, log, _home: home }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn initialize(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        self.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params }));
        assert_eq!(self.line()["result"]["serverInfo"]["name"], "lukasa");
    }

    /// Returns whether the process ended with success, and the rest of both outputs. With `leave` the input is closed, as
    /// a client does; otherwise a signal ends the process.
    fn ended(mut self, leave: bool) -> (bool, String, String) {
        let input = (!leave).then_some(self.input);
        let (mut rest, mut log) = (String::new(), String::new());
        self.output.read_to_string(&mut rest).unwrap();
        self.log.read_to_string(&mut log).unwrap();
        let status = self.child.wait().unwrap();
        drop(input);
        (status.success(), rest, log)
    }
}

#[test]
fn a_client_that_leaves_ends_the_process_quietly() {
    let mut server = McpProcess::start();
    server.initialize();
    assert_eq!(server.ended(true), (true, String::new(), String::new()));
}

#[test]
fn a_signal_ends_the_process_while_its_input_is_open() {
    for signal in ["-TERM", "-INT"] {
        let mut server = McpProcess::start();
        server.initialize();
        let process = server.child.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        assert_eq!(server.ended(false), (true, String::new(), String::new()), "{signal}");
    }
}

#[test]
fn a_server_whose_parent_died_ends_although_its_input_is_open() {
    let place = Sandbox::new();
    // The shell is the parent; the test keeps the input open.
    let mut command = place.program("sh");
    let script = r#"exec 3<&0; "$0" mcp <&3 3<&- & wait"#;
    command.args(["-c", script, env!("CARGO_BIN_EXE_lukasa")]);
    let mut served = McpServerProcess::start_as(command);
    served.create("/memories/global/a.md", "kept\n");
    served.kill_parent_only();
    assert_eq!(served.read_remaining(), []);
    assert_eq!(place.view("global/a.md"), "kept\n");
    let doctor = place.run(&["doctor"]);
    assert_eq!(doctor.status, 0, "{}", doctor.stdout);
}

#[test]
fn half_a_surrogate_pair_is_answered_with_its_id_and_stored_as_a_replacement() {
    let mut server = McpProcess::start();
    server.initialize();
    let call = |id: u32, arguments: &str| {
        let params = format!(r#"{{"name":"memory","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
    };
    let path = "/memories/global/a.md";
    let create = format!(r#"{{"command":"create","path":"{path}","file_text":"cut \ud83d off"}}"#);
    writeln!(server.input, "{}", call(2, &create)).unwrap();
    let made = server.line();
    assert_eq!((&made["id"], &made["result"]["isError"]), (&json!(2), &json!(false)), "{made}");
    writeln!(server.input, "{}", call(3, &format!(r#"{{"command":"view","path":"{path}"}}"#)))
        .unwrap();
    let shown = server.line()["result"]["content"][0]["text"].to_string();
    assert!(shown.contains("cut \u{fffd} off"), "{shown}");
    assert!(server.ended(true).0);
}

#[test]
fn memory_text_is_never_logged() {
    let mut server = McpProcess::start();
    server.initialize();
    let arguments =
        json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "a whisper" });
    let params = json!({ "name": "memory", "arguments": arguments });
    server.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    assert_eq!(server.line()["result"]["isError"], false);
    let (ended_well, _, log) = server.ended(true);
    assert!(ended_well);
    assert!(!log.contains("a whisper"), "{log}");
}

#[test]
fn flags_determine_the_scopes_an_agent_may_write() {
    let place = Sandbox::new();
    let writes = |flags: &[&str]| {
        let mut command = place.command(&["mcp", "--workspace-id", "w"]);
        command.args(flags);
        let mut served = McpServerProcess::start_as(command);
        let mut write = |scope: &str| {
            let path = format!("/memories/{scope}/a.md");
            let made = json!({ "command": "create", "path": path, "file_text": "x" });
            let code = served.call(&made).code;
            if code == "ok" {
                served.done(&json!({ "command": "delete", "path": path }));
            }
            served.done(&json!({ "command": "view", "path": format!("/memories/{scope}") }));
            code
        };
        let codes = ["global", "project", "workspace"].map(&mut write);
        served.close_input();
        codes
    };
    assert_eq!(writes(&[]), ["ok", "ok", "ok"]);
    assert_eq!(writes(&["--agent-class", "exec"]), ["ok", "ok", "ok"]);
    assert_eq!(writes(&["--agent-class", "plan"]), ["ok", "read_only", "ok"]);
    for reader in [&["--agent-class", "explore"][..], &["--agent-class", "robot"], &["--read-only"]]
    {
        assert_eq!(writes(reader), ["read_only"; 3], "{reader:?}");
    }
}
