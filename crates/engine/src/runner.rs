//! Who carries a task out: the port, and the curator of this process behind it.

use std::fmt;

use async_trait::async_trait;
use store::{Draft, Memories};
use tokio_util::sync::CancellationToken;

use crate::task::{Request, TaskError, TaskId, TaskResult};
use crate::workspace::Workspace;

/// One attempt at a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The task.
    pub task: TaskId,
    /// What is asked for.
    pub request: Request,
    /// Where.
    pub workspace: Workspace,
}

/// Why an attempt came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A memory changed while it was being decided upon: decide anew, on a new draft.
    #[error("a memory changed meanwhile")]
    Conflict,
    /// The task is to be given up.
    #[error(transparent)]
    Failed(#[from] TaskError),
}

/// Carries tasks out: reads memories, edits a draft, and commits nothing.
#[async_trait]
pub trait Runner: fmt::Debug + Send + Sync {
    /// Returns the word that a run is recorded with.
    fn name(&self) -> &'static str;

    /// Tells whether tasks of this workspace can be done at all.
    async fn available(&self, workspace: &Workspace) -> Result<bool, TaskError>;

    /// Does the work on a draft. When `stop` is cancelled it comes to an end soon; what it returns then
    /// is of no interest, and neither is the draft.
    async fn run(
        &self,
        job: &Job,
        memories: &Memories,
        draft: &mut Draft,
        stop: &CancellationToken,
    ) -> Result<TaskResult, RunError>;
}
