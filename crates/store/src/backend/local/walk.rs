//! Finding all memories of a root, in bounded memory and without opening one.
//!
//! Nearly all the time goes into asking the kernel for the facts of each file. So where there are many,
//! several threads ask, while names are still gathered.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;

use cap_std::fs::Dir;
use memory::limits::WALKED_ENTRIES_MAX;
use memory::path::RelativePath;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use tokio::runtime::Handle;

use super::fs_time::FsTime;
use super::root_dir::{RootDir, open_child};
use super::{FileMeta, temp_name};
use crate::backend::{
    BackendError, Extent, SkipReason, SkippedEntry, Walk, WalkedFile, WalkedFolder,
};

/// How many things that were passed over are named; the rest of a hostile tree is not worth it.
const SKIPPED_MAX: usize = 100;

/// How many files wait for their facts at most; each keeps its folder open.
const PENDING_FILES_MAX: usize = 4_096;
/// How many folders are kept open for files that wait.
const PENDING_FOLDERS_MAX: usize = 64;
/// Fewer files than this are not worth another thread.
const FILES_PER_THREAD: usize = 128;
/// Files that are asked for together.
const FILES_PER_BATCH: usize = 32;
/// Threads that ask at most; the kernel serves a few at once well, not many.
const THREADS_MAX: usize = 4;
/// Threads that ask here. Counting processors reads a dozen files, so it is done once.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(THREADS_MAX)
});

/// Walks everything below `from` and keeps the first of each kind in byte order.
pub(super) fn walk(
    anchor: &RootDir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    match anchor.open_folder(from)? {
        Some(folder) => walk_in(folder, from, extent),
        None => Ok(Walk::default()),
    }
}

/// Walks a folder as if it were at `from`, wherever it really is.
pub(super) fn walk_in(
    folder: Dir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    let mut walker = Walker {
        entry_count: 0,
        stat_queue: StatQueue::new(FsTime::now()),
        pending_folders: 0,
        files: Vec::new(),
        folders: vec![Folder { path: from.cloned(), parent: 0, bytes: 0, is_listed: false }],
        walk: Walk::default(),
    };
    let cannot = |error: io::Error| BackendError::from_io("list a folder", error);
    walker.folder(&Arc::new(folder), 0).map_err(cannot)?;
    walker.wait_for_stats();
    let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
    Ok(walker.finish(depth_max, extent.max))
}

/// Counts the files that a walk would find. Only names are read: that is so much quicker that it can be done for each new
/// memory.
pub(super) fn count(anchor: &RootDir) -> Result<usize, BackendError> {
    let Some(folder) = anchor.open_folder(None)? else { return Ok(0) };
    let cannot = |error: io::Error| BackendError::from_io("list a folder", error);
    let (mut seen, mut files) = (0, 0);
    let mut folders = vec![(folder, None::<RelativePath>)];
    while let Some((folder, at)) = folders.pop() {
        for entry in entries_of(&folder).map_err(cannot)? {
            let entry = entry.map_err(|error| cannot(error.into()))?;
            seen += 1;
            if seen > WALKED_ENTRIES_MAX {
                return Ok(files);
            }
            let Some(name) = entry.file_name().to_str().ok().filter(|name| !name.starts_with('.'))
            else {
                continue;
            };
            let path = at.as_ref().map_or_else(|| RelativePath::parse(name), |at| at.child(name));
            match (kind_of(&folder, name, entry.file_type()), path) {
                (Ok(FileType::RegularFile), Ok(_)) => files += 1,
                (Ok(FileType::Directory), Ok(path)) => {
                    // What cannot be gone into holds nothing that can be counted.
                    if let Ok(Some(below)) = open_child(&folder, name) {
                        folders.push((below, Some(path)));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(files)
}

fn entries_of(folder: &Dir) -> io::Result<rustix::fs::Dir> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::Dir::new(openat(folder, ".", flags, Mode::empty())?)?)
}

/// Returns of which kind an entry is; not every file system says it along with the name.
fn kind_of(folder: &Dir, name: &str, told: FileType) -> rustix::io::Result<FileType> {
    if told != FileType::Unknown {
        return Ok(told);
    }
    let facts = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(facts.st_mode))
}

struct Walker {
    entry_count: usize,
    stat_queue: StatQueue,
    /// How many folders were read since all questions were answered.
    pending_folders: usize,
    files: Vec<WalkedFile>,
    /// All folders, each after the one that it lies in; where the walk began comes first.
    folders: Vec<Folder>,
    walk: Walk,
}

struct Folder {
    path: Option<RelativePath>,
    parent: usize,
    bytes: u64,
    /// Whether it could be read to its end, and is not where the walk began.
    is_listed: bool,
}

impl Walker {
    /// Gathers what is in one folder and below it.
    fn folder(&mut self, folder: &Arc<Dir>, index: usize) -> io::Result<()> {
        self.pending_folders += 1;
        let mut entries = entries_of(folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.entry_count += 1;
            if self.entry_count > WALKED_ENTRIES_MAX {
                self.walk.incomplete = true;
                break;
            }
            match name.to_str() {
                Ok(name) => self.entry(folder, (name, entry.file_type()), index),
                Err(_) => self.skip(index, &name.to_string_lossy(), SkipReason::Unaddressable),
            }
        }
        if self.pending_folders >= PENDING_FOLDERS_MAX {
            self.wait_for_stats();
        }
        Ok(())
    }

    fn entry(&mut self, folder: &Arc<Dir>, (name, kind): (&str, FileType), index: usize) {
        if name.starts_with('.') {
            if temp_name::kind_of(name).is_some() {
                self.skip(index, name, SkipReason::Temporary);
            }
            return;
        }
        let Ok(kind) = kind_of(folder, name, kind) else {
            return self.skip(index, name, SkipReason::Unreadable);
        };
        match kind {
            FileType::RegularFile | FileType::Directory => {}
            FileType::Symlink => return self.skip(index, name, SkipReason::Link),
            _ => return self.skip(index, name, SkipReason::Special),
        }
        let path = match &self.folders[index].path {
            None => RelativePath::parse(name),
            Some(at) => at.child(name),
        };
        let Ok(path) = path else {
            let deep = RelativePath::parse(name).is_ok();
            let reason = if deep { SkipReason::TooDeep } else { SkipReason::Unaddressable };
            return self.skip(index, name, reason);
        };
        if kind == FileType::Directory {
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

    /// Waits for the facts of all files that were asked for.
    fn wait_for_stats(&mut self) {
        self.pending_folders = 0;
        self.stat_queue.finish(|index, found| {
            self.walk.files_total += 1;
            self.walk.bytes_total += found.stat.bytes;
            self.folders[index].bytes += found.stat.bytes;
            self.files.push(found);
        });
    }

    /// Adds up what lies in folders, and keeps the first `max` of what is within reach.
    fn finish(self, depth_max: usize, max: usize) -> Walk {
        let Self { mut walk, mut files, mut folders, .. } = self;
        for index in (1..folders.len()).rev() {
            let (above, folder) = folders.split_at_mut(index);
            above[folder[0].parent].bytes += folder[0].bytes;
        }
        walk.folders_total = folders.iter().filter(|folder| folder.is_listed).count();
        let within_reach = |path: &RelativePath| path.depth() <= depth_max;
        files.retain(|file| within_reach(&file.path));
        let mut folders: Vec<_> = folders
            .into_iter()
            .filter(|folder| folder.is_listed)
            .filter_map(|folder| Some(WalkedFolder { path: folder.path?, bytes: folder.bytes }))
            .filter(|folder| within_reach(&folder.path))
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
                Some(at) => format!("{at}/{name}"),
            };
            self.walk.skipped.push(SkippedEntry { name, reason });
        }
    }
}

/// A file whose facts are not known yet.
struct StatRequest {
    path: RelativePath,
    /// What it lies in, and which folder of the walk that is.
    folder: Arc<Dir>,
    index: usize,
}

impl StatRequest {
    /// Asks the kernel. What was removed since its folder was read, or became something else, is no
    /// finding.
    fn stat(self, started: FsTime) -> Option<StatResult> {
        let facts = statat(&self.folder, self.path.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
        let stat = FileMeta::from(&facts).stat(started);
        is_file.then_some((self.index, WalkedFile { path: self.path, stat }))
    }
}

/// A file with its facts, and the folder that it lies in.
type StatResult = (usize, WalkedFile);

/// Files whose facts are asked for by whoever comes by. Threads that are there anyway help; one that
/// comes late finds nothing left to do, and nobody waits for it.
struct StatQueue {
    started: FsTime,
    /// Not enough to be asked together yet.
    batch: Vec<StatRequest>,
    /// How many files are not answered yet.
    pending: usize,
    /// How many were asked for since the walk began.
    submitted: usize,
    helpers: usize,
    queue: Arc<BatchQueue>,
    result_sender: mpsc::Sender<Vec<Option<StatResult>>>,
    results: mpsc::Receiver<Vec<Option<StatResult>>>,
}

impl StatQueue {
    fn new(started: FsTime) -> Self {
        let (answer, answers) = mpsc::channel();
        let (few, queue) = (Vec::with_capacity(FILES_PER_BATCH), Arc::default());
        Self {
            started,
            batch: few,
            pending: 0,
            submitted: 0,
            helpers: 0,
            queue,
            result_sender: answer,
            results: answers,
        }
    }

    fn submit(&mut self, question: StatRequest) {
        self.batch.push(question);
        self.pending += 1;
        self.submitted += 1;
        if self.batch.len() == FILES_PER_BATCH {
            let next = Vec::with_capacity(FILES_PER_BATCH);
            self.queue.push(std::mem::replace(&mut self.batch, next));
            if self.submitted > FILES_PER_THREAD * (self.helpers + 1) {
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
        let (queue, answer, started) =
            (Arc::clone(&self.queue), self.result_sender.clone(), self.started);
        runtime.spawn_blocking(move || {
            while let Some(questions) = queue.pop() {
                // Nobody listens any more when the walk was given up.
                drop(answer.send(stat_all(questions, started)));
            }
        });
    }

    /// Answers all questions and waits for those that others answer.
    fn finish(&mut self, mut take: impl FnMut(usize, WalkedFile)) {
        self.queue.push(std::mem::take(&mut self.batch));
        while self.pending > 0 {
            // What is missing when all are taken, somebody else is at.
            let answers = match self.queue.try_pop() {
                Some(questions) => stat_all(questions, self.started),
                None => match self.results.recv() {
                    Ok(answers) => answers,
                    Err(_) => break,
                },
            };
            self.pending -= answers.len();
            answers.into_iter().flatten().for_each(|(index, found)| take(index, found));
        }
    }
}

impl Drop for StatQueue {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn stat_all(questions: Vec<StatRequest>, started: FsTime) -> Vec<Option<StatResult>> {
    questions.into_iter().map(|question| question.stat(started)).collect()
}

/// Questions on their way from who gathers names to who asks.
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

    /// Waits for a batch; `None` when no more will come.
    fn pop(&self) -> Option<Vec<StatRequest>> {
        let is_idle = |waiting: &mut BatchQueueState| waiting.batches.is_empty() && !waiting.closed;
        let mut waiting = self.state();
        self.changed.wait_while(&mut waiting, is_idle);
        waiting.batches.pop_front()
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}
