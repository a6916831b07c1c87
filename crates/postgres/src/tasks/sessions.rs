//! Rows of sessions, of runs, of the last dream and of model work.

use memory::clock::Timestamp;
use memory::limits::MODEL_WORK_KEPT_MAX;
use sqlx::PgConnection;
use state::rows::{
    decode_rows, last_dream as last_dream_row, model_work, run as run_row, session, single,
    stored_count, stored_time,
};
use state::{Attempt, LastDream, ModelWorkRow, RunRow, SessionRow};

use crate::call_error::CallError;
use crate::history::next_number;
use crate::row::{rows, run, storable};

/// Registers a session, which counts towards the next dream of its workspace.
pub(crate) async fn add(
    connection: &mut PgConnection,
    owner: i64,
    session: &SessionRow,
) -> Result<(), CallError> {
    let add = sqlx::query(
        "WITH counted AS (
            INSERT INTO dreams (owner, workspace, sessions) VALUES ($1, $3, 1)
            ON CONFLICT (owner, workspace) DO UPDATE SET sessions = dreams.sessions + 1)
        INSERT INTO sessions (owner, id, workspace, client, created_at) VALUES ($1, $2, $3, $4, $5)",
    );
    let add = add.bind(owner).bind(storable(&session.id)).bind(storable(&session.workspace));
    let add = add.bind(storable(&session.client)).bind(stored_time(session.created_at));
    run(connection, add).await?;
    Ok(())
}

/// Loads the last dream of a workspace.
pub(crate) async fn last_dream(
    connection: &mut PgConnection,
    owner: i64,
    workspace: &str,
) -> Result<LastDream, CallError> {
    let query =
        sqlx::query("SELECT asked_at, sessions FROM dreams WHERE owner = $1 AND workspace = $2");
    let found = rows(connection, query.bind(owner).bind(storable(workspace))).await?;
    Ok(last_dream_row(&found))
}

/// Ends a session. Returns whether it existed.
pub(crate) async fn end(
    connection: &mut PgConnection,
    owner: i64,
    id: &str,
) -> Result<bool, CallError> {
    let end = sqlx::query("DELETE FROM sessions WHERE owner = $1 AND id = $2");
    Ok(run(connection, end.bind(owner).bind(storable(id))).await? > 0)
}

/// Loads one session.
pub(crate) async fn get(
    connection: &mut PgConnection,
    owner: i64,
    id: &str,
) -> Result<Option<SessionRow>, CallError> {
    let query = sqlx::query(
        "SELECT id, workspace, client, created_at FROM sessions WHERE owner = $1 AND id = $2",
    );
    let found = rows(connection, query.bind(owner).bind(storable(id))).await?;
    Ok(decode_rows("sessions", &found, session).pop())
}

/// Loads the sessions of a workspace.
pub(crate) async fn list(
    connection: &mut PgConnection,
    owner: i64,
    workspace: &str,
) -> Result<Vec<SessionRow>, CallError> {
    let query = sqlx::query(
        "SELECT id, workspace, client, created_at FROM sessions WHERE owner = $1 AND workspace = $2
        ORDER BY created_at, id",
    );
    let found = rows(connection, query.bind(owner).bind(storable(workspace))).await?;
    Ok(decode_rows("sessions", &found, session))
}

/// Returns whether a client is registered with a workspace.
pub(crate) async fn has_client(
    connection: &mut PgConnection,
    owner: i64,
    (workspace, client): (&str, &str),
) -> Result<bool, CallError> {
    let query = sqlx::query(
        "SELECT id FROM sessions WHERE owner = $1 AND workspace = $2 AND client = $3 LIMIT 1",
    );
    let query = query.bind(owner).bind(storable(workspace)).bind(storable(client));
    Ok(!rows(connection, query).await?.is_empty())
}

/// Records that an attempt at a task began. Replaces an attempt of the same number, whose start a power cut undid. Does
/// nothing if the task no longer exists.
pub(crate) async fn add_run(
    connection: &mut PgConnection,
    owner: i64,
    new: &RunRow,
) -> Result<(), CallError> {
    let add = sqlx::query(
        "INSERT INTO runs (owner, task, attempt, runner, started_at, ended_at, outcome)
        SELECT $1, id, $3, $4, $5, $6, $7 FROM tasks WHERE owner = $1 AND id = $2 FOR SHARE
        ON CONFLICT (owner, task, attempt) DO UPDATE SET runner = excluded.runner,
            started_at = excluded.started_at, ended_at = excluded.ended_at, outcome = excluded.outcome",
    );
    let add = add.bind(owner).bind(&new.task).bind(i64::from(new.attempt));
    let add = add.bind(storable(&new.runner)).bind(stored_time(new.started_at));
    let add = add.bind(new.ended_at.map(stored_time)).bind(new.outcome.as_deref().map(storable));
    run(connection, add).await?;
    Ok(())
}

/// Records that an attempt ended.
pub(crate) async fn end_run(
    connection: &mut PgConnection,
    owner: i64,
    (attempt, outcome, at): (Attempt<'_>, &str, Timestamp),
) -> Result<(), CallError> {
    let end = sqlx::query(
        "UPDATE runs SET outcome = $4, ended_at = $5 WHERE owner = $1 AND task = $2 AND attempt = $3",
    );
    let end = end.bind(owner).bind(attempt.task).bind(i64::from(attempt.number));
    run(connection, end.bind(storable(outcome)).bind(stored_time(at))).await?;
    Ok(())
}

/// Loads the attempts at a task.
pub(crate) async fn runs(
    connection: &mut PgConnection,
    owner: i64,
    task: &str,
) -> Result<Vec<RunRow>, CallError> {
    let query = sqlx::query(
        "SELECT task, attempt, runner, started_at, ended_at, outcome FROM runs
        WHERE owner = $1 AND task = $2 ORDER BY attempt",
    );
    let found = rows(connection, query.bind(owner).bind(storable(task))).await?;
    Ok(decode_rows("runs", &found, run_row))
}

/// Adds a record of model work under the next number, and drops the oldest beyond the limit.
pub(crate) async fn add_model_work(
    connection: &mut PgConnection,
    owner: i64,
    new: &ModelWorkRow,
) -> Result<(), CallError> {
    let number = next_number(connection, owner, "last_work").await?;
    let add = sqlx::query(
        "INSERT INTO model_work (owner, number, workspace, ended_at, background, tokens, data)
        VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let add = add.bind(owner).bind(number).bind(storable(&new.workspace));
    let add = add.bind(stored_time(new.ended_at)).bind(new.background);
    run(connection, add.bind(stored_count(new.tokens)).bind(storable(&new.data))).await?;
    let drop = sqlx::query("DELETE FROM model_work WHERE owner = $1 AND number <= $2");
    run(connection, drop.bind(owner).bind(number - stored_count(MODEL_WORK_KEPT_MAX))).await?;
    Ok(())
}

/// Loads records of model work, newest first.
pub(crate) async fn list_model_work(
    connection: &mut PgConnection,
    owner: i64,
    (workspace, before, max): (Option<&str>, Option<u64>, usize),
) -> Result<Vec<ModelWorkRow>, CallError> {
    let query = sqlx::query(
        "SELECT number, workspace, ended_at, background, tokens, data FROM model_work
        WHERE owner = $1 AND number < $2 AND ($3 IS NULL OR workspace = $3) ORDER BY number DESC LIMIT $4",
    );
    let query = query.bind(owner).bind(before.map_or(i64::MAX, stored_count));
    let query = query.bind(workspace.map(storable)).bind(stored_count(max));
    Ok(decode_rows("model_work", &rows(connection, query).await?, model_work))
}

/// Sums the tokens of background work.
pub(crate) async fn background_tokens(
    connection: &mut PgConnection,
    owner: i64,
    since: Timestamp,
) -> Result<u64, CallError> {
    let query = sqlx::query(
        "SELECT coalesce(sum(tokens), 0)::bigint AS tokens FROM model_work
        WHERE owner = $1 AND background AND ended_at >= $2",
    );
    let found = rows(connection, query.bind(owner).bind(stored_time(since))).await?;
    Ok(single(&found, |row| row.count("tokens"))?)
}
