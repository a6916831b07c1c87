//! A check of stored contents and of the agreement between rows.

use memory::document::Revision;
use sqlx::PgConnection;
use state::rows::{Columns, PackedContent, revision, single};

use crate::call_error::CallError;
use crate::row::rows;

/// Contents that are read at a time.
const CONTENTS_CHECKED_AT_ONCE: i64 = 256;

/// Queries that count disagreements between the rows of owner `$1`, with a sentence for each.
const CONSISTENCY_CHECKS: [(&str, &str); 5] = [
    (
        "SELECT count(*) AS found FROM change_files f WHERE f.owner = $1
        AND NOT EXISTS (SELECT 1 FROM changes c WHERE c.owner = $1 AND c.id = f.change_id)",
        "files belong to a missing change",
    ),
    (
        "SELECT count(*) AS found FROM heads h JOIN change_files f ON f.owner = h.owner
            AND f.change_id = h.change_id AND f.place = h.place AND f.after = h.revision
            AND h.path IN (f.path, f.moved_to) AND f.wrote
        WHERE h.owner = $1 AND NOT EXISTS
            (SELECT 1 FROM contents k WHERE k.owner = $1 AND k.revision = h.revision)",
        "memories' latest bytes are missing",
    ),
    (
        "SELECT count(*) AS found FROM counters n WHERE n.owner = $1
        AND (last_change < (SELECT coalesce(max(id), 0) FROM changes WHERE owner = $1)
            OR last_task < (SELECT coalesce(max(seq), 0) FROM tasks WHERE owner = $1)
            OR last_proposal < (SELECT coalesce(max(id), 0) FROM proposals WHERE owner = $1)
            OR last_work < (SELECT coalesce(max(number), 0) FROM model_work WHERE owner = $1))",
        "last numbers are too small",
    ),
    (
        "SELECT count(*) AS found FROM open_changes o WHERE o.owner = $1 AND NOT EXISTS
            (SELECT 1 FROM open_changes c JOIN changes d ON d.owner = c.owner AND d.id = c.change_id
            WHERE c.owner = $1 AND c.change_id = o.change_id AND c.what = 'change')",
        "replaced values belong to no open change",
    ),
    (
        "SELECT count(*) AS found FROM runs r WHERE r.owner = $1
        AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.owner = $1 AND t.id = r.task)",
        "runs belong to a missing task",
    ),
];

/// Checks the agreement between rows; returns each problem as a sentence.
pub(crate) async fn check_rows(
    connection: &mut PgConnection,
    owner: i64,
) -> Result<Vec<String>, CallError> {
    let mut sentences = Vec::new();
    for (query, problem) in CONSISTENCY_CHECKS {
        let found = rows(connection, sqlx::query(query).bind(owner)).await?;
        let count = single(&found, |row| row.count("found"))?;
        if count > 0 {
            sentences.push(format!("{count} {problem}"));
        }
    }
    Ok(sentences)
}

/// A part of the check of contents.
#[derive(Debug, Default)]
pub(crate) struct CheckedContents {
    /// The last one that was checked; `None` after all.
    pub(crate) last: Option<Vec<u8>>,
    /// Number of those that do not match their digest.
    pub(crate) corrupt: u64,
}

/// Compares some contents after `last` with their digests.
pub(crate) async fn check_contents(
    connection: &mut PgConnection,
    owner: i64,
    last: &[u8],
) -> Result<CheckedContents, CallError> {
    let query = sqlx::query(
        "SELECT revision, codec, size, bytes FROM contents WHERE owner = $1 AND revision > $2
        ORDER BY revision LIMIT $3",
    );
    let query = query.bind(owner).bind(last).bind(CONTENTS_CHECKED_AT_ONCE);
    let found = rows(connection, query).await?;
    let mut checked = CheckedContents::default();
    for row in &found {
        let digest = Columns(row).get::<&[u8]>("revision")?;
        let is_sound = |revision: Revision| {
            let packed = PackedContent::read(Columns(row)).ok();
            packed.is_some_and(|packed| packed.unpack(&revision).is_some())
        };
        if !revision(digest).is_some_and(is_sound) {
            checked.corrupt += 1;
        }
        checked.last = Some(digest.to_vec());
    }
    Ok(checked)
}
