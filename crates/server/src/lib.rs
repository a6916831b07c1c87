//! The protocols by which programs reach memories: thin skins over the engine.
//!
//! Each decodes what came in, calls the engine, and encodes what came out. Nothing here decides
//! about memories: what a caller may do is in the [`engine::Memories`] that it was handed.

mod from_wire;

mod to_wire;

pub mod http;

pub mod mcp;

use std::error::Error;
use std::fmt::Write as _;

/// Returns an error's message with those of its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _written = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
