//! The wire as strangers see it: the exact JSON of every shape, hostile frames, and peers that answer badly.
#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

#[cfg(feature = "client")]
mod client;
mod frames;
mod shapes;
