//! Lanes: the tasks of a workspace, strictly one at a time, in the order in which they came.
//!
//! A task is durable before it is acknowledged. One lock file per workspace in the state folder keeps
//! lanes of several processes apart; whoever holds it does whatever is queued, whoever queued it. What
//! somebody who died left running is completed from its record of change, or done once more if nothing
//! of it was committed. A runner edits a draft; only the lane commits. An idle lane costs nothing.

use std::time::Duration;

use state::StateError;

use crate::task::{Asker, ClientId, Request, Status, Task, TaskId, TaskKind};
use crate::workspace::Workspace;

/// Why a task was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Nobody said that this workspace is to be trusted.
    #[error("the workspace is not trusted")]
    Untrusted,
    /// Memory is off for this workspace.
    #[error("managed memory is off for this workspace")]
    Unavailable,
    /// As many tasks wait or run as the lane holds; try again later.
    #[error("the lane holds as many unfinished tasks as it may")]
    Full,
    /// The workspace, or the whole process, is being shut down.
    #[error("the workspace is shutting down")]
    Draining,
    /// Nobody can say whether tasks can be done here.
    #[error("whether tasks can be done here could not be found out")]
    ProbeFailed,
    /// The state cannot keep the task.
    #[error("the task cannot be kept")]
    State(#[from] StateError),
}

/// Who looks at tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer<'a> {
    /// The person whose machine this is: sees all.
    Person,
    /// A program: sees what the client of this name asked for, or what somebody without one did.
    Client(Option<&'a ClientId>),
}

/// Which tasks to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only those of this kind.
    pub kind: Option<TaskKind>,
    /// Only those that are so far.
    pub status: Option<Status>,
    /// At most so many, the latest.
    pub max: Option<usize>,
}

/// What became of the wish to take a task back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is, or was, over: this is what came of it. A task that was taken back has failed.
    Over(Task),
    /// It is being stopped by whoever runs it; it ends soon.
    Stopping(Task),
}

impl Lanes {
    /// Takes a task, durably, and sees to it that it is done.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        request: Request,
        asker: Asker,
    ) -> Result<Task, SubmitError>;

    /// Returns a task of this workspace and kind, if the viewer may see it.
    pub async fn get(
        &self,
        workspace: &Workspace,
        id: (TaskKind, &TaskId),
        viewer: Viewer<'_>,
    ) -> Result<Option<Task>, StateError>;

    /// Returns the tasks of this workspace that the viewer may see, latest first.
    pub async fn list(
        &self,
        workspace: &Workspace,
        filter: TaskFilter,
        viewer: Viewer<'_>,
    ) -> Result<Vec<Task>, StateError>;

    /// Takes a task back, if the viewer may see it. What is already being committed is completed.
    pub async fn cancel(
        &self,
        workspace: &Workspace,
        id: (TaskKind, &TaskId),
        viewer: Viewer<'_>,
    ) -> Result<Option<Cancelled>, StateError>;

    /// Waits until nothing will become of a task any more; `None` if there is no such task.
    pub async fn wait(&self, id: &TaskId) -> Result<Option<Task>, StateError>;

    /// Goes on with what earlier lives of this process left in these workspaces.
    pub async fn resume(&self, workspaces: &[Workspace]) -> Result<(), StateError>;

    /// Takes no more tasks of a workspace that is removed: those that wait fail, the one that runs is
    /// stopped.
    pub async fn remove(&self, workspace: &Workspace) -> Result<(), StateError>;

    /// Takes no more tasks and starts none; lets those that run end for so long, then stops them. What
    /// is not done stays queued in the state.
    pub async fn drain(&self, wait: Duration);
}
