//! Rows of the work that models did.

use memory::clock::Timestamp;
use memory::limits::MODEL_WORK_KEPT_MAX;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::rows::{self, single, stored_count, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::queue::{begin_unsynced, run_unsynced};
use crate::task::ModelWorkRow;

/// Adds a row and drops the oldest beyond the limit.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    row: &ModelWorkRow,
) -> Result<(), Fault> {
    let script = begin_unsynced(
        "INSERT INTO model_work (workspace, ended_at, background, tokens, data) VALUES ($1, $2, $3, $4, $5);
        DELETE FROM model_work WHERE number <= (SELECT max(number) FROM model_work) - $6",
    )
    .bind(row.workspace.as_str())
    .bind(stored_time(row.ended_at))
    .bind(i64::from(row.background))
    .bind(stored_count(row.tokens))
    .bind(row.data.as_str())
    .bind(stored_count(MODEL_WORK_KEPT_MAX));
    run_unsynced(connection, script).await?;
    Ok(())
}

/// Loads rows, newest first.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    workspace: Option<&str>,
    before: Option<u64>,
    max: usize,
) -> Result<Vec<ModelWorkRow>, Fault> {
    let before = before.map_or(i64::MAX, stored_count);
    let rows = Batch::new(
        "SELECT number, workspace, ended_at, background, tokens, data FROM model_work
        WHERE number < $1 AND ($3 IS NULL OR workspace = $3) ORDER BY number DESC LIMIT $2",
    )
    .bind(before)
    .bind(stored_count(max))
    .bind(workspace.map(str::to_owned))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("model_work", &rows, rows::model_work))
}

/// Sums the tokens of background work.
pub(super) async fn background_tokens(
    connection: &mut SqliteConnection,
    since: Timestamp,
) -> Result<u64, Fault> {
    let rows = Batch::new(
        "SELECT coalesce(sum(tokens), 0) AS tokens FROM model_work WHERE background = 1 AND ended_at >= $1",
    )
    .bind(stored_time(since))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    single(&rows, |row| row.count("tokens"))
}
