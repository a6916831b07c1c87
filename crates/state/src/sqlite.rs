//! The state in one SQLite file, shared by several processes.
//!
//! No connection is opened before the first call, and no file is created before the first write. One connection writes,
//! up to [`READ_CONNECTIONS_MAX`] read. A call takes a connection out of the pool while it runs. So cancelling a call
//! closes its connection, which rolls its transaction back.
//!
//! A call that finds the database damaged repairs it or sets it aside, and is retried once. The submodules hold the
//! SQL; this module holds the pool, the lock between processes and the repair.

mod batch;
mod changes;
mod check;
mod content;
mod conversations;
mod file;
mod model_work;
mod open;
mod proposals;
mod prune;
mod queue;
mod record;
mod repair;
mod sessions;
mod tasks;
#[cfg(test)]
mod tests;
mod transfer;
mod usage;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use memory::change::{ChangeId, DatabaseId, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::SqliteConnection;
use tokio::sync::{MutexGuard, SemaphorePermit};

pub use crate::sqlite::file::set_aside_databases;
pub use crate::sqlite::repair::StateRepair;
pub use crate::sqlite::transfer::{SqliteImport, SqliteSnapshot};

use crate::HistoryStore;
use crate::error::{Fault, StateError};
use crate::file_lock::{FileLockGuard, LockMode};
use crate::record::{
    ChangeQuery, Head, NewChange, OpenChange, PathChange, PruneReport, Retention, Stats, UsageRow,
    UseEvent,
};
use crate::sqlite::check::CheckDepth;
use crate::sqlite::file::FileId;
use crate::sqlite::open::{OpenConnection, ReaderState};
use crate::sqlite::prune::Pruning;

/// Number of durable changes after which the log is checkpointed. Overwriting the beginning of the log synchronizes
/// faster than growing it.
const CHANGES_PER_CHECKPOINT: usize = 64;

/// Maximum number of concurrent readers. Each is a connection with its own thread and cache, and more readers than
/// cores gain nothing. Further readers wait until one ends.
const READ_CONNECTIONS_MAX: usize = 8;

/// Maximum number of idle readers that stay open.
const IDLE_READERS_MAX: usize = 2;

const _: () = assert!(IDLE_READERS_MAX < READ_CONNECTIONS_MAX);

/// Makes the `work` that [`SqliteState::read`] and [`SqliteState::write`] run from a function and its arguments. The
/// work passes the connection to the function and returns it with the result. A macro, because the future of a closure
/// that borrows its argument cannot be required to be `Send`.
macro_rules! call {
    ($function:path $(, $argument:expr)* $(,)?) => {
        move |mut connection| async move {
            let result = $function(&mut connection $(, $argument)*).await;
            (connection, result)
        }
    };
}
use call;

/// The state of one host in one SQLite file.
#[derive(Debug)]
pub struct SqliteState {
    path: PathBuf,
    /// The writing connection; taken out while a call uses it.
    writer: tokio::sync::Mutex<Option<OpenConnection>>,
    /// Held by the next writer of normal priority. The others wait here and not for `writer`, so that a writer of high
    /// priority passes them.
    writer_queue: tokio::sync::Mutex<()>,
    /// One permit for each concurrent reader.
    readers: tokio::sync::Semaphore,
    /// Readers to be used again.
    idle_readers: Mutex<Vec<OpenConnection>>,
    last_repair: Mutex<Option<StateRepair>>,
    /// Whether reads may repair or migrate the database.
    may_repair: bool,
    /// Changes made durable since the last checkpoint.
    durable_since_checkpoint: AtomicUsize,
}

/// The priority of a writer while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    /// After the writers that came before.
    Normal,
    /// Before waiting writers of normal priority, except the next one: a caller waits for the result. Most other
    /// writers are background work whose caller already has an answer.
    High,
}

/// A connection to be used again, and the result of the call that used it.
type ConnectionResult<T> = (SqliteConnection, Result<T, Fault>);

/// The pool slot of a reader while a call uses its connection.
struct PooledReader<'state> {
    file: FileId,
    is_reusable: bool,
    _permit: SemaphorePermit<'state>,
}

/// The pool slot of the writer while a call uses its connection. The lock file is released before the slot.
struct PooledWriter<'state> {
    file: FileId,
    _lock: FileLockGuard,
    writer: MutexGuard<'state, Option<OpenConnection>>,
}

impl PooledWriter<'_> {
    /// Returns the connection to the pool, or closes it if the call failed.
    async fn release(mut self, connection: SqliteConnection, is_sound: bool) {
        if is_sound {
            *self.writer = Some(OpenConnection { connection, file: self.file, is_reusable: true });
        } else {
            // Closing rolls back whatever the failed statement left open.
            open::close(connection).await;
        }
    }
}

impl SqliteState {
    /// Returns the state in the database at `path`. Opens and creates nothing; the folder must exist when something is
    /// written.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            writer: tokio::sync::Mutex::default(),
            writer_queue: tokio::sync::Mutex::default(),
            readers: tokio::sync::Semaphore::new(READ_CONNECTIONS_MAX),
            idle_readers: Mutex::default(),
            last_repair: Mutex::default(),
            may_repair: true,
            durable_since_checkpoint: AtomicUsize::new(0),
        }
    }

    /// Returns a state whose reads neither repair nor migrate: an unready database reads as empty. For reads that no
    /// user requested, such as shell completion.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.may_repair = false;
        self
    }

    /// Returns the path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the latest repair by this value, if there was one.
    pub fn last_repair(&self) -> Option<StateRepair> {
        self.last_repair.lock().clone()
    }

    /// Repairs the database if [`HistoryStore::check`] finds a problem. Damaged indexes and contradicting rows are
    /// repaired in place; otherwise the database is set aside and an empty one is started.
    pub async fn repair(&self) -> Result<Option<StateRepair>, StateError> {
        self.repair_exclusive(CheckDepth::Full).await.map_err(|fault| self.fault("repair", fault))
    }

    fn fault(&self, operation: &'static str, fault: Fault) -> StateError {
        StateError::of_file(operation, &self.path, fault)
    }

    /// Runs `work` on a reading connection. Returns the default value if there is no database.
    async fn read<T, Work, Running>(
        &self,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Default + Send,
    {
        Ok(self.read_if_exists(operation, work).await?.unwrap_or_default())
    }

    /// Runs `work` on a reading connection. `None` if there is no database.
    async fn read_if_exists<T, Work, Running>(
        &self,
        operation: &'static str,
        work: Work,
    ) -> Result<Option<T>, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        let mut was_repaired = false;
        loop {
            let result = match self.acquire_reader().await {
                Ok(Some((connection, pooled))) => {
                    let (connection, result) = work(connection).await;
                    self.release_reader(connection, pooled, result.is_ok()).await;
                    result.map(Some)
                }
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            match result {
                Ok(result) => return Ok(result),
                Err(fault) if self.may_repair => {
                    self.repair_once(operation, fault, &mut was_repaired).await?;
                }
                Err(fault) => return Err(self.fault(operation, fault)),
            }
        }
    }

    async fn acquire_reader(&self) -> Result<Option<(SqliteConnection, PooledReader<'_>)>, Fault> {
        let permit = self.readers.acquire().await.expect("the semaphore is never closed");
        let opened = self.open_reader().await?;
        Ok(opened.map(|OpenConnection { connection, file, is_reusable }| {
            (connection, PooledReader { file, is_reusable, _permit: permit })
        }))
    }

    async fn release_reader(
        &self,
        connection: SqliteConnection,
        pooled: PooledReader<'_>,
        is_sound: bool,
    ) {
        if !is_sound || !pooled.is_reusable {
            return open::close(connection).await;
        }
        let mut idle = self.idle_readers.lock();
        if idle.len() < IDLE_READERS_MAX {
            idle.push(OpenConnection { connection, file: pooled.file, is_reusable: true });
        }
    }

    async fn open_reader(&self) -> Result<Option<OpenConnection>, Fault> {
        let file = file::file_id(&self.path)?;
        // The file at the path was replaced: this reader is dropped, which closes it.
        while let Some(idle) = self.idle_readers.lock().pop() {
            if Some(idle.file) == file {
                return Ok(Some(idle));
            }
        }
        match open::reader(&self.path).await? {
            ReaderState::Ready(opened) => Ok(Some(opened)),
            ReaderState::Missing => Ok(None),
            ReaderState::NeedsMigration if !self.may_repair => Ok(None),
            ReaderState::NeedsMigration => {
                self.open_writer(&mut *self.writer.lock().await).await?;
                match open::reader(&self.path).await? {
                    ReaderState::Ready(opened) => Ok(Some(opened)),
                    ReaderState::Missing | ReaderState::NeedsMigration => Ok(None),
                }
            }
        }
    }

    /// Runs `work` on the writing connection. Creates the database if there is none.
    async fn write<T, Work, Running>(
        &self,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        self.write_in(Priority::Normal, operation, work).await
    }

    /// Runs `work` on the writing connection if there is a database. For work that only removes rows.
    async fn write_if_exists<T, Work, Running>(
        &self,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Default + Send,
    {
        if self.exists(operation)? { self.write(operation, work).await } else { Ok(T::default()) }
    }

    async fn write_in<T, Work, Running>(
        &self,
        priority: Priority,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        let mut was_repaired = false;
        loop {
            let result = match self.acquire_writer(priority).await {
                Ok((connection, pooled)) => {
                    let (connection, result) = work(connection).await;
                    pooled.release(connection, result.is_ok()).await;
                    result
                }
                Err(fault) => Err(fault),
            };
            match result {
                Ok(result) => return Ok(result),
                Err(fault) => self.repair_once(operation, fault, &mut was_repaired).await?,
            }
        }
    }

    /// Repairs the database if the fault is damage and this call has not repaired it before. Returns any other fault
    /// as the error.
    async fn repair_once(
        &self,
        operation: &'static str,
        fault: Fault,
        was_repaired: &mut bool,
    ) -> Result<(), StateError> {
        if *was_repaired || !fault.is_damage() {
            return Err(self.fault(operation, fault));
        }
        *was_repaired = true;
        self.repair_exclusive(CheckDepth::Pages)
            .await
            .map_err(|fault| self.fault(operation, fault))?;
        Ok(())
    }

    /// Acquires the writer, in order of priority.
    async fn lock_writer(&self, priority: Priority) -> MutexGuard<'_, Option<OpenConnection>> {
        let _next = match priority {
            Priority::Normal => Some(self.writer_queue.lock().await),
            Priority::High => None,
        };
        self.writer.lock().await
    }

    async fn acquire_writer(
        &self,
        priority: Priority,
    ) -> Result<(SqliteConnection, PooledWriter<'_>), Fault> {
        let mut writer = self.lock_writer(priority).await;
        loop {
            self.open_writer(&mut writer).await?;
            let lock = file::lock(&self.path, LockMode::Shared).await?;
            // Compared under the lock: while it is held, no process sets the file aside.
            let Some(OpenConnection { connection, file, .. }) = writer.take() else { continue };
            if file::file_id(&self.path)? == Some(file) {
                return Ok((connection, PooledWriter { file, _lock: lock, writer }));
            }
        }
    }

    /// Opens the writer unless it is open on the file that is at the path now.
    async fn open_writer(&self, writer: &mut Option<OpenConnection>) -> Result<(), Fault> {
        let file = file::file_id(&self.path)?;
        if writer.as_ref().is_some_and(|opened| Some(opened.file) == file) {
            return Ok(());
        }
        drop(writer.take());
        let _lock = file::lock(&self.path, LockMode::Exclusive).await?;
        *writer = Some(open::writer(&self.path).await?);
        Ok(())
    }

    /// Checks the database under the exclusive lock, and repairs it. `None` if it is sound, for instance because
    /// another process repaired it.
    fn repair_exclusive(
        &self,
        depth: CheckDepth,
    ) -> BoxFuture<'_, Result<Option<StateRepair>, Fault>> {
        Box::pin(async move {
            let mut writer = self.writer.lock().await;
            if file::file_id(&self.path)?.is_none() {
                return Ok(None);
            }
            if let Some(opened) = writer.take() {
                open::close(opened.connection).await;
            }
            self.idle_readers.lock().clear();
            let _lock = file::lock(&self.path, LockMode::Exclusive).await?;
            let done = repair::repair(&self.path, depth).await?;
            if done.is_some() {
                let mut last = self.last_repair.lock();
                last.clone_from(&done);
            }
            Ok(done)
        })
    }

    /// Copies the log back into the database, as far as readers permit. Otherwise SQLite would do so during some later
    /// write.
    async fn checkpoint(&self) {
        const OPERATION: &str = "checkpoint the database";
        let copy = async |mut connection: SqliteConnection| {
            let result =
                sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await;
            (connection, result.map(drop).map_err(Fault::from))
        };
        // First alongside other writers, which takes long but blocks none of them. Then with the writer, for what was
        // added meanwhile: SQLite restarts the log only after it is copied back in full.
        let copied = match self.read(OPERATION, copy).await {
            Ok(()) => self.write_if_exists(OPERATION, copy).await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            tracing::debug!(%error, "checkpoint failed; a later one retries");
        }
    }

    fn exists(&self, operation: &'static str) -> Result<bool, StateError> {
        let found = file::file_id(&self.path).map_err(|fault| self.fault(operation, fault))?;
        Ok(found.is_some())
    }
}

#[async_trait]
impl HistoryStore for SqliteState {
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError> {
        let change = &change;
        self.write("record a change", call!(record::record, change)).await
    }

    async fn abort_change(&self, id: ChangeId) -> Result<(), StateError> {
        self.write_if_exists("withdraw a change", call!(record::abort_change, id)).await
    }

    async fn database_id(&self) -> Result<DatabaseId, StateError> {
        let operation = "read the identity of the database";
        // A database that cannot be written is read.
        match self.read_if_exists(operation, call!(record::database_id)).await? {
            Some(id) => Ok(id),
            None => self.write(operation, call!(record::database_id)).await,
        }
    }

    async fn raise_change_number(&self, given: ChangeId) -> Result<(), StateError> {
        self.write("raise the number of changes", call!(record::raise_change_number, given)).await
    }

    async fn mark_durable(&self, ids: &[ChangeId]) -> Result<(), StateError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write_if_exists("mark changes as durable", call!(record::mark_durable, ids)).await?;
        let durable =
            self.durable_since_checkpoint.fetch_add(ids.len(), Ordering::Relaxed) + ids.len();
        if durable >= CHANGES_PER_CHECKPOINT {
            self.durable_since_checkpoint.store(0, Ordering::Relaxed);
            self.checkpoint().await;
        }
        Ok(())
    }

    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError> {
        self.read("read the open changes", call!(changes::open_changes, place)).await
    }

    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError> {
        self.read("read the heads", call!(record::heads, place, after)).await
    }

    async fn recorded_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, Trust>, StateError> {
        self.read("read the recorded revisions", call!(record::recorded_revisions, identity)).await
    }

    async fn influenced_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, ChangeId>, StateError> {
        self.read("read the influenced revisions", call!(record::influenced_revisions, identity))
            .await
    }

    async fn last_changes(
        &self,
        place: &str,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<PathChange>, StateError> {
        self.read("read history", call!(changes::last_changes, place, (paths, max))).await
    }

    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<MemoryChange>, StateError> {
        self.read("read history", call!(changes::find, query)).await
    }

    async fn change(&self, id: ChangeId) -> Result<Option<MemoryChange>, StateError> {
        self.read("read a change", call!(changes::get, id)).await
    }

    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError> {
        self.read("read the content of a revision", call!(content::load, revision)).await
    }

    async fn add_uses(&self, uses: &[UseEvent]) -> Result<(), StateError> {
        if uses.is_empty() {
            return Ok(());
        }
        self.write("count uses", call!(usage::add_uses, uses)).await
    }

    async fn usage_rows(&self, identity: &str) -> Result<Vec<UsageRow>, StateError> {
        self.read("read pins and usage", call!(usage::load, identity)).await
    }

    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        if pinned {
            self.write("pin a memory", call!(usage::pin, mark, at)).await
        } else {
            self.write_if_exists("unpin a memory", call!(usage::unpin, mark)).await
        }
    }

    async fn merge_marks(&self, identity: &str, marks: &[UsageRow]) -> Result<(), StateError> {
        if marks.is_empty() {
            return Ok(());
        }
        self.write("add pins and usage", call!(usage::merge, identity, marks)).await
    }

    async fn drop_usage(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError> {
        const OPERATION: &str = "drop pins and usage";
        match paths {
            Some([]) => Ok(()),
            Some(paths) => {
                self.write_if_exists(OPERATION, call!(usage::drop_paths, identity, paths)).await
            }
            None => self.write_if_exists(OPERATION, call!(usage::drop_identity, identity)).await,
        }
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<PruneReport, StateError> {
        const OPERATION: &str = "drop old history";
        if !self.exists(OPERATION)? {
            return Ok(PruneReport::default());
        }
        let mut pruning = Pruning::new(retention, now);
        while !pruning.is_done() {
            // One short transaction a step, so that waiting writers run in between.
            let current = &pruning;
            let step = async move |mut connection: SqliteConnection| {
                let result = current.clone().step(&mut connection).await;
                (connection, result)
            };
            let next = if pruning.only_reads() {
                self.read_if_exists(OPERATION, step).await?
            } else {
                Some(self.write(OPERATION, step).await?)
            };
            // The database was removed meanwhile: nothing is left to drop.
            let Some(next) = next else { break };
            pruning = next;
        }
        Ok(pruning.report)
    }

    async fn stats(&self) -> Result<Stats, StateError> {
        let counted = self.read("read the statistics", call!(changes::stats)).await?;
        Ok(Stats { database_bytes: file::bytes_on_disk(&self.path), ..counted })
    }

    async fn check(&self) -> Result<Vec<String>, StateError> {
        let found = check::check(&self.path, CheckDepth::Full).await;
        found.map(|found| found.sentences()).map_err(|fault| self.fault("check", fault))
    }

    async fn close(&self) {
        let mut writer = self.writer.lock().await;
        // Readers first: the last connection to close copies the log back, which a reader cannot.
        let readers = std::mem::take(&mut *self.idle_readers.lock());
        for opened in readers.into_iter().chain(writer.take()) {
            open::close(opened.connection).await;
        }
    }
}
