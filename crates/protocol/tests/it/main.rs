//! The public wire format: the exact JSON of every type, hostile frames, and the client against faulty peers.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[cfg(feature = "client")]
mod client;
mod frames;
mod shapes;
