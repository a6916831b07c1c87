//! The rows of history: changes with their files and contents, heads, pins and usage.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod prune;
pub(crate) mod record;
pub(crate) mod usage;

use sqlx::PgConnection;

use crate::call_error::CallError;
use crate::row::rows;

/// Waits for the other writers of an owner; they wait for this transaction then.
pub(crate) async fn lock_owner(connection: &mut PgConnection, owner: i64) -> Result<(), CallError> {
    let lock = sqlx::query("SELECT owner FROM counters WHERE owner = $1 FOR UPDATE");
    rows(connection, lock.bind(owner)).await?;
    Ok(())
}
