//! Answers that are no success: a status, a sentence, a code and its facts.

use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use protocol::error::{ErrorBody, ErrorCode};

use super::body::Json;

/// Why a request is not answered as it wants.
#[derive(Debug)]
pub(super) struct Refused(Box<Parts>);

#[derive(Debug)]
struct Parts {
    body: ErrorBody,
    header: Option<(HeaderName, HeaderValue)>,
    /// Another status than that of the code.
    status: Option<StatusCode>,
}

impl Refused {
    /// Says after how many seconds it may work.
    pub(super) fn retry_after(mut self, seconds: u64) -> Self {
        self.0.header = Some((RETRY_AFTER, HeaderValue::from(seconds)));
        self
    }

    /// Says how a caller proves that it may ask.
    pub(super) fn challenging(mut self) -> Self {
        self.0.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        self
    }

    /// Says that the connection ends with this answer.
    pub(super) fn closing(mut self) -> Self {
        self.0.header = Some((CONNECTION, HeaderValue::from_static("close")));
        self
    }

    /// Answers with another status than that of the code, where what the code tells of is met in another way.
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Says it in another sentence.
    pub(super) fn saying(mut self, sentence: impl Into<String>) -> Self {
        self.0.body.error = sentence.into();
        self
    }

    /// Adds a fact.
    pub(super) fn with(mut self, name: &str, fact: impl Into<serde_json::Value>) -> Self {
        self.0.body.facts.insert(name.to_owned(), fact.into());
        self
    }
}

impl From<ErrorBody> for Refused {
    fn from(body: ErrorBody) -> Self {
        Self(Box::new(Parts { body, header: None, status: None }))
    }
}

impl From<ErrorCode> for Refused {
    fn from(code: ErrorCode) -> Self {
        ErrorBody::new(code).into()
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Parts { body, header, status } = *self.0;
        let status = status.or_else(|| StatusCode::from_u16(body.code.status()).ok());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(body)).into_response();
        response.headers_mut().extend(header);
        response
    }
}
