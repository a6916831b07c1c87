//! Help for publishers of events: the workspaces of tasks, and pauses in a burst.

use memory::limits::{EVENT_BATCH_INTERVAL, EVENTS_PUBLISHED_PER_BATCH};
use state::TaskStore;
use tokio::time::{Instant, sleep_until};

/// The workspace whose lane publishes a task. Caches the last task, because its changes arrive in a
/// row.
#[derive(Debug, Default)]
pub(super) struct TaskWorkspaceCache {
    task: Option<String>,
    workspace: Option<String>,
}

impl TaskWorkspaceCache {
    /// Returns the workspace of a task; `None` if there is no task, or it is no longer known.
    pub(super) async fn workspace(
        &mut self,
        task: Option<&str>,
        tasks: &dyn TaskStore,
    ) -> Option<&str> {
        let task = task?;
        if self.task.as_deref() != Some(task) {
            let row = tasks.task(task).await.unwrap_or_else(|error| {
                tracing::warn!(%error, task, "error while looking up the workspace of a task");
                None
            });
            self.task = Some(task.to_owned());
            self.workspace = row.map(|row| row.workspace);
        }
        self.workspace.as_deref()
    }
}

/// A token bucket: a burst passes at once, further changes wait for the next interval.
#[derive(Debug)]
pub(super) struct Throttle {
    window_start: Instant,
    count: usize,
}

impl Throttle {
    pub(super) fn new() -> Self {
        Self { window_start: Instant::now(), count: 0 }
    }

    /// Counts an event, and waits if the burst is used up.
    pub(super) async fn acquire(&mut self) {
        self.count += 1;
        if self.count >= EVENTS_PUBLISHED_PER_BATCH {
            let next = self.window_start + EVENT_BATCH_INTERVAL;
            if Instant::now() < next {
                sleep_until(next).await;
            }
            *self = Self::new();
        }
    }
}
