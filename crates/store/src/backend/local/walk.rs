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

use super::anchor::{Anchor, step};
use super::instant::Instant;
use super::{Facts, temporary};
use crate::backend::{BackendError, Extent, Found, FoundFolder, SkipReason, Skipped, Walk};

/// How many things that were passed over are named; the rest of a hostile tree is not worth it.
const SKIPPED_MAX: usize = 100;

/// How many files wait for their facts at most; each keeps its folder open.
const WAITING_MAX: usize = 4_096;
/// How many folders are kept open for files that wait.
const WAITING_FOLDERS_MAX: usize = 64;
/// Fewer files than this are not worth another thread.
const FILES_PER_THREAD: usize = 128;
/// Files that are asked for together.
const FILES_AT_ONCE: usize = 32;
/// Threads that ask at most; the kernel serves a few at once well, not many.
const THREADS_MAX: usize = 4;
/// Threads that ask here. Counting processors reads a dozen files, so it is done once.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    processors.min(THREADS_MAX)
});

/// Walks everything below `from` and keeps the first of each kind in byte order.
pub(super) fn walk(
    anchor: &Anchor,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    match anchor.folder_at(from)? {
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
        seen: 0,
        questions: Questions::new(Instant::now()),
        waiting_folders: 0,
        files: Vec::new(),
        folders: vec![Folder { path: from.cloned(), parent: 0, bytes: 0, found: false }],
        walk: Walk::default(),
    };
    let cannot = |error: io::Error| BackendError::from_io("list a folder", error);
    walker.folder(&Arc::new(folder), 0).map_err(cannot)?;
    walker.look();
    let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
    Ok(walker.finish(depth_max, extent.max))
}

/// Counts the files that a walk would find. Only names are read: that is so much quicker that it can be done for each new
/// memory.
pub(super) fn count(anchor: &Anchor) -> Result<usize, BackendError> {
    let Some(folder) = anchor.folder_at(None)? else { return Ok(0) };
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
                    if let Ok(Some(below)) = step(&folder, name) {
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
    seen: usize,
    questions: Questions,
    /// How many folders were read since all questions were answered.
    waiting_folders: usize,
    files: Vec<Found>,
    /// All folders, each after the one that it lies in; where the walk began comes first.
    folders: Vec<Folder>,
    walk: Walk,
}

struct Folder {
    path: Option<RelativePath>,
    parent: usize,
    bytes: u64,
    /// Whether it could be read to its end, and is not where the walk began.
    found: bool,
}

impl Walker {
    /// Gathers what is in one folder and below it.
    fn folder(&mut self, folder: &Arc<Dir>, index: usize) -> io::Result<()> {
        self.waiting_folders += 1;
        let mut entries = entries_of(folder)?;
        while let Some(entry) = entries.read() {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.seen += 1;
            if self.seen > WALKED_ENTRIES_MAX {
                self.walk.incomplete = true;
                break;
            }
            match name.to_str() {
                Ok(name) => self.entry(folder, (name, entry.file_type()), index),
                Err(_) => self.skip(index, &name.to_string_lossy(), SkipReason::Unaddressable),
            }
        }
        if self.waiting_folders >= WAITING_FOLDERS_MAX {
            self.look();
        }
        Ok(())
    }

    fn entry(&mut self, folder: &Arc<Dir>, (name, kind): (&str, FileType), index: usize) {
        if name.starts_with('.') {
            if temporary::kind_of(name).is_some() {
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
        self.questions.ask(Question { path, folder: Arc::clone(folder), index });
        if self.questions.waiting >= WAITING_MAX {
            self.look();
        }
    }

    fn subfolder(&mut self, folder: &Dir, name: &str, path: RelativePath, parent: usize) {
        let opened = match step(folder, name) {
            Ok(Some(opened)) => opened,
            Ok(None) => return,
            Err(BackendError::Escapes(_)) => return self.skip(parent, name, SkipReason::Link),
            Err(_) => return self.skip(parent, name, SkipReason::Unreadable),
        };
        let index = self.folders.len();
        self.folders.push(Folder { path: Some(path), parent, bytes: 0, found: true });
        if self.folder(&Arc::new(opened), index).is_err() {
            self.folders[index].found = false;
            self.skip(parent, name, SkipReason::Unreadable);
        }
    }

    /// Waits for the facts of all files that were asked for.
    fn look(&mut self) {
        self.waiting_folders = 0;
        self.questions.finish(|index, found| {
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
        walk.folders_total = folders.iter().filter(|folder| folder.found).count();
        let within_reach = |path: &RelativePath| path.depth() <= depth_max;
        files.retain(|file| within_reach(&file.path));
        let mut folders: Vec<_> = folders
            .into_iter()
            .filter(|folder| folder.found)
            .filter_map(|folder| Some(FoundFolder { path: folder.path?, bytes: folder.bytes }))
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
            self.walk.skipped.push(Skipped { name, reason });
        }
    }
}

/// A file whose facts are not known yet.
struct Question {
    path: RelativePath,
    /// What it lies in, and which folder of the walk that is.
    folder: Arc<Dir>,
    index: usize,
}

impl Question {
    /// Asks the kernel. What was removed since its folder was read, or became something else, is no
    /// finding.
    fn answer(self, started: Instant) -> Option<Answer> {
        let facts = statat(&self.folder, self.path.file_name(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(facts.st_mode) == FileType::RegularFile;
        let stat = Facts::from(&facts).stat(started);
        is_file.then_some((self.index, Found { path: self.path, stat }))
    }
}

/// A file with its facts, and the folder that it lies in.
type Answer = (usize, Found);

/// Files whose facts are asked for by whoever comes by. Threads that are there anyway help; one that
/// comes late finds nothing left to do, and nobody waits for it.
struct Questions {
    started: Instant,
    /// Not enough to be asked together yet.
    few: Vec<Question>,
    /// How many files are not answered yet.
    waiting: usize,
    /// How many were asked for since the walk began.
    asked: usize,
    helpers: usize,
    queue: Arc<Queue>,
    answer: mpsc::Sender<Vec<Option<Answer>>>,
    answers: mpsc::Receiver<Vec<Option<Answer>>>,
}

impl Questions {
    fn new(started: Instant) -> Self {
        let (answer, answers) = mpsc::channel();
        let (few, queue) = (Vec::with_capacity(FILES_AT_ONCE), Arc::default());
        Self { started, few, waiting: 0, asked: 0, helpers: 0, queue, answer, answers }
    }

    fn ask(&mut self, question: Question) {
        self.few.push(question);
        self.waiting += 1;
        self.asked += 1;
        if self.few.len() == FILES_AT_ONCE {
            let next = Vec::with_capacity(FILES_AT_ONCE);
            self.queue.put(std::mem::replace(&mut self.few, next));
            if self.asked > FILES_PER_THREAD * (self.helpers + 1) {
                self.call_for_help();
            }
        }
    }

    fn call_for_help(&mut self) {
        let Ok(runtime) = Handle::try_current() else { return };
        if self.helpers + 1 >= *THREADS {
            return;
        }
        self.helpers += 1;
        let (queue, answer, started) = (Arc::clone(&self.queue), self.answer.clone(), self.started);
        runtime.spawn_blocking(move || {
            while let Some(questions) = queue.wait() {
                // Nobody listens any more when the walk was given up.
                drop(answer.send(answer_all(questions, started)));
            }
        });
    }

    /// Answers all questions and waits for those that others answer.
    fn finish(&mut self, mut take: impl FnMut(usize, Found)) {
        self.queue.put(std::mem::take(&mut self.few));
        while self.waiting > 0 {
            // What is missing when all are taken, somebody else is at.
            let answers = match self.queue.take() {
                Some(questions) => answer_all(questions, self.started),
                None => match self.answers.recv() {
                    Ok(answers) => answers,
                    Err(_) => break,
                },
            };
            self.waiting -= answers.len();
            answers.into_iter().flatten().for_each(|(index, found)| take(index, found));
        }
    }
}

impl Drop for Questions {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn answer_all(questions: Vec<Question>, started: Instant) -> Vec<Option<Answer>> {
    questions.into_iter().map(|question| question.answer(started)).collect()
}

/// Questions on their way from who gathers names to who asks.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Vec<Question>>,
    closed: bool,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    fn put(&self, batch: Vec<Question>) {
        self.waiting().batches.push_back(batch);
        self.changed.notify_one();
    }

    fn take(&self) -> Option<Vec<Question>> {
        self.waiting().batches.pop_front()
    }

    /// Waits for a batch; `None` when no more will come.
    fn wait(&self) -> Option<Vec<Question>> {
        let is_idle = |waiting: &mut Waiting| waiting.batches.is_empty() && !waiting.closed;
        let mut waiting = self.waiting();
        self.changed.wait_while(&mut waiting, is_idle);
        waiting.batches.pop_front()
    }

    fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_all();
    }
}
