//! The state: data that outlives a restart beside the memory files.
//!
//! Two ports: [`HistoryStore`] keeps history, heads, pins and usage; [`TaskStore`] keeps the queue of tasks, sessions,
//! runs, conversations and proposals. [`SqliteState`] implements both in one SQLite file that several processes share.
//!
//! The memory files stay the source of truth. This crate never opens one, checks no permissions and reads no clock:
//! callers pass in times and facts. A damaged database is repaired in place, or set aside whole and replaced by an
//! empty one.
//!
//! The crate also holds what processes of a host share beside the database: file locks and private files.

mod copy;
mod error;
mod event_log;
mod file_lock;
mod locks;
mod outside_readers;
pub mod private_files;
mod proposal;
mod record;
pub mod rows;
mod sqlite;
mod task;
pub mod transfer;

pub use copy::copy_database;
pub use error::{Fault, FaultClass, StateError};
pub use event_log::{
    Announcement, EventLog, LogBounds, LogEntry, LoggedEvent, PinEvent, ProposalStatusEvent,
    TaskEndEvent,
};
pub use file_lock::{FileLock, FileLockError, FileLockGuard, LockMode};
pub use locks::{HeldLock, LANE_LOCK, LockError, Locks};
pub use outside_readers::OutsideReaders;
pub use proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};
pub use record::{
    ChangeQuery, Head, LockHold, NewChange, NewFileChange, OpenChange, OpenFile, PathChange,
    PruneReport, Retention, Stats, UsageRow, UseEvent,
};
pub use sqlite::{SqliteImport, SqliteSnapshot, SqliteState, StateRepair, set_aside_databases};
pub use task::{
    Attempt, ConversationRow, DreamPreconditions, EnqueueResult, LastDream, ModelWorkRow, NewTask,
    OwnerFilter, QueueLimits, RunRow, SegmentRow, SessionRow, Status, TaskCount, TaskEffect,
    TaskKind, TaskOutcome, TaskQuery, TaskRow, TaskStore,
};

use std::collections::HashMap;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;

/// Both ports on one database.
pub trait State: HistoryStore + TaskStore {}

impl<T: HistoryStore + TaskStore> State for T {}

/// A store of history, pins and usage.
///
/// A change goes through three steps. [`record`](Self::record) makes it durable with all its new bytes; it is *open*
/// then, and serves as the redo record. The caller writes the files. [`mark_durable`](Self::mark_durable) closes the
/// change once the files are safe on the disk. A crash in between leaves an open change, which
/// [`open_changes`](Self::open_changes) returns for replay.
#[async_trait]
pub trait HistoryStore: std::fmt::Debug + Send + Sync {
    /// Durably records a change that is about to happen, moves or drops the pins and usage that it concerns, and counts
    /// its uses. All of it is one transaction: on `Err` nothing is recorded.
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError>;

    /// Returns the identity of the database, and creates the database if there is none.
    async fn database_id(&self) -> Result<DatabaseId, StateError>;

    /// Makes the numbers of later changes higher than `given`. Used when the database that gave this number may be
    /// lost.
    async fn raise_change_number(&self, given: ChangeId) -> Result<(), StateError>;

    /// Withdraws the record of a change whose files could not be written: heads, pins and usage are restored. Only an
    /// open change can be withdrawn.
    async fn abort_change(&self, id: ChangeId) -> Result<(), StateError>;

    /// Marks these changes as durable: their files are safe on the disk.
    async fn mark_durable(&self, ids: &[ChangeId]) -> Result<(), StateError>;

    /// Returns the open changes that touch `place`, oldest first, with their new bytes.
    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError>;

    /// Returns the heads of `place` that a change later than `after` left, those of removed memories included.
    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError>;

    /// Returns the recorded texts of one identity, each with the highest trust that it was recorded with.
    async fn recorded_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, Trust>, StateError>;

    /// Returns the texts of one identity that wait for a person's review, each with the change that wrote it last.
    /// Either an agent wrote the text after it had read unreviewed text from a repository, or a background review wrote
    /// it. Texts that a person wrote or accepted since are left out.
    async fn influenced_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, ChangeId>, StateError>;

    /// Returns changes, newest first.
    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<MemoryChange>, StateError>;

    /// Returns the last changes of each of these memories, newest first, at most `max` of each. Other files of a change
    /// are not read: one change may be of ten thousand memories.
    async fn last_changes(
        &self,
        place: &str,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<PathChange>, StateError>;

    /// Returns one change.
    async fn change(&self, id: ChangeId) -> Result<Option<MemoryChange>, StateError>;

    /// Returns the bytes of an earlier or current revision, as long as history keeps them.
    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError>;

    /// Counts uses.
    async fn add_uses(&self, uses: &[UseEvent]) -> Result<(), StateError>;

    /// Returns the pins and usage of one identity, by path.
    async fn usage_rows(&self, identity: &str) -> Result<Vec<UsageRow>, StateError>;

    /// Pins or unpins a memory. A pin counts as one use; pinning a pinned memory changes nothing. Returns whether
    /// anything changed.
    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError>;

    /// Adds pins and usage that another host or program recorded, in one transaction. A memory stays pinned if it was,
    /// and keeps the higher count and the later time of each kind, so adding the same marks again changes nothing.
    async fn merge_marks(&self, identity: &str, marks: &[UsageRow]) -> Result<(), StateError>;

    /// Drops the pins and usage of memories that no longer exist; of the whole identity when `paths` is `None`.
    async fn drop_usage(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError>;

    /// Drops history beyond `retention`. Open changes, the latest recorded bytes of each memory and the history of
    /// pinned memories stay.
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<PruneReport, StateError>;

    /// Returns counts and sizes.
    async fn stats(&self) -> Result<Stats, StateError>;

    /// Checks the whole database; returns each problem as a sentence.
    async fn check(&self) -> Result<Vec<String>, StateError>;

    /// Writes pending data to the disk and closes all connections. Later calls open them again.
    async fn close(&self);
}
