//! Dropping history beyond what is to be kept.
//!
//! Works in short transactions, so that writers wait for milliseconds, and asks nothing of the clock
//! but the age that it is given: which change is older is a matter of its number. Open changes, what
//! pinned memories went through, what waits for a review, and the bytes of every head stay. Which contents are left over is
//! found by reading all of the history once, beside whoever writes. A change of a task that still runs
//! stays, too: by it, whoever takes over from a process that died sees that the task is done. Pages that become free are given
//! back to the file system a few at a time; the rest is used again by later changes.

use std::time::Duration;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::limits::PROPOSAL_WAITING_KEPT;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{PruneReport, Retention};
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::sqlite::content;
use crate::sqlite::proposals;
use crate::sqlite::row::{ColumnResult, Columns, single, stored_count, stored_time};

/// Changes dropped in one transaction: a few milliseconds' worth.
const CHANGES_PER_STEP: i64 = 64;
/// Contents dropped in one transaction.
const CONTENTS_PER_STEP: usize = 256;

/// Pages given back after each transaction: about as much as it freed.
const FREE_PAGES: &str = "PRAGMA incremental_vacuum(256)";

/// Whether change `c` may be dropped.
const PRUNABLE: &str = "c.id NOT IN (SELECT change_id FROM open_changes WHERE what = 'change')
    AND NOT EXISTS (SELECT 1 FROM change_files f
    JOIN marks m ON m.pinned = 1 AND m.identity = f.identity AND m.path IN (f.path, f.moved_to)
    WHERE f.change_id = c.id)
    AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.id = c.task AND t.status = 'running')
    AND NOT EXISTS (SELECT 1 FROM change_files f
    JOIN influenced i ON i.identity = f.identity AND i.revision = f.after AND i.change_id = c.id
    JOIN heads h ON h.place = f.place AND h.path = coalesce(f.moved_to, f.path) AND h.revision = f.after
    WHERE f.change_id = c.id)";

/// A pruning under way, between two of its transactions.
#[derive(Clone, Debug)]
pub(super) struct Pruning {
    phase: Phase,
    bytes_max: u64,
    /// What was dropped so far.
    pub(super) report: PruneReport,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    /// Drops proposals: decided ones from before the first time, waiting ones from before the second.
    Proposals(i64, i64),
    /// Drops changes above this number from before this time.
    OlderThan(ChangeId, i64),
    /// Finds the contents that nobody refers to. Whether changes were dropped to fit.
    FindUnreferenced { fitting: bool },
    /// Drops those of these contents that no change above the number refers to.
    Sweep { fitting: bool, loose: Vec<i64>, last: ChangeId },
    /// Finds out how much is too much.
    MeasureExcess,
    /// Drops changes above this number, until about so many stored bytes hang on none.
    FreeBytes(ChangeId, u64),
    /// Nothing any more.
    Done,
}

impl Pruning {
    /// Begins: what is too old goes first, then the oldest of the rest until the earlier contents
    /// fit.
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

    /// Tells whether there is nothing left to do.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Tells whether contents were found that the next steps drop.
    #[cfg(test)]
    pub(super) fn is_sweeping(&self) -> bool {
        matches!(&self.phase, Phase::Sweep { loose, .. } if !loose.is_empty())
    }

    /// Tells whether the next step only reads, and may take its time.
    pub(super) fn only_reads(&self) -> bool {
        matches!(self.phase, Phase::FindUnreferenced { .. } | Phase::MeasureExcess)
    }

    /// Goes one short transaction further.
    pub(super) async fn step(mut self, connection: &mut SqliteConnection) -> Result<Self, Fault> {
        self.phase = match self.phase {
            Phase::Proposals(decided_before, made_before) => {
                proposals::prune(connection, decided_before, made_before).await?;
                Phase::OlderThan(ChangeId(0), decided_before)
            }
            Phase::OlderThan(after, time) => {
                let ids = candidates(connection, after, time, u64::MAX).await?.0;
                match ids.last() {
                    // Whoever lets go of contents otherwise drops them at once.
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
            // Dropping freed nothing, so that dropping more would not help.
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
                wanted => Phase::FreeBytes(ChangeId(0), wanted),
            },
            Phase::FreeBytes(after, wanted) => {
                let (ids, estimated) = candidates(connection, after, i64::MAX, wanted).await?;
                if !ids.is_empty() {
                    self.report.changes += drop_changes(connection, &ids).await?;
                }
                match (ids.last(), wanted.checked_sub(estimated)) {
                    (Some(&last), Some(wanted @ 1..)) => Phase::FreeBytes(last, wanted),
                    _ => Phase::FindUnreferenced { fitting: true },
                }
            }
            Phase::Done => Phase::Done,
        };
        Ok(self)
    }
}

/// Returns the oldest changes after `after` that may go, no more than are needed, and how many bytes
/// that frees at least about: each its bytes before, which no later change names.
async fn candidates(
    connection: &mut SqliteConnection,
    after: ChangeId,
    older_than: i64,
    wanted: u64,
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
    for row in rows.iter().map(Columns) {
        if estimated >= wanted {
            break;
        }
        ids.push(row.id("id")?);
        estimated = estimated.saturating_add(row.count("bytes")?);
    }
    Ok((ids, estimated))
}

/// Drops those of the changes that still may go, with tombstones that they left; returns how many.
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

/// Returns the contents that nothing refers to, and the last change that was known then. Reads all
/// of the history, so nobody may have to wait for it.
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

/// Drops contents that were loose when `last` was the last change, unless a later one took them up;
/// returns their stored bytes.
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

/// Returns by how much the stored bytes of contents that are no head's exceed `max`.
async fn excess_bytes(connection: &mut SqliteConnection, max: u64) -> Result<u64, Fault> {
    // When everything fits, nothing needs to be told apart.
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
    // Heads may hold more than is allowed for the rest.
    Ok(u64::try_from(bytes).unwrap_or(0))
}
