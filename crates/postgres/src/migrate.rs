//! Opens a database and brings its tables up to date.
//!
//! Any daemon may do so. The row of `schema_version` is locked meanwhile, so that one of them does it and the others
//! wait. All steps are one transaction: a daemon that ends in the middle leaves the tables as they were. The migrations
//! of `sqlx` are not used, because they rely on advisory locks.

use std::time::Duration;

use sqlx::PgConnection;
use state::Fault;
use state::rows::single;

use crate::call_error::CallError;
use crate::database::{Database, DatabaseSettings, Durability, OpenError, call};
use crate::row::{rows, run};

/// The steps, in order; a schema is the number of those that were taken. The text of a published one never changes.
const STEPS: &[&str] = &[
    include_str!("../migrations/0001_state.sql"),
    include_str!("../migrations/0002_roots.sql"),
    include_str!("../migrations/0003_tokens.sql"),
    include_str!("../migrations/0004_events.sql"),
    include_str!("../migrations/0005_outside_readers.sql"),
];

const OPERATION: &str = "open the database";

/// Longest duration of all steps.
const MIGRATION_WAIT: Duration = Duration::from_hours(1);

/// Lifts the limits of the server for this transaction.
const NO_LIMITS: &str = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0";

/// Creates the table that holds the number of the schema.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_version (id bigint PRIMARY KEY CHECK (id = 1), version bigint NOT NULL)";

impl Database {
    /// Opens the database at an address such as `postgres://user:password@host:5432/name?sslmode=verify-full`, and
    /// brings its tables up to date. Several daemons may do so at the same time.
    pub async fn open(address: &str, settings: DatabaseSettings) -> Result<Self, OpenError> {
        let database = Self::new(address, settings.clone())?;
        // Alone, because two daemons that create it at the same moment conflict, and one of them repeats this.
        database.write(Durability::Synced, OPERATION, call!(create)).await?;
        if database.read(OPERATION, call!(is_up_to_date)).await? {
            return Ok(database);
        }
        // A step may take far longer than a call, also for the daemons that wait for it.
        let patient =
            DatabaseSettings { call_wait: MIGRATION_WAIT, connections_max: 1, ..settings };
        let migrating = Self::new(address, patient)?;
        let migrated = migrating.write(Durability::Synced, OPERATION, call!(take_steps)).await;
        migrating.close().await;
        migrated?;
        Ok(database)
    }
}

impl Database {
    /// Opens the database at an address, and changes nothing in it. Refuses tables of another version.
    pub async fn open_unchanged(
        address: &str,
        settings: DatabaseSettings,
    ) -> Result<Self, OpenError> {
        let database = Self::new(address, settings)?;
        if database.read(OPERATION, call!(has_tables)).await?
            && database.read(OPERATION, call!(is_up_to_date)).await?
        {
            return Ok(database);
        }
        Err(OpenError::Outdated)
    }
}

async fn has_tables(connection: &mut PgConnection) -> Result<bool, CallError> {
    let exists = sqlx::query("SELECT to_regclass('schema_version') IS NOT NULL AS found");
    Ok(single(&rows(connection, exists).await?, |row| row.flag("found"))?)
}

/// Checks whether the tables have the version of this program. Refuses a database of a later version.
async fn is_up_to_date(connection: &mut PgConnection) -> Result<bool, CallError> {
    let version = sqlx::query("SELECT version FROM schema_version WHERE id = 1");
    let found = single(&rows(connection, version).await?, |row| row.get::<i64>("version"))?;
    let known = known_version();
    if found > known {
        return Err(Fault::Newer { found, known }.into());
    }
    Ok(found == known)
}

fn known_version() -> i64 {
    i64::try_from(STEPS.len()).expect("steps are few")
}

async fn create(connection: &mut PgConnection) -> Result<(), CallError> {
    if has_tables(connection).await? {
        return Ok(());
    }
    let created = run(connection, sqlx::query(CREATE)).await;
    created.map_err(|error| {
        match error.as_database_error().and_then(sqlx::error::DatabaseError::code) {
            // Another daemon created the table or its type in between: unique_violation, duplicate_table.
            Some(code) if ["23505", "42P07", "42710"].contains(&&*code) => {
                CallError::Conflict(error)
            }
            _ => error.into(),
        }
    })?;
    let add = "INSERT INTO schema_version (id, version) VALUES (1, 0) ON CONFLICT DO NOTHING";
    run(connection, sqlx::query(add)).await?;
    Ok(())
}

/// Takes the steps that are missing. Refuses a database of a later version.
async fn take_steps(connection: &mut PgConnection) -> Result<(), CallError> {
    sqlx::raw_sql(NO_LIMITS).execute(&mut *connection).await?;
    let version = "SELECT version FROM schema_version WHERE id = 1 FOR UPDATE";
    let found = rows(connection, sqlx::query(version)).await?;
    let found = single(&found, |row| row.get::<i64>("version"))?;
    let known = known_version();
    if found > known {
        return Err(Fault::Newer { found, known }.into());
    }
    for (number, step) in (1..).zip(STEPS).filter(|(number, _)| *number > found) {
        sqlx::raw_sql(*step).execute(&mut *connection).await?;
        let set = sqlx::query("UPDATE schema_version SET version = $1 WHERE id = 1");
        run(connection, set.bind(number)).await?;
        tracing::info!(schema = number, "the tables of the database were brought up to date");
    }
    Ok(())
}
