//! What every state does: history, heads, withdrawal, pins and usage, pruning.
//!
//! [`run`] asks for a fresh, empty state before each claim. A claim that fails panics.
#![expect(clippy::unwrap_used, reason = "a suite is a test: it fails by panicking")]

mod abort;
mod builders;
mod history;
mod prune;
mod usage;

use std::sync::Arc;

use state::HistoryStore;

pub use builders::{ChangeBuilder, edit, files, outside, path, remove, rename, root, time, write};

/// Checks every claim on states that `make` makes, each fresh and empty.
pub async fn run(make: impl AsyncFn() -> Arc<dyn HistoryStore>) {
    history::check_all(&make).await;
    abort::check_all(&make).await;
    usage::check_all(&make).await;
    prune::check_all(&make).await;
}
