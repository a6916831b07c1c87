//! Integration tests of the program: real processes in temporary homes and real checkouts.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    reason = "the helpers of these tests set up files and processes, and fail where those fail"
)]

// The example of the Rust client is compiled here too, and names the library as its own package does.
extern crate protocol as lukasa_protocol;

mod accept;
#[cfg(feature = "child")]
mod acp;
#[cfg(feature = "child")]
mod children;
#[cfg(feature = "cluster")]
mod cluster;
mod complete;
mod context;
mod crash;
mod daemon;
mod demo;
mod edit;
mod embeddings;
mod encoder;
mod features;
mod full_disk;
mod git_merge;
mod history;
mod hooks;
mod hostile;
mod hosts;
mod install;
mod list;
mod mcp_clients;
mod mcp_process;
#[cfg(feature = "cluster")]
mod migrate;
mod models;
mod page;
mod pending;
mod permissions;
mod power_cut;
mod processes;
mod quipu;
mod readme;
mod recall;
mod remote;
mod removed_folder;
mod reviews;
mod sandbox;
mod save;
mod search;
mod served;
mod service;
mod settings;
mod shell;
mod status;
mod storm;
mod tasks;
mod terminal;
mod transfer;
mod workspaces;
mod write;
