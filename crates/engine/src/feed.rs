//! Feeds: what changed, as numbered streams that clients read.
//!
//! The lane tells a [`Feed`] what a task did; [`Feeds`] is the one for all workspaces of a daemon, and
//! hears of all other changes from the store. Whoever publishes writes once into a ring and wakes the
//! readers. No reader has a queue of its own: it has a place in the ring, and how far that lies behind
//! is what waits for it. So a slow reader costs nobody anything, and neither does an idle feed.
//!
//! Events are values. What they look like on a wire is none of this module's business; only how much
//! room they take there is estimated.

mod bus;
mod event;
mod feeds;
mod ring;
mod subscription;
#[cfg(test)]
mod tests;

pub use bus::{Bounds, Epoch, EventBus, EventCursor, SubscribeError};
pub use event::{ContextWrite, FeedChange, FeedEvent};
pub use feeds::Feeds;
pub use subscription::{
    BacklogSize, Event, EventKind, Evicted, ExceededLimit, ReplayComplete, Resync, ResyncReason,
    SlowReader, Subscription,
};

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use memory::path::Mount;

use crate::task::{ClientId, TaskId, TaskKind};

/// What a task did to the memories of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedChange {
    /// The id of the workspace.
    pub workspace: String,
    /// What kind of task.
    pub source: TaskKind,
    /// The task.
    pub task: TaskId,
    /// Where the memories lie that changed.
    pub scopes: BTreeSet<Mount>,
    /// Whose task it was.
    pub originator: Option<ClientId>,
    /// How many entries changed.
    pub saved: usize,
}

/// Nobody can be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody can be told: {0}")]
pub struct FeedError(pub String);

/// Tells others of what happened.
#[async_trait]
pub trait Feed: fmt::Debug + Send + Sync {
    /// Publishes what a task did, after that is stored.
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError>;
}

/// Tells nobody: for a process that nobody listens to.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullFeed;

#[async_trait]
impl Feed for NullFeed {
    async fn publish(&self, _change: ManagedChange) -> Result<(), FeedError> {
        Ok(())
    }
}
