//! A single HTTP request and its response: encoding, the idle connection, retries, limits.
//!
//! Only GET requests use the idle connection and are sent again if it has been closed. Each call has a deadline, and
//! the size of its response is limited.

use std::fmt::Write as _;

use std::time::Duration;

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Method, Request, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::endpoint::Connection;
use super::{Client, ClientError};
use crate::id::CLIENT_ID_HEADER;

/// The characters to percent-encode in a path or query: all but letters, digits, `-`, `.`, `_`, `~` and `/`.
const PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The largest body of an error response, in bytes: it may contain diffs of memories.
const REFUSAL_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A request that is not sent yet.
#[derive(Clone, Debug)]
pub(super) struct ApiCall {
    method: Method,
    target: String,
    has_query: bool,
    headers: HeaderMap,
    body: Bytes,
}

impl ApiCall {
    fn new(method: Method, path: &str) -> Self {
        let target = utf8_percent_encode(path, PLAIN).to_string();
        Self { method, target, has_query: false, headers: HeaderMap::new(), body: Bytes::new() }
    }

    pub(super) fn get(path: &str) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn put(path: &str) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(super) fn post(path: &str) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn delete(path: &str) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Adds a parameter to the query, unless it is `None`.
    pub(super) fn query(mut self, name: &str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            let value = value.to_string();
            let mark = if std::mem::replace(&mut self.has_query, true) { '&' } else { '?' };
            // Writing to a string cannot fail.
            let _written =
                write!(self.target, "{mark}{name}={}", utf8_percent_encode(&value, PLAIN));
        }
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    pub(super) fn bytes(mut self, kind: &'static str, bytes: Bytes) -> Self {
        self.body = bytes;
        self.header(CONTENT_TYPE, HeaderValue::from_static(kind))
    }

    pub(super) fn json(self, value: &impl Serialize) -> Result<Self, ClientError> {
        let text = serde_json::to_vec(value)?;
        Ok(self.bytes("application/json", text.into()))
    }

    /// Checks whether the request may be sent again: it has no side effects.
    fn is_safe(&self) -> bool {
        self.method == Method::GET
    }
}

impl Client {
    /// Sends a call and decodes the JSON response.
    pub(super) async fn value<T: DeserializeOwned>(&self, call: ApiCall) -> Result<T, ClientError> {
        Ok(serde_json::from_slice(&self.body(call).await?)?)
    }

    /// Sends a call and returns the body of the response.
    pub(super) async fn body(&self, call: ApiCall) -> Result<Bytes, ClientError> {
        let all = async {
            let (response, connection) = self.exchange(&call).await?;
            let body = read_bounded(response.into_body(), self.answer_max).await?;
            self.store_idle(connection);
            Ok(body)
        };
        timeout(self.deadline, all).await.unwrap_or(Err(ClientError::TimedOut(self.deadline)))
    }

    /// Sends a call and returns the head of the response. The body can be read while the connection is held.
    pub(super) async fn stream(
        &self,
        call: &ApiCall,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let exchange = timeout(self.deadline, self.exchange(call)).await;
        exchange.unwrap_or(Err(ClientError::TimedOut(self.deadline)))
    }

    /// Sends a request and reads the head of the response. An error status becomes a [`ClientError`].
    async fn exchange(
        &self,
        call: &ApiCall,
    ) -> Result<(Response<Incoming>, Connection), ClientError> {
        let (response, connection) = self.send(call).await?;
        let status = response.status();
        if status.is_success() {
            return Ok((response, connection));
        }
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        // No error response of this API is larger.
        let body =
            read_bounded(response.into_body(), REFUSAL_BYTES_MAX.min(self.answer_max)).await?;
        self.store_idle(connection);
        Err(ClientError::from_response(
            status.as_u16(),
            &body,
            retry_after.map(Duration::from_secs),
        ))
    }

    async fn send(&self, call: &ApiCall) -> Result<(Response<Incoming>, Connection), ClientError> {
        // The daemon may have closed the idle connection already. It is used only for safe calls, because only those
        // can be sent again.
        let idle = if call.is_safe() { self.take_idle() } else { None };
        if let Some(mut connection) = idle
            && connection.sender.ready().await.is_ok()
            && let Ok(response) = connection.sender.send_request(self.request(call)?).await
        {
            return Ok((response, connection));
        }
        let mut connection = self.endpoint.open().await?;
        let response = connection.sender.send_request(self.request(call)?).await?;
        Ok((response, connection))
    }

    fn request(&self, call: &ApiCall) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.target)
            .header(HOST, self.endpoint.host())
            .header(AUTHORIZATION, &self.authorization);
        if let Some(id) = &self.caller {
            request = request.header(CLIENT_ID_HEADER, id);
        }
        let body = Full::new(call.body.clone());
        let mut request = request.body(body).map_err(|_| ClientError::Unsendable("the request"))?;
        let headers = call.headers.iter();
        request.headers_mut().extend(headers.map(|(name, value)| (name.clone(), value.clone())));
        Ok(request)
    }

    fn store_idle(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        *idle = Some(connection.mark_idle());
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.take().filter(Connection::is_usable)
    }
}

/// Reads a body of at most `max` bytes; a longer one is an error, and its rest is not read.
async fn read_bounded(body: Incoming, max: usize) -> Result<Bytes, ClientError> {
    match Limited::new(body, max).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(broken) => ClientError::Broken(*broken),
            Err(_too_large) => ClientError::TooLarge(max),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_queries_are_percent_encoded() {
        let call = ApiCall::get("/v1/memories/global/ä b?&#%.md")
            .query("q", Some("a&b=c d+é"))
            .query("cursor", None::<String>)
            .query("max", Some(3));
        assert_eq!(
            call.target,
            "/v1/memories/global/%C3%A4%20b%3F%26%23%25.md?q=a%26b%3Dc%20d%2B%C3%A9&max=3"
        );
    }
}
