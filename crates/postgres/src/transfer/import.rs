//! The rows of a new owner.
//!
//! A lock keeps two imports for one name apart. It has a time limit, as other locks of daemons: after a kill it is free
//! within seconds. Each transaction checks it, so a process that lost it writes no rows.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres};
use state::transfer::{Column, ColumnKind, Counters, Row, RowTarget, Table, Value};
use state::{Fault, StateError};

use super::{BOOKKEEPING, OwnerSnapshot, is_empty, owner_id, owner_tables};
use crate::call_error::CallError;
use crate::database::Durability::{Synced, Unsynced};
use crate::database::{Database, call, random_number};
use crate::lease::{self, HeldLease, Lease};
use crate::root::RowBackend;
use crate::row::{rows, run, storable};

/// The name of the lock of an import.
const LOCK: &str = "import";
/// Begins the name of an owner until it is complete. No owner of a daemon has a space at the start of its name.
const PROVISIONAL: &str = " incoming ";
/// Wait for the lock of an import, beyond the time limit of locks: the last holder may have been killed just now.
const IMPORT_WAIT: Duration = Duration::from_secs(2);
/// The longest time between two looks whether the lock is free.
const LOCK_POLL_MAX: Duration = Duration::from_millis(200);
/// Rows of a table that are removed in one transaction.
const ROWS_REMOVED_AT_ONCE: i64 = 500;
/// Attempts at the last step, whose answer may be lost.
const FINISH_ATTEMPTS: u32 = 3;
/// Wait between two of these.
const FINISH_PAUSE: Duration = Duration::from_secs(1);

/// The reason why an owner cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The owner has memories, history or other rows.
    #[error("the owner `{0}` already has memories or other data in the database")]
    InUse(String),
    /// Another process imports an owner of this name.
    #[error("another process copies memories to the owner `{0}`")]
    Running(String),
    /// The database failed.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A new owner whose rows are being written.
#[derive(Debug)]
pub struct OwnerImport {
    database: Database,
    name: String,
    owner: i64,
    lease: HeldLease,
}

/// The owner of an import, and the fence under which the import holds its lock.
#[derive(Clone, Copy, Debug)]
struct ImportTarget {
    owner: i64,
    fence: i64,
}

impl Database {
    /// Begins to write the rows of a new owner. Removes those of an earlier attempt.
    pub async fn begin_import(&self, name: &str) -> Result<OwnerImport, ImportError> {
        const OPERATION: &str = "begin to copy an owner";
        let name = storable(name).into_owned();
        if let Some(owner) = self.find_owner(&name).await?
            && !owner.is_empty().await?
        {
            return Err(ImportError::InUse(name));
        }
        let provisional = format!("{PROVISIONAL}{name}");
        let provisional = provisional.as_str();
        if let Some(id) = self.read(OPERATION, call!(owner_id, provisional)).await? {
            let earlier = self.lock_import(id, &name).await?;
            let target = ImportTarget { owner: id, fence: earlier.fence() };
            self.remove_owner(target, provisional).await?;
        }
        let new = random_number();
        if !self.write(Synced, OPERATION, call!(add_owner, provisional, new)).await? {
            return Err(ImportError::Running(name));
        }
        let lease = self.lock_import(new, &name).await?;
        Ok(OwnerImport { database: self.clone(), name, owner: new, lease })
    }

    async fn lock_import(&self, owner: i64, name: &str) -> Result<HeldLease, ImportError> {
        let lease = Lease::new(self.clone(), owner, LOCK.to_owned());
        let taken = lease.take(self.lease() + IMPORT_WAIT, LOCK_POLL_MAX).await?;
        taken.ok_or_else(|| ImportError::Running(name.to_owned()))
    }

    /// Removes an owner whose import did not end. The row of the owner goes last, so that a removal that is interrupted
    /// is continued.
    async fn remove_owner(&self, target: ImportTarget, name: &str) -> Result<(), StateError> {
        const OPERATION: &str = "remove an incomplete copy";
        for table in &self.read(OPERATION, call!(owner_tables)).await? {
            // The lock is needed until the end.
            if table == "leases" {
                continue;
            }
            let table = table.as_str();
            while self.write(Unsynced, OPERATION, call!(remove_rows, target, table)).await? > 0 {}
        }
        self.write(Synced, OPERATION, call!(remove_owner, target, name)).await
    }
}

impl OwnerImport {
    /// Returns the root at a place. Its files are rows of the new owner.
    pub fn root(&self, place: &str) -> RowBackend {
        RowBackend::new(self.database.clone(), self.owner, place.to_owned())
    }

    /// Begins to read the rows that were written.
    pub async fn snapshot(&self) -> Result<OwnerSnapshot, StateError> {
        OwnerSnapshot::begin(self.database.clone(), self.owner).await
    }

    /// Gives the owner its name. From then on daemons serve it.
    pub async fn finish(self) -> Result<(), ImportError> {
        const OPERATION: &str = "finish the copy of an owner";
        let (target, name) = (self.target(), self.name.as_str());
        let mut attempts = 1;
        let finished = loop {
            let finished =
                self.database.write(Synced, OPERATION, call!(finish, target, name)).await;
            match finished {
                // It may have been done, which the next attempt finds out.
                Err(StateError::Unreachable { .. }) if attempts < FINISH_ATTEMPTS => {
                    attempts += 1;
                    tokio::time::sleep(FINISH_PAUSE).await;
                }
                finished => break finished?,
            }
        };
        if finished { Ok(()) } else { Err(ImportError::InUse(self.name)) }
    }

    /// Removes the rows that were written.
    pub async fn discard(self) -> Result<(), StateError> {
        let name = format!("{PROVISIONAL}{}", self.name);
        self.database.remove_owner(self.target(), &name).await
    }

    fn target(&self) -> ImportTarget {
        ImportTarget { owner: self.owner, fence: self.lease.fence() }
    }
}

#[async_trait]
impl RowTarget for OwnerImport {
    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StateError> {
        let columns = &columns(table, rows);
        let target = self.target();
        self.database
            .write(Unsynced, "write rows of an owner", call!(insert, target, (table, columns)))
            .await
    }

    async fn set_counters(&mut self, counters: Counters) -> Result<(), StateError> {
        let target = self.target();
        self.database
            .write(Unsynced, "set the numbers of an owner", call!(set_counters, target, counters))
            .await
    }
}

/// Adds an owner. Returns whether the name was free.
async fn add_owner(
    connection: &mut PgConnection,
    name: &str,
    new_id: i64,
) -> Result<bool, CallError> {
    let add = sqlx::query(
        "WITH added AS (
            INSERT INTO owners (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id)
        INSERT INTO counters (owner) SELECT id FROM added",
    );
    Ok(run(connection, add.bind(new_id).bind(name)).await? > 0)
}

/// Locks the owner for this transaction. Fails if the import lost its lock or was removed.
async fn lock(connection: &mut PgConnection, target: ImportTarget) -> Result<(), CallError> {
    let lock = sqlx::query("SELECT owner FROM counters WHERE owner = $1 FOR UPDATE");
    let found = rows(connection, lock.bind(target.owner)).await?;
    if found.is_empty() || !lease::is_held(connection, target.owner, (LOCK, target.fence)).await? {
        return Err(Fault::LockLost(LOCK.to_owned()).into());
    }
    Ok(())
}

async fn remove_rows(
    connection: &mut PgConnection,
    target: ImportTarget,
    table: &str,
) -> Result<u64, CallError> {
    if !lease::is_held(connection, target.owner, (LOCK, target.fence)).await? {
        return Err(Fault::LockLost(LOCK.to_owned()).into());
    }
    let remove = format!(
        r#"DELETE FROM "{table}" WHERE ctid = ANY(ARRAY(SELECT ctid FROM "{table}" WHERE owner = $1 LIMIT $2))"#
    );
    let remove = sqlx::query(AssertSqlSafe(remove)).bind(target.owner).bind(ROWS_REMOVED_AT_ONCE);
    Ok(run(connection, remove).await?)
}

async fn remove_owner(
    connection: &mut PgConnection,
    target: ImportTarget,
    name: &str,
) -> Result<(), CallError> {
    let remove = sqlx::query("DELETE FROM owners WHERE id = $1 AND name = $2");
    run(connection, remove.bind(target.owner).bind(name)).await?;
    let remove = sqlx::query("DELETE FROM leases WHERE owner = $1");
    run(connection, remove.bind(target.owner)).await?;
    Ok(())
}

/// The values of one column of several rows.
#[derive(Debug)]
enum Values {
    Integers(Vec<Option<i64>>),
    Flags(Vec<Option<bool>>),
    Texts(Vec<Option<String>>),
    Bytes(Vec<Option<Vec<u8>>>),
}

impl Values {
    fn new(column: &Column, count: usize) -> Self {
        match column.kind {
            ColumnKind::Integer => Self::Integers(Vec::with_capacity(count)),
            ColumnKind::Flag => Self::Flags(Vec::with_capacity(count)),
            ColumnKind::Text => Self::Texts(Vec::with_capacity(count)),
            ColumnKind::Bytes => Self::Bytes(Vec::with_capacity(count)),
        }
    }

    const fn array_type(&self) -> &'static str {
        match self {
            Self::Integers(_) => "bigint[]",
            Self::Flags(_) => "boolean[]",
            Self::Texts(_) => "text[]",
            Self::Bytes(_) => "bytea[]",
        }
    }

    /// Adds a value, which is NULL or of the type of the column.
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Integers(values), Value::Integer(number)) => values.push(Some(number)),
            (Self::Flags(values), Value::Flag(flag)) => values.push(Some(flag)),
            (Self::Texts(values), Value::Text(text)) => values.push(Some(text)),
            (Self::Bytes(values), Value::Bytes(bytes)) => values.push(Some(bytes)),
            (Self::Integers(values), Value::Null) => values.push(None),
            (Self::Flags(values), Value::Null) => values.push(None),
            (Self::Texts(values), Value::Null) => values.push(None),
            (Self::Bytes(values), Value::Null) => values.push(None),
            (values, value) => unreachable!("{value:?} is no {}", values.array_type()),
        }
    }

    fn bind<'q>(
        &'q self,
        query: Query<'q, Postgres, PgArguments>,
    ) -> Query<'q, Postgres, PgArguments> {
        match self {
            Self::Integers(values) => query.bind(values),
            Self::Flags(values) => query.bind(values),
            Self::Texts(values) => query.bind(values),
            Self::Bytes(values) => query.bind(values),
        }
    }
}

fn columns(table: &Table, rows: Vec<Row>) -> Vec<Values> {
    let mut columns: Vec<_> =
        table.columns.iter().map(|column| Values::new(column, rows.len())).collect();
    for row in rows {
        for (values, value) in columns.iter_mut().zip(row) {
            values.push(value);
        }
    }
    columns
}

async fn insert(
    connection: &mut PgConnection,
    target: ImportTarget,
    (table, columns): (&Table, &[Values]),
) -> Result<(), CallError> {
    lock(connection, target).await?;
    let arrays: Vec<_> = (2..)
        .zip(columns)
        .map(|(number, values)| format!("${number}::{}", values.array_type()))
        .collect();
    let insert = format!(
        "INSERT INTO {} (owner, {}) SELECT $1, r.* FROM unnest({}) r",
        table.name,
        table.column_names(),
        arrays.join(", ")
    );
    let mut query = sqlx::query(AssertSqlSafe(insert)).bind(target.owner);
    for values in columns {
        query = values.bind(query);
    }
    run(connection, query).await?;
    Ok(())
}

async fn set_counters(
    connection: &mut PgConnection,
    target: ImportTarget,
    counters: Counters,
) -> Result<(), CallError> {
    lock(connection, target).await?;
    let set = sqlx::query(
        "UPDATE counters SET last_change = $2, imported_change = $2, last_proposal = $3, last_work = $4,
            last_task = (SELECT coalesce(max(seq), 0) FROM tasks WHERE owner = $1)
        WHERE owner = $1",
    );
    let set = set.bind(target.owner).bind(counters.change).bind(counters.proposal);
    run(connection, set.bind(counters.work)).await?;
    Ok(())
}

/// Gives the owner its name, in place of an owner that has nothing. Returns whether the name was free.
async fn finish(
    connection: &mut PgConnection,
    target: ImportTarget,
    name: &str,
) -> Result<bool, CallError> {
    // An earlier attempt whose answer was lost may have done it.
    let holder = owner_id(connection, name).await?;
    if holder == Some(target.owner) {
        return Ok(true);
    }
    lock(connection, target).await?;
    if let Some(other) = holder
        && !replace_empty_owner(connection, other, target.owner).await?
    {
        return Ok(false);
    }
    let rename = sqlx::query("UPDATE owners SET name = $2 WHERE id = $1 AND name = $3");
    let rename = rename.bind(target.owner).bind(name).bind(format!("{PROVISIONAL}{name}"));
    if run(connection, rename).await? == 0 {
        return Err(Fault::LockLost(LOCK.to_owned()).into());
    }
    Ok(true)
}

/// Removes an owner that has nothing but tokens, which the new one gets. A daemon that still serves it can record no change,
/// since its numbers are gone.
async fn replace_empty_owner(
    connection: &mut PgConnection,
    owner: i64,
    new: i64,
) -> Result<bool, CallError> {
    let lock = sqlx::query("SELECT owner FROM counters WHERE owner = $1 FOR UPDATE");
    rows(connection, lock.bind(owner)).await?;
    if !is_empty(connection, owner).await? {
        return Ok(false);
    }
    let keep = sqlx::query("UPDATE tokens SET owner = $2 WHERE owner = $1");
    run(connection, keep.bind(owner).bind(new)).await?;
    for table in BOOKKEEPING {
        let remove = format!("DELETE FROM {table} WHERE owner = $1");
        run(connection, sqlx::query(AssertSqlSafe(remove)).bind(owner)).await?;
    }
    run(connection, sqlx::query("DELETE FROM owners WHERE id = $1").bind(owner)).await?;
    Ok(true)
}
