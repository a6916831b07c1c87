//! Locks as rows: taken, renewed and given back, with a fence that rises each time.
//!
//! A daemon that dies, or cannot reach the server, loses its locks after their time limit, which the server's clock
//! measures. What it writes later is refused, because it names a fence that is no longer the current one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::{AssertSqlSafe, PgConnection};
use state::rows::Columns;
use state::{HeldLock, StateError};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::call_error::CallError;
use crate::database::{Database, call, interval};
use crate::row::{rows, run};

/// The time between the first two attempts to take a lock. Later ones are farther apart.
const LOCK_POLL_MIN: Duration = Duration::from_millis(2);

/// The condition that this holder has lock `name` of owner `$1`; the row stays locked until the end of the transaction.
/// `$2` is the name and `$3` the fence; without a fence the condition holds.
pub(crate) const HELD: &str = "held AS (SELECT fence FROM leases
        WHERE owner = $1 AND name = $2 AND fence = $3 AND holder IS NOT NULL FOR UPDATE)";
pub(crate) const IS_HELD: &str = "($3::bigint IS NULL OR EXISTS (SELECT 1 FROM held))";

/// Returns the name of the lock of a root.
pub(crate) fn root_lock_name(place: &str) -> String {
    format!("root {place}")
}

/// A lock of an owner, by its name. Clones share the queue of this process.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    database: Database,
    owner: i64,
    name: String,
    /// Waiters of this process get the lock in their order.
    queue: Arc<tokio::sync::Mutex<()>>,
}

/// A lock that is held. Dropping it gives it back, in the background.
#[derive(Debug)]
pub(crate) struct HeldLease {
    lease: Lease,
    fence: i64,
    /// The end of the time limit, by the clock of this process. It stands still while the machine sleeps, so it is only a
    /// hint: the fence decides.
    valid_until: Arc<Mutex<Instant>>,
    renewal: JoinHandle<()>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl Lease {
    pub(crate) fn new(database: Database, owner: i64, name: String) -> Self {
        Self { database, owner, name, queue: Arc::default() }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Takes the lock. Waits for other holders for at most `wait`, and looks at least each `poll_max` whether the lock is
    /// free; `None` if it is not free by then.
    pub(crate) async fn take(
        &self,
        wait: Duration,
        poll_max: Duration,
    ) -> Result<Option<HeldLease>, StateError> {
        let end = Instant::now() + wait;
        let queue = Arc::clone(&self.queue).lock_owned();
        let Ok(turn) = tokio::time::timeout_at(end, queue).await else { return Ok(None) };
        // The same for all attempts, so that one whose answer was lost is no other holder.
        let holder = self.database.holder_name();
        let mut poll = LOCK_POLL_MIN;
        loop {
            // A task, because a caller that stops waiting must not leave a lock behind that it got just then.
            let attempt = tokio::spawn(self.clone().try_take(holder.clone()));
            let attempt = attempt.await.expect("taking a lock does not panic");
            if let Some(mut held) = attempt? {
                held.turn = Some(turn);
                return Ok(Some(held));
            }
            // Looking costs less than trying: it writes nothing and waits for no row.
            loop {
                let now = Instant::now();
                if now >= end {
                    return Ok(None);
                }
                tokio::time::sleep(poll.min(end - now)).await;
                poll = poll_max.min(poll * 2);
                if self.holder().await?.is_none() {
                    break;
                }
            }
        }
    }

    async fn try_take(self, holder: String) -> Result<Option<HeldLease>, StateError> {
        let (owner, name, limit) = (self.owner, self.name.as_str(), self.database.lease());
        let holder = holder.as_str();
        let begun = Instant::now();
        let fence = self
            .database
            .write_idempotent("take a lock", call!(take, owner, (name, holder, limit)))
            .await?;
        Ok(fence.map(|fence| {
            let valid_until = Arc::new(Mutex::new(begun + limit));
            let renewal = tokio::spawn(renew(self.clone(), fence, Arc::clone(&valid_until)));
            HeldLease { lease: self, fence, valid_until, renewal, turn: None }
        }))
    }

    /// Returns the process that holds the lock, if one does.
    pub(crate) async fn holder(&self) -> Result<Option<String>, StateError> {
        let (owner, name) = (self.owner, self.name.as_str());
        self.database.read("read the holder of a lock", call!(holder, owner, name)).await
    }
}

impl HeldLease {
    pub(crate) const fn fence(&self) -> i64 {
        self.fence
    }
}

impl HeldLock for HeldLease {
    fn is_current(&self) -> bool {
        Instant::now() < *self.valid_until.lock()
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.renewal.abort();
        let (lease, fence, turn) = (self.lease.clone(), self.fence, self.turn.take());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The time limit frees it.
            return;
        };
        // The next waiter of this process goes on once the row is free.
        drop(runtime.spawn(async move {
            let name = lease.name.as_str();
            if let Err(error) = lease
                .database
                .write_idempotent("give a lock back", call!(give_back, lease.owner, (name, fence)))
                .await
            {
                tracing::debug!(%error, "a lock is free only after its time limit");
            }
            drop(turn);
        }));
    }
}

/// Renews a lock three times within its time limit, until it is lost. A renewal that fails or takes long is repeated
/// soon.
async fn renew(lease: Lease, fence: i64, valid_until: Arc<Mutex<Instant>>) {
    let limit = lease.database.lease();
    let mut wait = limit / 3;
    loop {
        tokio::time::sleep(wait).await;
        let begun = Instant::now();
        let name = lease.name.as_str();
        let renewal = lease
            .database
            .write_idempotent("renew a lock", call!(extend, lease.owner, (name, fence, limit)));
        wait = limit / 24;
        match tokio::time::timeout(limit / 6, renewal).await {
            Ok(Ok(true)) => {
                *valid_until.lock() = begun + limit;
                wait = limit / 3;
            }
            Ok(Ok(false)) => {
                *valid_until.lock() = begun;
                tracing::warn!(lock = name, "a lock was lost: it was not renewed in time");
                return;
            }
            Ok(Err(error)) => tracing::warn!(lock = name, %error, "a lock cannot be renewed now"),
            Err(_) => tracing::warn!(lock = name, "the renewal of a lock takes long"),
        }
    }
}

/// Takes a lock that is free, or that this holder has already. Returns its fence: a time in microseconds if the last one
/// is not later. So no fence that a crash of the server lost is given again.
async fn take(
    connection: &mut PgConnection,
    owner: i64,
    (name, holder, limit): (&str, &str, Duration),
) -> Result<Option<i64>, CallError> {
    let take = sqlx::query(
        "INSERT INTO leases (owner, name, fence, holder, until)
        VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $3, clock_timestamp() + $4)
        ON CONFLICT (owner, name) DO UPDATE SET holder = excluded.holder, until = excluded.until,
            fence = CASE WHEN leases.holder = excluded.holder THEN leases.fence
                ELSE greatest(leases.fence + 1, excluded.fence) END
        WHERE leases.holder IS NULL OR leases.holder = excluded.holder OR leases.until < clock_timestamp()
        RETURNING fence",
    );
    let take = take.bind(owner).bind(name).bind(holder).bind(interval(limit));
    let taken = rows(connection, take).await?;
    Ok(taken.first().map(|row| Columns(row).get("fence")).transpose()?)
}

/// Extends the time of a lock. Returns whether it was still held.
async fn extend(
    connection: &mut PgConnection,
    owner: i64,
    (name, fence, limit): (&str, i64, Duration),
) -> Result<bool, CallError> {
    let extend = sqlx::query(
        "UPDATE leases SET until = clock_timestamp() + $4
        WHERE owner = $1 AND name = $2 AND fence = $3 AND holder IS NOT NULL",
    );
    let extend = extend.bind(owner).bind(name).bind(fence).bind(interval(limit));
    Ok(run(connection, extend).await? > 0)
}

async fn give_back(
    connection: &mut PgConnection,
    owner: i64,
    (name, fence): (&str, i64),
) -> Result<(), CallError> {
    let free = sqlx::query(
        "UPDATE leases SET holder = NULL WHERE owner = $1 AND name = $2 AND fence = $3",
    );
    run(connection, free.bind(owner).bind(name).bind(fence)).await?;
    Ok(())
}

async fn holder(
    connection: &mut PgConnection,
    owner: i64,
    name: &str,
) -> Result<Option<String>, CallError> {
    let find = sqlx::query(
        "SELECT holder FROM leases WHERE owner = $1 AND name = $2 AND until >= clock_timestamp()",
    );
    let found = rows(connection, find.bind(owner).bind(name)).await?;
    let holder = found.first().map(|row| Columns(row).get::<Option<String>>("holder"));
    Ok(holder.transpose()?.flatten())
}

/// Returns whether a holder still has a lock. The row stays locked until the end of the transaction.
pub(crate) async fn is_held(
    connection: &mut PgConnection,
    owner: i64,
    (name, fence): (&str, i64),
) -> Result<bool, CallError> {
    let find = sqlx::query(AssertSqlSafe(format!("WITH {HELD} SELECT fence FROM held")));
    Ok(!rows(connection, find.bind(owner).bind(name).bind(fence)).await?.is_empty())
}
