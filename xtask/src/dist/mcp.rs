//! A client of an MCP server on standard input and output, with as much of the protocol as packages are tried with.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;
use serde_json::{Value, json};

/// The revision of the protocol that the client offers.
const REVISION: &str = "2025-11-25";

/// A running server.
pub(super) struct McpServer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The number of requests so far, which is the id of the last one.
    requests: u64,
    /// The version of the program.
    pub(super) version: String,
}

impl McpServer {
    /// Starts a server and begins a session.
    pub(super) fn start(command: &mut Command) -> anyhow::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().context("the server has no standard input")?;
        let output = child.stdout.take().context("the server has no standard output")?;
        let output = BufReader::new(output);
        let mut server = Self { child, input, output, requests: 0, version: String::new() };
        let client = json!({ "name": "lukasa-dist", "version": "1" });
        let offer =
            json!({ "protocolVersion": REVISION, "capabilities": {}, "clientInfo": client });
        let begun = server.request("initialize", &offer)?;
        begun["serverInfo"]["version"].as_str().unwrap_or_default().clone_into(&mut server.version);
        server.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    /// Sends a request and returns its result.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            let bytes = self.output.read_line(&mut line)?;
            anyhow::ensure!(bytes > 0, "the server ended before it answered `{method}`");
            let answer: Value = serde_json::from_str(&line)?;
            // Notifications of the server have no id.
            if answer["id"] == id {
                anyhow::ensure!(answer["error"].is_null(), "`{method}`: {}", answer["error"]);
                return Ok(answer["result"].clone());
            }
        }
    }

    /// Calls a tool and returns the text of its result.
    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<String> {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = self.request("tools/call", &params)?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        anyhow::ensure!(result["isError"] != true, "`{tool}` refused {arguments}: {text}");
        Ok(text.to_owned())
    }

    /// Closes the input of the server and waits for its end.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        let Self { mut child, input, .. } = self;
        drop(input);
        let status = child.wait()?;
        anyhow::ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    fn send(&mut self, message: &Value) -> anyhow::Result<()> {
        writeln!(self.input, "{message}").context("the server has ended")
    }
}
