//! The memories of a root as rows.
//!
//! Each operation is one statement or one transaction, so bytes are never seen in part, and a precondition and its write
//! are one step. Nothing has to be swept after a crash.
//!
//! The log of the database has one order. So files, and the mark of the start of a write, are committed without waiting
//! for the disk. The record of the change waits, before any of its files is written. The mark of the end waits, too, which
//! makes the files durable before the change is acknowledged.
//!
//! While this process holds the lock of the root, each write names its fence.

mod files;
mod listing;
mod lock;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use memory::change::DatabaseId;
use memory::clock::Timestamp;
use memory::path::RelativePath;
use parking_lot::Mutex;
use state::StateError;
use store::backend::{
    Backend, BackendError, Expect, Extent, FileKind, FileList, FileRead, Freshness, IsReferenced,
    LastWrite, RootLock, Staged, Stamp, SweepReport, Walk,
};
use tokio::sync::watch;

use crate::database::{Database, Durability, call};
use crate::lease::{Lease, root_lock_name};
use crate::root::files::{FileWrite, HeldRoot, PlannedFile, Target};
use crate::root::listing::walk_of;

/// The longest time between two looks whether a root is free.
const ROOT_POLL_MAX: Duration = Duration::from_millis(50);
/// Bytes that are read from files in one statement.
const BYTES_READ_TOGETHER_MAX: usize = 16 << 20;
/// Files that are read in one statement.
const FILES_READ_TOGETHER_MAX: usize = 1_024;

/// The memories of one root in rows. Clones are the same root.
#[derive(Clone, Debug)]
pub struct RowBackend(Arc<RowRoot>);

#[derive(Debug)]
struct RowRoot {
    database: Database,
    owner: i64,
    place: String,
    lease: Lease,
    /// The write of this process, while it holds the lock.
    held: Mutex<Option<HeldRoot>>,
    /// The last list, and the last version of the root then.
    known: Mutex<Option<(i64, Arc<FileList>)>>,
}

impl RowBackend {
    /// Returns the root at a place of an owner.
    pub(crate) fn new(database: Database, owner: i64, place: String) -> Self {
        let lease = Lease::new(database.clone(), owner, root_lock_name(&place));
        Self(Arc::new(RowRoot {
            database,
            owner,
            place,
            lease,
            held: Mutex::default(),
            known: Mutex::default(),
        }))
    }

    /// Returns what each write of this process names.
    fn target(&self) -> Target<'_> {
        Target {
            owner: self.0.owner,
            place: &self.0.place,
            lock: self.0.lease.name(),
            held: *self.0.held.lock(),
        }
    }

    async fn write(
        &self,
        operation: &'static str,
        write: FileWrite<'_>,
    ) -> Result<(), BackendError> {
        let (target, write) = (self.target(), &write);
        let work = self.0.database.write(
            Durability::Unsynced,
            operation,
            call!(files::write, target, write),
        );
        let (version, result) = work.await.map_err(|error| self.error("write a memory", error))?;
        if let Some(held) = &mut *self.0.held.lock() {
            held.last_version = held.last_version.map(|_| version);
        }
        result
    }

    fn error(&self, doing: &'static str, error: StateError) -> BackendError {
        match error {
            StateError::Busy { .. } => BackendError::Locked(self.0.database.lease()),
            error => backend_error(doing, error),
        }
    }
}

/// Returns the failure of an operation on memories.
pub(crate) fn backend_error(doing: &'static str, error: StateError) -> BackendError {
    match error {
        StateError::Unreachable { .. } => BackendError::StateUnreachable(error.to_string()),
        StateError::Full { .. } => BackendError::Full(io::Error::other(error)),
        error => BackendError::Io { doing, source: io::Error::other(error) },
    }
}

/// New bytes, in memory until they are put in place.
#[derive(Debug)]
struct StagedRow {
    backend: RowBackend,
    path: RelativePath,
    bytes: Arc<[u8]>,
    modified_at: Option<Timestamp>,
}

#[async_trait]
impl Staged for StagedRow {
    fn set_modified(&mut self, at: Timestamp) {
        self.modified_at = Some(at);
    }

    async fn publish(self: Box<Self>, expect: Expect) -> Result<(), BackendError> {
        let file = PlannedFile { bytes: &self.bytes, modified_at: self.modified_at, expect };
        self.backend.write("write a memory", FileWrite::Publish(&self.path, file)).await
    }
}

#[async_trait]
impl Backend for RowBackend {
    async fn walk(
        &self,
        from: Option<&RelativePath>,
        extent: Extent,
    ) -> Result<Walk, BackendError> {
        if let Some(from) = from {
            match self.kind(from).await? {
                None => return Ok(Walk::default()),
                Some(FileKind::Folder) => {}
                Some(FileKind::File | FileKind::Other) => return Err(BackendError::WrongKind),
            }
        }
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let work =
            self.0.database.read("list memories", call!(listing::entries, owner, (place, from)));
        let entries = work.await.map_err(|error| self.error("list memories", error))?;
        Ok(walk_of(entries, from, extent))
    }

    async fn list(&self, _freshness: Freshness) -> Result<Arc<FileList>, BackendError> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let work =
            self.0.database.read("list memories", call!(listing::last_version, owner, place));
        let version = work.await.map_err(|error| self.error("list memories", error))?;
        if let Some((known, list)) = &*self.0.known.lock()
            && *known == version
        {
            return Ok(Arc::clone(list));
        }
        // Read after the number, so a change in between only causes another reading.
        let list: Arc<FileList> = Arc::new(self.walk(None, Extent::ALL).await?.into());
        *self.0.known.lock() = Some((version, Arc::clone(&list)));
        Ok(list)
    }

    async fn count(&self) -> Result<usize, BackendError> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let work = self.0.database.read("count memories", call!(listing::count, owner, place));
        work.await.map_err(|error| self.error("count memories", error))
    }

    async fn kind(&self, path: &RelativePath) -> Result<Option<FileKind>, BackendError> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let work =
            self.0.database.read("look for a memory", call!(files::kind, owner, (place, path)));
        work.await.map_err(|error| self.error("look for a memory", error))?
    }

    async fn read(&self, path: &RelativePath, max: usize) -> Result<FileRead, BackendError> {
        let mut read = self.read_many(std::slice::from_ref(path), max).await;
        read.pop().unwrap_or(Err(BackendError::NotFound))
    }

    fn files_at_once(&self, max: usize) -> usize {
        (BYTES_READ_TOGETHER_MAX / max.max(1)).clamp(1, FILES_READ_TOGETHER_MAX)
    }

    async fn read_many(
        &self,
        paths: &[RelativePath],
        max: usize,
    ) -> Vec<Result<FileRead, BackendError>> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let work =
            self.0.database.read("read memories", call!(files::read, owner, (place, paths, max)));
        match work.await {
            Ok(read) => read,
            Err(error) => {
                let reason = error.to_string();
                let failed = |_: &RelativePath| match &error {
                    StateError::Unreachable { .. } => {
                        Err(BackendError::StateUnreachable(reason.clone()))
                    }
                    _ => Err(BackendError::Io {
                        doing: "read a memory",
                        source: io::Error::other(reason.clone()),
                    }),
                };
                paths.iter().map(failed).collect()
            }
        }
    }

    async fn stage(
        &self,
        path: &RelativePath,
        bytes: Arc<[u8]>,
    ) -> Result<Box<dyn Staged>, BackendError> {
        let (backend, path) = (self.clone(), path.clone());
        Ok(Box::new(StagedRow { backend, path, bytes, modified_at: None }))
    }

    async fn remove_file(&self, path: &RelativePath, expect: Stamp) -> Result<(), BackendError> {
        self.write("remove a memory", FileWrite::RemoveFile(path, expect)).await
    }

    async fn remove_folder(
        &self,
        path: &RelativePath,
        expect: &[(RelativePath, Stamp)],
    ) -> Result<(), BackendError> {
        let expect: BTreeMap<_, _> =
            expect.iter().map(|(path, stamp)| (path.as_str(), *stamp)).collect();
        self.write("remove a folder", FileWrite::RemoveFolder(path, &expect)).await
    }

    async fn remove_empty(&self, path: &RelativePath) -> Result<(), BackendError> {
        self.write("remove empty folders", FileWrite::RemoveEmpty(path)).await
    }

    async fn rename(&self, from: &RelativePath, to: &RelativePath) -> Result<(), BackendError> {
        self.write("rename a memory", FileWrite::Rename(from, to)).await
    }

    async fn lock(
        &self,
        database: DatabaseId,
        wait: Duration,
    ) -> Result<Box<dyn RootLock>, BackendError> {
        let lease = self.0.lease.take(wait, ROOT_POLL_MAX).await;
        let lease = lease.map_err(|error| self.error("lock the memories", error))?;
        let lease = lease.ok_or(BackendError::Locked(wait))?;
        let lock = lock::RowRootLock::new(self.clone(), database, lease).await;
        Ok(Box::new(lock.map_err(|error| self.error("lock the memories", error))?))
    }

    async fn last_write(&self) -> LastWrite {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let read = self
            .0
            .database
            .read("read the last write", call!(lock::last_write, owner, place))
            .await;
        match read {
            Ok(Some(write)) if write.is_writing => LastWrite::Interrupted,
            Ok(_) => LastWrite::Ended,
            Err(error) => {
                tracing::debug!(%error, "the last write of a root is unknown");
                LastWrite::Unknown
            }
        }
    }

    async fn write_count(&self, _freshness: Freshness) -> Option<u64> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let write = self
            .0
            .database
            .read("count writes", call!(lock::last_write, owner, place))
            .await
            .ok()?;
        // A root without marks was never written.
        let write = write.unwrap_or_default();
        (!write.is_writing).then_some(write.writes)
    }

    fn changes(&self) -> Option<watch::Receiver<u64>> {
        Some(self.0.database.notices(self.0.owner, &self.0.place))
    }

    fn incarnation(&self) -> u64 {
        self.0.database.incarnation()
    }

    async fn sync(&self, _paths: &[RelativePath]) -> Result<(), BackendError> {
        // The change that wrote the files is durable, and the mark that closes it follows them in the log.
        Ok(())
    }

    async fn sweep(&self, _in_history: Arc<IsReferenced>) -> Result<SweepReport, BackendError> {
        Ok(SweepReport::default())
    }

    async fn exists(&self) -> Result<bool, BackendError> {
        let (owner, place) = (self.0.owner, self.0.place.as_str());
        let read =
            self.0.database.read("look for a root", call!(lock::last_write, owner, place)).await;
        let read = read.map_err(|error| self.error("look for a root", error))?;
        Ok(read.is_some_and(|write| write.is_created))
    }

    async fn holder(&self) -> Option<String> {
        self.0.lease.holder().await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the holder of a root is unknown");
            None
        })
    }

    fn folder(&self) -> Option<PathBuf> {
        None
    }
}
