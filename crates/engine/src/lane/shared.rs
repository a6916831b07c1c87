//! Data shared by the lanes of a process: dependencies and settings, the lane of each workspace,
//! counters, and the set of published tasks.
//!
//! Only data and queries on it. The work is done in `worker`, `decide` and `maintenance`.

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
use state::{LANE_LOCK, LockError, Locks, QueueLimits, StateError, TaskStore};
use store::{BaseFolders, Binding, CallContext, Caller, Draft, Memories, OutsideReadFlag, Store};
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::feed::Feed;
use crate::runner::Runner;
use crate::task::{CuratorRequest, Requester, Status, Task, TaskId, TaskKind};
use crate::workspace::{FeatureSwitches, Workspace};

/// The services that lanes depend on.
#[derive(Clone, Debug)]
pub struct LaneDeps {
    /// The store of memories.
    pub store: Arc<Store>,
    /// The folders of this host's data.
    pub folders: BaseFolders,
    /// The storage of tasks.
    pub tasks: Arc<dyn TaskStore>,
    /// The locks of lanes.
    pub locks: Arc<dyn Locks>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Screening: secrets are not stored, not even in a queue.
    pub screen: Screen,
    /// The component that executes tasks.
    pub runner: Arc<dyn Runner>,
    /// The feed on which ends of tasks are published.
    pub feed: Arc<dyn Feed>,
    /// The switches that say which features are on.
    pub switches: FeatureSwitches,
    /// Permits for the tasks of all engines of this process that share them; `None` for no limit beside that of the lanes.
    pub process_slots: Option<Arc<Semaphore>>,
}

/// The settings of lanes, with their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneSettings {
    /// Limits of a lane's queue.
    pub limits: QueueLimits,
    /// Maximum number of tasks that run at the same time, in different workspaces; at least one.
    pub concurrent_max: usize,
    /// Time limit of a task, after which it fails.
    pub task_wait: Duration,
    /// Time limit for a runner's availability check.
    pub probe_wait: Duration,
    /// Time that a runner gets to end by itself after it was asked to stop.
    pub stop_wait: Duration,
    /// First delay before a lane retries after an error of its lock or the state.
    pub retry_delay: Duration,
    /// Interval between two rounds of maintenance.
    pub maintenance_interval: Duration,
    /// Idle time after which the runner's caches are trimmed.
    pub cache_trim_delay: Duration,
    /// Whether reviews run. If not, queued reviews are cancelled, so that no messages are stored
    /// for them.
    pub reviews: bool,
    /// Whether an event is published for memories that a review saved.
    pub review_verbose: bool,
    /// The schedule of dreams; `None` disables them.
    pub dream: Option<DreamSchedule>,
    /// Maximum number of tokens that models may use in a day for unrequested work.
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

/// The interval of scheduled dreams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DreamSchedule {
    /// Minimum time since the last dream was requested, by the schedule or a caller.
    pub every: Duration,
    /// Minimum number of sessions since then.
    pub after_sessions: u32,
}

impl Default for DreamSchedule {
    fn default() -> Self {
        Self { every: DREAM_EVERY_DEFAULT, after_sessions: DREAM_AFTER_SESSIONS_DEFAULT }
    }
}

/// Totals of the work of models in this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelSpending {
    /// Number of pieces of work.
    pub works: u64,
    /// Tokens read, including cached ones.
    pub tokens_in: u64,
    /// Tokens read from the provider's cache.
    pub tokens_cached: u64,
    /// Tokens written.
    pub tokens_out: u64,
    /// Number of tool calls that were refused.
    pub refused: u64,
}

impl ModelSpending {
    /// Adds a piece of work.
    pub(crate) fn add(&mut self, report: &RunReport) {
        self.works += 1;
        self.tokens_in += report.usage.tokens_in;
        self.tokens_cached += report.usage.tokens_cached;
        self.tokens_out += report.usage.tokens_out;
        self.refused += u64::from(report.refused_calls);
    }
}

/// Totals by kind of task, model and how the work ended.
pub(super) type SpendingByModel = BTreeMap<(TaskKind, String, &'static str), ModelSpending>;

/// All lanes of this process. Cheap to clone; clones share the lanes.
///
/// Requires tokio: lanes run on the runtime that their methods are awaited in.
#[derive(Clone, Debug)]
pub struct Lanes(pub(super) Arc<LanesInner>);

#[derive(Debug)]
pub(super) struct LanesInner {
    pub(super) deps: LaneDeps,
    pub(super) settings: LaneSettings,
    pub(super) lanes: Mutex<BTreeMap<String, Arc<Lane>>>,
    /// One permit for each task that may run at the same time.
    pub(super) slots: Semaphore,
    pub(super) workers: TaskTracker,
    /// The timer that trims the runner's caches after the last worker ended.
    pub(super) cache_trim: Mutex<Option<AbortOnDropHandle<()>>>,
    pub(super) published: Mutex<PublishedTasks>,
    pub(super) spending: Mutex<SpendingByModel>,
    /// Cancelled when no more tasks are accepted or started.
    pub(super) draining: CancellationToken,
    /// Cancelled when running tasks must stop, to be continued by a later process.
    pub(super) halted: CancellationToken,
}

/// The lane of one workspace in this process.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: String,
    /// The name of the lock that the process holds that runs the lane's tasks.
    pub(super) lock_name: String,
    pub(super) state: Mutex<LaneState>,
    /// A counter of all events in the lane; a change wakes the waiting callers.
    pub(super) progress: watch::Sender<u64>,
    /// Cancelled when the workspace is removed.
    pub(super) removed: CancellationToken,
}

/// The mutable state of a lane.
#[derive(Debug)]
pub(super) struct LaneState {
    pub(super) workspace: Workspace,
    /// The worker, while the lane has work.
    pub(super) worker: Option<JoinHandle<()>>,
    /// Whether work was queued since the worker last read the queue.
    pub(super) has_new_work: bool,
    /// The task that runs in this process, and the token that stops it.
    pub(super) running: Option<(TaskId, CancellationToken)>,
    /// Tasks queued by this process whose end it has not seen yet.
    pub(super) own_tasks: BTreeSet<TaskId>,
    /// Attempts of unfinished tasks that this process aborted because the state failed.
    pub(super) failed_attempts: BTreeMap<String, BTreeSet<u32>>,
    /// The error that makes the lane wait to retry, if any.
    pub(super) retry_cause: Option<MemoryErrorCode>,
}

/// The reason why a lane cannot continue for now. Recovery takes up its running task later.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaneError {
    /// The lock cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The database could not be reached while a change was committed.
    #[error("a change cannot be committed now: {0}")]
    Unavailable(String),
    /// The lock file was removed, or the lock was not renewed in time. Another process may run the same lane.
    #[error("the lock of the lane was lost")]
    LockLost,
}

impl LaneError {
    pub(super) fn code(&self) -> MemoryErrorCode {
        match self {
            Self::State(error) => error.code(),
            Self::Lock(error) => error.code(),
            Self::Unavailable(_) => MemoryErrorCode::StorageUnavailable,
            Self::LockLost => MemoryErrorCode::StorageFailed,
        }
    }
}

/// The tasks whose end this process published.
#[derive(Debug, Default)]
pub(super) struct PublishedTasks(Cache<TaskId, (), TASKS_KEPT_MAX>);

impl PublishedTasks {
    /// Records a task. Returns `false` if it was recorded before.
    pub(super) fn insert_new(&mut self, id: &TaskId) -> bool {
        let is_new = self.0.get(id).is_none();
        self.0.insert(id.clone(), ());
        is_new
    }
}

impl LanesInner {
    /// Returns the lane of a workspace; all callers in this process share it.
    pub(super) fn lane(&self, workspace: &Workspace) -> Arc<Lane> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.entry(workspace.id.clone()).or_insert_with(|| {
            Arc::new(Lane {
                id: workspace.id.clone(),
                lock_name: format!("{LANE_LOCK}{}", workspace.id),
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

    /// Checks whether a feature is on in a workspace.
    pub(super) fn has_feature(&self, workspace: &Workspace, feature: Feature) -> bool {
        self.deps.switches.for_workspace(workspace).has(feature)
    }

    /// Checks whether reviews run in a workspace and may write there.
    pub(super) fn allows_reviews(&self, workspace: &Workspace) -> bool {
        self.settings.reviews
            && self.has_feature(workspace, Feature::Review)
            && !workspace.binding.read_only
    }

    /// Acquires the permits for a task: one of these lanes, then one of the process. In this order, because an engine with many
    /// lanes must not fill the queue for those of the process. Neither semaphore is ever closed.
    pub(super) async fn acquire_slots(
        &self,
    ) -> (Option<SemaphorePermit<'_>>, Option<SemaphorePermit<'_>>) {
        let own = self.slots.acquire().await.ok();
        let of_process = match &self.deps.process_slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        (own, of_process)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.lanes.lock().values().all(|lane| lane.state.lock().worker.is_none())
    }

    /// Returns the memories of a workspace, with the access of a task.
    pub(super) fn memories(
        &self,
        workspace: &Workspace,
        request: &CuratorRequest,
        requester: &Requester,
    ) -> Memories {
        let provenance = provenance(request, requester);
        let mut caller = Caller::new(AgentClass::Exec, provenance);
        if requester.trust == Trust::Outside {
            caller.outside_read = OutsideReadFlag::already_set();
        }
        self.deps.store.memories(Binding::resolve(&workspace.binding, &self.deps.folders), caller)
    }
}

/// Returns the provenance of a change made by a task.
pub(super) fn provenance(request: &CuratorRequest, requester: &Requester) -> Provenance {
    let trust = match request.kind() {
        TaskKind::Remember | TaskKind::Forget => requester.trust,
        // The requester asked for the task but did not dictate the text, so it is trusted less.
        TaskKind::Dream | TaskKind::Review => Trust::Background.min(requester.trust),
    };
    let mut provenance = Provenance::new(request.kind().actor(), trust, &requester.origin);
    if let CuratorRequest::Review(review) = request {
        provenance.session = Some(review.session.clone());
    }
    provenance.client = requester.client.as_ref().map(ToString::to_string);
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

    /// Checks whether a task that is stored as running only waits for a retry: the state failed
    /// during its attempt, and its status could not be reset.
    pub(super) fn is_waiting_to_retry(&self, task: &Task) -> bool {
        let state = self.state.lock();
        task.status() == Status::Running
            && state.retry_cause.is_some()
            && state.failed_attempts.contains_key(task.id.as_str())
            && state.running.as_ref().is_none_or(|(id, _)| *id != task.id)
    }

    /// Wakes the callers that wait for an event in the lane.
    pub(super) fn notify_waiters(&self) {
        self.progress.send_modify(|count| *count += 1);
    }
}

impl LanesInner {
    /// Returns the earliest end time of a task that is still retained.
    pub(super) fn retention_cutoff(&self) -> Timestamp {
        time_before(self.deps.clock.now(), self.settings.limits.finished_max_age)
    }
}

/// Returns the time `age` before `now`, clamped to the range of timestamps.
pub(super) fn time_before(now: Timestamp, age: Duration) -> Timestamp {
    now.checked_sub(age).unwrap_or(Timestamp::MIN)
}

/// The origin recorded for scheduled dreams.
pub(super) const SCHEDULE_ORIGIN: &str = "schedule";

/// Checks whether a task was queued by the schedule.
pub(super) fn is_scheduled(requester: &Requester) -> bool {
    requester.origin == SCHEDULE_ORIGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_clamped_to_the_earliest_timestamp() {
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(time_before(now, Duration::from_mins(1)).as_second(), -60);
        assert_eq!(time_before(now, Duration::MAX), Timestamp::MIN);
    }
}
