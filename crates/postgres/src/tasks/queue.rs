//! Rows of tasks: their steps from queued to finished, and queries for them. A lane is the queue of one workspace.

use memory::clock::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, QueryBuilder};
use state::rows::{
    Columns, decode_rows, new_task_row, single, stored_count, stored_time, task, task_count,
};
use state::{
    Attempt, DreamPreconditions, EnqueueResult, Fault, NewTask, OwnerFilter, QueueLimits, Status,
    TaskCount, TaskKind, TaskOutcome, TaskQuery, TaskRow,
};

use crate::call_error::CallError;
use crate::events;
use crate::history::{lock_owner, next_number};
use crate::row::{Row, rows, run, storable};

/// The conditions of the partial indexes, word for word.
const UNFINISHED: &str = "status IN ('queued', 'running')";
const FINISHED: &str = "status IN ('completed', 'failed')";

/// The condition that attempt `$3` is the running one of task `$2`.
const IS_RUNNING_ATTEMPT: &str = "owner = $1 AND id = $2 AND attempts = $3 AND status = 'running'";

/// The condition that no change in the history names the task.
const HAS_NO_CHANGE: &str =
    "NOT EXISTS (SELECT 1 FROM changes c WHERE c.owner = tasks.owner AND c.task = tasks.id)";

/// The columns of a task, with the first change that names it.
const COLUMNS: &str =
    "seq, id, workspace, kind, client, status, attempts, created_at, updated_at, request, outcome,
    (SELECT min(c.id) FROM changes c WHERE c.owner = tasks.owner AND c.task = tasks.id) AS change";

const INSERT: &str = "INSERT INTO tasks
        (owner, seq, id, workspace, kind, client, status, attempts, created_at, updated_at, request)
    VALUES ($1, $2, $3, $4, $5, $6, 'queued', 0, $7, $7, $8)";

/// Drops the tasks that a condition describes, with their runs.
fn drop_tasks(condition: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "WITH gone AS (DELETE FROM tasks WHERE owner = $1 AND {condition} RETURNING id),
            ended AS (DELETE FROM runs r USING gone WHERE r.owner = $1 AND r.task = gone.id)
        SELECT count(*) AS dropped FROM gone"
    ))
}

/// Queues a task if there is room and the preconditions, if any, hold. Drops finished tasks that are too old or too
/// many. Queuing a dream records its time as that of the workspace's last dream.
pub(crate) async fn enqueue(
    connection: &mut PgConnection,
    owner: i64,
    (task, limits, preconditions): (&NewTask, QueueLimits, Option<DreamPreconditions>),
    owner_max: Option<u64>,
) -> Result<EnqueueResult, CallError> {
    lock_owner(connection, owner).await?;
    let workspace = &*storable(&task.workspace);
    let oldest =
        stored_time(task.at).saturating_sub(stored_count(limits.finished_max_age.as_nanos()));
    let aged = sqlx::query(drop_tasks(&format!("{FINISHED} AND updated_at < $2")));
    rows(connection, aged.bind(owner).bind(oldest)).await?;
    let surplus = sqlx::query(drop_tasks(&format!(
        "seq IN (SELECT seq FROM tasks WHERE owner = $1 AND workspace = $2 AND {FINISHED}
            ORDER BY updated_at DESC, seq DESC OFFSET greatest(0, $3 - 1 - (SELECT count(*) FROM tasks
                WHERE owner = $1 AND workspace = $2 AND {UNFINISHED})))"
    )));
    let surplus = surplus.bind(owner).bind(workspace).bind(stored_count(limits.total_max));
    rows(connection, surplus).await?;
    if !owner_has_room(connection, owner, owner_max).await?
        || !has_room(connection, owner, (task.kind, workspace, limits)).await?
        || !may_dream(connection, owner, (workspace, preconditions)).await?
    {
        return Ok(EnqueueResult::Full);
    }
    let queued = insert(connection, owner, task).await?;
    if task.kind == TaskKind::Dream {
        let note = sqlx::query(
            "INSERT INTO dreams (owner, workspace, asked_at, sessions) VALUES ($1, $2, $3, 0)
            ON CONFLICT (owner, workspace) DO UPDATE SET asked_at = excluded.asked_at, sessions = 0",
        );
        run(connection, note.bind(owner).bind(workspace).bind(stored_time(task.at))).await?;
    }
    Ok(EnqueueResult::Queued(queued))
}

/// Returns whether the lanes of the owner together have room for another task.
async fn owner_has_room(
    connection: &mut PgConnection,
    owner: i64,
    max: Option<u64>,
) -> Result<bool, CallError> {
    let Some(max) = max else { return Ok(true) };
    let count = sqlx::query(AssertSqlSafe(format!(
        "SELECT count(*) AS unfinished FROM tasks WHERE owner = $1 AND {UNFINISHED}"
    )));
    let found = rows(connection, count.bind(owner)).await?;
    Ok(single(&found, |row| row.count("unfinished"))? < max)
}

/// Returns whether a lane has room for a task of this kind.
async fn has_room(
    connection: &mut PgConnection,
    owner: i64,
    (kind, workspace, limits): (TaskKind, &str, QueueLimits),
) -> Result<bool, CallError> {
    let count = sqlx::query(AssertSqlSafe(format!(
        "SELECT count(*) FILTER (WHERE kind <> 'review') AS unfinished,
            count(*) FILTER (WHERE kind NOT IN ('remember', 'review')) AS minor
        FROM tasks WHERE owner = $1 AND workspace = $2 AND {UNFINISHED}"
    )));
    let found = rows(connection, count.bind(owner).bind(workspace)).await?;
    Ok(single(&found, |row| {
        let is_below = |column, max: usize| Ok(row.get::<i64>(column)? < stored_count(max));
        Ok(is_below("unfinished", limits.unfinished_max)?
            && (kind == TaskKind::Remember || is_below("minor", limits.minor_max)?))
    })?)
}

/// Returns whether a dream may be queued without a request.
async fn may_dream(
    connection: &mut PgConnection,
    owner: i64,
    (workspace, preconditions): (&str, Option<DreamPreconditions>),
) -> Result<bool, CallError> {
    let Some(DreamPreconditions { requested_before, sessions_min }) = preconditions else {
        return Ok(true);
    };
    let last = sqlx::query(
        "SELECT coalesce(bool_and(asked_at IS NULL OR asked_at <= $3), true)
            AND coalesce(sum(sessions), 0) >= $4 AS may FROM dreams WHERE owner = $1 AND workspace = $2",
    );
    let last = last.bind(owner).bind(workspace);
    let last = last.bind(stored_time(requested_before)).bind(stored_count(sessions_min));
    Ok(single(&rows(connection, last).await?, |row| row.flag("may"))?)
}

/// Adds a queued task under the next number.
pub(crate) async fn insert(
    connection: &mut PgConnection,
    owner: i64,
    task: &NewTask,
) -> Result<TaskRow, CallError> {
    let seq = next_number(connection, owner, "last_task").await?;
    let insert = sqlx::query(INSERT)
        .bind(owner)
        .bind(seq)
        .bind(&task.id)
        .bind(storable(&task.workspace))
        .bind(task.kind.as_str())
        .bind(task.client.as_deref().map(storable))
        .bind(stored_time(task.at))
        .bind(storable(&task.request));
    run(connection, insert).await?;
    Ok(new_task_row(task.clone(), seq))
}

/// Begins the oldest queued task of a workspace unless one runs; reviews come last. Of two daemons that do so at the same
/// time, one waits for the row of the other. It does not skip the row: the other may fail, and a later task must not go
/// first. The index of running tasks lets only one through.
pub(crate) async fn begin_next(
    connection: &mut PgConnection,
    owner: i64,
    (workspace, at): (&str, Timestamp),
) -> Result<Option<TaskRow>, CallError> {
    let begin = sqlx::query(AssertSqlSafe(format!(
        "UPDATE tasks SET status = 'running', attempts = attempts + 1, updated_at = $3
        WHERE owner = $1 AND status = 'queued' AND seq = (SELECT seq FROM tasks
            WHERE owner = $1 AND workspace = $2 AND {UNFINISHED} AND status = 'queued'
            ORDER BY kind = 'review', seq LIMIT 1 FOR UPDATE)
        AND NOT EXISTS (SELECT 1 FROM tasks WHERE owner = $1 AND workspace = $2 AND status = 'running')
        RETURNING {COLUMNS}"
    )));
    let running = rows(connection, begin.bind(owner).bind(workspace).bind(stored_time(at))).await?;
    let running = running.first().map(|row| task(Columns(row))).transpose();
    Ok(running.map_err(|_| Fault::UnreadableTask)?)
}

async fn running_rows(
    connection: &mut PgConnection,
    owner: i64,
    workspace: &str,
) -> Result<Vec<Row>, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM tasks WHERE owner = $1 AND workspace = $2 AND status = 'running' ORDER BY seq"
    )));
    Ok(rows(connection, query.bind(owner).bind(workspace)).await?)
}

/// Loads the running tasks of a workspace.
pub(crate) async fn running(
    connection: &mut PgConnection,
    owner: i64,
    workspace: &str,
) -> Result<Vec<TaskRow>, CallError> {
    let found = running_rows(connection, owner, workspace).await?;
    Ok(decode_rows("tasks", &found, task))
}

/// Returns the number of each running task of a workspace whose row cannot be decoded.
pub(crate) async fn unreadable_running(
    connection: &mut PgConnection,
    owner: i64,
    workspace: &str,
) -> Result<Vec<i64>, CallError> {
    let found = running_rows(connection, owner, workspace).await?;
    let unreadable = found.iter().filter(|&row| task(Columns(row)).is_err());
    Ok(unreadable.map(|row| Columns(row).get("seq")).collect::<Result<_, _>>()?)
}

/// Fails running tasks by their numbers; returns how many still ran. Repairs the fields that it can.
pub(crate) async fn fail_unreadable(
    connection: &mut PgConnection,
    owner: i64,
    (seqs, end, at): (&[i64], TaskOutcome<'_>, Timestamp),
) -> Result<u64, CallError> {
    let fail = sqlx::query(
        "UPDATE tasks SET status = $3, outcome = $4, request = $5, updated_at = $6,
            attempts = greatest(0, least(attempts, 4294967295))
        WHERE owner = $1 AND seq = ANY($2) AND status = 'running'",
    );
    let fail = fail.bind(owner).bind(seqs).bind(end.status.as_str());
    let fail = fail.bind(storable(end.outcome)).bind(storable(end.request)).bind(stored_time(at));
    Ok(run(connection, fail).await?)
}

/// Stores the prepared outcome of a running task. Returns whether this attempt runs.
pub(crate) async fn prepare_outcome(
    connection: &mut PgConnection,
    owner: i64,
    (attempt, outcome): (Attempt<'_>, &str),
) -> Result<bool, CallError> {
    let prepare = sqlx::query(AssertSqlSafe(format!(
        "UPDATE tasks SET outcome = $4 WHERE {IS_RUNNING_ATTEMPT}"
    )));
    let prepare = prepare.bind(owner).bind(attempt.task).bind(i64::from(attempt.number));
    Ok(run(connection, prepare.bind(storable(outcome))).await? > 0)
}

/// Requeues a running task. Returns whether this attempt ran and has changed nothing.
pub(crate) async fn requeue(
    connection: &mut PgConnection,
    owner: i64,
    (attempt, at): (Attempt<'_>, Timestamp),
) -> Result<bool, CallError> {
    lock_owner(connection, owner).await?;
    let requeue = sqlx::query(AssertSqlSafe(format!(
        "UPDATE tasks SET status = 'queued', outcome = NULL, updated_at = $4
        WHERE {IS_RUNNING_ATTEMPT} AND {HAS_NO_CHANGE}"
    )));
    let requeue = requeue.bind(owner).bind(attempt.task).bind(i64::from(attempt.number));
    Ok(run(connection, requeue.bind(stored_time(at))).await? > 0)
}

/// Returns whether an attempt at a task may record a change: it runs, and the task has no change yet. The row stays
/// locked, so that no other daemon ends the attempt before the change is recorded.
pub(crate) async fn may_record(
    connection: &mut PgConnection,
    owner: i64,
    attempt: Attempt<'_>,
) -> Result<bool, CallError> {
    let find = sqlx::query(AssertSqlSafe(format!(
        "SELECT seq FROM tasks WHERE {IS_RUNNING_ATTEMPT} AND {HAS_NO_CHANGE} FOR UPDATE"
    )));
    let find = find.bind(owner).bind(attempt.task).bind(i64::from(attempt.number));
    Ok(!rows(connection, find).await?.is_empty())
}

/// Finishes a task. Returns whether it was unfinished and this is still its latest attempt.
pub(crate) async fn finish(
    connection: &mut PgConnection,
    owner: i64,
    (attempt, end, at): (Attempt<'_>, TaskOutcome<'_>, Timestamp),
) -> Result<bool, CallError> {
    // A daemon may not know that its change was recorded, if the connection was lost just then. Such a task has not failed:
    // the next holder of the lane completes it.
    lock_owner(connection, owner).await?;
    let finish = sqlx::query(AssertSqlSafe(format!(
        "UPDATE tasks SET status = $4, outcome = $5, request = $6, updated_at = $7
        WHERE owner = $1 AND id = $2 AND attempts = $3 AND {UNFINISHED}
            AND ($4 <> 'failed' OR {HAS_NO_CHANGE}) RETURNING kind, workspace, client"
    )));
    let finish = finish.bind(owner).bind(attempt.task).bind(i64::from(attempt.number));
    let finish = finish.bind(end.status.as_str()).bind(storable(end.outcome));
    let finish = finish.bind(storable(end.request)).bind(stored_time(at));
    let finished = rows(connection, finish).await?;
    let Some(row) = finished.first() else { return Ok(false) };
    let row = Columns(row);
    if let Some(effect) = end.effect {
        let (kind, workspace) = (row.get("kind")?, row.get("workspace")?);
        let task = (attempt.task, kind, workspace, row.get("client")?);
        events::add_task_end(connection, owner, task, effect).await?;
    }
    Ok(true)
}

/// Cancels a task of which nothing can have been written. Returns whether this call did.
pub(crate) async fn cancel(
    connection: &mut PgConnection,
    owner: i64,
    (id, end, at): (&str, TaskOutcome<'_>, Timestamp),
) -> Result<bool, CallError> {
    let cancel = sqlx::query(AssertSqlSafe(format!(
        "UPDATE tasks SET status = $3, outcome = $4, request = $5, updated_at = $6
        WHERE owner = $1 AND id = $2 AND {UNFINISHED} AND (status = 'queued' OR outcome IS NULL)"
    )));
    let cancel = cancel.bind(owner).bind(storable(id)).bind(end.status.as_str());
    let cancel = cancel.bind(storable(end.outcome)).bind(storable(end.request));
    Ok(run(connection, cancel.bind(stored_time(at))).await? > 0)
}

/// Drops the tasks that ended before this time; returns their number.
pub(crate) async fn drop_ended(
    connection: &mut PgConnection,
    owner: i64,
    before: Timestamp,
) -> Result<u64, CallError> {
    let drop = sqlx::query(drop_tasks(&format!("{FINISHED} AND updated_at < $2")));
    let dropped = rows(connection, drop.bind(owner).bind(stored_time(before))).await?;
    Ok(single(&dropped, |row| row.count("dropped"))?)
}

/// Counts the tasks of all workspaces.
pub(crate) async fn count(
    connection: &mut PgConnection,
    owner: i64,
    ended_since: Timestamp,
) -> Result<Vec<TaskCount>, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT workspace, status, count(*) AS tasks FROM tasks
        WHERE owner = $1 AND ({UNFINISHED} OR updated_at >= $2)
        GROUP BY workspace, status ORDER BY workspace, status COLLATE \"C\""
    )));
    let found = rows(connection, query.bind(owner).bind(stored_time(ended_since))).await?;
    Ok(decode_rows("tasks", &found, task_count))
}

/// Loads one task.
pub(crate) async fn get(
    connection: &mut PgConnection,
    owner: i64,
    id: &str,
) -> Result<Option<TaskRow>, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM tasks WHERE owner = $1 AND id = $2"
    )));
    let found = rows(connection, query.bind(owner).bind(storable(id))).await?;
    Ok(decode_rows("tasks", &found, task).pop())
}

/// Loads the tasks that match a query, newest first.
pub(crate) async fn find(
    connection: &mut PgConnection,
    owner: i64,
    query: &TaskQuery,
) -> Result<Vec<TaskRow>, CallError> {
    let mut sql: QueryBuilder<Postgres> =
        QueryBuilder::new(format!("SELECT {COLUMNS} FROM tasks WHERE owner = "));
    sql.push_bind(owner);
    let client = match &query.owner {
        OwnerFilter::Client(client) => Some(client.as_str()),
        OwnerFilter::Any | OwnerFilter::WithoutClient => None,
    };
    for (column, value) in [
        ("workspace", query.workspace.as_deref()),
        ("kind", query.kind.map(TaskKind::as_str)),
        ("status", query.status.map(Status::as_str)),
        ("client", client),
    ] {
        if let Some(value) = value {
            sql.push(format_args!(" AND {column} = ")).push_bind(storable(value).into_owned());
        }
    }
    if query.owner == OwnerFilter::WithoutClient {
        sql.push(" AND client IS NULL");
    }
    if let Some(since) = query.ended_since {
        sql.push(format_args!(" AND ({UNFINISHED} OR updated_at >= "));
        sql.push_bind(stored_time(since)).push(")");
    }
    if let Some(before) = query.before {
        sql.push(" AND seq < ").push_bind(before);
    }
    sql.push(" ORDER BY seq DESC LIMIT ").push_bind(stored_count(query.max));
    Ok(decode_rows("tasks", &rows(connection, sql.build()).await?, task))
}

/// Loads the workspaces with unfinished tasks.
pub(crate) async fn workspaces_with_work(
    connection: &mut PgConnection,
    owner: i64,
) -> Result<Vec<String>, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT DISTINCT workspace FROM tasks WHERE owner = $1 AND {UNFINISHED} ORDER BY workspace"
    )));
    let found = rows(connection, query.bind(owner)).await?;
    Ok(decode_rows("tasks", &found, |row| row.get("workspace")))
}
