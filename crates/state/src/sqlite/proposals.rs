//! Rows of proposals: adding each one once, listing them by visible roots, deciding each one once.

use memory::change::RootKey;
use memory::clock::Timestamp;
use memory::limits::{PROPOSALS_REJECTED_MAX, PROPOSALS_WAITING_MAX};
use memory::proposal::{ProposalId, ProposalStatus};
use sqlx::SqliteConnection;
use sqlx::sqlite::SqliteRow;

use crate::error::Fault;
use crate::proposal::{AddedProposals, NewProposal, ProposalQuery, ProposalRow};
use crate::rows::{
    self, Columns, InvalidValue, single, stored_count, stored_revision, stored_roots, stored_time,
};
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};

const COLUMNS: &str = "id, made_at, origin, task, digest, status, decided_at, change_id, trust,
    roots, proposal";

/// The condition that all roots of a row are among those of `$1`. Both are JSON as [`stored_roots`] writes it.
const VISIBLE: &str =
    "CASE WHEN json_valid(roots) THEN NOT EXISTS (SELECT 1 FROM json_each(roots) r
    WHERE r.value NOT IN (SELECT value FROM json_each($1))) ELSE 0 END";

/// Adds the proposals that are new and for which there is room.
pub(super) async fn add(
    connection: &mut SqliteConnection,
    new: &[NewProposal],
) -> Result<AddedProposals, Fault> {
    let mut added = AddedProposals::default();
    Batch::new("BEGIN IMMEDIATE;").run(connection, StatementReuse::Persistent).await?;
    for proposal in new {
        let roots = stored_roots(&proposal.roots);
        let rows = Batch::new(
            "SELECT EXISTS (SELECT 1 FROM proposals WHERE digest = $1 AND (status = 'rejected'
                    OR (status = 'waiting' AND roots = $2) OR task = $3)) AS known,
                (SELECT count(*) FROM proposals WHERE roots = $2 AND status = 'waiting') AS waiting",
        )
        .bind(stored_revision(&proposal.digest))
        .bind(roots.as_str())
        .bind(proposal.task.clone())
        .rows(connection, StatementReuse::Persistent)
        .await?;
        let counts =
            |row: &SqliteRow| Ok((Columns(row).flag("known")?, Columns(row).count("waiting")?));
        match rows.first().map(counts) {
            Some(Ok((true, _))) => added.already_known += 1,
            Some(Ok((false, waiting))) if waiting >= PROPOSALS_WAITING_MAX as u64 => {
                added.left_out += 1;
            }
            Some(Ok((false, _))) => added.ids.push(insert(connection, proposal, &roots).await?),
            Some(Err(InvalidValue)) | None => {
                return Err(Fault::Damaged("the waiting proposals cannot be counted".to_owned()));
            }
        }
    }
    Batch::new("COMMIT;").run(connection, StatementReuse::Persistent).await?;
    Ok(added)
}

async fn insert(
    connection: &mut SqliteConnection,
    new: &NewProposal,
    roots: &str,
) -> Result<ProposalId, Fault> {
    let rows = Batch::new(
        "INSERT INTO proposals (made_at, origin, task, digest, status, trust, roots, proposal)
        VALUES ($1, $2, $3, $4, 'waiting', $5, $6, $7) RETURNING id",
    )
    .bind(stored_time(new.made_at))
    .bind(new.origin.as_str())
    .bind(new.task.clone())
    .bind(stored_revision(&new.digest))
    .bind(new.trust.as_ref())
    .bind(roots)
    .bind(new.proposal.as_str())
    .rows(connection, StatementReuse::Persistent)
    .await?;
    single(&rows, |row| row.get("id").map(ProposalId))
}

/// Loads the waiting proposals that match a query, in the order of their numbers.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    query: &ProposalQuery,
) -> Result<Vec<ProposalRow>, Fault> {
    let rows = Batch::new(&format!(
        "SELECT {COLUMNS} FROM proposals WHERE status = 'waiting' AND {VISIBLE} AND id > $2
        ORDER BY id LIMIT $3"
    ))
    .bind(stored_roots(&query.roots))
    .bind(query.after.map_or(0, |id| id.0))
    .bind(stored_count(query.max))
    .rows(connection, StatementReuse::OneShot)
    .await?;
    Ok(rows::decode_rows("proposals", &rows, rows::proposal))
}

/// Counts the waiting proposals that name memories of these roots alone.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    roots: &[RootKey],
) -> Result<u64, Fault> {
    let rows = Batch::new(&format!(
        "SELECT count(*) AS waiting FROM proposals WHERE status = 'waiting' AND {VISIBLE}"
    ))
    .bind(stored_roots(roots))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    single(&rows, |row| row.count("waiting"))
}

/// Loads one proposal, decided or not.
pub(super) async fn get(
    connection: &mut SqliteConnection,
    id: ProposalId,
) -> Result<Option<ProposalRow>, Fault> {
    let rows = Batch::new(&format!("SELECT {COLUMNS} FROM proposals WHERE id = $1"))
        .bind(id.0)
        .rows(connection, StatementReuse::Persistent)
        .await?;
    Ok(rows::decode_rows("proposals", &rows, rows::proposal).pop())
}

/// Rejects a waiting proposal. Returns whether this call did.
pub(super) async fn reject(
    connection: &mut SqliteConnection,
    id: ProposalId,
    at: Timestamp,
) -> Result<bool, Fault> {
    let rejected = Batch::new(
        "UPDATE proposals SET status = 'rejected', decided_at = $2
        WHERE id = $1 AND status = 'waiting'",
    )
    .bind(id.0)
    .bind(stored_time(at))
    .run(connection, StatementReuse::Persistent)
    .await?;
    Ok(rejected > 0)
}

/// Removes waiting proposals.
pub(super) async fn withdraw(
    connection: &mut SqliteConnection,
    ids: &[ProposalId],
) -> Result<(), Fault> {
    Batch::new(
        "DELETE FROM proposals WHERE status = 'waiting'
        AND id IN (SELECT value FROM json_each($1))",
    )
    .bind(json_numbers(ids.iter().map(|id| id.0)))
    .run(connection, StatementReuse::OneShot)
    .await?;
    Ok(())
}

/// Accepts a proposal by the change that the open transaction is about to record.
pub(super) async fn accept(
    connection: &mut SqliteConnection,
    id: ProposalId,
    at: Timestamp,
) -> Result<(), Fault> {
    let rows = Batch::new(
        "UPDATE proposals SET status = 'accepted', decided_at = $2,
            change_id = (SELECT last_change + 1 FROM totals)
        WHERE id = $1 AND status = 'waiting' RETURNING id",
    )
    .bind(id.0)
    .bind(stored_time(at))
    .rows(connection, StatementReuse::Persistent)
    .await?;
    if rows.is_empty() { Err(Fault::ProposalDecided(id)) } else { Ok(()) }
}

/// Returns the proposal that change `$1` accepted to waiting, because the change is withdrawn.
pub(super) const REOPEN: &str =
    "UPDATE proposals SET status = 'waiting', decided_at = NULL, change_id = NULL
        WHERE change_id = $1 AND status = 'accepted';";

/// Drops proposals decided before one time, and waiting ones made before another. Of rejected ones, up to a maximum
/// number, the digest stays, so that they are not made again.
pub(super) async fn prune(
    connection: &mut SqliteConnection,
    decided_before: i64,
    made_before: i64,
) -> Result<(), Fault> {
    Batch::new(&format!(
        "BEGIN IMMEDIATE;
        DELETE FROM proposals WHERE status = '{}' AND decided_at < $1;
        DELETE FROM proposals WHERE status = '{}' AND made_at < $2;
        UPDATE proposals SET proposal = ''
            WHERE status = '{rejected}' AND decided_at < $1 AND proposal <> '';
        DELETE FROM proposals WHERE status = '{rejected}' AND id IN (SELECT id FROM proposals
            WHERE status = '{rejected}' ORDER BY decided_at DESC, id DESC LIMIT -1 OFFSET $3);
        COMMIT;",
        ProposalStatus::Accepted,
        ProposalStatus::Waiting,
        rejected = ProposalStatus::Rejected,
    ))
    .bind(decided_before)
    .bind(made_before)
    .bind(stored_count(PROPOSALS_REJECTED_MAX))
    .run(connection, StatementReuse::OneShot)
    .await?;
    Ok(())
}
