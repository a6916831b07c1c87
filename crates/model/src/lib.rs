//! Talking to a model that somebody else runs. Knows nothing of memories.
//!
//! [`Endpoint`] asks a server that speaks the embeddings part of OpenAI's API for vectors of texts. It connects
//! to the address that it was made with and to nothing else: it follows no redirect, asks no proxy, and speaks
//! no TLS. It keeps nothing and tries nothing twice; whoever asks decides what comes after a failure.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use model::{Endpoint, Key, Reach};
//!
//! let url = "http://127.0.0.1:11434/v1";
//! let endpoint = Endpoint::new(url, Reach::ThisMachine, "some-model", Key::None)?;
//! let vectors = endpoint.embed(&["a text", "another"], std::time::Duration::from_secs(2)).await?;
//! assert_eq!(vectors.len(), 2);
//! # Ok(())
//! # }
//! ```

mod address;

mod answer;

mod endpoint;

mod error;

pub use address::{BadUrl, Reach};
pub use answer::DIMENSIONS_MAX;
pub use endpoint::{Endpoint, Key};
pub use error::EmbedError;
