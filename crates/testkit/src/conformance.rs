//! Conformance suites: the tests that every implementation of a port must pass.

pub mod backend;
pub mod state;
pub mod tasks;
