//! By which way a daemon is reached, and a connection to it.
//!
//! Requests go through hyper itself. Clients above it take URLs, and a parser of URLs resolves `..` in the path of a memory
//! before the daemon can refuse it. It also brings TLS, which a daemon does not speak.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use futures_util::FutureExt as _;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::http::Uri;
use hyper::http::uri::Scheme;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use super::error::ClientError;

/// How long a connection may have been idle to be used again. A daemon closes it after three times that.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// By which way a daemon is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Its address, as [`Endpoint::from_str`] reads it: `http://127.0.0.1:4170`.
    Address(Address),
    /// Its socket, a file in its state folder.
    Socket(PathBuf),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

/// A text that names no door.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a daemon is reached at an address like `http://127.0.0.1:4170`, not at `{0}`")]
pub struct ParseEndpointError(pub String);

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    /// Reads an address. The daemon speaks no TLS, so `https` is none; neither is one with a path or a
    /// user.
    fn from_str(url: &str) -> Result<Self, ParseEndpointError> {
        let bad = || ParseEndpointError(url.to_owned());
        let uri: Uri = url.parse().map_err(|_| bad())?;
        let authority = uri.authority().ok_or_else(bad)?;
        let is_plain = uri.scheme() == Some(&Scheme::HTTP)
            && uri.path_and_query().is_none_or(|path| path == "/")
            && !authority.as_str().contains('@');
        match authority.port_u16() {
            Some(_) if is_plain => Ok(Self::Address(Address(authority.to_string()))),
            None if is_plain && authority.as_str() == authority.host() => {
                Ok(Self::Address(Address(format!("{authority}:80"))))
            }
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(Address(host)) => write!(f, "http://{host}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Endpoint {
    /// Returns what a request names as its host.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Address(Address(host)) => host,
            Self::Socket(_) => "localhost",
        }
    }

    pub(super) async fn open(&self) -> Result<Connection, ClientError> {
        let stream = self.connect().await.map_err(ClientError::Unreachable)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // What breaks the connection is told by the response.
        let carrier = ConnectionTask(tokio::spawn(async move { drop(connection.await) }.boxed()));
        Ok(Connection { sender, used_at: Instant::now(), _task: carrier })
    }

    async fn connect(&self) -> io::Result<Box<dyn Duplex>> {
        match self {
            Self::Socket(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            Self::Address(Address(host)) => {
                let stream = TcpStream::connect(host).await?;
                stream.set_nodelay(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Something that is read and written.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection; dropping it cuts it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    used_at: Instant,
    _task: ConnectionTask,
}

impl Connection {
    /// Notes that an answer was read to its end.
    pub(super) fn mark_idle(mut self) -> Self {
        self.used_at = Instant::now();
        self
    }

    /// Tells whether another request may go over it, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.used_at.elapsed() < IDLE_MAX
    }
}

/// What moves the bytes of a connection.
#[derive(Debug)]
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_plain_beginning_of_a_url() {
        for (url, host) in [
            ("http://127.0.0.1:4170", "127.0.0.1:4170"),
            ("http://localhost:4170/", "localhost:4170"),
            ("http://[::1]:4170", "[::1]:4170"),
            ("http://lukasa.internal", "lukasa.internal:80"),
        ] {
            assert_eq!(url.parse(), Ok(Endpoint::Address(Address(host.to_owned()))), "{url}");
            assert_eq!(url.parse::<Endpoint>().unwrap().to_string(), format!("http://{host}"));
        }
        for url in [
            "",
            "127.0.0.1:4170",
            "https://127.0.0.1:4170",
            "http://127.0.0.1:4170/v1",
            "http://127.0.0.1:4170/?a",
            "http://me:secret@127.0.0.1:4170",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:",
            "http://",
            "/run/daemon.sock",
        ] {
            assert_eq!(url.parse::<Endpoint>(), Err(ParseEndpointError(url.to_owned())), "{url}");
        }
    }
}
