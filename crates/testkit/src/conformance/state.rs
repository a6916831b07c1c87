//! The conformance suite of [`HistoryStore`]: history, heads, aborting changes, pins and usage, pruning.
//!
//! [`run`] requests a fresh, empty store for each test. A failed test panics.
#![expect(clippy::unwrap_used, reason = "a suite is a test: it fails by panicking")]

mod abort;
mod builders;
mod history;
mod prune;
mod usage;

use std::sync::Arc;

use state::HistoryStore;

pub use builders::{ChangeBuilder, edit, files, outside, path, remove, rename, root, time, write};

/// Runs all tests on stores that `make` returns, each fresh and empty.
pub async fn run(make: impl AsyncFn() -> Arc<dyn HistoryStore>) {
    history::check_all(&make).await;
    abort::check_all(&make).await;
    usage::check_all(&make).await;
    prune::check_all(&make).await;
}
