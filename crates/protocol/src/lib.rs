//! The public wire: what a daemon and its clients say to each other, as types.
//!
//! The task API is the one that published clients speak; `/v1` is everything else. Nothing here reads a
//! file or decides about memories: texts and JSON in, values out, and back. The server turns these
//! values into those of the engine. Only the `client`, which is a feature, opens a connection.

pub mod error;

pub mod health;
pub mod id;

pub mod capabilities;

pub mod task;

pub mod acp;

pub mod conversation;

pub mod runs;
pub mod session;
pub mod settings;

pub mod event;

pub mod sse;

pub mod cursor;

pub mod memories;

pub mod context_files;

pub mod changes;

pub mod pending;

pub mod status;

pub mod workspaces;

pub mod ui;

#[cfg(feature = "client")]
pub mod client;
