//! The rows of history: changes with their files and contents, heads, pins and usage.

pub(crate) mod changes;
pub(crate) mod check;
pub(crate) mod prune;
pub(crate) mod record;
pub(crate) mod usage;

use sqlx::{AssertSqlSafe, PgConnection};
use state::rows::single;

use crate::call_error::CallError;
use crate::row::rows;

/// Takes the next number of a counter, a column of `counters`. Other writers of the owner wait for this transaction then,
/// which must be rolled back if nothing gets the number.
pub(crate) async fn next_number(
    connection: &mut PgConnection,
    owner: i64,
    counter: &str,
) -> Result<i64, CallError> {
    let next = sqlx::query(AssertSqlSafe(format!(
        "UPDATE counters SET {counter} = {counter} + 1 WHERE owner = $1 RETURNING {counter} AS number"
    )));
    Ok(single(&rows(connection, next.bind(owner)).await?, |row| row.get("number"))?)
}

/// Waits for the other writers of an owner; they wait for this transaction then.
pub(crate) async fn lock_owner(connection: &mut PgConnection, owner: i64) -> Result<(), CallError> {
    let lock = sqlx::query("SELECT owner FROM counters WHERE owner = $1 FOR UPDATE");
    rows(connection, lock.bind(owner)).await?;
    Ok(())
}
