//! Feeds: changes to memories as numbered event streams that clients subscribe to.
//!
//! Lanes publish the ends of tasks through [`Feed`]. [`Feeds`] implements it for all workspaces of
//! a daemon, and receives all other changes from the store.
//!
//! A publisher writes an event once, into a ring buffer, and wakes the readers. A reader has no
//! queue of its own, only a position in the ring; its backlog is what lies behind that position. A
//! slow reader therefore costs the others nothing, and neither does an idle feed.
//!
//! Daemons that share a database share a log of events there, too. Then nothing is published here: a
//! reader of the log fills the ring buffers, under the numbers of the log.
//!
//! Events are values. Their wire format belongs to the server; this module only estimates their
//! encoded size.

mod bus;
mod event;
mod feeds;
mod log_reader;
mod publishing;
mod ring;
mod subscription;
#[cfg(test)]
mod tests;
mod workspace_feed;

pub use bus::{Bounds, Epoch, EventBus, EventCursor, SubscribeError};
pub use event::{ContextWrite, FeedChange, FeedEvent};
pub use feeds::Feeds;
pub(crate) use log_reader::SharedLog;
pub use subscription::{
    BacklogSize, Event, EventKind, Evicted, ExceededLimit, ReplayComplete, Resync, ResyncReason,
    SlowReader, Subscription,
};

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use memory::path::Mount;
use state::TaskEndEvent;

use crate::task::{ClientId, Task, TaskId, TaskKind, TaskResult};

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

impl ManagedChange {
    /// Returns the change that a completed task made; `None` if subscribers are not notified of it.
    pub(crate) fn of_task(task: &Task, result: &TaskResult, review_verbose: bool) -> Option<Self> {
        let change = Self {
            workspace: task.workspace.clone(),
            source: task.kind(),
            task: task.id.clone(),
            scopes: result.scopes.clone(),
            originator: task.requester.client.clone(),
            saved: result.changes.len(),
        };
        change.is_news(review_verbose).then_some(change)
    }

    /// Does the same for a task that has ended as a log says.
    pub(crate) fn of_event(event: TaskEndEvent, review_verbose: bool) -> Option<Self> {
        let TaskEndEvent { task, kind, workspace, client, scopes, saved } = event;
        let originator = client.and_then(|client| client.parse().ok());
        let task = task.parse().ok()?;
        let change = Self { workspace, source: kind, task, scopes, originator, saved };
        change.is_news(review_verbose).then_some(change)
    }

    /// Checks whether subscribers are notified. They are notified of a review if that was requested
    /// and it saved something.
    fn is_news(&self, review_verbose: bool) -> bool {
        let is_silent = self.source == TaskKind::Review && (self.saved == 0 || !review_verbose);
        !self.scopes.is_empty() && !is_silent
    }
}

impl From<ManagedChange> for FeedEvent {
    fn from(managed: ManagedChange) -> Self {
        let ManagedChange { workspace: _, source, task, scopes, originator, saved } = managed;
        let change = match source {
            TaskKind::Review => FeedChange::Review { task, saved, scopes },
            TaskKind::Remember | TaskKind::Forget | TaskKind::Dream => {
                FeedChange::Task { task, kind: source, scopes }
            }
        };
        Self { originator, change }
    }
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
