//! The pool of connections, and calls as transactions that are repeated when they were in another one's way.

use std::future::Future;
use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, Postgres, Transaction};
use state::rows::{Columns, single};
use state::{Fault, FaultClass, StateError};
use tokio::time::timeout;

use crate::call_error::{CallError, is_unreachable};
use crate::migrate;
use crate::owner::OwnerState;
use crate::row::{rows, run, storable};

/// Name of the connections in the server's list of activities.
const APPLICATION: &str = "lukasa";
/// Longest wait for a connection, also while the server refuses them.
const CONNECTION_WAIT: Duration = Duration::from_secs(2);
/// Idle time after which a connection is tested before it is used.
const UNTESTED_IDLE_MAX: Duration = Duration::from_secs(1);
/// Prepared statements kept for each connection: all of this crate.
const STATEMENTS_PREPARED_MAX: usize = 200;
/// Most attempts at a call that is in the way of others.
const CONFLICTS_MAX: u32 = 30;
/// Longest wait before a call is repeated.
const REPEAT_WAIT_MAX: Duration = Duration::from_millis(100);

/// The limits of a server that every connection sets. A daemon that stops in the middle of a transaction, such as one
/// whose machine sleeps, loses its locks.
const SESSION: &str = "SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '15s'";

const BEGIN: &str = "BEGIN";
/// Begins a transaction whose commit does not wait for the disk.
const BEGIN_UNSYNCED: &str = "BEGIN; SET LOCAL synchronous_commit = off";

/// The settings of a [`Database`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// Most connections at a time; further calls wait.
    pub connections_max: u32,
    /// Longest duration of a call. A connection may be silent forever after a network failed.
    pub call_wait: Duration,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self { connections_max: 16, call_wait: Duration::from_secs(30) }
    }
}

/// An address that is none of a PostgreSQL database.
#[derive(Debug, thiserror::Error)]
#[error(
    "the address of the database is invalid: {0}; it has the form `postgres://user@host:5432/name`"
)]
pub struct InvalidAddress(String);

/// A database that several daemons share. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Database(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pool: PgPool,
    /// The address without user and password.
    name: String,
    call_wait: Duration,
}

/// The durability of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// On the disk of the server, and of its synchronous standbys, when the call returns.
    Synced,
    /// Survives the end of this process. Durable when a later synced transaction is.
    Unsynced,
}

/// Makes the `work` that [`Database::write`] and [`Database::read`] run from a function and its arguments. The work
/// passes the connection to the function and returns it with the result. A macro, because the future of a closure that
/// borrows its argument cannot be required to be `Send`.
macro_rules! call {
    ($function:path $(, $argument:expr)* $(,)?) => {
        move |mut connection| async move {
            let result = $function(&mut connection $(, $argument)*).await;
            (connection, result)
        }
    };
}
pub(crate) use call;

impl Database {
    /// Opens the database at an address such as `postgres://user:password@host:5432/name?sslmode=verify-full`, and
    /// brings its tables up to date. Several daemons may do so at the same time.
    pub async fn open(address: &str, settings: DatabaseSettings) -> Result<Self, StateError> {
        let database = Self::new(address, settings).map_err(|error| {
            let source = Box::new(error);
            let fault = Fault::Database { class: FaultClass::Unavailable, source };
            StateError::new("open the database", "postgres://", fault)
        })?;
        migrate::migrate(&database).await?;
        Ok(database)
    }

    /// Returns the database at an address without connecting to it.
    fn new(address: &str, settings: DatabaseSettings) -> Result<Self, InvalidAddress> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme)) {
            return Err(InvalidAddress("it begins with another scheme".to_owned()));
        }
        let options = PgConnectOptions::from_str(address);
        let options = options.map_err(|error| InvalidAddress(error.to_string()))?;
        let name = options.get_database().unwrap_or(options.get_username());
        let name = format!("postgres://{}:{}/{name}", options.get_host(), options.get_port());
        let options = options
            .application_name(APPLICATION)
            .statement_cache_capacity(STATEMENTS_PREPARED_MAX)
            .disable_statement_logging();
        let pool = PgPoolOptions::new()
            .max_connections(settings.connections_max)
            .acquire_timeout(CONNECTION_WAIT)
            .test_before_acquire(false)
            .before_acquire(|connection, about| {
                Box::pin(async move {
                    // Testing costs a round trip, so a connection in steady use is not tested.
                    Ok(about.idle_for < UNTESTED_IDLE_MAX || connection.ping().await.is_ok())
                })
            })
            .after_connect(|connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql(SESSION).execute(connection).await?;
                    Ok(())
                })
            })
            .connect_lazy_with(options);
        Ok(Self(Arc::new(Shared { pool, name, call_wait: settings.call_wait })))
    }

    /// Returns the address without user and password.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the state of an owner, and registers the owner if the name is new.
    pub async fn owner(&self, name: &str) -> Result<OwnerState, StateError> {
        let (name, new_id) = (&*storable(name), random_number());
        let id = self
            .write(Durability::Synced, "register an owner", call!(find_or_add_owner, name, new_id))
            .await?;
        Ok(OwnerState::new(self.clone(), id))
    }

    /// Closes all connections. Calls in progress end first; later ones fail.
    pub async fn close(&self) {
        self.0.pool.close().await;
    }

    /// Runs `work` in a transaction, and commits it unless it failed.
    pub(crate) async fn write<T, Work, Running>(
        &self,
        durability: Durability,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(Transaction<'static, Postgres>) -> Running + Send + Sync,
        Running: Future<Output = (Transaction<'static, Postgres>, Result<T, CallError>)> + Send,
        T: Send,
    {
        let mut repetition = self.repetition();
        loop {
            let Ok(result) = timeout(self.0.call_wait, self.transact(durability, &work)).await
            else {
                return Err(self.error(operation, silent()));
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) if repetition.may_repeat(&error) => repetition.wait().await,
                Err(error) => return Err(self.error(operation, error)),
            }
        }
    }

    async fn transact<T, Work, Running>(
        &self,
        durability: Durability,
        work: &Work,
    ) -> Result<T, CallError>
    where
        Work: Fn(Transaction<'static, Postgres>) -> Running + Send + Sync,
        Running: Future<Output = (Transaction<'static, Postgres>, Result<T, CallError>)> + Send,
        T: Send,
    {
        let begin = match durability {
            Durability::Synced => BEGIN,
            Durability::Unsynced => BEGIN_UNSYNCED,
        };
        let started = self.0.pool.begin_with(begin).await.map_err(CallError::NotBegun)?;
        let (transaction, result) = work(started).await;
        match result {
            Ok(value) => {
                transaction.commit().await?;
                Ok(value)
            }
            Err(error) => {
                // A connection that cannot roll back is closed, which has the same effect.
                drop(transaction.rollback().await);
                Err(error)
            }
        }
    }

    /// Runs `work`, which is one statement that reads.
    pub(crate) async fn read<T, Work, Running>(
        &self,
        operation: &'static str,
        work: Work,
    ) -> Result<T, StateError>
    where
        Work: Fn(PoolConnection<Postgres>) -> Running + Send + Sync,
        Running: Future<Output = (PoolConnection<Postgres>, Result<T, CallError>)> + Send,
        T: Send,
    {
        let mut repetition = self.repetition();
        loop {
            let reading = async {
                let connection = self.0.pool.acquire().await.map_err(CallError::NotBegun)?;
                let (mut connection, result) = work(connection).await;
                result.map_err(|error| match error {
                    // Nothing was written, so another connection may answer.
                    CallError::Sql(error) if is_unreachable(&error) => {
                        connection.close_on_drop();
                        CallError::NotBegun(error)
                    }
                    error => error,
                })
            };
            let Ok(result) = timeout(self.0.call_wait, reading).await else {
                return Err(self.error(operation, silent()));
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) if repetition.may_repeat(&error) => repetition.wait().await,
                Err(error) => return Err(self.error(operation, error)),
            }
        }
    }

    fn repetition(&self) -> Repetition {
        let connections_max = self.0.pool.options().get_max_connections();
        Repetition { connections_max, conflicts: 0, begins: 0 }
    }

    pub(crate) fn error(&self, operation: &'static str, error: impl Into<Fault>) -> StateError {
        StateError::new(operation, self.name(), error.into())
    }
}

/// The repetitions of a call.
#[derive(Debug)]
struct Repetition {
    connections_max: u32,
    conflicts: u32,
    begins: u32,
}

impl Repetition {
    /// Returns whether a call that failed so did nothing and may be repeated, and counts that.
    fn may_repeat(&mut self, error: &CallError) -> bool {
        let (count, max) = match error {
            CallError::Conflict(_) => (&mut self.conflicts, CONFLICTS_MAX),
            // Each of the connections may have been closed by the server.
            CallError::NotBegun(sqlx::Error::Io(_) | sqlx::Error::Database(_)) => {
                (&mut self.begins, self.connections_max)
            }
            CallError::NotBegun(_) | CallError::Sql(_) | CallError::Fault(_) => return false,
        };
        *count += 1;
        *count <= max
    }

    /// Waits before the next repetition, for a random time that grows.
    async fn wait(&self) {
        let longest = Duration::from_millis(1 << (self.conflicts + self.begins).min(7));
        let share = u32::try_from(random_number().rem_euclid(1_000)).unwrap_or(0);
        tokio::time::sleep(longest.min(REPEAT_WAIT_MAX) * share / 1_000).await;
    }
}

/// Returns the failure of a call that got no answer.
fn silent() -> CallError {
    CallError::Sql(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))
}

fn random_number() -> i64 {
    getrandom::u64().expect("the operating system has random numbers").cast_signed()
}

/// Returns the number of an owner, after adding it if the name is new.
async fn find_or_add_owner(
    connection: &mut PgConnection,
    name: &str,
    new_id: i64,
) -> Result<i64, CallError> {
    const FIND: &str = "SELECT id FROM owners WHERE name = $1";
    let found = rows(connection, sqlx::query(FIND).bind(name)).await?;
    if let Some(row) = found.first() {
        return Ok(Columns(row).get("id")?);
    }
    let add = sqlx::query(
        "WITH added AS (
            INSERT INTO owners (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id)
        INSERT INTO counters (owner) SELECT id FROM added",
    );
    run(connection, add.bind(new_id).bind(name)).await?;
    let found = rows(connection, sqlx::query(FIND).bind(name)).await?;
    Ok(single(&found, |row| row.get("id"))?)
}
