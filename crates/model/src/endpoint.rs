//! One endpoint, and a question to it.

use std::time::Duration;

use futures_util::FutureExt as _;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::address::{Address, BadUrl, Reach};
use crate::answer::{bytes_max, read};
use crate::error::EmbedError;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What an endpoint is told to know who asks. Shown by no `Debug`.
#[derive(Clone, Debug)]
pub enum Key {
    /// It asks for none.
    None,
    /// This one.
    Bearer(Secret),
    /// The variable of the environment that a person named holds none: nothing is ever sent.
    Missing(String),
}

/// A key, as it is sent.
#[derive(Clone, Debug)]
pub struct Secret(HeaderValue);

impl Key {
    /// Returns the key that a variable of the environment holds, if it holds one.
    pub fn of_variable(name: &str, value: Option<&str>) -> Self {
        let header = value.map(str::trim).filter(|value| !value.is_empty());
        let header = header.and_then(|value| HeaderValue::try_from(format!("Bearer {value}")).ok());
        header.map_or_else(
            || Self::Missing(name.to_owned()),
            |mut header| {
                header.set_sensitive(true);
                Self::Bearer(Secret(header))
            },
        )
    }
}

/// Where vectors of texts are asked for, and which.
#[derive(Clone, Debug)]
pub struct Endpoint {
    address: Address,
    model: String,
    key: Key,
}

#[derive(Serialize)]
struct Asked<'a> {
    model: &'a str,
    input: &'a [&'a str],
    encoding_format: &'static str,
}

impl Endpoint {
    /// Returns the endpoint at a URL: texts are sent to `URL/embeddings`.
    pub fn new(url: &str, reach: Reach, model: &str, key: Key) -> Result<Self, BadUrl> {
        Ok(Self { address: Address::parse(url, reach)?, model: model.to_owned(), key })
    }

    /// Returns what tells its vectors from those of others: where it is and which model is asked.
    pub fn name(&self) -> String {
        format!("{}{} {}", self.address.authority, self.address.path, self.model)
    }

    /// Returns a vector for each text, in their order: all as long, at most [`DIMENSIONS_MAX`], each with a
    /// direction. Dropping it closes the connection.
    ///
    /// [`DIMENSIONS_MAX`]: crate::DIMENSIONS_MAX
    pub async fn embed(
        &self,
        texts: &[&str],
        deadline: Duration,
    ) -> Result<Vec<Vec<f32>>, EmbedError> {
        let all = async {
            let request = self.request(texts)?;
            let mut connection = self.open().await?;
            let response = connection.sender.send_request(request).await?;
            read(&body(response, bytes_max(texts.len())).await?, texts.len())
        };
        timeout(deadline, all).await.unwrap_or(Err(EmbedError::TimedOut(deadline)))
    }

    fn request(&self, texts: &[&str]) -> Result<Request<Full<Bytes>>, EmbedError> {
        const UNSENDABLE: EmbedError = EmbedError::Wrong("it cannot be asked");
        let asked = Asked { model: &self.model, input: texts, encoding_format: "float" };
        let body = serde_json::to_vec(&asked).map_err(|_| UNSENDABLE)?;
        let mut request = Request::post(format!("{}/embeddings", self.address.path))
            .header(HOST, &self.address.authority)
            .header(CONTENT_TYPE, JSON)
            .header(ACCEPT, JSON);
        match &self.key {
            Key::None => {}
            Key::Bearer(Secret(key)) => request = request.header(AUTHORIZATION, key),
            Key::Missing(name) => return Err(EmbedError::NoKey(name.clone())),
        }
        request.body(Full::from(body)).map_err(|_| UNSENDABLE)
    }

    async fn open(&self) -> Result<Connection, EmbedError> {
        let stream = self.address.connect().await.map_err(EmbedError::Unreachable)?;
        let (sender, connection) = handshake(TokioIo::<TcpStream>::new(stream)).await?;
        // What breaks the connection is told by the response.
        let carrier = Carrier(tokio::spawn(async move { drop(connection.await) }.boxed()));
        Ok(Connection { sender, _carrier: carrier })
    }
}

async fn body(response: Response<Incoming>, max: usize) -> Result<Bytes, EmbedError> {
    if !response.status().is_success() {
        return Err(EmbedError::Refused(response.status().as_u16()));
    }
    match Limited::new(response.into_body(), max).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(broken) => EmbedError::Broken(*broken),
            Err(_too_large) => EmbedError::TooLarge(max),
        }),
    }
}

/// A connection; dropping it cuts it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _carrier: Carrier,
}

/// What moves the bytes of a connection.
struct Carrier(JoinHandle<()>);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}
