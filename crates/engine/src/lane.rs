//! Lanes: the tasks of a workspace, strictly one at a time, in the order in which they came.
//!
//! A task is durable before it is acknowledged. One lock file per workspace in the state folder keeps
//! lanes of several processes apart; whoever holds it does whatever is queued, whoever queued it. What
//! somebody who died left running is completed from its record of change, or done once more if nothing
//! of it was committed. A runner edits a draft; only the lane commits. An idle lane costs nothing: it has
//! no open file, and but one timer, which has the runner let go of what it keeps and does not come again.

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

/// How long between two looks at whether lanes work.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(2);

impl Lanes {
    /// Returns lanes without work; [`resume`](Self::resume) goes on with what was left.
    pub fn new(parts: LaneDeps, settings: LaneSettings) -> Self {
        Self(Arc::new(LanesInner {
            deps: parts,
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

    /// Waits until no lane of this process works, but no longer than this.
    pub async fn wait_until_idle(&self, wait: Duration) {
        let until_idle = async {
            while !self.0.is_idle() {
                tokio::time::sleep(IDLE_POLL_INTERVAL).await;
            }
        };
        // Whoever is not done then goes on, or is stopped by a drain.
        drop(tokio::time::timeout(wait, until_idle).await);
    }

    /// Counts the tasks of all workspaces that can be asked for, by workspace and status.
    pub async fn counts(&self) -> Result<Vec<TaskCount>, StateError> {
        self.0.deps.tasks.count_tasks(self.0.retention_cutoff()).await
    }

    /// Registers a workspace, of which nothing was asked yet: its lane is maintained, and its conversations may be
    /// reviewed.
    pub fn register(&self, workspace: &Workspace) {
        self.0.lane(workspace);
    }

    /// Tells whether conversations of a workspace that is [registered](Self::register) may be reviewed.
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

    /// Tells whether a feature is on in a workspace that is known.
    pub(crate) fn has_feature(&self, workspace: &str, feature: Feature) -> bool {
        let lane = self.0.lanes.lock().get(workspace).cloned();
        lane.is_some_and(|lane| self.0.has_feature(&lane.workspace(), feature))
    }

    /// Tells whether models took as much lately for work that nobody asked for as a person allows.
    pub(crate) async fn is_over_budget(&self) -> Result<bool, StateError> {
        Ok(self.0.tokens_over_budget().await?.is_some())
    }

    /// Sees to it that somebody looks for work of a workspace that is known.
    pub(crate) fn wake_known(&self, workspace: &str) {
        let lane = self.0.lanes.lock().get(workspace).cloned();
        if let Some(lane) = lane {
            self.0.wake(&lane);
        }
    }

    /// Returns why the lane of a workspace does nothing for now, if the state or its lock file failed it.
    pub fn retry_cause(&self, workspace: &Workspace) -> Option<MemoryErrorCode> {
        self.0.lanes.lock().get(&workspace.id).and_then(|lane| lane.state.lock().retry_cause)
    }

    /// Goes on with what earlier lives of this process, or others that died, left in these workspaces.
    pub async fn resume(&self, workspaces: &[Workspace]) -> Result<(), StateError> {
        let with_work = self.0.deps.tasks.workspaces_with_work().await?;
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
        self.0.cancel_all(&lane).await
    }

    /// Takes no more tasks and starts none; lets those that run end for so long, then stops them. What
    /// is not done stays queued in the state.
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
