//! Tests of `lukasa serve` as a process on the loopback, and the HTTP client that they use.

mod abuse;
mod concurrent_writers;
mod context_files;
mod conversations;
pub(crate) mod crash;
mod curation;
mod events;
mod mcp;
mod mcp_session;
mod memories;
mod openapi_contract;
mod page;
mod pending;
mod published_client;
mod rust_client;
mod start;
mod tasks;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use protocol::event::Envelope;
use protocol::sse;
use serde_json::Value;
use testkit::eventually;

use crate::sandbox::Sandbox;

/// The time after which any wait fails a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The bearer token of these tests.
pub(crate) const TOKEN: &str = "a-token-for-tests-only";

/// A daemon that is killed when the test ends.
pub(crate) struct Daemon {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// The line that it printed when it was ready.
    pub(crate) log_lines: Value,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

impl Daemon {
    /// Starts a daemon for the checkout of a new sandbox.
    pub(crate) fn in_new_sandbox() -> (Sandbox, Self) {
        let place = Sandbox::new();
        let daemon = Self::start(&place);
        (place, daemon)
    }

    /// Starts a daemon for the sandbox's checkout.
    pub(crate) fn start(place: &Sandbox) -> Self {
        Self::start_with(place, &[])
    }

    pub(crate) fn start_with(place: &Sandbox, args: &[&str]) -> Self {
        let mut command = Self::command(place, args);
        command.env("LUKASA_TOKEN", TOKEN);
        Self::start_by(command)
    }

    pub(crate) fn command(place: &Sandbox, args: &[&str]) -> Command {
        let mut command = place.command(&["serve", "--port", "0", "--json"]);
        command.args(args);
        // These tests must hold for tasks in a child and in this process.
        if let Some(runner) = std::env::var_os("LUKASA_TEST_RUNNER")
            && !args.contains(&"--runner")
        {
            command.arg("--runner").arg(runner);
        }
        command
    }

    /// Starts a daemon with this command, and waits until it is ready.
    pub(crate) fn start_by(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let said = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut complaint = String::new();
            child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
            panic!("the daemon did not start: {line}{complaint}")
        });
        Self { child, stdout, log_lines: said }
    }

    /// Returns its address as `host:port`.
    pub(crate) fn address(&self) -> &str {
        self.log_lines["url"].as_str().unwrap().strip_prefix("http://").unwrap()
    }

    pub(crate) fn workspace(&self, index: usize) -> &str {
        self.log_lines["workspaces"][index]["id"].as_str().unwrap()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for its end; returns its status and its output after it was ready.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }

    /// Returns its peak memory in bytes.
    pub(crate) fn memory_peak(&self) -> usize {
        crate::served::memory_peak(self.child.id())
    }

    /// Returns its process id.
    #[cfg(feature = "child")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its child processes, including ended ones that it has not reaped.
    #[cfg(feature = "child")]
    pub(crate) fn children(&self) -> Vec<u32> {
        crate::processes::children_of(self.id())
    }

    /// Kills it as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it; returns its log.
    pub(crate) fn log(mut self) -> String {
        self.signal("INT");
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        log
    }

    /// Opens a connection.
    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Prepares a request with the required headers.
    pub(crate) fn ask(&self, method: &str, path: &str) -> HttpRequest<'_> {
        let headers = vec![
            ("Host".to_owned(), "localhost".to_owned()),
            ("Authorization".to_owned(), format!("Bearer {TOKEN}")),
        ];
        let line = format!("{method} {path}");
        HttpRequest { daemon: self, line, headers, body: Vec::new() }
    }

    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.ask("GET", path).send()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> HttpResponse {
        self.ask("POST", path).json(body).send()
    }

    /// Starts a task and waits for its end.
    pub(crate) fn task(&self, kind: &str, body: &Value) -> Value {
        let asked = self.post(&format!("/workspace/memory/{kind}"), body);
        assert_eq!(asked.status, 202, "{}", asked.text());
        self.finished(kind, asked.json()["taskId"].as_str().unwrap(), None)
    }

    /// Polls a task to its end.
    pub(crate) fn finished(&self, kind: &str, id: &str, client: Option<&str>) -> Value {
        eventually(|| {
            let mut ask = self.ask("GET", &format!("/workspace/memory/{kind}/{id}"));
            if let Some(client) = client {
                ask = ask.header("X-Qwen-Client-Id", client);
            }
            let task = ask.send().json();
            let has_ended = task["status"] == "completed" || task["status"] == "failed";
            if has_ended { Ok(task) } else { Err(task) }
        })
    }

    /// Waits until the task at a path has a status.
    pub(crate) fn wait_for_status(&self, path: &str, status: &str) {
        eventually(|| {
            let task = self.get(path).json();
            if task["status"] == status { Ok(()) } else { Err(task) }
        });
    }

    /// Starts a session; returns its id and its client's id.
    pub(crate) fn session(&self) -> (String, String) {
        let session = self.post("/session", &serde_json::json!({}));
        assert_eq!(session.status, 200, "{}", session.text());
        let session = session.json();
        let text = |name: &str| session[name].as_str().unwrap().to_owned();
        (text("sessionId"), text("clientId"))
    }

    /// Opens a stream of events.
    pub(crate) fn stream(&self, path: &str, headers: &[(&str, &str)]) -> EventStreamReader {
        let mut ask = self.ask("GET", path);
        for (name, value) in headers {
            ask = ask.header(name, value);
        }
        EventStreamReader::open(ask)
    }
}

/// A request that is about to be sent.
pub(crate) struct HttpRequest<'a> {
    daemon: &'a Daemon,
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    head: String,
    body: Vec<u8>,
}

impl HttpRequest<'_> {
    /// Sets a header and replaces an existing one.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Leaves a header out.
    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json").bytes(body.to_string().as_bytes())
    }

    pub(crate) fn bytes(mut self, body: &[u8]) -> Self {
        self.body = body.to_vec();
        self
    }

    /// Sends it over a new connection. With HTTP/1.0 the connection ends with the answer.
    pub(crate) fn open(self) -> TcpStream {
        use std::fmt::Write as _;
        let mut stream = self.daemon.connect();
        let mut head = format!("{} HTTP/1.0\r\n", self.line);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "Content-Length: {}\r\n\r\n", self.body.len()).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // The daemon may close the connection of a refused request before the body is complete.
        stream.write_all(&self.body).unwrap_or_default();
        stream
    }

    pub(crate) fn send(self) -> HttpResponse {
        let mut bytes = Vec::new();
        // The answer counts even if the connection was reset after it.
        self.open().read_to_end(&mut bytes).map(drop).unwrap_or_default();
        HttpResponse::parse(&bytes)
    }

    /// Sends it and returns status and code of the answer.
    pub(crate) fn code(self) -> (u16, String) {
        let answer = self.send();
        let code = answer.json()["code"].as_str().unwrap_or("-").to_owned();
        (answer.status, code)
    }
}

impl HttpResponse {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer: {}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, head, body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.text()))
    }

    /// Returns the lines of its headers.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &str> {
        self.head.lines().skip(1)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers().find_map(|line| {
            let (known, value) = line.split_once(": ")?;
            known.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// A stream of events that a thread reads.
pub(crate) struct EventStreamReader {
    pub(crate) head: HttpResponse,
    events: Receiver<Envelope>,
    connection: TcpStream,
}

impl EventStreamReader {
    fn open(ask: HttpRequest<'_>) -> Self {
        let stream = ask.open();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            assert_ne!(reader.read_until(b'\n', &mut head).unwrap(), 0, "the stream ended");
        }
        let head = HttpResponse::parse(&head);
        let (sender, events) = channel();
        // The thread ends with the connection.
        std::thread::spawn(move || {
            let mut frames = sse::FrameReader::default();
            let mut bytes = [0; 4_096];
            loop {
                match reader.read(&mut bytes) {
                    Ok(count) if count > 0 => {
                        for frame in frames.push(&bytes[..count]).unwrap() {
                            let envelope: Envelope = serde_json::from_str(&frame.data).unwrap();
                            assert_eq!(
                                (frame.id, frame.event.as_str()),
                                (envelope.id, envelope.event.as_ref())
                            );
                            if sender.send(envelope).is_err() {
                                return;
                            }
                        }
                    }
                    _ => return,
                }
            }
        });
        Self { head, events, connection: stream }
    }

    /// Waits for the next event; `None` when the stream has ended.
    pub(crate) fn next(&self) -> Option<Envelope> {
        match self.events.recv_timeout(PATIENCE) {
            Ok(envelope) => Some(envelope),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("no event came"),
        }
    }

    /// Waits for the next event; `None` when none comes, or the stream has ended.
    pub(crate) fn next_if_any(&self) -> Option<Envelope> {
        self.events.recv_timeout(PATIENCE).ok()
    }

    /// Cuts the connection.
    pub(crate) fn cut(self) {
        self.connection.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

/// Returns the path of the daemon's socket in a sandbox.
pub(crate) fn socket(place: &Sandbox) -> PathBuf {
    place.home().join("state/daemon.sock")
}
