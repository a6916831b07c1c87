//! Calls for sessions and tasks: submit, poll, wait and cancel.
//!
//! A task is submitted and then polled until it ends; tasks survive a restart of the daemon.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::session::{Session, SessionRequest};
use crate::task::{ForgetRequest, RememberRequest, Task, TaskKind, TaskList, TaskStatus, WorkKind};

/// The delay before the second poll of a task; it doubles with each poll. Rules take a few milliseconds.
const POLL_DELAY_MIN: Duration = Duration::from_millis(2);

/// The longest delay between two polls. A model takes seconds.
const POLL_DELAY_MAX: Duration = Duration::from_millis(500);

/// A filter for tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TasksQuery {
    /// Only tasks of this kind.
    pub kind: Option<WorkKind>,
    /// Only tasks with this status.
    pub status: Option<TaskStatus>,
    /// The most tasks to return.
    pub max: Option<usize>,
}

impl Client {
    /// Begins a session: registers a client, whose id [`Client::with_client_id`] takes, with a stream of task events.
    /// `cwd` is the folder of the workspace; without it, the primary workspace is used.
    pub async fn begin_session(&self, cwd: Option<&str>) -> Result<Session, ClientError> {
        let request = SessionRequest { cwd: cwd.map(str::to_owned) };
        self.value(ApiCall::post("/session").json(&request)?).await
    }

    /// Ends a session: its client is unregistered, and its streams end.
    pub async fn end_session(&self, id: &str) -> Result<(), ClientError> {
        self.body(ApiCall::delete(&format!("/session/{id}"))).await.map(drop)
    }

    /// Submits a task to remember a text.
    pub async fn remember(&self, request: &RememberRequest) -> Result<Task, ClientError> {
        self.submit(TaskKind::Remember, request).await
    }

    /// Submits a task to forget the entries that a query means.
    pub async fn forget(&self, request: &ForgetRequest) -> Result<Task, ClientError> {
        self.submit(TaskKind::Forget, request).await
    }

    /// Submits a task to tidy memories.
    pub async fn dream(&self) -> Result<Task, ClientError> {
        self.submit(TaskKind::Dream, &json!({})).await
    }

    async fn submit(&self, kind: TaskKind, request: &impl Serialize) -> Result<Task, ClientError> {
        self.value(ApiCall::post(&self.kind_path(kind.as_ref())).json(request)?).await
    }

    /// Returns a task by its id.
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        self.value(ApiCall::get(&self.task_path(id))).await
    }

    /// Lists the tasks that this client may see, latest first.
    pub async fn tasks(&self, query: &TasksQuery) -> Result<TaskList, ClientError> {
        let call = ApiCall::get("/v1/tasks")
            .query("kind", query.kind)
            .query("status", query.status)
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Cancels a task. A running task is stopped and may end a little later; an ended one is unchanged. The returned
    /// task has the current status.
    pub async fn cancel(&self, id: &str) -> Result<Task, ClientError> {
        self.value(ApiCall::delete(&self.task_path(id))).await
    }

    /// Waits until a task is completed, for no longer than `patience`.
    ///
    /// While the daemon is unreachable, full or restarting, the call is retried: tasks survive a restart. Dropping the
    /// future stops the waiting, not the task.
    ///
    /// # Errors
    ///
    /// [`ClientError::TaskFailed`] if it failed or was cancelled; [`ClientError::TaskUnfinished`] if `patience` ran
    /// out; the last error if the status could not be read by then.
    pub async fn wait_for(&self, id: &str, patience: Duration) -> Result<Task, ClientError> {
        let mut last = Err(ClientError::TimedOut(patience));
        if let Ok(outcome) = timeout(patience, self.poll(id, &mut last)).await {
            return outcome;
        }
        Err(match last {
            Ok(task) => ClientError::TaskUnfinished { patience, task: Box::new(task) },
            Err(error) => error,
        })
    }

    /// Polls a task until it ends; `last` receives the outcome of the last poll.
    async fn poll(
        &self,
        id: &str,
        last: &mut Result<Task, ClientError>,
    ) -> Result<Task, ClientError> {
        let mut delay = POLL_DELAY_MIN;
        loop {
            let mut retry_after = Duration::ZERO;
            match self.task(id).await {
                Ok(task) => match task.status {
                    TaskStatus::Completed => return Ok(task),
                    TaskStatus::Failed => return Err(ClientError::TaskFailed(Box::new(task))),
                    TaskStatus::Queued | TaskStatus::Running => *last = Ok(task),
                },
                Err(error) if error.is_temporary() => {
                    retry_after = error.retry_after().unwrap_or_default();
                    *last = Err(error);
                }
                Err(error) => return Err(error),
            }
            sleep(delay.max(retry_after)).await;
            delay = (delay * 2).min(POLL_DELAY_MAX);
        }
    }

    fn kind_path(&self, kind: &str) -> String {
        format!("{}/{kind}", self.workspace_memory_path())
    }

    /// Returns the path of a task; its id begins with its kind.
    fn task_path(&self, id: &str) -> String {
        let kind = id.split_once('-').map_or(id, |(kind, _)| kind);
        format!("{}/{id}", self.kind_path(kind))
    }
}
