//! The encoder of this process. It is loaded when the first vector is needed, and computes on threads of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use encoder::install::MINILM;
use encoder::limits::TEXT_TOKENS_MAX;
use encoder::{Encoder, EncoderError, Priority, read_digest};
use tokio::sync::OnceCell;
use tokio::time::Instant;

/// Maximum number of tokens of a prompt that are embedded: a caller waits, and 64 tokens take about 11 ms.
const PROMPT_TOKENS_MAX: usize = 64;

/// An installed encoder.
#[derive(Debug)]
pub(crate) struct LocalEncoder {
    file: PathBuf,
    encoder: OnceCell<Arc<Encoder>>,
}

/// An error of the encoder of this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum LocalEncoderError {
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    #[error("the computation was aborted")]
    Aborted,
}

impl LocalEncoder {
    /// Time that a caller waits for missing vectors of entries, once the encoder is loaded: enough for
    /// some new memories.
    pub(super) const WAIT_MAX: Duration = Duration::from_millis(200);
    /// Maximum number of memories without vectors that a caller waits for.
    pub(super) const AWAITED_MEMORIES_MAX: usize = 32;
    /// Number of texts that are embedded at once, so that the work can be stopped in between.
    pub(super) const BATCH: usize = 8;

    /// Returns the encoder at a path; `None` if there is no file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not of the model that recall was tuned for.
    pub(crate) fn find(file: &Path) -> Result<Option<Self>, EncoderError> {
        let digest = match read_digest(file) {
            Err(EncoderError::Read { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            digest => digest?,
        };
        if digest != MINILM.weights {
            return Err(EncoderError::NotAnEncoder);
        }
        Ok(Some(Self { file: file.to_owned(), encoder: OnceCell::new() }))
    }

    /// Returns a name for its vectors. Every encoder that can be found has the same model.
    pub(super) fn vectors_name() -> String {
        format!("encoder {} {TEXT_TOKENS_MAX}", MINILM.encoder)
    }

    pub(super) async fn embed_prompt(
        &self,
        prompt: &str,
    ) -> Result<Option<Vec<f32>>, LocalEncoderError> {
        let (encoder, prompt) = (self.encoder().await?, prompt.to_owned());
        compute(move || encoder.embed(&prompt, PROMPT_TOKENS_MAX, Priority::Foreground)).await
    }

    /// Returns the vector of a prompt if the encoder is loaded. Blocks for some milliseconds, like a
    /// ranking.
    pub(super) fn try_embed_prompt(&self, prompt: &str) -> Option<Vec<f32>> {
        self.encoder.get()?.embed(prompt, PROMPT_TOKENS_MAX, Priority::Foreground)
    }

    /// Returns the vectors of the first texts, in their order: at least of one, and after `deadline` of
    /// no further one. Without a deadline no caller waits.
    pub(super) async fn embed_entries(
        &self,
        texts: &[&str],
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<Vec<f32>>>, LocalEncoderError> {
        let encoder = self.encoder().await?;
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let priority = if deadline.is_some() { Priority::Foreground } else { Priority::Background };
        compute(move || {
            let mut vectors = Vec::with_capacity(texts.len());
            for text in &texts {
                vectors.push(encoder.embed(text, TEXT_TOKENS_MAX, priority));
                if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                    break;
                }
            }
            vectors
        })
        .await
    }

    pub(super) fn is_loaded(&self) -> bool {
        self.encoder.initialized()
    }

    /// Loads the encoder, if it is not loaded.
    pub(super) async fn load(&self) -> Result<(), LocalEncoderError> {
        self.encoder().await.map(drop)
    }

    async fn encoder(&self) -> Result<Arc<Encoder>, LocalEncoderError> {
        let load = async || -> Result<Arc<Encoder>, LocalEncoderError> {
            let file = self.file.clone();
            let encoder =
                compute(move || Encoder::open(&file, store::lower_thread_priority)).await??;
            // The file may have been replaced since it was found.
            if encoder.digest() != MINILM.weights {
                return Err(EncoderError::NotAnEncoder.into());
            }
            Ok(Arc::new(encoder))
        };
        self.encoder.get_or_try_init(load).await.map(Arc::clone)
    }
}

/// Runs a computation off the threads that answer requests.
async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LocalEncoderError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| LocalEncoderError::Aborted)
}
