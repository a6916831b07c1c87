//! What other processes did with tasks: those that were taken here, and those that were not.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt as _;
use memory::clock::Timestamp;
use memory::limits::{TASK_LOOK_INTERVAL, TASK_LOOK_INTERVAL_MAX, TASKS_KEPT_MAX};
use state::TaskQuery;
use store::Notice;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::work::LaneError;
use super::{Lane, Lanes, Shared, lock};
use crate::task::{Task, TaskId, TaskResult, TaskState};

/// The tasks whose end was published here, the latest last.
#[derive(Debug, Default)]
pub(super) struct Told(VecDeque<TaskId>);

impl Told {
    /// Notes a task; `false` if it is noted already.
    pub(super) fn note(&mut self, id: &TaskId) -> bool {
        if self.0.contains(id) {
            return false;
        }
        if self.0.len() == TASKS_KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(id.clone());
        true
    }
}

impl Lanes {
    /// Publishes the ends of tasks that other processes took and did, as what they changed is announced.
    /// For a process that somebody listens to; goes on until whoever runs it ends it.
    pub async fn follow(&self, mut notices: Receiver<Notice>) {
        let (mut last, began_at) = (None, self.0.parts.clock.now());
        loop {
            match notices.recv().await {
                Ok(Notice { provenance, .. }) => {
                    // The changes of a task come one after the other.
                    let id = provenance.task.as_deref().and_then(|task| task.parse().ok());
                    if let Some(id) = id
                        && last.as_ref() != Some(&id)
                        && !self.0.is_ours(&id)
                    {
                        last = Some(id.clone());
                        self.0.workers.spawn(Arc::clone(&self.0).tell_of(id).boxed());
                    }
                }
                // Among what was missed may be the only word of a task that another process did.
                Err(RecvError::Lagged(_)) => self.0.tell_of_all_since(began_at).await,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

impl Shared {
    /// Tells whether a lane of this process publishes the end of a task by itself.
    fn is_ours(&self, id: &TaskId) -> bool {
        lock(&self.lanes).values().any(|lane| {
            let now = lock(&lane.now);
            now.ours.contains(id) || now.current.as_ref().is_some_and(|(current, _)| current == id)
        })
    }

    /// Publishes the ends of all tasks that other processes did since then and that were not published
    /// here.
    async fn tell_of_all_since(self: &Arc<Self>, time: Timestamp) {
        let query = TaskQuery {
            ended_since: Some(time),
            // As many as are remembered to have been published.
            max: TASKS_KEPT_MAX,
            ..TaskQuery::default()
        };
        let found = self.parts.tasks.tasks(&query).await;
        let rows = found.unwrap_or_else(|error| {
            tracing::warn!(%error, "what other processes did meanwhile goes untold");
            Vec::new()
        });
        // In the order in which they ended, as far as their times tell.
        let mut changed: Vec<_> = rows.iter().filter(|row| row.change.is_some()).collect();
        changed.sort_by_key(|row| (row.updated_at, row.seq));
        for row in changed {
            match Task::read(row) {
                Ok(task) if self.is_ours(&task.id) => {}
                Ok(task) if task.status().is_final() => self.publish_end(&task).await,
                Ok(task) => drop(self.workers.spawn(Arc::clone(self).tell_of(task.id).boxed())),
                Err(error) => tracing::warn!(%error, "a task is passed over"),
            }
        }
    }

    /// Publishes the end of a task that another process does, once it is there.
    async fn tell_of(self: Arc<Self>, id: TaskId) {
        let (mut is_first, mut wait) = (true, TASK_LOOK_INTERVAL);
        while !self.draining.is_cancelled() {
            match self.parts.tasks.task(id.as_str()).await {
                Ok(Some(row)) => match Task::read(&row) {
                    Ok(task) if !task.status().is_final() => {
                        // Whoever does it has the turn; if it dies, whoever waits for the turn goes on.
                        let lane = lock(&self.lanes).get(&row.workspace).cloned();
                        if let Some(lane) = lane.filter(|_| std::mem::take(&mut is_first)) {
                            self.wake(&lane);
                        }
                    }
                    Ok(task) => return self.publish_end(&task).await,
                    Err(_) => return,
                },
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, "the end of a task is not known yet"),
            }
            self.rest(wait).await;
            // One that died may leave its task to somebody who comes much later.
            wait = TASK_LOOK_INTERVAL_MAX.min(wait * 2);
        }
    }

    /// Publishes the ends of tasks that were taken here and that other processes did.
    pub(super) async fn tell_of_others(&self, lane: &Lane) -> Result<(), LaneError> {
        let ours: Vec<_> = lock(&lane.now).ours.iter().cloned().collect();
        for id in ours {
            let row = self.parts.tasks.task(id.as_str()).await?;
            let task = row.as_ref().map(Task::read).and_then(Result::ok);
            if task.as_ref().is_some_and(|task| !task.status().is_final()) {
                continue;
            }
            lock(&lane.now).ours.remove(&id);
            let changed = row.is_some_and(|row| row.change.is_some());
            if let Some(task) = task.filter(|_| changed) {
                self.publish_end(&task).await;
            }
        }
        lane.move_on();
        Ok(())
    }

    async fn publish_end(&self, task: &Task) {
        match &task.state {
            TaskState::Completed(result) => self.publish(task, result).await,
            TaskState::Queued | TaskState::Running | TaskState::Failed(_) => {}
        }
    }

    /// Notes that the end of a task is published here; `false` if it was before.
    pub(super) fn claim(&self, task: &Task, result: &TaskResult) -> bool {
        !result.scopes().is_empty() && lock(&self.told).note(&task.id)
    }
}
