//! What can go wrong when a model is asked.

use std::io;
use std::time::Duration;

/// Why there are no vectors. None of these says anything of the texts or of the key.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The variable of the environment that was named holds no key. Nothing was sent.
    #[error("the variable `{0}` of the environment holds no key")]
    NoKey(String),
    /// Nobody is there. Nothing was sent.
    #[error("the endpoint cannot be reached")]
    Unreachable(#[source] io::Error),
    /// It was there, and then it was not, or does not speak HTTP.
    #[error("the connection to the endpoint broke")]
    Broken(#[from] hyper::Error),
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
    Wrong(&'static str),
}

impl EmbedError {
    /// Tells whether it may be a text that the endpoint does not take, and not the endpoint: fewer texts at
    /// once, or shorter ones, may be taken.
    pub const fn is_of_texts(&self) -> bool {
        matches!(self, Self::Refused(400 | 413 | 422))
    }
}
