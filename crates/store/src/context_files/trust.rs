//! The list of trusted folders: files in these folders may instruct a model.
//!
//! A checkout cannot declare itself trusted. The list is on this host, in the state folder, and
//! contains real paths, and addresses of folders on other machines. A folder is trusted if the
//! list has it or one of its parents.

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
use crate::remote_folder::RemoteFolder;

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
        Ok(read(&backend, &file).await?.0.folders)
    }

    /// Returns the trusted folders on other machines in the order of their addresses.
    pub async fn remotes(&self) -> Result<Vec<RemoteFolder>, TrustError> {
        let (backend, file) = self.list_file()?;
        Ok(read(&backend, &file).await?.0.remotes)
    }

    /// Checks whether a folder on another machine, or one of its parents, is trusted.
    pub async fn has_remote(&self, folder: &RemoteFolder) -> Result<bool, TrustError> {
        Ok(self.remotes().await?.iter().any(|trusted| folder.is_below(trusted)))
    }

    /// Adds a folder on another machine, which need not be reachable. Returns whether it was new in the list.
    pub async fn add_remote(&self, folder: &RemoteFolder) -> Result<bool, TrustError> {
        if folder.is_everything() {
            return Err(TrustError::Everything);
        }
        let added = self.change(|list| {
            let is_new = !list.remotes.contains(folder);
            if is_new {
                list.remotes.push(folder.clone());
            }
            is_new
        });
        added.await
    }

    /// Removes a folder on another machine. Returns whether it was in the list.
    pub async fn remove_remote(&self, folder: &RemoteFolder) -> Result<bool, TrustError> {
        let removed = self.change(|list| {
            let before = list.remotes.len();
            list.remotes.retain(|listed| listed != folder);
            list.remotes.len() < before
        });
        removed.await
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
        let added = self.change(|list| {
            let is_new = !list.folders.contains(&real);
            if is_new {
                list.folders.push(real.clone());
            }
            is_new
        });
        let is_new = added.await?;
        Ok((real, is_new))
    }

    /// Removes a folder, which may not exist any more. Returns whether it was in the list.
    pub async fn remove(&self, folder: &Path) -> Result<bool, TrustError> {
        let real = host_fs::real_path(folder).unwrap_or_else(|_| folder.to_owned());
        let removed = self.change(|list| {
            let before = list.folders.len();
            list.folders.retain(|listed| *listed != real && *listed != folder);
            list.folders.len() < before
        });
        removed.await
    }

    async fn change(
        &self,
        change: impl Fn(&mut TrustList) -> bool + Send,
    ) -> Result<bool, TrustError> {
        let (backend, file) = self.list_file()?;
        let mut lock = backend.lock(DatabaseId::NONE, LOCK_WAIT).await?;
        for _ in 0..=OUTSIDE_RACE_RETRIES {
            let (mut list, stamp) = read(&backend, &file).await?;
            if !change(&mut list) {
                return Ok(false);
            }
            list.folders.sort();
            list.remotes.sort();
            let folders = list.folders.iter().map(|folder| format!("{}\n", folder.display()));
            let remotes = list.remotes.iter().map(|folder| format!("{folder}\n"));
            let heading = std::iter::once(HEADING.to_owned());
            let text: String = heading.chain(folders).chain(remotes).collect();
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

/// The trusted folders.
#[derive(Debug, Default)]
struct TrustList {
    folders: Vec<PathBuf>,
    remotes: Vec<RemoteFolder>,
}

/// Reads the list. Lines that are neither absolute paths nor addresses are ignored.
async fn read(
    backend: &LocalBackend,
    file: &RelativePath,
) -> Result<(TrustList, Option<Stamp>), BackendError> {
    let read = match backend.read(file, LIST_BYTES_MAX).await {
        Ok(read) => read,
        Err(BackendError::NotFound) => return Ok((TrustList::default(), None)),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&read.bytes);
    let folders =
        text.lines().map(Path::new).filter(|path| path.is_absolute() && path.parent().is_some());
    let list = TrustList {
        folders: folders.map(Path::to_owned).collect(),
        remotes: text.lines().filter_map(|line| line.parse().ok()).collect(),
    };
    Ok((list, Some(read.stat.stamp)))
}
