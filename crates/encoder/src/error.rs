//! Errors of the encoder.

use std::path::PathBuf;

/// An error while weights are loaded or installed.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The path is that of a folder, a pipe or a device.
    #[error("`{}` is not a file", .0.display())]
    NotAFile(PathBuf),
    /// The file does not begin like an encoder file of this version.
    #[error("not an encoder file of this version")]
    NotAnEncoder,
    /// The encoder file is damaged or was cut off.
    #[error("the encoder file is damaged: {0}")]
    Damaged(&'static str),
    /// The file is neither an encoder file nor a wheel.
    #[error("neither an encoder file nor a Python wheel")]
    UnknownSource,
    /// The wheel is damaged.
    #[error("the wheel is damaged")]
    Wheel(#[from] zip::result::ZipError),
    /// The wheel or the folder lacks a file of the model.
    #[error("the model has no file `{0}`")]
    MissingFile(&'static str),
    /// A file is larger than any file of the model.
    #[error("`{0}` is larger than {max} bytes", max = crate::limits::FILE_BYTES_MAX)]
    TooLarge(&'static str),
    /// The weights are not a file of tensors.
    #[error("`model.safetensors` is damaged")]
    Weights(#[from] safetensors::SafeTensorError),
    /// A tensor is missing or has an unexpected shape.
    #[error("the tensor `{0}` is missing or has an unexpected shape")]
    Tensor(String),
    /// The file that describes the model has unexpected contents.
    #[error("`config.json` is not that of a BERT model with the activation `gelu`")]
    Config,
    /// A file of the model is not the expected one. Vectors of other weights cannot be compared with those that recall
    /// was tuned for.
    #[error(
        "{file} is not that of all-MiniLM-L6-v2: its SHA-256 is {found}, and {expected} is expected"
    )]
    OtherModel {
        /// The file.
        file: &'static str,
        /// The expected digest, in hexadecimal digits.
        expected: String,
        /// The digest of the file, in hexadecimal digits.
        found: String,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread")]
    Thread(#[from] rayon::ThreadPoolBuildError),
}
