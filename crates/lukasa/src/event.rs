//! Events: a stream of the changes in one workspace, by any process or editor.

use std::fmt;
use std::path::PathBuf;

use engine::feed::{EventCursor, EventKind, Evicted, FeedChange, FeedEvent, Subscription};
use engine::{ChangesQuery, TaskId};
use memory::change::{Actor, ChangeId, ChangeKind};
use memory::document::Revision;
use memory::path::MemoryPath;
use memory::proposal::{ProposalId, ProposalStatus};

use crate::Result;
use crate::memories::Memories;
use crate::open::Lukasa;

/// A stream of events of one workspace. Dropping it ends the subscription.
///
/// ```
/// # async fn example(memories: lukasa::Memories) -> Result<(), lukasa::Error> {
/// use lukasa::Event;
///
/// let mut events = memories.events().await?;
/// while let Some(event) = events.next().await {
///     match event {
///         Event::Changed { path, by, .. } => println!("{by} changed {path}"),
///         Event::Missed => println!("read everything again"),
///         other => println!("{other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "events come from `next`"]
pub struct MemoryEvents {
    lukasa: Lukasa,
    workspace: String,
    subscription: Subscription,
    /// The last change before the subscription. The feed may publish earlier changes late; these are skipped.
    after: Option<ChangeId>,
}

/// An event about the memories of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A memory was created, changed, renamed or removed, by a caller in any process or with an editor.
    #[non_exhaustive]
    Changed {
        /// The memory.
        path: MemoryPath,
        /// Its new path, if it was renamed.
        moved_to: Option<MemoryPath>,
        /// The change in history.
        change: ChangeId,
        /// The kind of operation.
        kind: ChangeKind,
        /// The author.
        by: Actor,
        /// The program that made the change.
        origin: String,
        /// Its current revision; `None` if it was removed.
        revision: Option<Revision>,
    },
    /// A task of this workspace is done and changed memories.
    #[non_exhaustive]
    TaskDone {
        /// The task; the [history](Memories::history) names its memories.
        task: TaskId,
    },
    /// A person pinned or unpinned a memory.
    #[non_exhaustive]
    Pinned {
        /// The memory.
        path: MemoryPath,
        /// Whether it is pinned now.
        is_pinned: bool,
    },
    /// Proposals were made or decided.
    #[non_exhaustive]
    Proposals {
        /// Their numbers.
        ids: Vec<ProposalId>,
        /// `true` if they were made and wait; `false` if they were decided.
        are_waiting: bool,
    },
    /// A context file, such as `AGENTS.md`, was written through Lukasa.
    #[non_exhaustive]
    ContextFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// Events were lost, because the reader was too slow or too much changed at once. Read the memories again.
    Missed,
}

impl Memories {
    /// Subscribes to all later changes in the memories of this workspace. The first subscription starts watching the
    /// folders, so that edits with other programs are reported too.
    pub async fn events(&self) -> Result<MemoryEvents> {
        let _call = self.begin()?;
        let services = &self.lukasa.0.services;
        let latest = ChangesQuery { max: 1, ..ChangesQuery::default() };
        let latest = self.inner.recorded_changes(&latest).await?;
        services.feeds.open(&self.workspace.id, &self.inner);
        // Registered, because the lane reports tasks that other processes run.
        services.lanes.register(&self.workspace);
        let subscription = services.feeds.subscribe(&self.workspace.id, None).await?;
        Ok(MemoryEvents {
            lukasa: self.lukasa.clone(),
            workspace: self.workspace.id.clone(),
            subscription,
            after: latest.first().map(|change| change.id),
        })
    }
}

impl MemoryEvents {
    /// Waits for the next event; `None` once the home is closed. Cancel safe: dropping the future loses no event.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            match self.subscription.next().await?.kind {
                EventKind::MemoryChanged(event) => match convert_event(&event) {
                    Event::Changed { change, .. } if Some(change) <= self.after => {}
                    event => return Some(event),
                },
                EventKind::StateResyncRequired(_) => return Some(Event::Missed),
                EventKind::ReplayComplete(_) | EventKind::SlowReader(_) => {}
                EventKind::Evicted(Evicted { last_delivered, .. }) => {
                    let cursor = EventCursor { last_seen: last_delivered, epoch: None };
                    let feeds = &self.lukasa.0.services.feeds;
                    // Resumes at the last delivered event; events that are no longer stored are reported as missed.
                    self.subscription =
                        feeds.subscribe(&self.workspace, Some(&cursor)).await.ok()?;
                }
            }
        }
    }
}

fn convert_event(event: &FeedEvent) -> Event {
    match &event.change {
        FeedChange::File { path, moved_to, kind, by, revision, change, trust: _, workspace: _ } => {
            Event::Changed {
                path: path.clone(),
                moved_to: moved_to.clone(),
                change: *change,
                kind: *kind,
                by: by.actor,
                origin: by.origin.clone(),
                revision: *revision,
            }
        }
        FeedChange::Task { task, .. } | FeedChange::Review { task, .. } => {
            Event::TaskDone { task: task.clone() }
        }
        FeedChange::Pin { path, pinned, by: _ } => {
            Event::Pinned { path: path.clone(), is_pinned: *pinned }
        }
        FeedChange::Proposals { ids, status, .. } => {
            Event::Proposals { ids: ids.to_vec(), are_waiting: *status == ProposalStatus::Waiting }
        }
        FeedChange::ContextFile { path, .. } => Event::ContextFile { path: path.clone() },
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}
