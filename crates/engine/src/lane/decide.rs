//! Decides a task: one or more attempts of the runner, each on a draft of its own. Commits nothing.
//!
//! A curator may compute for long stretches without yielding. On a multi-threaded runtime, which
//! also serves requests, an attempt therefore runs on its own thread with low priority: the caller
//! of the task was answered when it was queued.
//!
//! Work of models is recorded in the state, added to this process's totals, and limited for
//! background work.

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
use crate::models::{ModelRunContext, ModelWork};
use crate::review::is_review;
use crate::runner::{Job, RunError, error_chain};
use crate::task::{
    CuratorRequest, Requester, TaskError, TaskErrorCode, TaskId, TaskKind, TaskResult,
};

/// A task to decide.
#[derive(Clone, Copy, Debug)]
pub(super) struct DecisionRequest<'t> {
    pub(super) id: &'t TaskId,
    /// Number of the attempt; `None` for a dry run, which commits nothing.
    pub(super) attempt: Option<u32>,
    pub(super) request: &'t CuratorRequest,
    pub(super) requester: &'t Requester,
}

/// The stop signal and the deadline of the work on a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff<'t> {
    pub(super) stop: &'t CancellationToken,
    pub(super) deadline: Instant,
}

/// The result of deciding a task.
pub(super) enum RunOutcome {
    /// The result to report once the draft is committed.
    Done(TaskResult, Box<Draft>),
    /// The task fails for good.
    Failed(TaskError),
    /// The task was stopped.
    Stopped,
}

/// A memory changed while the task was being decided.
pub(super) struct Conflict;

/// Work that runs independently of the future that started it.
#[derive(Debug)]
struct DetachedWork<T> {
    /// Its result; `None` if it was aborted, an error if it panicked.
    outcome: oneshot::Receiver<Option<T>>,
    /// Dropping this aborts the work at its next await.
    abort_guard: DropGuard,
}

impl<T: Send + 'static> DetachedWork<T> {
    /// Starts the work.
    fn new(work: impl Future<Output = T> + Send + 'static) -> Self {
        let abort = CancellationToken::new();
        let aborted = abort.clone();
        let (sender, receiver) = oneshot::channel();
        let work = async move {
            // The receiver may be gone if the work was aborted.
            drop(sender.send(aborted.run_until_cancelled(work).await));
        };
        let runtime = Handle::current();
        match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => drop(runtime.spawn(work)),
            _ => spawn_low_priority(move || runtime.block_on(work)),
        }
        Self { outcome: receiver, abort_guard: abort.drop_guard() }
    }
}

/// Runs `work` on a low-priority thread. If no thread can be spawned, `work` is dropped and the
/// receiver sees a closed channel.
fn spawn_low_priority(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("task".to_owned());
    let spawned = thread.spawn(move || {
        store::lower_thread_priority();
        work();
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "error while spawning a thread for a task");
    }
}

impl LanesInner {
    /// Returns the cutoff of work that starts now.
    pub(super) fn cutoff_for<'t>(&self, stop: &'t CancellationToken) -> Cutoff<'t> {
        Cutoff { stop, deadline: Instant::now() + self.settings.task_wait }
    }

    /// Has the runner decide a task, and records the work of models. An error while recording it
    /// does not fail the task.
    pub(super) async fn decide(
        &self,
        lane: &Lane,
        decision_request: DecisionRequest<'_>,
        cutoff: Cutoff<'_>,
    ) -> RunOutcome {
        let ledger = Arc::new(Ledger::default());
        let began_at = self.deps.clock.now();
        let outcome = self.decide_with(lane, decision_request, &ledger, cutoff).await;
        let report = ledger.report();
        let Some(model) = report.model.clone() else { return outcome };
        let ended = match &outcome {
            RunOutcome::Done(..) if report.fallback.is_some() => "fallback",
            RunOutcome::Done(..) => "completed",
            RunOutcome::Failed(error) if error.code == TaskErrorCode::Timeout => "timeout",
            RunOutcome::Failed(_) => "failed",
            RunOutcome::Stopped => "cancelled",
        };
        let key = (decision_request.id.kind(), model, ended);
        self.spending.lock().entry(key).or_default().add(&report);
        let run = ModelRunContext {
            workspace: &lane.id,
            task: Some(decision_request.id.to_string()),
            began_at,
            ended_at: self.deps.clock.now(),
            outcome: ended,
            is_background: is_scheduled(decision_request.requester)
                || is_review(decision_request.requester),
        };
        if let Some(work) = ModelWork::from_report(report, &run)
            && let Err(error) = self.deps.tasks.add_model_work(work.to_row()).await
        {
            tracing::warn!(task = %decision_request.id, error = %error_chain(&error), "error while recording the work of a model");
        }
        outcome
    }

    async fn decide_with(
        &self,
        lane: &Lane,
        DecisionRequest { id, attempt, request, requester }: DecisionRequest<'_>,
        ledger: &Arc<Ledger>,
        cutoff: Cutoff<'_>,
    ) -> RunOutcome {
        let workspace = lane.workspace();
        for round in 0..self.deps.runner.decisions_max() {
            if !back_off(round, cutoff.stop).await {
                return RunOutcome::Stopped;
            }
            let memories = self.memories(&workspace, request, requester);
            let draft = open_draft(&memories, id, attempt);
            let (request, workspace) = (request.clone(), workspace.clone());
            let ledger = Arc::clone(ledger);
            let job = Job { task: id.clone(), request, workspace, ledger };
            if let Ok(outcome) = self.run(job, memories, draft, cutoff).await {
                return outcome;
            }
        }
        RunOutcome::Failed(contention_error(request.kind()))
    }

    /// Runs the runner once; a panic or a hang of it does not affect the lane.
    pub(super) async fn run(
        &self,
        job: Job,
        memories: Memories,
        mut draft: Draft,
        Cutoff { stop, deadline }: Cutoff<'_>,
    ) -> Result<RunOutcome, Conflict> {
        let kind = job.request.kind();
        let id = job.task.clone();
        let (runner, child_stop) = (Arc::clone(&self.deps.runner), stop.child_token());
        let runner_stop = child_stop.clone();
        let mut running = DetachedWork::new(async move {
            let done = runner.run(&job, &memories, &mut draft, &runner_stop).await;
            (done, draft)
        });
        let joined = tokio::select! {
            biased;
            () = stop.cancelled() => {
                self.wait_for_end(running).await;
                return Ok(RunOutcome::Stopped);
            }
            () = tokio::time::sleep_until(deadline) => {
                child_stop.cancel();
                self.wait_for_end(running).await;
                return Ok(RunOutcome::Failed(TaskError::new(TaskErrorCode::Timeout)));
            }
            joined = &mut running.outcome => joined,
        };
        match joined {
            Ok(Some((Ok(result), draft))) => Ok(RunOutcome::Done(result, Box::new(draft))),
            Ok(Some((Err(RunError::Conflict), _))) => Err(Conflict),
            Ok(Some((Err(RunError::Failed(error)), _))) => Ok(RunOutcome::Failed(error)),
            // The panic message is not logged, because it may contain texts of the task.
            Ok(None) | Err(_) => {
                tracing::error!(task = %id, "a runner panicked");
                Ok(RunOutcome::Failed(internal_error(kind)))
            }
        }
    }

    /// Waits for a runner that was asked to stop, so that the next task does not run beside it. The
    /// runner may have to stop a child process first. If it takes too long, it is aborted at its
    /// next await. One that never awaits keeps running alone, and its draft is dropped.
    async fn wait_for_end<T>(&self, DetachedWork { mut outcome, abort_guard }: DetachedWork<T>) {
        if tokio::time::timeout(self.settings.stop_wait, &mut outcome).await.is_err() {
            drop(abort_guard);
            drop(tokio::time::timeout(self.settings.stop_wait, outcome).await);
        }
    }
}

impl Lanes {
    /// Returns the totals of models in this process, by kind of task, model and how the work ended.
    pub fn spending(&self) -> Vec<((TaskKind, String, &'static str), ModelSpending)> {
        self.0.spending.lock().iter().map(|(key, spent)| (key.clone(), *spent)).collect()
    }
}

impl LanesInner {
    /// Returns the tokens recently used for unrequested work, if they reach the limit.
    pub(super) async fn tokens_over_budget(&self) -> Result<Option<u64>, StateError> {
        let max = self.settings.background_tokens_max;
        let since = self.deps.clock.now().checked_sub(BACKGROUND_WINDOW).unwrap_or(Timestamp::MIN);
        let tokens = self.deps.tasks.background_tokens(since).await?;
        Ok((tokens >= max).then_some(tokens))
    }
}

pub(super) fn internal_error(kind: TaskKind) -> TaskError {
    TaskError::new(TaskErrorCode::failed(kind)).with_details("the program that runs it failed")
}

/// Waits before a task is decided again, with exponential backoff: many lanes may be changing the
/// same memories. Returns `false` if the task was stopped meanwhile.
pub(super) async fn back_off(round: u32, stop: &CancellationToken) -> bool {
    let Some(doublings) = round.checked_sub(1) else { return true };
    let wait = TASK_YIELD_DELAY.saturating_mul(2_u32.saturating_pow(doublings));
    stop.run_until_cancelled(tokio::time::sleep(wait.min(TASK_YIELD_DELAY_MAX))).await.is_some()
}

pub(super) fn contention_error(kind: TaskKind) -> TaskError {
    let failed = TaskError::new(TaskErrorCode::failed(kind));
    failed.with_details("the memories kept changing while they were being decided on")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn blocking_work_does_not_block_the_runtime() {
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let DetachedWork { outcome, abort_guard: _given_up } =
            DetachedWork::new(async move { may_go_on.recv().is_ok() });
        // On the only thread of the runtime, this task would never start.
        tokio::spawn(async move { go_on.send(()) }).await.unwrap().unwrap();
        assert_eq!(outcome.await, Ok(Some(true)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn dropping_the_guard_aborts_the_work_at_its_next_await() {
        let DetachedWork { outcome, abort_guard } = DetachedWork::new(std::future::pending::<()>());
        drop(abort_guard);
        assert_eq!(outcome.await, Ok(None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_closes_the_channel_and_ends_nothing_else() {
        let DetachedWork { outcome, abort_guard: _given_up } =
            DetachedWork::new(async { panic!("on purpose") });
        let ended: Result<Option<()>, _> = outcome.await;
        assert!(ended.is_err());
    }
}
