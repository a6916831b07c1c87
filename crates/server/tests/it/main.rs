//! The server as a client sees it: lines of JSON in, lines of JSON out.

mod client;
mod handshake;
mod hostile;
mod resources;
mod roots;
mod tool_calls;
mod world;
