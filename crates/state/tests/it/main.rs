//! The state on SQLite: the suite of its port, and what is special about a file that processes share.
#![expect(clippy::disallowed_methods, reason = "tests look at, damage and copy files on purpose")]

mod conformance;
mod damage;
mod files;
mod marks_model;
mod sharing;
mod support;
