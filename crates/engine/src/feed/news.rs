//! What there is to tell.

use std::collections::BTreeSet;
use std::path::PathBuf;

use memory::change::{Actor, ChangeId, ChangeKind};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount};
use store::ContextScope;

use crate::task::{ClientId, TaskId, TaskKind};

/// What an event has beside its texts on a wire: names of fields, numbers, times. A little more than
/// the longest of them.
const FRAME_BYTES: usize = 320;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// The client that asked for it.
    pub originator: Option<ClientId>,
    /// What it is.
    pub changed: Changed,
}

/// Which memories changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A task changed some. Told once for the whole task, after it is completed.
    Managed {
        /// Which.
        task: TaskId,
        /// What kind of work it was.
        kind: TaskKind,
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
        /// By whom.
        actor: Actor,
        /// Its bytes afterwards; `None` when it is gone.
        revision: Option<Revision>,
        /// The change in history.
        change: ChangeId,
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

impl News {
    /// Returns about how many bytes this takes on a wire. Only comparisons with other events and with
    /// the bounds of a stream depend on it.
    pub fn bytes(&self) -> u64 {
        let texts = match &self.changed {
            Changed::ContextFile { scope: _, path, write: _, bytes: _ } => path.as_os_str().len(),
            Changed::Managed { task, kind: _, scopes } => task.as_str().len() + 16 * scopes.len(),
            Changed::File { path, moved_to, kind: _, actor: _, revision: _, change: _ } => {
                let moved_to = moved_to.as_ref().map(ToString::to_string).unwrap_or_default();
                path.to_string().len() + moved_to.len()
            }
        };
        let originator = self.originator.as_ref().map_or(0, |client| client.as_str().len());
        u64::try_from(FRAME_BYTES + texts + originator).unwrap_or(u64::MAX)
    }
}
