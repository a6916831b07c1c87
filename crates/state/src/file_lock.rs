//! Advisory locks on files, between processes.
//!
//! The operating system ties such a lock to an open file, releases it when its holder dies, and queues waiting
//! processes. Every acquisition opens the file separately. So two acquisitions in one process exclude each other too,
//! and releasing one never releases the other. That holds even for an acquisition whose caller stopped waiting.
//!
//! A lock file that was removed or replaced does not exclude later processes. An acquisition detects that and locks the
//! file that is at the path now. A holder calls [`FileLockGuard::is_current`].

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use crate::private_files::{create_private_folder, is_same_file, open_private_file};

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Held together with other shared holders.
    Shared,
    /// Held by one holder alone.
    Exclusive,
}

/// An error of a lock file. A lock that another holder has is not an error.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock `{path}`")]
pub struct FileLockError {
    /// The lock file.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

/// A lock kept in a file. Cheap to clone; no file is opened or created before it is acquired.
#[derive(Clone, Debug)]
pub struct FileLock {
    path: PathBuf,
    makes_folder: bool,
}

impl FileLock {
    /// Returns the lock at a path. Its folder must exist when the lock is acquired.
    pub fn new(path: PathBuf) -> Self {
        Self { path, makes_folder: false }
    }

    /// Returns the lock at a path. Acquiring it creates its folder, for the owner alone.
    pub fn with_folder(path: PathBuf) -> Self {
        Self { path, makes_folder: true }
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tries to acquire the lock without waiting; `None` if another holder has it.
    pub fn try_acquire(&self, mode: LockMode) -> Result<Option<FileLockGuard>, FileLockError> {
        self.try_lock(mode).map_err(|source| self.error(source))
    }

    /// Acquires the lock, waiting until it is free.
    pub async fn acquire(&self, mode: LockMode) -> Result<FileLockGuard, FileLockError> {
        self.wait(mode).await.map_err(|source| self.error(source))
    }

    /// Returns whether the lock is held exclusively. Creates no file.
    #[expect(clippy::disallowed_methods, reason = "a file that does not exist must not be made")]
    pub fn is_held(&self) -> Result<bool, FileLockError> {
        let probe = || match File::open(&self.path) {
            Ok(file) => Ok(self.lock_open(file, LockMode::Shared)?.is_none()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        };
        probe().map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> FileLockError {
        FileLockError { path: self.path.clone(), source }
    }

    fn try_lock(&self, mode: LockMode) -> io::Result<Option<FileLockGuard>> {
        for _ in 0..LOCK_FILES_TRIED_MAX {
            match self.lock_open(self.open()?, mode)? {
                Some(guard) if !guard.is_current() => {}
                acquired => return Ok(acquired),
            }
        }
        Err(always_replaced())
    }

    /// Waits for a held lock on a dedicated thread. The wait may take as long as another process works, and program
    /// exit waits for the threads of a pool but not for this one. If the caller stops waiting, the guard that still
    /// arrives is dropped.
    async fn wait(&self, mode: LockMode) -> io::Result<FileLockGuard> {
        let lock = self.clone();
        let free = tokio::task::spawn_blocking(move || lock.try_lock(mode));
        if let Some(guard) = free.await.map_err(io::Error::other)?? {
            return Ok(guard);
        }
        let (sender, receiver) = oneshot::channel();
        let lock = self.clone();
        let wait = move || drop(sender.send(lock.lock(mode)));
        std::thread::Builder::new().name("lukasa-lock".to_owned()).spawn(wait)?;
        receiver.await.map_err(io::Error::other)?
    }

    fn lock(&self, mode: LockMode) -> io::Result<FileLockGuard> {
        for _ in 0..LOCK_FILES_TRIED_MAX {
            let file = self.open()?;
            match mode {
                LockMode::Shared => file.lock_shared()?,
                LockMode::Exclusive => file.lock()?,
            }
            let guard = FileLockGuard { path: self.path.clone(), file };
            if guard.is_current() {
                return Ok(guard);
            }
        }
        Err(always_replaced())
    }

    fn lock_open(&self, file: File, mode: LockMode) -> io::Result<Option<FileLockGuard>> {
        let locked = match mode {
            LockMode::Shared => file.try_lock_shared(),
            LockMode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) => Ok(Some(FileLockGuard { path: self.path.clone(), file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self) -> io::Result<File> {
        match open_private_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.makes_folder => {
                self.path.parent().map_or(Ok(()), create_private_folder)?;
                open_private_file(&self.path)
            }
            opened => opened,
        }
    }
}

/// Maximum number of lock files that one acquisition opens if each is replaced before it is locked.
const LOCK_FILES_TRIED_MAX: usize = 100;

fn always_replaced() -> io::Error {
    io::Error::other("the lock file was replaced on every attempt")
}

/// A held lock; dropping it releases the lock.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct FileLockGuard {
    path: PathBuf,
    file: File,
}

impl FileLockGuard {
    /// Returns the lock file, open for reading and writing.
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the locked file is still at its path. If not, the next process locks another file.
    pub fn is_current(&self) -> bool {
        is_same_file(&self.path, &self.file)
    }
}

impl Drop for FileLockGuard {
    fn drop(&mut self) {
        // Explicit, because closing the file may not release the lock: a child process that is being started may have
        // it open too. On an error the lock stays held until this process ends, which is the safe side.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(path = %self.path.display(), %error, "cannot release a lock");
        }
    }
}

#[cfg(test)]
mod tests;
