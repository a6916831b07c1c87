//! Advisory locks on files, between processes.
//!
//! The operating system ties such a lock to an open file: it is released when its holder dies, and it serves waiting
//! processes itself. Every acquisition opens the file for itself. Two acquisitions in one process so exclude each other
//! too, and the release of one never releases the other, not even one whose caller stopped waiting for it.
//!
//! A lock file that was removed or replaced does not exclude later processes. An acquisition notices that and locks the
//! file that is at the path then; a holder asks [`FileLockGuard::is_current`].

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::oneshot;

use crate::private_files::{create_private_folder, is_same_file, open_private_file};

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Together with other shared holders.
    Shared,
    /// By one holder alone.
    Exclusive,
}

/// Why a lock cannot be acquired. That another holder has it is no error.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock `{path}`")]
pub struct FileLockError {
    /// The lock file.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// A lock that is a file. Cheap to clone; nothing is opened or made before it is acquired.
#[derive(Clone, Debug)]
pub struct FileLock {
    path: PathBuf,
    makes_folder: bool,
}

impl FileLock {
    /// Returns the lock at a path. Its folder must exist when it is acquired.
    pub fn new(path: PathBuf) -> Self {
        Self { path, makes_folder: false }
    }

    /// Returns the lock at a path, which makes its folder when it is acquired, for the owner alone.
    pub fn with_folder(path: PathBuf) -> Self {
        Self { path, makes_folder: true }
    }

    /// Returns the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tries to acquire the lock without waiting; `None` if it is held.
    pub fn try_acquire(&self, mode: LockMode) -> Result<Option<FileLockGuard>, FileLockError> {
        self.try_lock(mode).map_err(|source| self.error(source))
    }

    /// Acquires the lock, and waits as long as it is held.
    pub async fn acquire(&self, mode: LockMode) -> Result<FileLockGuard, FileLockError> {
        self.wait(mode).await.map_err(|source| self.error(source))
    }

    /// Tells whether the lock is held exclusively. Makes no file.
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

    /// Waits for a lock that is held in a thread of its own: that may take as long as another process works, and the
    /// end of the program waits for the threads of a pool but not for this one. If the caller stops waiting, the guard
    /// that still arrives is dropped.
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

/// How many lock files one acquisition opens, each of which was replaced before it was locked.
const LOCK_FILES_TRIED_MAX: usize = 100;

fn always_replaced() -> io::Error {
    io::Error::other("the lock file is replaced again and again")
}

/// A lock that is held; dropping it releases the lock.
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

    /// Tells whether the held file is still at its path. If it is not, the next process locks another.
    pub fn is_current(&self) -> bool {
        is_same_file(&self.path, &self.file)
    }
}

impl Drop for FileLockGuard {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child that is being started may have it open too. An error leaves
        // the lock held until this process ends, which is the safe side.
        if let Err(error) = self.file.unlock() {
            tracing::warn!(path = %self.path.display(), %error, "cannot release a lock");
        }
    }
}

#[cfg(test)]
mod tests;
