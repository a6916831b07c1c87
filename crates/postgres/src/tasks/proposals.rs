//! Rows of proposals: adding each one once, listing them by visible roots, deciding each one once.

use memory::change::{ChangeId, RootKey};
use memory::clock::Timestamp;
use memory::limits::{PROPOSALS_REJECTED_MAX, PROPOSALS_WAITING_MAX};
use memory::proposal::ProposalId;
use sqlx::{AssertSqlSafe, PgConnection};
use state::rows::{
    decode_rows, proposal, single, stored_count, stored_revision, stored_roots, stored_time,
};
use state::{AddedProposals, Fault, NewProposal, ProposalQuery, ProposalRow};

use crate::call_error::CallError;
use crate::history::{lock_owner, next_number};
use crate::row::{rows, run, storable};

const COLUMNS: &str =
    "id, made_at, origin, task, digest, status, decided_at, change_id, trust, roots, proposal";

/// The condition that all roots of a row are among those of `$2`. Both are JSON as [`stored_roots`] writes it.
const VISIBLE: &str = "NOT EXISTS (SELECT 1 FROM jsonb_array_elements(roots::jsonb) r
    WHERE r.value NOT IN (SELECT v.value FROM jsonb_array_elements($2::jsonb) v))";

/// Returns the proposal that change `$2` accepted to waiting, because the change is withdrawn.
pub(crate) const REOPEN: &str =
    "UPDATE proposals SET status = 'waiting', decided_at = NULL, change_id = NULL
    WHERE owner = $1 AND change_id = $2 AND status = 'accepted'";

/// Adds the proposals that are new and for which there is room.
pub(crate) async fn add(
    connection: &mut PgConnection,
    owner: i64,
    new: &[NewProposal],
) -> Result<AddedProposals, CallError> {
    let mut added = AddedProposals::default();
    lock_owner(connection, owner).await?;
    for proposal in new {
        let roots = stored_roots(&proposal.roots);
        let count = sqlx::query(
            "SELECT EXISTS (SELECT 1 FROM proposals WHERE owner = $1 AND digest = $2
                    AND (status = 'rejected' OR (status = 'waiting' AND roots = $3) OR task = $4)) AS known,
                (SELECT count(*) FROM proposals
                    WHERE owner = $1 AND roots = $3 AND status = 'waiting') AS waiting",
        );
        let count = count.bind(owner).bind(stored_revision(&proposal.digest));
        let count = count.bind(storable(&roots)).bind(proposal.task.as_deref().map(storable));
        let found = rows(connection, count).await?;
        match single(&found, |row| Ok((row.flag("known")?, row.count("waiting")?)))? {
            (true, _) => added.already_known += 1,
            (false, waiting) if waiting >= PROPOSALS_WAITING_MAX as u64 => added.left_out += 1,
            (false, _) => added.ids.push(insert(connection, owner, (proposal, &roots)).await?),
        }
    }
    Ok(added)
}

async fn insert(
    connection: &mut PgConnection,
    owner: i64,
    (new, roots): (&NewProposal, &str),
) -> Result<ProposalId, CallError> {
    let id = next_number(connection, owner, "last_proposal").await?;
    let insert = sqlx::query(
        "INSERT INTO proposals (owner, id, made_at, origin, task, digest, status, trust, roots, proposal)
        VALUES ($1, $2, $3, $4, $5, $6, 'waiting', $7, $8, $9)",
    );
    let insert = insert.bind(owner).bind(id).bind(stored_time(new.made_at));
    let insert = insert.bind(storable(&new.origin)).bind(new.task.as_deref().map(storable));
    let insert = insert.bind(stored_revision(&new.digest)).bind(new.trust.as_ref());
    run(connection, insert.bind(storable(roots)).bind(storable(&new.proposal))).await?;
    Ok(ProposalId(id))
}

/// Loads the waiting proposals that match a query, in the order of their numbers.
pub(crate) async fn find(
    connection: &mut PgConnection,
    owner: i64,
    query: &ProposalQuery,
) -> Result<Vec<ProposalRow>, CallError> {
    let find = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM proposals WHERE owner = $1 AND status = 'waiting' AND {VISIBLE} AND id > $3
        ORDER BY id LIMIT $4"
    )));
    let find = find.bind(owner).bind(stored_roots(&query.roots));
    let find = find.bind(query.after.map_or(0, |id| id.0)).bind(stored_count(query.max));
    Ok(decode_rows("proposals", &rows(connection, find).await?, proposal))
}

/// Counts the waiting proposals that name memories of these roots alone.
pub(crate) async fn count(
    connection: &mut PgConnection,
    owner: i64,
    roots: &[RootKey],
) -> Result<u64, CallError> {
    let count = sqlx::query(AssertSqlSafe(format!(
        "SELECT count(*) AS waiting FROM proposals WHERE owner = $1 AND status = 'waiting' AND {VISIBLE}"
    )));
    let found = rows(connection, count.bind(owner).bind(stored_roots(roots))).await?;
    Ok(single(&found, |row| row.count("waiting"))?)
}

/// Loads one proposal, decided or not.
pub(crate) async fn get(
    connection: &mut PgConnection,
    owner: i64,
    id: ProposalId,
) -> Result<Option<ProposalRow>, CallError> {
    let query = sqlx::query(AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM proposals WHERE owner = $1 AND id = $2"
    )));
    let found = rows(connection, query.bind(owner).bind(id.0)).await?;
    Ok(decode_rows("proposals", &found, proposal).pop())
}

/// Rejects a waiting proposal. Returns whether this call did.
pub(crate) async fn reject(
    connection: &mut PgConnection,
    owner: i64,
    (id, at): (ProposalId, Timestamp),
) -> Result<bool, CallError> {
    let reject = sqlx::query(
        "UPDATE proposals SET status = 'rejected', decided_at = $3
        WHERE owner = $1 AND id = $2 AND status = 'waiting'",
    );
    Ok(run(connection, reject.bind(owner).bind(id.0).bind(stored_time(at))).await? > 0)
}

/// Removes waiting proposals.
pub(crate) async fn withdraw(
    connection: &mut PgConnection,
    owner: i64,
    ids: &[ProposalId],
) -> Result<(), CallError> {
    let withdraw = sqlx::query(
        "DELETE FROM proposals WHERE owner = $1 AND status = 'waiting' AND id = ANY($2)",
    );
    let ids: Vec<_> = ids.iter().map(|id| id.0).collect();
    run(connection, withdraw.bind(owner).bind(ids)).await?;
    Ok(())
}

/// Accepts a proposal by the change that this transaction records.
pub(crate) async fn accept(
    connection: &mut PgConnection,
    owner: i64,
    (id, change): (ProposalId, ChangeId),
    at: Timestamp,
) -> Result<(), CallError> {
    let accept = sqlx::query(
        "UPDATE proposals SET status = 'accepted', decided_at = $3, change_id = $4
        WHERE owner = $1 AND id = $2 AND status = 'waiting'",
    );
    let accept = accept.bind(owner).bind(id.0).bind(stored_time(at)).bind(change.0);
    if run(connection, accept).await? == 0 {
        return Err(Fault::ProposalDecided(id).into());
    }
    Ok(())
}

/// Drops proposals decided before one time, and waiting ones made before another. Of rejected ones, up to a maximum
/// number, the digest stays, so that they are not made again.
pub(crate) async fn prune(
    connection: &mut PgConnection,
    owner: i64,
    (decided_before, made_before): (i64, i64),
) -> Result<(), CallError> {
    let drop = sqlx::query(
        "DELETE FROM proposals WHERE owner = $1 AND ((status = 'accepted' AND decided_at < $2)
            OR (status = 'waiting' AND made_at < $3))",
    );
    run(connection, drop.bind(owner).bind(decided_before).bind(made_before)).await?;
    let empty = sqlx::query(
        "UPDATE proposals SET proposal = '' WHERE owner = $1 AND status = 'rejected' AND decided_at < $2
            AND proposal <> ''",
    );
    run(connection, empty.bind(owner).bind(decided_before)).await?;
    let surplus = sqlx::query(
        "DELETE FROM proposals WHERE owner = $1 AND status = 'rejected' AND id IN (SELECT id FROM proposals
            WHERE owner = $1 AND status = 'rejected' ORDER BY decided_at DESC, id DESC OFFSET $2)",
    );
    run(connection, surplus.bind(owner).bind(stored_count(PROPOSALS_REJECTED_MAX))).await?;
    Ok(())
}
