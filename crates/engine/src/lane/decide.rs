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

use super::shared::{Lane, Lanes, Shared, Spent, draft, is_scheduled};
use crate::models::{ModelWork, Occasion};
use crate::review::is_review;
use crate::runner::{Job, RunError, chain};
use crate::task::{Asker, Request, TaskError, TaskErrorCode, TaskId, TaskKind, TaskResult};

/// What is to be decided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'t> {
    pub(super) id: &'t TaskId,
    /// Which attempt at it this is; none, if nothing will be committed.
    pub(super) attempt: Option<u32>,
    pub(super) request: &'t Request,
    pub(super) asker: &'t Asker,
}

/// When the work on a task is broken off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cutoff<'t> {
    pub(super) stop: &'t CancellationToken,
    pub(super) deadline: Instant,
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

/// A memory changed while it was being decided upon.
pub(super) struct Conflict;

/// How much less of a busy machine than others such a thread gets, as `nice` counts it.
#[cfg(target_os = "linux")]
const STEPS_BACK: i32 = 10;

/// Work that goes on by itself.
#[derive(Debug)]
struct Apart<T> {
    /// What comes of it; `None` if it was given up, an error if it panicked.
    ended: oneshot::Receiver<Option<T>>,
    /// Dropped by whoever gives it up: it is stopped where it waits next.
    given_up: DropGuard,
}

impl<T: Send + 'static> Apart<T> {
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
            _ => on_a_thread(move || runtime.block_on(work)),
        }
        Self { ended, given_up: given_up.drop_guard() }
    }
}

/// Runs work on a thread that stands back. Where there can be none, the work is dropped, which tells.
fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name("task".to_owned());
    let begun = thread.spawn(move || {
        // Of this thread alone, as Linux has it.
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::nice(STEPS_BACK) {
            tracing::debug!(%error, "a task does not stand back");
        }
        work();
    });
    if let Err(error) = begun {
        tracing::warn!(%error, "no thread for a task");
    }
}

impl Shared {
    /// Returns when work that begins now is broken off.
    pub(super) fn cutoff<'t>(&self, stop: &'t CancellationToken) -> Cutoff<'t> {
        Cutoff { stop, deadline: Instant::now() + self.settings.task_wait }
    }

    /// Lets the runner decide, on a draft of its own. What a model did is noted; that it cannot be fails no task.
    pub(super) async fn decide(&self, lane: &Lane, asked: Asked<'_>, cutoff: Cutoff<'_>) -> Ran {
        let ledger = Arc::new(Ledger::default());
        let began_at = self.parts.clock.now();
        let ran = self.decide_with(lane, asked, &ledger, cutoff).await;
        let report = ledger.report();
        let Some(model) = report.model.clone() else { return ran };
        let ended = match &ran {
            Ran::Done(..) if report.fallback.is_some() => "fallback",
            Ran::Done(..) => "completed",
            Ran::Failed(error) if error.code == TaskErrorCode::Timeout => "timeout",
            Ran::Failed(_) => "failed",
            Ran::Stopped => "cancelled",
        };
        let by = (asked.id.kind(), model, ended);
        self.spent.lock().entry(by).or_default().add(&report);
        let occasion = Occasion {
            workspace: &lane.id,
            task: Some(asked.id.to_string()),
            began_at,
            ended_at: self.parts.clock.now(),
            ended,
            is_background: is_scheduled(asked.asker) || is_review(asked.asker),
        };
        if let Some(work) = ModelWork::of(report, &occasion)
            && let Err(error) = self.parts.tasks.add_model_work(work.row()).await
        {
            tracing::warn!(task = %asked.id, error = %chain(&error), "what a model did is not noted");
        }
        ran
    }

    async fn decide_with(
        &self,
        lane: &Lane,
        Asked { id, attempt, request, asker }: Asked<'_>,
        ledger: &Arc<Ledger>,
        cutoff: Cutoff<'_>,
    ) -> Ran {
        let workspace = lane.workspace();
        for round in 0..self.parts.runner.decisions_max() {
            if !step_aside(round, cutoff.stop).await {
                return Ran::Stopped;
            }
            let memories = self.memories(&workspace, request, asker);
            let draft = draft(&memories, id, attempt);
            let (request, workspace) = (request.clone(), workspace.clone());
            let ledger = Arc::clone(ledger);
            let job = Job { task: id.clone(), request, workspace, ledger };
            if let Ok(ran) = self.run(job, memories, draft, cutoff).await {
                return ran;
            }
        }
        Ran::Failed(never_still(request.kind()))
    }

    /// Runs the runner once, where a panic or a hang of it harms nobody.
    pub(super) async fn run(
        &self,
        job: Job,
        memories: Memories,
        mut draft: Draft,
        Cutoff { stop, deadline }: Cutoff<'_>,
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
}

impl Lanes {
    /// Returns what models did in this process so far, by the kind of task, the model and how it ended.
    pub fn spent(&self) -> Vec<((TaskKind, String, &'static str), Spent)> {
        self.0.spent.lock().iter().map(|(by, spent)| (by.clone(), *spent)).collect()
    }
}

impl Shared {
    /// Returns the tokens that work took lately which nobody asked for, if they are as many as a person allows.
    pub(super) async fn over_budget(&self) -> Result<Option<u64>, StateError> {
        let max = self.settings.background_tokens_max;
        let since = self.parts.clock.now().checked_sub(BACKGROUND_WINDOW).unwrap_or(Timestamp::MIN);
        let tokens = self.parts.tasks.background_tokens(since).await?;
        Ok((tokens >= max).then_some(tokens))
    }
}

pub(super) fn broke(kind: TaskKind) -> TaskError {
    TaskError::new(TaskErrorCode::failed(kind)).with_details("the program that does it broke")
}

/// Waits before a task is decided anew, longer each time: where many lanes change the same memories, they
/// get out of each other's way. Returns whether the task is still wanted.
pub(super) async fn step_aside(round: u32, stop: &CancellationToken) -> bool {
    let Some(doublings) = round.checked_sub(1) else { return true };
    let wait = TASK_YIELD_DELAY.saturating_mul(2_u32.saturating_pow(doublings));
    stop.run_until_cancelled(tokio::time::sleep(wait.min(TASK_YIELD_DELAY_MAX))).await.is_some()
}

pub(super) fn never_still(kind: TaskKind) -> TaskError {
    let failed = TaskError::new(TaskErrorCode::failed(kind));
    failed.with_details("the memories changed again and again while they were being decided upon")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_computes_keeps_nobody_waiting() {
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let Apart { ended, given_up: _given_up } =
            Apart::new(async move { may_go_on.recv().is_ok() });
        // On the one thread that does it would never begin.
        tokio::spawn(async move { go_on.send(()) }).await.unwrap().unwrap();
        assert_eq!(ended.await, Ok(Some(true)));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn what_is_given_up_is_stopped_where_it_waits() {
        let Apart { ended, given_up } = Apart::new(std::future::pending::<()>());
        drop(given_up);
        assert_eq!(ended.await, Ok(None));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_panic_is_told_and_ends_nothing_else() {
        let Apart { ended, given_up: _given_up } = Apart::new(async { panic!("on purpose") });
        let ended: Result<Option<()>, _> = ended.await;
        assert!(ended.is_err());
    }
}
