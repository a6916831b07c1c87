//! Lanes: serial task queues, one per workspace. The tasks of a workspace run one at a time, in the
//! order in which they were queued.
//!
//! A task is durable before it is acknowledged. A lock file per workspace in the state folder
//! ensures that one process at a time runs a lane; that process runs all queued tasks, including
//! those queued by others.
//!
//! After a crash, a task whose change is recorded is completed from that record; one without a
//! recorded change runs again. A runner edits a draft, and only the lane commits it. An idle lane
//! holds no open file and at most one timer, which trims the runner's caches once.

mod decide;
mod maintenance;
mod requests;
mod schedule;
mod shared;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use parking_lot::Mutex;
use state::{StateError, TaskCount};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::workspace::Workspace;

pub use requests::{
    CancelOutcome, StageError, SubmitError, TaskFilter, TaskPreview, TaskPreviewError, Viewer,
};
pub use schedule::NextDream;
use shared::LanesInner;
pub use shared::{DreamSchedule, LaneDeps, LaneSettings, Lanes, ModelSpending};

/// Poll interval of [`Lanes::wait_until_idle`].
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(2);

impl Lanes {
    /// Returns lanes without work. Call [`resume`](Self::resume) to continue tasks of an earlier
    /// process.
    pub fn new(deps: LaneDeps, settings: LaneSettings) -> Self {
        Self(Arc::new(LanesInner {
            deps,
            settings,
            lanes: Mutex::default(),
            slots: Semaphore::new(settings.concurrent_max.max(1)),
            workers: TaskTracker::new(),
            cache_trim: Mutex::default(),
            published: Mutex::default(),
            spending: Mutex::default(),
            draining: CancellationToken::new(),
            halted: CancellationToken::new(),
        }))
    }

    /// Waits until no lane of this process is working, at most for `wait`.
    pub async fn wait_until_idle(&self, wait: Duration) {
        let until_idle = async {
            while !self.0.is_idle() {
                tokio::time::sleep(IDLE_POLL_INTERVAL).await;
            }
        };
        // A lane that is still busy keeps running, or is stopped by a drain.
        drop(tokio::time::timeout(wait, until_idle).await);
    }

    /// Forgets the lane of a workspace, unless it is working. Its tasks stay in the state.
    pub fn forget(&self, workspace: &Workspace) {
        let mut lanes = self.0.lanes.lock();
        if lanes.get(&workspace.id).is_some_and(|lane| lane.state.lock().worker.is_none()) {
            lanes.remove(&workspace.id);
        }
    }

    /// Checks whether the lane of a workspace is working.
    pub fn is_working(&self, workspace: &Workspace) -> bool {
        let lanes = self.0.lanes.lock();
        lanes.get(&workspace.id).is_some_and(|lane| lane.state.lock().worker.is_some())
    }

    /// Counts the retained tasks of all workspaces, by workspace and status.
    pub async fn counts(&self) -> Result<Vec<TaskCount>, StateError> {
        self.0.deps.tasks.count_tasks(self.0.retention_cutoff()).await
    }

    /// Registers a workspace before any request for it: its lane is maintained, and its
    /// conversations may be reviewed.
    pub fn register(&self, workspace: &Workspace) {
        self.0.lane(workspace);
    }

    /// Checks whether conversations of a [registered](Self::register) workspace may be reviewed.
    pub(crate) fn may_review(&self, workspace: &str) -> bool {
        let lane = self.0.lanes.lock().get(workspace).cloned();
        lane.is_some_and(|lane| {
            let workspace = lane.workspace();
            self.0.allows_reviews(&workspace)
                && self.0.has_feature(&workspace, Feature::Tasks)
                && workspace.trusted
                && workspace.memory_enabled
        })
    }

    /// Checks whether a feature is on in a registered workspace.
    pub(crate) fn has_feature(&self, workspace: &str, feature: Feature) -> bool {
        let lane = self.0.lanes.lock().get(workspace).cloned();
        lane.is_some_and(|lane| self.0.has_feature(&lane.workspace(), feature))
    }

    /// Checks whether unrequested work of models has used up its token budget.
    pub(crate) async fn is_over_budget(&self) -> Result<bool, StateError> {
        Ok(self.0.tokens_over_budget().await?.is_some())
    }

    /// Wakes the lane of a registered workspace.
    pub(crate) fn wake_known(&self, workspace: &str) {
        let lane = self.0.lanes.lock().get(workspace).cloned();
        if let Some(lane) = lane {
            self.0.wake(&lane);
        }
    }

    /// Returns the error that makes the lane of a workspace wait to retry, if any.
    pub fn retry_cause(&self, workspace: &Workspace) -> Option<MemoryErrorCode> {
        self.0.lanes.lock().get(&workspace.id).and_then(|lane| lane.state.lock().retry_cause)
    }

    /// Continues tasks that an earlier process left unfinished in these workspaces.
    pub async fn resume(&self, workspaces: &[Workspace]) -> Result<(), StateError> {
        let with_work = self.0.deps.tasks.workspaces_with_work().await?;
        for workspace in workspaces.iter().filter(|workspace| with_work.contains(&workspace.id)) {
            self.0.wake_for(workspace);
        }
        Ok(())
    }

    /// Closes the lane of a removed workspace: it takes no more tasks, queued tasks fail, the
    /// running one is stopped.
    pub async fn remove(&self, workspace: &Workspace) -> Result<(), StateError> {
        let lane = self.0.lane(workspace);
        lane.removed.cancel();
        self.0.cancel_all(&lane).await
    }

    /// Takes no more tasks and starts none. Waits up to `wait` for running tasks, then stops them.
    /// Unfinished tasks stay queued in the state.
    pub async fn drain(&self, wait: Duration) {
        self.0.draining.cancel();
        self.0.cache_trim.lock().take();
        self.0.workers.close();
        if tokio::time::timeout(wait, self.0.workers.wait()).await.is_err() {
            self.0.halted.cancel();
            self.0.workers.wait().await;
        }
    }
}
