//! The events of a feed, with an estimate of their encoded size.
//!
//! An event says which memories changed and who changed them. It carries no text of a memory:
//! clients read that with their own access.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, Provenance, Trust};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount};
use memory::proposal::{ProposalId, ProposalStatus};
use store::ContextScope;

use crate::task::{ClientId, TaskId, TaskKind};

/// Encoded size of an event beside its texts: field names, numbers, times. Slightly above the
/// longest combination.
const EVENT_FRAME_BYTES: usize = 400;

/// Encoded size of a proposal's number, with its comma.
const PROPOSAL_ID_BYTES: usize = 8;

/// A published event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// The client that requested the change, if known.
    pub originator: Option<ClientId>,
    /// The change itself.
    pub change: FeedChange,
}

/// The change that an event reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChange {
    /// A task changed memories. Published once per task, after it is completed.
    Task {
        /// Id of the task.
        task: TaskId,
        /// The kind of the task.
        kind: TaskKind,
        /// The mounts of the changed memories.
        scopes: BTreeSet<Mount>,
    },
    /// A background review saved memories, and the user wants to be notified.
    Review {
        /// The task of the review.
        task: TaskId,
        /// Number of saved entries.
        saved: usize,
        /// The mounts of the changed memories.
        scopes: BTreeSet<Mount>,
    },
    /// A memory was changed by other means: a tool, a person, an editor.
    File {
        /// The changed memory.
        path: MemoryPath,
        /// The new path, if it was renamed.
        moved_to: Option<MemoryPath>,
        /// The kind of change.
        kind: ChangeKind,
        /// The provenance of the change.
        by: Arc<Provenance>,
        /// The trust in the new text.
        trust: Trust,
        /// The revision afterwards; `None` if the memory was deleted.
        revision: Option<Revision>,
        /// The id of the change in history.
        change: ChangeId,
        /// The workspace in which it happened, if the memory belongs to one. Differs from that of
        /// the stream for a sibling worktree.
        workspace: Option<Arc<str>>,
    },
    /// A user pinned or unpinned a memory.
    Pin {
        /// The memory.
        path: MemoryPath,
        /// Whether it is pinned now.
        pinned: bool,
        /// The provenance of the pin.
        by: Arc<Provenance>,
    },
    /// Proposals were made or decided.
    Proposals {
        /// The ids of the proposals.
        ids: Arc<[ProposalId]>,
        /// Their status now.
        status: ProposalStatus,
        /// The task that made them, if any.
        task: Option<String>,
        /// The change that was made by accepting one.
        change: Option<ChangeId>,
        /// The provenance of the proposals or the decision.
        by: Arc<Provenance>,
    },
    /// A context file was written through this process.
    ContextFile {
        /// The scope of the file.
        scope: ContextScope,
        /// The path of the file.
        path: PathBuf,
        /// The kind of write.
        write: ContextWrite,
        /// Number of bytes appended, or size of the new text.
        bytes: usize,
    },
}

/// The kind of write to a context file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextWrite {
    /// Text was appended.
    Append,
    /// The whole text was replaced.
    Replace,
}

/// Returns the length of the names of a provenance that an event contains.
fn names_bytes(by: &Provenance) -> usize {
    let names = [&by.client, &by.session, &by.task].into_iter().flatten();
    names.map(String::len).sum()
}

impl FeedEvent {
    /// Returns the approximate encoded size in bytes. Only comparisons with other events and with
    /// the bounds of a stream depend on it.
    pub fn bytes(&self) -> u64 {
        let texts = match &self.change {
            FeedChange::ContextFile { scope: _, path, write: _, bytes: _ } => {
                path.as_os_str().len()
            }
            FeedChange::Task { task, kind: _, scopes }
            | FeedChange::Review { task, saved: _, scopes } => {
                task.as_str().len() + 16 * scopes.len()
            }
            FeedChange::File { path, moved_to, by, workspace, .. } => {
                let moved_to = moved_to.as_ref().map(ToString::to_string).unwrap_or_default();
                let workspace = workspace.as_ref().map_or(0, |workspace| workspace.len());
                path.to_string().len() + moved_to.len() + names_bytes(by) + workspace
            }
            FeedChange::Proposals { ids, status: _, task, change: _, by: _ } => {
                PROPOSAL_ID_BYTES * ids.len() + task.as_ref().map_or(0, String::len)
            }
            FeedChange::Pin { path, pinned: _, by } => path.to_string().len() + names_bytes(by),
        };
        let originator = self.originator.as_ref().map_or(0, |client| client.as_str().len());
        u64::try_from(EVENT_FRAME_BYTES + texts + originator).expect("a length fits 64 bits")
    }
}
