//! The task worker of a lane, which is the task queue of one workspace.
//!
//! It acquires the lane's lock, takes the next task (the oldest; reviews last), lets `decide` fill a
//! draft, commits it and publishes the result. The order of steps makes a task take effect once:
//!
//! 1. store the outcome in the task's row
//! 2. commit the draft as a change that names the task
//! 3. mark the task finished
//! 4. publish it
//!
//! After a crash in between, `maintenance` sees from the row and the change which step comes next.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::limits::LANE_RETRY_DELAY_MAX;
use state::{Attempt, HeldLock, NewProposal, RunRow, StateError, TaskEffect, TaskOutcome, TaskRow};
use store::{Draft, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::decide::{DecisionRequest, RunOutcome, back_off, contention_error, internal_error};
use super::shared::{Lane, LaneDeps, LaneError, LanesInner, provenance};
use crate::feed::ManagedChange;
use crate::proposal_queue::{self, ProposalQueue, ProposalSource};
use crate::runner::{RunError, error_chain};
use crate::task::record;
use crate::task::{
    Status, Task, TaskError, TaskErrorCode, TaskId, TaskKind, TaskProposals, TaskResult,
};
use crate::workspace::Workspace;

/// The result of one attempt at a task.
enum AttemptOutcome {
    /// The task succeeded.
    Completed {
        result: TaskResult,
        /// Whether memories changed.
        changed: bool,
        /// The proposals to store.
        proposals: Vec<NewProposal>,
    },
    /// The task fails for good.
    Failed(TaskError),
    /// The task was cancelled, another process finished it, or this process is stopping. Nothing was committed.
    Stopped,
}

/// Runs a lane until it is out of work. After an error, retries with growing delays.
pub(super) async fn run_worker(shared: Arc<LanesInner>, lane: Arc<Lane>) {
    let mut delay = shared.settings.retry_delay;
    loop {
        let served = shared.run_queue(&lane).await;
        if let Err(error) = served {
            tracing::warn!(workspace = %lane.id, error = %error_chain(&error), "a lane waits to retry");
            lane.state.lock().retry_cause = Some(error.code());
            shared.wait_before_retry(&lane, delay).await;
            delay = LANE_RETRY_DELAY_MAX.min(delay * 2);
            lane.state.lock().has_new_work = true;
        } else {
            delay = shared.settings.retry_delay;
            lane.state.lock().retry_cause = None;
        }
        let mut state = lane.state.lock();
        // Checked under the lock that `wake` takes, so that no caller relies on a worker that is
        // ending.
        if !state.has_new_work || shared.draining.is_cancelled() {
            state.worker = None;
            drop(state);
            shared.schedule_cache_trim();
            return;
        }
    }
}

impl LanesInner {
    /// Wakes the lane of a workspace, if its tasks may run.
    pub(super) fn wake_for(self: &Arc<Self>, workspace: &Workspace) {
        if workspace.trusted
            && workspace.memory_enabled
            && self.has_feature(workspace, Feature::Tasks)
        {
            self.wake(&self.lane(workspace));
        }
    }

    /// Wakes a lane: starts a worker unless one is running.
    pub(super) fn wake(self: &Arc<Self>, lane: &Arc<Lane>) {
        let mut state = lane.state.lock();
        state.has_new_work = true;
        let is_idle = state.worker.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle && !self.draining.is_cancelled() {
            // Boxed because a worker wakes other lanes: the future's type would contain itself.
            let work = run_worker(Arc::clone(self), Arc::clone(lane)).boxed();
            state.worker = Some(self.workers.spawn(work));
        }
    }

    /// Schedules a cache trim of the runner. A worker that starts first replaces it with its own.
    fn schedule_cache_trim(self: &Arc<Self>) {
        let (shared, delay) = (Arc::downgrade(self), self.settings.cache_trim_delay);
        let trim = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(shared) = shared.upgrade()
                && shared.is_idle()
            {
                shared.deps.runner.trim_caches();
            }
        });
        *self.cache_trim.lock() = Some(AbortOnDropHandle::new(trim));
    }

    pub(super) async fn sleep_unless_draining(&self, delay: Duration) {
        tokio::select! {
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// Waits `delay` before a retry. Checks every `retry_delay` for new work, which ends the wait.
    async fn wait_before_retry(&self, lane: &Lane, delay: Duration) {
        lane.state.lock().has_new_work = false;
        let end = Instant::now() + delay;
        while Instant::now() < end && !self.draining.is_cancelled() {
            self.sleep_unless_draining(self.settings.retry_delay).await;
            if lane.state.lock().has_new_work {
                return;
            }
        }
    }

    /// Runs all queued tasks of a lane once this process holds its lock.
    async fn run_queue(&self, lane: &Lane) -> Result<(), LaneError> {
        let guard = tokio::select! {
            biased;
            () = self.draining.cancelled() => return Ok(()),
            guard = self.deps.locks.acquire(&lane.lock_name) => guard?,
        };
        self.recover(lane).await?;
        loop {
            // Reset before the queue is read, so that a task queued later sets it again.
            lane.state.lock().has_new_work = false;
            let slots = tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                slots = self.acquire_slots() => slots,
            };
            if !guard.is_current() {
                return Err(LaneError::LockLost);
            }
            let now = self.deps.clock.now();
            let row = match self.deps.tasks.begin_next(&lane.id, now).await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // An unreadable task is already marked as running; it must not block the tasks
                // behind it.
                Err(error) => match self.fail_unreadable(lane).await? {
                    0 => return Err(error.into()),
                    _ => continue,
                },
            };
            if let Err(error) = self.attempt(lane, &*guard, &row).await {
                // This process is alive, so recovery must not count the attempt as lost in a crash.
                let mut state = lane.state.lock();
                state.failed_attempts.entry(row.id.clone()).or_default().insert(row.attempts);
                return Err(error);
            }
            drop(slots);
        }
        self.publish_ends_of_others(lane).await
    }

    /// Decodes a task, or returns the error with which it fails.
    fn decode_task(&self, lane: &Lane, row: &TaskRow) -> Result<Task, TaskError> {
        let task = Task::from_row(row).map_err(|unreadable| {
            tracing::warn!(error = %unreadable, "error while decoding a task; it fails");
            TaskError::new(TaskErrorCode::failed(row.kind))
        })?;
        if let Some(refusal) = &task.refusal {
            return Err(refusal.into());
        }
        // It may have been queued before reviews were switched off.
        if task.kind() == TaskKind::Review && !self.allows_reviews(&lane.workspace()) {
            return Err(TaskErrorCode::Cancelled.into());
        }
        Ok(task)
    }

    /// Runs one task that was marked as running.
    async fn attempt(
        &self,
        lane: &Lane,
        guard: &dyn HeldLock,
        row: &TaskRow,
    ) -> Result<(), LaneError> {
        let task = match self.decode_task(lane, row) {
            Ok(task) => task,
            Err(error) => return self.finish(lane, row, Err(&error)).await.map(drop),
        };
        let current = RunningTask::new(lane, &task.id, self.halted.child_token());
        self.record_start(row).await;
        match self.decide_and_commit(&current, guard, &task, row.attempt()).await? {
            AttemptOutcome::Completed { mut result, changed, proposals } => {
                self.store_proposals(&task, &mut result, &proposals).await?;
                self.finish(lane, row, Ok(&result)).await?;
                // If another process finished it in the meantime, it did so because of this change.
                if changed {
                    self.publish(&task, &result).await;
                    if task.kind() == TaskKind::Review {
                        self.offer_review(lane, &task).await;
                    }
                }
            }
            AttemptOutcome::Failed(error) => drop(self.finish(lane, row, Err(&error)).await?),
            AttemptOutcome::Stopped if self.halted.is_cancelled() => {
                // The task continues in a later process, unless it was cancelled. The run's end is
                // stored first, because an attempt with a known end does not count towards the
                // maximum.
                self.record_end(row, "requeued").await;
                self.deps.tasks.requeue(row.attempt(), self.deps.clock.now()).await?;
            }
            AttemptOutcome::Stopped => {
                self.finish(lane, row, Err(&TaskErrorCode::Cancelled.into())).await?;
            }
        }
        Ok(())
    }

    /// Decides and commits; decides again when a memory changed in the meantime.
    async fn decide_and_commit(
        &self,
        RunningTask { lane, stop }: &RunningTask<'_>,
        guard: &dyn HeldLock,
        task: &Task,
        attempt: Attempt<'_>,
    ) -> Result<AttemptOutcome, LaneError> {
        let Task { id, request, requester, .. } = task;
        let decision_request =
            DecisionRequest { id, attempt: Some(attempt.number), request, requester };
        let cutoff = self.cutoff_for(stop);
        for round in 0..self.deps.runner.decisions_max() {
            if !back_off(round, stop).await {
                return Ok(AttemptOutcome::Stopped);
            }
            let (mut result, draft) = match self.decide(lane, decision_request, cutoff).await {
                RunOutcome::Done(result, draft) => (result, draft),
                RunOutcome::Failed(error) => return Ok(AttemptOutcome::Failed(error)),
                RunOutcome::Stopped => return Ok(AttemptOutcome::Stopped),
            };
            let proposals = self.new_proposals(lane, task, &mut result);
            let changed = !draft.changed_paths().is_empty();
            if changed || !proposals.is_empty() {
                let text = record::prepared_text(&result, &proposals);
                if !self.deps.tasks.prepare_outcome(attempt, &text).await? {
                    return Ok(AttemptOutcome::Stopped);
                }
            }
            let completed = AttemptOutcome::Completed { result, changed, proposals };
            if !changed {
                return Ok(completed);
            }
            if !guard.is_current() {
                return Err(LaneError::LockLost);
            }
            // A commit runs to its end once started, so it must not start after the deadline.
            if Instant::now() >= cutoff.deadline {
                return Ok(AttemptOutcome::Failed(TaskErrorCode::Timeout.into()));
            }
            let Err(failure) = commit(draft).await else { return Ok(completed) };
            // The record of a change may be durable although its commit failed.
            let row = self.deps.tasks.task(attempt.task).await?;
            if row.as_ref().is_some_and(|row| row.change.is_some()) {
                tracing::warn!(task = %task.id, error = %error_chain(&failure), "a commit failed after its record was durable; completing it");
                self.complete_change(lane, task).await;
                return Ok(completed);
            }
            if row.is_some_and(|row| row.attempt() != attempt || row.status.is_final()) {
                return Err(LaneError::LockLost);
            }
            if let CommitFailure::Store(error) = &failure
                && error.code() == MemoryErrorCode::StorageUnavailable
            {
                // The task has not failed: it is tried again once the database answers.
                return Err(LaneError::Unavailable(error_chain(error)));
            }
            match failure.as_run_error(task.kind()) {
                RunError::Conflict => {}
                RunError::Failed(failed) => {
                    // A refusal is already described in full by the task's error.
                    if !matches!(failure, CommitFailure::Store(StoreError::Refused(_))) {
                        tracing::warn!(task = %task.id, error = %error_chain(&failure), "a commit failed");
                    }
                    return Ok(AttemptOutcome::Failed(failed));
                }
            }
        }
        Ok(AttemptOutcome::Failed(contention_error(task.kind())))
    }

    /// Takes the proposals out of a result, in the form in which they are stored.
    fn new_proposals(&self, lane: &Lane, task: &Task, result: &mut TaskResult) -> Vec<NewProposal> {
        let proposals = result.take_proposals();
        if proposals.is_empty() {
            return Vec::new();
        }
        let memories = self.memories(&lane.workspace(), &task.request, &task.requester);
        proposal_queue::new_rows(
            proposals,
            &memories,
            ProposalSource::of_task(task, self.deps.clock.now()),
        )
    }

    fn proposal_queue(&self) -> ProposalQueue {
        let LaneDeps { store, tasks, clock, .. } = &self.deps;
        ProposalQueue::new(Arc::clone(store), Arc::clone(tasks), Arc::clone(clock))
    }

    /// Stores the proposals of a task whose change, if any, is committed. Repeating this stores
    /// them only once.
    pub(super) async fn store_proposals(
        &self,
        task: &Task,
        result: &mut TaskResult,
        proposals: &[NewProposal],
    ) -> Result<(), StateError> {
        if proposals.is_empty() {
            return Ok(());
        }
        let provenance = provenance(&task.request, &task.requester);
        let stored = self.proposal_queue().add(proposals, &provenance).await?;
        result.proposals = TaskProposals::Stored(stored);
        Ok(())
    }

    /// Queues the memories that a review wrote for the user's decision and publishes that. If this
    /// fails, the next count of proposals does it.
    async fn offer_review(&self, lane: &Lane, task: &Task) {
        let memories = self.memories(&lane.workspace(), &task.request, &task.requester);
        if let Err(error) = self.proposal_queue().count(&memories).await {
            tracing::warn!(task = %task.id, error = %error_chain(&error), "error while queueing the memories of a review for a decision; retried at the next count");
        }
    }

    /// Stores the end of a task. Returns whether this call ended it; it may have been cancelled
    /// before.
    pub(super) async fn finish(
        &self,
        lane: &Lane,
        row: &TaskRow,
        outcome: Result<&TaskResult, &TaskError>,
    ) -> Result<bool, LaneError> {
        let status = if outcome.is_ok() { Status::Completed } else { Status::Failed };
        let text = record::outcome_text(outcome);
        let request = record::redacted_request_text(&row.request);
        let changed = outcome.ok().filter(|result| !result.scopes.is_empty());
        let effect = changed
            .map(|result| TaskEffect { scopes: &result.scopes, saved: result.changes.len() });
        let end = TaskOutcome { status, outcome: &text, request: &request, effect };
        let now = self.deps.clock.now();
        let finished = self.deps.tasks.finish_task(row.attempt(), end, now).await?;
        if finished {
            match outcome {
                Ok(_) => tracing::info!(task = %row.id, "completed"),
                Err(error) => tracing::info!(task = %row.id, code = %error.code, "failed"),
            }
            if let Ok(id) = row.id.parse() {
                lane.state.lock().own_tasks.remove(&id);
            }
        }
        lane.state.lock().failed_attempts.remove(&row.id);
        self.record_end(row, status.as_str()).await;
        lane.notify_waiters();
        Ok(finished)
    }

    /// Publishes the end of a task, once. A failure to publish never fails the task.
    pub(super) async fn publish(&self, task: &Task, result: &TaskResult) {
        let change = ManagedChange::of_task(task, result, self.settings.review_verbose);
        let Some(change) = change else { return };
        if !self.published.lock().insert_new(&task.id) {
            return;
        }
        if let Err(error) = self.deps.feed.publish(change).await {
            tracing::warn!(task = %task.id, error = %error_chain(&error), "error while publishing the end of a task");
        }
    }

    async fn record_start(&self, row: &TaskRow) {
        let run = RunRow {
            task: row.id.clone(),
            attempt: row.attempts,
            runner: self.deps.runner.name().to_owned(),
            started_at: row.updated_at,
            ended_at: None,
            outcome: None,
        };
        if let Err(error) = self.deps.tasks.add_run(run).await {
            tracing::warn!(task = %row.id, error = %error_chain(&error), "error while recording the start of a run");
        }
    }

    async fn record_end(&self, row: &TaskRow, how: &str) {
        let outcome = serde_json::json!({ "ended": how }).to_string();
        let now = self.deps.clock.now();
        if let Err(error) = self.deps.tasks.end_run(row.attempt(), &outcome, now).await {
            tracing::warn!(task = %row.id, error = %error_chain(&error), "error while recording the end of a run");
        }
    }
}

/// The reason why a draft was not committed, or only in part.
#[derive(Debug, thiserror::Error)]
enum CommitFailure {
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store panicked.
    #[error("the store panicked")]
    Panicked,
}

impl CommitFailure {
    fn as_run_error(&self, kind: TaskKind) -> RunError {
        match self {
            Self::Store(error) => RunError::from_store(kind, error),
            Self::Panicked => RunError::Failed(internal_error(kind)),
        }
    }
}

/// Commits a draft in a task of its own, so that a panic does not end the worker.
async fn commit(draft: Box<Draft>) -> Result<(), CommitFailure> {
    let commit = AbortOnDropHandle::new(tokio::spawn(draft.commit()));
    match commit.await {
        Ok(committed) => Ok(committed.map(drop)?),
        Err(_panicked) => Err(CommitFailure::Panicked),
    }
}

/// The running task, shown in the lane's state while this value exists.
struct RunningTask<'l> {
    lane: &'l Lane,
    stop: CancellationToken,
}

impl<'l> RunningTask<'l> {
    fn new(lane: &'l Lane, id: &TaskId, stop: CancellationToken) -> Self {
        lane.state.lock().running = Some((id.clone(), stop.clone()));
        lane.notify_waiters();
        Self { lane, stop }
    }
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        self.lane.state.lock().running = None;
        self.lane.notify_waiters();
    }
}
