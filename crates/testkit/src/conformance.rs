//! Suites that every adapter of a port passes, whatever it stands on.

pub mod backend;
pub mod state;
pub mod tasks;
