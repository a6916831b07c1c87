//! Dropping history beyond the retention limits.
//!
//! Pruning runs in short transactions, so that writers wait for milliseconds only. The age limit is the only use of
//! times; the order of changes follows from their numbers.
//!
//! Some history stays: open changes, changes of pinned memories, changes that wait for a review, and the bytes of every
//! head. The change of a running task stays too: by it, the process that takes over from a dead one sees that the task
//! is done.
//!
//! Unreferenced contents are found by reading the whole history once, alongside other writers. Freed pages are returned
//! to the file system a few at a time; later changes use the rest.

use std::time::Duration;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::limits::PROPOSAL_WAITING_KEPT;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{PruneReport, Retention};
use crate::rows::{ColumnResult, Columns, single, stored_count, stored_time};
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::sqlite::content;
use crate::sqlite::proposals;

/// Changes dropped in one transaction, which takes a few milliseconds.
const CHANGES_PER_STEP: i64 = 64;
/// Contents dropped in one transaction.
const CONTENTS_PER_STEP: usize = 256;

/// Pages returned to the file system after each transaction: about as many as it freed.
const FREE_PAGES: &str = "PRAGMA incremental_vacuum(256)";

/// The condition that change `c` may be dropped.
const PRUNABLE: &str = "c.id NOT IN (SELECT change_id FROM open_changes WHERE what = 'change')
    AND NOT EXISTS (SELECT 1 FROM change_files f
    JOIN marks m ON m.pinned = 1 AND m.identity = f.identity AND m.path IN (f.path, f.moved_to)
    WHERE f.change_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = c.task AND t.status = 'running')
    AND NOT EXISTS (SELECT 1 FROM change_files f
    JOIN influenced i ON i.identity = f.identity AND i.revision = f.after AND i.change_id = c.id
    JOIN heads h ON h.place = f.place AND h.path = coalesce(f.moved_to, f.path) AND h.revision = f.after
    WHERE f.change_id = c.id)";

/// A pruning in progress, between two transactions.
#[derive(Clone, Debug)]
pub(super) struct Pruning {
    phase: Phase,
    bytes_max: u64,
    /// The amounts dropped so far.
    pub(super) report: PruneReport,
}

/// The next step of a pruning.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Drops decided proposals from before the first time, and waiting ones from before the second.
    Proposals(i64, i64),
    /// Drops changes with higher numbers than this one, from before this time.
    OlderThan(ChangeId, i64),
    /// Finds unreferenced contents. `fitting` is whether changes were dropped to fit the size limit.
    FindUnreferenced { fitting: bool },
    /// Drops those of these contents that no change after `last` refers to.
    Sweep { fitting: bool, loose: Vec<i64>, last: ChangeId },
    /// Computes the excess over the size limit.
    MeasureExcess,
    /// Drops changes with higher numbers than this one, until about this number of stored bytes is unreferenced.
    FreeBytes(ChangeId, u64),
    /// The end.
    Done,
}

impl Pruning {
    /// Returns a pruning that first drops what is too old, then the oldest of the rest until the earlier contents fit.
    pub(super) fn new(retention: Retention, now: Timestamp) -> Self {
        let before = |age: Duration| {
            let age = stored_count(age.as_nanos());
            stored_time(now).saturating_sub(age)
        };
        Self {
            phase: Phase::Proposals(before(retention.age), before(PROPOSAL_WAITING_KEPT)),
            bytes_max: retention.bytes,
            report: PruneReport::default(),
        }
    }

    /// Returns whether the pruning is complete.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Returns whether contents were found that the next steps drop.
    #[cfg(test)]
    pub(super) fn is_sweeping(&self) -> bool {
        matches!(&self.phase, Phase::Sweep { loose, .. } if !loose.is_empty())
    }

    /// Returns whether the next step only reads, and may take long.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.phase, Phase::FindUnreferenced { .. } | Phase::MeasureExcess)
    }

    /// Runs the next short transaction.
    pub(super) async fn step(mut self, connection: &mut SqliteConnection) -> Result<Self, Fault> {
        self.phase = match self.phase {
            Phase::Proposals(decided_before, made_before) => {
                proposals::prune(connection, decided_before, made_before).await?;
                Phase::OlderThan(ChangeId(0), decided_before)
            }
            Phase::OlderThan(after, time) => {
                let ids = candidates(connection, after, time, u64::MAX).await?.0;
                match ids.last() {
                    // Nothing was dropped, so nothing is unreferenced: other removals drop their contents at once.
                    None if self.report.changes == 0 => Phase::MeasureExcess,
                    None => Phase::FindUnreferenced { fitting: false },
                    Some(&last) => {
                        self.report.changes += drop_changes(connection, &ids).await?;
                        Phase::OlderThan(last, time)
                    }
                }
            }
            Phase::FindUnreferenced { fitting } => {
                let (loose, last) = unreferenced(connection).await?;
                Phase::Sweep { fitting, loose, last }
            }
            // Dropping changes freed nothing, so dropping more would not help.
            Phase::Sweep { fitting: true, loose, .. } if loose.is_empty() => Phase::Done,
            Phase::Sweep { loose, .. } if loose.is_empty() => Phase::MeasureExcess,
            Phase::Sweep { fitting, mut loose, last } => {
                let rest = loose.split_off(loose.len().min(CONTENTS_PER_STEP));
                self.report.bytes += drop_contents(connection, &loose, last).await?;
                sqlx::query(FREE_PAGES).execute(connection).await?;
                if rest.is_empty() {
                    Phase::MeasureExcess
                } else {
                    Phase::Sweep { fitting, loose: rest, last }
                }
            }
            Phase::MeasureExcess => match excess_bytes(connection, self.bytes_max).await? {
                0 => Phase::Done,
                needed => Phase::FreeBytes(ChangeId(0), needed),
            },
            Phase::FreeBytes(after, needed) => {
                let (ids, estimated) = candidates(connection, after, i64::MAX, needed).await?;
                if !ids.is_empty() {
                    self.report.changes += drop_changes(connection, &ids).await?;
                }
                match (ids.last(), needed.checked_sub(estimated)) {
                    (Some(&last), Some(needed @ 1..)) => Phase::FreeBytes(last, needed),
                    _ => Phase::FindUnreferenced { fitting: true },
                }
            }
            Phase::Done => Phase::Done,
        };
        Ok(self)
    }
}

/// Returns the oldest droppable changes after `after`, at most as many as needed, and an estimate of the freed bytes.
/// The estimate counts the bytes before each change, since no later change refers to them.
async fn candidates(
    connection: &mut SqliteConnection,
    after: ChangeId,
    older_than: i64,
    needed: u64,
) -> Result<(Vec<ChangeId>, u64), Fault> {
    let rows = Batch::new(&format!(
        "SELECT c.id, (SELECT coalesce(sum(length(k.bytes)), 0) FROM change_files f
            JOIN contents k ON k.revision = f.before WHERE f.change_id = c.id) AS bytes
        FROM changes c WHERE c.id > $1 AND c.at < $2 AND {PRUNABLE} ORDER BY c.id LIMIT $3"
    ))
    .bind(after.0)
    .bind(older_than)
    .bind(CHANGES_PER_STEP)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let (mut ids, mut estimated) = (Vec::new(), 0_u64);
    for row in rows.iter().map(|row| Columns(row)) {
        if estimated >= needed {
            break;
        }
        ids.push(row.id("id")?);
        estimated = estimated.saturating_add(row.count("bytes")?);
    }
    Ok((ids, estimated))
}

/// Drops those of the changes that may still go, with the removed heads that they left; returns their number.
async fn drop_changes(connection: &mut SqliteConnection, ids: &[ChangeId]) -> Result<u64, Fault> {
    let rows = Batch::new(&format!(
        "BEGIN IMMEDIATE;
        CREATE TEMP TABLE IF NOT EXISTS going (id INTEGER PRIMARY KEY);
        DELETE FROM going;
        INSERT INTO going SELECT c.id FROM changes c
            WHERE c.id IN (SELECT value FROM json_each($1)) AND {PRUNABLE};
        DELETE FROM heads WHERE revision IS NULL AND (place, path, change_id) IN
            (SELECT f.place, f.path, f.change_id FROM going JOIN change_files f ON f.change_id = going.id
            UNION ALL SELECT f.place, f.moved_to, f.change_id
            FROM going JOIN change_files f ON f.change_id = going.id WHERE f.moved_to IS NOT NULL);
        DELETE FROM influenced WHERE change_id IN (SELECT id FROM going);
        DELETE FROM change_files WHERE change_id IN (SELECT id FROM going);
        DELETE FROM changes WHERE id IN (SELECT id FROM going);
        SELECT count(*) AS dropped FROM going; COMMIT;"
    ))
    .bind(json_numbers(ids.iter().map(|id| id.0)))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    single(&rows, |row| row.count("dropped"))
}

/// Returns the unreferenced contents, and the last change at that time. Reads the whole history, so it must not block
/// writers.
async fn unreferenced(connection: &mut SqliteConnection) -> Result<(Vec<i64>, ChangeId), Fault> {
    let rows = Batch::new(&format!(
        "SELECT k.id, t.last_change FROM totals t CROSS JOIN contents k
        WHERE k.revision NOT IN ({}) ORDER BY k.id",
        content::REFERENCED_REVISIONS
    ))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    let last = rows.first().map_or(Ok(ChangeId(0)), |row| Columns(row).id("last_change"))?;
    let ids = rows.iter().map(|row| Columns(row).get("id")).collect::<ColumnResult<_>>()?;
    Ok((ids, last))
}

/// Drops contents that were unreferenced when `last` was the last change, unless a later change refers to them. Returns
/// their stored bytes.
async fn drop_contents(
    connection: &mut SqliteConnection,
    loose: &[i64],
    last: ChangeId,
) -> Result<u64, Fault> {
    let rows = Batch::new(
        "BEGIN IMMEDIATE;
        SELECT content_bytes FROM totals;
        DELETE FROM contents WHERE id IN (SELECT value FROM json_each($1)) AND revision NOT IN
            (SELECT before FROM change_files WHERE change_id > $2 AND before IS NOT NULL
            UNION ALL SELECT after FROM change_files WHERE change_id > $2 AND after IS NOT NULL);
        SELECT content_bytes FROM totals; COMMIT;",
    )
    .bind(json_numbers(loose.iter().copied()))
    .bind(last.0)
    .rows(connection, StatementReuse::Persistent)
    .await?;
    let totals = rows.iter().map(|row| Columns(row).count("content_bytes"));
    match totals.collect::<ColumnResult<Vec<u64>>>()?[..] {
        [before, after] => Ok(before.saturating_sub(after)),
        _ => Err(Fault::Damaged("the totals are missing".to_owned())),
    }
}

/// Returns the excess over `max` of the stored bytes of contents that belong to no head.
async fn excess_bytes(connection: &mut SqliteConnection, max: u64) -> Result<u64, Fault> {
    // If all contents fit, heads need not be subtracted.
    let bytes: i64 = sqlx::query_scalar(
        "SELECT iif(content_bytes <= $1, 0, content_bytes - $1 -
            (SELECT coalesce(sum(length(k.bytes)), 0)
            FROM (SELECT DISTINCT revision FROM heads WHERE revision IS NOT NULL) h
            JOIN contents k ON k.revision = h.revision))
        FROM totals",
    )
    .bind(stored_count(max))
    .fetch_one(connection)
    .await?;
    // Negative if the contents of heads alone exceed the limit.
    Ok(u64::try_from(bytes).unwrap_or(0))
}
