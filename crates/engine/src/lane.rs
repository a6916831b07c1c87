//! Lanes: the tasks of a workspace, strictly one at a time, in the order in which they came.
//!
//! A task is durable before it is acknowledged. One lock file per workspace in the state folder keeps
//! lanes of several processes apart; whoever holds it does whatever is queued, whoever queued it. What
//! somebody who died left running is completed from its record of change, or done once more if nothing
//! of it was committed. A runner edits a draft; only the lane commits. An idle lane costs nothing: it has
//! no open file, and but one timer, which has the runner let go of what it keeps and does not come again.

mod apart;
mod asked;
mod elsewhere;
mod recovery;
mod schedule;
mod seen;
mod spent;
mod staged;
mod upkeep;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use memory::access::AgentClass;
use memory::change::{ChangeKind, Provenance, Trust};
use memory::clock::Clock;
use memory::code::Code;
use memory::feature::Feature;
use memory::limits::{
    BACKGROUND_TOKENS_PER_DAY, LANE_LOOK_INTERVAL, LANE_REST_DELAY, LANE_RETRY_DELAY,
    TASK_PROBE_WAIT, TASK_STOP_WAIT, TASK_WAIT, TASKS_KEPT_FOR_DEFAULT, TASKS_KEPT_MAX,
    TASKS_MINOR_MAX, TASKS_UNFINISHED_MAX,
};
use memory::screen::Screen;
use state::{QueueLimits, StateError, TaskCount, Tasks};
use store::{Binding, Call, Caller, Draft, Folders, Memories, OutsideRead, Store, TurnFile};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::feed::Feed;
use crate::runner::Runner;
use crate::switches::Switches;
use crate::task::{
    Asker, ClientId, Request, Status, Task, TaskError, TaskErrorCode, TaskId, TaskKind, TaskResult,
};
use crate::workspace::Workspace;

use elsewhere::Told;
use seen::Seen;

pub use asked::Rehearsal;
pub use schedule::{DreamSchedule, NextDream};
pub use spent::Spent;
use spent::SpentBy;

/// What lanes work with.
#[derive(Clone, Debug)]
pub struct LaneParts {
    /// Where memories live.
    pub store: Arc<Store>,
    /// Where this host keeps things.
    pub folders: Folders,
    /// Where tasks are kept.
    pub tasks: Arc<dyn Tasks>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Objects to secrets, which are not kept, not even in a queue.
    pub screen: Screen,
    /// Carries tasks out.
    pub runner: Arc<dyn Runner>,
    /// Hears of what they did.
    pub feed: Arc<dyn Feed>,
    /// Which features are on.
    pub switches: Switches,
}

/// What a person may set about lanes, with its defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// How much a lane holds.
    pub limits: QueueLimits,
    /// How many tasks run at the same time, of different workspaces; at least one.
    pub concurrent_max: usize,
    /// When a task is given up, whatever its runner says.
    pub task_wait: Duration,
    /// How long a runner may take to say whether tasks can be done.
    pub probe_wait: Duration,
    /// How long a runner that is told to stop may take to end by itself.
    pub stop_wait: Duration,
    /// How long a lane that cannot use its lock file or the state waits, at first, to try again.
    pub retry_delay: Duration,
    /// How often whoever keeps lanes up looks for what others left who died.
    pub look_interval: Duration,
    /// How long after the last task the runner lets go of what it keeps for the next one.
    pub rest_delay: Duration,
    /// Whether reviews are done; else those that were queued before are cancelled, so that nothing is kept for them.
    pub reviews: bool,
    /// Whether people are told of what a review saved.
    pub review_verbose: bool,
    /// When whoever keeps lanes up dreams although nobody asked; `None` for never.
    pub dream: Option<DreamSchedule>,
    /// Tokens that models may take in a day for work that nobody asked for.
    pub background_tokens_max: u64,
}

impl Default for LaneSettings {
    fn default() -> Self {
        Self {
            limits: QueueLimits {
                unfinished_max: TASKS_UNFINISHED_MAX,
                minor_max: TASKS_MINOR_MAX,
                kept_max: TASKS_KEPT_MAX,
                kept_for: TASKS_KEPT_FOR_DEFAULT,
            },
            concurrent_max: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            task_wait: TASK_WAIT,
            probe_wait: TASK_PROBE_WAIT,
            stop_wait: TASK_STOP_WAIT,
            retry_delay: LANE_RETRY_DELAY,
            look_interval: LANE_LOOK_INTERVAL,
            rest_delay: LANE_REST_DELAY,
            reviews: true,
            review_verbose: false,
            dream: None,
            background_tokens_max: BACKGROUND_TOKENS_PER_DAY,
        }
    }
}

/// Why a task was not taken.
#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    /// Nobody said that this workspace is to be trusted.
    #[error("the workspace is not trusted")]
    Untrusted,
    /// A person switched tasks off.
    #[error("the feature `{}` is switched off", Feature::Tasks)]
    Off,
    /// Memory is off for this workspace.
    #[error("managed memory is off for this workspace")]
    Unavailable,
    /// As many tasks wait or run as the lane holds; try again later.
    #[error("the lane holds as many unfinished tasks as it may")]
    Full,
    /// The workspace, or the whole process, is being shut down.
    #[error("the workspace is shutting down")]
    Draining,
    /// Nobody can say whether tasks can be done here.
    #[error("whether tasks can be done here could not be found out")]
    ProbeFailed,
    /// The state cannot keep the task.
    #[error("the task cannot be kept")]
    State(#[from] StateError),
}

impl SubmitError {
    /// Returns the stable public code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted_workspace",
            Self::Off => Code::FeatureDisabled.as_str(),
            Self::Unavailable => TaskErrorCode::ManagedMemoryUnavailable.as_str(),
            Self::Full => "remember_queue_full",
            Self::Draining => "workspace_draining",
            Self::ProbeFailed => TaskErrorCode::RememberFailed.as_str(),
            Self::State(error) => error.code().as_str(),
        }
    }
}

/// Who looks at tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Viewer<'a> {
    /// The person whose machine this is: sees all.
    Person,
    /// A program: sees what the client of this name asked for, or what somebody without one did.
    Client(Option<&'a ClientId>),
}

impl Viewer<'_> {
    fn sees(self, client: Option<&str>) -> bool {
        match self {
            Self::Person => true,
            Self::Client(viewer) => viewer.map(ClientId::as_str) == client,
        }
    }
}

/// Which tasks to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskFilter {
    /// Only those of this kind.
    pub kind: Option<TaskKind>,
    /// Only those that are so far.
    pub status: Option<Status>,
    /// At most so many, the latest.
    pub max: Option<usize>,
}

/// What became of the wish to take a task back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It is, or was, over: this is what came of it. A task that was taken back has failed.
    Over(Task),
    /// It is being stopped, or its changes are being written already; it ends soon, one way or the other.
    Stopping(Task),
}

/// All lanes of this process. Cheap to clone; all clones are the same lanes.
///
/// Uses tokio: lanes work on the runtime that their methods are awaited in.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parts: LaneParts,
    settings: LaneSettings,
    lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    /// One for each task that may run at the same time.
    slots: Semaphore,
    workers: TaskTracker,
    /// Has the runner rest, some time after the last worker ended.
    resting: Mutex<Option<AbortOnDropHandle<()>>>,
    told: Mutex<Told>,
    seen: Mutex<Seen>,
    spent: Mutex<SpentBy>,
    /// No task is taken or begun any more.
    draining: CancellationToken,
    /// Tasks that run are stopped, to go on in another life.
    halted: CancellationToken,
}

/// The lane of one workspace, as this process knows it.
#[derive(Debug)]
struct Lane {
    id: String,
    turn: TurnFile,
    now: Mutex<Now>,
    /// Counts whatever happens in the lane, so that those who wait look again.
    moved: watch::Sender<u64>,
    /// The workspace is gone.
    removed: CancellationToken,
}

/// What a lane is doing.
#[derive(Debug)]
struct Now {
    workspace: Workspace,
    /// Works as long as there is something to do.
    worker: Option<JoinHandle<()>>,
    /// Whether somebody asked for work since the worker last looked.
    asked: bool,
    /// What is being done here, and what stops it.
    current: Option<(TaskId, CancellationToken)>,
    /// Tasks that were taken here and whose end was not seen here yet.
    ours: BTreeSet<TaskId>,
    /// Attempts that were broken off here because the state failed, of tasks that have not ended.
    broken: BTreeMap<String, BTreeSet<u32>>,
    /// Why the lane waits to try again, if it does.
    waits_for: Option<Code>,
}

/// How long between two looks at whether lanes work.
const IDLE_LOOK_INTERVAL: Duration = Duration::from_millis(2);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lanes {
    /// Returns lanes without work; [`resume`](Self::resume) goes on with what was left.
    pub fn new(parts: LaneParts, settings: LaneSettings) -> Self {
        Self(Arc::new(Shared {
            parts,
            settings,
            lanes: Mutex::default(),
            slots: Semaphore::new(settings.concurrent_max.max(1)),
            workers: TaskTracker::new(),
            resting: Mutex::default(),
            told: Mutex::default(),
            seen: Mutex::default(),
            spent: Mutex::default(),
            draining: CancellationToken::new(),
            halted: CancellationToken::new(),
        }))
    }

    /// Waits until no lane of this process works, but no longer than this.
    pub async fn idle(&self, wait: Duration) {
        let until_idle = async {
            while !self.0.is_idle() {
                tokio::time::sleep(IDLE_LOOK_INTERVAL).await;
            }
        };
        // Whoever is not done then goes on, or is stopped by a drain.
        drop(tokio::time::timeout(wait, until_idle).await);
    }

    /// Counts the tasks of all workspaces that can be asked for, by workspace and status.
    pub async fn counts(&self) -> Result<Vec<TaskCount>, StateError> {
        self.0.parts.tasks.count_tasks(self.0.ended_since()).await
    }

    /// Registers a workspace, of which nothing was asked yet: its lane is maintained, and its conversations may be
    /// reviewed.
    pub fn register(&self, workspace: &Workspace) {
        self.0.lane(workspace);
    }

    /// Tells whether conversations of a workspace that is [registered](Self::register) may be reviewed.
    pub(crate) fn may_review(&self, workspace: &str) -> bool {
        let lane = lock(&self.0.lanes).get(workspace).cloned();
        lane.is_some_and(|lane| {
            let workspace = lane.workspace();
            self.0.does_reviews(&workspace)
                && self.0.has(&workspace, Feature::Tasks)
                && workspace.trusted
                && workspace.memory_enabled
        })
    }

    /// Tells whether a feature is on in a workspace that is known.
    pub(crate) fn has(&self, workspace: &str, feature: Feature) -> bool {
        let lane = lock(&self.0.lanes).get(workspace).cloned();
        lane.is_some_and(|lane| self.0.has(&lane.workspace(), feature))
    }

    /// Tells whether models took as much lately for work that nobody asked for as a person allows.
    pub(crate) async fn is_over_budget(&self) -> Result<bool, StateError> {
        Ok(self.0.over_budget().await?.is_some())
    }

    /// Sees to it that somebody looks for work of a workspace that is known.
    pub(crate) fn wake_known(&self, workspace: &str) {
        let lane = lock(&self.0.lanes).get(workspace).cloned();
        if let Some(lane) = lane {
            self.0.wake(&lane);
        }
    }

    /// Returns why the lane of a workspace does nothing for now, if the state or its lock file failed it.
    pub fn waits_for(&self, workspace: &Workspace) -> Option<Code> {
        lock(&self.0.lanes).get(&workspace.id).and_then(|lane| lock(&lane.now).waits_for)
    }

    /// Goes on with what earlier lives of this process, or others that died, left in these workspaces.
    pub async fn resume(&self, workspaces: &[Workspace]) -> Result<(), StateError> {
        let with_work = self.0.parts.tasks.workspaces_with_work().await?;
        for workspace in workspaces.iter().filter(|one| with_work.contains(&one.id)) {
            self.0.wake_for(workspace);
        }
        Ok(())
    }

    /// Takes no more tasks of a workspace that is removed: those that wait fail, the one that runs is
    /// stopped.
    pub async fn remove(&self, workspace: &Workspace) -> Result<(), StateError> {
        let lane = self.0.lane(workspace);
        lane.removed.cancel();
        self.0.give_up_all(&lane).await
    }

    /// Takes no more tasks and starts none; lets those that run end for so long, then stops them. What
    /// is not done stays queued in the state.
    pub async fn drain(&self, wait: Duration) {
        self.0.draining.cancel();
        lock(&self.0.resting).take();
        self.0.workers.close();
        if tokio::time::timeout(wait, self.0.workers.wait()).await.is_err() {
            self.0.halted.cancel();
            self.0.workers.wait().await;
        }
    }
}

impl Shared {
    /// Returns the lane of a workspace; the same one for everybody in this process.
    fn lane(&self, workspace: &Workspace) -> Arc<Lane> {
        let mut lanes = lock(&self.lanes);
        let lane = lanes.entry(workspace.id.clone()).or_insert_with(|| {
            Arc::new(Lane {
                id: workspace.id.clone(),
                turn: TurnFile::new(&self.parts.folders, &format!("lane-{}", workspace.id)),
                now: Mutex::new(Now {
                    workspace: workspace.clone(),
                    worker: None,
                    asked: false,
                    current: None,
                    ours: BTreeSet::new(),
                    broken: BTreeMap::new(),
                    waits_for: None,
                }),
                moved: watch::Sender::new(0),
                removed: CancellationToken::new(),
            })
        });
        lock(&lane.now).workspace.clone_from(workspace);
        Arc::clone(lane)
    }

    /// Tells whether a feature is on in a workspace.
    fn has(&self, workspace: &Workspace, feature: Feature) -> bool {
        self.parts.switches.of(workspace).has(feature)
    }

    /// Tells whether reviews of a workspace are done, and may write there.
    fn does_reviews(&self, workspace: &Workspace) -> bool {
        self.settings.reviews
            && self.has(workspace, Feature::Review)
            && !workspace.binding.read_only
    }

    /// Sees to it that somebody looks for work of a workspace, if its tasks may be done.
    fn wake_for(self: &Arc<Self>, workspace: &Workspace) {
        if workspace.trusted && workspace.memory_enabled && self.has(workspace, Feature::Tasks) {
            self.wake(&self.lane(workspace));
        }
    }

    /// Sees to it that somebody looks for work in a lane.
    fn wake(self: &Arc<Self>, lane: &Arc<Lane>) {
        let mut now = lock(&lane.now);
        now.asked = true;
        let is_idle = now.worker.as_ref().is_none_or(JoinHandle::is_finished);
        if is_idle && !self.draining.is_cancelled() {
            let work = work::work(Arc::clone(self), Arc::clone(lane)).boxed();
            now.worker = Some(self.workers.spawn(work));
        }
    }

    /// Has the runner rest in a while, unless a worker begins meanwhile: that one will do so when it ends.
    fn rest_soon(self: &Arc<Self>) {
        let (shared, delay) = (Arc::downgrade(self), self.settings.rest_delay);
        let resting = tokio::spawn(
            async move {
                tokio::time::sleep(delay).await;
                if let Some(shared) = shared.upgrade()
                    && shared.is_idle()
                {
                    shared.parts.runner.rest();
                }
            }
            .boxed(),
        );
        *lock(&self.resting) = Some(AbortOnDropHandle::new(resting));
    }

    fn is_idle(&self) -> bool {
        lock(&self.lanes).values().all(|lane| lock(&lane.now).worker.is_none())
    }

    /// Returns the memories of a workspace as a task may touch them.
    fn memories(&self, workspace: &Workspace, (request, asker): (&Request, &Asker)) -> Memories {
        let provenance = provenance(request, asker);
        let mut caller = Caller::new(AgentClass::Exec, provenance);
        if asker.trust == Trust::Outside {
            caller.outside_read = OutsideRead::some();
        }
        self.parts.store.memories(Binding::resolve(&workspace.binding, &self.parts.folders), caller)
    }
}

/// Returns what a change by a task says about itself.
fn provenance(request: &Request, asker: &Asker) -> Provenance {
    let trust = match request.kind() {
        TaskKind::Remember | TaskKind::Forget => asker.trust,
        // Somebody asked for tidying up, but nobody said what is written then.
        TaskKind::Dream | TaskKind::Review => Trust::Background.min(asker.trust),
    };
    let mut provenance = Provenance::of(request.kind().actor(), trust, &asker.origin);
    if let Request::Review(asked) = request {
        provenance.session = Some(asked.session.clone());
    }
    provenance.client = asker.client.as_ref().map(ToString::to_string);
    provenance
}

/// Opens the draft that an attempt at a task works on.
fn draft(memories: &Memories, task: &TaskId, attempt: Option<u32>) -> Draft {
    let call = Call { task: Some(task.to_string()), attempt, ..Call::default() };
    memories.draft(ChangeKind::Draft, call)
}

impl Lane {
    fn workspace(&self) -> Workspace {
        lock(&self.now).workspace.clone()
    }

    /// Tells whether a task that the state has as running only waits to be tried again: the state failed
    /// while it was done here, and could not even take its status back.
    fn waits_to_retry(&self, task: &Task) -> bool {
        let now = lock(&self.now);
        task.status() == Status::Running
            && now.waits_for.is_some()
            && now.broken.contains_key(task.id.as_str())
            && now.current.as_ref().is_none_or(|(id, _)| *id != task.id)
    }

    /// Lets those who wait look again.
    fn move_on(&self) {
        self.moved.send_modify(|count| *count += 1);
    }
}

/// What came of a task, as its row has it.
const fn status_of(outcome: &Result<TaskResult, TaskError>) -> Status {
    match outcome {
        Ok(_) => Status::Completed,
        Err(_) => Status::Failed,
    }
}
