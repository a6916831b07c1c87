//! Walks of a root: finds all memories in bounded memory, without opening them.
//!
//! Nearly all time is spent in `stat` calls. If there are many files, several threads call `stat`
//! in batches while this thread still lists folders.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;

use cap_std::fs::Dir;
use memory::limits::WALKED_ENTRIES_MAX;
use memory::path::RelativePath;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::runtime::Handle;

use super::fs_time::FsTime;
use super::root_dir::{RootDir, open_child};
use super::{stat_of, temp_name};
use crate::backend::{
    BackendError, Extent, SkipReason, SkippedEntry, Stat, Walk, WalkedFile, WalkedFolder,
};
use crate::os::{self, EntryKind, FolderEntries, FolderEntry};

/// Maximum number of skipped entries that are returned; a hostile tree may have any number.
const SKIPPED_MAX: usize = 100;

/// Maximum number of files with a pending `stat`. Each keeps its folder open.
const PENDING_FILES_MAX: usize = 4_096;
/// Maximum number of folders that are open for pending files.
const PENDING_FOLDERS_MAX: usize = 64;
/// Number of files for each thread. Fewer are not worth another thread.
const STATS_PER_THREAD: usize = 128;
/// Number of files in one batch of `stat` calls.
const FILES_PER_BATCH: usize = 32;
/// Maximum number of threads that call `stat`; the kernel does not scale to many.
const THREADS_MAX: usize = 4;
/// Number of threads on this host. Cached, since counting the processors reads a dozen files.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(THREADS_MAX)
});

/// Walks everything below `from`. Returns the first files and folders in byte order.
pub(super) fn walk(
    root_dir: &RootDir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    match root_dir.open_folder(from)? {
        Some(folder) => walk_in(folder, from, extent),
        None => Ok(Walk::default()),
    }
}

/// Walks an open folder. The paths are as if it were at `from`.
pub(super) fn walk_in(
    folder: Dir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    walk_with(folder, from, extent, &mut |_, _| {})
}

/// Walks as [`walk_in`] does, and calls `before_listing` with each folder and its path before its entries are read.
pub(super) fn walk_with(
    folder: Dir,
    from: Option<&RelativePath>,
    extent: Extent,
    before_listing: &mut dyn FnMut(&Dir, Option<&RelativePath>),
) -> Result<Walk, BackendError> {
    let mut walker = Walker {
        before_listing,
        entry_count: 0,
        stat_queue: StatQueue::new(FsTime::now()),
        pending_folders: 0,
        files: Vec::new(),
        folders: vec![Folder { path: from.cloned(), parent: 0, bytes: 0, is_listed: false }],
        walk: Walk::default(),
    };
    let to_error = |error: io::Error| BackendError::from_io("list a folder", error);
    walker.folder(&Arc::new(folder), 0).map_err(to_error)?;
    walker.wait_for_stats();
    let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
    Ok(walker.finish(depth_max, extent.max))
}

/// Counts the files that a walk would find. It reads only names, which is fast enough to run for each new memory.
pub(super) fn count(root_dir: &RootDir) -> Result<usize, BackendError> {
    let Some(folder) = root_dir.open_folder(None)? else { return Ok(0) };
    let to_error = |error: io::Error| BackendError::from_io("list a folder", error);
    let (mut entry_count, mut files) = (0, 0);
    let mut folders = vec![(folder, None::<RelativePath>)];
    while let Some((folder, folder_path)) = folders.pop() {
        for entry in FolderEntries::of(&folder).map_err(to_error)? {
            let entry = entry.map_err(to_error)?;
            entry_count += 1;
            if entry_count > WALKED_ENTRIES_MAX {
                return Ok(files);
            }
            let Some(name) = entry.name().ok().filter(|name| !name.starts_with('.')) else {
                continue;
            };
            let path = folder_path
                .as_ref()
                .map_or_else(|| RelativePath::parse(name), |folder_path| folder_path.child(name));
            match (entry.kind(), path) {
                (Ok(EntryKind::File), Ok(_)) => files += 1,
                (Ok(EntryKind::Folder), Ok(path)) => {
                    // The files in a folder that cannot be opened cannot be counted.
                    if let Ok(Some(subfolder)) = open_child(&folder, name) {
                        folders.push((subfolder, Some(path)));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(files)
}

struct Walker<'w> {
    before_listing: &'w mut dyn FnMut(&Dir, Option<&RelativePath>),
    entry_count: usize,
    stat_queue: StatQueue,
    /// Number of folders that were read since the last wait.
    pending_folders: usize,
    files: Vec<WalkedFile>,
    /// All folders, each after its parent. The start of the walk is first.
    folders: Vec<Folder>,
    walk: Walk,
}

struct Folder {
    path: Option<RelativePath>,
    parent: usize,
    bytes: u64,
    /// Whether it was read completely, and is not the start of the walk.
    is_listed: bool,
}

impl Walker<'_> {
    /// Lists one folder and everything below it.
    fn folder(&mut self, folder: &Arc<Dir>, index: usize) -> io::Result<()> {
        self.pending_folders += 1;
        (self.before_listing)(folder, self.folders[index].path.as_ref());
        for entry in FolderEntries::of(folder)? {
            let entry = entry?;
            self.entry_count += 1;
            if self.entry_count > WALKED_ENTRIES_MAX {
                self.walk.incomplete = true;
                break;
            }
            match entry.name() {
                Ok(name) => self.entry(folder, (name, &entry), index),
                Err(name) => self.skip(index, &name, SkipReason::Unaddressable),
            }
        }
        if self.pending_folders >= PENDING_FOLDERS_MAX {
            self.wait_for_stats();
        }
        Ok(())
    }

    fn entry(&mut self, folder: &Arc<Dir>, (name, entry): (&str, &FolderEntry<'_>), index: usize) {
        if name.starts_with('.') {
            if temp_name::kind_of(name).is_some() {
                self.skip(index, name, SkipReason::Temporary);
            }
            return;
        }
        let Ok(kind) = entry.kind() else {
            return self.skip(index, name, SkipReason::Unreadable);
        };
        match kind {
            EntryKind::File | EntryKind::Folder => {}
            EntryKind::Link => return self.skip(index, name, SkipReason::Link),
            EntryKind::Special => return self.skip(index, name, SkipReason::Special),
        }
        let path = match &self.folders[index].path {
            None => RelativePath::parse(name),
            Some(folder_path) => folder_path.child(name),
        };
        let Ok(path) = path else {
            let is_too_deep = RelativePath::parse(name).is_ok();
            let reason = if is_too_deep { SkipReason::TooDeep } else { SkipReason::Unaddressable };
            return self.skip(index, name, reason);
        };
        if kind == EntryKind::Folder {
            return self.subfolder(folder, name, path, index);
        }
        self.stat_queue.submit(StatRequest { path, folder: Arc::clone(folder), index });
        if self.stat_queue.pending >= PENDING_FILES_MAX {
            self.wait_for_stats();
        }
    }

    fn subfolder(&mut self, folder: &Dir, name: &str, path: RelativePath, parent: usize) {
        let opened = match open_child(folder, name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return,
            Err(BackendError::Escapes(_)) => return self.skip(parent, name, SkipReason::Link),
            Err(_) => return self.skip(parent, name, SkipReason::Unreadable),
        };
        let index = self.folders.len();
        self.folders.push(Folder { path: Some(path), parent, bytes: 0, is_listed: true });
        if self.folder(&Arc::new(opened), index).is_err() {
            self.folders[index].is_listed = false;
            self.skip(parent, name, SkipReason::Unreadable);
        }
    }

    /// Waits for the results of all pending files.
    fn wait_for_stats(&mut self) {
        self.pending_folders = 0;
        self.stat_queue.finish(|index, file| {
            self.walk.files_total += 1;
            self.walk.bytes_total += file.stat.bytes;
            self.folders[index].bytes += file.stat.bytes;
            self.files.push(file);
        });
    }

    /// Sums up the bytes of folders, and keeps the first `max` entries within reach.
    fn finish(self, depth_max: usize, max: usize) -> Walk {
        let Self { mut walk, mut files, mut folders, .. } = self;
        for index in (1..folders.len()).rev() {
            let (above, folder) = folders.split_at_mut(index);
            above[folder[0].parent].bytes += folder[0].bytes;
        }
        walk.folders_total = folders.iter().filter(|folder| folder.is_listed).count();
        let is_in_reach = |path: &RelativePath| path.depth() <= depth_max;
        files.retain(|file| is_in_reach(&file.path));
        let mut folders: Vec<_> = folders
            .into_iter()
            .filter(|folder| folder.is_listed)
            .filter_map(|folder| Some(WalkedFolder { path: folder.path?, bytes: folder.bytes }))
            .filter(|folder| is_in_reach(&folder.path))
            .collect();
        walk.in_reach = files.len() + folders.len();
        files.sort_unstable_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        files.truncate(max);
        folders.sort_unstable_by(|a, b| a.path.as_str().cmp(b.path.as_str()));
        folders.truncate(max);
        walk.files = files;
        walk.folders = folders;
        walk.skipped.sort_by(|a, b| a.name.cmp(&b.name));
        walk
    }

    fn skip(&mut self, folder: usize, name: &str, reason: SkipReason) {
        if self.walk.skipped.len() < SKIPPED_MAX {
            let name = match &self.folders[folder].path {
                None => name.to_owned(),
                Some(folder_path) => format!("{folder_path}/{name}"),
            };
            self.walk.skipped.push(SkippedEntry { name, reason });
        }
    }
}

/// Calls `stat` for a file in an open folder. Returns `None` if there is no regular file of that name.
pub(super) fn stat_file(folder: &Dir, name: &str, looked_at: FsTime) -> Option<Stat> {
    let metadata = os::stat_in(folder, name).ok()?;
    (metadata.kind == EntryKind::File).then(|| stat_of(&metadata, looked_at))
}

/// A file with a pending `stat`.
struct StatRequest {
    path: RelativePath,
    /// Handle of its folder, and the index of that folder in the walk.
    folder: Arc<Dir>,
    index: usize,
}

impl StatRequest {
    /// Calls `stat`. Returns `None` if the file was removed or replaced since its folder was read.
    fn stat(self, started: FsTime) -> Option<StatResult> {
        let stat = stat_file(&self.folder, self.path.file_name(), started)?;
        Some((self.index, WalkedFile { path: self.path, stat }))
    }
}

/// A file with its stat, and the index of its folder.
type StatResult = (usize, WalkedFile);

/// A queue of pending `stat` calls. Threads of the blocking pool help the walker. A helper that starts late finds
/// no work, and the walk does not wait for it.
struct StatQueue {
    started: FsTime,
    /// The batch that is being filled.
    batch: Vec<StatRequest>,
    /// Number of files without a result.
    pending: usize,
    /// Number of files that were submitted since the walk began.
    submitted: usize,
    helpers: usize,
    queue: Arc<BatchQueue>,
    result_sender: mpsc::Sender<Vec<Option<StatResult>>>,
    results: mpsc::Receiver<Vec<Option<StatResult>>>,
}

impl StatQueue {
    fn new(started: FsTime) -> Self {
        let (result_sender, results) = mpsc::channel();
        let (batch, queue) = (Vec::with_capacity(FILES_PER_BATCH), Arc::default());
        Self { started, batch, pending: 0, submitted: 0, helpers: 0, queue, result_sender, results }
    }

    fn submit(&mut self, request: StatRequest) {
        self.batch.push(request);
        self.pending += 1;
        self.submitted += 1;
        if self.batch.len() == FILES_PER_BATCH {
            let next = Vec::with_capacity(FILES_PER_BATCH);
            self.queue.push(std::mem::replace(&mut self.batch, next));
            if self.submitted > STATS_PER_THREAD * (self.helpers + 1) {
                self.spawn_helper();
            }
        }
    }

    fn spawn_helper(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.helpers + 1 >= *THREADS {
            return;
        }
        self.helpers += 1;
        let (queue, sender, started) =
            (Arc::clone(&self.queue), self.result_sender.clone(), self.started);
        runtime.spawn_blocking(move || {
            while let Some(batch) = queue.pop() {
                // The walk may have been dropped, and its receiver with it.
                drop(sender.send(stat_all(batch, started)));
            }
        });
    }

    /// Processes the remaining batches, and waits for the results of the helpers.
    fn finish(&mut self, mut on_result: impl FnMut(usize, WalkedFile)) {
        self.queue.push(std::mem::take(&mut self.batch));
        while self.pending > 0 {
            // If the queue is empty, helpers have the remaining batches.
            let results = match self.queue.try_pop() {
                Some(batch) => stat_all(batch, self.started),
                None => match self.results.recv() {
                    Ok(results) => results,
                    Err(_) => break,
                },
            };
            self.pending -= results.len();
            results.into_iter().flatten().for_each(|(index, file)| on_result(index, file));
        }
    }
}

impl Drop for StatQueue {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn stat_all(batch: Vec<StatRequest>, started: FsTime) -> Vec<Option<StatResult>> {
    batch.into_iter().map(|request| request.stat(started)).collect()
}

/// Batches on their way from the walker to its helpers.
#[derive(Default)]
struct BatchQueue {
    state: Mutex<BatchQueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct BatchQueueState {
    batches: VecDeque<Vec<StatRequest>>,
    closed: bool,
}

impl BatchQueue {
    fn state(&self) -> MutexGuard<'_, BatchQueueState> {
        self.state.lock()
    }

    fn push(&self, batch: Vec<StatRequest>) {
        self.state().batches.push_back(batch);
        self.changed.notify_one();
    }

    fn try_pop(&self) -> Option<Vec<StatRequest>> {
        self.state().batches.pop_front()
    }

    /// Waits for a batch. Returns `None` once the queue is closed and empty.
    fn pop(&self) -> Option<Vec<StatRequest>> {
        let is_idle = |state: &mut BatchQueueState| state.batches.is_empty() && !state.closed;
        let mut state = self.state();
        self.changed.wait_while(&mut state, is_idle);
        state.batches.pop_front()
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}
