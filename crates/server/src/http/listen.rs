//! Listeners and connections: accepts up to a limit, and serves each with deadlines.
//!
//! Only HTTP/1.1: every client speaks it, and an event stream has a connection of its own anyway. A peer that sends
//! its head slowly, sends headers without end, or does not read its answer is disconnected. Some connections are
//! reserved for the local socket, so that clients at the address cannot use up all. Among those at the address,
//! clients without the token can only evict each other (see `connection_state.rs`).

mod lingering;

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use memory::limits::HTTP_SHUTDOWN_WAIT;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower_service::Service as _;

use self::lingering::Lingering;
use super::connection_state::{
    ConnectionLimits, ConnectionState, Peer, UnauthenticatedConnections,
};
use super::metrics::Metrics;
use crate::limits::{
    HTTP_ACCEPT_RETRY_DELAY, HTTP_CONNECTIONS_WAITING_MAX, HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_WAIT, HTTP_READ_WAIT,
};

/// A source of connections.
#[derive(Debug)]
pub enum Listener {
    /// A TCP listener.
    Address(TcpListener),
    /// A Unix socket that only programs of this user can open.
    Socket(UnixListener),
}

impl Listener {
    /// Listens at an address. Must be called in the runtime that serves it.
    pub fn at_address(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Without it, a restarted daemon could not bind its port while old connections are in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self::Address(socket.listen(HTTP_CONNECTIONS_WAITING_MAX)?))
    }

    /// Listens at a socket file, which may not exist yet.
    pub fn at_socket(path: &Path) -> io::Result<Self> {
        Ok(Self::Socket(UnixListener::bind(path)?))
    }

    /// Returns the address that was bound; `None` for a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(listener) => listener.local_addr().ok(),
            Self::Socket(_) => None,
        }
    }
}

/// The connections of a daemon, with their limits.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    router: Router,
    permits: Arc<Semaphore>,
    /// The share of `permits` for connections at the address.
    address_permits: Arc<Semaphore>,
    unauthenticated: Arc<UnauthenticatedConnections>,
    metrics: Arc<Metrics>,
    /// Cancelled at shutdown: no connection is accepted, and requests in flight are finished.
    shutdown: CancellationToken,
    connection_tasks: TaskTracker,
}

impl Connections {
    /// Returns a server for at most `connections_max` connections at a time.
    pub(super) fn new(
        router: Router,
        connections_max: usize,
        metrics: Arc<Metrics>,
        shutdown: CancellationToken,
    ) -> Self {
        let limits = ConnectionLimits::new(connections_max);
        Self {
            router,
            permits: Arc::new(Semaphore::new(limits.all)),
            address_permits: Arc::new(Semaphore::new(limits.at_address)),
            unauthenticated: UnauthenticatedConnections::new(limits.unauthenticated),
            metrics,
            shutdown,
            connection_tasks: TaskTracker::new(),
        }
    }

    /// Accepts connections until shutdown.
    pub(super) async fn accept_loop(&self, listener: &Listener) {
        loop {
            let accepted = tokio::select! {
                () = self.shutdown.cancelled() => return,
                accepted = accept(listener) => accepted,
            };
            match accepted {
                Ok((stream, peer)) => self.spawn_connection(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Most likely out of file descriptors: others have to be closed first.
                    tracing::warn!(%error, "failed to accept a connection");
                    sleep(HTTP_ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Serves a connection in a task of its own, or drops it at the limit.
    fn spawn_connection(&self, stream: Stream, peer: Peer) {
        let Some(permits) = self.acquire_permits(peer) else {
            self.metrics.record_rejected_connection();
            return;
        };
        let (state, evicted) = match peer {
            // The permissions of the socket file admit only this user.
            Peer::Socket => (ConnectionState::exempt(peer), None),
            Peer::Address(_) => {
                let (state, evicted) = self.unauthenticated.register(peer);
                (state, Some(evicted))
            }
        };
        let this = self.clone();
        self.connection_tasks.spawn(async move {
            let _gauge = this.metrics.track_connection();
            let serving = this.serve(stream, state);
            match evicted {
                None => serving.await,
                Some(evicted) => {
                    if evicted.run_until_cancelled(serving).await.is_none() {
                        this.metrics.record_rejected_connection();
                    }
                }
            }
            drop(permits);
        });
    }

    /// Acquires the permits for a connection of this peer; `None` at the limit.
    fn acquire_permits(&self, peer: Peer) -> Option<[Option<OwnedSemaphorePermit>; 2]> {
        let at_address = match peer {
            Peer::Socket => None,
            Peer::Address(_) => Some(Arc::clone(&self.address_permits).try_acquire_owned().ok()?),
        };
        Some([at_address, Some(Arc::clone(&self.permits).try_acquire_owned().ok()?)])
    }

    async fn serve(&self, stream: Stream, state: ConnectionState) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(HTTP_READ_WAIT));
        let _cancel_on_drop = state.closed().clone().drop_guard();
        let (stream, lingering) = Lingering::new(Box::pin(stream));
        let router = self.router.clone();
        let has_body = lingering.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            // Lingering is needed only when bytes of a body may be left unread.
            has_body.set(!request.body().is_end_stream());
            request.extensions_mut().insert(state.clone());
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HTTP_HEADERS_WAIT)
            // The number of headers stays at hyper's default of 100, which takes a faster path.
            .max_buf_size(HTTP_HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let result = tokio::select! {
            result = connection.as_mut() => result,
            () = self.shutdown.cancelled() => {
                // Shutdown does not wait for clients that are still sending.
                lingering.set(false);
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = result {
            // Only debug: clients disconnect all the time.
            tracing::debug!(%error, "connection failed");
        }
    }

    /// Waits until all connections are closed, which happens after `shutdown` is cancelled; at most
    /// [`HTTP_SHUTDOWN_WAIT`].
    pub(super) async fn wait_until_closed(&self) {
        self.connection_tasks.close();
        if timeout(HTTP_SHUTDOWN_WAIT, self.connection_tasks.wait()).await.is_err() {
            tracing::warn!(
                connections = self.connection_tasks.len(),
                "shutdown timeout: connections are still open"
            );
        }
    }
}

/// The byte stream of a connection.
type Stream = Box<dyn Duplex>;

/// A stream that can be read and written.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn accept(listener: &Listener) -> io::Result<(Stream, Peer)> {
    match listener {
        Listener::Address(listener) => {
            let (stream, address) = listener.accept().await?;
            // Answers are written whole, so Nagle's algorithm would only delay them. An error here means that the
            // peer is gone, which the next read reports.
            drop(stream.set_nodelay(true));
            Ok((Box::new(stream), Peer::Address(address.ip())))
        }
        Listener::Socket(listener) => {
            let (stream, _unnamed) = listener.accept().await?;
            Ok((Box::new(stream), Peer::Socket))
        }
    }
}

#[cfg(test)]
mod tests;
