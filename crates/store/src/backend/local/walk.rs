//! Finding all memories of a root, in bounded memory and without opening one.
//!
//! Nearly all the time goes into asking the kernel for the facts of each file. So names are gathered
//! first, and the facts asked for by several threads where there are many.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use cap_std::fs::{Dir, DirEntry};
use memory::limits::WALKED_ENTRIES_MAX;
use memory::path::RelativePath;
use tokio::runtime::Handle;

use super::anchor::{Anchor, step};
use super::instant::Instant;
use super::{stat_of, temporary};
use crate::backend::{BackendError, Extent, Found, FoundFolder, SkipReason, Skipped, Stat, Walk};

/// How many things that were passed over are named; the rest of a hostile tree is not worth it.
const SKIPPED_MAX: usize = 100;

/// How many files wait for their facts at most; each keeps its folder open.
const WAITING_MAX: usize = 4_096;
/// How many folders are kept open for files that wait.
const WAITING_FOLDERS_MAX: usize = 64;
/// Fewer files than this are not worth another thread.
const FILES_PER_THREAD: usize = 200;
/// Files that a thread asks for before it looks what is left.
const FILES_AT_ONCE: usize = 32;
/// Threads that ask; the kernel serves a few at once well, not many.
const THREADS_MAX: usize = 4;

/// Walks everything below `from` and keeps the first of each kind in byte order.
pub(super) fn walk(
    anchor: &Anchor,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    match anchor.folder_at(from)? {
        Some(folder) => walk_in(&folder, from, extent),
        None => Ok(Walk::default()),
    }
}

/// Walks a folder as if it were at `from`, wherever it really is.
pub(super) fn walk_in(
    folder: &Dir,
    from: Option<&RelativePath>,
    extent: Extent,
) -> Result<Walk, BackendError> {
    let mut walker = Walker {
        started: Instant::now(),
        seen: 0,
        waiting: Vec::new(),
        waiting_paths: Vec::new(),
        waiting_folders: 0,
        files: Vec::new(),
        folders: vec![Folder { path: from.cloned(), parent: 0, bytes: 0, found: false }],
        walk: Walk::default(),
    };
    walker.folder(folder, 0).map_err(|error| BackendError::from_io("list a folder", error))?;
    walker.look();
    let depth_max = from.map_or(0, RelativePath::depth).saturating_add(extent.levels);
    Ok(walker.finish(depth_max, extent.max))
}

struct Walker {
    started: Instant,
    seen: usize,
    /// Files whose facts are not known yet.
    waiting: Vec<DirEntry>,
    /// Their paths, and which folders they lie in.
    waiting_paths: Vec<(RelativePath, usize)>,
    /// How many folders that is.
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
    fn folder(&mut self, folder: &Dir, index: usize) -> io::Result<()> {
        self.waiting_folders += 1;
        for entry in folder.entries()? {
            self.seen += 1;
            if self.seen > WALKED_ENTRIES_MAX {
                self.walk.incomplete = true;
                break;
            }
            self.entry(folder, entry?, index);
        }
        if self.waiting.len() >= WAITING_MAX || self.waiting_folders >= WAITING_FOLDERS_MAX {
            self.look();
        }
        Ok(())
    }

    fn entry(&mut self, folder: &Dir, entry: DirEntry, index: usize) {
        let os_name = entry.file_name();
        let Some(name) = os_name.to_str() else {
            return self.skip(index, &os_name.to_string_lossy(), SkipReason::Unaddressable);
        };
        if name.starts_with('.') {
            if temporary::kind_of(name).is_some() {
                self.skip(index, name, SkipReason::Temporary);
            }
            return;
        }
        let Ok(kind) = entry.file_type() else {
            return self.skip(index, name, SkipReason::Unreadable);
        };
        if kind.is_symlink() {
            return self.skip(index, name, SkipReason::Link);
        }
        if !kind.is_file() && !kind.is_dir() {
            return self.skip(index, name, SkipReason::Special);
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
        if kind.is_dir() {
            self.subfolder(folder, name, path, index);
        } else {
            self.waiting.push(entry);
            self.waiting_paths.push((path, index));
            if self.waiting.len() >= WAITING_MAX {
                self.look();
            }
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
        if self.folder(&opened, index).is_err() {
            self.folders[index].found = false;
            self.skip(parent, name, SkipReason::Unreadable);
        }
    }

    /// Asks for the facts of the files that wait. One that was removed since its folder was read is
    /// no finding.
    fn look(&mut self) {
        self.waiting_folders = 0;
        let stats = stats(std::mem::take(&mut self.waiting), self.started);
        for ((path, folder), stat) in self.waiting_paths.drain(..).zip(stats) {
            let Some(stat) = stat else { continue };
            self.walk.files_total += 1;
            self.walk.bytes_total += stat.bytes;
            self.folders[folder].bytes += stat.bytes;
            self.files.push(Found { path, stat });
        }
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

/// Files whose facts are asked for, a few at a time, by whoever comes by.
struct Questions {
    files: Vec<DirEntry>,
    next: AtomicUsize,
    started: Instant,
}

/// The facts of some files, from the one with this index on.
type Answers = (usize, Vec<Option<Stat>>);

impl Questions {
    /// Takes the next few and answers them; nothing when all are taken.
    fn answer_some(&self) -> Option<Answers> {
        let first = self.next.fetch_add(FILES_AT_ONCE, Ordering::Relaxed);
        let files = self.files.get(first..).filter(|files| !files.is_empty())?;
        let stat = |file: &DirEntry| Some(stat_of(&file.metadata().ok()?, self.started));
        Some((first, files.iter().take(FILES_AT_ONCE).map(stat).collect()))
    }
}

/// Returns the facts of files, in their order. Threads that are there anyway help; one that comes late
/// finds nothing left to do, and nobody waits for it.
fn stats(files: Vec<DirEntry>, started: Instant) -> Vec<Option<Stat>> {
    let mut stats = vec![None; files.len()];
    let mut missing = stats.len();
    let questions = Arc::new(Questions { files, next: AtomicUsize::new(0), started });
    let (answer, answers) = mpsc::channel();
    if let Ok(runtime) = Handle::try_current() {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let helpers = (missing / FILES_PER_THREAD).min(processors).min(THREADS_MAX);
        for _ in 1..helpers {
            let (questions, answer) = (Arc::clone(&questions), answer.clone());
            runtime.spawn_blocking(move || {
                while let Some(some) = questions.answer_some() {
                    // Nobody listens any more when the walk was given up.
                    drop(answer.send(some));
                }
            });
        }
    }
    drop(answer);
    // What is missing when all are taken, somebody else is at.
    while let Some((first, some)) = questions.answer_some().or_else(|| answers.recv().ok()) {
        missing -= some.len();
        for (place, stat) in stats.iter_mut().skip(first).zip(some) {
            *place = stat;
        }
        if missing == 0 {
            break;
        }
    }
    stats
}
