//! Tasks: remember, forget and dream, which run in the background.
//!
//! A [`TaskRequest`] becomes a durable [`Task`] when it is started or awaited. The engine's lanes run the tasks; this
//! module only submits, polls, waits and cancels.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;

use engine::{
    CancelOutcome, ContextMode, CuratorRequest, EntryAction, ForgetRequest, RememberRequest,
    TaskDetails, TaskFilter, TaskId, TaskResult, TaskState,
};
use memory::access::AgentClass;
use memory::path::{MemoryPath, Scope};

use crate::Result;
use crate::error::{Error, ErrorCause};
use crate::memories::Memories;

/// Maximum size of the text of a task in bytes; the same as over HTTP.
const TEXT_BYTES_MAX: usize = 65_536;

/// A task that is not queued yet. Await it or [start](Self::start) it.
///
/// Awaiting it waits for the end of the task. The task is durable before it runs, so dropping the future does not
/// cancel it; [`Task::cancel`] does.
#[must_use = "a task request does nothing unless it is awaited or started"]
pub struct TaskRequest {
    memories: Memories,
    request: CuratorRequest,
}

/// A queued task. This process or another one will run it.
///
/// The tasks of a workspace run one after the other. Dropping the handle changes nothing; its [id](Self::id) finds the
/// task again, even after a restart.
#[derive(Clone)]
#[must_use = "a handle reports how the task ends"]
pub struct Task {
    memories: Memories,
    id: TaskId,
}

/// The progress of a task.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It waits for the tasks before it.
    Queued,
    /// It is being executed.
    Running,
    /// It is done.
    Completed(TaskReport),
    /// It failed or was cancelled, and nothing of it was written.
    Failed(Error),
}

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskReport {
    /// The id of the task, for [`Memories::undo_task`].
    pub id: TaskId,
    /// A sentence about the result.
    pub summary: String,
    /// The memories that changed.
    pub memories: Vec<MemoryPath>,
    /// Number of proposals it made; [`Memories::proposals`] lists them.
    pub proposals: usize,
    /// After a forget that removed nothing: the entries that may be meant. A request with the full text of one selects
    /// only that one.
    pub candidates: Vec<String>,
}

impl Memories {
    /// Adds a text to the memory where it belongs, unless it is already known.
    ///
    /// ```
    /// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
    /// let report = memories.remember("I prefer tabs over spaces").await?;
    /// println!("{} {:?}", report.summary, report.memories);
    ///
    /// // Or continue meanwhile:
    /// let task = memories.remember("I work at night").start().await?;
    /// // ...
    /// let report = task.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remember(&self, text: &str) -> TaskRequest {
        self.remember_with(text, None)
    }

    /// Adds a text to a memory of this scope.
    pub fn remember_in(&self, scope: Scope, text: &str) -> TaskRequest {
        self.remember_with(text, Some(scope))
    }

    fn remember_with(&self, text: &str, scope: Option<Scope>) -> TaskRequest {
        let (content, context_mode) = (text.to_owned(), ContextMode::Workspace);
        self.request(CuratorRequest::Remember(RememberRequest { content, context_mode, scope }))
    }

    /// Removes the entry that a request clearly means, such as `my preference for tabs`. If several
    /// entries may be meant, or none, nothing is removed.
    pub fn forget(&self, query: &str) -> TaskRequest {
        let query = query.to_owned();
        self.request(CuratorRequest::Forget(ForgetRequest { query, scope: None, file: None }))
    }

    /// Removes the entry of this scope that a request clearly means, as [`forget`](Self::forget) does.
    pub fn forget_in(&self, scope: Scope, query: &str) -> TaskRequest {
        let (query, scope) = (query.to_owned(), Some(scope));
        self.request(CuratorRequest::Forget(ForgetRequest { query, scope, file: None }))
    }

    /// Tidies memories: merges duplicates, and proposes less certain changes.
    pub fn dream(&self) -> TaskRequest {
        self.request(CuratorRequest::Dream)
    }

    fn request(&self, request: CuratorRequest) -> TaskRequest {
        TaskRequest { memories: self.clone(), request }
    }

    /// Returns the task with this id in this workspace, if it exists and the caller may see it.
    pub async fn task(&self, id: &TaskId) -> Result<Option<Task>> {
        let _call = self.begin()?;
        let lanes = &self.lukasa.0.services.lanes;
        let task = lanes.get(&self.workspace, id, self.caller.viewer()).await?;
        Ok(task.map(|_| Task { memories: self.clone(), id: id.clone() }))
    }

    /// Returns the tasks of this workspace, latest first. Resumes unfinished tasks of earlier processes.
    pub async fn tasks(&self) -> Result<Vec<Task>> {
        let _call = self.begin()?;
        let lanes = &self.lukasa.0.services.lanes;
        lanes.resume(std::slice::from_ref(&self.workspace)).await?;
        let tasks =
            lanes.list(&self.workspace, TaskFilter::default(), self.caller.viewer()).await?;
        Ok(tasks.into_iter().map(|task| Task { memories: self.clone(), id: task.id }).collect())
    }
}

impl TaskRequest {
    /// Queues the task durably and returns a handle to it.
    ///
    /// Fails with [`Busy`](crate::ErrorKind::Busy) if the queue of the workspace is full, and with
    /// [`Denied`](crate::ErrorKind::Denied) for an agent that may not write everywhere.
    pub async fn start(self) -> Result<Task> {
        let Self { memories, request } = self;
        let _call = memories.begin()?;
        if memories.class() != AgentClass::Exec {
            return Err(ErrorCause::TasksDenied(memories.class().into()).into());
        }
        check_text(&request)?;
        let lanes = &memories.lukasa.0.services.lanes;
        let requester = memories.caller.requester();
        let task = lanes.submit(&memories.workspace, request, requester).await?;
        Ok(Task { memories: memories.clone(), id: task.id })
    }

    /// Computes what the task would report, and changes nothing.
    pub async fn preview(self) -> Result<TaskReport> {
        let Self { memories, request } = self;
        let _call = memories.begin()?;
        check_text(&request)?;
        let lanes = &memories.lukasa.0.services.lanes;
        let requester = memories.caller.requester();
        let previewed = lanes.preview(&memories.workspace, &request, &requester).await?;
        Ok(report(TaskId::new(request.kind()), previewed.result))
    }
}

impl IntoFuture for TaskRequest {
    type Output = Result<TaskReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start().await?.wait().await })
    }
}

impl Task {
    /// Returns its id.
    pub const fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns its progress, without waiting.
    pub async fn status(&self) -> Result<TaskStatus> {
        let _call = self.memories.begin()?;
        let lanes = &self.memories.lukasa.0.services.lanes;
        let id = &self.id;
        let task = lanes.get(&self.memories.workspace, id, self.memories.caller.viewer()).await?;
        let task = task.ok_or_else(|| self.unknown())?;
        Ok(status(&self.id, task.state.clone()))
    }

    /// Waits for its end. If the home is closed first, the error is [`Closed`](crate::ErrorKind::Closed) and the task
    /// continues after the next opening.
    pub async fn wait(&self) -> Result<TaskReport> {
        let shared = &self.memories.lukasa.0;
        let waiting = shared.services.lanes.wait(&self.memories.workspace, &self.id);
        let Some(ended) = shared.draining.run_until_cancelled(waiting).await else {
            return Err(ErrorCause::Closed.into());
        };
        let task = ended?.ok_or_else(|| self.unknown())?;
        match status(&self.id, task.state) {
            TaskStatus::Completed(report) => Ok(report),
            TaskStatus::Failed(error) => Err(error),
            TaskStatus::Queued | TaskStatus::Running => {
                unreachable!("`wait` returns only ended tasks")
            }
        }
    }

    /// Cancels the task, and returns its progress: [`Failed`](TaskStatus::Failed) if it was stopped in time,
    /// [`Running`](TaskStatus::Running) while it is being stopped.
    pub async fn cancel(&self) -> Result<TaskStatus> {
        let _call = self.memories.begin()?;
        let lanes = &self.memories.lukasa.0.services.lanes;
        let id = &self.id;
        let cancelled =
            lanes.cancel(&self.memories.workspace, id, self.memories.caller.viewer()).await?;
        match cancelled.ok_or_else(|| self.unknown())? {
            CancelOutcome::AlreadyEnded(task) | CancelOutcome::Requested(task) => {
                Ok(status(&self.id, task.state))
            }
        }
    }

    fn unknown(&self) -> Error {
        ErrorCause::UnknownTask(self.id.clone()).into()
    }
}

fn check_text(request: &CuratorRequest) -> Result<()> {
    let (text, code) = match request {
        CuratorRequest::Remember(RememberRequest { content, .. }) => (content, "invalid_content"),
        CuratorRequest::Forget(ForgetRequest { query, .. }) => (query, "invalid_query"),
        CuratorRequest::Dream | CuratorRequest::Review(_) => return Ok(()),
    };
    if text.trim().is_empty() || text.len() > TEXT_BYTES_MAX {
        return Err(ErrorCause::TaskText { code, bytes: text.len(), max: TEXT_BYTES_MAX }.into());
    }
    Ok(())
}

fn status(id: &TaskId, state: TaskState) -> TaskStatus {
    match state {
        TaskState::Queued => TaskStatus::Queued,
        TaskState::Running => TaskStatus::Running,
        TaskState::Completed(result) => TaskStatus::Completed(report(id.clone(), result)),
        TaskState::Failed(error) => TaskStatus::Failed(error.into()),
    }
}

fn report(id: TaskId, result: TaskResult) -> TaskReport {
    let changed = result.changes.iter().filter(|entry| entry.action != EntryAction::Known);
    let mut memories: Vec<_> = changed.map(|entry| entry.path.clone()).collect();
    memories.sort();
    memories.dedup();
    let proposals = result.proposals.count();
    let candidates = match result.details {
        TaskDetails::Forget { candidates, .. } => {
            candidates.into_iter().map(|candidate| candidate.entry).collect()
        }
        TaskDetails::Remember { .. } | TaskDetails::Dream { .. } | TaskDetails::Review { .. } => {
            Vec::new()
        }
    };
    TaskReport { id, summary: result.summary, memories, proposals, candidates }
}

impl fmt::Debug for TaskRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the text, which may contain secrets.
        f.debug_struct("TaskRequest").field("kind", &self.request.kind()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id.as_str()).finish_non_exhaustive()
    }
}
