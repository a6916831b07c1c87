//! The port of the log of events that several daemons share.
//!
//! A database that several daemons use keeps the newest events of each owner under numbers that all of them see alike.
//! So a client can continue a stream at any daemon. A state that is a file has no such log: its daemon counts its
//! events itself.

use std::collections::BTreeSet;

use async_trait::async_trait;
use memory::change::{ChangeId, MemoryChange, Provenance, RootKey};
use memory::clock::Timestamp;
use memory::path::{Mount, RelativePath};
use memory::proposal::{ProposalId, ProposalStatus};
use tokio::sync::watch;

use crate::error::StateError;
use crate::task::TaskKind;

/// A memory that was pinned or unpinned; published after the pin is stored. Pins change no text, so history does
/// not record them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinEvent {
    /// Root of the memory.
    pub root: RootKey,
    /// Path of the memory in its root.
    pub path: RelativePath,
    /// Whether the memory is pinned now.
    pub pinned: bool,
    /// Provenance of the pin.
    pub provenance: Provenance,
}

/// Proposals that were made or decided; published after that is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalStatusEvent {
    /// Numbers of the proposals.
    pub ids: Vec<ProposalId>,
    /// Their new status.
    pub status: ProposalStatus,
    /// All roots that they are about.
    pub roots: Vec<RootKey>,
    /// Task that made them.
    pub task: Option<String>,
    /// Change that was made by accepting one.
    pub change: Option<ChangeId>,
    /// Provenance of the proposals or of the decision.
    pub provenance: Provenance,
}

/// An event that the log has got from one of its daemons. The log adds changes and ends of tasks itself, in the
/// transactions that complete them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// A memory was pinned or unpinned.
    Pin(PinEvent),
    /// Proposals were made or decided.
    Proposals(ProposalStatusEvent),
}

/// A task that has ended and changed memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskEndEvent {
    /// Its id.
    pub task: String,
    /// Its kind.
    pub kind: TaskKind,
    /// The id of its workspace.
    pub workspace: String,
    /// The client that requested it.
    pub client: Option<String>,
    /// The mounts of the changed memories.
    pub scopes: BTreeSet<Mount>,
    /// The number of changed entries.
    pub saved: usize,
}

/// The content of an event in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedEvent {
    /// A change is complete in one place.
    Change {
        /// The change, with the files of that place alone.
        change: MemoryChange,
        /// The workspace of the task that made it.
        task_workspace: Option<String>,
    },
    /// A task has ended and changed memories.
    TaskEnded(TaskEndEvent),
    /// An announcement of a daemon.
    Announced(Announcement),
}

/// An event in the log. It has one number for each file that it concerns, and at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The lowest of its numbers.
    pub first: u64,
    /// The highest of its numbers.
    pub last: u64,
    /// When it was added, by the clock of the server.
    pub at: Timestamp,
    /// The content; `None` if it is no longer kept, or was added by a later version.
    pub event: Option<LoggedEvent>,
}

/// The numbers in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBounds {
    /// The highest number that is no longer kept; 0 if all are.
    pub dropped: u64,
    /// The highest number; 0 if there was no event yet.
    pub last: u64,
}

/// The log of the events of one owner. Each number is given once, in the order of the commits, without gaps: a reader
/// that has seen a number has been shown all lower ones.
#[async_trait]
pub trait EventLog: std::fmt::Debug + Send + Sync {
    /// Returns the name of the numbering. It is the same for all daemons, and another one for another log.
    fn epoch(&self) -> String;

    /// Returns the numbers that are kept.
    async fn bounds(&self) -> Result<LogBounds, StateError>;

    /// Returns the first events with numbers above `number`; none if there are none.
    async fn after(&self, number: u64) -> Result<Vec<LogEntry>, StateError>;

    /// Adds an event.
    async fn append(&self, event: &Announcement) -> Result<(), StateError>;

    /// Returns a receiver that is notified when there may be new events. A notification can get lost, so a reader looks
    /// from time to time by itself.
    fn notices(&self) -> watch::Receiver<u64>;
}
