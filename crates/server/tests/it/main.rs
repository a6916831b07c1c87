//! Integration tests of the MCP server over pipes: lines of JSON in, lines of JSON out.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that fails ends its test, and tests read files directly"
)]

mod client;
mod handshake;
mod hostile;
mod prompts;
mod resources;
mod roots;
mod tool_calls;
mod world;
