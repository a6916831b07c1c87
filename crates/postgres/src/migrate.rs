//! Opens a database and brings its tables up to date.
//!
//! Any daemon may do so. The row of `schema_version` is locked meanwhile, so that one of them does it and the others
//! wait. All steps are one transaction: a daemon that ends in the middle leaves the tables as they were. The migrations
//! of `sqlx` are not used, because they rely on advisory locks.

use sqlx::PgConnection;
use state::rows::single;
use state::{Fault, FaultClass, StateError};

use crate::call_error::CallError;
use crate::database::{Database, DatabaseSettings, Durability, call};
use crate::row::{rows, run};

/// The steps, in order; a schema is the number of those that were taken. The text of a published one never changes.
const STEPS: &[&str] =
    &[include_str!("../migrations/0001_state.sql"), include_str!("../migrations/0002_roots.sql")];

/// Creates the table that holds the number of the schema.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS schema_version (id bigint PRIMARY KEY CHECK (id = 1), version bigint NOT NULL)";

impl Database {
    /// Opens the database at an address such as `postgres://user:password@host:5432/name?sslmode=verify-full`, and
    /// brings its tables up to date. Several daemons may do so at the same time.
    pub async fn open(address: &str, settings: DatabaseSettings) -> Result<Self, StateError> {
        let database = Self::new(address, settings).map_err(|error| {
            let source = Box::new(error);
            let fault = Fault::Database { class: FaultClass::Unavailable, source };
            StateError::new("open the database", "postgres://", fault)
        })?;
        migrate(&database).await?;
        Ok(database)
    }
}

/// Brings the tables of a database up to date. Refuses a database of a later version.
async fn migrate(database: &Database) -> Result<(), StateError> {
    const OPERATION: &str = "open the database";
    // Alone, because two daemons that create it at the same moment conflict, and one of them repeats this.
    database.write(Durability::Synced, OPERATION, call!(create)).await?;
    database.write(Durability::Synced, OPERATION, call!(take_steps)).await
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

async fn take_steps(connection: &mut PgConnection) -> Result<(), CallError> {
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
