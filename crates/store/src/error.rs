//! Why the store did not do what it was asked.

use memory::change::ChangeId;
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use memory::path::{MemoryPath, Mount};
use state::StateError;

use crate::backend::BackendError;

/// A memory that keeps an undo from happening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoConflict {
    /// The memory.
    pub path: MemoryPath,
    /// Why, in a sentence.
    pub reason: String,
    /// What changed since: from what the change left to what is there now.
    pub diff: String,
}

/// What the store did not do, and why.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The caller asked for something that cannot be, and can mend it.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// Memories were changed since, so taking the change back would lose that.
    #[error("{} changed since, so nothing was undone", blocked_paths(.0))]
    UndoBlocked(Vec<UndoConflict>),
    /// There is no such change in the memories that this caller may see.
    #[error("there is no change {0} in the history of these memories")]
    NoSuchChange(ChangeId),
    /// A change cannot be taken back in part.
    #[error("a part of change {0} lies in memories that are not open here, so nothing was undone")]
    UndoElsewhere(ChangeId),
    /// There is nothing to take back.
    #[error("there is nothing to undo {0}")]
    NothingToUndo(String),
    /// The files of a root cannot be reached.
    #[error("cannot use the {} memories", mount_name(*.mount))]
    Backend {
        /// Which root.
        mount: Mount,
        /// Why.
        #[source]
        source: BackendError,
    },
    /// The state database cannot be used.
    #[error("cannot use the state database")]
    State(#[from] StateError),
}

fn blocked_paths(blocked: &[UndoConflict]) -> String {
    blocked.iter().map(|one| one.path.to_string()).collect::<Vec<_>>().join(", ")
}

fn mount_name(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.into(),
        Mount::Flat => "mounted",
    }
}

impl StoreError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Refused(refusal) => refusal.code(),
            Self::UndoBlocked(_) => MemoryErrorCode::Conflict,
            Self::UndoElsewhere(_) => MemoryErrorCode::ScopeUnavailable,
            Self::NoSuchChange(_) | Self::NothingToUndo(_) => MemoryErrorCode::NotFound,
            Self::Backend { source, .. } => source.code(),
            Self::State(source) => source.code(),
        }
    }

    /// Says which root a backend failed for.
    pub(crate) fn backend_error(mount: Mount) -> impl Fn(BackendError) -> Self {
        move |source| match source {
            BackendError::NotWritable(error) => {
                let reason = error.kind().to_string();
                CommandError::NotWritable { mount, reason }.into()
            }
            source => Self::Backend { mount, source },
        }
    }
}
