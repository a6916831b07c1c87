//! The checkout that a workspace belongs to, recorded beside the memories of the workspace.
//!
//! An id says little to a person. The record lets a listing of workspaces name the folder of each, and tell
//! whether that folder still exists. It is written with a change and decides
//! nothing about access: a workspace without a record works like any other.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use memory::limits::MEMORY_BYTES_MAX;

use crate::binding::{BaseFolders, WorkspaceId};
use crate::checkout_record::{RECORD, read};
use crate::host_fs;
use crate::memory_list::{MEMORY_LIST, is_generated_list};

impl BaseFolders {
    /// Returns the folder that holds the memories of a workspace and the record of its checkout.
    pub fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.state.join("workspaces").join(id.to_string())
    }

    /// Returns the checkout that a workspace belongs to, whether or not that still exists. `None` for a
    /// workspace that was named by a person or a host.
    pub fn checkout_of(&self, id: &WorkspaceId) -> Option<PathBuf> {
        read(&self.workspace(id))
    }

    /// Returns the workspaces that have a folder on this host, in order of their ids.
    pub fn workspaces(&self) -> Vec<WorkspaceId> {
        let names = host_fs::list_names(&self.state.join("workspaces"));
        let ids = names.into_iter().filter_map(|name| name.to_str()?.parse().ok());
        let mut ids: Vec<WorkspaceId> = ids
            .filter(|id| {
                host_fs::symlink_metadata(&self.workspace(id)).is_some_and(|at| at.is_dir())
            })
            .collect();
        ids.sort_by_key(ToString::to_string);
        ids
    }

    /// Removes the generated listing of a workspace, its record and its folders, as far as nothing else is in them.
    /// Returns whether the folder of the workspace is gone. Memories are deleted before, as a change that history keeps.
    pub fn remove_workspace_folder(&self, id: &WorkspaceId) -> io::Result<bool> {
        let folder = self.workspace(id);
        remove_list(&folder.join("memory").join(MEMORY_LIST))?;
        if !host_fs::remove_empty_folders(&folder.join("memory"))? {
            return Ok(false);
        }
        match host_fs::remove_file(&folder.join(RECORD)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => host_fs::remove_empty_folders(&folder),
        }
    }
}

/// Removes a listing that Lukasa made. A file that a person keeps by its name stays.
fn remove_list(path: &Path) -> io::Result<()> {
    if !host_fs::symlink_metadata(path).is_some_and(|facts| facts.is_file()) {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MEMORY_BYTES_MAX).expect("a length fits 64 bits");
    host_fs::open_existing_file(path)?.take(limit).read_to_end(&mut bytes)?;
    if is_generated_list(&bytes) { host_fs::remove_file(path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout_record::CheckoutRecord;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes what is found")]
    fn only_what_is_empty_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let folders =
            BaseFolders { data: home.path().join("data"), state: home.path().join("state") };
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
}
