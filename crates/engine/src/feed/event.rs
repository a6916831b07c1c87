//! What there is to tell.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, Provenance, Trust};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount};
use memory::proposal::{ProposalId, ProposalStatus};
use store::ContextScope;

use crate::task::{ClientId, TaskId, TaskKind};

/// What an event has beside its texts on a wire: names of fields, numbers, times. A little more than
/// the longest of them.
const EVENT_FRAME_BYTES: usize = 400;

/// What the number of a proposal has on a wire, with its comma.
const PROPOSAL_ID_BYTES: usize = 8;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEvent {
    /// The client that asked for it.
    pub originator: Option<ClientId>,
    /// What it is.
    pub change: FeedChange,
}

/// Which memories changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedChange {
    /// A task changed some. Told once for the whole task, after it is completed.
    Task {
        /// Which.
        task: TaskId,
        /// What kind of work it was.
        kind: TaskKind,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
    },
    /// A background review saved something, and people want to be told.
    Review {
        /// The review.
        task: TaskId,
        /// How many entries it saved.
        saved: usize,
        /// Where they lie.
        scopes: BTreeSet<Mount>,
    },
    /// Somebody else changed one: a tool, a person, an editor.
    File {
        /// The memory.
        path: MemoryPath,
        /// Where it went, if it was renamed.
        moved_to: Option<MemoryPath>,
        /// What was done.
        kind: ChangeKind,
        /// By whom, in which session and task.
        by: Arc<Provenance>,
        /// How far its text may be trusted.
        trust: Trust,
        /// Its bytes afterwards; `None` when it is gone.
        revision: Option<Revision>,
        /// The change in history.
        change: ChangeId,
        /// The workspace in which it happened, if the memory belongs to one; another than that of the stream
        /// for a worktree of the same project.
        workspace: Option<Arc<str>>,
    },
    /// A person pinned or unpinned a memory.
    Pin {
        /// The memory.
        path: MemoryPath,
        /// Whether it is pinned now.
        pinned: bool,
        /// By whom.
        by: Arc<Provenance>,
    },
    /// Proposals were made or decided.
    Proposals {
        /// Which.
        ids: Arc<[ProposalId]>,
        /// How far they are now.
        status: ProposalStatus,
        /// The task that made them.
        task: Option<String>,
        /// The change that accepting one made.
        change: Option<ChangeId>,
        /// Who made or decided them.
        by: Arc<Provenance>,
    },
    /// Somebody had a context file written.
    ContextFile {
        /// Whose it is.
        scope: ContextScope,
        /// Where it is.
        path: PathBuf,
        /// What was done.
        write: ContextWrite,
        /// How many bytes were added, or how many the new text has.
        bytes: usize,
    },
}

/// What was done to a context file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextWrite {
    /// Something was added.
    Append,
    /// All of it was replaced.
    Replace,
}

/// Returns how long the names are that an event has of a provenance.
fn names_bytes(by: &Provenance) -> usize {
    let names = [&by.client, &by.session, &by.task].into_iter().flatten();
    names.map(String::len).sum()
}

impl FeedEvent {
    /// Returns about how many bytes this takes on a wire. Only comparisons with other events and with
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
