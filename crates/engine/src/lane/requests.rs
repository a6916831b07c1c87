//! Requests to lanes: submit a task, preview it, read it, cancel it, wait for it.
//!
//! A request only changes rows in the state and wakes the lane's worker; see `worker` for what
//! happens to a queued task. Texts with secrets are removed before a task is stored.

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

/// The reason why a task was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// The workspace is not trusted.
    #[error("the workspace is not trusted")]
    Untrusted,
    /// The user switched tasks off.
    #[error("the feature `{}` is switched off", Feature::Tasks)]
    FeatureDisabled,
    /// Memory is off for this workspace.
    #[error("managed memory is off for this workspace")]
    Unavailable,
    /// The lane holds its maximum of unfinished tasks; try again later.
    #[error("the lane holds its maximum of unfinished tasks; try again later")]
    Full,
    /// The workspace, or the whole process, is being shut down.
    #[error("the workspace is shutting down")]
    Draining,
    /// The runner did not report whether tasks can run here.
    #[error("the check whether tasks can run here failed")]
    ProbeFailed,
    /// The state cannot store the task.
    #[error("the task cannot be stored")]
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

/// The viewer of tasks, which decides what they see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer<'a> {
    /// The user of this machine: sees all tasks.
    Person,
    /// A program: sees the tasks requested under its client name, or those without one if it has
    /// none.
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

/// A filter for listing tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only tasks of this kind.
    pub kind: Option<TaskKind>,
    /// Only tasks with this status.
    pub status: Option<Status>,
    /// Maximum number of tasks; the latest are returned.
    pub max: Option<usize>,
}

/// The outcome of a request to cancel a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The task has ended, and this is its end. A cancelled task counts as failed.
    AlreadyEnded(Task),
    /// The task is being stopped, or is already writing its changes. It ends soon, either way.
    Requested(Task),
}

/// The result of a dry run of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPreview {
    /// The result that it would report.
    pub result: TaskResult,
    /// The changes that it would make.
    pub diffs: Vec<FileDiff>,
}

/// The reason why a dry run gives no result.
#[derive(Debug, thiserror::Error)]
pub enum TaskPreviewError {
    /// The task would not be accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The task would fail.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// The reason why an attempt gives nothing to commit.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The task would not be accepted.
    #[error(transparent)]
    Submit(#[from] SubmitError),
    /// The attempt failed, or must be repeated.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl Lanes {
    /// Stores a task and wakes its lane.
    pub async fn submit(
        &self,
        workspace: &Workspace,
        request: CuratorRequest,
        requester: Requester,
    ) -> Result<Task, SubmitError> {
        self.submit_if(workspace, request, requester, None).await
    }

    /// Does the same as [`submit`](Self::submit). With preconditions, the task is accepted only if
    /// they hold and the lane has no other work.
    pub(super) async fn submit_if(
        &self,
        workspace: &Workspace,
        mut request: CuratorRequest,
        requester: Requester,
        preconditions: Option<DreamPreconditions>,
    ) -> Result<Task, SubmitError> {
        let lane = self.0.open_lane(workspace).await?;
        let kind = request.kind();
        let refusal = self.0.withhold_secret(&mut request);
        let id = TaskId::new(kind);
        let new = NewTask {
            id: id.to_string(),
            workspace: workspace.id.clone(),
            kind,
            client: requester.client.as_ref().map(ToString::to_string),
            request: record::request_text(&request, &requester, refusal.as_ref()),
            at: self.0.deps.clock.now(),
        };
        // Recorded first: another process may finish the task before this one sees that it is
        // queued.
        lane.state.lock().own_tasks.insert(id.clone());
        self.0.deps.folders.create_state_folder();
        match self.0.enqueue(new, preconditions).await {
            Ok(EnqueueResult::Queued(row)) if lane.removed.is_cancelled() => {
                // The workspace was removed after the last check.
                let gone = TaskErrorCode::WorkspaceRemoved;
                self.0.cancel_task(&lane, &id, &row.request, gone).await?;
                Err(SubmitError::Draining)
            }
            Ok(EnqueueResult::Queued(row)) => {
                self.0.wake(&lane);
                Ok(Task {
                    id,
                    workspace: row.workspace,
                    requester,
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
                // The task may have been queued all the same; then it runs, and its end is
                // published.
                self.0.wake(&lane);
                Err(error.into())
            }
        }
    }

    /// Decides a task without committing it, and returns the changes that it would make.
    pub async fn preview(
        &self,
        workspace: &Workspace,
        request: &CuratorRequest,
        requester: &Requester,
    ) -> Result<TaskPreview, TaskPreviewError> {
        let lane = self.0.open_lane(workspace).await?;
        let stop = self.0.draining.child_token();
        let id = TaskId::new(request.kind());
        let decision_request = DecisionRequest { id: &id, attempt: None, request, requester };
        match self.0.decide(&lane, decision_request, self.0.cutoff_for(&stop)).await {
            RunOutcome::Done(result, draft) => Ok(TaskPreview { result, diffs: draft.diffs() }),
            RunOutcome::Failed(error) => Err(error.into()),
            RunOutcome::Stopped => Err(TaskError::new(TaskErrorCode::Cancelled).into()),
        }
    }

    /// Checks whether tasks of a workspace are accepted, and returns the reason if not.
    pub async fn check_available(&self, workspace: &Workspace) -> Result<(), SubmitError> {
        self.0.open_lane(workspace).await.map(drop)
    }

    /// Makes one attempt at a task and commits nothing. Work of models is recorded only in the
    /// job's ledger; the process that holds the lane stores it.
    pub async fn stage(
        &self,
        job: Job,
        requester: &Requester,
        stop: &CancellationToken,
    ) -> Result<StagedAttempt, StageError> {
        self.0.open_lane(&job.workspace).await?;
        let cutoff = self.0.cutoff_for(stop);
        let memories = self.0.memories(&job.workspace, &job.request, requester);
        let draft = open_draft(&memories, &job.task, None);
        match self.0.run(job, memories, draft, cutoff).await {
            Ok(RunOutcome::Done(result, draft)) => {
                let model = draft.model().map(str::to_owned);
                let reason = draft.note().map(str::to_owned);
                Ok(StagedAttempt { result, edits: draft.edits(), model, reason })
            }
            Ok(RunOutcome::Failed(error)) => Err(RunError::Failed(error).into()),
            Ok(RunOutcome::Stopped) => {
                Err(RunError::Failed(TaskErrorCode::Cancelled.into()).into())
            }
            Err(Conflict) => Err(RunError::Conflict.into()),
        }
    }

    /// Returns a task of this workspace, if `viewer` may see it.
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
        // The process that ran it may have died since.
        self.0.wake_for(workspace);
        let is_waiting = self.0.lane(workspace).is_waiting_to_retry(&task);
        Ok(Some(if is_waiting { as_queued(task) } else { task }))
    }

    /// Returns the tasks of this workspace that `viewer` may see, latest first.
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

    /// Cancels a task, if `viewer` may see it. A commit under way is completed.
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

    /// Waits until a task of this workspace has ended; `None` if there is no such task.
    pub async fn wait(
        &self,
        workspace: &Workspace,
        id: &TaskId,
    ) -> Result<Option<Task>, StateError> {
        let mut progress = self.0.lane(workspace).progress.subscribe();
        loop {
            let row = self.0.deps.tasks.task(id.as_str()).await?;
            let Some(task) = row.as_ref().and_then(decode_row) else { return Ok(None) };
            if task.status().is_final() {
                return Ok(Some(task));
            }
            // Another process may be running it; that sends no notification here.
            drop(tokio::time::timeout(TASK_POLL_INTERVAL, progress.changed()).await);
        }
    }
}

impl LanesInner {
    async fn enqueue(
        &self,
        new: NewTask,
        preconditions: Option<DreamPreconditions>,
    ) -> Result<EnqueueResult, StateError> {
        let (tasks, limits) = (&self.deps.tasks, self.settings.limits);
        match preconditions {
            None => tasks.enqueue(new, limits).await,
            Some(preconditions) => {
                let limits = QueueLimits { unfinished_max: 1, minor_max: 1, ..limits };
                tasks.enqueue_dream(new, limits, preconditions).await
            }
        }
    }

    /// Returns the lane of a workspace, if it accepts tasks.
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
        // A drain may have started during the probe; then its error takes precedence.
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

    /// Asks the runner whether tasks can run. A panic or a timeout counts as a failed check.
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
                tracing::warn!(workspace = %workspace.id, why, "the availability check of a runner failed");
                Err(SubmitError::ProbeFailed)
            }
        }
    }

    /// Removes the text of a request that contains a secret, and returns the refusal. The request
    /// will be refused, and must not be stored until then.
    fn withhold_secret(&self, request: &mut CuratorRequest) -> Option<RememberError> {
        let CuratorRequest::Remember(RememberRequest { content, .. }) = request else {
            return None;
        };
        let finding =
            self.deps.screen.check(content, TextAuthor::Agent).into_iter().find(|finding| {
                finding.family == Family::Secrets && finding.policy == Policy::Refuse
            })?;
        content.clear();
        Some(RememberError::Screened { family: finding.family, rule: finding.rule })
    }

    /// Returns the row of a task, if `viewer` may see it and it is still retained.
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

    /// Cancels a task: at once if it cannot have written anything, otherwise its run is signaled to
    /// stop.
    async fn cancel_task(
        &self,
        lane: &Lane,
        id: &TaskId,
        request: &str,
        why: TaskErrorCode,
    ) -> Result<(), StateError> {
        let outcome = record::outcome_text(Err(&TaskError::new(why)));
        let request = record::redacted_request_text(request);
        let (status, effect) = (Status::Failed, None);
        let end = TaskOutcome { status, outcome: &outcome, request: &request, effect };
        self.deps.tasks.cancel_task(id.as_str(), end, self.deps.clock.now()).await?;
        {
            let state = lane.state.lock();
            if let Some((_, stop)) = state.running.as_ref().filter(|(current, _)| current == id) {
                stop.cancel();
            }
        }
        lane.notify_waiters();
        Ok(())
    }

    /// Cancels all unfinished tasks of a removed workspace.
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

/// Returns a task with the status of a queued one.
fn as_queued(task: Task) -> Task {
    Task { state: TaskState::Queued, ..task }
}

/// Decodes a row, or returns `None` if it is corrupt.
fn decode_row(row: &TaskRow) -> Option<Task> {
    Task::from_row(row)
        .inspect_err(|error| tracing::warn!(%error, "error while decoding a task; it is skipped"))
        .ok()
}
