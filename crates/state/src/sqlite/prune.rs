//! Dropping history beyond what is to be kept.
//!
//! Works in short transactions, so that writers wait for milliseconds, and asks nothing of the clock
//! but the age that it is given: which change is older is a matter of its number. Open changes, what
//! pinned memories went through, and the bytes of every head stay. Pages that become free are given
//! back to the file system a few at a time; the rest is used again by later changes.

use memory::change::ChangeId;
use memory::clock::Timestamp;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::record::{Pruned, Retention};
use crate::sqlite::content;
use crate::sqlite::record::revisions_of;
use crate::sqlite::row::{Columns, stored_time};
use crate::sqlite::script::{Repeats, Script, json_digests, json_numbers};

/// Changes dropped in one transaction: a few milliseconds' worth.
const CHANGES_AT_ONCE: i64 = 64;

/// Pages given back after each transaction: about as much as it freed.
const PAGES_GIVEN_BACK: &str = "PRAGMA incremental_vacuum(256)";

/// Whether change `c` may be dropped.
const MAY_GO: &str = "c.open = 0 AND NOT EXISTS (SELECT 1 FROM change_files f
    JOIN marks m ON m.pinned = 1 AND m.identity = f.identity AND m.path IN (f.path, f.moved_to)
    WHERE f.change_id = c.id)";

/// A pruning under way, between two of its transactions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pruning {
    phase: Phase,
    after: ChangeId,
    bytes_max: u64,
    /// What was dropped so far.
    pub(super) pruned: Pruned,
}

/// What a step drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Changes from before this time.
    OlderThan(i64),
    /// Nothing: it finds out how much is too much.
    Weigh,
    /// The oldest changes, until so many stored bytes are gone.
    Free(u64),
    /// Nothing any more.
    Done,
}

impl Pruning {
    /// Begins: what is too old goes first, then the oldest of the rest until the earlier contents
    /// fit.
    pub(super) fn new(retention: Retention, now: Timestamp) -> Self {
        let age = i64::try_from(retention.age.as_nanos()).unwrap_or(i64::MAX);
        Self {
            phase: Phase::OlderThan(stored_time(now).saturating_sub(age)),
            after: ChangeId(0),
            bytes_max: retention.bytes,
            pruned: Pruned::default(),
        }
    }

    /// Tells whether there is nothing left to do.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Goes one short transaction further.
    pub(super) async fn step(self, connection: &mut SqliteConnection) -> Result<Self, Fault> {
        let (older_than, wanted, next) = match self.phase {
            Phase::OlderThan(time) => (time, u64::MAX, Phase::Weigh),
            Phase::Free(wanted) => (i64::MAX, wanted, Phase::Done),
            Phase::Weigh => {
                let wanted = earlier_bytes(connection).await?.saturating_sub(self.bytes_max);
                let phase = if wanted == 0 { Phase::Done } else { Phase::Free(wanted) };
                return Ok(Self { phase, after: ChangeId(0), ..self });
            }
            Phase::Done => return Ok(self),
        };
        let ids = candidates(connection, self.after, older_than, wanted).await?;
        let Some(&after) = ids.last() else { return Ok(Self { phase: next, ..self }) };
        let dropped = drop_changes(connection, &ids).await?;
        if dropped.bytes > 0 {
            sqlx::query(PAGES_GIVEN_BACK).execute(connection).await?;
        }
        let phase = match self.phase {
            Phase::Free(wanted) if wanted <= dropped.bytes => Phase::Done,
            Phase::Free(wanted) => Phase::Free(wanted - dropped.bytes),
            other => other,
        };
        let pruned = Pruned {
            changes: self.pruned.changes + dropped.changes,
            bytes: self.pruned.bytes + dropped.bytes,
        };
        Ok(Self { phase, after, pruned, ..self })
    }
}

/// Returns the oldest changes after `after` that may go, no more than are needed: a change frees at
/// least about its bytes before, which no later change names. Reads only, so nobody waits for it.
async fn candidates(
    connection: &mut SqliteConnection,
    after: ChangeId,
    older_than: i64,
    wanted: u64,
) -> Result<Vec<ChangeId>, Fault> {
    let rows = Script::of(&format!(
        "SELECT c.id, (SELECT coalesce(sum(length(k.bytes)), 0) FROM change_files f
            JOIN contents k ON k.revision = f.before WHERE f.change_id = c.id) AS bytes
        FROM changes c WHERE c.id > $1 AND c.at < $2 AND {MAY_GO} ORDER BY c.id LIMIT $3"
    ))
    .bind(after.0)
    .bind(older_than)
    .bind(CHANGES_AT_ONCE)
    .rows(connection, Repeats::Often)
    .await?;
    let found = rows
        .iter()
        .filter_map(|row| Some((Columns(row).id("id").ok()?, Columns(row).count("bytes").ok()?)));
    let mut estimated = 0_u64;
    let needed = found.take_while(|(_, bytes)| {
        let goes_on = estimated < wanted;
        estimated = estimated.saturating_add(*bytes);
        goes_on
    });
    Ok(needed.map(|(id, _)| id).collect())
}

/// Drops those of the changes that still may go, with tombstones that they left and contents that
/// nobody else needs.
async fn drop_changes(
    connection: &mut SqliteConnection,
    ids: &[ChangeId],
) -> Result<Pruned, Fault> {
    let loose = revisions_of(connection, ids).await?;
    let rows = Script::of(&format!(
        "BEGIN IMMEDIATE;
        SELECT changes, content_bytes FROM totals;
        CREATE TEMP TABLE IF NOT EXISTS going (id INTEGER PRIMARY KEY);
        DELETE FROM going;
        INSERT INTO going SELECT c.id FROM changes c
            WHERE c.id IN (SELECT value FROM json_each($1)) AND {MAY_GO};
        DELETE FROM heads WHERE revision IS NULL AND (path, place, change_id) IN
            (SELECT f.path, f.place, f.change_id FROM going JOIN change_files f ON f.change_id = going.id
            UNION ALL SELECT f.moved_to, f.place, f.change_id
            FROM going JOIN change_files f ON f.change_id = going.id WHERE f.moved_to IS NOT NULL);
        DELETE FROM change_files WHERE change_id IN (SELECT id FROM going);
        DELETE FROM changes WHERE id IN (SELECT id FROM going);"
    ))
    .bind(json_numbers(ids.iter().map(|id| id.0)))
    .then(content::DROP_LOOSE)
    .bind(json_digests(&loose))
    .then("SELECT changes, content_bytes FROM totals; COMMIT;")
    .rows(connection, Repeats::Often)
    .await?;
    let total = |row: usize, column| rows.get(row).and_then(|row| Columns(row).count(column).ok());
    let gone = |column| {
        total(0, column).unwrap_or_default().saturating_sub(total(1, column).unwrap_or_default())
    };
    Ok(Pruned { changes: gone("changes"), bytes: gone("content_bytes") })
}

/// Returns the stored bytes of contents that are no head's.
async fn earlier_bytes(connection: &mut SqliteConnection) -> Result<u64, Fault> {
    let bytes: i64 = sqlx::query_scalar(
        "SELECT content_bytes - (SELECT coalesce(sum(length(k.bytes)), 0)
            FROM (SELECT DISTINCT revision FROM heads WHERE revision IS NOT NULL) h
            JOIN contents k ON k.revision = h.revision)
        FROM totals",
    )
    .fetch_one(connection)
    .await?;
    Ok(u64::try_from(bytes).unwrap_or_default())
}
