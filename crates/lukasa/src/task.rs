//! Tasks: remember, forget and dream, carried out beside the caller.

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

/// How many bytes the text of a task may have; over HTTP it is the same.
const TEXT_BYTES_MAX: usize = 65_536;

/// A task that is asked for once it is awaited or [started](Self::start).
///
/// Awaiting it waits for the end. The task is durable before anything is done, so dropping the future does not
/// take it back; [`Task::cancel`] does.
#[must_use = "nothing is asked for before it is awaited or started"]
pub struct TaskRequest {
    memories: Memories,
    request: CuratorRequest,
}

/// A task that was taken: it will be done, by this process or another one.
///
/// The tasks of a workspace are done one after the other. Dropping the handle changes nothing; its
/// [id](Self::id) finds the task again, after a restart too.
#[derive(Clone)]
#[must_use = "a handle tells how the task ends"]
pub struct Task {
    memories: Memories,
    id: TaskId,
}

/// How far a task is.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It waits for those before it.
    Queued,
    /// It is being done.
    Running,
    /// It is done.
    Completed(TaskReport),
    /// It was given up, and nothing of it was written.
    Failed(Error),
}

/// The outcome of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskReport {
    /// The task; [`Memories::undo_task`] takes it back.
    pub id: TaskId,
    /// A sentence on what was done.
    pub summary: String,
    /// The memories that changed.
    pub memories: Vec<MemoryPath>,
    /// How many proposals it made; [`Memories::proposals`] lists them.
    pub proposals: usize,
    /// Of a forget that removed nothing: the entries that may be meant. A request with the text of one means it
    /// alone.
    pub candidates: Vec<String>,
}

impl Memories {
    /// Remembers a text, in the memory where it belongs, and not twice.
    ///
    /// ```
    /// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
    /// let report = memories.remember("I prefer tabs over spaces").await?;
    /// println!("{} {:?}", report.summary, report.memories);
    ///
    /// // Or go on meanwhile:
    /// let task = memories.remember("I work at night").start().await?;
    /// // ...
    /// let report = task.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn remember(&self, text: &str) -> TaskRequest {
        self.remember_with(text, None)
    }

    /// Remembers a text in this scope.
    pub fn remember_in(&self, scope: Scope, text: &str) -> TaskRequest {
        self.remember_with(text, Some(scope))
    }

    fn remember_with(&self, text: &str, scope: Option<Scope>) -> TaskRequest {
        let (content, context_mode) = (text.to_owned(), ContextMode::Workspace);
        self.request(CuratorRequest::Remember(RememberRequest { content, context_mode, scope }))
    }

    /// Removes the entries that a request means, such as `my preference for tabs`.
    pub fn forget(&self, query: &str) -> TaskRequest {
        let query = query.to_owned();
        self.request(CuratorRequest::Forget(ForgetRequest { query, scope: None, file: None }))
    }

    /// Removes such entries of this scope.
    pub fn forget_in(&self, scope: Scope, query: &str) -> TaskRequest {
        let (query, scope) = (query.to_owned(), Some(scope));
        self.request(CuratorRequest::Forget(ForgetRequest { query, scope, file: None }))
    }

    /// Tidies memories up: merges what repeats, and proposes what is less certain.
    pub fn dream(&self) -> TaskRequest {
        self.request(CuratorRequest::Dream)
    }

    fn request(&self, request: CuratorRequest) -> TaskRequest {
        TaskRequest { memories: self.clone(), request }
    }

    /// Returns the task of this id in this workspace, if there is one that the caller may see.
    pub async fn task(&self, id: &TaskId) -> Result<Option<Task>> {
        let _call = self.begin()?;
        let lanes = &self.lukasa.0.services.lanes;
        let task = lanes.get(&self.workspace, id, self.caller.viewer()).await?;
        Ok(task.map(|_| Task { memories: self.clone(), id: id.clone() }))
    }

    /// Returns the tasks of this workspace, the latest first. Those that an earlier process left are gone on
    /// with.
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
    /// Has the task queued, durably, and returns a handle to it.
    ///
    /// Fails with [`Busy`](crate::ErrorKind::Busy) when as many tasks wait as the queue of the workspace
    /// holds, and with [`Denied`](crate::ErrorKind::Denied) for an agent that may not write everywhere.
    pub async fn start(self) -> Result<Task> {
        let Self { memories, request } = self;
        let _call = memories.begin()?;
        if memories.class() != AgentClass::Exec {
            return Err(ErrorCause::TasksDenied(memories.class().into()).into());
        }
        check_text(&request)?;
        let lanes = &memories.lukasa.0.services.lanes;
        let asker = memories.caller.requester();
        let task = lanes.submit(&memories.workspace, request, asker).await?;
        Ok(Task { memories: memories.clone(), id: task.id })
    }

    /// Works out what the task would report, and changes nothing.
    pub async fn preview(self) -> Result<TaskReport> {
        let Self { memories, request } = self;
        let _call = memories.begin()?;
        check_text(&request)?;
        let lanes = &memories.lukasa.0.services.lanes;
        let asker = memories.caller.requester();
        let rehearsed = lanes.preview(&memories.workspace, &request, &asker).await?;
        Ok(report(TaskId::new(request.kind()), rehearsed.result))
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

    /// Returns how far it is, without waiting.
    pub async fn status(&self) -> Result<TaskStatus> {
        let _call = self.memories.begin()?;
        let lanes = &self.memories.lukasa.0.services.lanes;
        let id = &self.id;
        let task = lanes.get(&self.memories.workspace, id, self.memories.caller.viewer()).await?;
        let task = task.ok_or_else(|| self.unknown())?;
        Ok(status(&self.id, task.state.clone()))
    }

    /// Waits for its end. If the home is closed before, the error is [`Closed`](crate::ErrorKind::Closed) and
    /// the task goes on with the next start.
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
                unreachable!("a task is waited for until it has ended")
            }
        }
    }

    /// Takes the task back, and returns how far it is now: [`Failed`](TaskStatus::Failed) if it was stopped
    /// in time, [`Running`](TaskStatus::Running) as long as it is being stopped.
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
        // Not the text: it may hold what must not be logged.
        f.debug_struct("TaskRequest").field("kind", &self.request.kind()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("id", &self.id.as_str()).finish_non_exhaustive()
    }
}
