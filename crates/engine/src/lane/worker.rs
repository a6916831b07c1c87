//! A lane at work: acquires its lock, begins the oldest task, decides on a draft, commits, says so.
//!
//! The order is what makes a task happen once: what will have come of it is durable before its draft is
//! committed, the change names the task, and only then is the task finished and published. Dying in
//! between leaves a row that `maintenance` recovers.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use memory::feature::Feature;
use memory::limits::LANE_RETRY_DELAY_MAX;
use state::{
    Attempt, FileLockGuard, LockMode, NewProposal, RunRow, StateError, TaskOutcome, TaskRow,
};
use store::{Draft, StoreError};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::decide::{Asked, Ran, broke, never_still, step_aside};
use super::shared::{Lane, LaneError, LaneParts, Shared, provenance};
use crate::feed::ManagedChange;
use crate::pending::{self, Pending, Source};
use crate::runner::{RunError, chain};
use crate::task::record;
use crate::task::{
    Status, Task, TaskError, TaskErrorCode, TaskId, TaskKind, TaskProposals, TaskResult,
};
use crate::workspace::Workspace;

/// How an attempt at a task ended.
enum Ended {
    /// It did what was asked.
    Completed {
        result: TaskResult,
        /// Whether memories changed.
        changed: bool,
        /// The proposals to store.
        proposals: Vec<NewProposal>,
    },
    /// The task is to be given up.
    Failed(TaskError),
    /// Somebody stopped it, or finished it meanwhile. Nothing was committed.
    Stopped,
}

/// Works as long as there is something to do in a lane. What fails is tried again a little later.
pub(super) async fn work(shared: Arc<Shared>, lane: Arc<Lane>) {
    let mut delay = shared.settings.retry_delay;
    loop {
        let served = shared.serve(&lane).await;
        if let Err(error) = served {
            tracing::warn!(workspace = %lane.id, error = %chain(&error), "a lane waits to retry");
            lane.now.lock().waits_for = Some(error.code());
            shared.rest_before_retry(&lane, delay).await;
            delay = LANE_RETRY_DELAY_MAX.min(delay * 2);
            lane.now.lock().asked = true;
        } else {
            delay = shared.settings.retry_delay;
            lane.now.lock().waits_for = None;
        }
        let mut now = lane.now.lock();
        // Decided under the same lock as waking: nobody relies on a worker that is ending.
        if !now.asked || shared.draining.is_cancelled() {
            now.worker = None;
            drop(now);
            shared.rest_soon();
            return;
        }
    }
}

impl Shared {
    /// Sees to it that somebody looks for work of a workspace, if its tasks may be done.
    pub(super) fn wake_for(self: &Arc<Self>, workspace: &Workspace) {
        if workspace.trusted && workspace.memory_enabled && self.has(workspace, Feature::Tasks) {
            self.wake(&self.lane(workspace));
        }
    }

    /// Sees to it that somebody looks for work in a lane.
    pub(super) fn wake(self: &Arc<Self>, lane: &Arc<Lane>) {
        let mut now = lane.now.lock();
        now.asked = true;
        let is_idle = now.worker.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle && !self.draining.is_cancelled() {
            // Boxed, since a worker wakes others: the type would contain itself.
            let work = work(Arc::clone(self), Arc::clone(lane)).boxed();
            now.worker = Some(self.workers.spawn(work));
        }
    }

    /// Has the runner rest in a while, unless a worker begins meanwhile: that one will do so when it ends.
    fn rest_soon(self: &Arc<Self>) {
        let (shared, delay) = (Arc::downgrade(self), self.settings.rest_delay);
        let resting = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(shared) = shared.upgrade()
                && shared.is_idle()
            {
                shared.parts.runner.rest();
            }
        });
        *self.resting.lock() = Some(AbortOnDropHandle::new(resting));
    }

    pub(super) async fn rest(&self, delay: Duration) {
        tokio::select! {
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// Waits before a lane tries again: no longer than one retry delay once a caller asks for its work.
    async fn rest_before_retry(&self, lane: &Lane, delay: Duration) {
        lane.now.lock().asked = false;
        let ends = Instant::now() + delay;
        while Instant::now() < ends && !self.draining.is_cancelled() {
            self.rest(self.settings.retry_delay).await;
            if lane.now.lock().asked {
                return;
            }
        }
    }

    /// Does whatever is queued in a lane, once this process holds its lock.
    async fn serve(&self, lane: &Lane) -> Result<(), LaneError> {
        let held = tokio::select! {
            biased;
            () = self.draining.cancelled() => return Ok(()),
            held = lane.lock.acquire(LockMode::Exclusive) => held?,
        };
        self.recover(lane).await?;
        loop {
            // Before looking: whoever queues a task afterwards asks again.
            lane.now.lock().asked = false;
            let slot = tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                slot = self.slots.acquire() => slot,
            };
            if !held.is_current() {
                return Err(LaneError::Lost);
            }
            let now = self.parts.clock.now();
            let row = match self.parts.tasks.begin_next(&lane.id, now).await {
                Ok(Some(row)) => row,
                Ok(None) => break,
                // A task that cannot be read was begun; it must not keep those behind it waiting.
                Err(error) => match self.fail_unreadable(lane).await? {
                    0 => return Err(error.into()),
                    _ => continue,
                },
            };
            if let Err(error) = self.attempt(lane, &held, &row).await {
                // Nobody died: what is found running is ours.
                let mut now = lane.now.lock();
                now.broken.entry(row.id.clone()).or_default().insert(row.attempts);
                return Err(error);
            }
            drop(slot);
        }
        self.tell_of_others(lane).await
    }

    /// Reads a task that was begun, or says why it cannot be done.
    fn begun(&self, lane: &Lane, row: &TaskRow) -> Result<Task, TaskError> {
        let task = Task::read(row).map_err(|unreadable| {
            tracing::warn!(error = %unreadable, "a task cannot be done");
            TaskError::new(TaskErrorCode::failed(row.kind))
        })?;
        if let Some(refusal) = &task.refusal {
            return Err(refusal.into());
        }
        // It may have been queued before reviews were switched off.
        if task.kind() == TaskKind::Review && !self.does_reviews(&lane.workspace()) {
            return Err(TaskErrorCode::Cancelled.into());
        }
        Ok(task)
    }

    /// Does one task that was begun.
    async fn attempt(
        &self,
        lane: &Lane,
        held: &FileLockGuard,
        row: &TaskRow,
    ) -> Result<(), LaneError> {
        let task = match self.begun(lane, row) {
            Ok(task) => task,
            Err(error) => return self.finish(lane, row, Err(&error)).await.map(drop),
        };
        let current = Current::new(lane, &task.id, self.halted.child_token());
        self.note_start(row).await;
        match self.end(&current, held, &task, row.attempt()).await? {
            Ended::Completed { mut result, changed, proposals } => {
                self.store_proposals(&task, &mut result, &proposals).await?;
                self.finish(lane, row, Ok(&result)).await?;
                // Whoever finished it meanwhile did so because of that change.
                if changed {
                    self.publish(&task, &result).await;
                    if task.kind() == TaskKind::Review {
                        self.offer_reviewed(lane, &task).await;
                    }
                }
            }
            Ended::Failed(error) => drop(self.finish(lane, row, Err(&error)).await?),
            Ended::Stopped if self.halted.is_cancelled() => {
                // It goes on in another life, unless somebody took it back. Noted first: an attempt whose
                // end is seen does not count among those that are tried.
                self.note_end(row, "requeued").await;
                self.parts.tasks.requeue(row.attempt(), self.parts.clock.now()).await?;
            }
            Ended::Stopped => {
                self.finish(lane, row, Err(&TaskErrorCode::Cancelled.into())).await?;
            }
        }
        Ok(())
    }

    /// Decides and commits; decides anew when a memory changed meanwhile.
    async fn end(
        &self,
        Current { lane, stop }: &Current<'_>,
        held: &FileLockGuard,
        task: &Task,
        attempt: Attempt<'_>,
    ) -> Result<Ended, LaneError> {
        let Task { id, request, asker, .. } = task;
        let asked = Asked { id, attempt: Some(attempt.number), request, asker };
        let cutoff = self.cutoff(stop);
        for round in 0..self.parts.runner.decisions_max() {
            if !step_aside(round, stop).await {
                return Ok(Ended::Stopped);
            }
            let (mut result, draft) = match self.decide(lane, asked, cutoff).await {
                Ran::Done(result, draft) => (result, draft),
                Ran::Failed(error) => return Ok(Ended::Failed(error)),
                Ran::Stopped => return Ok(Ended::Stopped),
            };
            let proposals = self.new_proposals(lane, task, &mut result);
            let changed = !draft.changed_paths().is_empty();
            if changed || !proposals.is_empty() {
                let text = record::prepared_text(&result, &proposals);
                if !self.parts.tasks.prepare_outcome(attempt, &text).await? {
                    return Ok(Ended::Stopped);
                }
            }
            let completed = Ended::Completed { result, changed, proposals };
            if !changed {
                return Ok(completed);
            }
            if !held.is_current() {
                return Err(LaneError::Lost);
            }
            // A commit that has begun comes to its end, so it must not begin late.
            if Instant::now() >= cutoff.deadline {
                return Ok(Ended::Failed(TaskErrorCode::Timeout.into()));
            }
            let Err(why) = commit(draft).await else { return Ok(completed) };
            // The record of a change may be durable although its commit failed.
            let row = self.parts.tasks.task(attempt.task).await?;
            if row.as_ref().is_some_and(|row| row.change.is_some()) {
                tracing::warn!(task = %task.id, error = %chain(&why), "a commit stopped half-way");
                self.make_whole(lane, task).await;
                return Ok(completed);
            }
            if row.is_some_and(|row| row.attempt() != attempt || row.status.is_final()) {
                return Err(LaneError::Lost);
            }
            match why.as_run_error(task.kind()) {
                RunError::Conflict => {}
                RunError::Failed(failed) => {
                    // What is refused is told in full by the error of the task.
                    if !matches!(why, Uncommitted::Store(StoreError::Refused(_))) {
                        tracing::warn!(task = %task.id, error = %chain(&why), "a commit failed");
                    }
                    return Ok(Ended::Failed(failed));
                }
            }
        }
        Ok(Ended::Failed(never_still(task.kind())))
    }

    /// Takes the proposals out of a result, as they are to be stored.
    fn new_proposals(&self, lane: &Lane, task: &Task, result: &mut TaskResult) -> Vec<NewProposal> {
        let proposals = result.take_proposals();
        if proposals.is_empty() {
            return Vec::new();
        }
        let memories = self.memories(&lane.workspace(), &task.request, &task.asker);
        pending::new_rows(proposals, &memories, Source::task(task, self.parts.clock.now()))
    }

    fn pending(&self) -> Pending {
        let LaneParts { store, tasks, clock, .. } = &self.parts;
        Pending::new(Arc::clone(store), Arc::clone(tasks), Arc::clone(clock))
    }

    /// Stores the proposals of a task whose change, if it made one, is committed. The same are stored once, however
    /// often this is done.
    pub(super) async fn store_proposals(
        &self,
        task: &Task,
        result: &mut TaskResult,
        proposals: &[NewProposal],
    ) -> Result<(), StateError> {
        if proposals.is_empty() {
            return Ok(());
        }
        let provenance = provenance(&task.request, &task.asker);
        let stored = self.pending().add(proposals, &provenance).await?;
        result.proposals = TaskProposals::Stored(stored);
        Ok(())
    }

    /// Has what a review wrote offered to a person, and those who listen told of it. It is offered at the latest when somebody
    /// looks.
    async fn offer_reviewed(&self, lane: &Lane, task: &Task) {
        let memories = self.memories(&lane.workspace(), &task.request, &task.asker);
        if let Err(error) = self.pending().count(&memories).await {
            tracing::warn!(task = %task.id, error = %chain(&error), "a review is not offered yet");
        }
    }

    /// Finishes a task, durably. Returns whether this did: somebody may have taken it back.
    pub(super) async fn finish(
        &self,
        lane: &Lane,
        row: &TaskRow,
        outcome: Result<&TaskResult, &TaskError>,
    ) -> Result<bool, LaneError> {
        let status = if outcome.is_ok() { Status::Completed } else { Status::Failed };
        let text = record::outcome_text(outcome);
        let request = record::kept_request_text(&row.request);
        let end = TaskOutcome { status, outcome: &text, request: &request };
        let now = self.parts.clock.now();
        let finished = self.parts.tasks.finish_task(row.attempt(), end, now).await?;
        if finished {
            match outcome {
                Ok(_) => tracing::info!(task = %row.id, "completed"),
                Err(error) => tracing::info!(task = %row.id, code = %error.code, "failed"),
            }
            if let Ok(id) = row.id.parse() {
                lane.now.lock().ours.remove(&id);
            }
        }
        lane.now.lock().broken.remove(&row.id);
        self.note_end(row, status.as_str()).await;
        lane.move_on();
        Ok(finished)
    }

    /// Says what a task did, once. That nobody can be told never fails the task.
    pub(super) async fn publish(&self, task: &Task, result: &TaskResult) {
        if !self.claim(task, result) {
            return;
        }
        let saved = result.changes.len();
        if task.kind() == TaskKind::Review && (saved == 0 || !self.settings.review_verbose) {
            return;
        }
        let change = ManagedChange {
            workspace: task.workspace.clone(),
            source: task.kind(),
            task: task.id.clone(),
            scopes: result.scopes.clone(),
            originator: task.asker.client.clone(),
            saved,
        };
        if let Err(error) = self.parts.feed.publish(change).await {
            tracing::warn!(task = %task.id, error = %chain(&error), "nobody was told of a task");
        }
    }

    async fn note_start(&self, row: &TaskRow) {
        let run = RunRow {
            task: row.id.clone(),
            attempt: row.attempts,
            runner: self.parts.runner.name().to_owned(),
            started_at: row.updated_at,
            ended_at: None,
            outcome: None,
        };
        if let Err(error) = self.parts.tasks.add_run(run).await {
            tracing::warn!(task = %row.id, error = %chain(&error), "a run is not noted");
        }
    }

    async fn note_end(&self, row: &TaskRow, how: &str) {
        let outcome = serde_json::json!({ "ended": how }).to_string();
        let now = self.parts.clock.now();
        if let Err(error) = self.parts.tasks.end_run(row.attempt(), &outcome, now).await {
            tracing::warn!(task = %row.id, error = %chain(&error), "the end of a run is not noted");
        }
    }
}

/// Why a draft was not committed, or not to the end.
#[derive(Debug, thiserror::Error)]
enum Uncommitted {
    /// The store could not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store broke.
    #[error("the store broke")]
    Panicked,
}

impl Uncommitted {
    fn as_run_error(&self, kind: TaskKind) -> RunError {
        match self {
            Self::Store(error) => RunError::of(kind, error),
            Self::Panicked => RunError::Failed(broke(kind)),
        }
    }
}

/// Commits a draft, where a panic ends nothing else.
async fn commit(draft: Box<Draft>) -> Result<(), Uncommitted> {
    let committing = AbortOnDropHandle::new(tokio::spawn(draft.commit()));
    match committing.await {
        Ok(committed) => Ok(committed.map(drop)?),
        Err(_panicked) => Err(Uncommitted::Panicked),
    }
}

/// The task that a lane does, shown in the lane as long as this value lives.
struct Current<'l> {
    lane: &'l Lane,
    stop: CancellationToken,
}

impl<'l> Current<'l> {
    fn new(lane: &'l Lane, id: &TaskId, stop: CancellationToken) -> Self {
        lane.now.lock().current = Some((id.clone(), stop.clone()));
        lane.move_on();
        Self { lane, stop }
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        self.lane.now.lock().current = None;
        self.lane.move_on();
    }
}
