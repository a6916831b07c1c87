//! Connections: taken one by one, as many as there may be, each with deadlines.
//!
//! HTTP/1.1 alone: every client here speaks it, and a stream of events has a connection of its own
//! anyway. A peer that sends its request line slowly, sends headers without end, or does not read
//! what it is told, is cut off, so that it costs a little memory for a little while. Whoever reaches the
//! address takes no connection from the socket, and without the token none from those who have it.

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
use super::connection_state::{ConnectionState, Peer, UnauthenticatedConnections};
use super::metrics::Metrics;
use crate::limits::{
    HTTP_ACCEPT_RETRY_DELAY, HTTP_CONNECTIONS_WAITING_MAX, HTTP_HEADER_BYTES_MAX,
    HTTP_HEADERS_WAIT, HTTP_READ_WAIT, HTTP_SOCKET_CONNECTIONS_RESERVED, HTTP_UNAUTHENTICATED_MAX,
};

/// Where connections come in.
#[derive(Debug)]
pub enum Listener {
    /// At an address.
    Address(TcpListener),
    /// At a socket that this person's programs alone can open.
    Socket(UnixListener),
}

impl Listener {
    /// Listens at an address. Belongs to the runtime that this is called in.
    pub fn at_address(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A daemon that starts anew takes its port back although old connections are remembered there.
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

/// Serves connections.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    router: Router,
    permits: Arc<Semaphore>,
    /// How much of the room those at the address may take.
    address_permits: Arc<Semaphore>,
    unauthenticated: Arc<UnauthenticatedConnections>,
    metrics: Arc<Metrics>,
    /// Cancelled when nothing new is taken and what is under way comes to its end.
    shutdown: CancellationToken,
    connection_tasks: TaskTracker,
}

impl Connections {
    /// Returns a server for as many connections at a time.
    pub(super) fn new(
        router: Router,
        connections_max: usize,
        measures: Arc<Metrics>,
        ending: CancellationToken,
    ) -> Self {
        // Where there are few at all, the shares are small too.
        let kept = HTTP_SOCKET_CONNECTIONS_RESERVED.min(connections_max / 4);
        let at_address = connections_max - kept;
        Self {
            router,
            permits: Arc::new(Semaphore::new(connections_max)),
            address_permits: Arc::new(Semaphore::new(at_address)),
            unauthenticated: UnauthenticatedConnections::new(
                HTTP_UNAUTHENTICATED_MAX.min(at_address / 2).max(1),
            ),
            metrics: measures,
            shutdown: ending,
            connection_tasks: TaskTracker::new(),
        }
    }

    /// Takes connections until the end.
    pub(super) async fn accept_loop(&self, listener: &Listener) {
        loop {
            let taken = tokio::select! {
                () = self.shutdown.cancelled() => return,
                taken = accept(listener) => taken,
            };
            match taken {
                Ok((stream, peer)) => self.spawn_connection(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    // Out of files, most likely: others have to close theirs first.
                    tracing::warn!(%error, "a connection could not be taken");
                    sleep(HTTP_ACCEPT_RETRY_DELAY).await;
                }
            }
        }
    }

    /// Serves a connection beside the others, or drops it when there is no room.
    fn spawn_connection(&self, stream: Stream, peer: Peer) {
        let Some(room) = self.acquire_permits(peer) else {
            self.metrics.record_rejected_connection();
            return;
        };
        let (visitor, cut_off) = match peer {
            // The socket's file lets nobody but this person in.
            Peer::Socket => (ConnectionState::exempt(peer), None),
            Peer::Address(_) => {
                let (visitor, cut_off) = self.unauthenticated.register(peer);
                (visitor, Some(cut_off))
            }
        };
        let this = self.clone();
        self.connection_tasks.spawn(async move {
            let _open = this.metrics.track_connection();
            let serving = this.serve(stream, visitor);
            match cut_off {
                None => serving.await,
                Some(cut_off) => {
                    if cut_off.run_until_cancelled(serving).await.is_none() {
                        this.metrics.record_rejected_connection();
                    }
                }
            }
            drop(room);
        });
    }

    /// Returns room for one more connection, if there is some for those who come this way.
    fn acquire_permits(&self, peer: Peer) -> Option<[Option<OwnedSemaphorePermit>; 2]> {
        let at_address = match peer {
            Peer::Socket => None,
            Peer::Address(_) => Some(Arc::clone(&self.address_permits).try_acquire_owned().ok()?),
        };
        Some([at_address, Some(Arc::clone(&self.permits).try_acquire_owned().ok()?)])
    }

    async fn serve(&self, stream: Stream, visitor: ConnectionState) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(HTTP_READ_WAIT));
        let _gone = visitor.closed().clone().drop_guard();
        let (stream, lingering) = Lingering::new(Box::pin(stream));
        let router = self.router.clone();
        let has_body = lingering.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            // Without a body there is nothing that could be left unread.
            has_body.set(!request.body().is_end_stream());
            request.extensions_mut().insert(visitor.clone());
            router.clone().call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HTTP_HEADERS_WAIT)
            // At most 100 headers, which hyper takes when nothing is said, and is quicker then.
            .max_buf_size(HTTP_HEADER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.shutdown.cancelled() => {
                // The end of the daemon waits for no client.
                lingering.set(false);
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            // Whoever went away, or was cut off, is not told; nobody else need care.
            tracing::debug!(%error, "a connection broke");
        }
    }

    /// Waits for the connections to end, which they do once `ending` is cancelled.
    pub(super) async fn wait_until_closed(&self) {
        self.connection_tasks.close();
        if timeout(HTTP_SHUTDOWN_WAIT, self.connection_tasks.wait()).await.is_err() {
            tracing::warn!(
                connections = self.connection_tasks.len(),
                "gave up waiting for connections"
            );
        }
    }
}

/// The bytes of a connection.
type Stream = Box<dyn Duplex>;

/// Something that is read and written.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

async fn accept(listener: &Listener) -> io::Result<(Stream, Peer)> {
    match listener {
        Listener::Address(listener) => {
            let (stream, address) = listener.accept().await?;
            // Answers are written whole: waiting for more to send would only delay them. Whoever is gone
            // already cannot be told so, and is noticed soon.
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
