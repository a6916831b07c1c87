//! The port of the agents that have read text that no person reviewed, if several daemons serve them.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::StateError;

/// The readers of unreviewed text of one owner. Each request of an agent may reach another daemon, so all of them ask here.
#[async_trait]
pub trait OutsideReaders: std::fmt::Debug + Send + Sync {
    /// Durably notes that a reader is about to be shown such text. Forgets readers that were idle for `idle_max`.
    async fn add(&self, reader: &str, idle_max: Duration) -> Result<(), StateError>;

    /// Returns whether a reader was shown such text, and was not idle for `idle_max` since. A reader that was is not idle
    /// now.
    async fn contains(&self, reader: &str, idle_max: Duration) -> Result<bool, StateError>;
}
