//! Feeds: changes to memories as numbered event streams that clients subscribe to.
//!
//! Lanes publish the ends of tasks through [`Feed`]. [`Feeds`] implements it for all workspaces of
//! a daemon, and receives all other changes from the store.
//!
//! A publisher writes an event once, into a ring buffer, and wakes the readers. A reader has no
//! queue of its own, only a position in the ring; its backlog is what lies behind that position. A
//! slow reader therefore costs the others nothing, and neither does an idle feed.
//!
//! Events are values. Their wire format belongs to the server; this module only estimates their
//! encoded size.

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

/// A change that a task made to the memories of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedChange {
    /// The id of the workspace.
    pub workspace: String,
    /// The kind of the task.
    pub source: TaskKind,
    /// Id of the task.
    pub task: TaskId,
    /// The mounts whose memories changed.
    pub scopes: BTreeSet<Mount>,
    /// The client that requested the task.
    pub originator: Option<ClientId>,
    /// Number of changed entries.
    pub saved: usize,
}

/// An error while publishing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event cannot be published: {0}")]
pub struct FeedError(pub String);

/// A publisher of the ends of tasks.
#[async_trait]
pub trait Feed: fmt::Debug + Send + Sync {
    /// Publishes the end of a task, after it is stored.
    async fn publish(&self, change: ManagedChange) -> Result<(), FeedError>;
}

/// A feed that drops all events, for a process without subscribers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullFeed;

#[async_trait]
impl Feed for NullFeed {
    async fn publish(&self, _change: ManagedChange) -> Result<(), FeedError> {
        Ok(())
    }
}
