//! Tasks: asked for, looked at, waited for, taken back.

use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::session::{Session, SessionRequest};
use crate::task::{ForgetRequest, RememberRequest, Task, TaskKind, TaskList, TaskStatus, WorkKind};

/// How soon a task is looked at after it was asked for. Rules take a few milliseconds.
const POLL_DELAY_MIN: Duration = Duration::from_millis(2);

/// How long at most between two looks. A model takes seconds.
const POLL_DELAY_MAX: Duration = Duration::from_millis(500);

/// Which tasks to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TasksQuery {
    /// Only those of this kind.
    pub kind: Option<WorkKind>,
    /// Only those that are so far.
    pub status: Option<TaskStatus>,
    /// At most so many.
    pub max: Option<usize>,
}

impl Client {
    /// Begins a session: registers a client, whose id [`Client::with_client_id`] takes, with a stream of
    /// what tasks do. `cwd` is the folder of the workspace; left out, the first one is meant.
    pub async fn begin_session(&self, cwd: Option<&str>) -> Result<Session, ClientError> {
        let request = SessionRequest { cwd: cwd.map(str::to_owned) };
        self.value(ApiCall::post("/session").json(&request)?).await
    }

    /// Ends a session: its client is known no more, and its streams end.
    pub async fn end_session(&self, id: &str) -> Result<(), ClientError> {
        self.body(ApiCall::delete(&format!("/session/{id}"))).await.map(drop)
    }

    /// Asks to remember a text.
    pub async fn remember(&self, request: &RememberRequest) -> Result<Task, ClientError> {
        self.submit(TaskKind::Remember, request).await
    }

    /// Asks to forget what a query means.
    pub async fn forget(&self, request: &ForgetRequest) -> Result<Task, ClientError> {
        self.submit(TaskKind::Forget, request).await
    }

    /// Asks to tidy up.
    pub async fn dream(&self) -> Result<Task, ClientError> {
        self.submit(TaskKind::Dream, &json!({})).await
    }

    async fn submit(&self, kind: TaskKind, request: &impl Serialize) -> Result<Task, ClientError> {
        self.value(ApiCall::post(&self.kind_path(kind.as_ref())).json(request)?).await
    }

    /// Looks at a task, by its id.
    pub async fn task(&self, id: &str) -> Result<Task, ClientError> {
        self.value(ApiCall::get(&self.task_path(id))).await
    }

    /// Lists the tasks that this client may see, the latest first.
    pub async fn tasks(&self, query: &TasksQuery) -> Result<TaskList, ClientError> {
        let call = ApiCall::get("/v1/tasks")
            .query("kind", query.kind)
            .query("status", query.status)
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Takes a task back. One that is being done is stopped and may end a little later; one that has
    /// ended stays as it is. What is returned says which.
    pub async fn cancel(&self, id: &str) -> Result<Task, ClientError> {
        self.value(ApiCall::delete(&self.task_path(id))).await
    }

    /// Waits until a task is completed, for no longer than `patience`.
    ///
    /// A daemon that is away, full or restarting meanwhile is asked again: tasks outlive it. Dropping the
    /// future stops the waiting, not the task.
    ///
    /// # Errors
    ///
    /// [`ClientError::TaskFailed`] when it was given up or taken back, [`ClientError::TaskUnfinished`]
    /// when patience ran out; or, when nothing was heard of it by then, what was wrong.
    pub async fn wait_for(&self, id: &str, patience: Duration) -> Result<Task, ClientError> {
        let mut heard = Err(ClientError::TimedOut(patience));
        if let Ok(ended) = timeout(patience, self.poll(id, &mut heard)).await {
            return ended;
        }
        Err(match heard {
            Ok(task) => ClientError::TaskUnfinished { patience, task: Box::new(task) },
            Err(error) => error,
        })
    }

    /// Looks at a task again and again; `heard` is what came of the last look.
    async fn poll(
        &self,
        id: &str,
        heard: &mut Result<Task, ClientError>,
    ) -> Result<Task, ClientError> {
        let mut delay = POLL_DELAY_MIN;
        loop {
            let mut wanted = Duration::ZERO;
            match self.task(id).await {
                Ok(task) => match task.status {
                    TaskStatus::Completed => return Ok(task),
                    TaskStatus::Failed => return Err(ClientError::TaskFailed(Box::new(task))),
                    TaskStatus::Queued | TaskStatus::Running => *heard = Ok(task),
                },
                Err(error) if error.is_temporary() => {
                    wanted = error.retry_after().unwrap_or_default();
                    *heard = Err(error);
                }
                Err(error) => return Err(error),
            }
            sleep(delay.max(wanted)).await;
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
