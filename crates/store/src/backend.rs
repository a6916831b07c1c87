//! The port to the place where one root's files really are.
//!
//! An adapter keeps bytes under relative paths and refuses to be led out of its root. It knows
//! nothing of commands, scopes, caps or history: those are written once, above it. Every adapter
//! passes `testkit::conformance::backend`.

pub mod local;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::error_code::MemoryErrorCode;
use memory::limits::{PATH_SEGMENTS_MAX, SCOPE_FILES_MAX};
use memory::path::RelativePath;

/// Tells one version of a file from another without reading it; an adapter's own choice of facts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stamp(pub [u64; 4]);

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, pipe, socket or device: never followed, never opened.
    Other,
}

/// A file's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its size.
    pub bytes: u64,
    /// When it was last modified.
    pub modified_at: Timestamp,
    /// Which version it is.
    pub stamp: Stamp,
    /// Whether it was modified so short a time ago that another write, of as many bytes, could leave
    /// the same stamp: nothing may be remembered by it then.
    pub recent: bool,
}

/// The first bytes of a file, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRead {
    /// The bytes, at most as many as were asked for.
    pub bytes: Vec<u8>,
    /// The file's facts when it was opened.
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

/// Why a walk passed something over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// No memory path could name it.
    Unaddressable,
    /// It is a link.
    Link,
    /// It is neither file nor folder.
    Special,
    /// It lies deeper than a path may reach.
    TooDeep,
    /// It cannot be read.
    Unreadable,
    /// It is left over from a write that did not end.
    Temporary,
}

/// Something that a walk passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedEntry {
    /// Its path below the root, lossily decoded; not safe to print as it is.
    pub name: String,
    /// Why.
    pub reason: SkipReason,
}

/// How much of what it finds a walk hands back; it counts all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The most files, and the most folders.
    pub max: usize,
    /// How many levels below the start; 1 is the start's own children.
    pub levels: usize,
}

impl Extent {
    /// Everything that a root may hold.
    pub const ALL: Self = Self { max: SCOPE_FILES_MAX, levels: PATH_SEGMENTS_MAX };
}

/// What a walk found, in byte order of the full paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    /// The first so many memories.
    pub files: Vec<WalkedFile>,
    /// The first so many folders.
    pub folders: Vec<WalkedFolder>,
    /// How many files and folders there are within the levels asked for, kept or not.
    pub in_reach: usize,
    /// How many memories there are in all.
    pub files_total: usize,
    /// How many folders there are in all.
    pub folders_total: usize,
    /// Bytes of all memories.
    pub bytes_total: u64,
    /// Hidden things are not here; the first so many others that were passed over are.
    pub skipped: Vec<SkippedEntry>,
    /// Whether the walk gave up before it had seen everything.
    pub incomplete: bool,
}

/// What must be there for a write or a removal to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Absent,
    /// This version of a file.
    File(Stamp),
}

/// New bytes that are ready to take their place in one step. Dropping it discards them.
#[async_trait]
pub trait Staged: Debug + Send + Sync {
    /// Sets the time at which the bytes were last modified, for a text that was written elsewhere before. An adapter
    /// that keeps no such times ignores it.
    fn set_modified(&mut self, _at: Timestamp) {}

    /// Puts the bytes in place if what is there is as expected, else [`BackendError::Changed`].
    async fn publish(self: Box<Self>, expect: Expect) -> Result<(), BackendError>;
}

/// Says of the bytes that were at a path whether history has them, so that nobody misses them.
pub type IsReferenced = dyn Fn(&RelativePath, &[u8]) -> bool + Send + Sync;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SweepReport {
    /// How many left-overs it removed.
    pub removed: usize,
    /// What it brought back into sight, because history does not have it: paths below the root,
    /// lossily decoded.
    pub restored: Vec<String>,
}

/// A root held against other writers, in this process and in others, until it is dropped.
pub trait RootLock: Debug + Send + Sync {
    /// Counts the writes of Lukasa's processes to this root; unchanged means that none of them wrote.
    fn generation(&self) -> u64;

    /// Returns whether an earlier holder, or the machine, died in the middle of a write.
    fn was_interrupted(&self) -> bool;

    /// Returns whether the machine was started anew since the last write: what was not synchronized
    /// before may be torn.
    fn machine_restarted(&self) -> bool;

    /// Returns the last change that is known to have been carried out whole; `None` when nothing is
    /// known. Nobody forgets one while the machine keeps running.
    fn completed(&self) -> Option<ChangeId>;

    /// Says that files are about to be written: dying from here on leaves the root interrupted.
    fn begin(&mut self) -> Result<(), BackendError>;

    /// Says that all files are written, or as they were. `completed` is the change that is carried
    /// out by that, if it is one.
    fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError>;
}

/// What is known of the last write of a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastWrite {
    /// It ended, and the machine was not started anew since.
    Ended,
    /// It may be under way still, or its writer, or the machine, died in it or since.
    Interrupted,
    /// Nothing: there was none, or a power cut, or somebody, took away what was noted of it. The state knows whether
    /// there are changes that may not be safe on the disk.
    Unknown,
}

/// Keeps the files of one root.
#[async_trait]
pub trait Backend: Debug + Send + Sync {
    /// Walks everything below `from` (the root when `None`). A missing root or folder is empty.
    async fn walk(&self, from: Option<&RelativePath>, extent: Extent)
    -> Result<Walk, BackendError>;

    /// Counts the memories, without a look at any of them.
    async fn count(&self) -> Result<usize, BackendError> {
        Ok(self.walk(None, Extent::ALL).await?.files_total)
    }

    /// Returns what is at a path, without following or opening it.
    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError>;

    /// Reads the first `max` bytes of a file.
    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError>;

    /// Reads the first `max` bytes of several files, each as [`Self::read`] does, in their order. A backend for which
    /// each call takes a while answers all of them by one.
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

    /// Makes new bytes ready beside their place; makes the root and the folders on the way.
    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError>;

    /// Removes a file if it is as expected, else [`BackendError::Changed`].
    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError>;

    /// Removes a folder and all that is in it, if the memories in it are exactly these, else
    /// [`BackendError::Changed`]. Links are removed as links.
    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError>;

    /// Removes a folder and the folders in it as far as there is nothing in them.
    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError>;

    /// Gives a file or folder another path that must be free, and makes the folders on the way.
    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError>;

    /// Holds the root, waiting for others at most so long.
    async fn lock(&self, wait: Duration) -> Result<Box<dyn RootLock>, BackendError>;

    /// Holds the root if nobody else does; `None` if somebody does. Waits for nobody.
    async fn try_lock(&self) -> Result<Option<Box<dyn RootLock>>, BackendError> {
        match self.lock(Duration::ZERO).await {
            Ok(held) => Ok(Some(held)),
            Err(BackendError::Locked(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns what is known of the last write. Holds nothing and makes nothing.
    async fn last_write(&self) -> LastWrite {
        LastWrite::Ended
    }

    /// Returns once what was written to these paths, and their absence, is safe on the disk.
    async fn sync(&self, paths: &[RelativePath]) -> Result<(), BackendError>;

    /// Removes what interrupted writes left over; only while the root is held. What such a write had
    /// taken out of its place is removed only if it is in history; else somebody outside wrote it at
    /// that very moment, and it is brought back: to its place, or beside it where that is taken.
    async fn sweep(&self, in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError>;

    /// Returns whether the root exists.
    async fn exists(&self) -> Result<bool, BackendError>;

    /// Returns who holds the root, in words, if anybody does.
    async fn holder(&self) -> Option<String>;

    /// Returns the root's folder, if it is one of this machine.
    fn folder(&self) -> Option<PathBuf>;
}

/// What a backend could not do.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// Nothing is there.
    #[error("nothing is there")]
    NotFound,
    /// Something is there already.
    #[error("something is there already")]
    Occupied,
    /// What is there is not a regular file, or a part of the path is not a folder.
    #[error("a folder, link or device stands where a file or folder is needed")]
    WrongKind,
    /// The file is not the version that was expected.
    #[error("the file was changed by somebody else")]
    Changed,
    /// A link, or the root itself being one, leads elsewhere.
    #[error("a link stands in the way and is not followed: {0}")]
    Escapes(String),
    /// The disk, a quota or the number of files is at its end.
    #[error("the disk or a quota is full")]
    Full(#[source] io::Error),
    /// This account may not write there, or the file system is mounted for reading alone.
    #[error("the folder cannot be written: {}", .0.kind())]
    NotWritable(io::Error),
    /// Another process holds the root.
    #[error("another process holds the memories for longer than {} s", .0.as_secs())]
    Locked(Duration),
    /// The machine failed.
    #[error("cannot {doing}")]
    Io {
        /// What was being done, without a path.
        doing: &'static str,
        /// Why it failed.
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
            Self::Io { .. } => MemoryErrorCode::StorageFailed,
        }
    }

    /// Sorts what the operating system said to a write into what a caller can do about it.
    pub(crate) fn from_write(doing: &'static str, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NotWritable(source)
            }
            _ => Self::from_io(doing, source),
        }
    }

    /// Sorts what the operating system said into what a caller can do about it.
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
