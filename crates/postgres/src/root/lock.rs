//! The lock of a root, with the marks of its writes.

use async_trait::async_trait;
use memory::change::{ChangeId, DatabaseId};
use sqlx::PgConnection;
use state::StateError;
use state::rows::{ColumnResult, Columns};
use store::backend::{BackendError, RootLock};

use crate::call_error::CallError;
use crate::database::{Durability, call};
use crate::lease::HeldLease;
use crate::root::RowBackend;
use crate::root::files::{self, HeldRoot, Mark};
use crate::row::rows;

/// The marks of a root.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastRowWrite {
    pub(super) writes: u64,
    pub(super) is_writing: bool,
    pub(super) is_created: bool,
    recorder: Option<i64>,
}

/// A root that this process holds.
#[derive(Debug)]
pub(super) struct RowRootLock {
    backend: RowBackend,
    recorder: i64,
    last: LastRowWrite,
    completed: Option<ChangeId>,
    is_uncertain: bool,
    lease: HeldLease,
}

impl RowRootLock {
    /// Reads the marks of a root after its lock was taken.
    pub(super) async fn new(
        backend: RowBackend,
        database: DatabaseId,
        lease: HeldLease,
    ) -> Result<Self, StateError> {
        let recorder = database.0.cast_signed();
        let (owner, place) = (backend.0.owner, backend.0.place.as_str());
        let marks =
            backend.0.database.read("lock the memories", call!(marks, owner, (place, recorder)));
        let (last, completed) = marks.await?;
        let is_uncertain = last.recorder.is_some_and(|last| last != recorder);
        *backend.0.held.lock() =
            Some(HeldRoot { fence: lease.fence(), writes: None, last_version: None });
        Ok(Self { backend, recorder, last, completed, is_uncertain, lease })
    }

    async fn mark(&mut self, mark: Mark) -> Result<(), BackendError> {
        let (backend, recorder) = (&self.backend, self.recorder);
        let target = backend.target();
        // The end makes the whole write durable.
        let durability = match mark {
            Mark::End(Some(_)) => Durability::Synced,
            Mark::Begin | Mark::End(None) => Durability::Unsynced,
        };
        let work = backend.0.database.write_one(
            durability,
            "mark a write",
            call!(files::mark, target, (recorder, mark)),
        );
        let marked = work.await.map_err(|error| backend.error("mark a write", error))?;
        self.last.is_writing = mark == Mark::Begin;
        self.last.writes = marked.writes.cast_unsigned();
        if let Some(held) = &mut *backend.0.held.lock() {
            let is_begun = mark == Mark::Begin;
            held.writes = is_begun.then_some(marked.writes);
            held.last_version = is_begun.then_some(marked.last_version);
        }
        Ok(())
    }
}

impl Drop for RowRootLock {
    fn drop(&mut self) {
        // What a later holder in this process has stays.
        let mut held = self.backend.0.held.lock();
        if held.is_some_and(|held| held.fence == self.lease.fence()) {
            *held = None;
        }
    }
}

#[async_trait]
impl RootLock for RowRootLock {
    fn generation(&self) -> u64 {
        self.last.writes
    }

    fn was_interrupted(&self) -> bool {
        self.last.is_writing
    }

    fn machine_restarted(&self) -> bool {
        // The log of the server has one order, so no file is torn.
        false
    }

    fn is_uncertain(&self) -> bool {
        self.is_uncertain
    }

    fn completed(&self) -> Option<ChangeId> {
        self.completed
    }

    fn fence(&self) -> Option<i64> {
        Some(self.lease.fence())
    }

    async fn begin(&mut self) -> Result<(), BackendError> {
        self.mark(Mark::Begin).await
    }

    async fn end(&mut self, completed: Option<ChangeId>) -> Result<(), BackendError> {
        self.mark(Mark::End(completed)).await?;
        let root = &self.backend.0;
        root.database.notify(root.owner, &root.place);
        self.is_uncertain = false;
        self.completed = completed.or(self.completed);
        Ok(())
    }
}

/// Loads the marks of a root; `None` if it was never written.
pub(super) async fn last_write(
    connection: &mut PgConnection,
    owner: i64,
    place: &str,
) -> Result<Option<LastRowWrite>, CallError> {
    let find = sqlx::query(
        "SELECT writes, writing, is_created, recorder FROM roots WHERE owner = $1 AND place = $2",
    );
    let found = rows(connection, find.bind(owner).bind(place)).await?;
    Ok(found.first().map(|row| last_row_write(Columns(row))).transpose()?)
}

/// Loads the marks of a root, and the last completed change of a database.
async fn marks(
    connection: &mut PgConnection,
    owner: i64,
    (place, recorder): (&str, i64),
) -> Result<(LastRowWrite, Option<ChangeId>), CallError> {
    let find = sqlx::query(
        "SELECT writes, writing, is_created, recorder, (SELECT change_id FROM completed_changes
            WHERE owner = $1 AND place = $2 AND recorder = $3) AS completed
        FROM roots WHERE owner = $1 AND place = $2",
    );
    let found = rows(connection, find.bind(owner).bind(place).bind(recorder)).await?;
    let Some(row) = found.first() else { return Ok((LastRowWrite::default(), None)) };
    Ok((last_row_write(Columns(row))?, Columns(row).maybe_id("completed")?))
}

fn last_row_write(row: Columns<'_>) -> ColumnResult<LastRowWrite> {
    Ok(LastRowWrite {
        writes: row.count("writes")?,
        is_writing: row.flag("writing")?,
        is_created: row.flag("is_created")?,
        recorder: row.get("recorder")?,
    })
}
