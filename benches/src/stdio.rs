//! An MCP client over the standard streams of a child process, and an echo server to compare with.
//!
//! Requests are serialized before a measurement and results are parsed after it, so that only the exchange counts.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use serde_json::{Value, json};

/// The protocol revision that all measured servers speak.
const REVISION: &str = "2025-06-18";

/// The only client of a server in a child process.
#[derive(Debug)]
pub(crate) struct McpClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    last: u64,
    line: String,
}

/// A serialized request.
#[derive(Debug)]
pub(crate) struct Request {
    id: u64,
    line: String,
}

impl McpClient {
    /// Starts a server.
    pub(crate) fn start(server: &mut Command) -> anyhow::Result<Self> {
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = server.spawn().with_context(|| format!("cannot start {server:?}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the child has no output")?;
        Ok(Self { child, input, output: BufReader::new(output), last: 0, line: String::new() })
    }

    /// Initializes the session, as the protocol requires.
    pub(crate) fn initialize(&mut self) -> anyhow::Result<()> {
        let parameters = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": { "name": "lukasa-bench", "version": env!("CARGO_PKG_VERSION") },
        });
        let request = self.request("initialize", &parameters);
        self.exchange(&request)?;
        self.result(&request)?;
        self.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
    }

    /// Serializes a request.
    pub(crate) fn request(&mut self, method: &str, parameters: &Value) -> Request {
        self.last += 1;
        let id = self.last;
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        Request { id, line: format!("{body}\n") }
    }

    /// Serializes the call of a tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Request {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Sends a request and waits for its answer, which [`Self::result`] reads.
    pub(crate) fn exchange(&mut self, request: &Request) -> anyhow::Result<()> {
        self.send(&request.line)?;
        loop {
            self.line.clear();
            let read = self.output.read_line(&mut self.line)?;
            anyhow::ensure!(read > 0, "the server ended before its answer");
            // Notifications may arrive first; only an answer ends the wait.
            if !self.line.contains("\"method\"") || self.line.contains("\"result\"") {
                return Ok(());
            }
        }
    }

    /// Returns the result of the last exchanged request; an `Err` if there is none, or if the tool reports a failure.
    pub(crate) fn result(&self, request: &Request) -> anyhow::Result<Value> {
        let mut answer: Value = serde_json::from_str(&self.line)?;
        let failed = answer["result"]["isError"] == true;
        let is_answer = answer["id"] == request.id && answer["result"].is_object();
        anyhow::ensure!(
            is_answer && !failed,
            "request {} was answered with {}",
            request.line,
            self.line
        );
        Ok(answer["result"].take())
    }

    /// Calls a tool and returns its result.
    pub(crate) fn call_now(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<Value> {
        let request = self.call(tool, arguments);
        self.exchange(&request)?;
        self.result(&request)
    }

    fn send(&mut self, line: &str) -> anyhow::Result<()> {
        let input = self.input.as_mut().context("the input of the server is closed")?;
        input.write_all(line.as_bytes())?;
        Ok(())
    }

    /// Returns the id of the server's process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        // The server ends at the end of its input, after it has finished its requests.
        drop(self.input.take());
        drop(self.child.wait());
    }
}

/// Returns the resident memory of a process.
pub(crate) fn resident_bytes_of(pid: u32) -> anyhow::Result<u64> {
    memory_of(pid, "VmRSS:")
}

/// Returns the peak resident memory of a process.
pub(crate) fn peak_bytes_of(pid: u32) -> anyhow::Result<u64> {
    memory_of(pid, "VmHWM:")
}

fn memory_of(pid: u32, field: &str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    bytes_of(&status, field).with_context(|| format!("the status of the process has no {field}"))
}

/// Returns the value of a field in the status of a process.
fn bytes_of(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the command that starts [`echo`].
pub(crate) fn echo_server(bytes: usize) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--echo", &bytes.to_string()]);
    Ok(command)
}

/// Answers each request on stdin with the same text of `bytes` bytes, until stdin ends.
pub(crate) fn echo(bytes: usize) -> anyhow::Result<()> {
    let text = "x".repeat(bytes);
    let mut output = std::io::stdout().lock();
    let mut answer = String::new();
    for line in std::io::stdin().lock().lines() {
        let Some(id) = id_of(&line?) else { continue };
        answer.clear();
        write!(
            answer,
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\
             \"text\":\"{text}\"}}]}}}}"
        )?;
        answer.push('\n');
        output.write_all(answer.as_bytes())?;
        output.flush()?;
    }
    Ok(())
}

/// Returns the id of a request of [`McpClient`]; a notification has none.
fn id_of(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("\"id\":")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_an_id_and_a_notification_has_none() {
        assert_eq!(id_of(r#"{"id":17,"jsonrpc":"2.0"}"#), Some(17));
        assert_eq!(id_of(r#"{"method":"x","id":3}"#), Some(3));
        assert_eq!(id_of(r#"{"method":"notifications/initialized"}"#), None);
    }

    #[test]
    fn memory_is_read_from_the_status_of_a_process() {
        let status = "Name:\tlukasa\nVmSize:\t  90000 kB\nVmRSS:\t   12345 kB\n";
        assert_eq!(bytes_of(status, "VmRSS:"), Some(12_345 * 1024));
        assert_eq!(bytes_of(status, "VmHWM:"), None);
    }
}
