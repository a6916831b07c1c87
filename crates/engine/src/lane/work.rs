//! A lane at work: takes its turn, begins the oldest task, decides on a draft, commits, says so.
//!
//! The order is what makes a task happen once: what will have come of it is durable before its draft is
//! committed, the change names the task, and only then is the task finished and published. Dying in
//! between leaves a row that `recovery` reads.

use std::sync::Arc;
use std::time::Duration;

use agents::Ledger;
use futures_util::FutureExt as _;
use memory::code::Code;
use memory::limits::{LANE_RETRY_DELAY_MAX, TASK_STEP_ASIDE, TASK_STEP_ASIDE_MAX};
use state::{Attempt, End, NewProposal, RunRow, StateError, TaskRow};
use store::{Draft, StoreError, Turn, TurnError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::apart::Apart;
use super::{Lane, LaneParts, Shared, draft, lock, provenance, status_of};
use crate::feed::ManagedChange;
use crate::pending::{self, Pending, Source};
use crate::runner::{Job, RunError, chain};
use crate::task::record;
use crate::task::{Asker, Request, Task, TaskError, TaskErrorCode, TaskId, TaskKind, TaskResult};

/// Why a lane cannot go on for now. Whatever it had begun is looked at when it can.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaneError {
    /// The lock file cannot be used.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// Somebody removed the lock file, so another process may have begun too, or has.
    #[error("the lock file of the lane was removed")]
    Lost,
}

impl LaneError {
    fn code(&self) -> Code {
        match self {
            Self::State(error) => error.code(),
            Self::Turn(_) | Self::Lost => Code::StorageFailed,
        }
    }
}

/// What is to be decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'t> {
    pub(super) id: &'t TaskId,
    /// Which attempt at it this is; none, if nothing will be committed.
    pub(super) attempt: Option<u32>,
    pub(super) request: &'t Request,
    pub(super) asker: &'t Asker,
}

/// What an attempt at deciding came to.
pub(super) enum Ran {
    /// This is to be reported once the draft is committed.
    Done(TaskResult, Box<Draft>),
    /// The task is to be given up.
    Failed(TaskError),
    /// Somebody stopped it.
    Stopped,
}

/// What became of a task that was begun.
enum Ended {
    /// It has an outcome.
    With(Outcome),
    /// Somebody stopped it, or finished it meanwhile. Nothing was committed.
    Stopped,
}

/// The outcome of a task, and what is still to be done about it.
struct Outcome {
    result: Result<TaskResult, TaskError>,
    /// Whether memories changed.
    changed: bool,
    /// The proposals to store.
    proposals: Vec<NewProposal>,
}

impl Outcome {
    const fn failed(error: TaskError) -> Self {
        Self { result: Err(error), changed: false, proposals: Vec::new() }
    }
}

/// Works as long as there is something to do in a lane. What fails is tried again a little later.
pub(super) async fn work(shared: Arc<Shared>, lane: Arc<Lane>) {
    let mut delay = shared.settings.retry_delay;
    loop {
        let served = shared.serve(&lane).await;
        if let Err(error) = served {
            tracing::warn!(workspace = %lane.id, error = %chain(&error), "a lane waits to retry");
            lock(&lane.now).waits_for = Some(error.code());
            shared.rest_before_retry(&lane, delay).await;
            delay = LANE_RETRY_DELAY_MAX.min(delay * 2);
            lock(&lane.now).asked = true;
        } else {
            delay = shared.settings.retry_delay;
            lock(&lane.now).waits_for = None;
        }
        let mut now = lock(&lane.now);
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
    pub(super) async fn rest(&self, delay: Duration) {
        tokio::select! {
            () = self.draining.cancelled() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }

    /// Waits before a lane tries again: no longer than one retry delay once a caller asks for its work.
    async fn rest_before_retry(&self, lane: &Lane, delay: Duration) {
        lock(&lane.now).asked = false;
        let ends = Instant::now() + delay;
        while Instant::now() < ends && !self.draining.is_cancelled() {
            self.rest(self.settings.retry_delay).await;
            if lock(&lane.now).asked {
                return;
            }
        }
    }

    /// Does whatever is queued in a lane, once it is this process's turn.
    async fn serve(&self, lane: &Lane) -> Result<(), LaneError> {
        let turn = tokio::select! {
            biased;
            () = self.draining.cancelled() => return Ok(()),
            turn = lane.turn.take() => turn?,
        };
        self.recover(lane).await?;
        loop {
            // Before looking: whoever queues a task afterwards asks again.
            lock(&lane.now).asked = false;
            let slot = tokio::select! {
                biased;
                () = self.draining.cancelled() => return Ok(()),
                slot = self.slots.acquire() => slot,
            };
            if !turn.is_current() {
                return Err(LaneError::Lost);
            }
            let now = self.parts.clock.now();
            let Some(row) = self.parts.tasks.begin_next(&lane.id, now).await? else { break };
            if let Err(error) = self.attempt(lane, &turn, &row).await {
                // Nobody died: what is found running is ours.
                let mut now = lock(&lane.now);
                now.broken.entry(row.id.clone()).or_default().insert(row.attempts);
                return Err(error);
            }
            drop(slot);
        }
        self.tell_of_others(lane).await
    }

    /// Does one task that was begun.
    async fn attempt(&self, lane: &Lane, turn: &Turn, row: &TaskRow) -> Result<(), LaneError> {
        let task = match Task::read(row) {
            Ok(task) => task,
            Err(unreadable) => {
                tracing::warn!(error = %unreadable, "a task cannot be done");
                let kind = row.kind.parse().unwrap_or(TaskKind::Remember);
                let failed = TaskError::new(TaskErrorCode::failed(kind));
                return self.finish(lane, row, &Err(failed)).await.map(drop);
            }
        };
        if let Some(refusal) = &task.refusal {
            return self.finish(lane, row, &Err(refusal.into())).await.map(drop);
        }
        if task.kind() == TaskKind::Review && !self.does_reviews(&lane.workspace()) {
            // It was queued before reviews were switched off.
            let cancelled = Err(TaskError::new(TaskErrorCode::Cancelled));
            return self.finish(lane, row, &cancelled).await.map(drop);
        }
        let stop = self.halted.child_token();
        let _current = Current::new(lane, &task.id, &stop);
        self.note_start(row).await;
        match self.end(lane, turn, (row.attempt(), &task), &stop).await? {
            Ended::With(Outcome { mut result, changed, proposals }) => {
                if let Ok(result) = &mut result {
                    self.store_proposals(&task, result, &proposals).await?;
                }
                self.finish(lane, row, &result).await?;
                // Whoever finished it meanwhile did so because of that change.
                if let Ok(result) = &result
                    && changed
                {
                    self.publish(&task, result).await;
                    if task.kind() == TaskKind::Review {
                        self.offer_reviewed(lane, &task).await;
                    }
                }
            }
            Ended::Stopped if self.halted.is_cancelled() => {
                // It goes on in another life, unless somebody took it back. Noted first: an attempt whose
                // end is seen does not count among those that are tried.
                self.note_end(row, "requeued").await;
                self.parts.tasks.requeue(row.attempt(), self.parts.clock.now()).await?;
            }
            Ended::Stopped => {
                let cancelled = Err(TaskError::new(TaskErrorCode::Cancelled));
                self.finish(lane, row, &cancelled).await?;
            }
        }
        Ok(())
    }

    /// Decides and commits; decides anew when a memory changed meanwhile.
    async fn end(
        &self,
        lane: &Lane,
        turn: &Turn,
        (attempt, task): (Attempt<'_>, &Task),
        stop: &CancellationToken,
    ) -> Result<Ended, LaneError> {
        let Task { id, request, asker, .. } = task;
        let asked = Asked { id, attempt: Some(attempt.number), request, asker };
        let deadline = Instant::now() + self.settings.task_wait;
        for round in 0..self.parts.runner.decisions_max() {
            if !step_aside(round, stop).await {
                return Ok(Ended::Stopped);
            }
            let (mut result, draft) = match self.decide(lane, asked, stop, deadline).await {
                Ran::Done(result, draft) => (result, draft),
                Ran::Failed(error) => return Ok(Ended::With(Outcome::failed(error))),
                Ran::Stopped => return Ok(Ended::Stopped),
            };
            let proposals = self.new_proposals(lane, task, &mut result);
            let changed = !draft.changed().is_empty();
            if changed || !proposals.is_empty() {
                let text = record::prepared_text(&result, &proposals);
                if !self.parts.tasks.prepare_outcome(attempt, &text).await? {
                    return Ok(Ended::Stopped);
                }
            }
            let outcome = Outcome { result: Ok(result), changed, proposals };
            if !changed {
                return Ok(Ended::With(outcome));
            }
            if !turn.is_current() {
                return Err(LaneError::Lost);
            }
            // A commit that has begun comes to its end, so it must not begin late.
            if Instant::now() >= deadline {
                return Ok(Ended::With(Outcome::failed(TaskError::new(TaskErrorCode::Timeout))));
            }
            let Err(why) = commit(draft).await else { return Ok(Ended::With(outcome)) };
            // The record of a change may be durable although its commit failed.
            let row = self.parts.tasks.task(attempt.task).await?;
            if row.as_ref().is_some_and(|row| row.change.is_some()) {
                tracing::warn!(task = %task.id, error = %chain(&why), "a commit stopped half-way");
                self.make_whole(lane, task).await;
                return Ok(Ended::With(outcome));
            }
            if row.is_some_and(|row| row.attempt() != attempt || record::has_ended(&row)) {
                return Err(LaneError::Lost);
            }
            match why.as_run_error(task.kind()) {
                RunError::Conflict => {}
                RunError::Failed(failed) => {
                    // What is refused is told in full by the error of the task.
                    if !matches!(why, Uncommitted::Store(StoreError::Refused(_))) {
                        tracing::warn!(task = %task.id, error = %chain(&why), "a commit failed");
                    }
                    return Ok(Ended::With(Outcome::failed(failed)));
                }
            }
        }
        Ok(Ended::With(Outcome::failed(never_still(task.kind()))))
    }

    /// Takes the proposals out of a result, as they are to be stored.
    fn new_proposals(&self, lane: &Lane, task: &Task, result: &mut TaskResult) -> Vec<NewProposal> {
        let proposals = result.take_proposals();
        if proposals.is_empty() {
            return Vec::new();
        }
        let memories = self.memories(&lane.workspace(), (&task.request, &task.asker));
        let at = self.parts.clock.now();
        let source = Source { task: task.id.as_str(), kind: task.kind(), asker: &task.asker, at };
        pending::new_rows(proposals, &memories, source)
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
        let LaneParts { store, tasks, clock, .. } = &self.parts;
        let pending = Pending::new(Arc::clone(store), Arc::clone(tasks), Arc::clone(clock));
        let provenance = provenance(&task.request, &task.asker);
        result.note_stored(pending.add(proposals, &provenance).await?);
        Ok(())
    }

    /// Has what a review wrote offered to a person, and those who listen told of it. It is offered at the latest when somebody
    /// looks.
    async fn offer_reviewed(&self, lane: &Lane, task: &Task) {
        let LaneParts { store, tasks, clock, .. } = &self.parts;
        let pending = Pending::new(Arc::clone(store), Arc::clone(tasks), Arc::clone(clock));
        let memories = self.memories(&lane.workspace(), (&task.request, &task.asker));
        if let Err(error) = pending.count(&memories).await {
            tracing::warn!(task = %task.id, error = %chain(&error), "a review is not offered yet");
        }
    }

    /// Lets the runner decide, on a draft of its own, within the deadline.
    pub(super) async fn decide(
        &self,
        lane: &Lane,
        Asked { id, attempt, request, asker }: Asked<'_>,
        stop: &CancellationToken,
        deadline: Instant,
    ) -> Ran {
        let ledger = Arc::new(Ledger::default());
        let began = self.parts.clock.now();
        let asked = Asked { id, attempt, request, asker };
        let ran = self.decide_with(lane, asked, &ledger, (stop, deadline)).await;
        self.book(&ledger, (&lane.id, id, asker), began, &ran).await;
        ran
    }

    async fn decide_with(
        &self,
        lane: &Lane,
        Asked { id, attempt, request, asker }: Asked<'_>,
        ledger: &Arc<Ledger>,
        (stop, deadline): (&CancellationToken, Instant),
    ) -> Ran {
        let workspace = lane.workspace();
        for round in 0..self.parts.runner.decisions_max() {
            if !step_aside(round, stop).await {
                return Ran::Stopped;
            }
            let memories = self.memories(&workspace, (request, asker));
            let draft = draft(&memories, id, attempt);
            let (request, workspace) = (request.clone(), workspace.clone());
            let ledger = Arc::clone(ledger);
            let job = Job { task: id.clone(), request, workspace, ledger };
            let ran = self.run((job, memories, draft), stop, deadline).await;
            if let Ok(ran) = ran {
                return ran;
            }
        }
        Ran::Failed(never_still(request.kind()))
    }

    /// Runs the runner once, where a panic or a hang of it harms nobody.
    pub(super) async fn run(
        &self,
        (job, memories, mut draft): (Job, store::Memories, Draft),
        stop: &CancellationToken,
        deadline: Instant,
    ) -> Result<Ran, Conflict> {
        let kind = job.request.kind();
        let id = job.task.clone();
        let (runner, told) = (Arc::clone(&self.parts.runner), stop.child_token());
        let stopped = told.clone();
        let mut running = Apart::new(async move {
            let done = runner.run(&job, &memories, &mut draft, &stopped).await;
            (done, draft)
        });
        let joined = tokio::select! {
            biased;
            () = stop.cancelled() => {
                self.see_it_end(running).await;
                return Ok(Ran::Stopped);
            }
            () = tokio::time::sleep_until(deadline) => {
                told.cancel();
                self.see_it_end(running).await;
                return Ok(Ran::Failed(TaskError::new(TaskErrorCode::Timeout)));
            }
            joined = &mut running.ended => joined,
        };
        match joined {
            Ok(Some((Ok(result), draft))) => Ok(Ran::Done(result, Box::new(draft))),
            Ok(Some((Err(RunError::Conflict), _))) => Err(Conflict),
            Ok(Some((Err(RunError::Failed(error)), _))) => Ok(Ran::Failed(error)),
            // What a panic says may hold what it was about.
            Ok(None) | Err(_) => {
                tracing::error!(task = %id, "a runner panicked");
                Ok(Ran::Failed(broke(kind)))
            }
        }
    }

    /// Waits for a runner that was told to stop, so that the next task does not run beside it. It may have
    /// a child to stop; if that takes too long, it is stopped where it waits next. One that never waits
    /// goes on alone, and what it drafts is dropped.
    async fn see_it_end<T>(&self, Apart { mut ended, given_up }: Apart<T>) {
        if tokio::time::timeout(self.settings.stop_wait, &mut ended).await.is_err() {
            drop(given_up);
            drop(tokio::time::timeout(self.settings.stop_wait, ended).await);
        }
    }

    /// Finishes a task, durably. Returns whether this did: somebody may have taken it back.
    pub(super) async fn finish(
        &self,
        lane: &Lane,
        row: &TaskRow,
        outcome: &Result<TaskResult, TaskError>,
    ) -> Result<bool, LaneError> {
        let (status, text) = (status_of(outcome), record::outcome_text(outcome));
        let request = record::kept_request_text(&row.request);
        let end = End { status: status.as_str(), outcome: &text, request: &request };
        let now = self.parts.clock.now();
        let finished = self.parts.tasks.finish_task(row.attempt(), end, now).await?;
        if finished {
            match outcome {
                Ok(_) => tracing::info!(task = %row.id, "completed"),
                Err(error) => tracing::info!(task = %row.id, code = %error.code, "failed"),
            }
            if let Ok(id) = row.id.parse() {
                lock(&lane.now).ours.remove(&id);
            }
        }
        lock(&lane.now).broken.remove(&row.id);
        self.note_end(row, status.as_str()).await;
        lane.move_on();
        Ok(finished)
    }

    /// Says what a task did, once. That nobody can be told never fails the task.
    pub(super) async fn publish(&self, task: &Task, result: &TaskResult) {
        if !self.claim(task, result) {
            return;
        }
        let saved = result.changes().len();
        if task.kind() == TaskKind::Review && (saved == 0 || !self.settings.review_verbose) {
            return;
        }
        let change = ManagedChange {
            workspace: task.workspace.clone(),
            source: task.kind(),
            task: task.id.clone(),
            scopes: result.scopes().clone(),
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
    let committing =
        AbortOnDropHandle::new(tokio::spawn(async move { draft.commit().await }.boxed()));
    match committing.await {
        Ok(committed) => Ok(committed.map(drop)?),
        Err(_panicked) => Err(Uncommitted::Panicked),
    }
}

fn broke(kind: TaskKind) -> TaskError {
    TaskError::new(TaskErrorCode::failed(kind)).with_details("the program that does it broke")
}

/// A memory changed while it was being decided upon.
pub(super) struct Conflict;

/// Waits before a task is decided anew, longer each time: where many lanes change the same memories, they
/// get out of each other's way. Returns whether the task is still wanted.
async fn step_aside(round: u32, stop: &CancellationToken) -> bool {
    let Some(doublings) = round.checked_sub(1) else { return true };
    let wait = TASK_STEP_ASIDE.saturating_mul(2_u32.saturating_pow(doublings));
    stop.run_until_cancelled(tokio::time::sleep(wait.min(TASK_STEP_ASIDE_MAX))).await.is_some()
}

fn never_still(kind: TaskKind) -> TaskError {
    let failed = TaskError::new(TaskErrorCode::failed(kind));
    failed.with_details("the memories changed again and again while they were being decided upon")
}

/// Says what a lane is doing, as long as it does it.
struct Current<'l>(&'l Lane);

impl<'l> Current<'l> {
    fn new(lane: &'l Lane, id: &TaskId, stop: &CancellationToken) -> Self {
        lock(&lane.now).current = Some((id.clone(), stop.clone()));
        lane.move_on();
        Self(lane)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        lock(&self.0.now).current = None;
        self.0.move_on();
    }
}
