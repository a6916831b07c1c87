//! The files by which a daemon is found and entered: its lock, its token, its socket.
//!
//! All lie in the state folder, where only this person gets at them. A daemon holds the lock as long
//! as it lives, so that a state folder has one; what the lock file says is where it listens.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use memory::error_code::MemoryErrorCode;
use protocol::client::{Client, Endpoint, ParseEndpointError};
use serde::{Deserialize, Serialize};
use state::private_files::create_private_folder;
use state::{FileLock, FileLockGuard, LockMode};

use crate::app;
use crate::exit::Failure;
use crate::files::{self, Overwrite};

/// Bytes of a token that is made: nobody guesses them.
const TOKEN_BYTES: usize = 32;

/// Where a daemon listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonRecord {
    /// Its process.
    pub(crate) pid: u32,
    /// Its address, as the beginning of a URL.
    pub(crate) url: String,
    /// Its socket, unless the path of the state folder is too long for one.
    pub(crate) socket: Option<PathBuf>,
    /// The file that holds its token, unless it was given one.
    pub(crate) token_file: Option<PathBuf>,
}

impl DaemonRecord {
    /// Returns somebody who may call it.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let door = match &self.socket {
            Some(socket) => Ok(Endpoint::Socket(socket.clone())),
            None => self.url.parse(),
        };
        let failed = |error: &dyn std::error::Error| {
            Failure::new(MemoryErrorCode::StorageFailed, error.to_string())
        };
        let door = door.map_err(|error: ParseEndpointError| failed(&error))?;
        let token = match &self.token_file {
            Some(file) => token(file)?,
            None => app::token().ok_or_else(|| {
                Failure::usage("the daemon was given a token that is in no file")
                    .help("set LUKASA_TOKEN to it")
            })?,
        };
        Client::new(door, &token).map_err(|error| failed(&error))
    }
}

/// The right to be the daemon of a state folder; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct DaemonLock(FileLockGuard);

impl DaemonLock {
    /// Takes the lock. A failure says where the daemon that has it listens.
    pub(crate) fn acquire(state: &Path) -> Result<Self, Failure> {
        let lock = FileLock::with_folder(lock_file(state)).try_acquire(LockMode::Exclusive);
        let lock = lock.map_err(|error| Failure::file("lock", &error.path, &error.source))?;
        lock.map(Self).ok_or_else(|| {
            let what = match find(state) {
                Some(DaemonRecord { pid, url, .. }) => {
                    format!("a daemon listens at {url} already (process {pid})")
                }
                None => "a daemon is starting, or ending, already".to_owned(),
            };
            Failure::new(MemoryErrorCode::Locked, what)
                .help("one serves all; `--workspace DIR` gives it more folders")
        })
    }

    /// Says where the daemon listens.
    pub(crate) fn write_record(&self, place: &DaemonRecord) -> Result<(), Failure> {
        let text = serde_json::to_string(place).unwrap_or_default();
        let written = self.clear().and_then(|()| self.0.file().write_all(text.as_bytes()));
        written.map_err(|error| Failure::file("write", self.0.path(), &error))
    }

    fn clear(&self) -> std::io::Result<()> {
        let mut file = self.0.file();
        file.set_len(0)?;
        file.rewind()
    }
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        // Whoever finds an old place finds nobody there: nothing depends on this.
        self.clear().unwrap_or_default();
    }
}

fn lock_file(state: &Path) -> PathBuf {
    state.join("daemon.lock")
}

/// Returns where the daemon of a state folder said that it listens.
pub(crate) fn find(state: &Path) -> Option<DaemonRecord> {
    serde_json::from_str(&files::read_optional(&lock_file(state)).ok()??).ok()
}

/// Returns the file that holds the token.
pub(crate) fn token_file(state: &Path) -> PathBuf {
    state.join("token")
}

/// Returns the token of a file; makes both if they are not there.
pub(crate) fn token(path: &Path) -> Result<String, Failure> {
    let wrong = |error: &std::io::Error| Failure::file("use the token in", path, error);
    if let Some(token) = files::read_optional(path).map_err(|error| wrong(&error))? {
        return Ok(token.trim().to_owned());
    }
    if let Some(folder) = path.parent() {
        create_private_folder(folder).map_err(|error| wrong(&error))?;
    }
    let mut made = files::random_hex(TOKEN_BYTES).map_err(|error| wrong(&error))?;
    made.push('\n');
    // The file comes into being whole, and for this person alone.
    match files::write_export(path, made.as_bytes(), Overwrite::Never) {
        Ok(()) => {}
        // Somebody else was quicker: theirs it is.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(wrong(&error)),
    }
    let token = files::read_optional(path).map_err(|error| wrong(&error))?;
    token.map(|token| token.trim().to_owned()).ok_or_else(|| {
        Failure::new(
            MemoryErrorCode::NotFound,
            format!("the token in `{}` went away", path.display()),
        )
    })
}

/// Returns the longest path that a socket can have, in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Returns where the socket goes; `None` when that is too long a path for one.
pub(crate) fn socket(state: &Path) -> Option<PathBuf> {
    let path = state.join("daemon.sock");
    (path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_read_from_then_on() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("state").join("token");
        let made = token(&file).unwrap();
        assert_eq!(made.len(), 2 * TOKEN_BYTES);
        assert!(made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{made}");
        assert_eq!(token(&file).unwrap(), made);
        assert_ne!(token(&home.path().join("other")).unwrap(), made);
        assert_eq!(files::mode(&file).unwrap(), 0o600);
    }

    #[test]
    fn a_state_folder_has_one_daemon() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let lock = DaemonLock::acquire(&state).unwrap();
        assert_eq!(find(&state), None);
        let place = DaemonRecord {
            pid: 7,
            url: "http://127.0.0.1:1".to_owned(),
            socket: None,
            token_file: Some(token_file(&state)),
        };
        lock.write_record(&place).unwrap();
        lock.write_record(&place).unwrap();
        assert_eq!(find(&state), Some(place));
        let Err(Failure::Message(told)) = DaemonLock::acquire(&state) else {
            panic!("there are two")
        };
        assert_eq!(told.message, "a daemon listens at http://127.0.0.1:1 already (process 7)");
        drop(lock);
        assert_eq!(find(&state), None);
        DaemonLock::acquire(&state).unwrap();
    }
}
