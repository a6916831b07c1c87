//! All rows of a database, read from one snapshot, and a new database that such rows are written to.
//!
//! Both have connections of their own. A snapshot is a read transaction, so writers go on meanwhile and are not seen. A
//! new database is at a path that no process uses yet; its owner moves it to its final path when it is complete.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use sqlx::SqliteConnection;

use crate::error::{Fault, StateError};
use crate::file_lock::{FileLockGuard, LockMode};
use crate::rows::{Columns, single};
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::open::{self, ReaderState};
use crate::sqlite::{SqliteState, file};
use crate::transfer::{Counters, Places, Row, RowSource, RowTarget, Table, Value, rows_in_page};

const READ: &str = "read all rows of the state";
const WRITE: &str = "write the copy of the state";

/// Most parameters of a statement; `SQLite` permits 32,766.
const PARAMETERS_MAX: usize = 16_000;

/// A read transaction on a database.
#[derive(Debug)]
pub struct SqliteSnapshot {
    connection: SqliteConnection,
    path: PathBuf,
    places: Places,
}

impl SqliteState {
    /// Begins to read all rows. `None` if there is no database.
    ///
    /// The places in the rows are converted to those of a shared database.
    pub async fn snapshot(&self, places: Places) -> Result<Option<SqliteSnapshot>, StateError> {
        // Brings the database up to date, and repairs it if it is damaged.
        let is_ready = async |mut connection: SqliteConnection| {
            let ready = open::schema(&mut connection).await;
            (connection, ready.map(drop))
        };
        if self.read_if_exists(READ, is_ready).await?.is_none() {
            return Ok(None);
        }
        let opened = begin_snapshot(&self.path).await;
        let opened = opened.map_err(|fault| self.fault(READ, fault))?;
        let path = self.path.clone();
        Ok(opened.map(|connection| SqliteSnapshot { connection, path, places }))
    }
}

async fn begin_snapshot(path: &Path) -> Result<Option<SqliteConnection>, Fault> {
    let ReaderState::Ready(opened) = open::reader(path).await? else { return Ok(None) };
    let mut connection = opened.connection;
    // The snapshot begins with the first statement that reads.
    sqlx::raw_sql("BEGIN; SELECT id FROM totals").execute(&mut connection).await?;
    Ok(Some(connection))
}

impl SqliteSnapshot {
    async fn count_rows(&mut self, of: &str) -> Result<u64, StateError> {
        let counted = count(&mut self.connection, of).await;
        counted.map_err(|fault| self.fault(fault))
    }

    fn fault(&self, fault: Fault) -> StateError {
        StateError::of_file(READ, &self.path, fault)
    }
}

async fn count(connection: &mut SqliteConnection, of: &str) -> Result<u64, Fault> {
    let query = Batch::new(&format!("SELECT count(*) AS found FROM {of}"));
    let rows = query.rows(connection, StatementReuse::OneShot).await?;
    single(&rows, |row| row.count("found"))
}

#[async_trait]
impl RowSource for SqliteSnapshot {
    async fn count(&mut self, table: &Table) -> Result<u64, StateError> {
        self.count_rows(table.name).await
    }

    async fn page(
        &mut self,
        table: &Table,
        cursor: &mut Option<Row>,
    ) -> Result<Vec<Row>, StateError> {
        let page = read_page(&mut self.connection, &mut self.places, (table, cursor)).await;
        page.map_err(|fault| self.fault(fault))
    }

    async fn counters(&mut self) -> Result<Counters, StateError> {
        let read = counters(&mut self.connection).await;
        read.map_err(|fault| self.fault(fault))
    }

    async fn unfinished_tasks(&mut self) -> Result<u64, StateError> {
        self.count_rows("tasks WHERE status IN ('queued', 'running')").await
    }

    async fn other_identities(&mut self) -> Result<Vec<String>, StateError> {
        let found = other_identities(&mut self.connection, &mut self.places).await;
        found.map_err(|fault| self.fault(fault))
    }
}

async fn other_identities(
    connection: &mut SqliteConnection,
    places: &mut Places,
) -> Result<Vec<String>, Fault> {
    let query = Batch::new("SELECT DISTINCT identity, place FROM heads ORDER BY identity");
    let mut others = Vec::new();
    for row in query.rows(connection, StatementReuse::OneShot).await? {
        let row = Columns(&row);
        let identity: String = row.get("identity")?;
        if !places.is_hosted(&identity, row.get("place")?) {
            others.push(identity);
        }
    }
    others.dedup();
    Ok(others)
}

async fn read_page(
    connection: &mut SqliteConnection,
    places: &mut Places,
    (table, cursor): (&Table, &mut Option<Row>),
) -> Result<Vec<Row>, Fault> {
    let mut sizes = Batch::new(&table.sizes_query("", 1, cursor.is_some()));
    bind(&mut sizes, cursor.iter().flatten());
    let sizes = sizes.rows(connection, StatementReuse::OneShot).await?;
    let bytes = sizes.iter().map(|row| Columns(row).get("row_bytes"));
    let count = rows_in_page(bytes.collect::<Result<Vec<i64>, _>>()?);
    let Some(last) = count.checked_sub(1).and_then(|last| sizes.get(last)) else {
        return Ok(Vec::new());
    };
    let last = table.decode_key(last)?;
    let mut query = Batch::new(&table.rows_query("", 1, cursor.is_some()));
    bind(&mut query, last.iter().chain(cursor.iter().flatten()));
    let mut page = Vec::with_capacity(count);
    for stored in query.rows(connection, StatementReuse::OneShot).await? {
        let mut row = table.decode(&stored)?;
        row.iter_mut().for_each(replace_nul);
        places.share(table, &mut row)?;
        page.push(row);
    }
    *cursor = Some(last);
    Ok(page)
}

async fn counters(connection: &mut SqliteConnection) -> Result<Counters, Fault> {
    let query = Batch::new(
        "SELECT last_change,
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'proposals'), 0) AS last_proposal,
            coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'model_work'), 0) AS last_work
        FROM totals WHERE id = 1",
    );
    let rows = query.rows(connection, StatementReuse::OneShot).await?;
    single(&rows, |row| {
        Ok(Counters {
            change: row.get("last_change")?,
            proposal: row.get("last_proposal")?,
            work: row.get("last_work")?,
        })
    })
}

/// Replaces U+0000, which a shared database cannot store, as the adapter of that database does.
fn replace_nul(value: &mut Value) {
    if let Value::Text(text) = value
        && text.contains('\0')
    {
        *text = text.replace('\0', "\u{fffd}");
    }
}

/// A new database that rows are written to.
#[derive(Debug)]
pub struct SqliteImport {
    connection: SqliteConnection,
    path: PathBuf,
    places: Places,
    _lock: FileLockGuard,
}

impl SqliteImport {
    /// Creates a database at a path where none is. The places in the rows are converted to those of this machine.
    pub async fn create(path: &Path, places: Places) -> Result<Self, StateError> {
        let created = create(path).await;
        let (connection, lock) =
            created.map_err(|fault| StateError::of_file(WRITE, path, fault))?;
        Ok(Self { connection, path: path.to_owned(), places, _lock: lock })
    }

    /// Writes everything to the file itself, so that it needs no log, and closes it.
    pub async fn finish(mut self) -> Result<(), StateError> {
        let truncate = sqlx::raw_sql("PRAGMA wal_checkpoint(TRUNCATE)");
        let written = truncate.execute(&mut self.connection).await;
        written.map_err(|error| StateError::of_file(WRITE, &self.path, error.into()))?;
        open::close(self.connection).await;
        Ok(())
    }
}

async fn create(path: &Path) -> Result<(SqliteConnection, FileLockGuard), Fault> {
    let lock = file::lock(path, LockMode::Exclusive).await?;
    if file::file_id(path)?.is_some() {
        return Err(std::io::Error::from(std::io::ErrorKind::AlreadyExists).into());
    }
    Ok((open::writer(path).await?.connection, lock))
}

#[async_trait]
impl RowTarget for SqliteImport {
    async fn insert(&mut self, table: &Table, rows: Vec<Row>) -> Result<(), StateError> {
        let inserted = insert(&mut self.connection, &mut self.places, (table, rows)).await;
        inserted.map_err(|fault| StateError::of_file(WRITE, &self.path, fault))
    }

    async fn set_counters(&mut self, counters: Counters) -> Result<(), StateError> {
        let set = Batch::new(
            "BEGIN IMMEDIATE;
            UPDATE totals SET last_change = $1 WHERE last_change < $1;
            DELETE FROM sqlite_sequence WHERE name IN ('proposals', 'model_work');
            INSERT INTO sqlite_sequence (name, seq) VALUES ('proposals', $2), ('model_work', $3);
            COMMIT;",
        );
        let set = set.bind(counters.change).bind(counters.proposal).bind(counters.work);
        let set = set.run(&mut self.connection, StatementReuse::OneShot).await;
        set.map(drop).map_err(|error| StateError::of_file(WRITE, &self.path, error.into()))
    }
}

/// Inserts rows in one transaction. If a statement fails, the connection is left in it, and the database is not used.
async fn insert(
    connection: &mut SqliteConnection,
    places: &mut Places,
    (table, mut rows): (&Table, Vec<Row>),
) -> Result<(), Fault> {
    for row in &mut rows {
        places.localize(table, row)?;
    }
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    for part in rows.chunks(PARAMETERS_MAX / table.columns.len()) {
        let values = format!("({})", crate::transfer::parameters(1, table.columns.len()));
        let mut query =
            Batch::new(&format!("INSERT INTO {} ({}) VALUES ", table.name, table.column_names()));
        for (index, row) in part.iter().enumerate() {
            query.add(if index == 0 { "" } else { ", " }).add(&values);
            bind(&mut query, row);
        }
        query.run(connection, StatementReuse::OneShot).await?;
    }
    sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
    Ok(())
}

fn bind<'v>(batch: &mut Batch, values: impl IntoIterator<Item = &'v Value>) {
    for value in values {
        match value {
            Value::Null => batch.value(None::<i64>),
            Value::Integer(number) => batch.value(*number),
            Value::Flag(flag) => batch.value(i64::from(*flag)),
            Value::Text(text) => batch.value(text.clone()),
            Value::Bytes(bytes) => batch.value(bytes.clone()),
        };
    }
}
