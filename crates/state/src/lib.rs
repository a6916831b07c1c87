//! What outlives a restart beside the memories: history, pins, usage; tasks, sessions, runs, proposals.
//!
//! Files are the truth; this is the memory of the truth. Two ports, [`HistoryStore`] for what became of the
//! memories and [`TaskStore`] for what is to be done about them, with one adapter on SQLite here. Nothing in this crate names a memory's file, decides who may do what, or reads a
//! clock: times and facts are handed over. A damaged database is set aside whole, and an empty one is
//! started. What all processes of a host share beside the database is here too: locks and private files.

mod copy;
mod error;
mod file_lock;
pub mod private_files;
mod proposal;
mod record;
mod sqlite;
mod task;

pub use copy::copy_database;
pub use error::StateError;
pub use file_lock::{FileLock, FileLockError, FileLockGuard, LockMode};
pub use proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};
pub use record::{
    ChangeQuery, Head, NewChange, NewFileChange, OpenChange, OpenFile, PathChange, PruneReport,
    Retention, Stats, UsageRow, UseEvent,
};
pub use sqlite::{SqliteState, StateRepair, set_aside_databases};
pub use task::{
    Attempt, ConversationRow, DreamPreconditions, EnqueueResult, LastDream, ModelWorkRow, NewTask,
    OwnerFilter, QueueLimits, RunRow, SegmentRow, SessionRow, Status, TaskCount, TaskKind,
    TaskOutcome, TaskQuery, TaskRow, TaskStore,
};

use std::collections::HashMap;

use async_trait::async_trait;
use memory::change::{ChangeId, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;

/// Keeps history, pins and usage.
///
/// A change goes through three steps: [`record`](Self::record) makes it durable with all its new
/// bytes (it is *open*: the redo record), the caller then writes the files, and
/// [`mark_durable`](Self::mark_durable) says that they are safe on the disk. A crash in between leaves an open
/// change that [`open_changes`](Self::open_changes) hands back for replay.
#[async_trait]
pub trait HistoryStore: std::fmt::Debug + Send + Sync {
    /// Durably records a change that is about to happen, moves or drops the pins and usage that it
    /// concerns, and counts its uses; all in one transaction. On `Err` nothing is recorded.
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError>;

    /// Sees to it that the numbers of later changes are above one that was given before: the database that gave it may
    /// be lost.
    async fn raise_change_number(&self, given: ChangeId) -> Result<(), StateError>;

    /// Takes back the record of a change whose files could not be written: heads, pins and usage
    /// are as if it had never been. Only an open change can be withdrawn.
    async fn abort_change(&self, id: ChangeId) -> Result<(), StateError>;

    /// Says that the files of these changes are safe on the disk.
    async fn mark_durable(&self, ids: &[ChangeId]) -> Result<(), StateError>;

    /// Returns the open changes that touch `place`, oldest first, with their new bytes.
    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError>;

    /// Returns what was last recorded of each memory in `place` by a change later than `after`,
    /// removed ones included.
    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError>;

    /// Returns the texts that history knows of one identity, each with the highest trust that it was recorded with.
    async fn recorded_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, Trust>, StateError>;

    /// Returns the texts of one identity that wait for a person, each with the change that wrote it last: an agent did after
    /// it had read what came with a repository and what nobody had reviewed, or a background review did. A text that a
    /// person wrote or accepted since is not among them.
    async fn influenced_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, ChangeId>, StateError>;

    /// Returns changes, newest first.
    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<MemoryChange>, StateError>;

    /// Returns the last changes of each of these memories, at most `max` of each, the newest first. What else a change
    /// did is not read: it may be of ten thousand memories.
    async fn last_changes(
        &self,
        place: &str,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<PathChange>, StateError>;

    /// Returns one change.
    async fn change(&self, id: ChangeId) -> Result<Option<MemoryChange>, StateError>;

    /// Returns the bytes of an earlier or current revision, while history keeps them.
    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError>;

    /// Counts uses.
    async fn add_uses(&self, uses: &[UseEvent]) -> Result<(), StateError>;

    /// Returns the pins and usage of one identity, by path.
    async fn usage_rows(&self, identity: &str) -> Result<Vec<UsageRow>, StateError>;

    /// Pins or unpins a memory. A pin counts as one use; pinning what is pinned changes nothing.
    /// Returns whether anything changed.
    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Adds pins and usage that another host or program recorded, in one transaction. A memory stays pinned if it was,
    /// and keeps the higher count and the later time of each kind, so adding the same marks again changes nothing.
    async fn merge_marks(&self, identity: &str, marks: &[UsageRow]) -> Result<(), StateError>;

    /// Forgets the pins and usage of memories that are gone, and whole identities' when `paths` is
    /// `None`.
    async fn drop_usage(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError>;

    /// Drops history beyond what is to be kept. Open changes, the latest recorded bytes of each
    /// memory and the history of pinned memories stay.
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<PruneReport, StateError>;

    /// Returns counts and sizes.
    async fn stats(&self) -> Result<Stats, StateError>;

    /// Checks the database thoroughly; returns what is wrong with it, in sentences.
    async fn check(&self) -> Result<Vec<String>, StateError>;

    /// Writes out what waits and closes. Later calls open again.
    async fn close(&self);
}
