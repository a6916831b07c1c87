//! Folders that a person trusts: what lies there may instruct a model.
//!
//! A checkout says nothing about its own trust. The list is on this host, in the state folder, and holds real
//! paths: a folder is trusted if it or one above it is in it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use memory::error_code::MemoryErrorCode;
use memory::limits::{LOCK_WAIT, OUTSIDE_RACE_RETRIES};
use memory::path::RelativePath;

use super::write::write_file;
use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend as _, BackendError, Expect, Stamp};
use crate::binding::BaseFolders;
use crate::host_fs;

/// The folder in the state that has the list.
const FOLDER: &str = "trust";

/// The name of the list.
const FILE: &str = "folders.txt";

/// The first line of the list.
const HEADING: &str = "# Folders whose files may instruct models. Written by `lukasa trust`.\n";

/// The largest list that is read, in bytes.
const LIST_BYTES_MAX: usize = 1024 * 1024;

/// Why a folder cannot be trusted, or trusted no longer.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no such folder.
    #[error("`{}` is no folder", .0.display())]
    NotAFolder(PathBuf),
    /// Its path has a line break in it, or is no text.
    #[error("the path of `{}` cannot be written to a list", .0.display())]
    BadPath(PathBuf),
    /// It has everything in it.
    #[error("`/` is not trusted as a whole: name the folders that you work in")]
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
    /// Returns the list that is kept there.
    pub fn new(folders: &BaseFolders) -> Self {
        Self { folders: folders.clone() }
    }

    /// Returns the folders, in the order of their paths.
    pub async fn list(&self) -> Result<Vec<PathBuf>, TrustError> {
        let (backend, file) = self.list_file()?;
        Ok(read(&backend, &file).await?.0)
    }

    /// Returns when the list was last written; `None` if there is none.
    pub(crate) fn version(&self) -> Option<SystemTime> {
        host_fs::symlink_metadata(&self.folders.state.join(FOLDER).join(FILE))?.modified().ok()
    }

    /// Tells whether a folder is trusted, or one above it is.
    pub async fn has(&self, folder: &Path) -> Result<bool, TrustError> {
        let real = host_fs::real_path(folder).unwrap_or_else(|_| folder.to_owned());
        Ok(is_trusted(&self.list().await?, &real))
    }

    /// Trusts a folder; returns its real path, and whether it was not in the list before.
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

    /// Trusts a folder no longer, which may be gone meanwhile; returns whether it was in the list.
    pub async fn remove(&self, folder: &Path) -> Result<bool, TrustError> {
        let real = host_fs::real_path(folder).unwrap_or_else(|_| folder.to_owned());
        let removed = self.change(|folders| {
            let before = folders.len();
            folders.retain(|known| *known != real && *known != folder);
            folders.len() < before
        });
        removed.await
    }

    async fn change(
        &self,
        change: impl Fn(&mut Vec<PathBuf>) -> bool + Send,
    ) -> Result<bool, TrustError> {
        let (backend, file) = self.list_file()?;
        let mut held = backend.lock(LOCK_WAIT).await?;
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let (mut folders, stamp) = read(&backend, &file).await?;
            if !change(&mut folders) {
                return Ok(false);
            }
            folders.sort();
            let lines = folders.iter().map(|folder| format!("{}\n", folder.display()));
            let text: String = std::iter::once(HEADING.to_owned()).chain(lines).collect();
            let expect = stamp.map_or(Expect::Absent, Expect::File);
            match write_file(&backend, &mut *held, &file, text.as_bytes(), expect).await {
                // Somebody edits the list at this moment.
                Err(BackendError::Changed | BackendError::Occupied) => {}
                put => return Ok(put.map(|()| true)?),
            }
        }
        Err(BackendError::Changed.into())
    }

    fn list_file(&self) -> Result<(LocalBackend, RelativePath), BackendError> {
        let anchor = RootDir::new(self.folders.state.clone(), &[FOLDER], Privacy::Private);
        let lock = self.folders.lock_path("trust");
        let file = RelativePath::parse(FILE).map_err(|_| BackendError::Escapes(FILE.to_owned()))?;
        Ok((LocalBackend::new(anchor, lock), file))
    }
}

/// Tells whether a folder or file is in a trusted folder, or is one.
pub(super) fn is_trusted(trusted: &[PathBuf], path: &Path) -> bool {
    trusted.iter().any(|folder| path.starts_with(folder))
}

/// Reads the list. A line that is no path says nothing.
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
