//! Queries of history: changes by place, path, task and time, newest first, and open changes with their bytes.

use memory::change::{ChangeId, MemoryChange};
use memory::path::RelativePath;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{ChangeQuery, OpenChange, PathChange, Stats};
use crate::rows::{self, path_range, single, stored_count, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse};

const CHANGE_AND_FILE: &str =
    "SELECT c.id, c.at, c.kind, c.actor, c.trust AS change_trust, c.origin,
    c.client, c.session, c.task, c.tool_call, c.model, c.note, c.undoes, c.folder_identity, c.folder_place,
    c.folder_path, c.folder_moved_to, f.seq, f.identity, f.place, f.path, f.moved_to, f.before,
    f.after, f.trust AS file_trust";

/// Loads the changes that match a query.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    query: &ChangeQuery,
) -> Result<Vec<MemoryChange>, Fault> {
    let mut script = Batch::new("WITH wanted (id) AS (SELECT c.id FROM changes c WHERE true");
    narrow(&mut script, query);
    let max = stored_count(query.max);
    script.add(" ORDER BY c.id DESC LIMIT $1)").value(max);
    script.add(CHANGE_AND_FILE);
    script.add(
        ", NULL AS codec FROM wanted JOIN changes c ON c.id = wanted.id
        LEFT JOIN change_files f ON f.change_id = c.id ORDER BY c.id DESC, f.seq",
    );
    let rows = script.rows(connection, StatementReuse::OneShot).await?;
    Ok(rows::changes(&rows).into_iter().map(|open| open.change).collect())
}

/// Loads the last changes of memories.
pub(super) async fn last_changes(
    connection: &mut SqliteConnection,
    place: &str,
    (paths, max): (&[RelativePath], usize),
) -> Result<Vec<PathChange>, Fault> {
    let names = paths.iter().map(RelativePath::as_str);
    let names = names.collect::<serde_json::Value>().to_string();
    // Each memory has two index ranges: its changes in place, and its moves to this path. The changes
    // of a range start at the number of its `max`th newest. Without that bound, SQLite would read all
    // files of a change for each memory.
    let newest = |column: &str, is_counted: &str| {
        format!(
            "SELECT asked.value AS path, asked.key AS nth, f.change_id, f.seq, f.before, f.after,
                f.trust
            FROM json_each($1) asked CROSS JOIN change_files f
            ON f.place = $2 AND f.{column} = asked.value AND f.{is_counted} AND f.change_id >= coalesce(
                (SELECT b.change_id FROM change_files b
                WHERE b.place = $2 AND b.{column} = asked.value AND b.{is_counted}
                ORDER BY b.change_id DESC LIMIT 1 OFFSET $3 - 1), 0)"
        )
    };
    let (unmoved, moved_here) =
        (newest("path", "moved_to IS NULL"), newest("moved_to", "moved_to IS NOT NULL"));
    let rows = Batch::new(&format!(
        "SELECT f.path, f.nth, c.id, c.at, c.actor, c.model, f.before, f.after, f.trust
        FROM ({unmoved} UNION ALL {moved_here}) f CROSS JOIN changes c ON c.id = f.change_id
        ORDER BY f.nth, f.change_id DESC, f.seq DESC"
    ))
    .bind(names)
    .bind(place)
    .bind(stored_count(max))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let mut changes = rows::decode_rows("change_files", &rows, rows::path_change);
    let mut of_path = (None, 0);
    changes.retain(|change: &PathChange| {
        if of_path.0.as_ref() != Some(&change.path) {
            of_path = (Some(change.path.clone()), 0);
        }
        of_path.1 += 1;
        of_path.1 <= max
    });
    Ok(changes)
}

/// Adds the conditions of a query.
fn narrow(script: &mut Batch, query: &ChangeQuery) {
    match &query.path {
        Some(path) => narrow_to_path(script, path, query.places.first()),
        None if !query.places.is_empty() => narrow_to_places(script, &query.places),
        None => {}
    }
    if let Some(task) = &query.task {
        script.add(" AND c.task = $1").value(task.as_str());
    }
    if let Some(session) = &query.session {
        script.add(" AND c.session = $1").value(session.as_str());
    }
    if let Some(actor) = query.actor {
        script.add(" AND c.actor = $1").value(actor.as_ref());
    }
    if let Some(since) = query.since {
        script.add(" AND c.at >= $1").value(stored_time(since));
    }
    if let Some(until) = query.until {
        script.add(" AND c.at <= $1").value(stored_time(until));
    }
    if let Some(before) = query.before {
        script.add(" AND c.id < $1").value(before.0);
    }
    if let Some(after) = query.after {
        script.add(" AND c.id > $1").value(after.0);
    }
}

/// Restricts a query to a memory or a folder, by its path before or after. Each branch is one index range: with an
/// `OR`, SQLite would scan the whole place.
fn narrow_to_path(script: &mut Batch, path: &RelativePath, place: Option<&String>) {
    let columns = [
        ("change_id", "change_files", "place", "path"),
        ("change_id", "change_files", "place", "moved_to"),
        ("id", "changes", "folder_place", "folder_path"),
        ("id", "changes", "folder_place", "folder_moved_to"),
    ];
    let branches = columns.map(|(id, table, in_place, column)| {
        let in_place = place.map_or_else(String::new, |_| format!("{in_place} = $4 AND "));
        format!(
            "SELECT {id} FROM {table} WHERE {in_place}{column} = $1
            UNION ALL SELECT {id} FROM {table} WHERE {in_place}{column} >= $2 AND {column} < $3"
        )
    });
    script.add(&format!(" AND c.id IN ({})", branches.join(" UNION ALL ")));
    let (from, end) = path_range(path);
    script.value(path.as_str()).value(from).value(end);
    if let Some(place) = place {
        script.value(place.as_str());
    }
}

/// Restricts a query to places. The plus keeps SQLite from using the index on `place` and scanning a whole place for
/// each change.
fn narrow_to_places(script: &mut Batch, places: &[String]) {
    let list = (1..=places.len()).map(|number| format!("${number}")).collect::<Vec<_>>().join(", ");
    script.add(&format!(
        " AND (c.folder_place IN ({list}) OR EXISTS (SELECT 1 FROM change_files f
        WHERE f.change_id = c.id AND +f.place IN ({list})))"
    ));
    for place in places {
        script.value(place.as_str());
    }
}

/// Loads one change.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    id: ChangeId,
) -> Result<Option<MemoryChange>, Fault> {
    let mut script = Batch::new(CHANGE_AND_FILE);
    script.add(
        ", NULL AS codec FROM changes c LEFT JOIN change_files f ON f.change_id = c.id
        WHERE c.id = $1 ORDER BY f.seq",
    );
    let rows = script.bind(id.0).rows(connection, StatementReuse::Persistent).await?;
    Ok(rows::changes(&rows).into_iter().next().map(|open| open.change))
}

/// Loads the open changes that touch a place, oldest first, with the bytes that they write.
pub(super) async fn open_changes(
    connection: &mut SqliteConnection,
    place: &str,
) -> Result<Vec<OpenChange>, Fault> {
    let mut script = Batch::new(CHANGE_AND_FILE);
    script.add(
        ", f.wrote, k.codec, k.size, k.bytes
        FROM changes c LEFT JOIN change_files f ON f.change_id = c.id
        LEFT JOIN contents k ON f.wrote = 1 AND k.revision = f.after
        WHERE c.id IN (SELECT change_id FROM open_changes WHERE what = 'change')
        AND (c.folder_place = $1 OR EXISTS
            (SELECT 1 FROM change_files g WHERE g.change_id = c.id AND +g.place = $1))
        ORDER BY c.id, f.seq",
    );
    let rows = script.bind(place).rows(connection, StatementReuse::Persistent).await?;
    Ok(rows::changes(&rows))
}

/// Counts rows and stored bytes. The caller adds the size of the database file.
pub(super) async fn stats(connection: &mut SqliteConnection) -> Result<Stats, Fault> {
    let rows = Batch::new(
        "SELECT changes, content_bytes, (SELECT count(*) FROM open_changes WHERE what = 'change') AS open,
            (SELECT count(*) FROM tasks) AS tasks, (SELECT count(*) FROM sessions) AS sessions,
            0 AS database_bytes
        FROM totals",
    )
    .rows(connection, StatementReuse::OneShot)
    .await?;
    single(&rows, rows::stats)
}
