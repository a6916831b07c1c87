//! Deciding what becomes of a task: one or more attempts of the runner, each on a draft of its own.
//!
//! It computes for longer at a stretch than those who wait for an answer should notice. A runtime of several threads is one
//! that others are served on. There such work has a thread to itself, which stands back where the machine has more to
//! do than it can do at once: the caller of a task was answered when it was queued. What models did meanwhile is noted
//! in the state, counted for this process, and bounded for work in the background.

use std::sync::Arc;

use agents::Ledger;
use memory::clock::Timestamp;
use memory::limits::{BACKGROUND_WINDOW, TASK_YIELD_DELAY, TASK_YIELD_DELAY_MAX};
use state::StateError;
use store::{Draft, Memories};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::shared::{Lane, Lanes, LanesInner, ModelSpending, is_scheduled, open_draft};
use crate::models::{ModelRunInfo, ModelWork};
use crate::review::is_review;
use crate::runner::{Job, RunError, error_chain};
use crate::task::{
    CuratorRequest, Requester, TaskError, TaskErrorCode, TaskId, TaskKind, TaskResult,
};

/// What is to be decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionRequest<'t> {
    pub(super) id: &'t TaskId,
    /// Which attempt at it this is; none, if nothing will be committed.
    pub(super) attempt: Option<u32>,
    pub(super) request: &'t CuratorRequest,
    pub(super) requester: &'t Requester,
}

/// When the work on a task is broken off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff<'t> {
    pub(super) stop: &'t CancellationToken,
    pub(super) deadline: Instant,
}

/// What an attempt at deciding came to.
pub(super) enum RunOutcome {
    /// This is to be reported once the draft is committed.
    Done(TaskResult, Box<Draft>),
    /// The task is to be given up.
    Failed(TaskError),
    /// Somebody stopped it.
    Stopped,
}

/// A memory changed while it was being decided upon.
pub(super) struct Conflict;

/// How much less of a busy machine than others such a thread gets, as `nice` counts it.
#[cfg(target_os = "linux")]
const NICE_INCREMENT: i32 = 10;

/// Work that goes on by itself.
#[derive(Debug)]
struct DetachedWork<T> {
    /// What comes of it; `None` if it was given up, an error if it panicked.
    outcome: oneshot::Receiver<Option<T>>,
    /// Dropped by whoever gives it up: it is stopped where it waits next.
    abort_guard: DropGuard,
}

impl<T: Send + 'static> DetachedWork<T> {
    /// Begins some work.
    fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        let given_up = CancellationToken::new();
        let told = given_up.clone();
        let (end, ended) = oneshot::channel();
        let work = async move {
            // Nobody is left to hear of what was given up.
            drop(end.send(told.run_until_cancelled(work).await));
        };
        let runtime = Handle::current();
        match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => drop(runtime.spawn(work)),
            _ => spawn_low_priority(move || runtime.block_on(work)),
        }
        Self { outcome: ended, abort_guard: given_up.drop_guard() }
    }
}

/// Runs work on a thread that stands back. Where there can be none, the work is dropped, which tells.
fn spawn_low_priority(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("task".to_owned());
    let begun = thread.spawn(move || {
        // Of this thread alone, as Linux has it.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(NICE_INCREMENT) {
            tracing::debug!(%error, "a task does not stand back");
        }
        work();
    });
    if let Err(error) = begun {
        tracing::warn!(%error, "no thread for a task");
    }
}

impl LanesInner {
    /// Returns when work that begins now is broken off.
    pub(super) fn cutoff_for<'t>(&self, stop: &'t CancellationToken) -> Cutoff<'t> {
        Cutoff { stop, deadline: Instant::now() + self.settings.task_wait }
    }

    /// Lets the runner decide, on a draft of its own. What a model did is noted; that it cannot be fails no task.
    pub(super) async fn decide(
        &self,
        lane: &Lane,
        asked: DecisionRequest<'_>,
        cutoff: Cutoff<'_>,
    ) -> RunOutcome {
        let ledger = Arc::new(Ledger::default());
        let began_at = self.deps.clock.now();
        let ran = self.decide_with(lane, asked, &ledger, cutoff).await;
        let report = ledger.report();
        let Some(model) = report.model.clone() else { return ran };
        let ended = match &ran {
            RunOutcome::Done(..) if report.fallback.is_some() => "fallback",
            RunOutcome::Done(..) => "completed",
            RunOutcome::Failed(error) if error.code == TaskErrorCode::Timeout => "timeout",
            RunOutcome::Failed(_) => "failed",
            RunOutcome::Stopped => "cancelled",
        };
        let by = (asked.id.kind(), model, ended);
        self.spending.lock().entry(by).or_default().add(&report);
        let occasion = ModelRunInfo {
            workspace: &lane.id,
            task: Some(asked.id.to_string()),
            began_at,
            ended_at: self.deps.clock.now(),
            outcome: ended,
            is_background: is_scheduled(asked.requester) || is_review(asked.requester),
        };
        if let Some(work) = ModelWork::from_report(report, &occasion)
            && let Err(error) = self.deps.tasks.add_model_work(work.to_row()).await
        {
            tracing::warn!(task = %asked.id, error = %error_chain(&error), "what a model did is not noted");
        }
        ran
    }

    async fn decide_with(
        &self,
        lane: &Lane,
        DecisionRequest { id, attempt, request, requester: asker }: DecisionRequest<'_>,
        ledger: &Arc<Ledger>,
        cutoff: Cutoff<'_>,
    ) -> RunOutcome {
        let workspace = lane.workspace();
        for round in 0..self.deps.runner.decisions_max() {
            if !back_off(round, cutoff.stop).await {
                return RunOutcome::Stopped;
            }
            let memories = self.memories(&workspace, request, asker);
            let draft = open_draft(&memories, id, attempt);
            let (request, workspace) = (request.clone(), workspace.clone());
            let ledger = Arc::clone(ledger);
            let job = Job { task: id.clone(), request, workspace, ledger };
            if let Ok(ran) = self.run(job, memories, draft, cutoff).await {
                return ran;
            }
        }
        RunOutcome::Failed(contention_error(request.kind()))
    }

    /// Runs the runner once, where a panic or a hang of it harms nobody.
    pub(super) async fn run(
        &self,
        job: Job,
        memories: Memories,
        mut draft: Draft,
        Cutoff { stop, deadline }: Cutoff<'_>,
    ) -> Result<RunOutcome, Conflict> {
        let kind = job.request.kind();
        let id = job.task.clone();
        let (runner, told) = (Arc::clone(&self.deps.runner), stop.child_token());
        let stopped = told.clone();
        let mut running = DetachedWork::new(async move {
            let done = runner.run(&job, &memories, &mut draft, &stopped).await;
            (done, draft)
        });
        let joined = tokio::select! {
            biased;
            () = stop.cancelled() => {
                self.wait_for_end(running).await;
                return Ok(RunOutcome::Stopped);
            }
            () = tokio::time::sleep_until(deadline) => {
                told.cancel();
                self.wait_for_end(running).await;
                return Ok(RunOutcome::Failed(TaskError::new(TaskErrorCode::Timeout)));
            }
            joined = &mut running.outcome => joined,
        };
        match joined {
            Ok(Some((Ok(result), draft))) => Ok(RunOutcome::Done(result, Box::new(draft))),
            Ok(Some((Err(RunError::Conflict), _))) => Err(Conflict),
            Ok(Some((Err(RunError::Failed(error)), _))) => Ok(RunOutcome::Failed(error)),
            // What a panic says may hold what it was about.
            Ok(None) | Err(_) => {
                tracing::error!(task = %id, "a runner panicked");
                Ok(RunOutcome::Failed(internal_error(kind)))
            }
        }
    }

    /// Waits for a runner that was told to stop, so that the next task does not run beside it. It may have
    /// a child to stop; if that takes too long, it is stopped where it waits next. One that never waits
    /// goes on alone, and what it drafts is dropped.
    async fn wait_for_end<T>(
        &self,
        DetachedWork { outcome: mut ended, abort_guard: given_up }: DetachedWork<T>,
    ) {
        if tokio::time::timeout(self.settings.stop_wait, &mut ended).await.is_err() {
            drop(given_up);
            drop(tokio::time::timeout(self.settings.stop_wait, ended).await);
        }
    }
}

impl Lanes {
    /// Returns what models did in this process so far, by the kind of task, the model and how it ended.
    pub fn spending(&self) -> Vec<((TaskKind, String, &'static str), ModelSpending)> {
        self.0.spending.lock().iter().map(|(by, spent)| (by.clone(), *spent)).collect()
    }
}

impl LanesInner {
    /// Returns the tokens that work took lately which nobody asked for, if they are as many as a person allows.
    pub(super) async fn tokens_over_budget(&self) -> Result<Option<u64>, StateError> {
        let max = self.settings.background_tokens_max;
        let since = self.deps.clock.now().checked_sub(BACKGROUND_WINDOW).unwrap_or(Timestamp::MIN);
        let tokens = self.deps.tasks.background_tokens(since).await?;
        Ok((tokens >= max).then_some(tokens))
    }
}

pub(super) fn internal_error(kind: TaskKind) -> TaskError {
    TaskError::new(TaskErrorCode::failed(kind)).with_details("the program that does it broke")
}

/// Waits before a task is decided anew, longer each time: where many lanes change the same memories, they
/// get out of each other's way. Returns whether the task is still wanted.
pub(super) async fn back_off(round: u32, stop: &CancellationToken) -> bool {
    let Some(doublings) = round.checked_sub(1) else { return true };
    let wait = TASK_YIELD_DELAY.saturating_mul(2_u32.saturating_pow(doublings));
    stop.run_until_cancelled(tokio::time::sleep(wait.min(TASK_YIELD_DELAY_MAX))).await.is_some()
}

pub(super) fn contention_error(kind: TaskKind) -> TaskError {
    let failed = TaskError::new(TaskErrorCode::failed(kind));
    failed.with_details("the memories changed again and again while they were being decided upon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_computes_keeps_nobody_waiting() {
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let DetachedWork { outcome, abort_guard: _given_up } =
            DetachedWork::new(async move { may_go_on.recv().is_ok() });
        // On the one thread that does it would never begin.
        tokio::spawn(async move { go_on.send(()) }).await.unwrap().unwrap();
        assert_eq!(outcome.await, Ok(Some(true)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_given_up_is_stopped_where_it_waits() {
        let DetachedWork { outcome, abort_guard } = DetachedWork::new(std::future::pending::<()>());
        drop(abort_guard);
        assert_eq!(outcome.await, Ok(None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_told_and_ends_nothing_else() {
        let DetachedWork { outcome, abort_guard: _given_up } =
            DetachedWork::new(async { panic!("on purpose") });
        let ended: Result<Option<()>, _> = outcome.await;
        assert!(ended.is_err());
    }
}
