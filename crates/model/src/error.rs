//! Errors of requests to models.

use std::time::Duration;

use crate::key::KeyError;

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// An error of an embedding request. No message contains a text or the key.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// There is no key. Nothing was sent.
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// The server cannot be reached. Nothing was sent.
    #[error("the endpoint cannot be reached")]
    Unreachable(#[source] BoxedError),
    /// The connection was lost, or the server does not speak HTTP.
    #[error("the connection to the endpoint was lost")]
    ConnectionLost(#[source] BoxedError),
    /// The server did not answer in time.
    #[error("the endpoint did not answer within {0:?}")]
    TimedOut(Duration),
    /// The server answered with an error status.
    #[error("the endpoint answered with status {0}")]
    Refused(u16),
    /// The response exceeds this number of bytes and was not read.
    #[error("the endpoint's response is larger than {0} bytes")]
    TooLarge(usize),
    /// The response is invalid.
    #[error("the endpoint's response is invalid: {0}")]
    InvalidResponse(&'static str),
}

impl EmbedError {
    /// Returns whether a text may be the cause, not the endpoint: fewer or shorter texts may be accepted.
    pub const fn may_be_text_fault(&self) -> bool {
        matches!(self, Self::Refused(400 | 413 | 422))
    }

    pub(crate) fn unreachable(error: impl Into<BoxedError>) -> Self {
        Self::Unreachable(error.into())
    }
}

impl From<reqwest::Error> for EmbedError {
    fn from(error: reqwest::Error) -> Self {
        let is_connect = error.is_connect();
        let error = Box::new(error.without_url());
        if is_connect { Self::Unreachable(error) } else { Self::ConnectionLost(error) }
    }
}

/// An error of a chat request. No message contains the key; only a message of the server may quote the prompt.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// There is no key. Nothing was sent.
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// The server cannot be reached. Nothing was sent.
    #[error("the model's server cannot be reached: {0}")]
    Unreachable(String),
    /// The connection was lost before the reply was complete.
    #[error("the connection to the model's server was lost: {0}")]
    ConnectionLost(String),
    /// The model did not reply in time.
    #[error("the model did not reply within {0:?}")]
    TimedOut(Duration),
    /// The server answered with an error status.
    #[error("the model's server answered with status {status}{}", suffix(said.as_deref()))]
    Refused {
        /// The status.
        status: u16,
        /// The server's message: one line, shortened, without the key. It may quote the prompt.
        said: Option<String>,
    },
    /// The reply does not follow the protocol.
    #[error("the model's reply is invalid: {0}")]
    InvalidReply(&'static str),
}

fn suffix(said: Option<&str>) -> String {
    said.map(|said| format!(": {said}")).unwrap_or_default()
}

impl ChatError {
    /// Returns whether a retry may help: the server is busy, failed, dropped the connection, or garbled its reply.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable(_)
                | Self::ConnectionLost(_)
                | Self::InvalidReply(_)
                | Self::Refused { status: 408 | 409 | 425 | 429 | 500 | 502 | 503 | 504 | 529, .. }
        )
    }
}
