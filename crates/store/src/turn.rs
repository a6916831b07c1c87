//! Turns: what only one process at a time may do, beside writing memories.
//!
//! A turn is a lock file in the state folder. The operating system's lock on it dies with its holder and
//! serves those who wait; nobody polls. The file itself says nothing.

use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;

use tokio::sync::oneshot;

use crate::binding::Folders;
use crate::host;

/// Why a turn could not be taken; it is not that somebody else has it.
#[derive(Debug, thiserror::Error)]
#[error("cannot lock `{path}`")]
pub struct TurnError {
    /// The lock file.
    pub path: PathBuf,
    /// What was found.
    pub source: io::Error,
}

/// What is done by one process at a time: the name of a lock file in the state folder.
#[derive(Clone, Debug)]
pub struct TurnFile {
    path: PathBuf,
}

/// A turn that was taken; dropping it gives it back.
#[derive(Debug)]
pub struct Turn {
    path: PathBuf,
    file: File,
}

impl TurnFile {
    /// Returns the turn of this name: letters, digits, `.`, `_` and `-`.
    pub fn new(folders: &Folders, name: &str) -> Self {
        Self { path: folders.state.join("locks").join(format!("{name}.lock")) }
    }

    /// Takes the turn, however long somebody else has it.
    pub async fn take(&self) -> Result<Turn, TurnError> {
        loop {
            let turn = self.lock().await;
            let turn = turn.map_err(|source| TurnError { path: self.path.clone(), source })?;
            // Whoever removed the file meanwhile let somebody else lock another.
            if turn.is_current() {
                return Ok(turn);
            }
        }
    }

    /// Takes the turn if nobody has it; `None` if somebody does, or if it cannot be told.
    pub async fn take_if_free(&self) -> Option<Turn> {
        let opening = self.clone();
        let turn = tokio::task::spawn_blocking(move || opening.open()).await.ok()?.ok()?;
        turn.file.try_lock().ok()?;
        turn.is_current().then_some(turn)
    }

    async fn lock(&self) -> io::Result<Turn> {
        let opening = self.clone();
        let turn = tokio::task::spawn_blocking(move || opening.open()).await??;
        match turn.file.try_lock() {
            Ok(()) => Ok(turn),
            Err(TryLockError::WouldBlock) => wait(turn).await,
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn open(&self) -> io::Result<Turn> {
        if let Some(folder) = self.path.parent() {
            host::make_private_folder(folder)?;
        }
        Ok(Turn { file: host::open_private_file(&self.path)?, path: self.path.clone() })
    }
}

impl Turn {
    /// Tells whether this is still the file that the next one would lock: somebody may have removed it.
    pub fn is_current(&self) -> bool {
        host::is_at(&self.path, &self.file)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Not left to the closing of the file: a child that is being started may have it open too. An
        // error leaves the turn taken until this process ends, which is the safe side.
        drop(self.file.unlock());
    }
}

/// Waits for the lock in a thread of its own: that may take as long as somebody else's work, and the end
/// of the program waits for the threads of a pool but not for this one.
async fn wait(turn: Turn) -> io::Result<Turn> {
    let (sender, receiver) = oneshot::channel();
    let wait = move || {
        let locked = turn.file.lock().map(|()| turn);
        // When nobody waits for it any more the turn is dropped, and so given back.
        drop(sender.send(locked));
    };
    std::thread::Builder::new().name("quipu-turn".to_owned()).spawn(wait)?;
    receiver.await.map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn file(home: &tempfile::TempDir) -> TurnFile {
        let folders = Folders { data: home.path().to_owned(), state: home.path().join("state") };
        TurnFile::new(&folders, "lane-a")
    }

    #[tokio::test]
    async fn a_turn_is_taken_by_one_and_handed_on() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (file(&home), file(&home));
        let first = one.take().await.unwrap();
        let mut second = Box::pin(two.take());
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut second).await.is_err());
        drop(first);
        assert!(second.await.unwrap().is_current());
    }

    #[tokio::test]
    async fn a_turn_that_somebody_has_is_not_waited_for_by_who_asks_whether_it_is_free() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (file(&home), file(&home));
        let first = one.take_if_free().await.unwrap();
        assert!(two.take_if_free().await.is_none());
        drop(first);
        let second = two.take_if_free().await.unwrap();
        assert!(second.is_current());
        let folders = Folders { data: home.path().to_owned(), state: "/dev/null/state".into() };
        assert!(TurnFile::new(&folders, "lane-a").take_if_free().await.is_none());
    }

    #[tokio::test]
    async fn who_gave_up_waiting_keeps_nobody_from_the_turn() {
        let home = tempfile::tempdir().unwrap();
        let (one, two) = (file(&home), file(&home));
        let first = one.take().await.unwrap();
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, two.take()).await.is_err());
        drop(first);
        one.take().await.unwrap();
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "somebody removes the lock file by hand")]
    async fn a_turn_whose_file_was_removed_says_so() {
        let home = tempfile::tempdir().unwrap();
        let turn = file(&home).take().await.unwrap();
        std::fs::remove_file(home.path().join("state/locks/lane-a.lock")).unwrap();
        assert!(!turn.is_current());
        assert!(file(&home).take().await.unwrap().is_current());
    }

    #[tokio::test]
    async fn where_no_file_can_be_made_there_is_no_turn() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders { data: home.path().to_owned(), state: "/dev/null/state".into() };
        let refused = TurnFile::new(&folders, "lane-a").take().await;
        assert_eq!(refused.unwrap_err().path, PathBuf::from("/dev/null/state/locks/lane-a.lock"));
        assert!(!home.path().join("state").exists());
    }
}
