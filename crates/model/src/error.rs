//! What can go wrong when a model is asked.

use std::time::Duration;

use crate::key::KeyError;

type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Why there are no vectors. None of these says anything of the texts or of the key.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// There is no key. Nothing was sent.
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// Nobody is there. Nothing was sent.
    #[error("the endpoint cannot be reached")]
    Unreachable(#[source] BoxedError),
    /// It was there, and then it was not, or does not speak HTTP.
    #[error("the connection to the endpoint broke")]
    ConnectionLost(#[source] BoxedError),
    /// It did not answer in time.
    #[error("the endpoint did not answer within {0:?}")]
    TimedOut(Duration),
    /// It answered with a status that is no success.
    #[error("the endpoint answered with status {0}")]
    Refused(u16),
    /// Its answer has more than so many bytes, and was not read.
    #[error("the endpoint's answer is larger than {0} bytes")]
    TooLarge(usize),
    /// Its answer is not what was asked for.
    #[error("the endpoint's answer is wrong: {0}")]
    InvalidResponse(&'static str),
}

impl EmbedError {
    /// Tells whether it may be a text that the endpoint does not take, and not the endpoint: fewer texts at
    /// once, or shorter ones, may be taken.
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

/// Why a model did not reply. None of these says anything of what it was asked, or of the key.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// There is no key. Nothing was sent.
    #[error(transparent)]
    NoKey(#[from] KeyError),
    /// Nobody is there. Nothing was sent.
    #[error("its server does not answer: {0}")]
    Unreachable(String),
    /// The connection broke before the reply was there.
    #[error("the connection to its server broke: {0}")]
    ConnectionLost(String),
    /// It did not reply in time.
    #[error("the model did not reply within {0:?}")]
    TimedOut(Duration),
    /// It answered with a status that is no success.
    #[error("the model's server answered with status {status}{}", told(said.as_deref()))]
    Refused {
        /// The status.
        status: u16,
        /// What it said, in one line, cut, without the key. It may quote what it was sent.
        said: Option<String>,
    },
    /// The reply is not what the wire has.
    #[error("the model's reply cannot be read: {0}")]
    InvalidReply(&'static str),
}

fn told(said: Option<&str>) -> String {
    said.map(|said| format!(": {said}")).unwrap_or_default()
}

impl ChatError {
    /// Tells whether asking again in a moment may help: the server is busy, failed, was cut off, or garbled its reply.
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
