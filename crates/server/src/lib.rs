//! The protocols by which programs reach memories: thin skins over the engine.
//!
//! Each decodes what came in, calls the engine, and encodes what came out. Nothing here decides
//! about memories: what a caller may do is in the [`engine::Memories`] that it was handed.

mod from_wire;

mod to_wire;

pub mod http;

pub mod mcp;

use engine::chain;
