//! The records that go into and come out of [`HistoryStore`](crate::HistoryStore).

use std::sync::Arc;
use std::time::Duration;

use memory::change::{
    Actor, ChangeId, ChangeKind, FileChange, FolderChange, MemoryChange, Provenance, Trust,
};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use memory::proposal::ProposalId;
use memory::usage::Usage;

/// A change that is about to happen.
#[derive(Clone, Debug)]
pub struct NewChange {
    /// Time of the change.
    pub at: Timestamp,
    /// The kind of operation.
    pub kind: ChangeKind,
    /// The author of the change, and the door it came through.
    pub provenance: Provenance,
    /// The number of the task attempt that makes the change. If that attempt no longer runs or the task already has a
    /// change, nothing is recorded.
    pub attempt: Option<u32>,
    /// The proposal that the change accepts. If it is not waiting, nothing is recorded.
    pub accepts: Option<ProposalId>,
    /// The change that this one undoes.
    pub undoes: Option<ChangeId>,
    /// The folder that is moved or removed as a whole.
    pub folder: Option<FolderChange>,
    /// The changed files, in order.
    pub files: Vec<NewFileChange>,
    /// Uses to count in the same transaction, under the paths that are valid afterwards.
    pub uses: Vec<UseEvent>,
    /// The locks that its writer holds, as far as they may be lost. If one is lost, nothing is recorded, and the change is
    /// not withdrawn.
    pub holds: Vec<LockHold>,
}

/// A lock on a root that its holder loses if it does not renew it in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHold {
    /// The place of the root.
    pub place: String,
    /// The number under which the holder has it. A later holder has a higher one.
    pub fence: i64,
}

/// The change of one file, with its bytes.
#[derive(Clone, Debug)]
pub struct NewFileChange {
    /// The change without bytes.
    pub change: FileChange,
    /// Bytes before, kept for undo; `None` if there were none or they are too large.
    pub before: Option<Arc<[u8]>>,
    /// Bytes after; `None` if the file is removed or only moved.
    pub after: Option<Arc<[u8]>>,
    /// Whether the text after waits for a person's review. It was influenced by text that came with a repository, or
    /// written by a background review; see [`influenced_revisions`](crate::HistoryStore::influenced_revisions).
    pub influenced: bool,
}

/// A recorded change whose files may not be safe on the disk yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenChange {
    /// The change.
    pub change: MemoryChange,
    /// New bytes of the files that the change wrote, in the order of its files.
    pub files: Vec<OpenFile>,
}

/// The new bytes of one file of an open change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Index of the file in the change.
    pub index: usize,
    /// Bytes after.
    pub bytes: Vec<u8>,
}

/// The last recorded state of a memory in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its path.
    pub path: RelativePath,
    /// Digest of its bytes; `None` if it was removed.
    pub revision: Option<Revision>,
    /// Trust of its text.
    pub trust: Trust,
    /// The change that left it so.
    pub change: ChangeId,
}

/// The effect of a change on the memory that is at a path after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: RelativePath,
    /// The change.
    pub id: ChangeId,
    /// Time of the change.
    pub at: Timestamp,
    /// The author of the change.
    pub actor: Actor,
    /// The model that requested it.
    pub model: Option<String>,
    /// Digest of the bytes before; `None` if no file was at this path or at its former one.
    pub before: Option<Revision>,
    /// Digest of the bytes after; `None` if the file was removed.
    pub after: Option<Revision>,
    /// Trust of the text since then.
    pub trust: Trust,
}

/// A query for changes.
#[derive(Clone, Debug, Default)]
pub struct ChangeQuery {
    /// Only changes in one of these places; empty means in any.
    pub places: Vec<String>,
    /// Only changes of this memory, or of anything below this folder, in the first of `places`.
    pub path: Option<RelativePath>,
    /// Only changes of this task.
    pub task: Option<String>,
    /// Only changes of this session of a host.
    pub session: Option<String>,
    /// Only changes by this actor.
    pub actor: Option<Actor>,
    /// Only changes at or after this time.
    pub since: Option<Timestamp>,
    /// Only changes at or before this time.
    pub until: Option<Timestamp>,
    /// Only changes with a lower number: the cursor.
    pub before: Option<ChangeId>,
    /// Only changes with a higher number.
    pub after: Option<ChangeId>,
    /// The maximum number of results.
    pub max: usize,
}

/// One use of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseEvent {
    /// Identity of the memory's root.
    pub identity: String,
    /// Path of the memory.
    pub path: RelativePath,
    /// Time of the use.
    pub at: Timestamp,
    /// Whether the use was a write.
    pub is_write: bool,
}

/// The pin and the usage of a memory on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Its path.
    pub path: RelativePath,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// Use counts and times.
    pub usage: Usage,
}

/// The bounds of the kept history; both apply. Decided proposals are kept for the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Maximum age.
    pub age: Duration,
    /// Maximum stored bytes of earlier contents.
    pub bytes: u64,
}

/// The amounts that a pruning dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Dropped changes.
    pub changes: u64,
    /// Dropped stored bytes.
    pub bytes: u64,
}

/// Counts and sizes of the state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Changes recorded and kept.
    pub changes: u64,
    /// Changes still open.
    pub open: u64,
    /// Stored bytes of contents, compressed.
    pub content_bytes: u64,
    /// Stored tasks, finished ones included.
    pub tasks: u64,
    /// Sessions that have not ended.
    pub sessions: u64,
    /// Bytes of the database on disk.
    pub database_bytes: u64,
}
