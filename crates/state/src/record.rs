//! The records that go into and come out of the state.

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
    /// When.
    pub at: Timestamp,
    /// What is done.
    pub kind: ChangeKind,
    /// By whom.
    pub provenance: Provenance,
    /// Which attempt at the task that it is made for makes it. Unless that one runs and the task has no
    /// change yet, nothing is recorded.
    pub attempt: Option<u32>,
    /// The proposal that it accepts. Unless that one waits, nothing is recorded.
    pub accepts: Option<ProposalId>,
    /// The change that it takes back.
    pub undoes: Option<ChangeId>,
    /// A folder taken as a whole.
    pub folder: Option<FolderChange>,
    /// What becomes of each memory, in order.
    pub files: Vec<NewFileChange>,
    /// Uses to count in the same transaction, under the paths that are valid afterwards.
    pub uses: Vec<UseEvent>,
}

/// What becomes of one memory, with its bytes.
#[derive(Clone, Debug)]
pub struct NewFileChange {
    /// What becomes of it.
    pub change: FileChange,
    /// Its bytes before, to be kept for undo; `None` if there were none or they are too large.
    pub before: Option<Arc<[u8]>>,
    /// Its bytes after; `None` if it is removed or only moved.
    pub after: Option<Arc<[u8]>>,
    /// Whether its text after waits for a person: it was written under the influence of text that came with a repository,
    /// or by a background review; see [`State::influenced`](crate::HistoryStore::influenced_revisions).
    pub influenced: bool,
}

/// A recorded change whose files may not be safe on the disk yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenChange {
    /// The change.
    pub change: MemoryChange,
    /// The new bytes of those files of the change that were written, in the order of its files.
    pub files: Vec<OpenFile>,
}

/// The new bytes of one file of an open change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFile {
    /// Which of the change's files.
    pub index: usize,
    /// Its bytes after.
    pub bytes: Vec<u8>,
}

/// What was last recorded of a memory in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its path.
    pub path: RelativePath,
    /// Its bytes' digest; `None` when it was removed.
    pub revision: Option<Revision>,
    /// How far its text may be trusted.
    pub trust: Trust,
    /// The change that left it so.
    pub change: ChangeId,
}

/// What a change did to the memory that lay at a path after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathChange {
    /// The path.
    pub path: RelativePath,
    /// The change.
    pub id: ChangeId,
    /// When.
    pub at: Timestamp,
    /// Who made it.
    pub actor: Actor,
    /// The model that asked for it.
    pub model: Option<String>,
    /// The digest of the bytes before; none when nothing was there, at this path or at the one that it had before.
    pub before: Option<Revision>,
    /// The digest of the bytes after; none when it was removed.
    pub after: Option<Revision>,
    /// How far the text may be trusted since then.
    pub trust: Trust,
}

/// Which changes to return.
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
    /// Only changes by this one.
    pub actor: Option<Actor>,
    /// Only changes at or after this time.
    pub since: Option<Timestamp>,
    /// Only changes at or before this time.
    pub until: Option<Timestamp>,
    /// Only changes before this one: the cursor.
    pub before: Option<ChangeId>,
    /// Only changes after this one.
    pub after: Option<ChangeId>,
    /// At most so many.
    pub max: usize,
}

/// One use of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UseEvent {
    /// Whose memory.
    pub identity: String,
    /// Which one.
    pub path: RelativePath,
    /// When.
    pub at: Timestamp,
    /// Whether the use wrote it.
    pub is_write: bool,
}

/// What a person and their agents made of a memory on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageRow {
    /// Its path.
    pub path: RelativePath,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used.
    pub usage: Usage,
}

/// How much history to keep: whatever is within both bounds. Decided proposals are kept as long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long.
    pub age: Duration,
    /// How many stored bytes of earlier contents.
    pub bytes: u64,
}

/// What a pruning dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Changes.
    pub changes: u64,
    /// Stored bytes.
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
    /// Tasks that are kept, finished ones included.
    pub tasks: u64,
    /// Sessions that were not ended.
    pub sessions: u64,
    /// Bytes of the database on disk.
    pub database_bytes: u64,
}
