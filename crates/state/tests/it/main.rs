//! The state on SQLite: the suite of its port, and what is special about a file that processes share.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the helpers of these tests damage and copy files, and fail where that fails"
)]

mod conformance;
mod damage;
mod files;
mod marks_model;
mod sharing;
mod support;
