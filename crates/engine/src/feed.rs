//! Where others hear of what tasks did.

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
pub struct Unheard;

#[async_trait]
impl Feed for Unheard {
    async fn publish(&self, _change: ManagedChange) -> Result<(), FeedError> {
        Ok(())
    }
}
