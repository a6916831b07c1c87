//! The binary as people and scripts run it: real processes in throw-away homes and real checkouts.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of these tests set up files and processes, and fail where those fail"
)]

// The example of the Rust client is compiled here too, and names the library as its own package does.
extern crate protocol as quipu_protocol;

mod mcp_clients;
mod models;

mod mcp_process;

mod place;

mod power_cut;

mod hostile;

mod page;

mod pending;
mod permissions;

mod accept;

#[cfg(feature = "child")]
mod acp;

mod care;

#[cfg(feature = "child")]
mod children;

mod complete;
mod context;

mod edit;

mod embeddings;

mod history;

mod list;

mod readme;

mod recall;
mod removed_folder;
mod reviews;
mod save;

mod search;

mod settings;

mod shell;

mod tasks;

mod terminal;

mod transfer;

mod workspaces;
mod write;

mod daemon;

mod service;

mod install;

mod hooks;

mod hosts;

mod demo;

mod served;

mod storm;

mod crash;

mod features;

mod full_disk;

mod processes;
