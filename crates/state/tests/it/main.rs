//! The SQLite state: the conformance suites, and tests of a file that processes share.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests damage files on purpose, and their helpers fail by panicking"
)]

mod conformance;
mod copy;
mod damage;
mod files;
mod sharing;
mod support;
mod tasks;
mod usage_model;
