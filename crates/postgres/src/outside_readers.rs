//! Rows of the agents that have read text that no person reviewed.

use std::time::Duration;

use sqlx::PgConnection;

use crate::call_error::CallError;
use crate::database::interval;
use crate::row::{run, storable};

/// Adds a reader, and drops those that were idle for too long.
pub(crate) async fn add(
    connection: &mut PgConnection,
    owner: i64,
    (reader, idle_max): (&str, Duration),
) -> Result<(), CallError> {
    let add = sqlx::query(
        "WITH gone AS (
            DELETE FROM outside_readers WHERE owner = $1 AND reader <> $2 AND at < clock_timestamp() - $3)
        INSERT INTO outside_readers (owner, reader, at) VALUES ($1, $2, clock_timestamp())
        ON CONFLICT (owner, reader) DO UPDATE SET at = excluded.at",
    );
    run(connection, add.bind(owner).bind(storable(reader)).bind(interval(idle_max))).await?;
    Ok(())
}

/// Returns whether there is a reader that was not idle for too long. It is not idle now.
pub(crate) async fn contains(
    connection: &mut PgConnection,
    owner: i64,
    (reader, idle_max): (&str, Duration),
) -> Result<bool, CallError> {
    let refresh = sqlx::query(
        "UPDATE outside_readers SET at = clock_timestamp()
        WHERE owner = $1 AND reader = $2 AND at >= clock_timestamp() - $3",
    );
    let refresh = refresh.bind(owner).bind(storable(reader)).bind(interval(idle_max));
    Ok(run(connection, refresh).await? > 0)
}
