//! The address or socket of a daemon, and connections to it.
//!
//! Requests use hyper directly. Higher-level clients take URLs, and their parsers resolve `..` in the path of a memory
//! before the daemon can refuse it. They also bring TLS, which a daemon does not support.

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

/// The longest time that a connection may be idle and still be reused. A daemon closes it after three times that.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// The address or the socket of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// An address, as [`Endpoint::from_str`] parses it: `http://127.0.0.1:4170`.
    Address(Address),
    /// The path of the socket in the state folder of the daemon.
    Socket(PathBuf),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

/// An error: a text is not the address of a daemon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid daemon address `{0}`: expected a URL like `http://127.0.0.1:4170`")]
pub struct ParseEndpointError(pub String);

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    /// Parses an address. It must not have a path or a user, nor the scheme `https`: the daemon does not support TLS.
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
    /// Returns the value of the `Host` header.
    pub(super) fn host(&self) -> &str {
        match self {
            Self::Address(Address(host)) => host,
            Self::Socket(_) => "localhost",
        }
    }

    pub(super) async fn open(&self) -> Result<Connection, ClientError> {
        let stream = self.connect().await.map_err(ClientError::Unreachable)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // An error of the connection is reported by the pending response, so the task drops it.
        let task = ConnectionTask(tokio::spawn(async move { drop(connection.await) }.boxed()));
        Ok(Connection { sender, used_at: Instant::now(), _task: task })
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

/// A byte stream in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection; dropping it closes it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    used_at: Instant,
    _task: ConnectionTask,
}

impl Connection {
    /// Records that a response was read to its end.
    pub(super) fn mark_idle(mut self) -> Self {
        self.used_at = Instant::now();
        self
    }

    /// Checks whether another request may be sent over the connection, as far as is known.
    pub(super) fn is_usable(&self) -> bool {
        !self.sender.is_closed() && self.used_at.elapsed() < IDLE_MAX
    }
}

/// The task that drives a connection.
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
    fn an_address_is_a_url_without_path_user_and_tls() {
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
