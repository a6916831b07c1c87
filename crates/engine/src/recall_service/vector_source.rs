//! The two sources of vectors: an embedding endpoint, and the encoder that runs in this process.

use std::time::Duration;

use tokio::time::Instant;

use memory::limits::{EMBED_BATCH_WAIT, EMBED_CHARS_MAX};
use model::EmbedError;
use recall::{SimilarityScale, Vector};

use super::vectors::DimensionMismatch;
use crate::config::Embeddings;
#[cfg(feature = "encoder")]
use crate::recall_service::local_encoder::{LocalEncoder, LocalEncoderError};

/// A source of vectors.
#[derive(Debug)]
pub(crate) enum VectorSource {
    /// A server. Texts are sent to it.
    Endpoint(Embeddings),
    /// An encoder in this process. No text leaves it.
    #[cfg(feature = "encoder")]
    Encoder(LocalEncoder),
}

/// The reason why a vector is not available.
#[derive(Debug, thiserror::Error)]
pub(super) enum VectorError {
    #[error("the embedding endpoint failed")]
    Endpoint(#[from] EmbedError),
    #[cfg(feature = "encoder")]
    #[error("the encoder failed")]
    Encoder(#[from] LocalEncoderError),
    #[error("the source gave a vector without direction")]
    NoDirection,
    #[error(transparent)]
    DimensionMismatch(#[from] DimensionMismatch),
}

impl VectorError {
    /// Returns whether a text may be the cause, not the source: fewer or shorter texts may be accepted.
    pub(super) const fn may_be_text_fault(&self) -> bool {
        matches!(self, Self::Endpoint(error) if error.may_be_text_fault())
    }
}

impl VectorSource {
    /// Returns a name for its vectors. Vectors of different names must not be compared.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Endpoint(embeddings) => embeddings.endpoint.name(),
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => LocalEncoder::vectors_name(),
        }
    }

    /// Checks whether texts stay in this process.
    pub(super) const fn is_local(&self) -> bool {
        match self {
            Self::Endpoint(_) => false,
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => true,
        }
    }

    /// Returns the scale of the similarities of its vectors.
    pub(super) const fn scale(&self) -> SimilarityScale {
        match self {
            Self::Endpoint(_) => SimilarityScale::Unknown,
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => SimilarityScale::Encoder,
        }
    }

    /// Returns the maximum time that a caller waits for vectors of entries.
    pub(super) const fn wait_max(&self) -> Duration {
        match self {
            Self::Endpoint(embeddings) => embeddings.wait,
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => LocalEncoder::WAIT_MAX,
        }
    }

    /// Returns the maximum number of memories without vectors whose texts a waiting caller reads. The remaining ones
    /// get their vectors in the background.
    pub(super) const fn awaited_memories_max(&self) -> usize {
        match self {
            Self::Endpoint(_) => usize::MAX,
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => LocalEncoder::AWAITED_MEMORIES_MAX,
        }
    }

    /// Returns the maximum number of texts that are embedded at once.
    pub(super) fn batch_max(&self) -> usize {
        match self {
            Self::Endpoint(embeddings) => embeddings.batch.max(1),
            #[cfg(feature = "encoder")]
            Self::Encoder(_) => LocalEncoder::BATCH,
        }
    }

    /// Prepares for the vectors that a caller is about to wait for.
    #[cfg_attr(
        not(feature = "encoder"),
        expect(clippy::unused_async, reason = "the encoder loads")
    )]
    pub(super) async fn prepare(&self) -> Result<(), VectorError> {
        match self {
            Self::Endpoint(_) => Ok(()),
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => Ok(encoder.load().await?),
        }
    }

    /// Returns the vector of a prompt; `None` if the encoder does not know its words.
    pub(super) async fn embed_prompt(&self, prompt: &str) -> Result<Option<Vector>, VectorError> {
        let numbers = match self {
            Self::Endpoint(embeddings) => {
                let vectors = embeddings.endpoint.embed(&[prompt], embeddings.wait).await?;
                Some(vectors.into_iter().next().expect("an endpoint gives a vector for each text"))
            }
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => encoder.embed_prompt(prompt).await?,
        };
        numbers.as_deref().map(vector).transpose()
    }

    /// Checks whether [`Self::try_embed_prompt`] may have a vector.
    pub(super) fn is_loaded(&self) -> bool {
        match self {
            Self::Endpoint(_) => false,
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => encoder.is_loaded(),
        }
    }

    /// Returns the vector of a prompt if no caller has to wait for it.
    #[cfg_attr(not(feature = "encoder"), expect(unused_variables, reason = "an endpoint is slow"))]
    pub(super) fn try_embed_prompt(&self, prompt: &str) -> Option<Vector> {
        match self {
            Self::Endpoint(_) => None,
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => Vector::from_numbers(&encoder.try_embed_prompt(prompt)?),
        }
    }

    /// Returns the vectors of the first entries, in their order; `None` for an entry whose words the encoder does not
    /// know. An endpoint gives all of them. The encoder gives at least one, and no further one after `deadline`.
    #[cfg_attr(
        not(feature = "encoder"),
        expect(unused_variables, reason = "an endpoint gives all")
    )]
    pub(super) async fn embed_entries(
        &self,
        texts: &[&str],
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<Vector>>, VectorError> {
        match self {
            Self::Endpoint(embeddings) => {
                let vectors = embeddings.endpoint.embed(texts, EMBED_BATCH_WAIT).await?;
                vectors.iter().map(|numbers| vector(numbers).map(Some)).collect()
            }
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => {
                let vectors = encoder.embed_entries(texts, deadline).await?;
                vectors.iter().map(|numbers| numbers.as_deref().map(vector).transpose()).collect()
            }
        }
    }
}

fn vector(numbers: &[f32]) -> Result<Vector, VectorError> {
    Vector::from_numbers(numbers).ok_or(VectorError::NoDirection)
}

/// Returns the beginning of a prompt, which is embedded.
pub(super) fn prompt_prefix(prompt: &str) -> String {
    prompt.trim().chars().take(EMBED_CHARS_MAX).collect()
}
