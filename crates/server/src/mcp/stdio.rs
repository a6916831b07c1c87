//! JSON-RPC messages, one a line, over a pair of byte streams.
//!
//! What comes in is not trusted: a line has a longest length, and whatever is no message is
//! answered as JSON-RPC asks or left out, so that a client neither crashes nor hangs the server.
//! What goes out is written by one task, in order, so that nobody who stops waiting leaves half a
//! line. Knows nothing of what messages mean.

use std::collections::VecDeque;
use std::io;

use memory::json;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::limits::{MCP_LINE_BYTES_MAX, MCP_LINES_WAITING_MAX};
use crate::line_reader::{LineRead, LineReader};

/// One client's end, as the protocol library reads and writes it.
pub(super) struct StdioTransport<R> {
    lines: LineReader<BufReader<R>>,
    /// Messages that came in one line and are not handed over yet.
    waiting: VecDeque<ClientJsonRpcMessage>,
    /// Whether a request came. What is no request means nothing before the first one.
    has_seen_request: bool,
    outgoing: Option<mpsc::Sender<Vec<u8>>>,
    /// Cancelled from outside to stop reading, and from here when there is no more to read.
    shutdown: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin + 'static> StdioTransport<R> {
    /// Opens a wire, with the task that writes to it; that ends when the wire is gone.
    pub(super) fn open<W>(input: R, output: W, ending: CancellationToken) -> (Self, JoinHandle<()>)
    where
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (outgoing, queued) = mpsc::channel(MCP_LINES_WAITING_MAX);
        let writer = tokio::spawn(write(output, queued, ending.clone()));
        let lines = LineReader::new(BufReader::new(input), MCP_LINE_BYTES_MAX);
        let waiting = VecDeque::new();
        (
            Self {
                lines,
                waiting,
                has_seen_request: false,
                outgoing: Some(outgoing),
                shutdown: ending,
            },
            writer,
        )
    }

    /// Takes the messages of one line; says what is wrong with the others.
    fn queue_line(&mut self, line: &[u8]) {
        for read in read_line(line) {
            match read {
                Ok(message) => {
                    self.has_seen_request |= matches!(message, JsonRpcMessage::Request(_));
                    if self.has_seen_request {
                        self.waiting.push_back(message);
                    }
                }
                Err(refusal) => self.refuse(refusal),
            }
        }
    }

    /// Says that something was no message, unless the client is not reading: then it does not care.
    fn refuse(&self, InvalidMessage { id, error }: InvalidMessage) {
        let sent = encode(&JsonRpcMessage::error(error, id)).map(|line| {
            self.outgoing.as_ref().is_some_and(|outgoing| outgoing.try_send(line).is_ok())
        });
        if !sent.is_ok_and(|sent| sent) {
            tracing::warn!("could not tell the client that it sent something that is no message");
        }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Transport<RoleServer> for StdioTransport<R> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let closed = || io::Error::from(io::ErrorKind::BrokenPipe);
            let line = encode(&message)?;
            outgoing.ok_or_else(closed)?.send(line).await.map_err(|_| closed())
        }
    }

    /// Returns the next message. Safe to drop at any time: what was read so far is kept.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(message);
            }
            let read = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => return None,
                read = self.lines.next() => read,
            };
            match read {
                LineRead::Line(line) => self.queue_line(&line),
                LineRead::TooLong => {
                    let what = format!("a message is at most {MCP_LINE_BYTES_MAX} bytes long");
                    self.refuse(InvalidMessage::invalid_request(None, what));
                    self.shutdown.cancel();
                }
                LineRead::End => self.shutdown.cancel(),
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        Ok(())
    }
}

fn encode(message: &ServerJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Writes what is queued until nobody can queue more. When the client is gone, so is the reason to
/// go on reading.
async fn write<W: AsyncWrite + Unpin>(
    mut output: W,
    mut queued: mpsc::Receiver<Vec<u8>>,
    ending: CancellationToken,
) {
    while let Some(line) = queued.recv().await {
        let written = async {
            output.write_all(&line).await?;
            if queued.is_empty() { output.flush().await } else { Ok(()) }
        };
        if let Err(error) = written.await {
            tracing::debug!(%error, "the client no longer reads");
            ending.cancel();
            return;
        }
    }
}

/// Why something in a line was no message.
#[derive(Debug, PartialEq)]
pub(super) struct InvalidMessage {
    /// The request that it was meant to be, if that can be told.
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

impl From<ErrorData> for InvalidMessage {
    fn from(error: ErrorData) -> Self {
        Self { id: None, error }
    }
}

impl InvalidMessage {
    fn invalid_request(id: Option<RequestId>, what: String) -> Self {
        Self { id, error: ErrorData::invalid_request(what, None) }
    }
}

/// Reads the messages of a line. An array is a batch, which revision 2025-03-26 allows; each of its
/// messages is answered by itself.
pub(super) fn read_line(line: &[u8]) -> Vec<Result<ClientJsonRpcMessage, InvalidMessage>> {
    if line.is_empty() {
        return Vec::new();
    }
    if let Ok(message) = serde_json::from_slice(line) {
        return vec![Ok(message)];
    }
    let mended = json::mend(line);
    match serde_json::from_slice(&mended) {
        Ok(Value::Array(batch)) if !batch.is_empty() => {
            batch.into_iter().filter_map(read_value).collect()
        }
        Ok(other) => read_value(other).into_iter().collect(),
        Err(error) => {
            let what = format!("not JSON: {error}");
            vec![Err(InvalidMessage { id: None, error: ErrorData::parse_error(what, None) })]
        }
    }
}

/// Reads one message; `None` when it is nothing that asks for an answer.
fn read_value(value: Value) -> Option<Result<ClientJsonRpcMessage, InvalidMessage>> {
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    let notifies = value.get("method").is_some_and(Value::is_string) && value.get("id").is_none();
    match serde_json::from_value(value) {
        Ok(message) => Some(Ok(message)),
        Err(_) if notifies => None,
        Err(_) => {
            Some(Err(InvalidMessage::invalid_request(id, "not a JSON-RPC message".to_owned())))
        }
    }
}

#[cfg(test)]
mod tests;
