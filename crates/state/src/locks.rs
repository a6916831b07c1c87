//! Locks by name, between the processes that share a state.

use std::fmt::Debug;

use async_trait::async_trait;
use memory::error_code::MemoryErrorCode;

use crate::error::StateError;
use crate::file_lock::{FileLockError, FileLockGuard};

/// Begins the name of the lock of a lane; the id of the workspace follows.
pub const LANE_LOCK: &str = "lane-";

/// Locks by name, each of which one process holds at a time. A process that dies loses its locks.
#[async_trait]
pub trait Locks: Debug + Send + Sync {
    /// Acquires the lock of this name, waiting until it is free. The name consists of letters, digits, `.`, `_` and `-`.
    async fn acquire(&self, name: &str) -> Result<Box<dyn HeldLock>, LockError>;
}

/// A held lock; dropping it releases the lock.
pub trait HeldLock: Debug + Send + Sync {
    /// Returns whether no other process can have acquired the lock meanwhile.
    fn is_current(&self) -> bool;
}

impl HeldLock for FileLockGuard {
    fn is_current(&self) -> bool {
        Self::is_current(self)
    }
}

/// An error of a lock. A lock that another process holds is not an error.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file cannot be used.
    #[error(transparent)]
    File(#[from] FileLockError),
    /// The database that keeps the lock cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

impl LockError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::File(_) => MemoryErrorCode::StorageFailed,
            Self::State(error) => error.code(),
        }
    }
}
