//! Opening the database: creating it, switching it to write-ahead mode, migrating it, and detecting a file that is not
//! one.
//!
//! A process that may change the schema holds the lock file exclusively, so that any number of processes may start at
//! the same time.

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

/// The migrations. The text of a published one never changes: databases store its hash.
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
        step(10, "database id", include_str!("../../migrations/0010_database_id.sql")),
    ])
});

/// Number of tables of the latest schema; a missing one is damage.
const TABLES: i64 = 16;

/// Assumed upper bound of the changes that a set-aside database recorded: many times a busy host's.
const NUMBERS_PER_DATABASE: i64 = 1_000_000;

/// Prepared statements kept for each connection; each takes some kilobytes.
const STATEMENTS_KEPT: usize = 24;

/// Rows that SQLite's thread reads ahead, so that it does not wake the receiver for every few.
const ROWS_BUFFERED: usize = 1024;

/// Poll interval while the switch to write-ahead mode waits for readers; SQLite does not wait there by itself.
const SWITCH_POLL: Duration = Duration::from_millis(10);

/// An open connection and the file that it belongs to.
#[derive(Debug)]
pub(super) struct OpenConnection {
    /// The connection.
    pub(super) connection: SqliteConnection,
    /// The file that was at the path when the connection was opened.
    pub(super) file: FileId,
    /// Whether the connection may be pooled. Not if it takes no locks.
    pub(super) is_reusable: bool,
}

/// The state of a database's schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Schema {
    /// No tables yet.
    Empty,
    /// An earlier schema, which a migration brings up to date.
    Outdated,
    /// The latest.
    Latest,
}

/// The access mode of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Read a database that exists.
    Read,
    /// Read without locks, in a folder where no file can be created. Valid only if there is no log.
    ReadImmutable,
    /// Read and write; creates the database if needed.
    Write,
}

/// Opens a connection without reading the schema.
pub(super) async fn connect(path: &Path, mode: Mode) -> Result<SqliteConnection, Fault> {
    file::refuse_stub(path)?;
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(mode == Mode::Write)
        .busy_timeout(LOCK_WAIT)
        .foreign_keys(false);
    // The busy timeout and the synchronous level come first: most settings read the schema, which may be damaged.
    let options = match mode {
        Mode::Read | Mode::Write => options.synchronous(SqliteSynchronous::Full),
        Mode::ReadImmutable => options.read_only(true).immutable(true),
    };
    let options = options
        .pragma("temp_store", "memory")
        // A megabyte holds the upper pages of every index; the operating system caches the rest.
        .pragma("cache_size", "-1024")
        // Copying the log back costs more than a write, so it is done for many writes at once.
        .pragma("wal_autocheckpoint", "4096")
        .statement_cache_capacity(STATEMENTS_KEPT)
        .row_buffer_size(ROWS_BUFFERED)
        .disable_statement_logging();
    let options = match mode {
        Mode::Write => {
            // Shrinks the log again after a large import.
            let options = options.pragma("journal_size_limit", "8388608");
            // Overwrites deleted rows, so that dropped texts do not remain in the file.
            let options = options.pragma("secure_delete", "fast");
            // Only for a new database: in an existing one even this setting would be a write.
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

/// The result of opening a reader.
#[derive(Debug)]
pub(super) enum ReaderState {
    /// No database, or an empty one.
    Missing,
    /// An earlier schema; a writer must migrate it first.
    NeedsMigration,
    /// A connection that is ready to read.
    Ready(OpenConnection),
}

/// Opens the database for reading.
pub(super) async fn reader(path: &Path) -> Result<ReaderState, Fault> {
    let Some(file) = file::file_id(path)? else { return Ok(ReaderState::Missing) };
    match open_for_reading(path, Mode::Read, file).await {
        // A write-ahead database needs a lock file beside it. Where that cannot be created, it is read without locks.
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

/// Opens the database for writing, and creates or migrates it. The caller must hold the lock file exclusively.
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

/// Switches an open database to write-ahead mode and migrates it.
async fn prepare(connection: &mut SqliteConnection) -> Result<(), Fault> {
    // Checked first, so that a later schema stays unchanged.
    let found = schema(connection).await?;
    switch_to_write_ahead(connection).await?;
    if found != Schema::Latest {
        migrate(connection).await?;
    }
    Ok(())
}

/// Migrates to the latest schema.
pub(super) async fn migrate(connection: &mut SqliteConnection) -> Result<(), Fault> {
    MIGRATIONS.run_direct(None, &mut *connection, false).await.map_err(migration_fault)?;
    if schema(connection).await? != Schema::Latest {
        return Err(Fault::Damaged("the schema is incomplete after migrating".to_owned()));
    }
    Ok(())
}

/// Raises the numbers of changes and proposals above those that set-aside databases issued. Done at each opening,
/// because a process may have died between setting aside and this step.
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

/// Returns the state of the schema. Fails if a later version wrote it or if it is not a state database.
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
            _ => Err(Fault::Damaged("the file is a database of another program".to_owned())),
        };
    }
    let version: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await?;
    let known = MIGRATIONS.iter().map(|migration| migration.version).max();
    let known = known.expect("there are migrations");
    match version {
        Some(version) if version > known => Err(Fault::Newer { found: version, known }),
        Some(version) if version == known && ours == TABLES => {
            read_roots(connection).await?;
            Ok(Schema::Latest)
        }
        Some(version) if version == known => {
            Err(Fault::Damaged(format!("{ours} of {TABLES} tables exist")))
        }
        Some(_) => Ok(Schema::Outdated),
        None => Ok(Schema::Empty),
    }
}

/// Reads the root page of every table, so that damage there is found when opening.
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

/// Closes a connection. If closing fails, dropping it closes it.
pub(super) async fn close(connection: SqliteConnection) {
    if let Err(error) = connection.close().await {
        tracing::debug!(%error, "cannot close the state database cleanly");
    }
}
