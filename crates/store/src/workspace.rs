//! The folders of workspaces in the state, and their removal.
//!
//! The record of a checkout lets a list of workspaces name the folder of each, since an id says
//! little to a person. The record has no effect on access: a workspace without one works like any
//! other.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use memory::limits::MEMORY_BYTES_MAX;

use crate::binding::{BaseFolders, WorkspaceId};
use crate::checkout_record::{RECORD, read};
use crate::host_fs;
use crate::memory_list::{MEMORY_LIST, is_generated_list};

impl BaseFolders {
    /// Returns the folder with the memories of a workspace and the record of its checkout.
    pub fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.state.join("workspaces").join(id.to_string())
    }

    /// Returns the checkout of a workspace, which may not exist any more. Returns `None` for a workspace that a
    /// person or host named.
    pub fn checkout_of(&self, id: &WorkspaceId) -> Option<PathBuf> {
        read(&self.workspace(id))
    }

    /// Returns the workspaces that have a folder on this host, sorted by id.
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

    /// Removes the generated index of a workspace, its record and its folders, as far as they contain nothing else.
    /// Returns whether the folder is gone. The caller deletes the memories first, as a change in history.
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

/// Removes a generated index. A person's own file of that name stays.
fn remove_list(path: &Path) -> io::Result<()> {
    if !host_fs::symlink_metadata(path).is_some_and(|metadata| metadata.is_file()) {
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
    #[expect(clippy::disallowed_methods, reason = "the test creates the files")]
    fn only_a_workspace_without_own_files_is_removed() {
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
