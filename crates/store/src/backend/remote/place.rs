//! The identity of the folder at an address: kept at its first use, and compared from then on.

use std::io;
use std::path::PathBuf;

use state::{FileLock, LockMode};

use super::wire;
use crate::backend::BackendError;
use crate::host_fs;

/// The reason why a folder is not used whose identity changed.
const OTHER_FOLDER: &str = "the remote folder is another one than before";

/// The identity of a folder on another machine, in a file of the state folder.
#[derive(Clone, Debug)]
pub(crate) struct KnownPlace {
    file: PathBuf,
}

impl KnownPlace {
    pub(crate) const fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// Compares an identity with the kept one, or keeps it if there is none.
    ///
    /// # Errors
    ///
    /// If it is another one, or cannot be kept: then no later connection could be compared.
    pub(super) async fn check(&self, place: &str) -> Result<(), BackendError> {
        if self.is_known(place)? {
            return Ok(());
        }
        let is_digest = place.len() == 64 && place.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_digest {
            return Err(wire::Malformed.into());
        }
        let unkept = |error: &dyn std::fmt::Display| {
            tracing::warn!(%error, "keeping the identity of a remote folder failed");
            let reason = "the identity of the remote folder cannot be kept in the state folder";
            BackendError::Unreachable(reason.to_owned())
        };
        // Two processes may connect for the first time, and find two folders.
        let lock = FileLock::with_folder(self.beside(".lock"));
        let _guard = lock.acquire(LockMode::Exclusive).await.map_err(|error| unkept(&error))?;
        if self.is_known(place)? {
            return Ok(());
        }
        self.keep(place).map_err(|error| unkept(&error))
    }

    /// Returns the path of a file beside that of the identity.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.file.clone().into_os_string();
        path.push(ending);
        path.into()
    }

    /// Checks whether this identity is kept. Fails if another one is.
    fn is_known(&self, place: &str) -> Result<bool, BackendError> {
        match host_fs::read_small_file(&self.file) {
            Some(known) if known.trim() == place => Ok(true),
            // Also a file that cannot be read.
            None if host_fs::symlink_metadata(&self.file).is_none() => Ok(false),
            Some(_) | None => Err(BackendError::Unreachable(OTHER_FOLDER.to_owned())),
        }
    }

    fn keep(&self, place: &str) -> io::Result<()> {
        let (Some(folder), Some(name)) = (self.file.parent(), self.file.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let name = name.to_string_lossy();
        let temporary = format!("{name}.tmp");
        match host_fs::remove_file(&folder.join(&temporary)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        host_fs::write_private_file(folder, &temporary, &name, format!("{place}\n").as_bytes())
    }
}
