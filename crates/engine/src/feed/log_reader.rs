//! Readers of the log of events that several daemons share. One reader fills the rings of one
//! workspace, under the numbers of the log.

use std::sync::{Arc, Weak};
use std::time::Duration;

use memory::change::Provenance;
use state::{
    Announcement, EventLog, LogBounds, LogEntry, LoggedEvent, StateError, TaskRow, TaskStore,
};
use store::ChangeEvent;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::ManagedChange;
use super::event::FeedEvent;
use super::publishing::{TaskWorkspaceCache, Throttle};
use super::ring::Numbered;
use super::workspace_feed::{WorkspaceFeed, change_events, pin_event, proposals_event};
use crate::task::{Task, TaskState};

/// Time between two looks at the log without a notice.
const LOG_POLL: Duration = Duration::from_secs(5);
/// The longest time that a subscriber waits for the reader.
const CATCH_UP_WAIT: Duration = Duration::from_secs(5);

/// A log, and what its reader needs to know beside it.
#[derive(Clone, Debug)]
pub(crate) struct SharedLog {
    /// The log.
    pub(crate) events: Arc<dyn EventLog>,
    /// The tasks that events name.
    pub(crate) tasks: Arc<dyn TaskStore>,
    /// Whether reviews that saved something are events.
    pub(crate) review_verbose: bool,
}

/// A running reader.
#[derive(Debug)]
pub(super) struct LogReader {
    /// The number up to which all events are in the rings.
    position: watch::Receiver<u64>,
    task: AbortOnDropHandle<()>,
}

impl LogReader {
    /// Starts a reader for a workspace, at the oldest event that the log keeps.
    pub(super) async fn start(
        log: &SharedLog,
        feed: &Arc<WorkspaceFeed>,
    ) -> Result<Self, StateError> {
        let LogBounds { dropped, last: _ } = log.events.bounds().await?;
        feed.task_events.restart_after(dropped);
        feed.all_events.ring().restart_after(dropped);
        let (progress, position) = watch::channel(dropped);
        let reading = read(log.clone(), Arc::downgrade(feed), progress);
        Ok(Self { position, task: AbortOnDropHandle::new(tokio::spawn(reading)) })
    }

    /// Waits until the events that are in the log now are in the rings. If that takes too long, they
    /// come later.
    pub(super) async fn catch_up(&self, log: &SharedLog) -> Result<(), StateError> {
        let LogBounds { dropped: _, last } = log.events.bounds().await?;
        let mut position = self.position.clone();
        if timeout(CATCH_UP_WAIT, position.wait_for(|position| *position >= last)).await.is_err() {
            tracing::warn!(
                last,
                "the events of the log are read slowly; a stream begins without the last ones"
            );
        }
        Ok(())
    }

    /// Stops reading.
    pub(super) fn stop(&self) {
        self.task.abort();
    }
}

/// Reads until the feed is dropped. A failure is repeated.
async fn read(log: SharedLog, feed: Weak<WorkspaceFeed>, progress: watch::Sender<u64>) {
    let mut notices = log.events.notices();
    let mut has_failed = false;
    let mut throttle = Throttle::new();
    let mut last_task = TaskWorkspaceCache::default();
    loop {
        notices.mark_unchanged();
        let position = *progress.borrow();
        let entries = log.events.after(position).await;
        let Some(feed) = feed.upgrade() else { return };
        match entries {
            Ok(entries) if !entries.is_empty() => {
                has_failed = false;
                for entry in entries {
                    let last = entry.last;
                    let read = *progress.borrow();
                    if entry.first > read + 1 {
                        // The events between were dropped before this daemon read them.
                        feed.task_events.restart_after(entry.first - 1);
                        feed.all_events.ring().restart_after(entry.first - 1);
                    }
                    log.publish(&feed, entry, &mut last_task).await;
                    progress.send_replace(last);
                    // A burst must not make readers look slow.
                    if feed.readers() > 0 {
                        throttle.acquire().await;
                    }
                }
                continue;
            }
            Ok(_) => has_failed = false,
            Err(error) if !has_failed => {
                has_failed = true;
                tracing::warn!(%error, "the log of events cannot be read; trying again");
            }
            Err(_) => {}
        }
        drop(feed);
        if let Ok(Err(_closed)) = timeout(LOG_POLL, notices.changed()).await {
            sleep(LOG_POLL).await;
        }
    }
}

impl SharedLog {
    /// Puts what a workspace sees of an event into its rings.
    async fn publish(
        &self,
        feed: &Arc<WorkspaceFeed>,
        entry: LogEntry,
        last_task: &mut TaskWorkspaceCache,
    ) {
        let LogEntry { first, last, at, event } = entry;
        let single = |event: Option<FeedEvent>| -> Vec<Numbered> {
            event.into_iter().map(|event| (first, Arc::new(event))).collect()
        };
        // Hosted memories have no worktrees, so other workspaces do not matter.
        let all = std::slice::from_ref(feed);
        let mut of_tasks = Vec::new();
        let events = match event {
            None => Vec::new(),
            Some(LoggedEvent::Change(change)) => {
                let task = change.provenance.task.as_deref();
                if last_task.workspace(task, &*self.tasks).await == Some(&*feed.workspace) {
                    // The end of the task will be the event.
                    Vec::new()
                } else {
                    let by: Arc<Provenance> = Arc::new(change.provenance.clone());
                    let notice = ChangeEvent {
                        change: change.id,
                        kind: change.kind,
                        provenance: change.provenance,
                        files: change.files.into(),
                    };
                    (first..)
                        .zip(change_events((&notice, &by), &feed.memories, all))
                        .filter_map(|(number, event)| Some((number, event?)))
                        .collect()
                }
            }
            Some(LoggedEvent::TaskEnded(row)) => {
                of_tasks = single(self.task_event(&row, feed));
                of_tasks.clone()
            }
            Some(LoggedEvent::Announced(Announcement::Pin(pin))) => {
                single(pin_event(&pin, &feed.memories, all))
            }
            Some(LoggedEvent::Announced(Announcement::Proposals(proposals))) => {
                single(proposals_event(&proposals, &feed.memories))
            }
        };
        feed.task_events.push_numbered(of_tasks, last, at);
        feed.all_events.ring().push_numbered(events, last, at);
    }

    /// Returns the event of a task that has ended in this workspace, if subscribers are notified of
    /// it.
    fn task_event(&self, row: &TaskRow, feed: &WorkspaceFeed) -> Option<FeedEvent> {
        if *row.workspace != *feed.workspace {
            return None;
        }
        let task = Task::from_row(row).ok()?;
        let TaskState::Completed(result) = &task.state else { return None };
        Some(ManagedChange::of_task(&task, result, self.review_verbose)?.into())
    }
}
