//! A client of `lukasa mcp` as a child process, with any number of calls in flight.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// The time after which a missing answer fails a test; longer than a command waits for a root.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server and the pipes to it.
pub(crate) struct McpServerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<Value>,
    last_id: u64,
    greeting: Value,
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolAnswer {
    pub(crate) id: u64,
    /// `ok`, or the code of the refusal.
    pub(crate) code: String,
    pub(crate) text: String,
}

impl McpServerProcess {
    /// Starts a server for the place's checkout.
    pub(crate) fn start(place: &Sandbox) -> Self {
        Self::start_as(place.command(&["mcp", "--workspace-id", "w"]))
    }

    /// Starts a server with this command, and initializes the session.
    pub(crate) fn start_as(command: Command) -> Self {
        Self::start_with(command, &json!({}))
    }

    /// Starts a server for a client whose roots are these.
    pub(crate) fn start_with_roots(command: Command, uris: &[&str]) -> Self {
        let mut served = Self::start_with(command, &json!({ "roots": {} }));
        let asked = served.message();
        assert_eq!(asked["method"], "roots/list", "{asked}");
        let roots: Vec<_> = uris.iter().map(|uri| json!({ "uri": uri })).collect();
        let result = json!({ "roots": roots });
        served.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
        served
    }

    fn start_with(mut command: Command, capabilities: &Value) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (messages, answers) = channel();
        // The thread ends when the pipe closes.
        std::thread::spawn(move || {
            // A kill may leave a partial line, which is no answer.
            let lines = stdout.lines().map_while(Result::ok);
            lines
                .filter_map(|line| serde_json::from_str(&line).ok())
                .try_for_each(|message| messages.send(message).map_err(|_| ()))
        });
        let mut served = Self { child, stdin, answers, last_id: 0, greeting: Value::Null };
        let client = json!({ "name": "test", "version": "1" });
        served.send(
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "clientInfo": client,
            }),
        );
        served.greeting = served.message();
        assert_eq!(served.greeting["result"]["serverInfo"]["name"], "lukasa");
        served.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        served
    }

    /// Returns the server's answer to `initialize`.
    pub(crate) const fn greeting(&self) -> &Value {
        &self.greeting
    }

    fn write(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    fn message(&self) -> Value {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("no answer came"),
            Err(RecvTimeoutError::Disconnected) => panic!("the server ended"),
        }
    }

    /// Sends a request and waits for its complete answer.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        loop {
            let message = self.message();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Sends a call and does not wait; returns its number.
    pub(crate) fn ask(&mut self, arguments: &Value) -> u64 {
        self.send("tools/call", &json!({ "name": "memory", "arguments": arguments }))
    }

    /// Waits for the next call to be answered; notifications may come before its answer.
    pub(crate) fn answer(&self) -> ToolAnswer {
        loop {
            let message = self.message();
            if message["method"].is_null() {
                return ToolAnswer::parse(&message).unwrap();
            }
        }
    }

    /// Sends a call and waits for its result; no other call may be in flight.
    pub(crate) fn call(&mut self, arguments: &Value) -> ToolAnswer {
        let id = self.ask(arguments);
        let answer = self.answer();
        assert_eq!(answer.id, id);
        answer
    }

    /// Sends a call that must succeed.
    pub(crate) fn done(&mut self, arguments: &Value) {
        let answer = self.call(arguments);
        assert_eq!(answer.code, "ok", "{arguments}: {}", answer.text);
    }

    /// Creates a memory.
    pub(crate) fn create(&mut self, path: &str, text: &str) {
        self.done(&json!({ "command": "create", "path": path, "file_text": text }));
    }

    /// Returns the server's peak memory in bytes.
    pub(crate) fn memory_peak(&self) -> usize {
        memory_peak(self.child.id())
    }

    /// Kills the server as `kill -9` does; returns the answers that were sent but not read.
    pub(crate) fn kill(mut self) -> Vec<ToolAnswer> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.answers.iter().filter_map(|message| ToolAnswer::parse(&message)).collect()
    }

    /// Kills only the server process, not its children.
    pub(crate) fn kill_parent_only(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until nothing writes answers any more, with the input open; returns those that were not read.
    pub(crate) fn read_remaining(&self) -> Vec<ToolAnswer> {
        let mut answers = Vec::new();
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(message) => answers.extend(ToolAnswer::parse(&message)),
                Err(RecvTimeoutError::Disconnected) => return answers,
                Err(RecvTimeoutError::Timeout) => panic!("the server did not end"),
            }
        }
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the server; returns its exit status and the unread answers.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<ToolAnswer>) {
        let answers =
            self.answers.iter().filter_map(|message| ToolAnswer::parse(&message)).collect();
        (self.child.wait().unwrap(), answers)
    }

    /// Closes the pipe, as a client does at its end.
    pub(crate) fn close_input(mut self) {
        drop(self.stdin.take());
        let (status, answers) = self.end();
        assert!(status.success(), "{status}");
        assert_eq!(answers, []);
    }
}

/// Returns the peak memory of a process in bytes.
pub(crate) fn memory_peak(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

impl ToolAnswer {
    /// Reads an answer to a call; `None` for anything else.
    fn parse(message: &Value) -> Option<Self> {
        let id = message["id"].as_u64()?;
        let result = &message["result"];
        let facts = &result["_meta"]["lukasa"];
        let code = if facts["ok"] == true { "ok" } else { facts["code"].as_str()? };
        let text = result["content"][0]["text"].as_str()?.to_owned();
        Some(Self { id, code: code.to_owned(), text })
    }
}
