//! The two sources of vectors: an embedding endpoint, and the encoder that runs in this process.

use std::time::Duration;

use memory::limits::EMBED_CHARS_MAX;
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

    /// Returns the vector of a prompt.
    pub(super) async fn embed_prompt(&self, prompt: &str) -> Result<Vector, VectorError> {
        let vectors = match self {
            Self::Endpoint(embeddings) => {
                embeddings.endpoint.embed(&[prompt], embeddings.wait).await?
            }
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => vec![encoder.embed_prompt(prompt).await?],
        };
        let vector = vectors.first().and_then(|numbers| Vector::from_numbers(numbers));
        vector.ok_or(VectorError::NoDirection)
    }

    /// Returns the vector of a prompt if no caller has to wait for it.
    pub(super) fn try_embed_prompt(&self, prompt: &str) -> Option<Vector> {
        match self {
            Self::Endpoint(_) => None,
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => Vector::from_numbers(&encoder.try_embed_prompt(prompt)?),
        }
    }

    /// Returns the vectors of entries, in their order, within `deadline`.
    pub(super) async fn embed_entries(
        &self,
        texts: &[&str],
        deadline: Duration,
    ) -> Result<Vec<Vector>, VectorError> {
        let vectors = match self {
            Self::Endpoint(embeddings) => embeddings.endpoint.embed(texts, deadline).await?,
            #[cfg(feature = "encoder")]
            Self::Encoder(encoder) => encoder.embed_entries(texts).await?,
        };
        let vectors = vectors.iter().map(|numbers| Vector::from_numbers(numbers));
        vectors.collect::<Option<_>>().ok_or(VectorError::NoDirection)
    }
}

/// Returns the part of a prompt that is embedded.
pub(super) fn embedded_part(prompt: &str) -> String {
    prompt.trim().chars().take(EMBED_CHARS_MAX).collect()
}
