//! The pool of connections, and calls as transactions that are repeated when they were in another one's way.

use std::io::ErrorKind;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::types::PgInterval;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _, Postgres, Transaction};
use state::{Fault, StateError};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::call_error::{CallError, is_unreachable};
use crate::notices::Notices;

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
/// whose machine sleeps, loses its locks before others give up waiting for them.
const SESSION: &str = "SET lock_timeout = '10s'; SET statement_timeout = '30s';
    SET idle_in_transaction_session_timeout = '5s'";

/// The setting of connections whose commits wait for the disk, unless a role or database is set to wait for more.
const SYNCED: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') IN ('off', 'local')";
/// The setting of connections whose commits do not.
const UNSYNCED: &str = "SET synchronous_commit = off";
/// Longest test of a connection that is given back. Without a limit, a network that lost its far side would keep the
/// places of its connections for as long as the system tries to send.
const RELEASE_TEST_WAIT: Duration = Duration::from_secs(2);

/// The settings of a [`Database`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// A name of this daemon for people, who see it as the holder of locks.
    pub daemon: String,
    /// Most connections of each of the two kinds at a time, those that write durably and the others; further calls wait.
    /// One of the others receives notices.
    pub connections_max: u32,
    /// Longest duration of a call. A connection may be silent forever after a network failed.
    pub call_wait: Duration,
    /// Time after which another daemon may take a lock whose holder does not renew it.
    pub lease: Duration,
    /// The limits of each owner.
    pub owner_limits: OwnerLimits,
}

/// The most that one owner may have; `None` for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Bytes of memories, without history. Daemons look at the size every few seconds, so it may be exceeded by what is
    /// written meanwhile.
    pub memory_bytes: Option<u64>,
    /// Tasks that wait or run, in all workspaces.
    pub unfinished_tasks: Option<u64>,
}

impl Default for DatabaseSettings {
    fn default() -> Self {
        Self {
            daemon: "a daemon".to_owned(),
            connections_max: 16,
            call_wait: Duration::from_secs(12),
            // Below the time that a writer waits for a lock, so that it outlasts a daemon that died.
            lease: Duration::from_secs(6),
            owner_limits: OwnerLimits::default(),
        }
    }
}

/// An address that is none of a PostgreSQL database. The text repeats nothing of it, since it may have a password.
#[derive(Debug, thiserror::Error)]
#[error("{0}; an address has the form `postgres://user:password@host:5432/name`")]
pub struct InvalidAddress(&'static str);

/// A failure to open a database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] InvalidAddress),
    /// The database cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The tables are of an earlier version, or there are none.
    #[error("the database has no tables of this version yet; `lukasa serve --database` makes them")]
    Outdated,
}

/// A database that several daemons share. Clones share the connections.
#[derive(Clone, Debug)]
pub struct Database(Arc<Pools>);

#[derive(Debug)]
struct Pools {
    /// Connections whose commits wait for the disk.
    synced: PgPool,
    /// Connections whose commits do not, and that read.
    unsynced: PgPool,
    notices: Notices,
    /// Number of connections that were opened. Each may be the first one after a crash of the server, which may have lost
    /// commits that did not wait for the disk.
    connections: Arc<AtomicU64>,
    /// The address without user and password.
    name: String,
    settings: DatabaseSettings,
}

/// The durability of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// On the disk of the server, and of its synchronous standbys, when the call returns.
    Synced,
    /// Survives the end of this process. Durable when a later synced transaction is.
    Unsynced,
}

/// Work without a transaction: it gets a connection, and returns it with the result. It may run several times.
pub(crate) trait StatementWork<T>:
    Fn(PoolConnection<Postgres>) -> Self::Running + Send + Sync
{
    /// The running work.
    type Running: Future<Output = (PoolConnection<Postgres>, Result<T, CallError>)> + Send;
}

impl<T, Work, Running> StatementWork<T> for Work
where
    Work: Fn(PoolConnection<Postgres>) -> Running + Send + Sync,
    Running: Future<Output = (PoolConnection<Postgres>, Result<T, CallError>)> + Send,
{
    type Running = Running;
}

/// Makes the `work` that [`Database`] runs from a function and its arguments. The work passes the connection or transaction
/// to the function. A macro, because the future of a closure that borrows its argument cannot be required to be `Send`.
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
    /// Returns the database at an address without connecting to it.
    pub(crate) fn new(address: &str, settings: DatabaseSettings) -> Result<Self, InvalidAddress> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|s| address.strip_prefix(s));
        let Some(rest) = rest else {
            return Err(InvalidAddress("the address does not begin with `postgres://`"));
        };
        // A part of such a password would be taken for the host, and shown.
        if rest.split('?').next().is_some_and(|rest| rest.matches('@').count() > 1) {
            return Err(InvalidAddress(
                "the address has two `@`: write `%40` for one in a password",
            ));
        }
        let options = PgConnectOptions::from_str(address);
        let options = options.map_err(|_| {
            InvalidAddress(
                "the address cannot be read: write `%2F`, `%3A`, `%3F` and `%23` for `/`, `:`, `?` and `#` in a password",
            )
        })?;
        let name = options.get_database().unwrap_or(options.get_username());
        let name = format!("postgres://{}:{}/{name}", options.get_host(), options.get_port());
        let options = options
            .application_name(APPLICATION)
            .statement_cache_capacity(STATEMENTS_PREPARED_MAX)
            .disable_statement_logging();
        let connections = Arc::new(AtomicU64::new(0));
        let pool = |durability| {
            pool(options.clone(), settings.connections_max, durability, Arc::clone(&connections))
        };
        Ok(Self(Arc::new(Pools {
            synced: pool(Durability::Synced),
            unsynced: pool(Durability::Unsynced),
            notices: Notices::default(),
            connections,
            name,
            settings,
        })))
    }

    /// Returns the address without user and password.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Closes all connections. Calls in progress end first; later ones fail.
    pub async fn close(&self) {
        self.0.notices.close();
        self.0.synced.close().await;
        self.0.unsynced.close().await;
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
        let work = &work;
        let transact = || async move {
            let started = self.pool(durability).begin().await.map_err(CallError::NotBegun)?;
            let (transaction, result) = work(started).await;
            match &result {
                Ok(_) => transaction.commit().await?,
                // A connection that cannot roll back is closed, which has the same effect.
                Err(_) => drop(transaction.rollback().await),
            }
            result
        };
        self.repeat(operation, transact).await
    }

    /// Runs `work`, which only reads, without a transaction: each of its statements sees the rows of its own time. A lost
    /// connection is replaced by another one.
    pub(crate) async fn read<T: Send>(
        &self,
        operation: &'static str,
        work: impl StatementWork<T>,
    ) -> Result<T, StateError> {
        self.write_idempotent(operation, work).await
    }

    /// Runs `work`, which is one statement that writes, and whose commit does not wait for the disk. It has the same
    /// effect if it is run again, so a lost connection is replaced by another one.
    pub(crate) async fn write_idempotent<T: Send>(
        &self,
        operation: &'static str,
        work: impl StatementWork<T>,
    ) -> Result<T, StateError> {
        let work = &work;
        let attempt = || async move {
            self.run_statement(Durability::Unsynced, work).await.map_err(|error| match error {
                CallError::Sql(error) if is_unreachable(&error) => CallError::NotBegun(error),
                error => error,
            })
        };
        self.repeat(operation, attempt).await
    }

    /// Runs `work`, which is one statement that writes.
    pub(crate) async fn write_one<T: Send>(
        &self,
        durability: Durability,
        operation: &'static str,
        work: impl StatementWork<T>,
    ) -> Result<T, StateError> {
        self.repeat(operation, || self.run_statement(durability, &work)).await
    }

    async fn run_statement<T: Send>(
        &self,
        durability: Durability,
        work: &impl StatementWork<T>,
    ) -> Result<T, CallError> {
        let connection = self.pool(durability).acquire().await.map_err(CallError::NotBegun)?;
        let (mut connection, result) = work(connection).await;
        if let Err(CallError::Sql(error)) = &result
            && is_unreachable(error)
        {
            connection.close_on_drop();
        }
        result
    }

    /// Makes attempts at a call until one succeeds, or fails in a way that another one would not mend.
    async fn repeat<T: Send, Attempt>(
        &self,
        operation: &'static str,
        attempt: impl Fn() -> Attempt + Send + Sync,
    ) -> Result<T, StateError>
    where
        Attempt: Future<Output = Result<T, CallError>> + Send,
    {
        let connections_max = self.0.settings.connections_max;
        let mut repetition = Repetition { connections_max, conflicts: 0, begins: 0 };
        loop {
            let Ok(result) = timeout(self.0.settings.call_wait, attempt()).await else {
                return Err(self.error(operation, silent()));
            };
            match result {
                Ok(value) => return Ok(value),
                Err(error) if repetition.may_repeat(&error) => repetition.wait().await,
                Err(error) => return Err(self.error(operation, error)),
            }
        }
    }

    /// Begins a transaction that reads the rows of one moment.
    pub(crate) async fn begin_reading(
        &self,
    ) -> Result<Transaction<'static, Postgres>, sqlx::Error> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.pool(Durability::Unsynced).begin_with(BEGIN).await
    }

    fn pool(&self, durability: Durability) -> &PgPool {
        match durability {
            Durability::Synced => &self.0.synced,
            Durability::Unsynced => &self.0.unsynced,
        }
    }

    /// Returns a receiver that is notified after changes of a root, by any daemon.
    pub(crate) fn notices(&self, owner: i64, place: &str) -> watch::Receiver<u64> {
        self.0.notices.subscribe(&self.0.unsynced, owner, place)
    }

    /// Notifies other daemons, soon, of a change of a root that is committed.
    pub(crate) fn notify(&self, owner: i64, place: &str) {
        self.0.notices.send(&self.0.unsynced, owner, place);
    }

    /// Returns a number that changes when commits that did not wait for the disk may have been lost.
    pub(crate) fn incarnation(&self) -> u64 {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Returns a name for the holder of a lock, which no other holder has.
    pub(crate) fn holder_name(&self) -> String {
        format!("{} ({:016x})", self.0.settings.daemon, random_number())
    }

    pub(crate) fn owner_limits(&self) -> OwnerLimits {
        self.0.settings.owner_limits
    }

    pub(crate) fn lease(&self) -> Duration {
        self.0.settings.lease
    }

    pub(crate) fn error(&self, operation: &'static str, error: impl Into<Fault>) -> StateError {
        StateError::new(operation, self.name(), error.into())
    }
}

/// Returns a pool that has no connections yet.
fn pool(
    options: PgConnectOptions,
    connections_max: u32,
    durability: Durability,
    connections: Arc<AtomicU64>,
) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections_max)
        .acquire_timeout(CONNECTION_WAIT)
        .test_before_acquire(false)
        .before_acquire(|connection, about| {
            Box::pin(async move {
                // Testing costs a round trip, so a connection in steady use is not tested.
                Ok(about.idle_for < UNTESTED_IDLE_MAX || connection.ping().await.is_ok())
            })
        })
        .after_connect(move |connection, _| {
            connections.fetch_add(1, Ordering::Relaxed);
            Box::pin(async move {
                sqlx::raw_sql(SESSION).execute(&mut *connection).await?;
                let setting = match durability {
                    Durability::Synced => SYNCED,
                    Durability::Unsynced => UNSYNCED,
                };
                sqlx::raw_sql(setting).execute(&mut *connection).await?;
                Ok(())
            })
        })
        .after_release(|connection, _| {
            Box::pin(async move {
                let test = timeout(RELEASE_TEST_WAIT, connection.ping()).await;
                test.unwrap_or_else(|_| Err(std::io::Error::from(ErrorKind::TimedOut).into()))?;
                Ok(true)
            })
        })
        .connect_lazy_with(options)
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
    CallError::Sql(sqlx::Error::Io(ErrorKind::TimedOut.into()))
}

/// Returns a duration as the server adds it to a time.
pub(crate) fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}

pub(crate) fn random_number() -> i64 {
    getrandom::u64().expect("the operating system has random numbers").cast_signed()
}
