//! Notices of the kernel about changes in folders.
//!
//! Linux queues a notice (inotify) before the system call that makes the change returns. So once the queue was read,
//! every change that ended before is known. A notice names a file and says nothing about its content, so the file has
//! to be looked at again. On a system without such an order nothing is observed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cap_std::fs::Dir;
use memory::path::RelativePath;
use parking_lot::Mutex;

use crate::os::{FolderNotices, Notice, NoticeQueue as _};

/// Maximum number of folders that a process observes. The kernel needs about a kilobyte for each.
const OBSERVED_FOLDERS_MAX: usize = 4_096;
/// Maximum number of changed paths that are collected between two calls; a walk is cheaper than more.
const NOTICED_PATHS_MAX: usize = 1_024;

/// The notices of one process. There is one queue for all roots, because the system limits the queues of a user.
#[derive(Debug, Default)]
pub(crate) struct Observer(Mutex<ObserverState>);

#[derive(Debug, Default)]
struct ObserverState {
    /// Opened for the first folder.
    notices: Option<FolderNotices>,
    /// The observed folders by the number of their watch. Two roots may be one folder.
    folders: HashMap<i32, Vec<ObservedFolder>>,
}

#[derive(Debug)]
struct ObservedFolder {
    changes: Arc<PendingChanges>,
    /// Its path in the root; `None` for the root itself.
    path: Option<RelativePath>,
}

/// Changes below one root since they were last taken.
#[derive(Debug, Default)]
pub(super) struct PendingChanges(Mutex<PendingState>);

#[derive(Debug, Default)]
struct PendingState {
    paths: BTreeSet<RelativePath>,
    /// Whether something changed that `paths` does not name.
    is_incomplete: bool,
}

impl Observer {
    /// Collects changes in a folder from now on. Returns `false` if the system cannot observe it.
    pub(super) fn observe(
        &self,
        folder: &Dir,
        path: Option<&RelativePath>,
        changes: &Arc<PendingChanges>,
    ) -> bool {
        let mut state = self.0.lock();
        if state.folders.len() >= OBSERVED_FOLDERS_MAX {
            return false;
        }
        if state.notices.is_none() {
            state.notices = FolderNotices::open();
        }
        let Some(watch) = state.notices.as_ref().and_then(|notices| notices.watch(folder)) else {
            return false;
        };
        let folder = ObservedFolder { changes: Arc::clone(changes), path: path.cloned() };
        state.folders.entry(watch).or_default().push(folder);
        true
    }

    /// Takes the paths of files that changed since the last call. Returns `None` if a folder changed, or notices were
    /// lost; then all folders have to be walked and observed again.
    pub(super) fn take(&self, changes: &PendingChanges) -> Option<BTreeSet<RelativePath>> {
        self.0.lock().read();
        let mut pending = changes.0.lock();
        let paths = std::mem::take(&mut pending.paths);
        (!pending.is_incomplete).then_some(paths)
    }

    /// Returns the number of observed folders.
    #[cfg(test)]
    pub(super) fn folders(&self) -> usize {
        self.0.lock().folders.len()
    }

    /// Stops collecting these changes.
    pub(super) fn forget(&self, changes: &Arc<PendingChanges>) {
        let state = &mut *self.0.lock();
        state.folders.retain(|watch, folders| {
            folders.retain(|folder| !Arc::ptr_eq(&folder.changes, changes));
            if folders.is_empty()
                && let Some(notices) = &state.notices
            {
                notices.unwatch(*watch);
            }
            !folders.is_empty()
        });
    }
}

impl ObserverState {
    /// Reads the queue and hands each notice to the roots that it is about.
    fn read(&mut self) {
        let Self { notices: Some(notices), folders } = self else { return };
        notices.read(|notice| match notice {
            Notice::Lost => {
                for folder in folders.values().flatten() {
                    folder.changes.add(None);
                }
            }
            Notice::Folder { watch, name } => {
                for folder in folders.get(&watch).into_iter().flatten() {
                    // A hidden folder holds no memories.
                    if name.is_none_or(|name| !name.starts_with('.')) {
                        folder.changes.add(None);
                    }
                }
            }
            Notice::File { watch, name } => {
                for folder in folders.get(&watch).into_iter().flatten() {
                    let path = match &folder.path {
                        None => RelativePath::parse(name),
                        Some(folder) => folder.child(name),
                    };
                    // A name that no memory can have, such as a temporary one, is none of a memory.
                    if let Ok(path) = path {
                        folder.changes.add(Some(path));
                    }
                }
            }
        });
    }
}

impl PendingChanges {
    /// Adds a changed file, or a change that cannot be named.
    fn add(&self, path: Option<RelativePath>) {
        let mut state = self.0.lock();
        match path {
            Some(path) if state.paths.len() < NOTICED_PATHS_MAX => {
                state.paths.insert(path);
            }
            _ => state.is_incomplete = true,
        }
    }
}
