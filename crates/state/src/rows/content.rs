//! Stored contents of files: compressed, and checked against their digest when they are read.

use memory::document::Revision;

use crate::rows::{ColumnResult, Columns, stored_count};

/// The codec number of uncompressed bytes.
const RAW: i64 = 0;
/// The codec number of one LZ4 block.
const LZ4: i64 = 1;
/// Maximum expansion of an LZ4 block; a larger claimed size is damage.
const LZ4_RATIO_MAX: usize = 255;

/// Stored bytes with their codec and original size.
#[derive(Debug, PartialEq, Eq)]
pub struct PackedContent {
    /// The encoding of the bytes: 0 as they are, 1 as one LZ4 block.
    pub codec: i64,
    /// The number of bytes before compression.
    pub size: i64,
    /// The encoded bytes.
    pub bytes: Vec<u8>,
}

impl PackedContent {
    /// Compresses bytes if that makes them shorter.
    pub fn pack(bytes: &[u8]) -> Self {
        let size = stored_count(bytes.len());
        let packed = lz4_flex::block::compress(bytes);
        if packed.len() < bytes.len() {
            Self { codec: LZ4, size, bytes: packed }
        } else {
            Self { codec: RAW, size, bytes: bytes.to_vec() }
        }
    }

    /// Decodes a row's columns `codec`, `size` and `bytes`.
    pub fn read(row: Columns<'_>) -> ColumnResult<Self> {
        Ok(Self { codec: row.get("codec")?, size: row.get("size")?, bytes: row.get("bytes")? })
    }

    /// Decompresses, and checks that the bytes match `revision`.
    pub fn unpack(self, revision: &Revision) -> Option<Vec<u8>> {
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
