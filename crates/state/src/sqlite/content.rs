//! Rows of contents, named by their digest.

use memory::document::Revision;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::rows::{Columns, PackedContent, stored_revision};
use crate::sqlite::batch::{Batch, StatementReuse};

/// Stores bytes, unless they are stored already.
pub(super) const INSERT_CONTENT: &str = "INSERT INTO contents (revision, codec, size, bytes)
    VALUES ($1, $2, $3, $4) ON CONFLICT (revision) DO NOTHING;";

/// The revisions that are referred to. Reads the whole history, so no write uses it. An index would cost every write a
/// page for a query that only pruning needs.
pub(super) const REFERENCED_REVISIONS: &str =
    "SELECT before FROM change_files WHERE before IS NOT NULL
    UNION ALL SELECT after FROM change_files WHERE after IS NOT NULL
    UNION ALL SELECT revision FROM heads WHERE revision IS NOT NULL
    UNION ALL SELECT revision FROM open_changes WHERE revision IS NOT NULL";

/// Returns the statement that drops the unreferenced contents among the ids in the JSON array `$1`.
pub(super) fn drop_unreferenced() -> String {
    format!(
        "DELETE FROM contents WHERE id IN (SELECT value FROM json_each($1))
            AND revision NOT IN ({REFERENCED_REVISIONS});"
    )
}

/// Loads the bytes of a revision.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    revision: &Revision,
) -> Result<Option<Vec<u8>>, Fault> {
    let rows = Batch::new("SELECT codec, size, bytes FROM contents WHERE revision = $1")
        .bind(stored_revision(revision))
        .rows(connection, StatementReuse::Persistent)
        .await?;
    let Some(row) = rows.first() else { return Ok(None) };
    match PackedContent::read(Columns(row)).ok().and_then(|packed| packed.unpack(revision)) {
        Some(bytes) => Ok(Some(bytes)),
        None => Err(Fault::Digest(revision.to_string())),
    }
}
