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

async fn is_up_to_date(connection: &mut PgConnection) -> Result<bool, CallError> {
    let version = sqlx::query("SELECT version FROM schema_version WHERE id = 1");
    let version = single(&rows(connection, version).await?, |row| row.get::<i64>("version"))?;
    Ok(usize::try_from(version) == Ok(STEPS.len()))
}

async fn create(connection: &mut PgConnection) -> Result<(), CallError> {
    let exists = sqlx::query("SELECT to_regclass('schema_version') IS NOT NULL AS found");
    if single(&rows(connection, exists).await?, |row| row.flag("found"))? {
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
    let known = i64::try_from(STEPS.len()).expect("steps are few");
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
