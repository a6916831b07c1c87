//! The types of the public HTTP API: requests, responses, events and errors of the daemon.
//!
//! The task API follows one that published clients already speak; everything else is below `/v1`. This crate only
//! converts between JSON and values: it reads no files and decides nothing about memories. The server maps these
//! values to those of the engine. With the feature `client`, the module `client` is an HTTP client of the daemon.

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

pub mod tokens;

pub mod ui;

#[cfg(feature = "client")]
pub mod client;
