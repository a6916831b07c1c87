//! The list of a root's memories, kept current in memory.
//!
//! The first list of a process is a plain walk. From the second on, the folders are observed, and a list costs no more
//! than a look at the files that changed. Where folders cannot be observed, each list is a walk.

use std::sync::Arc;

use cap_std::fs::Dir;
use memory::limits::OBSERVED_AGE_MAX;
use memory::path::RelativePath;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::fs_time::FsTime;
use super::observer::{Observer, PendingChanges};
use super::root_dir::{RootDir, descend};
use super::walk::{self, stat_file, walk_with};
use crate::backend::{BackendError, Extent, FileList, Freshness, Stat, WalkedFile};
use crate::os;

/// Maximum number of changes that a list collects before the next walk.
const LISTED_CHANGES_MAX: usize = 16_384;

/// The list of one root.
#[derive(Debug)]
pub(super) struct ObservedList {
    observer: Arc<Observer>,
    state: Mutex<ListState>,
}

#[derive(Debug, Default)]
struct ListState {
    /// Whether this process has listed the root before, and so is likely to do it again.
    is_repeated: bool,
    /// Whether the last attempt to observe it failed.
    is_unobservable: bool,
    observed: Option<Observation>,
}

/// A list whose folders are observed.
#[derive(Debug)]
struct Observation {
    observer: Arc<Observer>,
    changes: Arc<PendingChanges>,
    /// Device and inode of the root. Its path may lead to another folder later, without a notice.
    root: (u64, u64),
    walked_at: Instant,
    list: Arc<FileList>,
    /// Files that changed so recently that their stamps say nothing yet.
    recent: Vec<RelativePath>,
}

impl Drop for Observation {
    fn drop(&mut self) {
        self.observer.forget(&self.changes);
    }
}

impl ObservedList {
    pub(super) fn new(observer: Arc<Observer>) -> Self {
        Self { observer, state: Mutex::default() }
    }

    /// Returns the current list. Blocks on the disk.
    pub(super) fn list(
        &self,
        root_dir: &RootDir,
        freshness: Freshness,
    ) -> Result<Arc<FileList>, BackendError> {
        self.list_locked(&mut self.state.lock(), root_dir, freshness)
    }

    /// Returns the number of memories. Blocks on the disk.
    pub(super) fn count(&self, root_dir: &RootDir) -> Result<usize, BackendError> {
        let mut state = self.state.lock();
        let is_repeated = std::mem::replace(&mut state.is_repeated, true);
        if is_repeated && !state.is_unobservable {
            return Ok(self.list_locked(&mut state, root_dir, Freshness::Observed)?.files_total);
        }
        // Names are enough for a process that counts once, and faster to read.
        walk::count(root_dir)
    }

    fn list_locked(
        &self,
        state: &mut ListState,
        root_dir: &RootDir,
        freshness: Freshness,
    ) -> Result<Arc<FileList>, BackendError> {
        let root = root_dir.open()?;
        let Some(root) = root else {
            state.observed = None;
            return Ok(Arc::new(FileList::default()));
        };
        if freshness != Freshness::Walked
            && let Some(observed) = &mut state.observed
            && let Some(list) = observed.refresh(&root)
        {
            return Ok(list);
        }
        let is_repeated = std::mem::replace(&mut state.is_repeated, true);
        state.observed = None;
        let mut observation =
            is_repeated.then(|| Observation::new(&self.observer, &root)).flatten();
        let walk = walk_with(root, None, Extent::ALL, &mut |folder, path| {
            let is_observed = observation
                .as_ref()
                .is_some_and(|it| it.observer.observe(folder, path, &it.changes));
            if !is_observed {
                observation = None;
            }
        });
        let list = FileList::from(walk?);
        let is_whole = list.files.len() == list.files_total && !list.incomplete;
        let observation = observation.filter(|_| is_whole);
        state.is_unobservable = is_repeated && observation.is_none();
        let Some(mut observation) = observation else {
            return Ok(Arc::new(list));
        };
        observation.set_list(list);
        let list = Arc::clone(&observation.list);
        state.observed = Some(observation);
        Ok(list)
    }
}

impl Observation {
    fn new(observer: &Arc<Observer>, root: &Dir) -> Option<Self> {
        Some(Self {
            observer: Arc::clone(observer),
            changes: Arc::default(),
            root: os::folder_identity(root).ok()?,
            walked_at: Instant::now(),
            list: Arc::default(),
            recent: Vec::new(),
        })
    }

    fn set_list(&mut self, list: FileList) {
        self.recent = recent_files(&list.files);
        self.list = Arc::new(list);
    }

    /// Returns the list after a look at the files that changed. Returns `None` if all folders have to be walked.
    fn refresh(&mut self, root: &Dir) -> Option<Arc<FileList>> {
        let is_outdated = self.walked_at.elapsed() >= OBSERVED_AGE_MAX
            || self.list.changes_since_walk() >= LISTED_CHANGES_MAX;
        if is_outdated || os::folder_identity(root).ok()? != self.root {
            return None;
        }
        let noticed = self.observer.take(&self.changes)?;
        let mut paths = std::mem::take(&mut self.recent);
        paths.retain(|path| !noticed.contains(path));
        let unnoticed = paths.len();
        paths.extend(noticed);
        let mut changed = Vec::new();
        for (index, path) in paths.into_iter().enumerate() {
            let stat = stat_at(root, &path).ok()?;
            let known = self.list.file(&path).map(|file| file.stat);
            if stat.is_some_and(|stat| stat.recent) {
                self.recent.push(path.clone());
            }
            // A file that was written twice within a tick of the clock may look the same.
            if stat != known || index >= unnoticed && stat.is_some() {
                changed.push((path, stat));
            }
        }
        if !changed.is_empty() {
            Arc::make_mut(&mut self.list).update(changed);
        }
        Some(Arc::clone(&self.list))
    }
}

fn recent_files(files: &[WalkedFile]) -> Vec<RelativePath> {
    files.iter().filter(|file| file.stat.recent).map(|file| file.path.clone()).collect()
}

/// Looks at one file; `None` if there is no regular file at its path.
fn stat_at(root: &Dir, path: &RelativePath) -> Result<Option<Stat>, BackendError> {
    let looked_at = FsTime::now();
    let root = root.try_clone().map_err(|error| BackendError::from_io("open a folder", error))?;
    let folder = descend(root, path.parent().as_ref())?;
    Ok(folder.and_then(|folder| stat_file(&folder, path.file_name(), looked_at)))
}

#[cfg(test)]
mod tests;
