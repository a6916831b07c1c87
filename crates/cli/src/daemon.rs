//! The files of a daemon in the state folder: its lock, its token, its socket.
//!
//! Only this user has access to them. A daemon holds the lock until it ends, so that a state folder has at most one
//! daemon. The lock file also holds its address, by which commands and hooks find it.

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

/// The number of random bytes in a new token.
const TOKEN_BYTES: usize = 32;

/// The address of a running daemon, as the lock file holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonRecord {
    /// The process id.
    pub(crate) pid: u32,
    /// The base URL.
    pub(crate) url: String,
    /// The path of the socket; `None` if the path of the state folder is too long for one.
    pub(crate) socket: Option<PathBuf>,
    /// The file with the token; `None` if the token came from a flag or the environment.
    pub(crate) token_file: Option<PathBuf>,
}

impl DaemonRecord {
    /// Returns a client of the daemon with its token.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let endpoint = match &self.socket {
            Some(socket) => Ok(Endpoint::Socket(socket.clone())),
            None => self.url.parse(),
        };
        let failed = |error: &dyn std::error::Error| {
            Failure::new(MemoryErrorCode::StorageFailed, error.to_string())
        };
        let endpoint = endpoint.map_err(|error: ParseEndpointError| failed(&error))?;
        let token = match &self.token_file {
            Some(file) => token(file)?,
            None => app::token().ok_or_else(|| {
                Failure::usage("the daemon uses a token from its environment or a flag")
                    .help("set LUKASA_TOKEN to that token")
            })?,
        };
        Client::new(endpoint, &token).map_err(|error| failed(&error))
    }
}

/// The exclusive lock of a state folder's daemon, released when it is dropped.
#[derive(Debug)]
pub(crate) struct DaemonLock(FileLockGuard);

impl DaemonLock {
    /// Acquires the lock. If another daemon holds it, the failure names its address.
    pub(crate) fn acquire(state: &Path) -> Result<Self, Failure> {
        let lock = FileLock::with_folder(lock_file(state)).try_acquire(LockMode::Exclusive);
        let lock = lock.map_err(|error| Failure::file("lock", &error.path, &error.source))?;
        lock.map(Self).ok_or_else(|| {
            let what = match find(state) {
                Some(DaemonRecord { pid, url, .. }) => {
                    format!("a daemon already listens on {url} (process {pid})")
                }
                None => "another daemon is starting or shutting down".to_owned(),
            };
            Failure::new(MemoryErrorCode::Locked, what)
                .help("one daemon serves all folders; start it with `--workspace DIR` for each")
        })
    }

    /// Writes the address of the daemon to the lock file.
    pub(crate) fn write_record(&self, record: &DaemonRecord) -> Result<(), Failure> {
        let text = serde_json::to_string(record).unwrap_or_default();
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
        // An error is ignored: a client that finds an old record gets a refused connection.
        self.clear().unwrap_or_default();
    }
}

fn lock_file(state: &Path) -> PathBuf {
    state.join("daemon.lock")
}

/// Returns the record of a state folder's daemon. The daemon may have crashed since.
pub(crate) fn find(state: &Path) -> Option<DaemonRecord> {
    serde_json::from_str(&files::read_optional(&lock_file(state)).ok()??).ok()
}

/// Returns the default file of the token.
pub(crate) fn token_file(state: &Path) -> PathBuf {
    state.join("token")
}

/// Returns the token in a file; creates the file with a new token if it does not exist.
pub(crate) fn token(path: &Path) -> Result<String, Failure> {
    let wrong = |error: &std::io::Error| Failure::file("use the token in", path, error);
    if let Some(token) = files::read_optional(path).map_err(|error| wrong(&error))? {
        return Ok(token.trim().to_owned());
    }
    if let Some(folder) = path.parent() {
        create_private_folder(folder).map_err(|error| wrong(&error))?;
    }
    let mut new = files::random_hex(TOKEN_BYTES).map_err(|error| wrong(&error))?;
    new.push('\n');
    // Written atomically, and readable by this user alone.
    match files::write_export(path, new.as_bytes(), Overwrite::Never) {
        Ok(()) => {}
        // Another process created the file first; its token is read below.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(wrong(&error)),
    }
    let token = files::read_optional(path).map_err(|error| wrong(&error))?;
    token.map(|token| token.trim().to_owned()).ok_or_else(|| {
        Failure::new(
            MemoryErrorCode::NotFound,
            format!("the token file `{}` was deleted", path.display()),
        )
    })
}

/// The maximum length of a socket's path in bytes.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// Returns the path of the socket; `None` if it is too long for one.
pub(crate) fn socket(state: &Path) -> Option<PathBuf> {
    let path = state.join("daemon.sock");
    (path.as_os_str().len() <= SOCKET_PATH_BYTES_MAX).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_created_once_and_then_read() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("state").join("token");
        let first = token(&file).unwrap();
        assert_eq!(first.len(), 2 * TOKEN_BYTES);
        assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
        assert_eq!(token(&file).unwrap(), first);
        assert_ne!(token(&home.path().join("other")).unwrap(), first);
        assert_eq!(files::mode(&file).unwrap(), 0o600);
    }

    #[test]
    fn a_state_folder_has_at_most_one_daemon() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("state");
        let lock = DaemonLock::acquire(&state).unwrap();
        assert_eq!(find(&state), None);
        let record = DaemonRecord {
            pid: 7,
            url: "http://127.0.0.1:1".to_owned(),
            socket: None,
            token_file: Some(token_file(&state)),
        };
        lock.write_record(&record).unwrap();
        lock.write_record(&record).unwrap();
        assert_eq!(find(&state), Some(record));
        let Err(Failure::Message(error)) = DaemonLock::acquire(&state) else {
            panic!("there are two")
        };
        assert_eq!(error.message, "a daemon already listens on http://127.0.0.1:1 (process 7)");
        drop(lock);
        assert_eq!(find(&state), None);
        DaemonLock::acquire(&state).unwrap();
    }
}
