//! Errors of the store: refusals that the caller can correct, and faults of storage or state.

use memory::change::ChangeId;
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use memory::path::{MemoryPath, Mount, Scope};
use state::StateError;

use crate::backend::BackendError;

/// A memory that blocks an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoConflict {
    /// The memory.
    pub path: MemoryPath,
    /// Reason, in one sentence.
    pub reason: String,
    /// Unified diff from the content after the change to the current content.
    pub diff: String,
}

/// An error of a store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A refusal that the caller can correct.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// An undo that would lose later changes of these memories.
    #[error("{} changed since, so nothing was undone", blocked_paths(.0))]
    UndoBlocked(Vec<UndoConflict>),
    /// A change that does not exist in the memories of this caller.
    #[error("there is no change {0} in the history of these memories")]
    NoSuchChange(ChangeId),
    /// A change that also touches roots that are not open here; a change is never undone in part.
    #[error("change {0} also touches memories that are not open here, so nothing was undone")]
    UndoElsewhere(ChangeId),
    /// An undo without effect.
    #[error("nothing to undo: {0}")]
    NothingToUndo(String),
    /// A fault of the storage of a root.
    #[error("cannot use the {} memories", mount_name(*.mount))]
    Backend {
        /// The mount of the root.
        mount: Mount,
        /// The cause.
        #[source]
        source: BackendError,
    },
    /// A fault of the state database.
    #[error("cannot use the state database")]
    State(#[from] StateError),
}

fn blocked_paths(blocked: &[UndoConflict]) -> String {
    blocked.iter().map(|conflict| conflict.path.to_string()).collect::<Vec<_>>().join(", ")
}

fn mount_name(mount: Mount) -> &'static str {
    match mount {
        Mount::Scope(scope) => scope.into(),
        Mount::Flat => "mounted",
    }
}

/// Returns the refusal for a root that cannot be used now.
pub(crate) fn unavailable(mount: Mount, reason: String) -> CommandError {
    let scope = match mount {
        Mount::Scope(scope) => scope,
        Mount::Flat => Scope::Global,
    };
    CommandError::ScopeUnavailable { scope, reason }
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

    /// Converts a backend error of this mount; a folder that is not writable becomes a refusal.
    pub(crate) fn backend_error(mount: Mount) -> impl Fn(BackendError) -> Self {
        move |source| match source {
            BackendError::NotWritable(error) => {
                let reason = error.kind().to_string();
                CommandError::NotWritable { mount, reason }.into()
            }
            BackendError::Unreachable(reason) => unavailable(mount, reason).into(),
            source => Self::Backend { mount, source },
        }
    }
}
