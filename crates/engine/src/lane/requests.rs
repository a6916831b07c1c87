//! What is asked of lanes from outside: take a task, show it, take it back, wait for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use agents::{RememberError, RememberRequest};
use futures_util::FutureExt as _;
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::limits::{TASK_POLL_INTERVAL, TASKS_LISTED_MAX};
use memory::screen::{Family, Policy, TextAuthor};
use state::{
    DreamPreconditions, EnqueueResult, NewTask, OwnerFilter, QueueLimits, StateError, TaskOutcome,
    TaskQuery, TaskRow,
};
use store::FileDiff;
use tokio_util::sync::CancellationToken;

use super::decide::{Conflict, DecisionRequest, RunOutcome};
use super::shared::{Lane, Lanes, LanesInner, open_draft};
use crate::runner::{Job, RunError};
use crate::stage::StagedAttempt;
use crate::task::record;
use crate::task::{
    ClientId, CuratorRequest, Requester, Status, Task, TaskError, TaskErrorCode, TaskId, TaskKind,
    TaskResult, TaskState,
};
use crate::workspace::Workspace;

/// Why a task was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Nobody said that this workspace is to be trusted.
    #[error("the workspace is not trusted")]
    Untrusted,
    /// A person switched tasks off.
    #[error("the feature `{}` is switched off", Feature::Tasks)]
    FeatureDisabled,
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

impl SubmitError {
    /// Returns the stable public code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted_workspace",
            Self::FeatureDisabled => MemoryErrorCode::FeatureDisabled.into(),
            Self::Unavailable => TaskErrorCode::ManagedMemoryUnavailable.as_str(),
            Self::Full => "remember_queue_full",
            Self::Draining => "workspace_draining",
            Self::ProbeFailed => TaskErrorCode::RememberFailed.as_str(),
            Self::State(error) => error.code().into(),
        }
    }
}

/// Who looks at tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer<'a> {
    /// The person whose machine this is: sees all.
    Person,
    /// A program: sees what the client of this name asked for, or what somebody without one did.
    Client(Option<&'a ClientId>),
}

impl Viewer<'_> {
    fn can_see(self, client: Option<&str>) -> bool {
        match self {
            Self::Person => true,
            Self::Client(viewer) => viewer.map(ClientId::as_str) == client,
        }
    }
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
pub enum CancelOutcome {
    /// It is, or was, over: this is what came of it. A task that was taken back has failed.
    AlreadyEnded(Task),
    /// It is being stopped, or its changes are being written already; it ends soon, one way or the other.
    Requested(Task),
}

/// What a task would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPreview {
    /// What it would report.
    pub result: TaskResult,
    /// What it would change.
    pub diffs: Vec<FileDiff>,
}

/// The reason why a rehearsal shows nothing.
#[derive(Debug, thiserror::Error)]
pub enum TaskPreviewError {
    /// The task would not be taken.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The task would fail.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// The reason why an attempt gives nothing to commit.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The task would not be taken.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The attempt failed, or has to be made again.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Lanes {
    /// Takes a task, durably, and sees to it that it is done.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        request: CuratorRequest,
        asker: Requester,
    ) -> Result<Task, SubmitError> {
        self.submit_if(workspace, request, asker, None).await
    }

    /// Takes a task as [`submit`](Self::submit) does; one with gates only if they are open and nothing else
    /// is to be done in the lane, which is full otherwise.
    pub(super) async fn submit_if(
        &self,
        workspace: &Workspace,
        mut request: CuratorRequest,
        asker: Requester,
        gates: Option<DreamPreconditions>,
    ) -> Result<Task, SubmitError> {
        let lane = self.0.open_lane(workspace).await?;
        let kind = request.kind();
        let refusal = self.0.withhold_secret(&mut request);
        let id = TaskId::new(kind);
        let new = NewTask {
            id: id.to_string(),
            workspace: workspace.id.clone(),
            kind,
            client: asker.client.as_ref().map(ToString::to_string),
            request: record::request_text(&request, &asker, refusal.as_ref()),
            at: self.0.deps.clock.now(),
        };
        // Noted first: another process may have done it before this one is told that it is queued.
        lane.state.lock().own_tasks.insert(id.clone());
        self.0.deps.folders.create_state_folder();
        match self.0.enqueue(new, gates).await {
            Ok(EnqueueResult::Queued(row)) if lane.removed.is_cancelled() => {
                // The workspace went after it was looked at last.
                let gone = TaskErrorCode::WorkspaceRemoved;
                self.0.cancel_task(&lane, &id, &row.request, gone).await?;
                Err(SubmitError::Draining)
            }
            Ok(EnqueueResult::Queued(row)) => {
                self.0.wake(&lane);
                Ok(Task {
                    id,
                    workspace: row.workspace,
                    requester: asker,
                    request,
                    refusal,
                    created_at: row.created_at,
                    updated_at: row.updated_at,
                    state: TaskState::Queued,
                })
            }
            Ok(EnqueueResult::Full) => {
                lane.state.lock().own_tasks.remove(&id);
                Err(SubmitError::Full)
            }
            Err(error) => {
                // It may have been queued all the same; then it is done, and its end is told.
                self.0.wake(&lane);
                Err(error.into())
            }
        }
    }

    /// Works out what a task would do, and does nothing.
    pub async fn preview(
        &self,
        workspace: &Workspace,
        request: &CuratorRequest,
        asker: &Requester,
    ) -> Result<TaskPreview, TaskPreviewError> {
        let lane = self.0.open_lane(workspace).await?;
        let stop = self.0.draining.child_token();
        let id = TaskId::new(request.kind());
        let wanted = DecisionRequest { id: &id, attempt: None, request, requester: asker };
        match self.0.decide(&lane, wanted, self.0.cutoff_for(&stop)).await {
            RunOutcome::Done(result, draft) => Ok(TaskPreview { result, diffs: draft.diffs() }),
            RunOutcome::Failed(error) => Err(error.into()),
            RunOutcome::Stopped => Err(TaskError::new(TaskErrorCode::Cancelled).into()),
        }
    }

    /// Tells whether tasks of a workspace are taken, and why not.
    pub async fn check_available(&self, workspace: &Workspace) -> Result<(), SubmitError> {
        self.0.open_lane(workspace).await.map(drop)
    }

    /// Makes one attempt at a task and commits nothing. What models do for it is noted in the ledger of the job and
    /// nowhere else: the process that has the turn puts that on record.
    pub async fn stage(
        &self,
        job: Job,
        asker: &Requester,
        stop: &CancellationToken,
    ) -> Result<StagedAttempt, StageError> {
        self.0.open_lane(&job.workspace).await?;
        let cutoff = self.0.cutoff_for(stop);
        let memories = self.0.memories(&job.workspace, &job.request, asker);
        let draft = open_draft(&memories, &job.task, None);
        match self.0.run(job, memories, draft, cutoff).await {
            Ok(RunOutcome::Done(result, draft)) => {
                let model = draft.model().map(str::to_owned);
                let because = draft.note().map(str::to_owned);
                Ok(StagedAttempt { result, edits: draft.edits(), model, reason: because })
            }
            Ok(RunOutcome::Failed(error)) => Err(RunError::Failed(error).into()),
            Ok(RunOutcome::Stopped) => {
                Err(RunError::Failed(TaskErrorCode::Cancelled.into()).into())
            }
            Err(Conflict) => Err(RunError::Conflict.into()),
        }
    }

    /// Returns a task of this workspace, if the viewer may see it.
    pub async fn get(
        &self,
        workspace: &Workspace,
        id: &TaskId,
        viewer: Viewer<'_>,
    ) -> Result<Option<Task>, StateError> {
        let row = self.0.row(workspace, id, viewer).await?;
        let Some(task) = row.as_ref().and_then(decode_row) else { return Ok(None) };
        if task.status().is_final() {
            return Ok(Some(task));
        }
        // The process that took it may have died since.
        self.0.wake_for(workspace);
        let waits = self.0.lane(workspace).is_waiting_to_retry(&task);
        Ok(Some(if waits { as_queued(task) } else { task }))
    }

    /// Returns the tasks of this workspace that the viewer may see, latest first.
    pub async fn list(
        &self,
        workspace: &Workspace,
        filter: TaskFilter,
        viewer: Viewer<'_>,
    ) -> Result<Vec<Task>, StateError> {
        let query = TaskQuery {
            workspace: Some(workspace.id.clone()),
            kind: filter.kind,
            status: filter.status,
            owner: match viewer {
                Viewer::Person => OwnerFilter::Any,
                Viewer::Client(None) => OwnerFilter::WithoutClient,
                Viewer::Client(Some(client)) => OwnerFilter::Client(client.to_string()),
            },
            ended_since: Some(self.0.retention_cutoff()),
            before: None,
            max: filter.max.unwrap_or(TASKS_LISTED_MAX).min(TASKS_LISTED_MAX),
        };
        let lane = self.0.lane(workspace);
        let shown = |task| if lane.is_waiting_to_retry(&task) { as_queued(task) } else { task };
        Ok(self
            .0
            .deps
            .tasks
            .tasks(&query)
            .await?
            .iter()
            .filter_map(decode_row)
            .map(shown)
            .collect())
    }

    /// Takes a task back, if the viewer may see it. What is already being written is completed.
    pub async fn cancel(
        &self,
        workspace: &Workspace,
        id: &TaskId,
        viewer: Viewer<'_>,
    ) -> Result<Option<CancelOutcome>, StateError> {
        let Some(row) = self.0.row(workspace, id, viewer).await? else { return Ok(None) };
        let lane = self.0.lane(workspace);
        self.0.cancel_task(&lane, id, &row.request, TaskErrorCode::Cancelled).await?;
        let row = self.0.deps.tasks.task(id.as_str()).await?;
        Ok(row.as_ref().and_then(decode_row).map(|task| {
            if task.status().is_final() {
                CancelOutcome::AlreadyEnded(task)
            } else {
                CancelOutcome::Requested(task)
            }
        }))
    }

    /// Waits until nothing will become of a task of this workspace any more; `None` if there is none.
    pub async fn wait(
        &self,
        workspace: &Workspace,
        id: &TaskId,
    ) -> Result<Option<Task>, StateError> {
        let mut moved = self.0.lane(workspace).progress.subscribe();
        loop {
            let row = self.0.deps.tasks.task(id.as_str()).await?;
            let Some(task) = row.as_ref().and_then(decode_row) else { return Ok(None) };
            if task.status().is_final() {
                return Ok(Some(task));
            }
            // Another process may be doing it, which says nothing here.
            drop(tokio::time::timeout(TASK_POLL_INTERVAL, moved.changed()).await);
        }
    }
}

impl LanesInner {
    async fn enqueue(
        &self,
        new: NewTask,
        gates: Option<DreamPreconditions>,
    ) -> Result<EnqueueResult, StateError> {
        let (tasks, limits) = (&self.deps.tasks, self.settings.limits);
        match gates {
            None => tasks.enqueue(new, limits).await,
            Some(gates) => {
                let alone = QueueLimits { unfinished_max: 1, minor_max: 1, ..limits };
                tasks.enqueue_dream(new, alone, gates).await
            }
        }
    }

    /// Returns the lane of a workspace, if it takes tasks.
    pub(super) async fn open_lane(&self, workspace: &Workspace) -> Result<Arc<Lane>, SubmitError> {
        if !workspace.trusted {
            return Err(SubmitError::Untrusted);
        }
        let lane = self.lane(workspace);
        self.check_open(&lane)?;
        if !self.has_feature(workspace, Feature::Tasks) {
            return Err(SubmitError::FeatureDisabled);
        }
        if !workspace.memory_enabled {
            return Err(SubmitError::Unavailable);
        }
        let probed = self.probe(workspace).await;
        // The end may have come while the runner was asked; then that is what counts.
        self.check_open(&lane)?;
        probed?;
        Ok(lane)
    }

    fn check_open(&self, lane: &Lane) -> Result<(), SubmitError> {
        if self.draining.is_cancelled() || lane.removed.is_cancelled() {
            return Err(SubmitError::Draining);
        }
        Ok(())
    }

    /// Asks the runner whether tasks can be done; one that panics or does not answer cannot say.
    async fn probe(&self, workspace: &Workspace) -> Result<(), SubmitError> {
        let probe = AssertUnwindSafe(self.deps.runner.available(workspace)).catch_unwind();
        match tokio::time::timeout(self.settings.probe_wait, probe).await {
            Ok(Ok(Ok(true))) => Ok(()),
            Ok(Ok(Ok(false))) => Err(SubmitError::Unavailable),
            Ok(Ok(Err(error))) if error.code == TaskErrorCode::ManagedMemoryUnavailable => {
                Err(SubmitError::Unavailable)
            }
            failed => {
                let why = match failed {
                    Ok(Ok(Err(error))) => format!("{} {}", error, error.details().unwrap_or("")),
                    Ok(Err(_)) => "it panicked".to_owned(),
                    Ok(Ok(Ok(_))) | Err(_) => "it did not answer in time".to_owned(),
                };
                tracing::warn!(workspace = %workspace.id, why, "a runner cannot say whether it can");
                Err(SubmitError::ProbeFailed)
            }
        }
    }

    /// Takes the text out of a request that holds a secret, and says why: it will be refused, and until
    /// then it would lie in the state.
    fn withhold_secret(&self, request: &mut CuratorRequest) -> Option<RememberError> {
        let CuratorRequest::Remember(RememberRequest { content, .. }) = request else {
            return None;
        };
        let found =
            self.deps.screen.check(content, TextAuthor::Agent).into_iter().find(|finding| {
                finding.family == Family::Secrets && finding.policy == Policy::Refuse
            })?;
        content.clear();
        Some(RememberError::Screened { family: found.family, rule: found.rule })
    }

    /// Returns the row of a task, if the viewer may see it and it did not end too long ago.
    async fn row(
        &self,
        workspace: &Workspace,
        id: &TaskId,
        viewer: Viewer<'_>,
    ) -> Result<Option<TaskRow>, StateError> {
        let row = self.deps.tasks.task(id.as_str()).await?;
        Ok(row.filter(|row| {
            row.workspace == workspace.id
                && viewer.can_see(row.client.as_deref())
                && (!row.status.is_final() || row.updated_at >= self.retention_cutoff())
        }))
    }

    /// Takes a task back: for good if nothing of it can have been written, else it is told to stop.
    async fn cancel_task(
        &self,
        lane: &Lane,
        id: &TaskId,
        request: &str,
        why: TaskErrorCode,
    ) -> Result<(), StateError> {
        let outcome = record::outcome_text(Err(&TaskError::new(why)));
        let request = record::redacted_request_text(request);
        let end = TaskOutcome { status: Status::Failed, outcome: &outcome, request: &request };
        self.deps.tasks.cancel_task(id.as_str(), end, self.deps.clock.now()).await?;
        {
            let now = lane.state.lock();
            if let Some((_, stop)) = now.running.as_ref().filter(|(current, _)| current == id) {
                stop.cancel();
            }
        }
        lane.notify_waiters();
        Ok(())
    }

    /// Takes back whatever is unfinished in the lane of a workspace that is gone.
    pub(super) async fn cancel_all(&self, lane: &Lane) -> Result<(), StateError> {
        let query = TaskQuery {
            workspace: Some(lane.id.clone()),
            max: TASKS_LISTED_MAX,
            ..TaskQuery::default()
        };
        for row in self.deps.tasks.tasks(&query).await? {
            if let Some(task) = decode_row(&row).filter(|task| !task.status().is_final()) {
                let gone = TaskErrorCode::WorkspaceRemoved;
                self.cancel_task(lane, &task.id, &row.request, gone).await?;
            }
        }
        Ok(())
    }
}

/// Returns a task as one that waits.
fn as_queued(task: Task) -> Task {
    Task { state: TaskState::Queued, ..task }
}

/// Reads a row; one that cannot be read is as good as none.
fn decode_row(row: &TaskRow) -> Option<Task> {
    Task::from_row(row).inspect_err(|error| tracing::warn!(%error, "a task is passed over")).ok()
}
