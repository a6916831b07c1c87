//! The storage port: the trait [`Backend`] that keeps the files of one root.
//!
//! An adapter stores bytes under relative paths, and never leaves its root. It knows nothing of
//! commands, scopes, limits or history: the code above implements those once for all adapters.
//! Every adapter passes `testkit::conformance::backend`.

pub mod local;
pub mod remote;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId};
use memory::clock::Timestamp;
use memory::error_code::MemoryErrorCode;
use memory::limits::{PATH_SEGMENTS_MAX, SCOPE_FILES_MAX};
use memory::path::RelativePath;
use tokio::sync::watch;

/// A fingerprint that differs between versions of a file, known without reading it. The adapter chooses the facts
/// in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp(pub [u64; 4]);

/// The kind of thing at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, pipe, socket or device. It is never followed and never opened.
    Other,
}

/// Size, age and version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its size.
    pub bytes: u64,
    /// Time of its last modification.
    pub modified_at: Timestamp,
    /// Stamp of its version.
    pub stamp: Stamp,
    /// Whether it was modified so recently that another write of the same size could leave the same stamp. Nothing
    /// may be cached under such a stamp.
    pub recent: bool,
}

/// The first bytes of a file, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The bytes, at most as many as were requested.
    pub bytes: Vec<u8>,
    /// The stat of the file when it was opened.
    pub stat: Stat,
}

impl FileRead {
    /// Returns whether these are all the bytes of the file.
    pub fn is_whole(&self) -> bool {
        u64::try_from(self.bytes.len()).is_ok_and(|read| read >= self.stat.bytes)
    }
}

/// A memory found by a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedFile {
    /// Its path.
    pub path: RelativePath,
    /// Its facts.
    pub stat: Stat,
}

/// A folder found by a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkedFolder {
    /// Its path.
    pub path: RelativePath,
    /// Bytes of all memories below it.
    pub bytes: u64,
}

/// Reason why a walk skipped an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// No memory path could name it.
    Unaddressable,
    /// It is a link.
    Link,
    /// It is neither a file nor a folder.
    Special,
    /// It is deeper than a memory path may be.
    TooDeep,
    /// It cannot be read.
    Unreadable,
    /// It is a left-over of an interrupted write.
    Temporary,
}

/// An entry that a walk skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its path below the root, lossily decoded. It may hold any character, so do not print it unescaped.
    pub name: String,
    /// Reason why it was skipped.
    pub reason: SkipReason,
}

/// Limits on what a walk returns. Its totals count everything, also beyond these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Maximum number of files, and of folders.
    pub max: usize,
    /// Number of levels below the start; 1 means the children of the start alone.
    pub levels: usize,
}

impl Extent {
    /// Everything that a root may hold.
    pub const ALL: Self = Self { max: SCOPE_FILES_MAX, levels: PATH_SEGMENTS_MAX };
}

/// Result of a walk, in byte order of the full paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The first memories, up to the limits of the [`Extent`].
    pub files: Vec<WalkedFile>,
    /// The first folders, up to the limits of the [`Extent`].
    pub folders: Vec<WalkedFolder>,
    /// Number of files and folders within the requested levels, whether returned or not.
    pub in_reach: usize,
    /// Total number of memories.
    pub files_total: usize,
    /// Total number of folders.
    pub folders_total: usize,
    /// Total bytes of all memories.
    pub bytes_total: u64,
    /// The first skipped entries. Hidden files and folders are not among them.
    pub skipped: Vec<SkippedEntry>,
    /// Whether the walk stopped before it had seen everything.
    pub incomplete: bool,
}

/// A version of a [`FileList`]. Two lists of one root with the same version are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListVersion(u64);

impl ListVersion {
    /// The version of the list of a root that does not exist.
    pub const MISSING: Self = Self(0);

    /// Returns the number by which another process of one connection knows it.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// Returns a version that no other list of this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// All memories of a root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileList {
    /// The memories in byte order of their paths, at most [`SCOPE_FILES_MAX`].
    pub files: Vec<WalkedFile>,
    /// Total number of memories, listed or not.
    pub files_total: usize,
    /// Whether the walk stopped before it had seen everything.
    pub incomplete: bool,
    /// Version of the list.
    pub version: ListVersion,
    /// Version of the walk that found the files.
    walked: ListVersion,
    /// Changes since the walk: each changed path with the version since which it is as listed, in order.
    changes: Vec<(ListVersion, RelativePath)>,
}

impl FileList {
    /// Returns the paths that may have changed since an earlier list of the same root. Returns `None` if that is
    /// unknown.
    pub fn changed_since(&self, earlier: ListVersion) -> Option<BTreeSet<&RelativePath>> {
        let is_known = self.walked <= earlier && earlier <= self.version;
        let start = self.changes.partition_point(|(version, _)| *version <= earlier);
        is_known.then(|| self.changes[start..].iter().map(|(_, path)| path).collect())
    }

    /// Returns the file at a path.
    pub fn file(&self, path: &RelativePath) -> Option<&WalkedFile> {
        self.files.get(self.index_of(path).ok()?)
    }

    /// Returns the index of a path, or the one at which it would be inserted.
    fn index_of(&self, path: &RelativePath) -> Result<usize, usize> {
        self.files.binary_search_by(|file| file.path.as_str().cmp(path.as_str()))
    }

    /// Sets the stats of changed files; `None` stands for a file that is gone. The list must be complete.
    pub(crate) fn update(&mut self, changed: Vec<(RelativePath, Option<Stat>)>) {
        self.version = ListVersion::unique();
        for (path, stat) in changed {
            match (self.index_of(&path), stat) {
                (Ok(index), Some(stat)) => self.files[index].stat = stat,
                (Ok(index), None) => drop(self.files.remove(index)),
                (Err(index), Some(stat)) => {
                    self.files.insert(index, WalkedFile { path: path.clone(), stat });
                }
                (Err(_), None) => {}
            }
            self.changes.push((self.version, path));
        }
        self.files_total = self.files.len();
    }

    /// Returns the number of changes since the walk.
    pub(crate) fn changes_since_walk(&self) -> usize {
        self.changes.len()
    }
}

impl Default for FileList {
    /// Returns the list of a root that does not exist.
    fn default() -> Self {
        Self {
            files: Vec::new(),
            files_total: 0,
            incomplete: false,
            version: ListVersion::MISSING,
            walked: ListVersion::MISSING,
            changes: Vec::new(),
        }
    }
}

impl From<Walk> for FileList {
    fn from(walk: Walk) -> Self {
        let Walk { files, files_total, incomplete, .. } = walk;
        let version = ListVersion::unique();
        Self { files, files_total, incomplete, version, walked: version, changes: Vec::new() }
    }
}

/// Whether a list of files may come from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A list is good enough that lacks what changed in the last seconds, if that saves a question to another machine.
    Noticed,
    /// A list that an adapter keeps current by notices of the operating system is good enough.
    Observed,
    /// Walk all folders, also to find a change without a notice.
    Walked,
}

/// The precondition of a write or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is at the path.
    Absent,
    /// The file at the path has this stamp.
    File(Stamp),
}

/// New bytes that are ready to be put in place in one step. Dropping the value discards them.
#[async_trait]
pub trait Staged: Debug + Send + Sync {
    /// Sets the modification time of the bytes, for a text that was written elsewhere before. An adapter that keeps no
    /// such times ignores it.
    fn set_modified(&mut self, _at: Timestamp) {}

    /// Puts the bytes in place. Returns [`BackendError::Changed`] if the precondition does not hold.
    async fn publish(self: Box<Self>, expect: Expect) -> Result<(), BackendError>;
}

/// Predicate: history has these bytes, which were at this path, so they may be removed without loss. Returns `None` if that
/// is unknown now; then they stay where they are.
pub type IsReferenced = dyn Fn(&RelativePath, &[u8]) -> Option<bool> + Send + Sync;

/// Result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// Number of left-overs that were removed.
    pub removed: usize,
    /// Files that were brought back because history does not have their bytes: paths below the root, lossily
    /// decoded.
    pub restored: Vec<String>,
}

/// An exclusive lock on a root, against writers in this process and in others. Dropping it releases the lock.
///
/// Several state databases may record one root, for example those of two machines that share a checkout.
#[async_trait]
pub trait RootLock: Debug + Send + Sync {
    /// Returns a number that grows with each write by a Lukasa process to this root. While it is unchanged, none of them
    /// wrote. It can be compared with other numbers of this process.
    fn generation(&self) -> u64;

    /// Checks whether an earlier holder, or the machine, died in the middle of a write.
    fn was_interrupted(&self) -> bool;

    /// Checks whether the machine was restarted since the last write of the holder's database. Bytes that were not
    /// synchronized before that may be torn.
    fn machine_restarted(&self) -> bool;

    /// Checks whether a write of the holder's database may be unfinished although no mark says so. Another database
    /// recorded the last write, or a mark may have been lost on its way.
    fn is_uncertain(&self) -> bool;

    /// Returns the last change of the holder's database that is known to be carried out completely, or `None` if
    /// unknown. The value is kept as long as the machine runs and few databases share the root.
    fn completed(&self) -> Option<ChangeId>;

    /// Returns the number under which the lock is held, if it is lost when its holder does not renew it in time. Only the
    /// state that keeps the lock can compare it.
    fn fence(&self) -> Option<i64> {
        None
    }

    /// Marks the start of a write. A crash from here on leaves the root interrupted. A backend may report a failure only
    /// with the next step of the write.
    async fn begin(&mut self) -> Result<(), BackendError>;

    /// Marks the end of a write: all files are written, or are as they were. `completed` is the change that is now
    /// carried out, if the write made one. Readers may see the mark only when the lock is released.
    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError>;
}

/// State of the last write of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWrite {
    /// It ended, and the machine was not restarted since.
    Ended,
    /// It may still be running, or its writer or the machine died during it or since.
    Interrupted,
    /// No record: there was no write, or a power cut or a person removed the record. The state knows whether some
    /// changes may not be on the disk yet.
    Unknown,
}

/// Number of files that are read in one call, if calls are cheap.
const FILES_READ_AT_ONCE: usize = 64;

/// Number of calls that read files at the same time.
pub(crate) const READ_CALLS_AT_ONCE: usize = 4;

/// The storage of the files of one root.
#[async_trait]
pub trait Backend: Debug + Send + Sync {
    /// Walks everything below `from` (the whole root if `None`). A missing root or folder counts as empty.
    async fn walk(&self, from: Option<&RelativePath>, extent: Extent)
    -> Result<Walk, BackendError>;

    /// Lists all memories. An adapter that gets notices of changes answers a repeated call from memory, with work in
    /// proportion to what changed. Each change that ended before the call is in the list, unless
    /// [`Freshness::Noticed`] asks for less.
    async fn list(&self, _freshness: Freshness) -> Result<Arc<FileList>, BackendError> {
        Ok(Arc::new(self.walk(None, Extent::ALL).await?.into()))
    }

    /// Counts the memories without reading any of them.
    async fn count(&self) -> Result<usize, BackendError> {
        Ok(self.walk(None, Extent::ALL).await?.files_total)
    }

    /// Returns the kind of thing at a path, without following or opening it.
    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError>;

    /// Reads the first `max` bytes of a file.
    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError>;

    /// Returns the number of files that callers should read in one call of [`Self::read_many`], with at most `max` bytes
    /// of each. The bytes of all of them are in memory together.
    fn files_at_once(&self, _max: usize) -> usize {
        FILES_READ_AT_ONCE
    }

    /// Reads the first `max` bytes of several files, in their order, each as [`Self::read`] does. A backend with
    /// expensive calls overrides this and answers all of them in one call.
    async fn read_many(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Vec<Result<FileRead, BackendError>> {
        let mut read = Vec::with_capacity(paths.len());
        for path in paths {
            read.push(self.read(path, max).await);
        }
        read
    }

    /// Returns the stamps of files that were read or listed within the last second, unless something is known to have
    /// changed since. Returns `None` if one of them is unknown, or if calls are cheap.
    fn recent_stamps(&self, _paths: &[RelativePath]) -> Option<Vec<Stamp>> {
        None
    }

    /// Writes new bytes to a temporary place beside the path. Creates the root and the parent folders. A backend may
    /// report a failure only with the publication.
    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError>;

    /// Removes a file. Returns [`BackendError::Changed`] if its stamp is not `expect`.
    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError>;

    /// Removes a folder with everything in it. Returns [`BackendError::Changed`] if the memories in it are not
    /// exactly `expect`. Links are removed as links.
    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError>;

    /// Removes a folder and its subfolders, as far as they are empty.
    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError>;

    /// Renames a file or folder to a path that must be free, and creates its parent folders.
    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError>;

    /// Acquires the lock of the root for writes that `database` records. Waits for other holders for at most `wait`.
    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError>;

    /// Tries to acquire the lock without waiting. Returns `None` if another holder has it.
    async fn try_lock(
        &self,
        database: DatabaseId,
    ) -> Result<Option<Box<dyn RootLock>>, BackendError> {
        match self.lock(database, Duration::ZERO).await {
            Ok(lock) => Ok(Some(lock)),
            Err(BackendError::Locked(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the state of the last write. Acquires no lock and creates nothing.
    async fn last_write(&self) -> LastWrite {
        LastWrite::Ended
    }

    /// Returns the number that [`RootLock::generation`] returns, without the lock. Returns `None` if a write is in
    /// progress or the number is unknown.
    async fn write_count(&self, _freshness: Freshness) -> Option<u64> {
        None
    }

    /// Returns a receiver that is notified after changes of the root. Returns `None` if there are no notices, or if those
    /// of the operating system about [`Self::folder`] suffice. A notice may come late, and a change may have several.
    fn changes(&self) -> Option<watch::Receiver<u64>> {
        None
    }

    /// Makes the files at these paths, or their absence, durable on the disk before it returns.
    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError>;

    /// Removes left-overs of interrupted writes; only while the root is locked. Such a write may have moved a file
    /// aside. That file is removed only if history has its bytes. Otherwise an external edit wrote it during the
    /// write, and it is brought back: to its path, or beside it if the path is taken.
    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError>;

    /// Returns whether the root exists.
    async fn exists(&self) -> Result<bool, BackendError>;

    /// Returns a description of the process that holds the lock, if one does.
    async fn holder(&self) -> Option<String>;

    /// Returns the reason why the machine of the root is out of reach, until a call tries again to reach it.
    fn unreachable(&self) -> Option<String> {
        None
    }

    /// Returns a number that changes when the server that keeps the root may have crashed. A crash loses writes that were
    /// not acknowledged, so what was cached under another number may not exist any more.
    fn incarnation(&self) -> u64 {
        0
    }

    /// Returns the folder of the root, if it is on this machine.
    fn folder(&self) -> Option<PathBuf>;
}

/// The roots that belong to no checkout, if a database keeps their files: those of the global scope, of workspaces and of
/// projects whose memories are beside the global ones.
#[async_trait]
pub trait HostedRoots: Debug + Send + Sync {
    /// Returns the root at a place.
    fn root(&self, place: &str) -> Arc<dyn Backend>;

    /// Returns the places of all roots that were ever written to, in byte order.
    async fn places(&self) -> Result<Vec<String>, BackendError>;

    /// Checks whether the memories may grow by this number of bytes; [`BackendError::Full`] if they may not. Asked
    /// before a change is recorded, and never for one that is being completed.
    async fn check_growth(&self, bytes: u64) -> Result<(), BackendError>;
}

/// A failed storage operation.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Nothing is at the path.
    #[error("nothing is there")]
    NotFound,
    /// Something is at the path already.
    #[error("the path is already taken")]
    Occupied,
    /// A path that is not a regular file, or whose parent is not a folder.
    #[error("a folder, link or device is where a file or folder is needed")]
    WrongKind,
    /// A file whose version is not the expected one.
    #[error("another writer changed the file")]
    Changed,
    /// A link on the path, or a root that is itself a link.
    #[error("a link is on the path and is not followed: {0}")]
    Escapes(String),
    /// A full disk, an exhausted quota, or no inodes left.
    #[error("the disk or a quota is full")]
    Full(#[source] io::Error),
    /// A folder that this account may not write, or a file system that is mounted read-only.
    #[error("the folder cannot be written: {}", .0.kind())]
    NotWritable(io::Error),
    /// Another process holds the root.
    #[error("another process holds the lock of the memories for longer than {} s", .0.as_secs())]
    Locked(Duration),
    /// The machine of the root is out of reach. What was requested may have been done.
    #[error("{0}")]
    Unreachable(String),
    /// The database that keeps the root is out of reach. What was requested may have been done.
    #[error("{0}")]
    StateUnreachable(String),
    /// Any other failure of the machine.
    #[error("cannot {doing}")]
    Io {
        /// The failed operation, without a path.
        doing: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl BackendError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::NotFound => MemoryErrorCode::NotFound,
            Self::Occupied => MemoryErrorCode::AlreadyExists,
            Self::WrongKind => MemoryErrorCode::NotAFile,
            Self::Changed => MemoryErrorCode::Conflict,
            Self::Escapes(_) => MemoryErrorCode::EscapesRoot,
            Self::Full(_) => MemoryErrorCode::StorageFull,
            Self::NotWritable(_) => MemoryErrorCode::ReadOnly,
            Self::Locked(_) => MemoryErrorCode::Locked,
            Self::Unreachable(_) => MemoryErrorCode::ScopeUnavailable,
            Self::StateUnreachable(_) => MemoryErrorCode::StorageUnavailable,
            Self::Io { .. } => MemoryErrorCode::StorageFailed,
        }
    }

    /// Maps an I/O error of a write to the case that a caller can act on.
    pub(crate) fn from_write(doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable(source)
            }
            _ => Self::from_io(doing, source),
        }
    }

    /// Maps an I/O error to the case that a caller can act on.
    pub(crate) fn from_io(doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => Self::Occupied,
            io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory => Self::WrongKind,
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::Full(source),
            _ => Self::Io { doing, source },
        }
    }
}
