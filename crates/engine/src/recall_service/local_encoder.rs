//! The encoder of this process. It is loaded when the first vector is needed, and computes on threads of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use encoder::install::MINILM;
use encoder::limits::TEXT_TOKENS_MAX;
use encoder::{Encoder, EncoderError, Priority, read_digest};
use tokio::sync::OnceCell;

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
    /// Time that a caller waits for missing vectors of entries: enough for some new memories.
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
        format!("encoder {} {TEXT_TOKENS_MAX}", MINILM.weights)
    }

    pub(super) async fn embed_prompt(&self, prompt: &str) -> Result<Vec<f32>, LocalEncoderError> {
        let (encoder, prompt) = (self.encoder().await?, prompt.to_owned());
        compute(move || encoder.embed(&prompt, PROMPT_TOKENS_MAX, Priority::Foreground)).await
    }

    /// Returns the vector of a prompt if the encoder is loaded. Blocks for some milliseconds, like a
    /// ranking.
    pub(super) fn try_embed_prompt(&self, prompt: &str) -> Option<Vec<f32>> {
        let encoder = self.encoder.get()?;
        Some(encoder.embed(prompt, PROMPT_TOKENS_MAX, Priority::Foreground))
    }

    pub(super) async fn embed_entries(
        &self,
        texts: &[&str],
    ) -> Result<Vec<Vec<f32>>, LocalEncoderError> {
        let encoder = self.encoder().await?;
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        compute(move || {
            let embed = |text: &String| encoder.embed(text, TEXT_TOKENS_MAX, Priority::Background);
            texts.iter().map(embed).collect()
        })
        .await
    }

    async fn encoder(&self) -> Result<Arc<Encoder>, LocalEncoderError> {
        let load = async || -> Result<Arc<Encoder>, LocalEncoderError> {
            let file = self.file.clone();
            Ok(Arc::new(compute(move || Encoder::open(&file)).await??))
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
