//! Stores the rows of tasks: their steps from queued to finished, and queries for them. A lane is the queue of one
//! workspace.
//!
//! Each step is one short transaction. A step that a power cut may undo without harm is not synced to disk, since
//! syncing is most of the cost of a transaction. Any later synced step makes it durable too.

use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::error::Fault;
use crate::rows::{self, ColumnResult, Columns, new_task_row, stored_count, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::task::{
    Attempt, DreamPreconditions, EnqueueResult, NewTask, OwnerFilter, QueueLimits, Status,
    TaskCount, TaskKind, TaskOutcome, TaskQuery, TaskRow,
};
use memory::clock::Timestamp;

/// The condition of the partial index of lanes, word for word, so that SQLite uses it.
const UNFINISHED: &str = "status IN ('queued', 'running')";
/// The condition of the partial indexes of finished tasks.
const FINISHED: &str = "status IN ('completed', 'failed')";

/// The condition that attempt `$2` is the running one of task `$1`.
const IS_RUNNING_ATTEMPT: &str = "id = $1 AND attempts = $2 AND status = 'running'";

/// The condition that no change in the history names the task.
const HAS_NO_CHANGE: &str = "NOT EXISTS (SELECT 1 FROM changes c WHERE c.task = tasks.id)";

/// The columns of a task, with the first change that names it.
const COLUMNS: &str = "seq, id, workspace, kind, client, status, attempts, created_at, updated_at,
    request, outcome, (SELECT min(c.id) FROM changes c WHERE c.task = tasks.id) AS change";

/// Returns the beginning of a script that is not synchronized; [`run_unsynced`] runs it.
pub(super) fn begin_unsynced(piece: &str) -> Batch {
    Batch::new("PRAGMA synchronous = NORMAL;").with(piece)
}

/// Runs a script that [`begin_unsynced`] began.
///
/// SQLite applies the pragma when the statement is prepared, not when it runs, so the script is prepared each time.
/// That is cheaper than sending the pragmas separately. If the script fails, the caller closes the connection, so that
/// the pragma does not stay.
pub(super) async fn run_unsynced(
    connection: &mut SqliteConnection,
    script: Batch,
) -> Result<Vec<SqliteRow>, Fault> {
    let script = script.with("; PRAGMA synchronous = FULL");
    Ok(script.rows(connection, StatementReuse::OneShot).await?)
}

/// Queues a task if there is room and the preconditions, if any, hold. Drops finished tasks that are too old or too
/// many. Queuing a dream records its time
/// as that of the workspace's last dream.
pub(super) async fn enqueue(
    connection: &mut SqliteConnection,
    task: &NewTask,
    (limits, preconditions): (QueueLimits, Option<DreamPreconditions>),
) -> Result<EnqueueResult, Fault> {
    let age = stored_count(limits.finished_max_age.as_nanos());
    let mut script = Batch::new(&format!(
        "BEGIN IMMEDIATE; DELETE FROM tasks WHERE {FINISHED} AND updated_at < $1;"
    ))
    .bind(stored_time(task.at).saturating_sub(age))
    .with(&format!(
        "DELETE FROM tasks WHERE seq IN (SELECT seq FROM tasks WHERE workspace = $1 AND {FINISHED}
            ORDER BY updated_at DESC, seq DESC LIMIT -1 OFFSET max(0, $2 - 1 -
                (SELECT count(*) FROM tasks WHERE workspace = $1 AND {UNFINISHED})));"
    ))
    .bind(task.workspace.as_str())
    .bind(stored_count(limits.total_max))
    .with(&format!(
        "INSERT INTO tasks
            (id, workspace, kind, client, status, attempts, created_at, updated_at, request)
        SELECT $1, $2, $3, $4, 'queued', 0, $5, $5, $6
        WHERE (SELECT count(*) FROM tasks
                WHERE workspace = $2 AND {UNFINISHED} AND kind <> 'review') < $7
            AND ($3 = 'remember' OR (SELECT count(*) FROM tasks WHERE workspace = $2
                AND {UNFINISHED} AND kind NOT IN ('remember', 'review')) < $8)"
    ))
    .bind(task.id.as_str())
    .bind(task.workspace.as_str())
    .bind(task.kind.as_str())
    .bind(task.client.clone())
    .bind(stored_time(task.at))
    .bind(task.request.as_str())
    .bind(stored_count(limits.unfinished_max))
    .bind(stored_count(limits.minor_max));
    if let Some(DreamPreconditions { requested_before, sessions_min }) = preconditions {
        script = script
            .with(
                " AND NOT EXISTS (SELECT 1 FROM dreams WHERE workspace = $1 AND asked_at > $2)
                AND coalesce((SELECT sessions FROM dreams WHERE workspace = $1), 0) >= $3",
            )
            .bind(task.workspace.as_str())
            .bind(stored_time(requested_before))
            .bind(stored_count(sessions_min));
    }
    script = script.with(" RETURNING seq;");
    if task.kind == TaskKind::Dream {
        script = script
            .with(
                "INSERT INTO dreams (workspace, asked_at, sessions)
                SELECT $1, $2, 0 WHERE EXISTS (SELECT 1 FROM tasks WHERE id = $3)
                ON CONFLICT (workspace) DO UPDATE SET asked_at = excluded.asked_at, sessions = 0;",
            )
            .bind(task.workspace.as_str())
            .bind(stored_time(task.at))
            .bind(task.id.as_str());
    }
    let rows = script.with("COMMIT;").rows(connection, StatementReuse::Persistent).await?;
    let Some(row) = rows.first() else { return Ok(EnqueueResult::Full) };
    Ok(EnqueueResult::Queued(new_task_row(task.clone(), Columns(row).get("seq")?)))
}

/// Begins the oldest queued task of a workspace unless one runs; reviews come last.
pub(super) async fn begin_next(
    connection: &mut SqliteConnection,
    workspace: &str,
    at: Timestamp,
) -> Result<Option<TaskRow>, Fault> {
    let script = begin_unsynced(&format!(
        "UPDATE tasks SET status = 'running', attempts = attempts + 1, updated_at = $2
        WHERE seq = (SELECT seq FROM tasks
            WHERE workspace = $1 AND {UNFINISHED} AND status = 'queued'
            ORDER BY kind = 'review', seq LIMIT 1)
        AND NOT EXISTS (SELECT 1 FROM tasks
            WHERE workspace = $1 AND {UNFINISHED} AND status = 'running')
        RETURNING {COLUMNS}"
    ))
    .bind(workspace)
    .bind(stored_time(at));
    let rows = run_unsynced(connection, script).await?;
    let task = rows.first().map(|row| rows::task(Columns(row))).transpose();
    task.map_err(|_| Fault::UnreadableTask)
}

/// Loads the running tasks of a workspace.
pub(super) async fn running(
    connection: &mut SqliteConnection,
    workspace: &str,
) -> Result<Vec<TaskRow>, Fault> {
    Ok(tasks(&running_rows(connection, workspace).await?))
}

async fn running_rows(
    connection: &mut SqliteConnection,
    workspace: &str,
) -> Result<Vec<SqliteRow>, Fault> {
    let rows = Batch::new(&format!(
        "SELECT {COLUMNS} FROM tasks
        WHERE workspace = $1 AND {UNFINISHED} AND status = 'running' ORDER BY seq"
    ))
    .bind(workspace)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(rows)
}

/// Returns the `seq` of each running task of a workspace whose row cannot be decoded.
pub(super) async fn unreadable_running(
    connection: &mut SqliteConnection,
    workspace: &str,
) -> Result<Vec<i64>, Fault> {
    let rows = running_rows(connection, workspace).await?;
    let unreadable = rows.iter().filter(|&row| rows::task(Columns(row)).is_err());
    Ok(unreadable.map(|row| Columns(row).get("seq")).collect::<ColumnResult<_>>()?)
}

/// Fails tasks with undecodable rows, by `seq`; returns how many still ran. Repairs the fields that it can.
pub(super) async fn fail_unreadable(
    connection: &mut SqliteConnection,
    (seqs, end): (&[i64], TaskOutcome<'_>),
    at: Timestamp,
) -> Result<u64, Fault> {
    let failed = Batch::new(
        "UPDATE tasks SET status = $2, outcome = $3, request = $4, updated_at = $5,
            attempts = max(0, min(attempts, 4294967295))
        WHERE seq IN (SELECT value FROM json_each($1)) AND status = 'running' RETURNING seq",
    )
    .bind(json_numbers(seqs.iter().copied()))
    .bind(end.status.as_str())
    .bind(end.outcome)
    .bind(end.request)
    .bind(stored_time(at))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(failed.len() as u64)
}

/// Stores the prepared outcome of a running task. Returns whether this attempt runs.
pub(super) async fn prepare_outcome(
    connection: &mut SqliteConnection,
    attempt: Attempt<'_>,
    outcome: &str,
) -> Result<bool, Fault> {
    let script = begin_unsynced(&format!(
        "UPDATE tasks SET outcome = $3 WHERE {IS_RUNNING_ATTEMPT} RETURNING seq"
    ))
    .bind(attempt.task)
    .bind(i64::from(attempt.number))
    .bind(outcome);
    Ok(!run_unsynced(connection, script).await?.is_empty())
}

/// Requeues a running task. Returns whether this attempt ran and has changed nothing.
pub(super) async fn requeue(
    connection: &mut SqliteConnection,
    attempt: Attempt<'_>,
    at: Timestamp,
) -> Result<bool, Fault> {
    let script = begin_unsynced(&format!(
        "UPDATE tasks SET status = 'queued', outcome = NULL, updated_at = $3
        WHERE {IS_RUNNING_ATTEMPT} AND {HAS_NO_CHANGE} RETURNING seq"
    ))
    .bind(attempt.task)
    .bind(i64::from(attempt.number))
    .bind(stored_time(at));
    Ok(!run_unsynced(connection, script).await?.is_empty())
}

/// Returns the beginning of a transaction. It returns a row, and may continue, only if this attempt runs and its task
/// has no change yet.
pub(super) fn begin_for_attempt(attempt: Attempt<'_>) -> Batch {
    Batch::new(&format!(
        "BEGIN IMMEDIATE; SELECT seq FROM tasks WHERE {IS_RUNNING_ATTEMPT} AND {HAS_NO_CHANGE};"
    ))
    .bind(attempt.task)
    .bind(i64::from(attempt.number))
}

/// Finishes a task. Returns whether it was unfinished and this is still its latest attempt.
pub(super) async fn finish(
    connection: &mut SqliteConnection,
    (attempt, end): (Attempt<'_>, TaskOutcome<'_>),
    at: Timestamp,
) -> Result<bool, Fault> {
    // A task whose change is durable would be finished the same way after a power cut, so this need not be synchronized.
    let has_change = Batch::new(
        "SELECT 1 FROM tasks WHERE id = $1 AND outcome = $3 AND $2 = 'completed'
            AND EXISTS (SELECT 1 FROM changes c WHERE c.task = tasks.id)",
    )
    .bind(attempt.task)
    .bind(end.status.as_str())
    .bind(end.outcome)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let finish = format!(
        "UPDATE tasks SET status = $3, outcome = $4, request = $5, updated_at = $6
        WHERE id = $1 AND attempts = $2 AND {UNFINISHED} RETURNING seq"
    );
    let script = if has_change.is_empty() { Batch::new(&finish) } else { begin_unsynced(&finish) };
    let script = script
        .bind(attempt.task)
        .bind(i64::from(attempt.number))
        .bind(end.status.as_str())
        .bind(end.outcome)
        .bind(end.request)
        .bind(stored_time(at));
    let finished = if has_change.is_empty() {
        script.rows(connection, StatementReuse::Persistent).await?
    } else {
        run_unsynced(connection, script).await?
    };
    Ok(!finished.is_empty())
}

/// Cancels a task of which nothing can have been written. Returns whether this call did.
pub(super) async fn cancel(
    connection: &mut SqliteConnection,
    (id, end): (&str, TaskOutcome<'_>),
    at: Timestamp,
) -> Result<bool, Fault> {
    let cancelled = Batch::new(&format!(
        "UPDATE tasks SET status = $2, outcome = $3, request = $4, updated_at = $5
        WHERE id = $1 AND {UNFINISHED} AND (status = 'queued' OR outcome IS NULL) RETURNING seq"
    ))
    .bind(id)
    .bind(end.status.as_str())
    .bind(end.outcome)
    .bind(end.request)
    .bind(stored_time(at))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(!cancelled.is_empty())
}

/// Returns whether any task ended before this time.
pub(super) async fn has_ended(
    connection: &mut SqliteConnection,
    before: Timestamp,
) -> Result<bool, Fault> {
    let rows =
        Batch::new(&format!("SELECT 1 FROM tasks WHERE {FINISHED} AND updated_at < $1 LIMIT 1"))
            .bind(stored_time(before))
            .rows(connection, StatementReuse::Persistent)
            .await?;
    Ok(!rows.is_empty())
}

/// Drops the tasks that ended before this time; returns their number.
pub(super) async fn drop_ended(
    connection: &mut SqliteConnection,
    before: Timestamp,
) -> Result<u64, Fault> {
    let dropped = Batch::new(&format!(
        "DELETE FROM tasks WHERE {FINISHED} AND updated_at < $1 RETURNING seq"
    ))
    .bind(stored_time(before))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    Ok(dropped.len() as u64)
}

/// Counts the tasks of all workspaces.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    ended_since: Timestamp,
) -> Result<Vec<TaskCount>, Fault> {
    let rows = Batch::new(&format!(
        "SELECT workspace, status, count(*) AS tasks FROM tasks
        WHERE {UNFINISHED} OR updated_at >= $1 GROUP BY workspace, status ORDER BY workspace, status"
    ))
    .bind(stored_time(ended_since))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("tasks", &rows, rows::task_count))
}

/// Loads one task.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    id: &str,
) -> Result<Option<TaskRow>, Fault> {
    let rows = Batch::new(&format!("SELECT {COLUMNS} FROM tasks WHERE id = $1"))
        .bind(id)
        .rows(connection, StatementReuse::Persistent)
        .await?;
    Ok(tasks(&rows).into_iter().next())
}

/// Loads the tasks that match a query.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    query: &TaskQuery,
) -> Result<Vec<TaskRow>, Fault> {
    let mut script = Batch::new(&format!("SELECT {COLUMNS} FROM tasks WHERE true"));
    for (column, value) in [
        ("workspace", query.workspace.as_deref()),
        ("kind", query.kind.map(TaskKind::as_str)),
        ("status", query.status.map(Status::as_str)),
    ] {
        if let Some(value) = value {
            script.add(&format!(" AND {column} = $1")).value(value);
        }
    }
    match &query.owner {
        OwnerFilter::Any => {}
        OwnerFilter::WithoutClient => drop(script.add(" AND client IS NULL")),
        OwnerFilter::Client(client) => drop(script.add(" AND client = $1").value(client.as_str())),
    }
    if let Some(since) = query.ended_since {
        script.add(&format!(" AND ({UNFINISHED} OR updated_at >= $1)")).value(stored_time(since));
    }
    if let Some(before) = query.before {
        script.add(" AND seq < $1").value(before);
    }
    script.add(" ORDER BY seq DESC LIMIT $1").value(stored_count(query.max));
    Ok(tasks(&script.rows(connection, StatementReuse::OneShot).await?))
}

/// Loads the workspaces with unfinished tasks.
pub(super) async fn workspaces_with_work(
    connection: &mut SqliteConnection,
) -> Result<Vec<String>, Fault> {
    let rows = Batch::new(&format!(
        "SELECT DISTINCT workspace FROM tasks WHERE {UNFINISHED} ORDER BY workspace"
    ))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("tasks", &rows, |row| row.get("workspace")))
}

fn tasks(rows: &[SqliteRow]) -> Vec<TaskRow> {
    rows::decode_rows("tasks", rows, rows::task)
}
