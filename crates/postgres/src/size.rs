//! The sizes of owners: for their limits, and for metrics.

use std::io;
use std::time::Duration;

use memory::owner::OwnerSize;
use sqlx::PgConnection;
use state::StateError;
use state::rows::{decode_rows, single};
use store::backend::BackendError;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::call_error::CallError;
use crate::database::{Database, call};
use crate::root::backend_error;
use crate::row::rows;

/// Time for which the size of an owner's memories is not looked up again.
const SIZE_AGE_MAX: Duration = Duration::from_secs(5);

/// The size of an owner's memories, as this process knows it.
#[derive(Debug, Default)]
pub(crate) struct MemorySize(Mutex<Option<(u64, Instant)>>);

impl MemorySize {
    /// Checks whether the memories of an owner may grow by `bytes`, up to `max`.
    pub(crate) async fn check(
        &self,
        database: &Database,
        owner: i64,
        (bytes, max): (u64, u64),
    ) -> Result<(), BackendError> {
        let mut known = self.0.lock().await;
        let size = match *known {
            Some((size, at)) if at.elapsed() < SIZE_AGE_MAX => size,
            _ => {
                let size = database.read("add up the memories", call!(memory_bytes, owner)).await;
                let size = size.map_err(|error| backend_error("add up the memories", error))?;
                *known = Some((size, Instant::now()));
                size
            }
        };
        let grown = size.saturating_add(bytes);
        if grown > max {
            // Memories that were deleted since count at the next write.
            *known = None;
            let full = format!("the memories would have {grown} bytes, and may have {max}");
            return Err(BackendError::Full(io::Error::other(full)));
        }
        *known = known.map(|(_, at)| (grown, at));
        Ok(())
    }
}

impl Database {
    /// Returns the sizes of these owners, by name. Unknown ones are left out.
    pub async fn owner_sizes(&self, owners: &[String]) -> Result<Vec<OwnerSize>, StateError> {
        self.read("measure the owners", call!(sizes, owners)).await
    }
}

async fn memory_bytes(connection: &mut PgConnection, owner: i64) -> Result<u64, CallError> {
    let sum = sqlx::query(
        "SELECT coalesce(sum(octet_length(bytes)), 0)::bigint AS bytes FROM files WHERE owner = $1",
    );
    let found = rows(connection, sum.bind(owner)).await?;
    Ok(single(&found, |row| row.count("bytes"))?)
}

async fn sizes(
    connection: &mut PgConnection,
    owners: &[String],
) -> Result<Vec<OwnerSize>, CallError> {
    let sizes = sqlx::query(
        "SELECT name,
            (SELECT count(*) FROM files WHERE owner = owners.id AND bytes IS NOT NULL) AS memories,
            (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM files WHERE owner = owners.id)
                AS memory_bytes,
            (SELECT count(*) FROM tasks WHERE owner = owners.id AND status IN ('queued', 'running'))
                AS unfinished_tasks
        FROM owners WHERE name = ANY($1) ORDER BY name",
    );
    let found = rows(connection, sizes.bind(owners)).await?;
    Ok(decode_rows("owners", &found, |row| {
        Ok(OwnerSize {
            owner: row.get("name")?,
            memories: row.count("memories")?,
            memory_bytes: row.count("memory_bytes")?,
            unfinished_tasks: row.count("unfinished_tasks")?,
        })
    }))
}
