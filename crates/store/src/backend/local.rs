//! Memories in a folder of this machine.
//!
//! Every path is resolved component by component from an open directory handle, and no component
//! may be a link: whatever happens between a check and its use, nothing leaves the root. Only
//! regular files are opened, and never in a way that waits. New bytes are written beside their
//! place and take it in one step; what was there is looked at after that step, so that an edit made
//! outside at the same moment is put back and not lost.
//!
//! Nothing is synchronized here on the way: the redo record in the state is durable first and
//! stands in for it, and [`Backend::sync`] catches up later.

mod root_dir;

mod fs_time;

mod lock;

mod sweep;

mod temp_name;

mod walk;

mod write;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, File, Metadata, MetadataExt as _, OpenOptions};
use memory::clock::Timestamp;
use memory::path::RelativePath;

use self::fs_time::FsTime;
use self::lock::LockFile;
pub(crate) use self::lock::highest_completed;
pub(crate) use self::root_dir::join_names;
pub use self::root_dir::{Privacy, RootDir};
use super::{
    Backend, BackendError, Extent, FileKind, FileRead, IsReferenced, LastWrite, RootLock, Staged,
    Stamp, Stat, SweepReport, Walk,
};

/// Keeps the files of one root in a folder.
#[derive(Clone, Debug)]
pub struct LocalBackend {
    root_dir: Arc<RootDir>,
    lock: Arc<LockFile>,
}

impl LocalBackend {
    /// Returns the backend of the folder at `anchor`, held through the lock file `lock`. Neither
    /// needs to exist.
    pub fn new(anchor: RootDir, lock: PathBuf) -> Self {
        Self { root_dir: Arc::new(anchor), lock: Arc::new(LockFile::new(lock)) }
    }

    /// Makes new bytes ready beside their place, as [`Backend::stage`] does, and safe on the disk: for a write
    /// that no redo record stands in for.
    pub(crate) async fn stage_synced(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let path = path.clone();
        self.run(move |anchor| {
            let staged = write::stage(anchor, &path, &bytes)?;
            staged.sync()?;
            Ok(Box::new(staged) as _)
        })
        .await
    }

    /// Sweeps as [`Backend::sweep`] does, but only what lies at the top of the root.
    pub(crate) async fn sweep_top(
        &self,
        in_history: Arc<IsReferenced>,
    ) -> Result<SweepReport, BackendError> {
        self.run(move |anchor| sweep::sweep_top(anchor, &*in_history)).await
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RootDir) -> Result<T, BackendError> + Send + 'static,
    ) -> impl Future<Output = Result<T, BackendError>> + Send {
        let anchor = Arc::clone(&self.root_dir);
        blocking(move || work(&anchor))
    }
}

/// Runs `work` on a thread that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(died) => match died.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(shutting_down()),
        },
    }
}

fn shutting_down() -> BackendError {
    let source = std::io::ErrorKind::Interrupted.into();
    BackendError::Io { doing: "finish: the program is shutting down", source }
}

#[async_trait]
impl Backend for LocalBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        let from = from.cloned();
        self.run(move |anchor| walk::walk(anchor, from.as_ref(), extent)).await
    }

    async fn count(&self) -> Result<usize, BackendError> {
        self.run(walk::count).await
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        let path = path.clone();
        self.run(move |anchor| kind(anchor, &path)).await
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        let path = path.clone();
        self.run(move |anchor| read_at(anchor, &path, max)).await
    }

    async fn read_many(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Vec<Result<FileRead, BackendError>> {
        let of_all = paths.to_vec();
        let read = self.run(move |anchor| Ok(read_all(anchor, &of_all, max)));
        // Only the end of the program keeps all of them from being read.
        read.await.unwrap_or_else(|_| paths.iter().map(|_| Err(shutting_down())).collect())
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let path = path.clone();
        self.run(move |anchor| Ok(Box::new(write::stage(anchor, &path, &bytes)?) as _)).await
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        let path = path.clone();
        self.run(move |anchor| write::remove_file(anchor, &path, expect)).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        let (path, expect) = (path.clone(), expect.to_vec());
        self.run(move |anchor| write::remove_folder(anchor, &path, expect)).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        let path = path.clone();
        self.run(move |anchor| write::remove_empty(anchor, &path)).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        let (from, to) = (from.clone(), to.clone());
        self.run(move |anchor| write::rename(anchor, &from, &to)).await
    }

    async fn lock(&self, wait: Duration) -> Result<Box<dyn RootLock>, BackendError> {
        Ok(Box::new(self.lock.acquire(wait).await?))
    }

    async fn try_lock(&self) -> Result<Option<Box<dyn RootLock>>, BackendError> {
        let lock = Arc::clone(&self.lock);
        let held = blocking(move || lock.try_acquire()).await?;
        Ok(held.map(|held| Box::new(held) as _))
    }

    async fn last_write(&self) -> LastWrite {
        let lock = Arc::clone(&self.lock);
        blocking(move || Ok(lock.last_write())).await.unwrap_or(LastWrite::Unknown)
    }

    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError> {
        let paths = paths.to_vec();
        self.run(move |anchor| write::sync(anchor, &paths)).await
    }

    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        self.run(move |anchor| sweep::sweep(anchor, &*in_history)).await
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        self.run(|anchor| Ok(anchor.open()?.is_some())).await
    }

    async fn holder(&self) -> Option<String> {
        let lock = Arc::clone(&self.lock);
        blocking(move || Ok(lock.holder())).await.ok().flatten()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.root_dir.path())
    }
}

fn kind(anchor: &RootDir, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
    let Some(folder) = anchor.open_parent(path)? else { return Ok(None) };
    match folder.symlink_metadata(path.file_name()) {
        Ok(facts) => Ok(Some(kind_of(&facts))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackendError::from_io("look at a memory", error)),
    }
}

fn kind_of(facts: &Metadata) -> FileKind {
    if facts.is_file() {
        FileKind::File
    } else if facts.is_dir() {
        FileKind::Folder
    } else {
        FileKind::Other
    }
}

/// Opens a regular file without following a link or waiting for the other end of a pipe.
fn open_file(folder: &Dir, name: &str) -> Result<(File, Stat), BackendError> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = match folder.open_with(name, &options) {
        Ok(file) => file,
        Err(error) => return Err(classify_error(folder, name, error)),
    };
    let looked_at = FsTime::now();
    let facts =
        file.metadata().map_err(|error| BackendError::from_io("look at a memory", error))?;
    if !facts.is_file() {
        return Err(BackendError::WrongKind);
    }
    let stat = FileMeta::from(&facts).stat(looked_at);
    Ok((file, stat))
}

/// Tells a link or device in the way from a real failure, whatever words the system has for it.
fn classify_error(folder: &Dir, name: &str, error: std::io::Error) -> BackendError {
    match folder.symlink_metadata(name).map(|facts| kind_of(&facts)) {
        Ok(FileKind::Other | FileKind::Folder) => BackendError::WrongKind,
        Ok(FileKind::File) | Err(_) => BackendError::from_io("open a memory", error),
    }
}

/// Reads files, of which those that follow each other mostly lie in one folder: it is opened once for them.
fn read_all(
    anchor: &RootDir,
    paths: &[RelativePath],
    max: usize,
) -> Vec<Result<FileRead, BackendError>> {
    let mut open: Option<(Option<RelativePath>, Dir)> = None;
    let read = paths.iter().map(|path| {
        let parent = path.parent();
        let folder = match open.take() {
            Some((of, folder)) if of == parent => folder,
            _ => anchor.open_parent(path)?.ok_or(BackendError::NotFound)?,
        };
        let read = read_in(&folder, path.file_name(), max);
        open = Some((parent, folder));
        read
    });
    read.collect()
}

fn read_at(anchor: &RootDir, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
    let folder = anchor.open_parent(path)?.ok_or(BackendError::NotFound)?;
    read_in(&folder, path.file_name(), max)
}

fn read_in(folder: &Dir, name: &str, max: usize) -> Result<FileRead, BackendError> {
    let (file, stat) = open_file(folder, name)?;
    let wanted = stat.bytes.min(u64::try_from(max).expect("a length fits 64 bits"));
    let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(max).saturating_add(1));
    let limit = u64::try_from(max).expect("a length fits 64 bits");
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| BackendError::from_io("read a memory", error))?;
    Ok(FileRead { bytes, stat })
}

/// Reads a file in a folder, up to `max` bytes of it: through no link below what a person chose, and in no
/// way that waits for anybody.
pub(crate) fn read_contained(
    anchor: &RootDir,
    name: &str,
    max: usize,
) -> Result<FileRead, BackendError> {
    let folder = anchor.open()?.ok_or(BackendError::NotFound)?;
    read_in(&folder, name, max)
}

/// Looks at what a path leads to, links followed; `None` if there is nothing.
pub(crate) fn stat_following_links(path: &std::path::Path) -> Option<(FileKind, Stat)> {
    let looked_at = FsTime::now();
    let facts = rustix::fs::stat(path).ok()?;
    Some(kind_and_stat(&facts, looked_at))
}

/// The same, and whether the path is a link itself, by one question less where it is none.
pub(crate) fn stat_with_link_check(path: &std::path::Path) -> Option<((FileKind, Stat), bool)> {
    let looked_at = FsTime::now();
    let facts = rustix::fs::lstat(path).ok()?;
    let is_link = rustix::fs::FileType::from_raw_mode(facts.st_mode).is_symlink();
    if is_link {
        Some((stat_following_links(path)?, true))
    } else {
        Some((kind_and_stat(&facts, looked_at), false))
    }
}

fn kind_and_stat(facts: &rustix::fs::Stat, looked_at: FsTime) -> (FileKind, Stat) {
    let kind = match rustix::fs::FileType::from_raw_mode(facts.st_mode) {
        rustix::fs::FileType::RegularFile => FileKind::File,
        rustix::fs::FileType::Directory => FileKind::Folder,
        _ => FileKind::Other,
    };
    (kind, FileMeta::from(facts).stat(looked_at))
}

/// What the kernel says of a file, whichever way it was asked. Moments are seconds since 1970 and
/// nanoseconds.
#[derive(Clone, Copy, Debug)]
struct FileMeta {
    ino: u64,
    bytes: u64,
    modified: (i64, i64),
    /// When these facts were changed last.
    changed: (i64, i64),
}

impl From<&Metadata> for FileMeta {
    fn from(facts: &Metadata) -> Self {
        Self {
            ino: facts.ino(),
            bytes: facts.len(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        }
    }
}

impl From<&rustix::fs::Stat> for FileMeta {
    fn from(facts: &rustix::fs::Stat) -> Self {
        let nanos = |nanos| i64::try_from(nanos).unwrap_or_default();
        Self {
            ino: facts.st_ino,
            bytes: u64::try_from(facts.st_size).unwrap_or_default(),
            modified: (facts.st_mtime, nanos(facts.st_mtime_nsec)),
            changed: (facts.st_ctime, nanos(facts.st_ctime_nsec)),
        }
    }
}

impl FileMeta {
    /// Returns what callers learn of a file that was looked up at a moment not before `looked_at`.
    fn stat(&self, looked_at: FsTime) -> Stat {
        let (seconds, nanoseconds) = self.modified;
        Stat {
            bytes: self.bytes,
            modified_at: Timestamp::new(seconds, nanos(nanoseconds)).unwrap_or_default(),
            stamp: self.stamp(),
            recent: looked_at.is_racy(seconds, nanoseconds),
        }
    }

    fn stamp(&self) -> Stamp {
        // Seconds since 1970 leave 30 bits free for the nanoseconds.
        let moment = |(seconds, nanoseconds): (i64, i64)| {
            seconds.cast_unsigned() << 30 | nanoseconds.cast_unsigned()
        };
        Stamp([self.ino, self.bytes, moment(self.changed), moment(self.modified)])
    }
}

fn nanos(value: i64) -> i32 {
    i32::try_from(value).unwrap_or_default()
}
