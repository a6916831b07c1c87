//! The protocol servers of Lukasa: HTTP, the Model Context Protocol (MCP), and the Agent Client Protocol (ACP) for
//! child processes.
//!
//! Each server decodes a request, calls the engine, and encodes the result. The servers do not decide about memories:
//! the access of a caller is in the [`engine::Memories`] that its requests use. Settings, files and process start are
//! the command line's part.

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

/// Returns the body with a value that is dropped when the body has been read or is dropped.
fn keep_alive_while<T: Send + 'static>(body: Body, value: T) -> Body {
    Body::from_stream(unfold((body.into_data_stream(), value), async |(mut data, value)| {
        let part = data.next().await?;
        Some((part, (data, value)))
    }))
}
