//! The runner whose tasks are decided in a child process.
//!
//! A child is started when the first task needs one, does one task at a time, and is stopped some time after its last.
//! It commits nothing: what it decides comes back as data and is entered into the draft of the lane, where access,
//! screening, caps and pins are looked at as for anybody. One that dies, says what is no message or says nothing is
//! killed with all that it started; the task is tried once more with a fresh one, and fails after that.

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

/// How children are started, and how long they may take.
#[derive(Clone, Debug)]
pub struct ChildSettings {
    /// The program: this one.
    pub program: PathBuf,
    /// What it is called with, so that it answers as an agent.
    pub arguments: Vec<String>,
    /// All of its environment: nothing else of ours is handed on.
    pub environment: Vec<(OsString, OsString)>,
    /// The version of this program, which the child must have.
    pub version: &'static str,
    /// Whether models decide, so that deciding anew costs more than time.
    pub is_costly: bool,
    /// How long a child may take from its start to its first answer.
    pub start_wait: Duration,
    /// When a task is given up.
    pub deadline: Duration,
    /// How long a review may take.
    pub review_wait: Duration,
    /// How long after its last task a child is stopped; at once if it is zero.
    pub idle_wait: Duration,
    /// How long nobody tries to start one again after that failed; then twice as long.
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

/// Has tasks decided in child processes. Cheap to clone; all clones share the children.
///
/// Uses tokio: children belong to the runtime that its methods are awaited in.
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
    /// Held by whoever asks whether tasks can be done, so that many who ask need one child.
    availability_lock: tokio::sync::Mutex<()>,
    /// Children that are being stopped.
    stop_tasks: TaskTracker,
    /// Stops those that nobody used for a while.
    idle_timer: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// The children that have nothing to do.
#[derive(Default)]
struct IdleChildren {
    /// With the time since when; the latest is the last.
    peers: Vec<(Peer, Instant)>,
    /// How often in a row none could be started.
    failures: u32,
    /// None is started before.
    retry_at: Option<Instant>,
}

/// Why an attempt with one child came to nothing.
enum AttemptError {
    /// The child is of no use, and another one may be.
    Broken(PeerError),
    /// Nothing more is to be tried.
    Fatal(RunError),
}

impl ChildRunner {
    /// Returns a runner without children.
    pub fn new(settings: ChildSettings) -> Self {
        Self(Arc::new(ChildPool {
            settings,
            idle: Mutex::default(),
            availability_lock: tokio::sync::Mutex::default(),
            stop_tasks: TaskTracker::new(),
            idle_timer: Mutex::default(),
        }))
    }

    /// Stops the children that have nothing to do, and waits for their ends.
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

    /// Makes one attempt with one child.
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
        let answered = {
            let hear = |said: Value| {
                if let Ok(said) = serde_json::from_value(said) {
                    note(&staged::report_from_wire(&said));
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(fatal_error(TaskErrorCode::Cancelled)),
                () = tokio::time::sleep_until(until) => Err(fatal_error(TaskErrorCode::Timeout)),
                answered = peer.call(method, parameters, hear) => answered.map_err(AttemptError::Broken),
            }
        };
        match answered {
            Ok(CallAnswer::Result(fields)) => {
                let read = staged::read_answer(fields, (kind, memories.layout()));
                let Some(answered) = read else {
                    return Err(discard(peer, PeerError::InvalidMessage).await);
                };
                note(&answered.report);
                children.release(peer);
                Ok(answered)
            }
            Ok(CallAnswer::Refused(refusal)) => {
                children.release(peer);
                if let Ok(report) = serde_json::from_value(refusal.data["report"].clone()) {
                    note(&staged::report_from_wire(&report));
                }
                Err(AttemptError::Fatal(run_error(kind, &refusal)))
            }
            Err(AttemptError::Broken(why)) => Err(discard(peer, why).await),
            Err(ended) => {
                peer.kill().await;
                Err(ended)
            }
        }
    }

    /// Enters what a child decided, and returns what it reports of that.
    async fn apply_answer(
        &self,
        job: &Job,
        (memories, draft): (&Memories, &mut Draft),
        answered: StageAnswer,
    ) -> Result<TaskResult, RunError> {
        let StageAnswer {
            edits,
            mut result,
            decided_by,
            decision_reason: because,
            report: _,
            has_invalid_path: escapes,
        } = answered;
        if escapes {
            return Err(path_escape_error(job.request.kind()));
        }
        let paths = apply_staged_edits((memories, &mut *draft), &job.request, &edits).await?;
        if let Some(because) = because {
            draft.set_note(because);
        }
        if let Some(model) = decided_by {
            draft.set_model(&model);
        }
        retain_edited(&mut result, &paths);
        Ok(result)
    }

    /// Asks a child whether tasks can be done.
    async fn query_availability(&self, workspace: &Workspace) -> Result<bool, PeerError> {
        let _alone = self.0.availability_lock.lock().await;
        let mut why = PeerError::Ended;
        for _ in 0..TASK_ATTEMPTS_MAX {
            let mut peer = self.0.acquire().await?;
            let method = Method::Availability.as_str();
            let asked = peer.call(method, staged::workspace_parameters(workspace), |_| ());
            let asked = tokio::time::timeout(self.0.settings.start_wait, asked).await;
            match asked.unwrap_or(Err(PeerError::TimedOut)) {
                Ok(CallAnswer::Result(answer)) => {
                    self.0.release(peer);
                    return Ok(answer["available"] == true);
                }
                Ok(CallAnswer::Refused(_)) => {
                    self.0.release(peer);
                    return Err(PeerError::AvailabilityUnknown);
                }
                Err(broken) => {
                    peer.log_failure(&broken);
                    peer.kill().await;
                    why = broken;
                }
            }
        }
        Err(why)
    }
}

impl ChildPool {
    /// Returns a child that has nothing to do, or a new one.
    async fn acquire(&self) -> Result<Peer, PeerError> {
        loop {
            let resting = self.idle.lock().peers.pop();
            let Some((mut peer, _)) = resting else { break };
            if peer.is_alive() {
                return Ok(peer);
            }
        }
        if let Some(left) = self.start_delay() {
            let left = left.as_secs() + 1;
            let what = format!("it failed before, and is tried again in {left} s");
            return Err(PeerError::NotStarted(what));
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
        let mut resting = self.idle.lock();
        if started.is_ok() {
            (resting.failures, resting.retry_at) = (0, None);
        } else {
            let doublings = 2_u32.saturating_pow(resting.failures);
            let delay = settings.retry_delay.saturating_mul(doublings).min(CHILD_RETRY_DELAY_MAX);
            resting.failures = resting.failures.saturating_add(1);
            resting.retry_at = Some(Instant::now() + delay);
        }
        started
    }

    /// The same for a task, which waits until one may be started again.
    async fn acquire_when_allowed(&self) -> Result<Peer, PeerError> {
        if self.idle.lock().peers.is_empty()
            && let Some(left) = self.start_delay()
        {
            tokio::time::sleep(left).await;
        }
        self.acquire().await
    }

    /// Returns how long none may be started.
    fn start_delay(&self) -> Option<Duration> {
        let not_before = self.idle.lock().retry_at?;
        let left = not_before.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Keeps a child for the next task, for a while.
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

    /// Sees to it that whoever rests for too long is stopped.
    fn schedule_idle_stop(self: &Arc<Self>) {
        let (children, wait) = (Arc::downgrade(self), self.settings.idle_wait);
        let stopping = tokio::spawn(async move {
            loop {
                tokio::time::sleep(wait).await;
                let Some(children) = children.upgrade() else { return };
                let (gone, is_empty) = {
                    let mut resting = children.idle.lock();
                    let is_old = |(_, since): &(Peer, Instant)| since.elapsed() >= wait;
                    let count = resting.peers.iter().take_while(|one| is_old(one)).count();
                    let gone: Vec<_> = resting.peers.drain(..count).collect();
                    (gone, resting.peers.is_empty())
                };
                for (peer, _) in gone {
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

/// Kills a child that is of no use.
async fn discard(peer: Peer, why: PeerError) -> AttemptError {
    peer.log_failure(&why);
    peer.kill().await;
    AttemptError::Broken(why)
}

const fn fatal_error(code: TaskErrorCode) -> AttemptError {
    AttemptError::Fatal(RunError::Failed(TaskError::new(code)))
}

/// Returns why a task failed that a child refused.
fn run_error(kind: TaskKind, PeerRefusal { data, .. }: &PeerRefusal) -> RunError {
    let word = |name: &str| data[name].as_str();
    let told = word("errorKind").unwrap_or_default();
    if told == "conflict" {
        return RunError::Conflict;
    }
    let known: Option<TaskErrorCode> = told.parse().ok();
    // Nobody took it back, and there is no workspace in the child that could go.
    let is_ours = |code: &TaskErrorCode| {
        !matches!(code, TaskErrorCode::Cancelled | TaskErrorCode::WorkspaceRemoved)
    };
    let mut error = TaskError::new(known.filter(is_ours).unwrap_or(TaskErrorCode::failed(kind)));
    let cause = word("cause").and_then(|code| code.parse().ok());
    if let Some(cause) = cause {
        error = error.caused_by(cause);
    }
    let details = word("details").unwrap_or("the child process refused the task");
    error.with_details(details).into()
}

/// Returns the method that does work of this kind.
const fn method(kind: TaskKind) -> Method {
    match kind {
        TaskKind::Remember => Method::Task(task::TaskKind::Remember),
        TaskKind::Forget => Method::Task(task::TaskKind::Forget),
        TaskKind::Dream => Method::Task(task::TaskKind::Dream),
        TaskKind::Review => Method::Review,
    }
}

/// Takes out of a result what was not edited: a child may say that it did more than it did.
fn retain_edited(result: &mut TaskResult, paths: &[MemoryPath]) {
    let mounts =
        |mount: &memory::path::Mount| paths.iter().any(|path| path.mount().as_ref() == Some(mount));
    result.scopes.retain(mounts);
    match &mut result.details {
        TaskDetails::Remember { files_touched } | TaskDetails::Review { files_touched, .. } => {
            files_touched.retain(|path| paths.contains(path));
        }
        TaskDetails::Forget { removed, .. } => removed.retain(|one| paths.contains(&one.path)),
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
        self.query_availability(workspace).await.map_err(|broken| {
            let failed = TaskError::new(TaskErrorCode::failed(TaskKind::Remember));
            failed.with_details(&broken.to_string())
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
            // The child gives up by itself before that.
            TaskKind::Review => self.0.settings.review_wait + CHILD_END_WAIT,
            TaskKind::Remember | TaskKind::Forget | TaskKind::Dream => self.0.settings.deadline,
        };
        let until = Instant::now() + wait;
        let mut why = String::new();
        for _ in 0..TASK_ATTEMPTS_MAX {
            match self.attempt(job, memories, (stop, until)).await {
                Ok(answered) => return self.apply_answer(job, (memories, draft), answered).await,
                Err(AttemptError::Fatal(error)) => return Err(error),
                Err(AttemptError::Broken(broken)) => why = broken.to_string(),
            }
        }
        Err(TaskError::new(TaskErrorCode::failed(kind)).with_details(&why).into())
    }
}
