//! Rows of sessions, of runs and of the last dream.

use memory::clock::Timestamp;
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::error::Fault;
use crate::rows::{self, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::queue::{begin_unsynced, run_unsynced};
use crate::task::{Attempt, LastDream, RunRow, SessionRow};

const SESSION: &str = "SELECT id, workspace, client, created_at FROM sessions";

/// Registers a session, which counts towards the next dream of its workspace.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    session: &SessionRow,
) -> Result<(), Fault> {
    Batch::new(
        "BEGIN IMMEDIATE;
        INSERT INTO sessions (id, workspace, client, created_at) VALUES ($1, $2, $3, $4);
        INSERT INTO dreams (workspace, sessions) VALUES ($2, 1)
            ON CONFLICT (workspace) DO UPDATE SET sessions = sessions + 1; COMMIT;",
    )
    .bind(session.id.as_str())
    .bind(session.workspace.as_str())
    .bind(session.client.as_str())
    .bind(stored_time(session.created_at))
    .run(connection, StatementReuse::Persistent)
    .await?;
    Ok(())
}

/// Loads the last dream of a workspace.
pub(super) async fn last_dream(
    connection: &mut SqliteConnection,
    workspace: &str,
) -> Result<LastDream, Fault> {
    let rows = Batch::new("SELECT asked_at, sessions FROM dreams WHERE workspace = $1")
        .bind(workspace)
        .rows(connection, StatementReuse::Persistent)
        .await?;
    Ok(rows::last_dream(&rows))
}

/// Ends a session. Returns whether it existed.
pub(super) async fn end(connection: &mut SqliteConnection, id: &str) -> Result<bool, Fault> {
    let ended = Batch::new("DELETE FROM sessions WHERE id = $1")
        .bind(id)
        .run(connection, StatementReuse::Persistent);
    Ok(ended.await? > 0)
}

/// Loads one session.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    id: &str,
) -> Result<Option<SessionRow>, Fault> {
    let rows = Batch::new(&format!("{SESSION} WHERE id = $1"))
        .bind(id)
        .rows(connection, StatementReuse::Persistent)
        .await?;
    Ok(sessions(&rows).into_iter().next())
}

/// Loads the sessions of a workspace.
pub(super) async fn list(
    connection: &mut SqliteConnection,
    workspace: &str,
) -> Result<Vec<SessionRow>, Fault> {
    let rows = Batch::new(&format!("{SESSION} WHERE workspace = $1 ORDER BY created_at, id"))
        .bind(workspace)
        .rows(connection, StatementReuse::OneShot)
        .await?;
    Ok(sessions(&rows))
}

/// Returns whether a client is registered with a workspace.
pub(super) async fn has_client(
    connection: &mut SqliteConnection,
    workspace: &str,
    client: &str,
) -> Result<bool, Fault> {
    let rows = Batch::new("SELECT 1 FROM sessions WHERE workspace = $1 AND client = $2 LIMIT 1")
        .bind(workspace)
        .bind(client)
        .rows(connection, StatementReuse::Persistent)
        .await?;
    Ok(!rows.is_empty())
}

fn sessions(rows: &[SqliteRow]) -> Vec<SessionRow> {
    rows::decode_rows("sessions", rows, rows::session)
}

/// Records that an attempt at a task began. Replaces an attempt of the same number, whose start a power cut undid. Does
/// nothing if the task no longer exists.
pub(super) async fn add_run(connection: &mut SqliteConnection, run: &RunRow) -> Result<(), Fault> {
    let script = begin_unsynced(
        "INSERT OR REPLACE INTO runs (task, attempt, runner, started_at, ended_at, outcome)
        SELECT $1, $2, $3, $4, $5, $6 WHERE EXISTS (SELECT 1 FROM tasks WHERE id = $1)",
    )
    .bind(run.task.as_str())
    .bind(i64::from(run.attempt))
    .bind(run.runner.as_str())
    .bind(stored_time(run.started_at))
    .bind(run.ended_at.map(stored_time))
    .bind(run.outcome.clone());
    run_unsynced(connection, script).await?;
    Ok(())
}

/// Records that an attempt ended.
pub(super) async fn end_run(
    connection: &mut SqliteConnection,
    attempt: Attempt<'_>,
    outcome: &str,
    at: Timestamp,
) -> Result<(), Fault> {
    let script = begin_unsynced(
        "UPDATE runs SET outcome = $3, ended_at = $4 WHERE task = $1 AND attempt = $2",
    )
    .bind(attempt.task)
    .bind(i64::from(attempt.number))
    .bind(outcome)
    .bind(stored_time(at));
    run_unsynced(connection, script).await?;
    Ok(())
}

/// Loads the attempts at a task.
pub(super) async fn runs(
    connection: &mut SqliteConnection,
    task: &str,
) -> Result<Vec<RunRow>, Fault> {
    let rows = Batch::new(
        "SELECT task, attempt, runner, started_at, ended_at, outcome FROM runs
        WHERE task = $1 ORDER BY attempt",
    )
    .bind(task)
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("runs", &rows, rows::run))
}
