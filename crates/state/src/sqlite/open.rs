//! Opening the database: making it, switching it to write-ahead, migrating it, and noticing that it
//! is not one.
//!
//! A process that may change the schema holds the lock file alone, so that any number of processes may come
//! first at the same time.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use memory::limits::LOCK_WAIT;
use sqlx::SqlSafeStr as _;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use crate::error::Fault;
use crate::private_files::restrict_to_owner;
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::file::{self, FileId};

/// The steps of the schema. What a step says never changes once it was published: databases remember its hash.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let step = |version, description: &'static str, sql: &'static str| {
        let once = MigrationType::Simple;
        Migration::new(version, description.into(), once, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        step(
            1,
            "history marks contents",
            include_str!("../../migrations/0001_history_marks_contents.sql"),
        ),
        step(
            2,
            "tasks sessions runs",
            include_str!("../../migrations/0002_tasks_sessions_runs.sql"),
        ),
        step(3, "dreams", include_str!("../../migrations/0003_dreams.sql")),
        step(4, "conversations", include_str!("../../migrations/0004_conversations.sql")),
        step(5, "segments", include_str!("../../migrations/0005_segments.sql")),
        step(6, "proposals", include_str!("../../migrations/0006_proposals.sql")),
        step(7, "influence", include_str!("../../migrations/0007_influence.sql")),
        step(8, "model work", include_str!("../../migrations/0008_model_work.sql")),
        step(9, "notes", include_str!("../../migrations/0009_notes.sql")),
    ])
});

/// Tables of the latest schema; one that is missing is damage.
const TABLES: i64 = 16;

/// How many changes a database that is set aside is taken to have recorded: many times a busy host's.
const NUMBERS_PER_DATABASE: i64 = 1_000_000;

/// Statements that stay prepared a connection: each holds some kilobytes.
const STATEMENTS_KEPT: usize = 24;

/// Rows that SQLite's thread reads ahead: enough not to wake the other side for each handful.
const ROWS_BUFFERED: usize = 1024;

/// How long the switch to write-ahead waits for a reader to let go, each time: SQLite does not wait
/// by itself there.
const SWITCH_POLL: Duration = Duration::from_millis(10);

/// An open connection and the file that it belongs to.
#[derive(Debug)]
pub(super) struct OpenConnection {
    /// The connection.
    pub(super) connection: SqliteConnection,
    /// The file that stood at the path then.
    pub(super) file: FileId,
    /// Whether it may be used again later. Not if it takes no locks.
    pub(super) is_reusable: bool,
}

/// What a database turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    /// Nothing yet.
    Empty,
    /// An earlier schema, which a migration brings up to date.
    Outdated,
    /// The latest.
    Latest,
}

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Read a database that exists.
    Read,
    /// Read a database in a folder where no file can be made, without locks: all of it is in its one file.
    ReadImmutable,
    /// Read and write, making the database if need be.
    Write,
}

/// Opens a connection without looking at what is in the database.
pub(super) async fn connect(path: &Path, mode: Mode) -> Result<SqliteConnection, Fault> {
    file::refuse_stub(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(mode == Mode::Write)
        .busy_timeout(LOCK_WAIT)
        .foreign_keys(false);
    // Most settings read the schema, so what decides about a damaged one comes before them.
    let options = match mode {
        Mode::Read | Mode::Write => options.synchronous(SqliteSynchronous::Full),
        Mode::ReadImmutable => options.read_only(true).immutable(true),
    };
    let options = options
        .pragma("temp_store", "memory")
        // A megabyte holds the upper pages of every index; the operating system caches the rest.
        .pragma("cache_size", "-1024")
        // Copying the log back costs more than a write, so it is done for many at once.
        .pragma("wal_autocheckpoint", "4096")
        .statement_cache_capacity(STATEMENTS_KEPT)
        .row_buffer_size(ROWS_BUFFERED)
        .disable_statement_logging();
    let options = match mode {
        Mode::Write => {
            // What a large import made of the write-ahead file is given back at its next start.
            let options = options.pragma("journal_size_limit", "8388608");
            // What was dropped from a row is not left lying about in its page.
            let options = options.pragma("secure_delete", "fast");
            // Said to a database that exists, even this would be a write.
            match file::bytes_on_disk(path) {
                0 => options.auto_vacuum(SqliteAutoVacuum::Incremental),
                _ => options,
            }
        }
        Mode::Read => options.pragma("query_only", "on"),
        Mode::ReadImmutable => options,
    };
    Ok(options.connect().await?)
}

/// What there is to read.
#[derive(Debug)]
pub(super) enum ReaderState {
    /// No database, or none that anybody wrote to yet.
    Missing,
    /// One that must be migrated first; a writer does so.
    NeedsMigration,
    /// One that is ready.
    Ready(OpenConnection),
}

/// Opens the database for reading.
pub(super) async fn reader(path: &Path) -> Result<ReaderState, Fault> {
    let Some(file) = file::file_id(path)? else { return Ok(ReaderState::Missing) };
    match open_for_reading(path, Mode::Read, file).await {
        // A write-ahead database cannot be read by its locks where the files that hold them cannot be made.
        Err(fault) if fault.is_unwritable() && !file::has_log(path) => {
            open_for_reading(path, Mode::ReadImmutable, file).await.map_err(|_| fault)
        }
        read => read,
    }
}

async fn open_for_reading(path: &Path, mode: Mode, file: FileId) -> Result<ReaderState, Fault> {
    let mut connection = connect(path, mode).await?;
    let is_reusable = mode != Mode::ReadImmutable;
    match schema(&mut connection).await? {
        Schema::Latest => Ok(ReaderState::Ready(OpenConnection { connection, file, is_reusable })),
        Schema::Outdated => Ok(ReaderState::NeedsMigration),
        Schema::Empty => Ok(ReaderState::Missing),
    }
}

/// Opens the database for writing, and makes or migrates it. The lock file must be held alone.
pub(super) async fn writer(path: &Path) -> Result<OpenConnection, Fault> {
    file::finish_set_aside(path)?;
    let existed = file::file_id(path)?.is_some();
    let mut connection = connect(path, Mode::Write).await?;
    if !existed {
        // By path: closing a descriptor of the database would drop SQLite's own locks in this process.
        restrict_to_owner(path)?;
    }
    let Some(file) = file::file_id(path)? else {
        return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
    };
    prepare(&mut connection).await?;
    skip_numbers(&mut connection, file::last_set_aside(path)?).await?;
    Ok(OpenConnection { connection, file, is_reusable: true })
}

/// Brings an open database up to date.
async fn prepare(connection: &mut SqliteConnection) -> Result<(), Fault> {
    // Looked at first, so that a later schema stays untouched.
    let found = schema(connection).await?;
    switch_to_write_ahead(connection).await?;
    if found != Schema::Latest {
        migrate(connection).await?;
    }
    Ok(())
}

/// Makes the latest schema out of an earlier one or none.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), Fault> {
    MIGRATIONS.run_direct(None, &mut *connection, false).await.map_err(migration_fault)?;
    if schema(connection).await? != Schema::Latest {
        return Err(Fault::Damaged("the schema is incomplete after migrating".to_owned()));
    }
    Ok(())
}

/// Begins the numbers of changes and proposals above those that databases gave which were set aside. Done at each
/// opening, so that a process that died in between need not have done it.
async fn skip_numbers(connection: &mut SqliteConnection, set_aside: u32) -> Result<(), Fault> {
    if set_aside == 0 {
        return Ok(());
    }
    Batch::new(
        "BEGIN IMMEDIATE;
        UPDATE totals SET last_change = $1 WHERE last_change < $1;
        UPDATE sqlite_sequence SET seq = $1 WHERE name = 'proposals' AND seq < $1;
        INSERT INTO sqlite_sequence (name, seq) SELECT 'proposals', $1
            WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'proposals');
        COMMIT;",
    )
    .bind(NUMBERS_PER_DATABASE * i64::from(set_aside))
    .run(connection, StatementReuse::OneShot)
    .await?;
    Ok(())
}

fn migration_fault(error: MigrateError) -> Fault {
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            Fault::Sql(error)
        }
        other => Fault::Damaged(other.to_string()),
    }
}

async fn switch_to_write_ahead(connection: &mut SqliteConnection) -> Result<(), Fault> {
    let mut waited = Duration::ZERO;
    loop {
        let switched = sqlx::query("PRAGMA journal_mode = WAL").execute(&mut *connection).await;
        let Err(error) = switched.map_err(Fault::Sql) else { return Ok(()) };
        if !error.is_busy() || waited >= LOCK_WAIT {
            return Err(error);
        }
        tokio::time::sleep(SWITCH_POLL).await;
        waited += SWITCH_POLL;
    }
}

/// Says what the database holds; refuses one that a later program wrote, or that is something else.
pub(super) async fn schema(connection: &mut SqliteConnection) -> Result<Schema, Fault> {
    let (all, ours, migrations): (i64, i64, bool) = sqlx::query_as(
        "SELECT count(*),
            coalesce(sum(name IN ('changes', 'change_files', 'contents', 'conversations', 'dreams', 'heads',
                'influenced', 'marks', 'model_work', 'open_changes', 'proposals', 'runs', 'segments', 'sessions', 'tasks', 'totals')), 0),
            coalesce(sum(name = '_sqlx_migrations'), 0) > 0
        FROM sqlite_schema WHERE type = 'table'",
    )
    .fetch_one(&mut *connection)
    .await?;
    if !migrations {
        return match all {
            0 => Ok(Schema::Empty),
            _ => Err(Fault::Damaged("the file is a database of something else".to_owned())),
        };
    }
    let found: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max();
    let known = known.expect("there are migrations");
    match found {
        Some(found) if found > known => Err(Fault::Newer { found, known }),
        Some(found) if found == known && ours == TABLES => {
            read_roots(connection).await?;
            Ok(Schema::Latest)
        }
        Some(found) if found == known => {
            Err(Fault::Damaged(format!("{ours} of {TABLES} tables are there")))
        }
        Some(_) => Ok(Schema::Outdated),
        None => Ok(Schema::Empty),
    }
}

/// Touches the root page of every table, so that damage there is found at the start.
async fn read_roots(connection: &mut SqliteConnection) -> Result<(), Fault> {
    let sums: Option<i64> = sqlx::query_scalar(
        "SELECT totals.changes
            + (SELECT coalesce(max(id), 0) FROM changes) + (SELECT coalesce(max(id), 0) FROM contents)
            + (SELECT count(*) FROM (SELECT 1 FROM change_files LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM heads LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM influenced LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM marks LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM model_work LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM open_changes LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM tasks LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM runs LIMIT 1))
            + (SELECT count(*) FROM (SELECT 1 FROM proposals LIMIT 1))
        FROM totals WHERE id = 1",
    )
    .fetch_optional(connection)
    .await?;
    sums.map(|_| ()).ok_or_else(|| Fault::Damaged("the totals are missing".to_owned()))
}

/// Closes a connection; one that cannot be closed well is closed by being dropped.
pub(super) async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "closing the state's database");
    }
}
