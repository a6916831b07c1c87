//! A task runner that decides tasks in child processes.
//!
//! A child is started when a task needs one, runs one task at a time, and is stopped after an idle time. It commits
//! nothing: its edits come back as data and go into the draft of the lane, where access, screening, limits and pins
//! are checked as for every caller. A child that exits, sends an invalid message or does not answer is killed with its
//! process group. The task is then retried once with a new child. Starts that fail are retried with backoff.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use engine::{
    Draft, Job, Memories, RunError, RunReport, Runner, TaskDetails, TaskError, TaskErrorCode,
    TaskKind, TaskResult, Workspace, apply_staged_edits, path_escape_error,
};
use memory::limits::{
    MODEL_DECISIONS_MAX, REVIEW_WAIT_DEFAULT, TASK_ATTEMPTS_MAX, TASK_DECISIONS_MAX, TASK_WAIT,
};
use memory::path::MemoryPath;
use parking_lot::Mutex;
use protocol::acp::Method;
use protocol::task;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::peer::{CallAnswer, ChildCommand, Peer, PeerError, PeerRefusal};
use super::staged::{self, StageAnswer};
use crate::limits::{
    CHILD_END_WAIT, CHILD_IDLE_WAIT, CHILD_RETRY_DELAY, CHILD_RETRY_DELAY_MAX, CHILD_START_WAIT,
};

/// The settings of child processes: how they are started, and their time limits.
#[derive(Clone, Debug)]
pub struct ChildSettings {
    /// The path of this program.
    pub program: PathBuf,
    /// The arguments that make it serve as an agent.
    pub arguments: Vec<String>,
    /// The whole environment of the child: no other variable of this process is passed on.
    pub environment: Vec<(OsString, OsString)>,
    /// The version of this program, which the child must have.
    pub version: &'static str,
    /// Whether models decide, so that a repeated decision costs money.
    pub is_costly: bool,
    /// The time limit from the start of a child to its first answer.
    pub start_wait: Duration,
    /// The time limit of a task.
    pub deadline: Duration,
    /// The time limit of a review.
    pub review_wait: Duration,
    /// The idle time after which a child is stopped; zero stops it after each task.
    pub idle_wait: Duration,
    /// The first backoff after a failed start; it doubles with each failure.
    pub retry_delay: Duration,
}

impl ChildSettings {
    /// Returns the defaults for a program.
    pub fn new(program: PathBuf, version: &'static str) -> Self {
        Self {
            program,
            arguments: vec!["acp".to_owned()],
            environment: Vec::new(),
            version,
            is_costly: false,
            start_wait: CHILD_START_WAIT,
            deadline: TASK_WAIT,
            review_wait: REVIEW_WAIT_DEFAULT,
            idle_wait: CHILD_IDLE_WAIT,
            retry_delay: CHILD_RETRY_DELAY,
        }
    }
}

/// A [`Runner`] that decides tasks in child processes. Cheap to clone; all clones share the children.
///
/// Children belong to the tokio runtime in which its methods are awaited.
#[derive(Clone)]
pub struct ChildRunner(Arc<ChildPool>);

impl fmt::Debug for ChildRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildRunner")
            .field("program", &self.0.settings.program)
            .finish_non_exhaustive()
    }
}

struct ChildPool {
    settings: ChildSettings,
    idle: Mutex<IdleChildren>,
    /// Serializes availability queries, so that concurrent ones share a child.
    availability_lock: tokio::sync::Mutex<()>,
    /// Children that are being stopped.
    stop_tasks: TaskTracker,
    /// The task that stops idle children.
    idle_timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The idle children, and the backoff of starts.
#[derive(Default)]
struct IdleChildren {
    /// Each with the time since when it is idle; the latest is last.
    peers: Vec<(Peer, Instant)>,
    /// The number of failed starts in a row.
    failures: u32,
    /// No child is started before this time.
    retry_at: Option<Instant>,
}

/// The error of an attempt with one child.
enum AttemptError {
    /// The child failed; a retry with another one may succeed.
    Broken(PeerError),
    /// The task failed; it is not retried.
    Fatal(RunError),
}

impl ChildRunner {
    /// Creates a runner. It has no children yet.
    pub fn new(settings: ChildSettings) -> Self {
        Self(Arc::new(ChildPool {
            settings,
            idle: Mutex::default(),
            availability_lock: tokio::sync::Mutex::default(),
            stop_tasks: TaskTracker::new(),
            idle_timer: Mutex::default(),
        }))
    }

    /// Stops the idle children, and waits until they have ended.
    pub async fn close(&self) {
        self.0.idle_timer.lock().take();
        let peers = std::mem::take(&mut self.0.idle.lock().peers);
        for (peer, _) in peers {
            self.0.stop(peer);
        }
        self.0.stop_tasks.close();
        self.0.stop_tasks.wait().await;
        self.0.stop_tasks.reopen();
    }

    /// Runs one attempt of a job with one child.
    async fn attempt(
        &self,
        job: &Job,
        memories: &Memories,
        (stop, until): (&CancellationToken, Instant),
    ) -> Result<StageAnswer, AttemptError> {
        let children = &self.0;
        let kind = job.request.kind();
        let mut peer = tokio::select! {
            biased;
            () = stop.cancelled() => return Err(fatal_error(TaskErrorCode::Cancelled)),
            () = tokio::time::sleep_until(until) => return Err(fatal_error(TaskErrorCode::Timeout)),
            peer = children.acquire_when_allowed() => peer.map_err(AttemptError::Broken)?,
        };
        let before = job.ledger.report();
        let note = |later: &RunReport| job.ledger.replace(before.merged_with(later));
        let parameters = staged::parameters(&job.task, &job.request, &job.workspace);
        let method = method(kind).as_str();
        let answer = {
            let on_progress = |report: Value| {
                if let Ok(report) = serde_json::from_value(report) {
                    note(&staged::report_from_wire(&report));
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(fatal_error(TaskErrorCode::Cancelled)),
                () = tokio::time::sleep_until(until) => Err(fatal_error(TaskErrorCode::Timeout)),
                answer = peer.call(method, parameters, on_progress) => answer.map_err(AttemptError::Broken),
            }
        };
        match answer {
            Ok(CallAnswer::Result(fields)) => {
                let read = staged::read_answer(fields, (kind, memories.layout()));
                let Some(answer) = read else {
                    return Err(discard(peer, PeerError::InvalidMessage).await);
                };
                note(&answer.report);
                children.release(peer);
                Ok(answer)
            }
            Ok(CallAnswer::Refused(refusal)) => {
                children.release(peer);
                if let Ok(report) = serde_json::from_value(refusal.data["report"].clone()) {
                    note(&staged::report_from_wire(&report));
                }
                Err(AttemptError::Fatal(run_error(kind, &refusal)))
            }
            Err(AttemptError::Broken(error)) => Err(discard(peer, error).await),
            Err(error) => {
                // Cancelled or out of time: the child may still be working on the task.
                peer.kill().await;
                Err(error)
            }
        }
    }

    /// Applies the edits of a child to the draft, and returns the result, reduced to the edits that were applied.
    async fn apply_answer(
        &self,
        job: &Job,
        (memories, draft): (&Memories, &mut Draft),
        answer: StageAnswer,
    ) -> Result<TaskResult, RunError> {
        let StageAnswer {
            edits,
            mut result,
            decided_by,
            decision_reason,
            report: _,
            has_invalid_path,
        } = answer;
        if has_invalid_path {
            return Err(path_escape_error(job.request.kind()));
        }
        let paths = apply_staged_edits((memories, &mut *draft), &job.request, &edits).await?;
        if let Some(reason) = decision_reason {
            draft.set_note(reason);
        }
        if let Some(model) = decided_by {
            draft.set_model(&model);
        }
        retain_edited(&mut result, &paths);
        Ok(result)
    }

    /// Asks a child whether it can run tasks.
    async fn query_availability(&self, workspace: &Workspace) -> Result<bool, PeerError> {
        let _guard = self.0.availability_lock.lock().await;
        let mut last_error = PeerError::Ended;
        for _ in 0..TASK_ATTEMPTS_MAX {
            let mut peer = self.0.acquire().await?;
            let method = Method::Availability.as_str();
            let call = peer.call(method, staged::workspace_parameters(workspace), |_| ());
            let answer = tokio::time::timeout(self.0.settings.start_wait, call).await;
            match answer.unwrap_or(Err(PeerError::TimedOut)) {
                Ok(CallAnswer::Result(answer)) => {
                    self.0.release(peer);
                    return Ok(answer["available"] == true);
                }
                Ok(CallAnswer::Refused(_)) => {
                    self.0.release(peer);
                    return Err(PeerError::AvailabilityUnknown);
                }
                Err(error) => {
                    peer.log_failure(&error);
                    peer.kill().await;
                    last_error = error;
                }
            }
        }
        Err(last_error)
    }
}

impl ChildPool {
    /// Returns an idle child that is alive, or starts a new one.
    async fn acquire(&self) -> Result<Peer, PeerError> {
        loop {
            let idle = self.idle.lock().peers.pop();
            let Some((mut peer, _)) = idle else { break };
            if peer.is_alive() {
                return Ok(peer);
            }
        }
        if let Some(left) = self.start_delay() {
            let left = left.as_secs() + 1;
            let reason = format!("the last start failed; next retry in {left} s");
            return Err(PeerError::NotStarted(reason));
        }
        let settings = &self.settings;
        let start = ChildCommand {
            program: settings.program.clone(),
            arguments: settings.arguments.clone(),
            environment: settings.environment.clone(),
            version: settings.version,
            start_timeout: settings.start_wait,
        };
        let started = Peer::start(&start).await;
        let mut idle = self.idle.lock();
        if started.is_ok() {
            (idle.failures, idle.retry_at) = (0, None);
        } else {
            let doublings = 2_u32.saturating_pow(idle.failures);
            let delay = settings.retry_delay.saturating_mul(doublings).min(CHILD_RETRY_DELAY_MAX);
            idle.failures = idle.failures.saturating_add(1);
            idle.retry_at = Some(Instant::now() + delay);
        }
        started
    }

    /// Like [`Self::acquire`], but first waits for the end of the backoff.
    async fn acquire_when_allowed(&self) -> Result<Peer, PeerError> {
        if self.idle.lock().peers.is_empty()
            && let Some(left) = self.start_delay()
        {
            tokio::time::sleep(left).await;
        }
        self.acquire().await
    }

    /// Returns the rest of the backoff.
    fn start_delay(&self) -> Option<Duration> {
        let retry_at = self.idle.lock().retry_at?;
        let left = retry_at.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Keeps a child for the next task until the idle time is over.
    fn release(self: &Arc<Self>, peer: Peer) {
        if self.settings.idle_wait.is_zero() {
            self.stop(peer);
            return;
        }
        self.idle.lock().peers.push((peer, Instant::now()));
        self.schedule_idle_stop();
    }

    fn stop(&self, peer: Peer) {
        drop(self.stop_tasks.spawn(peer.end()));
    }

    /// Starts the task that stops children after the idle time.
    fn schedule_idle_stop(self: &Arc<Self>) {
        let (children, wait) = (Arc::downgrade(self), self.settings.idle_wait);
        let stopping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(wait).await;
                let Some(children) = children.upgrade() else { return };
                let (expired, is_empty) = {
                    let mut idle = children.idle.lock();
                    let is_expired = |(_, since): &(Peer, Instant)| since.elapsed() >= wait;
                    let count = idle.peers.iter().take_while(|peer| is_expired(peer)).count();
                    let expired: Vec<_> = idle.peers.drain(..count).collect();
                    (expired, idle.peers.is_empty())
                };
                for (peer, _) in expired {
                    children.stop(peer);
                }
                if is_empty {
                    return;
                }
            }
        });
        *self.idle_timer.lock() = Some(AbortOnDropHandle::new(stopping));
    }
}

/// Logs the failure of a child and kills it.
async fn discard(peer: Peer, error: PeerError) -> AttemptError {
    peer.log_failure(&error);
    peer.kill().await;
    AttemptError::Broken(error)
}

const fn fatal_error(code: TaskErrorCode) -> AttemptError {
    AttemptError::Fatal(RunError::Failed(TaskError::new(code)))
}

/// Converts the refusal of a child to the error of the task.
fn run_error(kind: TaskKind, PeerRefusal { data, .. }: &PeerRefusal) -> RunError {
    let word = |name: &str| data[name].as_str();
    let error_kind = word("errorKind").unwrap_or_default();
    if error_kind == "conflict" {
        return RunError::Conflict;
    }
    let code: Option<TaskErrorCode> = error_kind.parse().ok();
    // The daemon cancels tasks and removes workspaces, never the child: it must not claim either.
    let is_plausible = |code: &TaskErrorCode| {
        !matches!(code, TaskErrorCode::Cancelled | TaskErrorCode::WorkspaceRemoved)
    };
    let mut error =
        TaskError::new(code.filter(is_plausible).unwrap_or(TaskErrorCode::failed(kind)));
    let cause = word("cause").and_then(|code| code.parse().ok());
    if let Some(cause) = cause {
        error = error.caused_by(cause);
    }
    let details = word("details").unwrap_or("the child process refused the task");
    error.with_details(details).into()
}

/// Returns the method for tasks of this kind.
const fn method(kind: TaskKind) -> Method {
    match kind {
        TaskKind::Remember => Method::Task(task::TaskKind::Remember),
        TaskKind::Forget => Method::Task(task::TaskKind::Forget),
        TaskKind::Dream => Method::Task(task::TaskKind::Dream),
        TaskKind::Review => Method::Review,
    }
}

/// Removes from a result what was not edited, because a child may claim more than it did.
fn retain_edited(result: &mut TaskResult, paths: &[MemoryPath]) {
    let mounts =
        |mount: &memory::path::Mount| paths.iter().any(|path| path.mount().as_ref() == Some(mount));
    result.scopes.retain(mounts);
    match &mut result.details {
        TaskDetails::Remember { files_touched } | TaskDetails::Review { files_touched, .. } => {
            files_touched.retain(|path| paths.contains(path));
        }
        TaskDetails::Forget { removed, .. } => removed.retain(|entry| paths.contains(&entry.path)),
        TaskDetails::Dream { .. } => {}
    }
}

#[async_trait]
impl Runner for ChildRunner {
    fn name(&self) -> &'static str {
        "child"
    }

    async fn available(&self, workspace: &Workspace) -> Result<bool, TaskError> {
        if !workspace.memory_enabled || workspace.binding.read_only {
            return Ok(false);
        }
        self.query_availability(workspace).await.map_err(|error| {
            let failed = TaskError::new(TaskErrorCode::failed(TaskKind::Remember));
            failed.with_details(&error.to_string())
        })
    }

    fn decisions_max(&self) -> u32 {
        if self.0.settings.is_costly { MODEL_DECISIONS_MAX } else { TASK_DECISIONS_MAX }
    }

    async fn run(
        &self,
        job: &Job,
        memories: &Memories,
        draft: &mut Draft,
        stop: &CancellationToken,
    ) -> Result<TaskResult, RunError> {
        let kind = job.request.kind();
        let wait = match kind {
            // Longer than the child's own time limit, so that its error arrives.
            TaskKind::Review => self.0.settings.review_wait + CHILD_END_WAIT,
            TaskKind::Remember | TaskKind::Forget | TaskKind::Dream => self.0.settings.deadline,
        };
        let until = Instant::now() + wait;
        let mut last_error = String::new();
        for _ in 0..TASK_ATTEMPTS_MAX {
            match self.attempt(job, memories, (stop, until)).await {
                Ok(answer) => return self.apply_answer(job, (memories, draft), answer).await,
                Err(AttemptError::Fatal(error)) => return Err(error),
                Err(AttemptError::Broken(error)) => last_error = error.to_string(),
            }
        }
        Err(TaskError::new(TaskErrorCode::failed(kind)).with_details(&last_error).into())
    }
}
