//! A minimal client of the Model Context Protocol for the demo: JSON-RPC, one message per
//! line, over the pipes of a child process.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use memory::error_code::MemoryErrorCode;
use serde_json::{Value, json};

use super::sandbox::DemoSandbox;
use crate::exit::Failure;

/// The timeout for an answer of the server; longer than the server itself waits for any lock.
const PATIENCE: Duration = Duration::from_secs(30);

/// The capacity of the channel of answers.
const ANSWERS_WAITING_MAX: usize = 1_024;

/// The revision of the protocol.
const REVISION: &str = "2025-11-25";

/// A client and the server that it started.
pub(super) struct DemoClient<'a> {
    sandbox: &'a DemoSandbox,
    id: u32,
    stdin: ChildStdin,
    answers: Receiver<Value>,
    last_id: u64,
}

/// The result of a tool call.
#[derive(Debug)]
pub(super) struct ToolAnswer {
    /// Whether the command succeeded.
    pub(super) ok: bool,
    /// The stable code of a refusal.
    pub(super) code: Option<String>,
    /// The number of the change.
    pub(super) change: Option<i64>,
    /// The text for the model.
    pub(super) text: String,
}

impl<'a> DemoClient<'a> {
    /// Starts `lukasa mcp` for the project of the sandbox.
    pub(super) fn start(stage: &'a DemoSandbox) -> Result<Self, Failure> {
        let checkout = stage.checkout();
        let mut command = stage.lukasa(&["mcp", "--workspace-id", "demo", "--session", "demo"]);
        command.arg("--project").arg(checkout);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let (id, (stdin, stdout)) =
            stage.start(command, |child| (child.stdin.take(), child.stdout.take()))?;
        let answers = read(stdout.expect("the output is piped"));
        Ok(Self {
            sandbox: stage,
            id,
            stdin: stdin.expect("the input is piped"),
            answers,
            last_id: 0,
        })
    }

    /// Runs the handshake; returns the answer of the server.
    pub(super) fn initialize(&mut self) -> Result<Value, Failure> {
        let client = json!({ "name": "lukasa-demo", "version": env!("CARGO_PKG_VERSION") });
        let params =
            json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
        let server = self.request("initialize", &params)?;
        self.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// Sends a request and waits for its result.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let id = self.send(method, params)?;
        let mut answer = self.next()?.1;
        assert_eq!(answer["id"], id, "requests are answered one after the other");
        if let Some(error) = answer.get("error") {
            return Err(Failure::new(
                MemoryErrorCode::StorageFailed,
                format!("{method} failed: {error}"),
            ));
        }
        Ok(answer["result"].take())
    }

    /// Calls the tool and waits for the result.
    pub(super) fn call(&mut self, arguments: &Value) -> Result<ToolAnswer, Failure> {
        let params = json!({ "name": "memory", "arguments": arguments });
        Ok(ToolAnswer::from_result(&self.request("tools/call", &params)?))
    }

    /// Sends a tool call without waiting; returns its request id.
    pub(super) fn send_call(&mut self, arguments: &Value) -> Result<u64, Failure> {
        self.send("tools/call", &json!({ "name": "memory", "arguments": arguments }))
    }

    fn send(&mut self, method: &str, params: &Value) -> Result<u64, Failure> {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        Ok(id)
    }

    fn write(&mut self, message: &Value) -> Result<(), Failure> {
        self.stdin.write_all(format!("{message}\n").as_bytes()).map_err(|_| server_gone())
    }

    /// Waits for the next answer; returns it with its request id.
    fn next(&self) -> Result<(u64, Value), Failure> {
        loop {
            match self.answers.recv_timeout(PATIENCE) {
                Ok(message) => {
                    if let Some(id) = message["id"].as_u64() {
                        return Ok((id, message));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(Failure::new(
                        MemoryErrorCode::StorageFailed,
                        "the server does not answer",
                    ));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(server_gone()),
            }
        }
    }

    /// Waits for the next answer of a tool call; returns it with its request id.
    pub(super) fn next_call(&self) -> Result<(u64, ToolAnswer), Failure> {
        let (id, answer) = self.next()?;
        Ok((id, ToolAnswer::from_result(&answer["result"])))
    }

    /// Kills the server with SIGKILL; returns the answers that had arrived.
    pub(super) fn kill(self) -> Result<Vec<(u64, ToolAnswer)>, Failure> {
        self.sandbox.kill(self.id)?;
        // The server's end of the pipe is closed, so the iterator ends.
        let rest = self.answers.iter().filter_map(|message| {
            Some((message["id"].as_u64()?, ToolAnswer::from_result(&message["result"])))
        });
        Ok(rest.collect())
    }

    /// Closes the pipe, as clients do at their end; returns whether the server exited with success.
    pub(super) fn shut_down(self) -> Result<bool, Failure> {
        drop(self.stdin);
        Ok(self.sandbox.wait(self.id)?.success())
    }
}

impl ToolAnswer {
    fn from_result(result: &Value) -> Self {
        let facts = &result["_meta"]["lukasa"];
        Self {
            ok: facts["ok"] == true,
            code: facts["code"].as_str().map(str::to_owned),
            change: facts["change"].as_i64(),
            text: result["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
        }
    }
}

fn server_gone() -> Failure {
    Failure::new(
        MemoryErrorCode::StorageFailed,
        "the server ended in the middle of the conversation",
    )
}

/// Reads messages on a separate thread, so that waiting for one can have a timeout. The thread ends with
/// the pipe.
fn read(stdout: ChildStdout) -> Receiver<Value> {
    let (messages, received) = sync_channel(ANSWERS_WAITING_MAX);
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let Ok(line) = line else { return };
            // A killed server may leave half a line, which is no answer.
            let Ok(message) = serde_json::from_str(&line) else { continue };
            if messages.send(message).is_err() {
                return;
            }
        }
    });
    received
}
