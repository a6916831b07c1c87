//! A minimal HTTP client over one kept connection, and a bare server to compare the daemon with.
//!
//! The client parses only what the measurements need, so that its own work hardly shows in the times.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::routing::get;
use serde_json::Value;

/// The bearer token of all requests.
pub(crate) const TOKEN: &str = "a-token-for-measuring-only";

/// A server in a child process; the first line of its output holds its address.
#[derive(Debug)]
pub(crate) struct HttpServerProcess {
    child: Child,
    /// `host:port`.
    pub(crate) address: String,
    /// The time from the start of the process to that line.
    pub(crate) ready_after: Duration,
}

impl HttpServerProcess {
    /// Starts the daemon at `lukasa` for these workspaces, the first of which is primary.
    pub(crate) fn daemon(
        lukasa: &Path,
        home: &Path,
        workspaces: &[std::path::PathBuf],
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(lukasa);
        command.args(["serve", "--port", "0", "--json", "--rate-limit", "1000000"]);
        for workspace in workspaces {
            command.arg("--workspace").arg(workspace);
        }
        command.env("LUKASA_HOME", home).env("LUKASA_TOKEN", TOKEN).current_dir(home);
        Self::start(&mut command)
    }

    /// Starts this program as a bare server.
    pub(crate) fn bare(bytes: usize) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        Self::start(command.args(["--bare-http", &bytes.to_string()]))
    }

    fn start(command: &mut Command) -> anyhow::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let mut line = String::new();
        let output = child.stdout.take().context("the child has no output")?;
        BufReader::new(output).read_line(&mut line)?;
        let ready_after = started.elapsed();
        let announced: Value = serde_json::from_str(&line).with_context(|| {
            format!("{command:?} did not print its address as JSON; its first line is: {line}")
        })?;
        let url = announced["url"].as_str().context("the first line of the server has no `url`")?;
        let address = url.trim_start_matches("http://").to_owned();
        Ok(Self { child, address, ready_after })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn connect(&self) -> anyhow::Result<HttpConnection> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(HttpConnection { stream: BufReader::new(stream), line: String::new(), body: Vec::new() })
    }
}

impl Drop for HttpServerProcess {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns a request with the headers that the daemon requires.
pub(crate) fn request(method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{kind}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// One connection; requests are sent one after the other.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    stream: BufReader<TcpStream>,
    line: String,
    body: Vec<u8>,
}

impl HttpConnection {
    /// Sends a request and reads its answer; returns the status.
    pub(crate) fn exchange(&mut self, request: &[u8]) -> anyhow::Result<u16> {
        self.stream.get_mut().write_all(request)?;
        let status = self.head()?;
        let mut length = 0;
        while self.next_line()? {
            let lower = self.line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        self.body.resize(length, 0);
        self.stream.read_exact(&mut self.body)?;
        Ok(status)
    }

    /// Sends a request that must be answered with `status`; returns the body as JSON.
    pub(crate) fn ask(&mut self, request: &[u8], status: u16) -> anyhow::Result<Value> {
        let answered = self.exchange(request)?;
        let body = String::from_utf8_lossy(&self.body);
        anyhow::ensure!(answered == status, "expected status {status}, got {answered}: {body}");
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }

    /// Returns the body of the last answer as JSON.
    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// Opens a stream of events, which the caller reads.
    pub(crate) fn listen(mut self, path: &str) -> anyhow::Result<Self> {
        self.stream.get_mut().write_all(&request("GET", path, None))?;
        let status = self.head()?;
        anyhow::ensure!(status == 200, "the stream was answered with status {status}");
        while self.next_line()? {}
        Ok(self)
    }

    /// Returns the connection for a runtime to read on; what was read ahead is lost.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    fn head(&mut self) -> anyhow::Result<u16> {
        anyhow::ensure!(self.next_line()?, "the server sent an empty status line");
        let status = self.line.split(' ').nth(1).context("the status line has no status")?;
        Ok(status.parse()?)
    }

    /// Reads a line; returns whether it holds anything.
    fn next_line(&mut self) -> anyhow::Result<bool> {
        self.line.clear();
        anyhow::ensure!(
            self.stream.read_line(&mut self.line)? > 0,
            "the server closed the connection"
        );
        Ok(!self.line.trim_end().is_empty())
    }
}

/// Answers every request with a text of `bytes` bytes, from a route of axum that does nothing else.
pub(crate) fn serve_bare(bytes: usize) -> anyhow::Result<()> {
    // The kind of runtime that the daemon uses too.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        writeln!(std::io::stdout(), "{}", serde_json::json!({ "url": url }))?;
        let text = "x".repeat(bytes);
        let app = Router::new().route("/", get(async move || text.clone()));
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            drop(stream.set_nodelay(true));
        });
        axum::serve(listener, app).await?;
        Ok(())
    })
}
