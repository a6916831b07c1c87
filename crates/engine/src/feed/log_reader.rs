//! Readers of the log of events that several daemons share. One reader fills the rings of one
//! workspace, under the numbers of the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use memory::path::{Mount, Scope};
use state::{Announcement, EventLog, LogBounds, LogEntry, LoggedEvent, StateError};
use store::ChangeEvent;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::ManagedChange;
use super::bus::SubscribeError;
use super::event::{FeedChange, FeedEvent};
use super::publishing::Throttle;
use super::ring::Numbered;
use super::workspace_feed::{WorkspaceFeed, change_events, pin_event, proposals_event};

/// Time between two looks at the log without a notice.
const LOG_POLL: Duration = Duration::from_secs(5);
/// The longest time that a subscriber waits for the reader.
const CATCH_UP_WAIT: Duration = Duration::from_secs(20);

/// A log, and the settings of its readers.
#[derive(Clone, Debug)]
pub(crate) struct SharedLog {
    /// The log.
    pub(crate) events: Arc<dyn EventLog>,
    /// Whether reviews that saved something are events.
    pub(crate) review_verbose: bool,
}

/// A running reader.
#[derive(Debug)]
pub(super) struct LogReader {
    /// The number up to which all events are in the rings.
    position: watch::Receiver<u64>,
    demand: Arc<Demand>,
    task: AbortOnDropHandle<()>,
}

/// The demand for the events up to now, by a subscriber that does not count as a reader yet.
#[derive(Debug, Default)]
struct Demand {
    is_open: AtomicBool,
    raised: Notify,
}

impl LogReader {
    /// Starts a reader for a workspace, at the oldest event that the log keeps.
    pub(super) async fn start(
        log: &SharedLog,
        feed: &Arc<WorkspaceFeed>,
    ) -> Result<Self, StateError> {
        let LogBounds { dropped, last: _ } = log.events.bounds().await?;
        feed.restart_after(dropped);
        let (progress, position) = watch::channel(dropped);
        let demand = Arc::<Demand>::default();
        let reading = read(log.clone(), Arc::downgrade(feed), (progress, Arc::clone(&demand)));
        Ok(Self { position, demand, task: AbortOnDropHandle::new(tokio::spawn(reading)) })
    }

    /// Checks whether the reader has ended, which it does only by a fault.
    pub(super) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    /// Waits until the events that are in the log now are in the rings.
    pub(super) async fn catch_up(&self, log: &SharedLog) -> Result<(), SubscribeError> {
        let LogBounds { dropped: _, last } = log.events.bounds().await?;
        self.demand.is_open.store(true, Ordering::Release);
        self.demand.raised.notify_one();
        let mut position = self.position.clone();
        match timeout(CATCH_UP_WAIT, position.wait_for(|position| *position >= last)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(SubscribeError::Behind),
        }
    }
}

/// Reads until the feed is dropped. A failure is repeated. While the feed has no readers, it waits.
async fn read(
    log: SharedLog,
    feed: Weak<WorkspaceFeed>,
    (progress, demand): (watch::Sender<u64>, Arc<Demand>),
) {
    let mut notices = log.events.notices();
    let (mut has_failed, mut is_behind) = (false, false);
    let mut throttle = Throttle::new();
    loop {
        notices.mark_unchanged();
        let position = *progress.borrow();
        let Some(feed) = feed.upgrade() else { return };
        let is_demanded = demand.is_open.swap(false, Ordering::AcqRel);
        let is_wanted = feed.readers() > 0 || is_demanded || is_behind;
        let entries = if is_wanted { log.events.after(position).await } else { Ok(Vec::new()) };
        match entries {
            Ok(entries) if !entries.is_empty() => {
                (has_failed, is_behind) = (false, true);
                for entry in entries {
                    let (read, last) = (*progress.borrow(), entry.last);
                    if entry.first > read + 1 {
                        // The events between were dropped before this daemon read them.
                        feed.restart_after(entry.first - 1);
                    }
                    log.publish(&feed, entry);
                    progress.send_replace(last);
                    // A burst must not make readers look slow.
                    if feed.readers() > 0 {
                        throttle.acquire().await;
                    }
                }
                continue;
            }
            Ok(_) => (has_failed, is_behind) = (false, false),
            Err(error) if !has_failed => {
                (has_failed, is_behind) = (true, true);
                tracing::warn!(%error, "the log of events cannot be read; trying again");
            }
            Err(_) => {}
        }
        drop(feed);
        let changed = async {
            if notices.changed().await.is_err() {
                sleep(LOG_POLL).await;
            }
        };
        let woken = async {
            tokio::select! {
                () = changed => {}
                () = demand.raised.notified() => {}
            }
        };
        // Without a notice it is time to look.
        let _elapsed = timeout(LOG_POLL, woken).await;
    }
}

/// Names no workspace in an event about the memories of a project: all workspaces of the project have them.
fn of_any(mut event: FeedEvent) -> FeedEvent {
    if let FeedChange::File { path, workspace, .. } = &mut event.change
        && path.mount() == Some(Mount::Scope(Scope::Project))
    {
        *workspace = None;
    }
    event
}

impl SharedLog {
    /// Puts what a workspace sees of an event into its rings.
    fn publish(&self, feed: &Arc<WorkspaceFeed>, entry: LogEntry) {
        let LogEntry { first, last, at, event } = entry;
        let single = |event: Option<FeedEvent>| -> Vec<Numbered> {
            event.into_iter().map(|event| (first, Arc::new(event))).collect()
        };
        // Hosted memories have no worktrees, so other workspaces do not matter.
        let all = std::slice::from_ref(feed);
        let mut of_tasks = Vec::new();
        let events = match event {
            None => {
                // The workspace may have seen it, so readers must read the state again.
                feed.restart_after(last);
                return;
            }
            // The end of the task will be the event.
            Some(LoggedEvent::Change { task_workspace: Some(workspace), .. })
                if *workspace == *feed.workspace =>
            {
                Vec::new()
            }
            Some(LoggedEvent::Change { change, task_workspace: _ }) => {
                let by = Arc::new(change.provenance.clone());
                let notice = ChangeEvent {
                    change: change.id,
                    kind: change.kind,
                    provenance: change.provenance,
                    files: change.files.into(),
                };
                (first..)
                    .zip(change_events((&notice, &by), &feed.memories, all))
                    .filter_map(|(number, event)| Some((number, Arc::new(of_any(event?)))))
                    .collect()
            }
            Some(LoggedEvent::TaskEnded(ended)) if *ended.workspace == *feed.workspace => {
                let change = ManagedChange::of_event(ended, self.review_verbose);
                of_tasks = single(change.map(FeedEvent::from));
                of_tasks.clone()
            }
            Some(LoggedEvent::TaskEnded(_)) => Vec::new(),
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
}
