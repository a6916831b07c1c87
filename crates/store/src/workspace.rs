//! The folders of workspaces, and the checkout that each belongs to.
//!
//! An id says little to a person. A record beside the memories of a workspace lets a listing name the folder of each,
//! and tell whether that folder still exists. It is written with a change and decides
//! nothing about access: a workspace without a record works like any other.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use memory::limits::MEMORY_BYTES_MAX;
use state::private_files::make_private_folder;

use crate::binding::{Folders, WorkspaceId};
use crate::host;
use crate::memory_list::{MEMORY_LIST, is_our_list};

/// The name of the record in the folder of a workspace: the bytes of a path, and nothing else.
const RECORD: &str = "checkout";

/// The longest path that is read, in bytes: the kernel accepts no longer one.
const CHECKOUT_PATH_BYTES_MAX: u64 = 4_096;

impl Folders {
    /// Returns the folder that holds the memories of a workspace and the record of its checkout.
    pub fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.state.join("workspaces").join(id.to_string())
    }

    /// Returns the checkout that a workspace belongs to, whether or not that still exists. `None` for a
    /// workspace that was named by a person or a host.
    pub fn checkout_of(&self, id: &WorkspaceId) -> Option<PathBuf> {
        recorded_checkout(&self.workspace(id))
    }

    /// Returns the workspaces that have a folder on this host, in order of their ids.
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        let names = host::names_in(&self.state.join("workspaces"));
        let ids = names.into_iter().filter_map(|name| name.to_str()?.parse().ok());
        let mut ids: Vec<WorkspaceId> = ids
            .filter(|id| host::facts(&self.workspace(id)).is_some_and(|at| at.is_dir()))
            .collect();
        ids.sort_by_key(ToString::to_string);
        ids
    }

    /// Removes the generated listing of a workspace, its record and its folders, as far as nothing else is in them.
    /// Returns whether the folder of the workspace is gone. Memories are deleted before, as a change that history keeps.
    pub fn remove_workspace_folder(&self, id: &WorkspaceId) -> io::Result<bool> {
        let folder = self.workspace(id);
        remove_list(&folder.join("memory").join(MEMORY_LIST))?;
        if !host::remove_empty_folders(&folder.join("memory"))? {
            return Ok(false);
        }
        match host::remove_file(&folder.join(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => host::remove_empty_folders(&folder),
        }
    }
}

/// Removes a listing that Quipu made. A file that a person keeps by its name stays.
fn remove_list(path: &Path) -> io::Result<()> {
    if !host::facts(path).is_some_and(|facts| facts.is_file()) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MEMORY_BYTES_MAX).expect("a length fits 64 bits");
    host::open_existing_file(path)?.take(limit).read_to_end(&mut bytes)?;
    if is_our_list(&bytes) { host::remove_file(path) } else { Ok(()) }
}

/// A record that is yet to be written.
#[derive(Debug)]
pub(crate) struct CheckoutRecord {
    workspace: PathBuf,
    checkout: PathBuf,
    is_written: AtomicBool,
}

impl CheckoutRecord {
    /// Returns the record in the folder of a workspace that belongs to the checkout at this real path.
    pub(crate) fn new(workspace: PathBuf, checkout: PathBuf) -> Self {
        Self { workspace, checkout, is_written: AtomicBool::new(false) }
    }

    /// Writes the record where it is missing. A failure is logged: a change must not fail for it.
    pub(crate) fn write(&self) {
        let was_written = self.is_written.swap(true, Ordering::Relaxed);
        // Another process may have removed the workspace.
        if was_written && host::facts(&self.workspace.join(RECORD)).is_some() {
            return;
        }
        if let Err(error) = self.put() {
            tracing::warn!(%error, "the checkout of a workspace cannot be recorded");
        }
    }

    fn put(&self) -> io::Result<()> {
        if recorded_checkout(&self.workspace).as_ref() == Some(&self.checkout) {
            return Ok(());
        }
        make_private_folder(&self.workspace)?;
        let temporary = format!("{RECORD}.{}", std::process::id());
        let bytes = self.checkout.as_os_str().as_bytes();
        host::put_private_file(&self.workspace, &temporary, RECORD, bytes)
    }
}

/// Returns the checkout that the folder of a workspace names; `None` if it names none.
fn recorded_checkout(workspace: &Path) -> Option<PathBuf> {
    let file = host::open_existing_file(&workspace.join(RECORD)).ok()?;
    let mut bytes = Vec::new();
    let read = file.take(CHECKOUT_PATH_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    let is_path = read > 0 && u64::try_from(read).ok()? <= CHECKOUT_PATH_BYTES_MAX;
    is_path.then(|| PathBuf::from(OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes what is found")]
    fn only_what_is_empty_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let folders = Folders { data: home.path().join("data"), state: home.path().join("state") };
        assert_eq!(folders.workspaces(), []);
        let id: WorkspaceId = "shop-1".parse().unwrap();
        CheckoutRecord::new(folders.workspace(&id), PathBuf::from("/srv/shop")).write();
        let memories = folders.workspace(&id).join("memory");
        std::fs::create_dir_all(memories.join("a/b")).unwrap();
        std::fs::write(memories.join("a/notes.txt"), "mine").unwrap();
        std::fs::write(memories.join(MEMORY_LIST), "# A list of my own\n").unwrap();
        std::fs::write(home.path().join("state/workspaces/a file"), "").unwrap();
        assert_eq!(folders.workspaces(), std::slice::from_ref(&id));
        assert!(!folders.remove_workspace_folder(&id).unwrap());
        assert!(memories.join("a/notes.txt").exists());
        assert!(folders.checkout_of(&id).is_some(), "the listing still names the checkout");
        std::fs::remove_file(memories.join("a/notes.txt")).unwrap();
        assert!(!folders.remove_workspace_folder(&id).unwrap());
        assert!(memories.join(MEMORY_LIST).exists(), "a person wrote it");
        let generated = memory::document::memory_list(&[]);
        std::fs::write(memories.join(MEMORY_LIST), generated).unwrap();
        assert!(folders.remove_workspace_folder(&id).unwrap());
        assert!(folders.remove_workspace_folder(&id).unwrap(), "it is gone already");
        assert_eq!(folders.workspaces(), []);
    }

    #[test]
    fn a_record_says_where_the_checkout_is_and_is_written_again_when_it_went() {
        let home = tempfile::tempdir().unwrap();
        let folders = home.path();
        assert_eq!(recorded_checkout(&folders.join("shop-1")), None);
        // A path need not be text.
        let checkout = PathBuf::from(OsString::from_vec(b"/srv/sh\xffop\n".to_vec()));
        let record = CheckoutRecord::new(folders.join("shop-1"), checkout.clone());
        for _ in 0..2 {
            record.write();
            assert_eq!(recorded_checkout(&folders.join("shop-1")).as_ref(), Some(&checkout));
            host::remove_file(&folders.join("shop-1").join(RECORD)).unwrap();
        }
    }
}
