//! The backend for a local folder.
//!
//! Every path is resolved component by component from an open directory handle, and no component
//! may be a link. So no race between a check and its use leads out of the root. Only regular files
//! are opened, and an open never blocks. New bytes are staged and put in place in one step. The
//! replaced file is checked after that step, so an external edit at the same time is put back and
//! not lost.
//!
//! A write does not synchronize files: the durable redo record in the state makes up for that, and
//! [`Backend::sync`] is called later.

mod root_dir;

mod fs_time;

mod lock;

mod observed_list;

mod observer;

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
use cap_std::fs::{Dir, File, OpenOptions};
use memory::change::DatabaseId;
use memory::clock::Timestamp;
use memory::path::RelativePath;

use self::fs_time::FsTime;
use self::lock::LockFile;
pub(crate) use self::lock::highest_completed;
use self::observed_list::ObservedList;
pub(crate) use self::observer::Observer;
pub(crate) use self::root_dir::join_names;
pub use self::root_dir::{Privacy, RootDir};
use super::{
    Backend, BackendError, Extent, FileKind, FileList, FileRead, Freshness, IsReferenced,
    LastWrite, RootLock, Staged, Stamp, Stat, SweepReport, Walk,
};
use crate::os::{self, EntryKind, FileMeta};

/// The files of one root, in a local folder.
#[derive(Clone, Debug)]
pub struct LocalBackend {
    root_dir: Arc<RootDir>,
    lock: Arc<LockFile>,
    list: Arc<ObservedList>,
}

impl LocalBackend {
    /// Returns a backend for the folder at `root_dir` with the lock file `lock`. Neither has to exist.
    pub fn new(root_dir: RootDir, lock: PathBuf) -> Self {
        Self::with_observer(root_dir, lock, Arc::default())
    }

    /// Returns a backend that shares the notices about changed files with others.
    pub(crate) fn with_observer(root_dir: RootDir, lock: PathBuf, observer: Arc<Observer>) -> Self {
        let (lock, list) = (LockFile::new(lock), ObservedList::new(observer));
        Self { root_dir: Arc::new(root_dir), lock: Arc::new(lock), list: Arc::new(list) }
    }

    /// Stages new bytes as [`Backend::stage`] does, and makes them durable; for a write without a redo record.
    pub(crate) async fn stage_synced(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let path = path.clone();
        self.run(move |root_dir| {
            let staged = write::stage(root_dir, &path, &bytes)?;
            staged.sync()?;
            Ok(Box::new(staged) as _)
        })
        .await
    }

    /// Sweeps as [`Backend::sweep`] does, but only at the top of the root.
    pub(crate) async fn sweep_top(
        &self,
        in_history: Arc<IsReferenced>,
    ) -> Result<SweepReport, BackendError> {
        self.run(move |root_dir| sweep::sweep_top(root_dir, &*in_history)).await
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&RootDir) -> Result<T, BackendError> + Send + 'static,
    ) -> impl Future<Output = Result<T, BackendError>> + Send {
        let root_dir = Arc::clone(&self.root_dir);
        blocking(move || work(&root_dir))
    }
}

/// Runs `work` on a thread that may block on the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackendError> + Send + 'static,
) -> Result<T, BackendError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
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
        self.run(move |root_dir| walk::walk(root_dir, from.as_ref(), extent)).await
    }

    async fn list(&self, freshness: Freshness) -> Result<Arc<FileList>, BackendError> {
        let list = Arc::clone(&self.list);
        self.run(move |root_dir| list.list(root_dir, freshness)).await
    }

    async fn count(&self) -> Result<usize, BackendError> {
        let list = Arc::clone(&self.list);
        self.run(move |root_dir| list.count(root_dir)).await
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        let path = path.clone();
        self.run(move |root_dir| kind(root_dir, &path)).await
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        let path = path.clone();
        self.run(move |root_dir| read_at(root_dir, &path, max)).await
    }

    async fn read_many(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Vec<Result<FileRead, BackendError>> {
        let owned_paths = paths.to_vec();
        let read = self.run(move |root_dir| Ok(read_all(root_dir, &owned_paths, max)));
        // This fails only if the program is shutting down.
        read.await.unwrap_or_else(|_| paths.iter().map(|_| Err(shutting_down())).collect())
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let path = path.clone();
        self.run(move |root_dir| Ok(Box::new(write::stage(root_dir, &path, &bytes)?) as _)).await
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        let path = path.clone();
        self.run(move |root_dir| write::remove_file(root_dir, &path, expect)).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        let (path, expect) = (path.clone(), expect.to_vec());
        self.run(move |root_dir| write::remove_folder(root_dir, &path, expect)).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        let path = path.clone();
        self.run(move |root_dir| write::remove_empty(root_dir, &path)).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        let (from, to) = (from.clone(), to.clone());
        self.run(move |root_dir| write::rename(root_dir, &from, &to)).await
    }

    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError> {
        Ok(Box::new(self.lock.acquire(database, wait).await?))
    }

    async fn try_lock(
        &self,
        database: DatabaseId,
    ) -> Result<Option<Box<dyn RootLock>>, BackendError> {
        let lock = Arc::clone(&self.lock);
        let guard = blocking(move || lock.try_acquire(database)).await?;
        Ok(guard.map(|guard| Box::new(guard) as _))
    }

    async fn last_write(&self) -> LastWrite {
        let lock = Arc::clone(&self.lock);
        blocking(move || Ok(lock.last_write())).await.unwrap_or(LastWrite::Unknown)
    }

    async fn write_count(&self, _freshness: Freshness) -> Option<u64> {
        let lock = Arc::clone(&self.lock);
        blocking(move || Ok(lock.write_count())).await.ok().flatten()
    }

    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError> {
        let paths = paths.to_vec();
        self.run(move |root_dir| write::sync(root_dir, &paths)).await
    }

    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        self.run(move |root_dir| sweep::sweep(root_dir, &*in_history)).await
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        self.run(|root_dir| Ok(root_dir.open()?.is_some())).await
    }

    async fn holder(&self) -> Option<String> {
        let lock = Arc::clone(&self.lock);
        blocking(move || Ok(lock.holder())).await.ok().flatten()
    }

    fn folder(&self) -> Option<PathBuf> {
        Some(self.root_dir.path())
    }
}

fn kind(root_dir: &RootDir, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
    let Some(folder) = root_dir.open_parent(path)? else { return Ok(None) };
    match os::stat_in(&folder, path.file_name()) {
        Ok(metadata) => Ok(Some(kind_of(metadata.kind))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(BackendError::from_io("look at a memory", error)),
    }
}

const fn kind_of(kind: EntryKind) -> FileKind {
    match kind {
        EntryKind::File => FileKind::File,
        EntryKind::Folder => FileKind::Folder,
        EntryKind::Link | EntryKind::Special => FileKind::Other,
    }
}

/// Opens a regular file. Does not follow a link, and does not block on a pipe without a writer.
fn open_file(folder: &Dir, name: &str) -> Result<(File, Stat), BackendError> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = match folder.open_with(name, &options) {
        Ok(file) => file,
        Err(error) => return Err(classify_error(folder, name, error)),
    };
    let looked_at = FsTime::now();
    let metadata =
        file.metadata().map_err(|error| BackendError::from_io("look at a memory", error))?;
    if !metadata.is_file() {
        return Err(BackendError::WrongKind);
    }
    Ok((file, stat_of(&FileMeta::from(&metadata), looked_at)))
}

/// Distinguishes a link, folder or device from a real failure, since error codes differ between systems.
fn classify_error(folder: &Dir, name: &str, error: std::io::Error) -> BackendError {
    match os::stat_in(folder, name).map(|metadata| metadata.kind) {
        Ok(EntryKind::Link | EntryKind::Special | EntryKind::Folder) => BackendError::WrongKind,
        Ok(EntryKind::File) | Err(_) => BackendError::from_io("open a memory", error),
    }
}

/// Reads files in order. Consecutive files are mostly in one folder, which is opened once for them.
fn read_all(
    root_dir: &RootDir,
    paths: &[RelativePath],
    max: usize,
) -> Vec<Result<FileRead, BackendError>> {
    let mut open: Option<(Option<RelativePath>, Dir)> = None;
    let read = paths.iter().map(|path| {
        let parent = path.parent();
        let folder = match open.take() {
            Some((open_parent, folder)) if open_parent == parent => folder,
            _ => root_dir.open_parent(path)?.ok_or(BackendError::NotFound)?,
        };
        let read = read_in(&folder, path.file_name(), max);
        open = Some((parent, folder));
        read
    });
    read.collect()
}

fn read_at(root_dir: &RootDir, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
    let folder = root_dir.open_parent(path)?.ok_or(BackendError::NotFound)?;
    read_in(&folder, path.file_name(), max)
}

fn read_in(folder: &Dir, name: &str, max: usize) -> Result<FileRead, BackendError> {
    let (mut file, stat) = open_file(folder, name)?;
    let mut bytes = vec![0; usize::try_from(stat.bytes).unwrap_or(max).min(max)];
    let mut filled = 0;
    // A file that grows meanwhile is read up to its size in `stat`; its next stamp differs.
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(BackendError::from_io("read a memory", error)),
        }
    }
    bytes.truncate(filled);
    Ok(FileRead { bytes, stat })
}

/// Reads up to `max` bytes of a file in a folder. Does not follow links below the base that a person chose, and
/// does not block.
pub(crate) fn read_contained(
    root_dir: &RootDir,
    name: &str,
    max: usize,
) -> Result<FileRead, BackendError> {
    let folder = root_dir.open()?.ok_or(BackendError::NotFound)?;
    read_in(&folder, name, max)
}

/// Returns the kind and stat of a path, with links followed; `None` if there is nothing.
pub(crate) fn stat_following_links(path: &std::path::Path) -> Option<(FileKind, Stat)> {
    let looked_at = FsTime::now();
    Some(kind_and_stat(&os::stat_path(path).ok()?, looked_at))
}

/// The same, with a flag that the path itself is a link. Needs one system call if it is none.
pub(crate) fn stat_with_link_check(path: &std::path::Path) -> Option<((FileKind, Stat), bool)> {
    let looked_at = FsTime::now();
    let metadata = os::stat_path_itself(path).ok()?;
    if metadata.kind == EntryKind::Link {
        Some((stat_following_links(path)?, true))
    } else {
        Some((kind_and_stat(&metadata, looked_at), false))
    }
}

fn kind_and_stat(metadata: &FileMeta, looked_at: FsTime) -> (FileKind, Stat) {
    (kind_of(metadata.kind), stat_of(metadata, looked_at))
}

/// Converts metadata. `looked_at` is a time not after the metadata was read.
fn stat_of(metadata: &FileMeta, looked_at: FsTime) -> Stat {
    let (seconds, nanoseconds) = metadata.modified;
    Stat {
        bytes: metadata.bytes,
        modified_at: Timestamp::new(seconds, nanos(nanoseconds)).unwrap_or_default(),
        stamp: stamp_of(metadata),
        recent: looked_at.is_racy(seconds, nanoseconds),
    }
}

fn stamp_of(metadata: &FileMeta) -> Stamp {
    let [changed, modified] = [metadata.changed, metadata.modified].map(time_number);
    Stamp([metadata.inode, metadata.bytes, changed, modified])
}

/// Returns a time, in seconds and nanoseconds, as one number that grows with it.
const fn time_number((seconds, nanoseconds): (i64, i64)) -> u64 {
    // Seconds since 1970 leave 30 bits free for the nanoseconds.
    seconds.cast_unsigned() << 30 | nanoseconds.cast_unsigned()
}

fn nanos(value: i64) -> i32 {
    i32::try_from(value).unwrap_or_default()
}
