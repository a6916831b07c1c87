//! The state in one SQLite file.
//!
//! Nothing is opened before the first call, and no file is made before the first write. One
//! connection writes, a few read; each is taken out of its place for the length of one call, so a call
//! that is cancelled closes its connection, which rolls its transaction back. Several processes share
//! the file. The call that finds it damaged has it repaired or set aside, and is tried once more.

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
mod row;
mod sessions;
mod tasks;
#[cfg(test)]
mod tests;
mod usage;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use memory::change::{ChangeId, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::SqliteConnection;
use tokio::sync::{MutexGuard, SemaphorePermit};

pub use crate::sqlite::file::set_aside_databases;
pub use crate::sqlite::repair::StateRepair;

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

/// Changes after whose settling the log is copied back. What is written over the beginning of the log
/// again is synchronized in less time than what makes the log longer.
const CHANGES_PER_CHECKPOINT: usize = 64;

/// Readers at the same time: each is a connection with a thread and a cache of its own, and more of them
/// than the machine has cores gain nothing. Whoever comes when there are as many waits for one to end.
const READ_CONNECTIONS_MAX: usize = 8;

/// Readers that stay open while nobody reads.
const IDLE_READERS_MAX: usize = 2;

const _: () = assert!(IDLE_READERS_MAX < READ_CONNECTIONS_MAX);

/// Makes what [`SqliteState::read`] and [`SqliteState::write`] run of a function and its arguments: it passes them on
/// with the connection, and returns that with the answer. No function can do so: the future of a closure that borrows
/// its argument cannot be required to be `Send`.
macro_rules! call {
    ($function:path $(, $argument:expr)* $(,)?) => {
        move |mut connection| async move {
            let answer = $function(&mut connection $(, $argument)*).await;
            (connection, answer)
        }
    };
}
use call;

/// The state of one host in one SQLite file.
#[derive(Debug)]
pub struct SqliteState {
    path: PathBuf,
    /// The connection that writes, taken out while it does.
    writer: tokio::sync::Mutex<Option<OpenConnection>>,
    /// Held by the next of those who write in their own turn; the others wait here, and not for the writer.
    writer_queue: tokio::sync::Mutex<()>,
    /// One for each reader that may be at work.
    readers: tokio::sync::Semaphore,
    idle_readers: Mutex<Vec<OpenConnection>>,
    last_repair: Mutex<Option<StateRepair>>,
    /// Whether reading may repair or migrate what it finds.
    may_repair: bool,
    /// Changes settled since the log was last copied back.
    durable_since_checkpoint: AtomicUsize,
}

/// When a call writes that comes while others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Priority {
    /// After those that came before.
    Normal,
    /// Before those, but for one: somebody waits for the answer, and most of them are the work behind
    /// answers that were given.
    High,
}

/// What a call made of its connection: the connection, to be used again, and the answer.
type ConnectionResult<T> = (SqliteConnection, Result<T, Fault>);

/// The place of one who reads.
struct PooledReader<'state> {
    file: FileId,
    is_reusable: bool,
    _permit: SemaphorePermit<'state>,
}

/// The place of the one who writes. The lock file is released before the place is.
struct PooledWriter<'state> {
    file: FileId,
    _lock: FileLockGuard,
    writer: MutexGuard<'state, Option<OpenConnection>>,
}

impl PooledWriter<'_> {
    /// Ends the writing: the next one has the connection, if what was done with it went well.
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
    /// Returns the state in the database at `path`. Opens and makes nothing; the folder must be there
    /// when something is written.
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

    /// Returns a state whose reading neither repairs nor migrates: what is not ready has nothing to
    /// read. For a look that nobody asked for, as a shell's that completes a word.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.may_repair = false;
        self
    }

    /// Returns where the database is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the latest repair by this value, if there was one.
    pub fn last_repair(&self) -> Option<StateRepair> {
        self.last_repair.lock().clone()
    }

    /// Repairs the database if [`HistoryStore::check`] finds anything wrong: in place, if only indexes are damaged or rows
    /// contradict each other. Otherwise it sets the database aside and starts an empty one.
    pub async fn repair(&self) -> Result<Option<StateRepair>, StateError> {
        self.repair_exclusive(CheckDepth::Full).await.map_err(|fault| self.fault("repair", fault))
    }

    fn fault(&self, wanted: &'static str, fault: Fault) -> StateError {
        StateError::new(wanted, &self.path, fault)
    }

    /// Runs `work` on a connection that reads. Without a database there is nothing to read.
    async fn read<T, Work, Running>(
        &self,
        wanted: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Default + Send,
    {
        Ok(self.read_if_exists(wanted, work).await?.unwrap_or_default())
    }

    /// Runs `work` on a connection that reads. `None` if there is no database.
    async fn read_if_exists<T, Work, Running>(
        &self,
        wanted: &'static str,
        work: Work,
    ) -> Result<Option<T>, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        let mut was_repaired = false;
        loop {
            let answer = match self.acquire_reader().await {
                Ok(Some((connection, seat))) => {
                    let (connection, answer) = work(connection).await;
                    self.release_reader(connection, seat, answer.is_ok()).await;
                    answer.map(Some)
                }
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(fault) if self.may_repair => {
                    self.repair_once(wanted, fault, &mut was_repaired).await?;
                }
                Err(fault) => return Err(self.fault(wanted, fault)),
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
        seat: PooledReader<'_>,
        is_sound: bool,
    ) {
        if !is_sound || !seat.is_reusable {
            return open::close(connection).await;
        }
        let mut idle = self.idle_readers.lock();
        if idle.len() < IDLE_READERS_MAX {
            idle.push(OpenConnection { connection, file: seat.file, is_reusable: true });
        }
    }

    async fn open_reader(&self) -> Result<Option<OpenConnection>, Fault> {
        let file = file::file_id(&self.path)?;
        // A reader of a file that is gone from here is dropped, which closes it.
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

    /// Runs `work` on the connection that writes, and makes the database if there is none.
    async fn write<T, Work, Running>(
        &self,
        wanted: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        self.write_in(Priority::Normal, wanted, work).await
    }

    /// Runs `work` on the connection that writes if there is a database: what only removes need not make one.
    async fn write_if_exists<T, Work, Running>(
        &self,
        wanted: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Default + Send,
    {
        if self.exists(wanted)? { self.write(wanted, work).await } else { Ok(T::default()) }
    }

    async fn write_in<T, Work, Running>(
        &self,
        turn: Priority,
        wanted: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(SqliteConnection) -> Running + Send + Sync,
        Running: Future<Output = ConnectionResult<T>> + Send,
        T: Send,
    {
        let mut was_repaired = false;
        loop {
            let answer = match self.acquire_writer(turn).await {
                Ok((connection, seat)) => {
                    let (connection, answer) = work(connection).await;
                    seat.release(connection, answer.is_ok()).await;
                    answer
                }
                Err(fault) => Err(fault),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(fault) => self.repair_once(wanted, fault, &mut was_repaired).await?,
            }
        }
    }

    /// Repairs the database if the fault is damage and the call did not repair it before. Any other fault is the
    /// answer.
    async fn repair_once(
        &self,
        wanted: &'static str,
        fault: Fault,
        was_repaired: &mut bool,
    ) -> Result<(), StateError> {
        if *was_repaired || !fault.is_damage() {
            return Err(self.fault(wanted, fault));
        }
        *was_repaired = true;
        self.repair_exclusive(CheckDepth::Pages)
            .await
            .map_err(|fault| self.fault(wanted, fault))?;
        Ok(())
    }

    /// Waits for the writer.
    async fn lock_writer(&self, turn: Priority) -> MutexGuard<'_, Option<OpenConnection>> {
        let _next = match turn {
            Priority::Normal => Some(self.writer_queue.lock().await),
            Priority::High => None,
        };
        self.writer.lock().await
    }

    async fn acquire_writer(
        &self,
        turn: Priority,
    ) -> Result<(SqliteConnection, PooledWriter<'_>), Fault> {
        let mut writer = self.lock_writer(turn).await;
        loop {
            self.open_writer(&mut writer).await?;
            let lock = file::lock(&self.path, LockMode::Shared).await?;
            // Looked at under the lock: from here on no process sets the file aside.
            let Some(OpenConnection { connection, file, .. }) = writer.take() else { continue };
            if file::file_id(&self.path)? == Some(file) {
                return Ok((connection, PooledWriter { file, _lock: lock, writer }));
            }
        }
    }

    /// Sees to it that the writer is open on the file that stands at the path.
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

    /// Checks the database under the lock that no other process shares, and repairs it. `None` if it is sound,
    /// such as after another process repaired it.
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

    /// Copies the log back into the database, as far as readers let it be. SQLite would do so itself
    /// on the way of some later write.
    async fn checkpoint(&self) {
        const WANTED: &str = "copy the log back";
        let copy = async |mut connection: SqliteConnection| {
            let answer =
                sqlx::query("PRAGMA wal_checkpoint(PASSIVE)").execute(&mut connection).await;
            (connection, answer.map(drop).map_err(Fault::from))
        };
        // First beside those who write, which takes long and keeps nobody waiting. Then what they added
        // meanwhile: only a log that is copied back whole is begun anew.
        let copied = match self.read(WANTED, copy).await {
            Ok(()) => self.write_if_exists(WANTED, copy).await,
            Err(error) => Err(error),
        };
        if let Err(error) = copied {
            tracing::debug!(%error, "the log stays as it is");
        }
    }

    fn exists(&self, wanted: &'static str) -> Result<bool, StateError> {
        let found = file::file_id(&self.path).map_err(|fault| self.fault(wanted, fault))?;
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
        self.write_if_exists("take back a change", call!(record::abort_change, id)).await
    }

    async fn raise_change_number(&self, given: ChangeId) -> Result<(), StateError> {
        self.write("number changes", call!(record::raise_change_number, given)).await
    }

    async fn mark_durable(&self, ids: &[ChangeId]) -> Result<(), StateError> {
        if ids.is_empty() {
            return Ok(());
        }
        self.write_if_exists("settle changes", call!(record::mark_durable, ids)).await?;
        let settled =
            self.durable_since_checkpoint.fetch_add(ids.len(), Ordering::Relaxed) + ids.len();
        if settled >= CHANGES_PER_CHECKPOINT {
            self.durable_since_checkpoint.store(0, Ordering::Relaxed);
            self.checkpoint().await;
        }
        Ok(())
    }

    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError> {
        self.read("read the open changes", call!(changes::open_changes, place)).await
    }

    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError> {
        self.read("read what was last recorded", call!(record::heads, place, after)).await
    }

    async fn recorded_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, Trust>, StateError> {
        self.read("read what was recorded", call!(record::recorded_revisions, identity)).await
    }

    async fn influenced_revisions(
        &self,
        identity: &str,
    ) -> Result<HashMap<Revision, ChangeId>, StateError> {
        self.read("read what was influenced", call!(record::influenced_revisions, identity)).await
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
        self.read("read kept bytes", call!(content::load, revision)).await
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
        const WANTED: &str = "forget pins and usage";
        match paths {
            Some([]) => Ok(()),
            Some(paths) => {
                self.write_if_exists(WANTED, call!(usage::drop_paths, identity, paths)).await
            }
            None => self.write_if_exists(WANTED, call!(usage::drop_identity, identity)).await,
        }
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<PruneReport, StateError> {
        const WANTED: &str = "drop old history";
        if !self.exists(WANTED)? {
            return Ok(PruneReport::default());
        }
        let mut pruning = Pruning::new(retention, now);
        while !pruning.is_done() {
            // One short transaction a turn, so that whoever waits to write comes in between.
            let now = &pruning;
            let step = async move |mut connection: SqliteConnection| {
                let answer = now.clone().step(&mut connection).await;
                (connection, answer)
            };
            let next = if pruning.only_reads() {
                self.read_if_exists(WANTED, step).await?
            } else {
                Some(self.write(WANTED, step).await?)
            };
            // Without a database there is nothing left to drop.
            let Some(next) = next else { break };
            pruning = next;
        }
        Ok(pruning.report)
    }

    async fn stats(&self) -> Result<Stats, StateError> {
        let counted = self.read("count what is kept", call!(changes::stats)).await?;
        Ok(Stats { database_bytes: file::bytes_on_disk(&self.path), ..counted })
    }

    async fn check(&self) -> Result<Vec<String>, StateError> {
        let found = check::check(&self.path, CheckDepth::Full).await;
        found.map(|found| found.sentences()).map_err(|fault| self.fault("check", fault))
    }

    async fn close(&self) {
        let mut writer = self.writer.lock().await;
        // Readers first: whoever closes last writes the rest back into the database.
        let readers = std::mem::take(&mut *self.idle_readers.lock());
        for opened in readers.into_iter().chain(writer.take()) {
            open::close(opened.connection).await;
        }
    }
}
