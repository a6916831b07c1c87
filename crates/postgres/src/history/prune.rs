//! Dropping history beyond the retention limits, in short transactions.
//!
//! Some history stays: open changes, changes of pinned memories, changes that wait for a review, and the bytes of every
//! head. The change of a running task stays too: by it, the daemon that takes over sees that the task is done.

use memory::change::ChangeId;
use sqlx::{AssertSqlSafe, PgConnection};
use state::rows::{Columns, decode_rows, single, stored_count};

use crate::call_error::CallError;
use crate::history::lock_owner;
use crate::history::record::UNREFERENCED;
use crate::row::rows;

/// Changes dropped in one transaction.
const CHANGES_DROPPED_AT_ONCE: i64 = 256;
/// Contents dropped in one transaction.
pub(crate) const CONTENTS_DROPPED_AT_ONCE: usize = 1_024;

/// The condition that change `c` may be dropped.
const PRUNABLE: &str = "NOT EXISTS (SELECT 1 FROM open_changes o
        WHERE o.owner = c.owner AND o.change_id = c.id AND o.what = 'change')
    AND NOT EXISTS (SELECT 1 FROM change_files f JOIN marks m ON m.owner = f.owner AND m.pinned
            AND m.identity = f.identity AND m.path IN (f.path, f.moved_to)
        WHERE f.owner = c.owner AND f.change_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.owner = c.owner AND t.id = c.task AND t.status = 'running')
    AND NOT EXISTS (SELECT 1 FROM change_files f
            JOIN influenced i ON i.owner = f.owner AND i.identity = f.identity AND i.revision = f.after
                AND i.change_id = f.change_id
            JOIN heads h ON h.owner = f.owner AND h.place = f.place AND h.path = coalesce(f.moved_to, f.path)
                AND h.revision = f.after
        WHERE f.owner = c.owner AND f.change_id = c.id)";

/// The changes of one step.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    /// Their numbers, in order.
    pub(crate) ids: Vec<i64>,
    /// An estimate of the bytes that dropping them frees: the bytes before each change, since no later change refers to
    /// them.
    pub(crate) estimated: u64,
}

/// Returns the oldest changes after `after` from before a time that may be dropped, at most as many as are needed to
/// free `needed` bytes.
pub(crate) async fn candidates(
    connection: &mut PgConnection,
    owner: i64,
    (after, older_than, needed): (ChangeId, i64, u64),
) -> Result<Candidates, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT c.id, (SELECT coalesce(sum(octet_length(k.bytes)), 0)::bigint FROM change_files f
            JOIN contents k ON k.owner = f.owner AND k.revision = f.before
            WHERE f.owner = c.owner AND f.change_id = c.id) AS bytes
        FROM changes c WHERE c.owner = $1 AND c.id > $2 AND c.at < $3 AND {PRUNABLE} ORDER BY c.id LIMIT $4"
    )));
    let query = query.bind(owner).bind(after.0).bind(older_than).bind(CHANGES_DROPPED_AT_ONCE);
    let mut found = Candidates::default();
    for row in &rows(connection, query).await? {
        if found.estimated >= needed {
            break;
        }
        found.ids.push(Columns(row).get("id")?);
        found.estimated = found.estimated.saturating_add(Columns(row).count("bytes")?);
    }
    Ok(found)
}

/// Drops those of the changes that may still go, with the heads of removed memories that they left. Returns their
/// number.
pub(crate) async fn drop_changes(
    connection: &mut PgConnection,
    owner: i64,
    ids: &[i64],
) -> Result<u64, CallError> {
    lock_owner(connection, owner).await?;
    let query = sqlx::query(AssertSqlSafe(format!(
        "WITH going AS (
            DELETE FROM changes c WHERE c.owner = $1 AND c.id = ANY($2) AND {PRUNABLE} RETURNING c.id),
        files AS (
            DELETE FROM change_files f USING going WHERE f.owner = $1 AND f.change_id = going.id
            RETURNING f.place, f.path, f.moved_to, f.change_id),
        texts AS (
            DELETE FROM influenced i USING going WHERE i.owner = $1 AND i.change_id = going.id),
        removed AS (
            DELETE FROM heads h USING files WHERE h.owner = $1 AND h.revision IS NULL AND h.place = files.place
                AND h.path IN (files.path, files.moved_to) AND h.change_id = files.change_id)
        SELECT count(*) AS dropped FROM going"
    )));
    let dropped = rows(connection, query.bind(owner).bind(ids)).await?;
    Ok(single(&dropped, |row| row.count("dropped"))?)
}

/// Contents to which no row refers.
#[derive(Debug, Default)]
pub(crate) struct Unreferenced {
    /// Their digests.
    pub(crate) revisions: Vec<Vec<u8>>,
    /// The last change at that time.
    pub(crate) last: ChangeId,
}

/// Returns the contents to which no row refers. Reads the whole history of an owner, and blocks no writers.
pub(crate) async fn unreferenced(
    connection: &mut PgConnection,
    owner: i64,
) -> Result<Unreferenced, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT k.revision, n.last_change FROM counters n JOIN contents k ON k.owner = n.owner
        WHERE n.owner = $1 AND {UNREFERENCED} ORDER BY k.revision"
    )));
    let found = rows(connection, query.bind(owner)).await?;
    let last = found.first().map_or(Ok(ChangeId(0)), |row| Columns(row).id("last_change"))?;
    let revisions = decode_rows("contents", &found, |row| row.get("revision"));
    Ok(Unreferenced { revisions, last })
}

/// Drops contents that were unreferenced when `last` was the last change, unless a later change refers to them. Returns
/// their stored bytes.
pub(crate) async fn drop_contents(
    connection: &mut PgConnection,
    owner: i64,
    (loose, last): (&[Vec<u8>], ChangeId),
) -> Result<u64, CallError> {
    lock_owner(connection, owner).await?;
    let query = sqlx::query(
        "WITH gone AS (
            DELETE FROM contents k WHERE k.owner = $1 AND k.revision = ANY($2)
                AND NOT EXISTS (SELECT 1 FROM change_files f
                    WHERE f.owner = $1 AND f.change_id > $3 AND f.before = k.revision)
                AND NOT EXISTS (SELECT 1 FROM change_files f
                    WHERE f.owner = $1 AND f.change_id > $3 AND f.after = k.revision)
            RETURNING octet_length(k.bytes) AS bytes)
        SELECT coalesce(sum(bytes), 0)::bigint AS bytes FROM gone",
    );
    let dropped = rows(connection, query.bind(owner).bind(loose).bind(last.0)).await?;
    Ok(single(&dropped, |row| row.count("bytes"))?)
}

/// Returns the excess over `max` of the stored bytes of contents that belong to no head.
pub(crate) async fn excess_bytes(
    connection: &mut PgConnection,
    owner: i64,
    max: u64,
) -> Result<u64, CallError> {
    let query = sqlx::query(
        "SELECT greatest(coalesce(sum(octet_length(k.bytes)), 0)::bigint - $2, 0) AS excess FROM contents k
        WHERE k.owner = $1
            AND NOT EXISTS (SELECT 1 FROM heads h WHERE h.owner = $1 AND h.revision = k.revision)",
    );
    let found = rows(connection, query.bind(owner).bind(stored_count(max))).await?;
    Ok(single(&found, |row| row.count("excess"))?)
}
