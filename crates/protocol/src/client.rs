//! Talking to a daemon: one connection for a request, HTTP/1.1, at its address or its socket.
//!
//! What is said is in the other modules; this one carries it. It knows nothing of retries or caches.

use std::path::PathBuf;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, HOST};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

use crate::cursor::LAST_EVENT_ID_HEADER;
use crate::error::ErrorBody;
use crate::frame::{Frame, Reader, TooLong};

/// By which way a daemon is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// Its address: `http://127.0.0.1:4170`.
    Url(String),
    /// Its socket.
    Socket(PathBuf),
}

/// Why a daemon did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("the daemon cannot be reached")]
    Unreachable(#[source] std::io::Error),
    /// It was there, and then it was not, or does not speak HTTP.
    #[error("the connection to the daemon broke")]
    Broken(#[from] hyper::Error),
    /// What was to be sent is no request.
    #[error("the request cannot be sent")]
    Request(#[from] hyper::http::Error),
    /// It says no.
    #[error("the daemon refused: {}", .body.error)]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it says.
        body: Box<ErrorBody>,
    },
    /// It answers with what is no error of this API.
    #[error("the daemon answered {0}")]
    Unexpected(u16),
    /// A frame of a stream is too long.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// Somebody who may call a daemon.
#[derive(Clone)]
pub struct Client {
    door: Door,
    authorization: String,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("door", &self.door).finish_non_exhaustive()
    }
}

impl Client {
    /// Returns somebody who brings this token.
    pub fn new(door: Door, token: &str) -> Self {
        Self { door, authorization: format!("Bearer {token}") }
    }

    /// Opens the stream of all that changes in the daemon's first workspace, after an event that was
    /// seen, or from now on.
    pub async fn events(&self, after: Option<u64>) -> Result<Events, ClientError> {
        let mut request = Request::get("/v1/events").header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header(LAST_EVENT_ID_HEADER, after);
        }
        let (response, connection) = self.send(request).await?;
        Ok(Events {
            response,
            connection,
            reader: Reader::default(),
            waiting: Vec::new().into_iter(),
        })
    }

    async fn send(
        &self,
        request: hyper::http::request::Builder,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let (stream, host): (Box<dyn Duplex>, &str) = match &self.door {
            Door::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(ClientError::Unreachable)?;
                (Box::new(stream), "localhost")
            }
            Door::Url(url) => {
                let host = url.strip_prefix("http://").unwrap_or(url);
                let stream = TcpStream::connect(host).await.map_err(ClientError::Unreachable)?;
                (Box::new(stream), host)
            }
        };
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // What breaks the connection is told by the response.
        let connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let request = request
            .header(HOST, host)
            .header(AUTHORIZATION, &self.authorization)
            .body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        if status == StatusCode::OK {
            return Ok((response, connection));
        }
        let body = response.into_body().collect().await?.to_bytes();
        Err(match serde_json::from_slice(&body) {
            Ok(body) => ClientError::Refused { status: status.as_u16(), body: Box::new(body) },
            Err(_) => ClientError::Unexpected(status.as_u16()),
        })
    }
}

/// Something that is read and written.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection; dropping it cuts it.
#[derive(Debug)]
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A stream of events. Dropping it ends it.
#[derive(Debug)]
pub struct Events {
    response: Response<Incoming>,
    #[expect(dead_code, reason = "held so that the stream goes on")]
    connection: Connection,
    reader: Reader,
    waiting: std::vec::IntoIter<Frame>,
}

impl Events {
    /// Waits for the next frame; `None` when the daemon ended the stream. Whoever stops waiting loses
    /// nothing.
    pub async fn next(&mut self) -> Result<Option<Frame>, ClientError> {
        loop {
            if let Some(frame) = self.waiting.next() {
                return Ok(Some(frame));
            }
            let Some(part) = self.response.body_mut().frame().await else { return Ok(None) };
            if let Ok(bytes) = part?.into_data() {
                self.waiting = self.reader.take(&bytes)?.into_iter();
            }
        }
    }
}
