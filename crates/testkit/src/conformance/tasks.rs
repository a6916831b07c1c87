//! The conformance suite of [`TaskStore`](::state::TaskStore): order, limits, recovery, conversations, sessions, runs
//! and proposals.
//!
//! [`run`] requests a fresh, empty store for each test, together with the history store on the same database. A failed
//! test panics.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite is a test: it fails by panicking")]

mod conversations;
mod limits;
pub mod proposals;
mod queue;
mod recovery;
mod rows;
mod sessions;

pub use self::rows::{TaskAndHistoryStores, attempt, new_task, queue_limits, task_outcome};

/// Runs all tests on stores that `make` returns, each fresh and empty.
pub async fn run(make: impl AsyncFn() -> TaskAndHistoryStores) {
    queue::check_all(&make).await;
    limits::check_all(&make).await;
    recovery::check_all(&make).await;
    conversations::check_all(&make).await;
    sessions::check_all(&make).await;
    proposals::check_all(&make).await;
}
