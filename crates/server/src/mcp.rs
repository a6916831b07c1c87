//! The Model Context Protocol: memories as a tool and as resources, to one client over a pair of streams
//! or to many over HTTP.
//!
//! The revisions from 2024-11-05 to 2026-07-28 are served. Nothing that a request needs is kept
//! from one request to the next, but for what the older revisions put into their handshake: the
//! client's name and its roots. The protocol library is named here and in `error`, and nowhere else.
//!
//! Not done here: what a command does (`store`), how its result reads (`memory::tool`), where the
//! roots lie (the command line says so in a [`McpConfig`]).

mod accept;
mod caller;
mod changes;
mod connection;
mod elicitation;
mod endpoint;
#[cfg(test)]
pub(crate) mod fixture;
mod prompts;
mod resources;
mod roots;
mod sessions;
mod stdio;
mod tools;

use std::io;

use futures_util::FutureExt as _;
use memory::limits::MCP_SHUTDOWN_WAIT;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::connection::McpConfig;
pub use self::roots::ProjectSource;

pub(crate) use self::accept::is_stream;
pub(crate) use self::caller::{CLASSES, KeepAlive, SESSION_HEADER};
pub(crate) use self::endpoint::{McpEndpoint, is_in_session};
pub(crate) use self::roots::ExplicitWorkspace;
pub(crate) use self::sessions::TooManySessions;

use self::connection::Connection;
use self::stdio::StdioTransport;

use crate::limits::{MCP_FLUSH_WAIT, MCP_PARENT_INTERVAL};

/// Why serving ended before the client was done.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The streams or the signals of this process cannot be used.
    #[error("cannot serve over standard input and output")]
    Stdio(#[source] io::Error),
    /// The first messages were not those of a client.
    #[error("the client did not begin as the protocol demands")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server itself failed.
    #[error("the server stopped in the middle of its work")]
    Crashed(#[source] tokio::task::JoinError),
}

/// Serves the client at standard input and output until it closes its end or the process gets
/// SIGINT or SIGTERM; requests in flight are answered first, and a second signal does not wait. The death of
/// the parent process ends it as a signal does: another process may hold the pipe open for ever.
///
/// Nothing but protocol is written to standard output. Wants a runtime with IO and time enabled; a
/// current-thread one is quickest. End that runtime with `shutdown_background`: where standard input
/// is no pipe, a thread may still wait in a read that nobody will answer.
///
/// Keep the log target `rmcp` at `warn` or above: below that it logs whole requests.
pub async fn serve_stdio(host: McpConfig) -> Result<(), ServeError> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Stdio)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Stdio)?;
    let (input, output) = rmcp::transport::stdio_pipes();
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(serve(host, input, output, stop.clone()));
    let mut orphaned = std::pin::pin!(wait_for_parent_change(rustix::process::getppid).fuse());
    loop {
        tokio::select! {
            ended = &mut serving => return ended,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = &mut orphaned => tracing::info!("the parent process has ended"),
        }
        if stop.is_cancelled() {
            return Ok(());
        }
        stop.cancel();
    }
}

/// Waits until this process has another parent than now: its own has ended. No signal tells of that, so it is
/// looked up from time to time.
async fn wait_for_parent_change<P: PartialEq>(parent: impl Fn() -> P) {
    let first = parent();
    while parent() == first {
        tokio::time::sleep(MCP_PARENT_INTERVAL).await;
    }
}

/// Serves one client over a pair of streams, one JSON-RPC message a line, until its end of `input`
/// or until `stop` is cancelled. Requests in flight are answered first, if they take no longer than
/// five seconds (the protocol library's own deadline), and a write that has begun is finished.
pub async fn serve<R, W>(
    host: McpConfig,
    input: R,
    output: W,
    stop: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let ending = stop.child_token();
    let connection = Connection::new(host, ending.clone());
    let calls = connection.calls();
    let (wire, mut writer) = StdioTransport::open(input, output, ending);
    let ended = match connection.serve(wire).await {
        Ok(running) => running.waiting().await.map(drop).map_err(ServeError::Crashed),
        // A client that leaves before it said anything is no error.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(refused) => Err(ServeError::Handshake(refused.into())),
    };
    calls.close();
    if timeout(MCP_SHUTDOWN_WAIT, calls.wait()).await.is_err() {
        tracing::warn!(calls = calls.len(), "gave up waiting for tool calls in flight");
    }
    if timeout(MCP_FLUSH_WAIT, &mut writer).await.is_err() {
        writer.abort();
    }
    ended
}
