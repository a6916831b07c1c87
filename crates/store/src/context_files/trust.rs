//! The list of trusted folders: files in these folders may instruct a model.
//!
//! A checkout cannot declare itself trusted. The list is on this host, in the state folder, and
//! contains real paths. A folder is trusted if the list has it or one of its parents.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory::change::DatabaseId;
use memory::error_code::MemoryErrorCode;
use memory::limits::{LOCK_WAIT, OUTSIDE_RACE_RETRIES};
use memory::path::RelativePath;

use super::write::write_file;
use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend as _, BackendError, Expect, Stamp};
use crate::binding::BaseFolders;
use crate::host_fs;

/// Folder of the list, in the state folder.
const FOLDER: &str = "trust";

/// File name of the list.
const FILE: &str = "folders.txt";

/// First line of the list.
const HEADING: &str = "# Folders whose files may instruct models. Written by `lukasa trust`.\n";

/// Maximum size of the list, in bytes.
const LIST_BYTES_MAX: usize = 1024 * 1024;

/// Reason why a folder cannot be added to or removed from the list.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The path is not a folder.
    #[error("`{}` is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The path contains a line break, or is not UTF-8.
    #[error("the path of `{}` cannot be added to the list: it has a line break or is not UTF-8", .0.display())]
    BadPath(PathBuf),
    /// The path is `/`, which contains every folder.
    #[error("`/` cannot be trusted as a whole; name the folders that you work in")]
    Everything,
    /// The list cannot be read or written.
    #[error("cannot use the list of trusted folders")]
    Backend(#[from] BackendError),
}

impl TrustError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::NotAFolder(_) => MemoryErrorCode::NotFound,
            Self::BadPath(_) | Self::Everything => MemoryErrorCode::InvalidPath,
            Self::Backend(source) => source.code(),
        }
    }
}

/// The list of trusted folders of this host.
#[derive(Clone, Debug)]
pub struct TrustedFolders {
    folders: BaseFolders,
}

impl TrustedFolders {
    /// Returns the list in the state folder of this host.
    pub fn new(folders: &BaseFolders) -> Self {
        Self { folders: folders.clone() }
    }

    /// Returns the trusted folders in the order of their paths.
    pub async fn list(&self) -> Result<Vec<PathBuf>, TrustError> {
        let (backend, file) = self.list_file()?;
        Ok(read(&backend, &file).await?.0)
    }

    /// Returns the time of the last write of the list; `None` if there is no list.
    pub(crate) fn version(&self) -> Option<SystemTime> {
        host_fs::symlink_metadata(&self.folders.state.join(FOLDER).join(FILE))?.modified().ok()
    }

    /// Checks whether a folder, or one of its parents, is trusted.
    pub async fn has(&self, folder: &Path) -> Result<bool, TrustError> {
        let real = host_fs::real_path(folder).unwrap_or_else(|_| folder.to_owned());
        Ok(is_trusted(&self.list().await?, &real))
    }

    /// Adds a folder. Returns its real path, and whether it was new in the list.
    pub async fn add(&self, folder: &Path) -> Result<(PathBuf, bool), TrustError> {
        let real = host_fs::real_path(folder).ok().filter(|real| real.is_dir());
        let real = real.ok_or_else(|| TrustError::NotAFolder(folder.to_owned()))?;
        if real.parent().is_none() {
            return Err(TrustError::Everything);
        }
        if real.to_str().is_none_or(|text| text.contains(['\n', '\r'])) {
            return Err(TrustError::BadPath(real));
        }
        let added = self.change(|folders| {
            let is_new = !folders.contains(&real);
            if is_new {
                folders.push(real.clone());
            }
            is_new
        });
        let is_new = added.await?;
        Ok((real, is_new))
    }

    /// Removes a folder, which may not exist any more. Returns whether it was in the list.
    pub async fn remove(&self, folder: &Path) -> Result<bool, TrustError> {
        let real = host_fs::real_path(folder).unwrap_or_else(|_| folder.to_owned());
        let removed = self.change(|folders| {
            let before = folders.len();
            folders.retain(|listed| *listed != real && *listed != folder);
            folders.len() < before
        });
        removed.await
    }

    async fn change(
        &self,
        change: impl Fn(&mut Vec<PathBuf>) -> bool + Send,
    ) -> Result<bool, TrustError> {
        let (backend, file) = self.list_file()?;
        let mut lock = backend.lock(DatabaseId::NONE, LOCK_WAIT).await?;
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let (mut folders, stamp) = read(&backend, &file).await?;
            if !change(&mut folders) {
                return Ok(false);
            }
            folders.sort();
            let lines = folders.iter().map(|folder| format!("{}\n", folder.display()));
            let text: String = std::iter::once(HEADING.to_owned()).chain(lines).collect();
            let expect = stamp.map_or(Expect::Absent, Expect::File);
            match write_file(&backend, &mut *lock, &file, text.as_bytes(), expect).await {
                // A person edits the list at the same time.
                Err(BackendError::Changed | BackendError::Occupied) => {}
                result => return Ok(result.map(|()| true)?),
            }
        }
        Err(BackendError::Changed.into())
    }

    fn list_file(&self) -> Result<(LocalBackend, RelativePath), BackendError> {
        let root_dir = RootDir::new(self.folders.state.clone(), &[FOLDER], Privacy::Private);
        let lock = self.folders.lock_path("trust");
        let file = RelativePath::parse(FILE).map_err(|_| BackendError::Escapes(FILE.to_owned()))?;
        Ok((LocalBackend::new(root_dir, lock), file))
    }
}

/// Checks whether a path is a trusted folder, or is inside of one.
pub(super) fn is_trusted(trusted: &[PathBuf], path: &Path) -> bool {
    trusted.iter().any(|folder| path.starts_with(folder))
}

/// Reads the list. Lines that are not absolute paths are ignored.
async fn read(
    backend: &LocalBackend,
    file: &RelativePath,
) -> Result<(Vec<PathBuf>, Option<Stamp>), BackendError> {
    let read = match backend.read(file, LIST_BYTES_MAX).await {
        Ok(read) => read,
        Err(BackendError::NotFound) => return Ok((Vec::new(), None)),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&read.bytes);
    let folders =
        text.lines().map(Path::new).filter(|path| path.is_absolute() && path.parent().is_some());
    Ok((folders.map(Path::to_owned).collect(), Some(read.stat.stamp)))
}
