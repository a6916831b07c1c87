//! The protocols by which programs reach memories: thin skins over the engine.
//!
//! Each decodes what came in, calls the engine, and encodes what came out. Nothing here decides
//! about memories: what a caller may do is in the [`engine::Memories`] that it was handed.

mod error;

mod from_wire;

mod to_wire;
mod twins;

mod limits;

mod line_reader;

#[cfg(feature = "child")]
pub mod acp;

pub mod http;

pub mod mcp;

use axum::body::Body;
use engine::error_chain;
use futures_util::stream::{StreamExt as _, unfold};

/// Returns a body that keeps something as long as somebody may read it.
fn keep_alive_while<T: Send + 'static>(body: Body, held: T) -> Body {
    Body::from_stream(unfold((body.into_data_stream(), held), async |(mut data, held)| {
        let part = data.next().await?;
        Some((part, (data, held)))
    }))
}
