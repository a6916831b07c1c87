//! PostgreSQL passes the conformance suites of both ports, and daemons share a database, on real servers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod conformance;
mod engines;
mod events;
mod failures;
mod roots;
mod sharing;
mod simulation;
mod support;
mod transfer;
