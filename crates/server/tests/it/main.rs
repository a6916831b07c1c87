//! The server as a client sees it: lines of JSON in, lines of JSON out.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a helper that cannot go on ends its test, and tests look at the files themselves"
)]

mod client;
mod handshake;
mod hostile;
mod prompts;
mod resources;
mod roots;
mod tool_calls;
mod world;
