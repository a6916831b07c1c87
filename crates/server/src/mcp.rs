//! The Model Context Protocol (MCP) server: memories as tools, resources and prompts, for one client over a pair of
//! streams or for many over HTTP.
//!
//! It serves the revisions from 2024-11-05 to 2026-07-28. The only state between requests is that of the handshake of
//! older revisions: the client's name and its roots. The protocol library (`rmcp`) is used only in this module and in
//! `error`.
//!
//! Commands are executed by `store`, their results are worded by `memory::tool`, and the location of the memories
//! comes from the command line in a [`McpConfig`].

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

/// An error that ends serving before the client disconnects.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The standard streams or the signal handlers cannot be set up.
    #[error("cannot serve over standard input and output")]
    Stdio(#[source] io::Error),
    /// The first messages were not a valid handshake.
    #[error("the client did not begin with a valid MCP handshake")]
    Handshake(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The task of the server panicked or was aborted.
    #[error("the MCP server crashed")]
    Crashed(#[source] tokio::task::JoinError),
}

/// Serves the client at standard input and output until it closes its end or the process gets SIGINT or SIGTERM.
/// Requests in flight are answered first; a second signal ends the process at once. The end of the parent process
/// counts as a signal, because another process may keep the pipe open forever.
///
/// Only protocol messages are written to standard output. Needs a runtime with IO and time enabled; a
/// current-thread one is fastest. Shut that runtime down with `shutdown_background`: if standard input is not a pipe, a
/// thread may still block in a read.
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
            () = &mut orphaned => tracing::info!("the parent process has ended; shutting down"),
        }
        if stop.is_cancelled() {
            return Ok(());
        }
        stop.cancel();
    }
}

/// Waits until the parent of this process changes, which happens when it ends. There is no signal for that, so the
/// parent is polled.
async fn wait_for_parent_change<P: PartialEq>(parent: impl Fn() -> P) {
    let first = parent();
    while parent() == first {
        tokio::time::sleep(MCP_PARENT_INTERVAL).await;
    }
}

/// Serves one client over a pair of streams, one JSON-RPC message per line, until `input` ends or `stop` is cancelled.
/// Requests in flight are answered first, within five seconds (a time limit of the protocol library). A write that has
/// begun is finished.
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
    let shutdown = stop.child_token();
    let connection = Connection::new(host, shutdown.clone());
    let calls = connection.calls();
    let (wire, mut writer) = StdioTransport::open(input, output, shutdown);
    let result = match connection.serve(wire).await {
        Ok(running) => running.waiting().await.map(drop).map_err(ServeError::Crashed),
        // A client that disconnects before its first message is not an error.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(refused) => Err(ServeError::Handshake(refused.into())),
    };
    calls.close();
    if timeout(MCP_SHUTDOWN_WAIT, calls.wait()).await.is_err() {
        tracing::warn!(calls = calls.len(), "shutdown timeout: tool calls are still running");
    }
    if timeout(MCP_FLUSH_WAIT, &mut writer).await.is_err() {
        writer.abort();
    }
    result
}
