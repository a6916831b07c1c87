//! Queries of history: changes by place, path, task and time, newest first, and open changes with their bytes.

use memory::change::{ChangeId, MemoryChange};
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::{PgConnection, Postgres, QueryBuilder};
use state::rows::{
    Columns, PackedContent, changes, decode_rows, path_change, path_range, single,
    stats as stats_row, stored_count, stored_revision, stored_time,
};
use state::{ChangeQuery, Fault, OpenChange, PathChange, Stats};

use crate::call_error::CallError;
use crate::row::{rows, storable};

const CHANGE_AND_FILE: &str = "SELECT c.id, c.at, c.kind, c.actor, c.trust AS change_trust, c.origin, c.client,
    c.session, c.task, c.tool_call, c.model, c.note, c.undoes, c.folder_identity, c.folder_place, c.folder_path,
    c.folder_moved_to, f.seq, f.identity, f.place, f.path, f.moved_to, f.before, f.after, f.trust AS file_trust";

/// Loads the changes that match a query.
pub(crate) async fn find(
    connection: &mut PgConnection,
    owner: i64,
    query: &ChangeQuery,
) -> Result<Vec<MemoryChange>, CallError> {
    let mut sql = QueryBuilder::new("WITH wanted AS (SELECT c.id FROM changes c WHERE c.owner = ");
    sql.push_bind(owner);
    narrow(&mut sql, owner, query);
    sql.push(" ORDER BY c.id DESC LIMIT ").push_bind(stored_count(query.max)).push(") ");
    sql.push(CHANGE_AND_FILE)
        .push(", false AS wrote FROM wanted JOIN changes c ON c.id = wanted.id AND c.owner = ");
    sql.push_bind(owner).push(
        " LEFT JOIN change_files f ON f.owner = c.owner AND f.change_id = c.id ORDER BY c.id DESC, f.seq",
    );
    let found = rows(connection, sql.build()).await?;
    Ok(changes(&found).into_iter().map(|open| open.change).collect())
}

/// Adds the conditions of a query.
fn narrow(sql: &mut QueryBuilder<Postgres>, owner: i64, query: &ChangeQuery) {
    match &query.path {
        Some(path) => narrow_to_path(sql, owner, (path, query.places.first())),
        None if !query.places.is_empty() => {
            sql.push(" AND (c.folder_place = ANY(").push_bind(query.places.clone());
            sql.push(
                ") OR EXISTS (SELECT 1 FROM change_files f
                    WHERE f.owner = c.owner AND f.change_id = c.id AND f.place = ANY(",
            );
            sql.push_bind(query.places.clone()).push(")))");
        }
        None => {}
    }
    let texts = [
        ("task", query.task.as_deref()),
        ("session", query.session.as_deref()),
        ("actor", query.actor.as_ref().map(AsRef::as_ref)),
    ];
    for (column, text) in texts {
        if let Some(text) = text {
            sql.push(format_args!(" AND c.{column} = ")).push_bind(storable(text).into_owned());
        }
    }
    let numbers = [
        ("at >=", query.since.map(stored_time)),
        ("at <=", query.until.map(stored_time)),
        ("id <", query.before.map(|id| id.0)),
        ("id >", query.after.map(|id| id.0)),
    ];
    for (condition, number) in numbers {
        if let Some(number) = number {
            sql.push(format_args!(" AND c.{condition} ")).push_bind(number);
        }
    }
}

/// Restricts a query to a memory or a folder, by its path before or after. Each branch is one range of an index.
fn narrow_to_path(
    sql: &mut QueryBuilder<Postgres>,
    owner: i64,
    (path, place): (&RelativePath, Option<&String>),
) {
    let columns = [
        ("change_id", "change_files", "place", "path"),
        ("change_id", "change_files", "place", "moved_to"),
        ("id", "changes", "folder_place", "folder_path"),
        ("id", "changes", "folder_place", "folder_moved_to"),
    ];
    let (from, end) = path_range(path);
    sql.push(" AND c.id IN (");
    for (index, (id, table, in_place, column)) in columns.into_iter().enumerate() {
        if index > 0 {
            sql.push(" UNION ALL ");
        }
        sql.push(format_args!("SELECT {id} FROM {table} WHERE owner = ")).push_bind(owner);
        if let Some(place) = place {
            sql.push(format_args!(" AND {in_place} = ")).push_bind(place.clone());
        }
        sql.push(format_args!(" AND ({column} = ")).push_bind(path.as_str().to_owned());
        sql.push(format_args!(" OR ({column} >= ")).push_bind(from.clone());
        sql.push(format_args!(" AND {column} < ")).push_bind(end.clone()).push("))");
    }
    sql.push(")");
}

/// Loads the last changes of memories.
pub(crate) async fn last_changes(
    connection: &mut PgConnection,
    owner: i64,
    (place, paths, max): (&str, &[RelativePath], usize),
) -> Result<Vec<PathChange>, CallError> {
    // For each memory: the newest of its changes in place and of its moves to this path, each from one range of an index.
    let query = sqlx::query(
        "SELECT asked.path, n.change_id AS id, c.at, c.actor, c.model, n.before, n.after, n.trust
        FROM unnest($3::text[]) WITH ORDINALITY asked (path, nth)
        CROSS JOIN LATERAL (
            (SELECT change_id, seq, before, after, trust FROM change_files f
                WHERE f.owner = $1 AND f.place = $2 AND f.path = asked.path AND f.moved_to IS NULL
                ORDER BY change_id DESC, seq DESC LIMIT $4)
            UNION ALL
            (SELECT change_id, seq, before, after, trust FROM change_files f
                WHERE f.owner = $1 AND f.place = $2 AND f.moved_to = asked.path
                ORDER BY change_id DESC, seq DESC LIMIT $4)
            ORDER BY change_id DESC, seq DESC LIMIT $4) n
        JOIN changes c ON c.owner = $1 AND c.id = n.change_id
        ORDER BY asked.nth, n.change_id DESC, n.seq DESC",
    );
    let paths: Vec<_> = paths.iter().map(RelativePath::as_str).collect();
    let query = query.bind(owner).bind(place).bind(paths).bind(stored_count(max));
    Ok(decode_rows("change_files", &rows(connection, query).await?, path_change))
}

/// Loads one change.
pub(crate) async fn get(
    connection: &mut PgConnection,
    owner: i64,
    id: ChangeId,
) -> Result<Option<MemoryChange>, CallError> {
    Ok(by_ids(connection, owner, &[id]).await?.pop())
}

/// Loads the changes with these numbers, as far as history has them.
pub(crate) async fn by_ids(
    connection: &mut PgConnection,
    owner: i64,
    ids: &[ChangeId],
) -> Result<Vec<MemoryChange>, CallError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
    let mut sql = QueryBuilder::new(CHANGE_AND_FILE);
    sql.push(
        ", false AS wrote FROM changes c
        LEFT JOIN change_files f ON f.owner = c.owner AND f.change_id = c.id WHERE c.owner = ",
    );
    sql.push_bind(owner).push(" AND c.id = ANY(").push_bind(ids).push(") ORDER BY c.id, f.seq");
    let found = rows(connection, sql.build()).await?;
    Ok(changes(&found).into_iter().map(|open| open.change).collect())
}

/// Loads the open changes that touch a place, oldest first, with the bytes that they write.
pub(crate) async fn open_changes(
    connection: &mut PgConnection,
    owner: i64,
    place: &str,
) -> Result<Vec<OpenChange>, CallError> {
    let mut sql = QueryBuilder::new(CHANGE_AND_FILE);
    sql.push(
        ", f.wrote, k.codec, k.size, k.bytes FROM open_changes o
        JOIN changes c ON c.owner = o.owner AND c.id = o.change_id
        LEFT JOIN change_files f ON f.owner = c.owner AND f.change_id = c.id
        LEFT JOIN contents k ON f.wrote AND k.owner = f.owner AND k.revision = f.after
        WHERE o.what = 'change' AND o.owner = ",
    );
    sql.push_bind(owner).push(" AND (c.folder_place = ").push_bind(place);
    sql.push(
        " OR EXISTS (SELECT 1 FROM change_files g
            WHERE g.owner = c.owner AND g.change_id = c.id AND g.place = ",
    );
    sql.push_bind(place).push(")) ORDER BY c.id, f.seq");
    Ok(changes(&rows(connection, sql.build()).await?))
}

/// Loads the bytes of a revision.
pub(crate) async fn content(
    connection: &mut PgConnection,
    owner: i64,
    revision: &Revision,
) -> Result<Option<Vec<u8>>, CallError> {
    let query =
        sqlx::query("SELECT codec, size, bytes FROM contents WHERE owner = $1 AND revision = $2");
    let found = rows(connection, query.bind(owner).bind(stored_revision(revision))).await?;
    let Some(row) = found.first() else { return Ok(None) };
    match PackedContent::read(Columns(row)).ok().and_then(|packed| packed.unpack(revision)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Fault::Digest(revision.to_string()).into()),
    }
}

/// Counts the rows and stored bytes of an owner. The size on disk is that of the whole database.
pub(crate) async fn stats(connection: &mut PgConnection, owner: i64) -> Result<Stats, CallError> {
    let query = sqlx::query(
        "SELECT (SELECT count(*) FROM changes WHERE owner = $1) AS changes,
            (SELECT count(*) FROM open_changes WHERE owner = $1 AND what = 'change') AS open,
            (SELECT coalesce(sum(octet_length(bytes)), 0)::bigint FROM contents WHERE owner = $1)
                AS content_bytes,
            (SELECT count(*) FROM tasks WHERE owner = $1) AS tasks,
            (SELECT count(*) FROM sessions WHERE owner = $1) AS sessions,
            pg_database_size(current_database()) AS database_bytes",
    );
    Ok(single(&rows(connection, query.bind(owner)).await?, stats_row)?)
}
