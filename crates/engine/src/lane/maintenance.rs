//! Maintenance of lanes, beside the tasks that callers request: recovery of tasks whose process
//! died, events of tasks that other processes ran, deletion of old tasks, scheduled dreams.
//!
//! Processes do not notify each other, so the tasks of a dead one are found by polling. Between two
//! rounds nothing runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::clock::Timestamp;
use memory::limits::{
    TASK_ATTEMPTS_MAX, TASK_BROKEN_MAX, TASK_POLL_INTERVAL, TASK_POLL_INTERVAL_MAX, TASKS_KEPT_MAX,
};
use state::{StateError, TaskOutcome, TaskQuery, TaskRow};
use store::ChangeEvent;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::shared::{Lane, LaneError, Lanes, LanesInner};
use crate::runner::error_chain;
use crate::task::record;
use crate::task::{Status, Task, TaskError, TaskErrorCode, TaskId, TaskKind, TaskState};
use crate::workspace::Workspace;

impl Lanes {
    /// Maintains the lanes of all registered workspaces until they are drained, at once and then at
    /// an interval. Recovers tasks of dead processes, deletes tasks that ended long ago, and queues
    /// due dreams.
    pub async fn maintain(&self) {
        let shared = &self.0;
        while !shared.draining.is_cancelled() {
            let registered: Vec<_> =
                shared.lanes.lock().values().map(|lane| lane.workspace()).collect();
            if let Err(error) = self.maintain_once(&registered).await {
                let retry = shared.settings.maintenance_interval;
                tracing::warn!(error = %error_chain(&error), ?retry, "lane maintenance failed; retrying");
            }
            shared.sleep_unless_draining(shared.settings.maintenance_interval).await;
        }
    }

    /// Maintains the lanes of these workspaces once.
    pub async fn maintain_once(&self, workspaces: &[Workspace]) -> Result<(), StateError> {
        self.resume(workspaces).await?;
        self.0.deps.tasks.drop_ended(self.0.retention_cutoff()).await?;
        if let Some(schedule) = self.0.settings.dream {
            for workspace in workspaces {
                self.dream_if_due(workspace, schedule).await;
            }
        }
        Ok(())
    }
}

impl Lanes {
    /// Publishes the ends of tasks that other processes queued and ran, when their changes are
    /// announced. Needed only in a process with subscribers. Runs until `notices` closes.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>) {
        let (mut last, began_at) = (None, self.0.deps.clock.now());
        loop {
            match notices.recv().await {
                Ok(ChangeEvent { provenance, .. }) => {
                    // The changes of one task arrive in a row.
                    let id = provenance.task.as_deref().and_then(|task| task.parse().ok());
                    if let Some(id) = id
                        && last.as_ref() != Some(&id)
                        && !self.0.is_own_task(&id)
                    {
                        last = Some(id.clone());
                        self.0.workers.spawn(Arc::clone(&self.0).publish_end_when_done(id));
                    }
                }
                // The missed events may include the only one of a task that another process ran.
                Err(RecvError::Lagged(_)) => self.0.publish_ends_since(began_at).await,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

impl LanesInner {
    /// Checks whether a lane of this process publishes the end of a task by itself.
    fn is_own_task(&self, id: &TaskId) -> bool {
        self.lanes.lock().values().any(|lane| {
            let state = lane.state.lock();
            state.own_tasks.contains(id)
                || state.running.as_ref().is_some_and(|(current, _)| current == id)
        })
    }

    /// Publishes the ends of all tasks that other processes ran since `time` and that were not
    /// published here.
    async fn publish_ends_since(self: &Arc<Self>, time: Timestamp) {
        let query = TaskQuery {
            ended_since: Some(time),
            // Matches the number of published tasks that are remembered.
            max: TASKS_KEPT_MAX,
            ..TaskQuery::default()
        };
        let result = self.deps.tasks.tasks(&query).await;
        let rows = result.unwrap_or_else(|error| {
            tracing::warn!(%error, "error while reading tasks of other processes; their ends are not published");
            Vec::new()
        });
        // In the order in which they ended, as far as timestamps distinguish them.
        let mut changed: Vec<_> = rows.iter().filter(|row| row.change.is_some()).collect();
        changed.sort_by_key(|row| (row.updated_at, row.seq));
        for row in changed {
            match Task::from_row(row) {
                Ok(task) if self.is_own_task(&task.id) => {}
                Ok(task) if task.status().is_final() => self.publish_end(&task).await,
                Ok(task) => {
                    drop(self.workers.spawn(Arc::clone(self).publish_end_when_done(task.id)));
                }
                Err(error) => tracing::warn!(%error, "error while decoding a task; it is skipped"),
            }
        }
    }

    /// Publishes the end of a task of another process, once it has ended.
    async fn publish_end_when_done(self: Arc<Self>, id: TaskId) {
        let (mut is_first, mut wait) = (true, TASK_POLL_INTERVAL);
        while !self.draining.is_cancelled() {
            match self.deps.tasks.task(id.as_str()).await {
                Ok(Some(row)) => match Task::from_row(&row) {
                    Ok(task) if !task.status().is_final() => {
                        // If the process that runs it dies, a worker waiting for the lane's lock
                        // continues the task.
                        let lane = self.lanes.lock().get(&row.workspace).cloned();
                        if let Some(lane) = lane.filter(|_| std::mem::take(&mut is_first)) {
                            self.wake(&lane);
                        }
                    }
                    Ok(task) => return self.publish_end(&task).await,
                    Err(_) => return,
                },
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "error while polling for the end of a task; retrying");
                }
            }
            self.sleep_unless_draining(wait).await;
            // A process that died may leave its task to one that starts much later.
            wait = TASK_POLL_INTERVAL_MAX.min(wait * 2);
        }
    }

    /// Publishes the ends of tasks that this process queued and other processes ran.
    pub(super) async fn publish_ends_of_others(&self, lane: &Lane) -> Result<(), LaneError> {
        let ours: Vec<_> = lane.state.lock().own_tasks.iter().cloned().collect();
        for id in ours {
            let row = self.deps.tasks.task(id.as_str()).await?;
            let task = row.as_ref().map(Task::from_row).and_then(Result::ok);
            if task.as_ref().is_some_and(|task| !task.status().is_final()) {
                continue;
            }
            lane.state.lock().own_tasks.remove(&id);
            let changed = row.is_some_and(|row| row.change.is_some());
            if let Some(task) = task.filter(|_| changed) {
                self.publish_end(&task).await;
            }
        }
        lane.notify_waiters();
        Ok(())
    }

    async fn publish_end(&self, task: &Task) {
        match &task.state {
            TaskState::Completed(result) => self.publish(task, result).await,
            TaskState::Queued | TaskState::Running | TaskState::Failed(_) => {}
        }
    }
}

impl LanesInner {
    /// Recovers tasks marked as running that no process runs. The caller holds the lane's lock and
    /// runs no task. A task with a recorded change is completed, because that change will be
    /// applied. One without is queued again, or fails. An attempt that its process requeued itself
    /// does not count.
    pub(super) async fn recover(&self, lane: &Lane) -> Result<(), LaneError> {
        self.fail_unreadable(lane).await?;
        for row in self.deps.tasks.running(&lane.id).await? {
            let state = (row.attempts, row.change.is_some());
            tracing::warn!(task = %row.id, attempts = state.0, changed = state.1, "recovering a task that a process left running");
            if row.change.is_some() {
                self.complete(lane, &row).await?;
            } else if !self.requeue_or_fail(lane, &row).await?
                && let Some(row) = self.deps.tasks.task(&row.id).await?
                && row.change.is_some()
                && !row.status.is_final()
            {
                // The process that ran it was alive and has committed.
                self.complete(lane, &row).await?;
            }
        }
        Ok(())
    }

    /// Fails the running tasks that cannot be decoded, and returns their number. No process can run
    /// them, and they would block all other tasks of the lane.
    pub(super) async fn fail_unreadable(&self, lane: &Lane) -> Result<u64, LaneError> {
        let failed = TaskError::new(TaskErrorCode::failed(TaskKind::Remember));
        let outcome = record::outcome_text(Err(&failed.with_details("its record cannot be read")));
        let (status, effect) = (Status::Failed, None);
        let end = TaskOutcome { status, outcome: &outcome, request: "{}", effect };
        let now = self.deps.clock.now();
        let failed = self.deps.tasks.fail_unreadable(&lane.id, end, now).await?;
        if failed > 0 {
            tracing::error!(workspace = %lane.id, failed, "tasks that cannot be read were failed");
            lane.notify_waiters();
        }
        Ok(failed)
    }

    /// Requeues a task without a recorded change, or fails it after too many attempts. Returns
    /// `false` if it has a change by now.
    async fn requeue_or_fail(&self, lane: &Lane, row: &TaskRow) -> Result<bool, LaneError> {
        // Done first, so that a process that still runs it cannot commit any more.
        if !self.deps.tasks.requeue(row.attempt(), self.deps.clock.now()).await? {
            return Ok(false);
        }
        if self.attempts_lost(lane, row).await? >= TASK_ATTEMPTS_MAX {
            let failed = TaskError::new(TaskErrorCode::failed(row.kind));
            let why = lane.state.lock().retry_cause;
            let failed = match why {
                Some(code) => failed.caused_by(code).with_details(code.meaning()),
                None => failed.with_details("all attempts at it were lost before they ended"),
            };
            self.finish(lane, row, Err(&failed)).await?;
        }
        Ok(true)
    }

    /// Counts the attempts at a task whose end was not recorded.
    async fn attempts_lost(&self, lane: &Lane, row: &TaskRow) -> Result<u32, LaneError> {
        let runs = self.deps.tasks.runs(&row.id).await?;
        let counted =
            runs.iter().filter(|run| run.ended_at.is_some() && run.attempt <= row.attempts);
        let mut counted: BTreeSet<u32> = counted.map(|run| run.attempt).collect();
        // Attempts that this process aborted are excused, up to a limit: a row that can never be
        // written must not block the lane for ever.
        let aborted = lane.state.lock().failed_attempts.get(&row.id).cloned().unwrap_or_default();
        if aborted.len() < TASK_BROKEN_MAX {
            counted.extend(aborted);
        }
        Ok(row.attempts.saturating_sub(
            u32::try_from(counted.len()).expect("attempts are numbered by 32 bits"),
        ))
    }

    /// Completes a task whose change is recorded, with the outcome that was prepared.
    async fn complete(&self, lane: &Lane, row: &TaskRow) -> Result<(), LaneError> {
        let done = TaskRow { status: Status::Completed, ..row.clone() };
        let task = match Task::from_row(&done) {
            Ok(task) => task,
            Err(unreadable) => {
                // The outcome was stored before the change, but possibly by another version.
                tracing::warn!(error = %unreadable, "error while decoding the prepared outcome of a task");
                let failed = TaskError::new(TaskErrorCode::failed(row.kind));
                let failed =
                    failed.with_details("memories were changed; see the history for the changes");
                self.finish(lane, row, Err(&failed)).await?;
                return Ok(());
            }
        };
        let mut outcome = match &task.state {
            TaskState::Completed(result) => Ok(result.clone()),
            TaskState::Failed(error) => Err(error.clone()),
            TaskState::Queued | TaskState::Running => return Ok(()),
        };
        self.complete_change(lane, &task).await;
        let is_changed =
            self.deps.tasks.task(&row.id).await?.is_some_and(|now| now.change.is_some());
        if !is_changed {
            // The process that ran it was alive and rolled the change back, so it counts as not
            // started.
            return self.requeue_or_fail(lane, row).await.map(drop);
        }
        if let Ok(result) = &mut outcome {
            self.store_proposals(&task, result, &record::unstored_proposals(row, &task)).await?;
        }
        if self.finish(lane, row, outcome.as_ref()).await?
            && let Ok(result) = &outcome
        {
            self.publish(&task, result).await;
        }
        Ok(())
    }

    /// Completes a recorded change that was interrupted, as the next writer would.
    pub(super) async fn complete_change(&self, lane: &Lane, task: &Task) {
        let memories = self.memories(&lane.workspace(), &task.request, &task.requester);
        if let Err(error) = memories.record_external_edits().await {
            tracing::warn!(task = %task.id, error = %error_chain(&error), "error while completing an interrupted change; retried later");
        }
    }
}
