//! The asynchronous HTTP connection of the load, and the reader of one event stream.
//!
//! Both parse only what the load needs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Context as _;
use protocol::sse::{Frame, FrameReader};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use crate::http::TOKEN;

/// The receive buffer of a slow reader's socket, small so that its stream blocks early.
const SLOW_BUFFER_BYTES: u32 = 4 * 1024;

/// The answer to a request.
#[derive(Debug)]
pub(super) struct HttpResponse {
    pub(super) status: u16,
    headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl HttpResponse {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A kept connection; requests are sent one after the other.
#[derive(Debug)]
pub(super) struct LoadConnection {
    stream: TcpStream,
    read: Vec<u8>,
}

impl LoadConnection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, read: Vec::new() })
    }

    /// Sends a request with additional header lines and reads its answer.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        extra_headers: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<HttpResponse> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\n{extra_headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let (status, headers) = head(&mut self.stream, &mut self.read).await?;
        let length: usize = headers.get("content-length").map_or(Ok(0), |length| length.parse())?;
        while self.read.len() < length {
            anyhow::ensure!(
                self.stream.read_buf(&mut self.read).await? > 0,
                "the server closed the connection in the middle of an answer"
            );
        }
        let rest = self.read.split_off(length);
        Ok(HttpResponse { status, headers, body: std::mem::replace(&mut self.read, rest) })
    }
}

/// Reads the head of an answer; the bytes after it stay in `read`.
async fn head(
    stream: &mut TcpStream,
    read: &mut Vec<u8>,
) -> anyhow::Result<(u16, BTreeMap<String, String>)> {
    let end = loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        anyhow::ensure!(stream.read_buf(read).await? > 0, "the server closed the connection");
    };
    let rest = read.split_off(end);
    let text = String::from_utf8(std::mem::replace(read, rest))?;
    let status = text.split(' ').nth(1).context("the status line has no status")?.parse()?;
    let fields = text.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
    Ok((status, fields.collect()))
}

/// A reader of an event stream, with its position.
#[derive(Debug)]
pub(super) struct SseStream {
    stream: TcpStream,
    frames: FrameReader,
    waiting: std::vec::IntoIter<Frame>,
    path: String,
    epoch: String,
    /// The number of the last event that it received.
    pub(super) last: u64,
}

impl SseStream {
    /// Opens a stream that starts now. A slow reader gets a small receive buffer.
    pub(super) async fn open(address: SocketAddr, path: &str, slow: bool) -> anyhow::Result<Self> {
        Self::begin(address, path.to_owned(), "", slow).await
    }

    /// Opens the stream again after the last received event.
    pub(super) async fn reconnect(self, address: SocketAddr) -> anyhow::Result<Self> {
        let Self { path, epoch, last, .. } = self;
        let position_headers = format!("Last-Event-ID: {last}\r\nX-Qwen-Event-Epoch: {epoch}\r\n");
        Ok(Self { last, ..Self::begin(address, path, &position_headers, false).await? })
    }

    async fn begin(
        address: SocketAddr,
        path: String,
        position_headers: &str,
        slow: bool,
    ) -> anyhow::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        if slow {
            socket.set_recv_buffer_size(SLOW_BUFFER_BYTES)?;
        }
        let mut stream = socket.connect(address).await?;
        // HTTP/1.0, because its answer has no chunk headers between the frames.
        let request = format!(
            "GET {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{position_headers}\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut read = Vec::new();
        let (status, headers) = head(&mut stream, &mut read).await?;
        anyhow::ensure!(status == 200, "the stream was answered with status {status}");
        let header = |name: &str| {
            headers.get(name).with_context(|| format!("the answer has no header `{name}`"))
        };
        let last = header("x-lukasa-event-cursor")?.parse()?;
        let epoch = header("x-qwen-event-epoch")?.clone();
        let mut frames = FrameReader::default();
        let waiting = frames.push(&read)?.into_iter();
        Ok(Self { stream, frames, waiting, path, epoch, last })
    }

    /// Waits for the next frame; `None` when the stream has ended or failed.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.waiting.next() {
                return Ok(Some(frame));
            }
            let mut bytes = Vec::with_capacity(16 * 1024);
            match self.stream.read_buf(&mut bytes).await {
                Ok(count) if count > 0 => self.waiting = self.frames.push(&bytes)?.into_iter(),
                _ => return Ok(None),
            }
        }
    }
}
