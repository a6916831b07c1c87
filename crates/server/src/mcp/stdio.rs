//! The transport of JSON-RPC messages, one per line, over a pair of byte streams.
//!
//! Input is not trusted, so that a client can neither crash nor hang the server. Lines have a maximal length; an
//! invalid message is answered with a JSON-RPC error or dropped. Output is written by a single task in order, so
//! that a cancelled sender never leaves a partial line. The module does not interpret messages.

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

/// The transport of one client, for the protocol library.
pub(super) struct StdioTransport<R> {
    lines: LineReader<BufReader<R>>,
    /// Messages of a batch that are not received yet.
    waiting: VecDeque<ClientJsonRpcMessage>,
    /// Whether a request was received. Notifications and answers before the first request are dropped.
    has_seen_request: bool,
    outgoing: Option<mpsc::Sender<Vec<u8>>>,
    /// Cancelled from outside to stop reading, and here at the end of the input.
    shutdown: CancellationToken,
}

impl<R: AsyncRead + Send + Unpin + 'static> StdioTransport<R> {
    /// Opens a transport and spawns its writer task, which ends when the transport is dropped.
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

    /// Queues the valid messages of a line, and answers the invalid ones with errors.
    fn queue_line(&mut self, line: &[u8]) {
        for result in read_line(line) {
            match result {
                Ok(message) => {
                    self.has_seen_request |= matches!(message, JsonRpcMessage::Request(_));
                    if self.has_seen_request {
                        self.waiting.push_back(message);
                    }
                }
                Err(invalid) => self.refuse(invalid),
            }
        }
    }

    /// Sends an error for an invalid message. It is dropped if the output queue is full, because the client is not
    /// reading.
    fn refuse(&self, InvalidMessage { id, error }: InvalidMessage) {
        let sent = encode(&JsonRpcMessage::error(error, id)).map(|line| {
            self.outgoing.as_ref().is_some_and(|outgoing| outgoing.try_send(line).is_ok())
        });
        if !sent.is_ok_and(|sent| sent) {
            tracing::warn!("failed to answer an invalid message: the client does not read");
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

    /// Returns the next message. Cancel-safe: a partial line is kept.
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
                    let message = format!("a message is at most {MCP_LINE_BYTES_MAX} bytes long");
                    self.refuse(InvalidMessage::invalid_request(None, message));
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

/// Writes queued lines until the transport is dropped. A write error means that the client is gone, so it also stops
/// reading.
async fn write<W: AsyncWrite + Unpin>(
    mut output: W,
    mut queued: mpsc::Receiver<Vec<u8>>,
    ending: CancellationToken,
) {
    while let Some(line) = queued.recv().await {
        let result = async {
            output.write_all(&line).await?;
            if queued.is_empty() { output.flush().await } else { Ok(()) }
        };
        if let Err(error) = result.await {
            tracing::debug!(%error, "write failed: the client has closed its input");
            ending.cancel();
            return;
        }
    }
}

/// An invalid message, with the error for its sender.
#[derive(Debug, PartialEq)]
pub(super) struct InvalidMessage {
    /// The id of the request, if it can be determined.
    pub(super) id: Option<RequestId>,
    pub(super) error: ErrorData,
}

impl From<ErrorData> for InvalidMessage {
    fn from(error: ErrorData) -> Self {
        Self { id: None, error }
    }
}

impl InvalidMessage {
    fn invalid_request(id: Option<RequestId>, message: String) -> Self {
        Self { id, error: ErrorData::invalid_request(message, None) }
    }
}

/// Parses the messages of a line. An array is a batch, which revision 2025-03-26 allows; each of its messages is
/// answered separately.
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
            let message = format!("not JSON: {error}");
            vec![Err(InvalidMessage { id: None, error: ErrorData::parse_error(message, None) })]
        }
    }
}

/// Parses one message; `None` for an invalid notification, which gets no answer.
fn read_value(value: Value) -> Option<Result<ClientJsonRpcMessage, InvalidMessage>> {
    let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
    let is_notification =
        value.get("method").is_some_and(Value::is_string) && value.get("id").is_none();
    match serde_json::from_value(value) {
        Ok(message) => Some(Ok(message)),
        Err(_) if is_notification => None,
        Err(_) => {
            Some(Err(InvalidMessage::invalid_request(id, "not a JSON-RPC message".to_owned())))
        }
    }
}

#[cfg(test)]
mod tests;
