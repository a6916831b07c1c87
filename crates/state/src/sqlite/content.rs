//! Stored contents of files: compressed, named by their digest, and checked against it on every read.

use memory::document::Revision;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::sqlite::batch::{Batch, StatementReuse};
use crate::sqlite::row::{ColumnResult, Columns, stored_count, stored_revision};

/// The codec number of uncompressed bytes.
const RAW: i64 = 0;
/// The codec number of one LZ4 block.
const LZ4: i64 = 1;
/// Maximum expansion of an LZ4 block; a larger claimed size is damage.
const LZ4_RATIO_MAX: usize = 255;

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

/// Stored bytes with their codec and original size.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PackedContent {
    pub(super) codec: i64,
    pub(super) size: i64,
    pub(super) bytes: Vec<u8>,
}

impl PackedContent {
    /// Compresses bytes if that makes them shorter.
    pub(super) fn pack(bytes: &[u8]) -> Self {
        let size = stored_count(bytes.len());
        let packed = lz4_flex::block::compress(bytes);
        if packed.len() < bytes.len() {
            Self { codec: LZ4, size, bytes: packed }
        } else {
            Self { codec: RAW, size, bytes: bytes.to_vec() }
        }
    }

    /// Decodes a row's columns `codec`, `size` and `bytes`.
    pub(super) fn read(row: Columns<'_>) -> ColumnResult<Self> {
        Ok(Self { codec: row.get("codec")?, size: row.get("size")?, bytes: row.get("bytes")? })
    }

    /// Decompresses, and checks that the bytes match `revision`.
    pub(super) fn unpack(self, revision: &Revision) -> Option<Vec<u8>> {
        let size = usize::try_from(self.size).ok()?;
        let bytes = match self.codec {
            RAW => self.bytes,
            LZ4 if size <= self.bytes.len().saturating_mul(LZ4_RATIO_MAX) => {
                lz4_flex::block::decompress(&self.bytes, size).ok()?
            }
            _ => return None,
        };
        (bytes.len() == size && Revision::digest(&bytes) == *revision).then_some(bytes)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], codec: i64) {
        let packed = PackedContent::pack(bytes);
        assert_eq!(packed.codec, codec);
        assert!(packed.bytes.len() <= bytes.len());
        assert_eq!(packed.unpack(&Revision::digest(bytes)), Some(bytes.to_vec()));
    }

    #[test]
    fn bytes_round_trip_compressed_or_not() {
        check(b"", RAW);
        check(b"short", RAW);
        check("a line that repeats\n".repeat(100).as_bytes(), LZ4);
        check(&vec![0; 100_000], LZ4);
    }

    #[test]
    fn bytes_that_do_not_match_the_digest_are_refused() {
        let revision = Revision::digest(b"one");
        let raw = |bytes: &[u8]| PackedContent { codec: RAW, size: 3, bytes: bytes.to_vec() };
        assert_eq!(raw(b"one").unpack(&revision), Some(b"one".to_vec()));
        assert_eq!(raw(b"two").unpack(&revision), None);
        assert_eq!(PackedContent { codec: 9, ..raw(b"one") }.unpack(&revision), None);
        assert_eq!(PackedContent { size: 4, ..raw(b"one") }.unpack(&revision), None);
        assert_eq!(PackedContent { size: -1, ..raw(b"one") }.unpack(&revision), None);
    }

    #[test]
    fn a_huge_claimed_size_allocates_no_memory() {
        let claimed = PackedContent { codec: LZ4, size: i64::MAX, bytes: vec![0; 20] };
        assert_eq!(claimed.unpack(&Revision::digest(b"")), None);
    }
}
