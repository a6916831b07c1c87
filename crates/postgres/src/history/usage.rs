//! Pins and usage: counting, pinning, and following the files that they belong to.

use std::collections::BTreeMap;

use memory::change::{ChangeId, ChangeKind, FileChange, FolderChange};
use memory::clock::Timestamp;
use memory::path::RelativePath;
use sqlx::PgConnection;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use state::rows::{UsageKey, UsageSum, decode_rows, path_range, stored_time, sum_uses, usage_row};
use state::{UsageRow, UseEvent};

use crate::call_error::CallError;
use crate::history::lock_owner;
use crate::row::{rows, run};

type Statement<'q> = Query<'q, sqlx::Postgres, PgArguments>;

/// The uses of identities `$2` and paths `$3`: their numbers, their last times, and those of their last writes.
const COUNT: &str =
    "INSERT INTO marks (owner, identity, path, pinned, uses, last_used_at, last_written_at)
    SELECT $1, u.identity, u.path, false, u.uses, u.used, u.written
    FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
        u (identity, path, uses, used, written)
    ON CONFLICT (owner, identity, path) DO UPDATE SET uses = marks.uses + excluded.uses,
        last_used_at = greatest(marks.last_used_at, excluded.last_used_at),
        last_written_at = greatest(marks.last_written_at, excluded.last_written_at)";

/// Keeps the marks that change `$2` replaces at identities `$3` and paths `$4`, and the uses `$5` that it adds.
const KEEP: &str = "INSERT INTO open_changes
        (owner, change_id, what, root, path, pinned, uses, last_used_at, last_written_at, added)
    SELECT $1, $2, 'mark', n.identity, n.path, m.pinned, m.uses, m.last_used_at, m.last_written_at, n.added
    FROM unnest($3::text[], $4::text[], $5::bigint[]) n (identity, path, added)
    LEFT JOIN marks m ON m.owner = $1 AND m.identity = n.identity AND m.path = n.path
    ON CONFLICT DO NOTHING";

/// Keeps the marks that change `$2` replaces at identity `$3` from path `$4` up to before `$5`.
const KEEP_FOLDER: &str = "INSERT INTO open_changes
        (owner, change_id, what, root, path, pinned, uses, last_used_at, last_written_at)
    SELECT $1, $2, 'mark', identity, path, pinned, uses, last_used_at, last_written_at
    FROM marks WHERE owner = $1 AND identity = $3 AND path >= $4 AND path < $5
    ON CONFLICT DO NOTHING";

/// Keeps that there were no marks where the marks `$4`..`$5` of identity `$3` are moved: below `$6`.
const KEEP_ABSENT: &str = "INSERT INTO open_changes (owner, change_id, what, root, path)
    SELECT $1, $2, 'mark', identity, $6 || substr(path, length($4) + 1)
    FROM marks WHERE owner = $1 AND identity = $3 AND path >= $4 AND path < $5
    ON CONFLICT DO NOTHING";

const DROP: &str = "DELETE FROM marks WHERE owner = $1 AND identity = $2 AND path = ANY($3)";

/// Drops the marks of identities `$2` and paths `$3`. If `$4` holds, those stay whose memory exists in another place than
/// `$5`.
const DROP_REMOVED: &str = "DELETE FROM marks m
    USING unnest($2::text[], $3::text[], $5::text[]) n (identity, path, place)
    WHERE m.owner = $1 AND m.identity = n.identity AND m.path = n.path
        AND NOT ($4 AND EXISTS (SELECT 1 FROM heads h WHERE h.owner = $1 AND h.path = n.path AND h.place <> n.place
            AND h.identity = n.identity AND h.revision IS NOT NULL))";

/// Drops the marks `$3`..`$4` of identity `$2` except those between `$5` and `$6`.
const DROP_FOLDER: &str =
    "DELETE FROM marks WHERE owner = $1 AND identity = $2 AND path >= $3 AND path < $4
    AND NOT (path >= $5 AND path < $6)";

const MOVE: &str = "UPDATE marks SET path = $4 WHERE owner = $1 AND identity = $2 AND path = $3";

/// Moves the marks `$3`..`$4` of identity `$2` below `$5`, where there are none: a folder is moved only to a path that is
/// free.
const MOVE_FOLDER: &str = "WITH moved AS (
        DELETE FROM marks WHERE owner = $1 AND identity = $2 AND path >= $3 AND path < $4 RETURNING *)
    INSERT INTO marks (owner, identity, path, pinned, uses, last_used_at, last_written_at)
    SELECT owner, identity, $5 || substr(path, length($3) + 1), pinned, uses, last_used_at, last_written_at
    FROM moved";

/// Restores the marks that change `$2` replaced, in this order. Uses that others counted meanwhile stay. So does a pin
/// that was set meanwhile on a mark that the change only counted.
pub(crate) const RESTORE: [&str; 4] = [
    "DELETE FROM marks WHERE owner = $1 AND (identity, path) IN (SELECT root, path FROM open_changes
        WHERE owner = $1 AND change_id = $2 AND what = 'mark' AND added IS NULL)",
    "INSERT INTO marks (owner, identity, path, pinned, uses, last_used_at, last_written_at)
        SELECT owner, root, path, pinned, uses, last_used_at, last_written_at FROM open_changes
        WHERE owner = $1 AND change_id = $2 AND what = 'mark' AND added IS NULL AND uses IS NOT NULL",
    "UPDATE marks m SET uses = m.uses - b.added,
        last_used_at = CASE WHEN m.uses - b.added = coalesce(b.uses, 0) THEN b.last_used_at
            ELSE m.last_used_at END,
        last_written_at = CASE WHEN m.uses - b.added = coalesce(b.uses, 0) THEN b.last_written_at
            ELSE m.last_written_at END
        FROM open_changes b WHERE b.owner = $1 AND b.change_id = $2 AND b.what = 'mark' AND b.added IS NOT NULL
            AND m.owner = b.owner AND m.identity = b.root AND m.path = b.path AND m.uses >= b.added",
    "DELETE FROM marks WHERE owner = $1 AND uses = 0 AND NOT pinned AND (identity, path) IN
        (SELECT root, path FROM open_changes WHERE owner = $1 AND change_id = $2 AND what = 'mark'
            AND added IS NOT NULL AND uses IS NULL)",
];

/// An owner and the change that a transaction records.
type OwnerAndChange = (i64, ChangeId);

/// Counts uses as a part of a change.
pub(crate) async fn count_in_change(
    connection: &mut PgConnection,
    (owner, id): OwnerAndChange,
    uses: &[UseEvent],
) -> Result<(), CallError> {
    if uses.is_empty() {
        return Ok(());
    }
    let sums = sum_uses(uses);
    let (identities, paths): (Vec<_>, Vec<_>) =
        sums.keys().map(|(identity, path)| (*identity, path.as_str())).unzip();
    let added: Vec<_> = sums.values().map(|sum| sum.uses).collect();
    let keep = sqlx::query(KEEP).bind(owner).bind(id.0).bind(identities).bind(paths).bind(added);
    run(connection, keep).await?;
    run(connection, count(owner, &sums)).await?;
    Ok(())
}

fn count<'q>(owner: i64, sums: &BTreeMap<UsageKey<'q>, UsageSum>) -> Statement<'q> {
    let (identities, paths): (Vec<_>, Vec<_>) =
        sums.keys().map(|(identity, path)| (*identity, path.as_str())).unzip();
    sqlx::query(COUNT)
        .bind(owner)
        .bind(identities)
        .bind(paths)
        .bind(sums.values().map(|sum| sum.uses).collect::<Vec<_>>())
        .bind(sums.values().map(|sum| stored_time(sum.last_used_at)).collect::<Vec<_>>())
        .bind(sums.values().map(|sum| sum.last_written_at.map(stored_time)).collect::<Vec<_>>())
}

/// Updates the marks of files after a change of them, in order. Removals that follow each other are one step.
pub(crate) async fn apply_file_changes(
    connection: &mut PgConnection,
    (owner, id): OwnerAndChange,
    kind: ChangeKind,
    files: &[&FileChange],
) -> Result<(), CallError> {
    let moves = |file: &FileChange| {
        file.after.is_some() && file.moved_to.as_ref().is_some_and(|to| *to != file.path)
    };
    let concerned: Vec<_> =
        files.iter().copied().filter(|file| file.after.is_none() || moves(file)).collect();
    for group in concerned.chunk_by(|a, b| a.after.is_none() && b.after.is_none()) {
        let single_move = group.first().and_then(|file| Some((*file, file.moved_to.as_ref()?)));
        match single_move {
            Some((file, to)) if moves(file) => {
                let identity = file.root.identity.as_str();
                keep(connection, (owner, id), &[(identity, &file.path), (identity, to)]).await?;
                run(connection, drop_paths(owner, identity, std::slice::from_ref(to))).await?;
                let query = sqlx::query(MOVE).bind(owner).bind(identity);
                run(connection, query.bind(file.path.as_str()).bind(to.as_str())).await?;
            }
            _ => drop_removed(connection, (owner, id), kind, group).await?,
        }
    }
    Ok(())
}

/// Drops the marks of removed files.
async fn drop_removed(
    connection: &mut PgConnection,
    (owner, id): OwnerAndChange,
    kind: ChangeKind,
    files: &[&FileChange],
) -> Result<(), CallError> {
    let keys: Vec<_> = files.iter().map(|file| (file.root.identity.as_str(), &file.path)).collect();
    keep(connection, (owner, id), &keys).await?;
    // A memory that was removed outside may exist in another worktree; one that a call removed is dropped for all.
    let query = sqlx::query(DROP_REMOVED)
        .bind(owner)
        .bind(keys.iter().map(|(identity, _)| *identity).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>())
        .bind(kind == ChangeKind::Outside)
        .bind(files.iter().map(|file| file.root.place.as_str()).collect::<Vec<_>>());
    run(connection, query).await?;
    Ok(())
}

/// Keeps marks that a change replaces. A mark is kept once, as it was before the change.
async fn keep(
    connection: &mut PgConnection,
    (owner, id): OwnerAndChange,
    keys: &[UsageKey<'_>],
) -> Result<(), CallError> {
    let query = sqlx::query(KEEP)
        .bind(owner)
        .bind(id.0)
        .bind(keys.iter().map(|(identity, _)| *identity).collect::<Vec<_>>())
        .bind(keys.iter().map(|(_, path)| path.as_str()).collect::<Vec<_>>())
        .bind(vec![None::<i64>; keys.len()]);
    run(connection, query).await?;
    Ok(())
}

/// Updates all marks below a folder after a change of it. External changes are known only file by file, because the
/// folder may still exist in another worktree.
pub(crate) async fn apply_folder_change(
    connection: &mut PgConnection,
    (owner, id): OwnerAndChange,
    kind: ChangeKind,
    folder: &FolderChange,
) -> Result<(), CallError> {
    if kind == ChangeKind::Outside {
        return Ok(());
    }
    let identity = folder.root.identity.as_str();
    let (from, from_end) = path_range(&folder.path);
    let keep_folder = |from: String, end: String| {
        sqlx::query(KEEP_FOLDER).bind(owner).bind(id.0).bind(identity).bind(from).bind(end)
    };
    let drop_folder = |from: String, end: String, except: (String, String)| {
        let query = sqlx::query(DROP_FOLDER).bind(owner).bind(identity).bind(from).bind(end);
        query.bind(except.0).bind(except.1)
    };
    run(connection, keep_folder(from.clone(), from_end.clone())).await?;
    let Some(to) = &folder.moved_to else {
        let none = (String::new(), String::new());
        run(connection, drop_folder(from, from_end, none)).await?;
        return Ok(());
    };
    keep(connection, (owner, id), &[(identity, to)]).await?;
    run(connection, drop_paths(owner, identity, std::slice::from_ref(to))).await?;
    let (to, to_end) = path_range(to);
    run(connection, keep_folder(to.clone(), to_end.clone())).await?;
    let absent = sqlx::query(KEEP_ABSENT).bind(owner).bind(id.0).bind(identity);
    run(connection, absent.bind(&from).bind(&from_end).bind(&to)).await?;
    run(connection, drop_folder(to.clone(), to_end, (from.clone(), from_end.clone()))).await?;
    let query = sqlx::query(MOVE_FOLDER).bind(owner).bind(identity);
    run(connection, query.bind(from).bind(from_end).bind(to)).await?;
    Ok(())
}

/// Counts uses.
pub(crate) async fn add_uses(
    connection: &mut PgConnection,
    owner: i64,
    uses: &[UseEvent],
) -> Result<(), CallError> {
    lock_owner(connection, owner).await?;
    run(connection, count(owner, &sum_uses(uses))).await?;
    Ok(())
}

/// Loads the marks of an identity.
pub(crate) async fn load(
    connection: &mut PgConnection,
    owner: i64,
    identity: &str,
) -> Result<Vec<UsageRow>, CallError> {
    let query = sqlx::query(
        "SELECT path, pinned, uses, last_used_at, last_written_at FROM marks
        WHERE owner = $1 AND identity = $2 ORDER BY path",
    );
    let found = rows(connection, query.bind(owner).bind(identity)).await?;
    Ok(decode_rows("marks", &found, usage_row))
}

/// Pins a memory, which counts as a use. Returns whether it was not pinned before.
pub(crate) async fn pin(
    connection: &mut PgConnection,
    owner: i64,
    ((identity, path), at): (UsageKey<'_>, Timestamp),
) -> Result<bool, CallError> {
    lock_owner(connection, owner).await?;
    let pin = sqlx::query(
        "INSERT INTO marks (owner, identity, path, pinned, uses, last_used_at)
        VALUES ($1, $2, $3, true, 1, $4)
        ON CONFLICT (owner, identity, path) DO UPDATE SET pinned = true, uses = marks.uses + 1,
            last_used_at = greatest(marks.last_used_at, excluded.last_used_at)
            WHERE NOT marks.pinned",
    );
    let pin = pin.bind(owner).bind(identity).bind(path.as_str()).bind(stored_time(at));
    Ok(run(connection, pin).await? > 0)
}

/// Unpins a memory. Returns whether it was pinned before.
pub(crate) async fn unpin(
    connection: &mut PgConnection,
    owner: i64,
    (identity, path): UsageKey<'_>,
) -> Result<bool, CallError> {
    lock_owner(connection, owner).await?;
    let unpin = sqlx::query(
        "UPDATE marks SET pinned = false WHERE owner = $1 AND identity = $2 AND path = $3 AND pinned",
    );
    Ok(run(connection, unpin.bind(owner).bind(identity).bind(path.as_str())).await? > 0)
}

/// Adds marks that were recorded elsewhere. Of several marks of one memory, each raises the mark.
pub(crate) async fn merge(
    connection: &mut PgConnection,
    owner: i64,
    (identity, marks): (&str, &[UsageRow]),
) -> Result<(), CallError> {
    lock_owner(connection, owner).await?;
    let merge = sqlx::query(
        "INSERT INTO marks (owner, identity, path, pinned, uses, last_used_at, last_written_at)
        SELECT $1, $2, u.path, bool_or(u.pinned), max(u.uses), max(u.used), max(u.written)
        FROM unnest($3::text[], $4::boolean[], $5::bigint[], $6::bigint[], $7::bigint[])
            u (path, pinned, uses, used, written) GROUP BY u.path
        ON CONFLICT (owner, identity, path) DO UPDATE SET pinned = marks.pinned OR excluded.pinned,
            uses = greatest(marks.uses, excluded.uses),
            last_used_at = greatest(marks.last_used_at, excluded.last_used_at),
            last_written_at = greatest(marks.last_written_at, excluded.last_written_at)",
    );
    let usages = || marks.iter().map(|mark| &mark.usage);
    let merge = merge
        .bind(owner)
        .bind(identity)
        .bind(marks.iter().map(|mark| mark.path.as_str()).collect::<Vec<_>>())
        .bind(marks.iter().map(|mark| mark.pinned).collect::<Vec<_>>())
        // A count beyond the range of a column can only come from a damaged database.
        .bind(
            usages().map(|usage| i64::try_from(usage.uses).unwrap_or(i64::MAX)).collect::<Vec<_>>(),
        )
        .bind(usages().map(|usage| usage.last_used_at.map(stored_time)).collect::<Vec<_>>())
        .bind(usages().map(|usage| usage.last_written_at.map(stored_time)).collect::<Vec<_>>());
    run(connection, merge).await?;
    Ok(())
}

fn drop_paths<'q>(owner: i64, identity: &'q str, paths: &'q [RelativePath]) -> Statement<'q> {
    let paths: Vec<_> = paths.iter().map(RelativePath::as_str).collect();
    sqlx::query(DROP).bind(owner).bind(identity).bind(paths)
}

/// Drops the marks of some memories, or of the whole identity.
pub(crate) async fn drop_marks(
    connection: &mut PgConnection,
    owner: i64,
    (identity, paths): (&str, Option<&[RelativePath]>),
) -> Result<(), CallError> {
    lock_owner(connection, owner).await?;
    let query = match paths {
        Some(paths) => drop_paths(owner, identity, paths),
        None => sqlx::query("DELETE FROM marks WHERE owner = $1 AND identity = $2")
            .bind(owner)
            .bind(identity),
    };
    run(connection, query).await?;
    Ok(())
}
