//! Pins and usage: counting, pinning, and following the files that they belong to.
//!
//! A row of the table `marks` holds both for one memory. Its key is an identity and a path. The marks of a folder are
//! the paths between `folder/` and `folder0`, the character after the slash. So neither `folder2` nor a name with a
//! wildcard in it is matched by mistake.

use memory::change::{ChangeKind, FileChange, FolderChange};
use memory::clock::Timestamp;
use memory::path::RelativePath;
use memory::usage::Usage;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{UsageRow, UseEvent};
use crate::rows::{self, Columns, UsageKey, UsageSum, path_range, stored_time, sum_uses};
use crate::sqlite::batch::{Batch, StatementReuse};

/// Marks that are written in one message.
const ROWS_PER_MESSAGE: usize = 64;

/// Counts `$3` uses of identity `$1`, path `$2`, the last at `$4`, the last write at `$5`.
const COUNT: &str =
    "INSERT INTO marks (identity, path, pinned, uses, last_used_at, last_written_at)
    VALUES ($1, $2, 0, $3, $4, $5)
    ON CONFLICT (identity, path) DO UPDATE SET uses = uses + excluded.uses,
        last_used_at = max(coalesce(last_used_at, excluded.last_used_at), excluded.last_used_at),
        last_written_at = coalesce(max(last_written_at, excluded.last_written_at),
            last_written_at, excluded.last_written_at);";

/// Raises the mark of identity `$1`, path `$2` to pin `$3`, `$4` uses, the last at `$5`, the last write at `$6`.
const MERGE: &str =
    "INSERT INTO marks (identity, path, pinned, uses, last_used_at, last_written_at)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (identity, path) DO UPDATE SET pinned = max(pinned, excluded.pinned),
        uses = max(uses, excluded.uses),
        last_used_at = coalesce(max(last_used_at, excluded.last_used_at),
            last_used_at, excluded.last_used_at),
        last_written_at = coalesce(max(last_written_at, excluded.last_written_at),
            last_written_at, excluded.last_written_at);";

/// Saves the mark that the latest change replaces at identity `$1`, path `$2`, and the `$3` uses that it adds.
const KEEP: &str = "INSERT INTO open_changes
    (change_id, what, root, path, pinned, uses, last_used_at, last_written_at, added)
    SELECT (SELECT last_change FROM totals), 'mark', $1, $2, m.pinned, m.uses, m.last_used_at,
        m.last_written_at, $3
    FROM (SELECT 1) LEFT JOIN marks m ON m.identity = $1 AND m.path = $2 WHERE true
    ON CONFLICT DO NOTHING;";

/// Saves the marks that the latest change replaces at identity `$1` from path `$2` up to before `$3`.
const KEEP_FOLDER: &str = "INSERT INTO open_changes
    (change_id, what, root, path, pinned, uses, last_used_at, last_written_at, added)
    SELECT (SELECT last_change FROM totals), 'mark', identity, path, pinned, uses, last_used_at,
        last_written_at, NULL
    FROM marks WHERE identity = $1 AND path >= $2 AND path < $3
    ON CONFLICT DO NOTHING;";

/// Saves that no marks existed where the marks `$2`..`$3` of identity `$1` are moved: below `$4`.
const KEEP_ABSENT: &str = "INSERT INTO open_changes (change_id, what, root, path)
    SELECT (SELECT last_change FROM totals), 'mark', identity, $4 || substr(path, length($2) + 1)
    FROM marks WHERE identity = $1 AND path >= $2 AND path < $3
    ON CONFLICT DO NOTHING;";

const DROP: &str = "DELETE FROM marks WHERE identity = $1 AND path = $2;";

/// Drops the mark of identity `$1`, path `$2` unless the memory exists in another place than `$3`. Finds the places by
/// one index seek each: places are few, and heads of each are many.
const DROP_UNLESS_ELSEWHERE: &str = "WITH RECURSIVE places (place) AS (
        SELECT min(place) FROM heads
        UNION ALL SELECT (SELECT min(place) FROM heads WHERE place > places.place)
            FROM places WHERE places.place IS NOT NULL)
    DELETE FROM marks WHERE identity = $1 AND path = $2
    AND NOT EXISTS (SELECT 1 FROM places CROSS JOIN heads h
        ON h.place = places.place AND h.path = $2
        WHERE h.place <> $3 AND h.identity = $1 AND h.revision IS NOT NULL);";

const DROP_FOLDER: &str = "DELETE FROM marks WHERE identity = $1 AND path >= $2 AND path < $3;";

/// Drops the marks `$2`..`$3` of identity `$1` except those between `$4` and `$5`.
const DROP_FOLDER_EXCEPT: &str = "DELETE FROM marks
    WHERE identity = $1 AND path >= $2 AND path < $3 AND NOT (path >= $4 AND path < $5);";

const MOVE: &str = "UPDATE marks SET path = $3 WHERE identity = $1 AND path = $2;";

const MOVE_FOLDER: &str = "UPDATE OR REPLACE marks SET path = $4 || substr(path, length($2) + 1)
    WHERE identity = $1 AND path >= $2 AND path < $3;";

/// Restores the marks that change `$1` replaced. Uses that others counted meanwhile stay. So does a pin that was set
/// meanwhile on a mark that the change only counted.
pub(super) const RESTORE: &str = "DELETE FROM marks WHERE (identity, path) IN
        (SELECT root, path FROM open_changes
        WHERE change_id = $1 AND what = 'mark' AND added IS NULL);
    INSERT OR REPLACE INTO marks (identity, path, pinned, uses, last_used_at, last_written_at)
        SELECT root, path, pinned, uses, last_used_at, last_written_at
        FROM open_changes
        WHERE change_id = $1 AND what = 'mark' AND added IS NULL AND uses IS NOT NULL;
    UPDATE marks SET uses = marks.uses - b.added,
        last_used_at = iif(marks.uses - b.added = coalesce(b.uses, 0),
            b.last_used_at, marks.last_used_at),
        last_written_at = iif(marks.uses - b.added = coalesce(b.uses, 0),
            b.last_written_at, marks.last_written_at)
        FROM open_changes b WHERE b.change_id = $1 AND b.what = 'mark' AND b.added IS NOT NULL
            AND b.root = marks.identity AND b.path = marks.path AND marks.uses >= b.added;
    DELETE FROM marks WHERE uses = 0 AND pinned = 0 AND (identity, path) IN
        (SELECT root, path FROM open_changes
        WHERE change_id = $1 AND what = 'mark' AND added IS NOT NULL AND uses IS NULL);";

/// Counts uses as a part of the latest change.
pub(super) fn count_in_change(
    script: &mut Batch,
    (identity, path): UsageKey<'_>,
    counted: UsageSum,
) {
    script.add(KEEP).value(identity).value(path.as_str()).value(counted.uses);
    count(script, (identity, path), counted);
}

fn count(script: &mut Batch, (identity, path): UsageKey<'_>, counted: UsageSum) {
    script
        .add(COUNT)
        .value(identity)
        .value(path.as_str())
        .value(counted.uses)
        .value(stored_time(counted.last_used_at))
        .value(counted.last_written_at.map(stored_time));
}

/// Updates the mark of one file after a change of it.
pub(super) fn apply_file_change(script: &mut Batch, kind: ChangeKind, file: &FileChange) {
    let identity = file.root.identity.as_str();
    match (&file.moved_to, &file.after) {
        (Some(to), Some(_)) if *to != file.path => {
            for path in [&file.path, to] {
                save_previous(script, (identity, path));
            }
            script.add(DROP).value(identity).value(to.as_str());
            script.add(MOVE).value(identity).value(file.path.as_str()).value(to.as_str());
        }
        (_, None) => {
            save_previous(script, (identity, &file.path));
            if kind == ChangeKind::Outside {
                script.add(DROP_UNLESS_ELSEWHERE);
                script.value(identity).value(file.path.as_str()).value(file.root.place.as_str());
            } else {
                script.add(DROP).value(identity).value(file.path.as_str());
            }
        }
        (_, Some(_)) => {}
    }
}

fn save_previous(script: &mut Batch, (identity, path): UsageKey<'_>) {
    script.add(KEEP).value(identity).value(path.as_str()).value(None::<i64>);
}

/// Updates all marks below a folder after a change of it. External changes are known only file by file, because the
/// folder may still exist in another worktree.
pub(super) fn apply_folder_change(script: &mut Batch, kind: ChangeKind, folder: &FolderChange) {
    if kind == ChangeKind::Outside {
        return;
    }
    let identity = folder.root.identity.as_str();
    let (from, from_end) = path_range(&folder.path);
    script.add(KEEP_FOLDER).value(identity).value(from.as_str()).value(from_end.as_str());
    let Some(to) = &folder.moved_to else {
        script.add(DROP_FOLDER).value(identity).value(from).value(from_end);
        return;
    };
    save_previous(script, (identity, to));
    script.add(DROP).value(identity).value(to.as_str());
    let (to, to_end) = path_range(to);
    script.add(KEEP_FOLDER).value(identity).value(to.as_str()).value(to_end.as_str());
    script.add(KEEP_ABSENT);
    script.value(identity).value(from.as_str()).value(from_end.as_str()).value(to.as_str());
    script.add(DROP_FOLDER_EXCEPT).value(identity).value(to.as_str()).value(to_end);
    script.value(from.as_str()).value(from_end.as_str());
    script.add(MOVE_FOLDER).value(identity).value(from).value(from_end).value(to);
}

/// Counts uses in one transaction.
pub(super) async fn add_uses(
    connection: &mut SqliteConnection,
    uses: &[UseEvent],
) -> Result<(), Fault> {
    let sums = sum_uses(uses);
    let reuse = if sums.len() == 1 { StatementReuse::Persistent } else { StatementReuse::OneShot };
    let mut script = Batch::new("BEGIN IMMEDIATE;");
    for (index, (key, counted)) in sums.into_iter().enumerate() {
        if index > 0 && index % ROWS_PER_MESSAGE == 0 {
            std::mem::take(&mut script).run(connection, reuse).await?;
        }
        count(&mut script, key, counted);
    }
    script.with("COMMIT;").run(connection, reuse).await?;
    Ok(())
}

/// Loads the marks of an identity as one row: passing a row between threads costs more than its content.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    identity: &str,
) -> Result<Vec<UsageRow>, Fault> {
    let all = Batch::new(
        "SELECT json_group_array(json_array(path, pinned, uses, last_used_at, last_written_at))
            AS marks
        FROM (SELECT * FROM marks WHERE identity = $1 ORDER BY path)",
    )
    .bind(identity)
    .rows(connection, StatementReuse::Persistent)
    .await;
    let marks = all.ok().and_then(|rows| from_json(Columns(rows.first()?).get("marks").ok()?));
    match marks {
        Some(marks) => Ok(marks),
        None => load_one_by_one(connection, identity).await,
    }
}

/// The columns of a mark.
type StoredUsage = (String, i64, u64, Option<i64>, Option<i64>);

/// Decodes the marks; `None` if any of them is invalid.
fn from_json(json: &str) -> Option<Vec<UsageRow>> {
    let stored: Vec<StoredUsage> = serde_json::from_str(json).ok()?;
    let time = |stored: Option<i64>| match stored {
        None => Some(None),
        Some(stored) => rows::time(stored).map(Some),
    };
    let mark = |(path, pinned, uses, last_used_at, last_written_at): StoredUsage| {
        Some(UsageRow {
            path: RelativePath::parse(&path).ok()?,
            pinned: matches!(pinned, 0 | 1).then_some(pinned == 1)?,
            usage: Usage {
                uses,
                last_used_at: time(last_used_at)?,
                last_written_at: time(last_written_at)?,
            },
        })
    };
    stored.into_iter().map(mark).collect()
}

/// Loads the valid marks row by row, after [`from_json`] found an invalid one.
async fn load_one_by_one(
    connection: &mut SqliteConnection,
    identity: &str,
) -> Result<Vec<UsageRow>, Fault> {
    let rows = Batch::new(
        "SELECT path, pinned, uses, last_used_at, last_written_at FROM marks WHERE identity = $1
        ORDER BY path",
    )
    .bind(identity)
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("marks", &rows, rows::usage_row))
}

/// Pins a memory, which counts as a use. Returns whether it was not pinned before.
pub(super) async fn pin(
    connection: &mut SqliteConnection,
    (identity, path): UsageKey<'_>,
    at: Timestamp,
) -> Result<bool, Fault> {
    let changed = Batch::new(
        "INSERT INTO marks (identity, path, pinned, uses, last_used_at) VALUES ($1, $2, 1, 1, $3)
        ON CONFLICT (identity, path) DO UPDATE SET pinned = 1, uses = uses + 1,
            last_used_at = max(coalesce(last_used_at, excluded.last_used_at), excluded.last_used_at)
            WHERE pinned = 0",
    )
    .bind(identity)
    .bind(path.as_str())
    .bind(stored_time(at))
    .run(connection, StatementReuse::OneShot)
    .await?;
    Ok(changed > 0)
}

/// Unpins a memory. Returns whether it was pinned before.
pub(super) async fn unpin(
    connection: &mut SqliteConnection,
    (identity, path): UsageKey<'_>,
) -> Result<bool, Fault> {
    let changed =
        Batch::new("UPDATE marks SET pinned = 0 WHERE identity = $1 AND path = $2 AND pinned = 1")
            .bind(identity)
            .bind(path.as_str())
            .run(connection, StatementReuse::OneShot)
            .await?;
    Ok(changed > 0)
}

/// Adds marks that were recorded elsewhere, in one transaction.
pub(super) async fn merge(
    connection: &mut SqliteConnection,
    identity: &str,
    marks: &[UsageRow],
) -> Result<(), Fault> {
    let mut script = Batch::new("BEGIN IMMEDIATE;");
    for (index, mark) in marks.iter().enumerate() {
        if index > 0 && index % ROWS_PER_MESSAGE == 0 {
            std::mem::take(&mut script).run(connection, StatementReuse::OneShot).await?;
        }
        // A count beyond what a column holds can only come from a damaged database.
        let uses = i64::try_from(mark.usage.uses).unwrap_or(i64::MAX);
        script
            .add(MERGE)
            .value(identity)
            .value(mark.path.as_str())
            .value(i64::from(mark.pinned))
            .value(uses)
            .value(mark.usage.last_used_at.map(stored_time))
            .value(mark.usage.last_written_at.map(stored_time));
    }
    script.with("COMMIT;").run(connection, StatementReuse::OneShot).await?;
    Ok(())
}

/// Drops the marks of some memories.
pub(super) async fn drop_paths(
    connection: &mut SqliteConnection,
    identity: &str,
    paths: &[RelativePath],
) -> Result<(), Fault> {
    let mut script = Batch::new("BEGIN IMMEDIATE;");
    for (index, path) in paths.iter().enumerate() {
        if index > 0 && index % ROWS_PER_MESSAGE == 0 {
            std::mem::take(&mut script).run(connection, StatementReuse::OneShot).await?;
        }
        script.add(DROP).value(identity).value(path.as_str());
    }
    script.with("COMMIT;").run(connection, StatementReuse::OneShot).await?;
    Ok(())
}

/// Drops the marks of a whole identity.
pub(super) async fn drop_identity(
    connection: &mut SqliteConnection,
    identity: &str,
) -> Result<(), Fault> {
    Batch::new("DELETE FROM marks WHERE identity = $1")
        .bind(identity)
        .run(connection, StatementReuse::OneShot)
        .await?;
    Ok(())
}
