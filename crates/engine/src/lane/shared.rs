//! What the lanes of a process share: their parts and settings, the lane of each workspace, what was seen and published.
//!
//! Data and the questions about it alone. The work is done in `worker`, `decide` and `maintenance`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use agents::RunReport;
use memory::access::AgentClass;
use memory::cache::Cache;
use memory::change::{ChangeKind, Provenance, Trust};
use memory::clock::{Clock, Timestamp};
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::limits::{
    BACKGROUND_TOKENS_PER_DAY, DREAM_AFTER_SESSIONS_DEFAULT, DREAM_EVERY_DEFAULT,
    LANE_POLL_INTERVAL, LANE_RETRY_DELAY, LANE_TRIM_DELAY, TASK_PROBE_WAIT, TASK_STOP_WAIT,
    TASK_WAIT, TASKS_KEPT_FOR_DEFAULT, TASKS_KEPT_MAX, TASKS_MINOR_MAX, TASKS_UNFINISHED_MAX,
};
use memory::screen::Screen;
use parking_lot::Mutex;
use state::{FileLock, FileLockError, QueueLimits, StateError, TaskStore};
use store::{BaseFolders, Binding, CallContext, Caller, Draft, Memories, OutsideReadFlag, Store};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::feed::Feed;
use crate::runner::Runner;
use crate::task::{CuratorRequest, Requester, Status, Task, TaskId, TaskKind};
use crate::workspace::{FeatureSwitches, Workspace};

/// What lanes work with.
#[derive(Clone, Debug)]
pub struct LaneDeps {
    /// Where memories live.
    pub store: Arc<Store>,
    /// Where this host keeps things.
    pub folders: BaseFolders,
    /// Where tasks are kept.
    pub tasks: Arc<dyn TaskStore>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Objects to secrets, which are not kept, not even in a queue.
    pub screen: Screen,
    /// Carries tasks out.
    pub runner: Arc<dyn Runner>,
    /// Hears of what they did.
    pub feed: Arc<dyn Feed>,
    /// Which features are on.
    pub switches: FeatureSwitches,
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
    pub maintenance_interval: Duration,
    /// How long after the last task the runner lets go of what it keeps for the next one.
    pub cache_trim_delay: Duration,
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
                total_max: TASKS_KEPT_MAX,
                finished_max_age: TASKS_KEPT_FOR_DEFAULT,
            },
            concurrent_max: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            task_wait: TASK_WAIT,
            probe_wait: TASK_PROBE_WAIT,
            stop_wait: TASK_STOP_WAIT,
            retry_delay: LANE_RETRY_DELAY,
            maintenance_interval: LANE_POLL_INTERVAL,
            cache_trim_delay: LANE_TRIM_DELAY,
            reviews: true,
            review_verbose: false,
            dream: None,
            background_tokens_max: BACKGROUND_TOKENS_PER_DAY,
        }
    }
}

/// When to dream although nobody asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DreamSchedule {
    /// How long after the last dream was asked for, by whomever.
    pub every: Duration,
    /// After how many sessions since then.
    pub after_sessions: u32,
}

impl Default for DreamSchedule {
    fn default() -> Self {
        Self { every: DREAM_EVERY_DEFAULT, after_sessions: DREAM_AFTER_SESSIONS_DEFAULT }
    }
}

/// How often models did something in this process, and what that took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSpending {
    /// Pieces of work.
    pub works: u64,
    /// Tokens read, those from a cache among them.
    pub tokens_in: u64,
    /// Tokens that the provider had in a cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Calls that were refused.
    pub refused: u64,
}

impl ModelSpending {
    /// Counts a piece of work.
    pub(crate) fn add(&mut self, report: &RunReport) {
        self.works += 1;
        self.tokens_in += report.usage.tokens_in;
        self.tokens_cached += report.usage.tokens_cached;
        self.tokens_out += report.usage.tokens_out;
        self.refused += u64::from(report.refused_calls);
    }
}

/// What is counted as one: the kind of task, the model and how it ended.
pub(super) type SpendingByModel = BTreeMap<(TaskKind, String, &'static str), ModelSpending>;

/// All lanes of this process. Cheap to clone; all clones are the same lanes.
///
/// Uses tokio: lanes work on the runtime that their methods are awaited in.
#[derive(Clone, Debug)]
pub struct Lanes(pub(super) Arc<LanesInner>);

#[derive(Debug)]
pub(super) struct LanesInner {
    pub(super) deps: LaneDeps,
    pub(super) settings: LaneSettings,
    pub(super) lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    /// One for each task that may run at the same time.
    pub(super) slots: Semaphore,
    pub(super) workers: TaskTracker,
    /// Has the runner rest, some time after the last worker ended.
    pub(super) cache_trim: Mutex<Option<AbortOnDropHandle<()>>>,
    pub(super) published: Mutex<PublishedTasks>,
    pub(super) spending: Mutex<SpendingByModel>,
    /// No task is taken or begun any more.
    pub(super) draining: CancellationToken,
    /// Tasks that run are stopped, to go on in another life.
    pub(super) halted: CancellationToken,
}

/// The lane of one workspace, as this process knows it.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: String,
    /// Held by the process that does the tasks of the lane.
    pub(super) lock: FileLock,
    pub(super) state: Mutex<LaneState>,
    /// Counts whatever happens in the lane, so that those who wait look again.
    pub(super) progress: watch::Sender<u64>,
    /// The workspace is gone.
    pub(super) removed: CancellationToken,
}

/// What a lane is doing.
#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) workspace: Workspace,
    /// Works as long as there is something to do.
    pub(super) worker: Option<JoinHandle<()>>,
    /// Whether somebody asked for work since the worker last looked.
    pub(super) has_new_work: bool,
    /// What is being done here, and what stops it.
    pub(super) running: Option<(TaskId, CancellationToken)>,
    /// Tasks that were taken here and whose end was not seen here yet.
    pub(super) own_tasks: BTreeSet<TaskId>,
    /// Attempts that were broken off here because the state failed, of tasks that have not ended.
    pub(super) failed_attempts: BTreeMap<String, BTreeSet<u32>>,
    /// Why the lane waits to try again, if it does.
    pub(super) retry_cause: Option<MemoryErrorCode>,
}

/// Why a lane cannot go on for now. Whatever it had begun is looked at when it can.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaneError {
    /// The lock file cannot be used.
    #[error(transparent)]
    Lock(#[from] FileLockError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// Somebody removed the lock file, so another process may have begun too, or has.
    #[error("the lock file of the lane was removed")]
    LockLost,
}

impl LaneError {
    pub(super) fn code(&self) -> MemoryErrorCode {
        match self {
            Self::State(error) => error.code(),
            Self::Lock(_) | Self::LockLost => MemoryErrorCode::StorageFailed,
        }
    }
}

/// The tasks whose end was published here.
#[derive(Debug, Default)]
pub(super) struct PublishedTasks(Cache<TaskId, (), TASKS_KEPT_MAX>);

impl PublishedTasks {
    /// Notes a task; `false` if it is noted already.
    pub(super) fn insert_new(&mut self, id: &TaskId) -> bool {
        let is_new = self.0.get(id).is_none();
        self.0.insert(id.clone(), ());
        is_new
    }
}

impl LanesInner {
    /// Returns the lane of a workspace; the same one for everybody in this process.
    pub(super) fn lane(&self, workspace: &Workspace) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(workspace.id.clone()).or_insert_with(|| {
            Arc::new(Lane {
                id: workspace.id.clone(),
                lock: self.deps.folders.lock(&format!("lane-{}", workspace.id)),
                state: Mutex::new(LaneState {
                    workspace: workspace.clone(),
                    worker: None,
                    has_new_work: false,
                    running: None,
                    own_tasks: BTreeSet::new(),
                    failed_attempts: BTreeMap::new(),
                    retry_cause: None,
                }),
                progress: watch::Sender::new(0),
                removed: CancellationToken::new(),
            })
        });
        lane.state.lock().workspace.clone_from(workspace);
        Arc::clone(lane)
    }

    /// Tells whether a feature is on in a workspace.
    pub(super) fn has_feature(&self, workspace: &Workspace, feature: Feature) -> bool {
        self.deps.switches.for_workspace(workspace).has(feature)
    }

    /// Tells whether reviews of a workspace are done, and may write there.
    pub(super) fn allows_reviews(&self, workspace: &Workspace) -> bool {
        self.settings.reviews
            && self.has_feature(workspace, Feature::Review)
            && !workspace.binding.read_only
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lanes.lock().values().all(|lane| lane.state.lock().worker.is_none())
    }

    /// Returns the memories of a workspace as a task may touch them.
    pub(super) fn memories(
        &self,
        workspace: &Workspace,
        request: &CuratorRequest,
        asker: &Requester,
    ) -> Memories {
        let provenance = provenance(request, asker);
        let mut caller = Caller::new(AgentClass::Exec, provenance);
        if asker.trust == Trust::Outside {
            caller.outside_read = OutsideReadFlag::already_set();
        }
        self.deps.store.memories(Binding::resolve(&workspace.binding, &self.deps.folders), caller)
    }
}

/// Returns what a change by a task says about itself.
pub(super) fn provenance(request: &CuratorRequest, asker: &Requester) -> Provenance {
    let trust = match request.kind() {
        TaskKind::Remember | TaskKind::Forget => asker.trust,
        // Somebody asked for tidying up, but nobody said what is written then.
        TaskKind::Dream | TaskKind::Review => Trust::Background.min(asker.trust),
    };
    let mut provenance = Provenance::new(request.kind().actor(), trust, &asker.origin);
    if let CuratorRequest::Review(asked) = request {
        provenance.session = Some(asked.session.clone());
    }
    provenance.client = asker.client.as_ref().map(ToString::to_string);
    provenance
}

/// Opens the draft that an attempt at a task works on.
pub(super) fn open_draft(memories: &Memories, task: &TaskId, attempt: Option<u32>) -> Draft {
    let call = CallContext { task: Some(task.to_string()), attempt, ..CallContext::default() };
    memories.draft(ChangeKind::Draft, call)
}

impl Lane {
    pub(super) fn workspace(&self) -> Workspace {
        self.state.lock().workspace.clone()
    }

    /// Tells whether a task that the state has as running only waits to be tried again: the state failed
    /// while it was done here, and could not even take its status back.
    pub(super) fn is_waiting_to_retry(&self, task: &Task) -> bool {
        let now = self.state.lock();
        task.status() == Status::Running
            && now.retry_cause.is_some()
            && now.failed_attempts.contains_key(task.id.as_str())
            && now.running.as_ref().is_none_or(|(id, _)| *id != task.id)
    }

    /// Lets those who wait look again.
    pub(super) fn notify_waiters(&self) {
        self.progress.send_modify(|count| *count += 1);
    }
}

impl LanesInner {
    /// Returns when a task that is still known has ended at the earliest.
    pub(super) fn retention_cutoff(&self) -> Timestamp {
        time_before(self.deps.clock.now(), self.settings.limits.finished_max_age)
    }
}

/// Returns the time so long before another one.
pub(super) fn time_before(now: Timestamp, age: Duration) -> Timestamp {
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// By which way a dream came in that nobody asked for.
pub(super) const SCHEDULE_ORIGIN: &str = "schedule";

/// Tells whether nobody asked for a task.
pub(super) fn is_scheduled(asker: &Requester) -> bool {
    asker.origin == SCHEDULE_ORIGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_age_reaches_before_the_beginning_of_time() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(time_before(now, Duration::from_mins(1)).as_second(), -60);
        assert_eq!(time_before(now, Duration::MAX), Timestamp::MIN);
    }
}
