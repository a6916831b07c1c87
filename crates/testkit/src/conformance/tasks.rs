//! What every queue of tasks does: order, limits, how far a task came, sessions, runs.
//!
//! [`run`] asks for a fresh, empty queue before each claim, together with the state that keeps the
//! changes of its tasks. A claim that fails panics.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a suite is a test: it fails by panicking")]

mod conversations;
mod limits;
pub mod proposals;
mod queue;
mod recovery;
mod rows;
mod sessions;

pub use self::rows::{TaskAndHistoryStores, attempt, new_task, queue_limits, task_outcome};

/// Checks every claim on queues that `make` makes, each fresh and empty.
pub async fn run(make: impl AsyncFn() -> TaskAndHistoryStores) {
    queue::check_all(&make).await;
    limits::check_all(&make).await;
    recovery::check_all(&make).await;
    conversations::check_all(&make).await;
    sessions::check_all(&make).await;
    proposals::check_all(&make).await;
}
