//! Vectors of entries, keyed by a digest of the entry's text, and their file format in the state
//! folder.
//!
//! Embeddings may cost money, so no text is embedded twice. Otherwise they are derived data that
//! can be dropped at any time. A file contains no texts: only digests of entries, vectors, and the
//! list of entries of each memory revision. A file that is damaged, or that another version or
//! model wrote, is ignored.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memory::document::Revision;
use model::DIMENSIONS_MAX;
use recall::Vector;

/// Length in bytes of a digest of an entry.
const DIGEST_BYTES: usize = 16;
const REVISION_BYTES: usize = 32;
const NUMBER_BYTES: usize = 4;
/// Version mark at the start of a file.
const FORMAT_MARK: &[u8] = b"QVEC1";
/// Flag of an entry without a vector.
const VECTOR_ABSENT: u8 = 0;
const VECTOR_PRESENT: u8 = 1;

/// A digest of an entry's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        let digest = Revision::digest(text.as_bytes());
        Self(std::array::from_fn(|index| digest.as_bytes()[index]))
    }
}

/// An error for a vector whose length differs from the stored ones.
#[derive(Debug, thiserror::Error)]
#[error(
    "the endpoint returned vectors of {found} numbers, but the stored ones have {known}; if the model was changed, remove the folder \
     `vectors` from the state folder"
)]
pub(super) struct DimensionMismatch {
    known: usize,
    found: usize,
}

/// Vectors in memory, all of the same length.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    by_text: HashMap<Digest, Vector>,
    /// Digests of the entries of a memory, in order.
    by_memory: HashMap<Revision, Arc<[Digest]>>,
    /// Length of each vector; 0 if there is none yet.
    dimensions: usize,
    change_count: u64,
}

impl Vectors {
    /// Checks whether there are no vectors.
    pub(super) fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// Returns the number of changes so far.
    pub(super) const fn change_count(&self) -> u64 {
        self.change_count
    }

    /// Checks whether an entry with this digest has a vector.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.by_text.contains_key(digest)
    }

    /// Returns the vectors of a memory's entries, in order; empty for an unknown memory.
    pub(super) fn of_memory(&self, revision: &Revision) -> Vec<Option<&Vector>> {
        let digests = self.by_memory.get(revision).map_or(&[][..], |digests| digests);
        digests.iter().map(|digest| self.by_text.get(digest)).collect()
    }

    /// Returns the digests of a memory's entries; `None` for an unknown memory.
    pub(super) fn entry_digests(&self, revision: &Revision) -> Option<&Arc<[Digest]>> {
        self.by_memory.get(revision)
    }

    /// Checks whether all entries of a memory have a vector.
    pub(super) fn is_complete(&self, revision: &Revision) -> bool {
        let listed = self.by_memory.get(revision);
        listed.is_some_and(|digests| digests.iter().all(|digest| self.has(digest)))
    }

    /// Checks whether any entry of these memories has a vector.
    pub(super) fn has_any(&self, memories: &[Revision]) -> bool {
        memories.iter().any(|revision| self.of_memory(revision).iter().any(Option::is_some))
    }

    /// Stores the digests of a memory's entries.
    pub(super) fn set_entries(&mut self, revision: Revision, digests: Arc<[Digest]>) {
        self.change_count += 1;
        self.by_memory.insert(revision, digests);
    }

    /// Checks whether a vector has the same length as the stored ones.
    pub(super) fn check(&self, vector: &Vector) -> Result<(), DimensionMismatch> {
        let (known, found) = (self.dimensions, vector.dimensions());
        if known == 0 || known == found { Ok(()) } else { Err(DimensionMismatch { known, found }) }
    }

    /// Adds a vector.
    pub(super) fn insert(
        &mut self,
        digest: Digest,
        vector: Vector,
    ) -> Result<(), DimensionMismatch> {
        self.check(&vector)?;
        self.change_count += 1;
        self.dimensions = vector.dimensions();
        self.by_text.insert(digest, vector);
        Ok(())
    }

    /// Drops the data of all other memories.
    pub(super) fn retain(&mut self, memories: &HashSet<Revision>) {
        self.change_count += 1;
        self.by_memory.retain(|revision, _| memories.contains(revision));
        let digests: HashSet<Digest> =
            self.by_memory.values().flat_map(|digests| digests.iter().copied()).collect();
        self.by_text.retain(|digest, _| digests.contains(digest));
        if self.by_text.is_empty() {
            self.dimensions = 0;
        }
    }

    /// Returns the maximum size in a file of a memory with `entries` entries.
    pub(super) const fn bytes_of(&self, entries: usize) -> usize {
        let dimensions = if self.dimensions == 0 { DIMENSIONS_MAX } else { self.dimensions };
        REVISION_BYTES + NUMBER_BYTES + entries * (NUMBER_BYTES + DIGEST_BYTES + 1 + dimensions)
    }

    /// Returns a digest of the vectors available for these memories, to detect changes.
    pub(super) fn fingerprint_of(&self, memories: &[Revision]) -> Revision {
        let mut bytes = Vec::new();
        for revision in memories {
            let of_memory = self.of_memory(revision);
            let with = of_memory.iter().flatten().count();
            bytes.extend_from_slice(revision.as_bytes());
            bytes.extend_from_slice(&u32_bytes(with));
            bytes.extend_from_slice(&u32_bytes(of_memory.len()));
        }
        Revision::digest(&bytes)
    }

    /// Encodes the data of these memories; `of` is the fingerprint of the model and the rules.
    pub(super) fn pack(&self, memories: &[Revision], of: &Revision) -> Vec<u8> {
        let (mut texts, mut indexes) = (Vec::new(), HashMap::new());
        let mut lists = Vec::new();
        let mut memory_count = 0;
        for revision in memories {
            let Some(digests) = self.by_memory.get(revision) else { continue };
            memory_count += 1;
            lists.extend_from_slice(revision.as_bytes());
            lists.extend_from_slice(&u32_bytes(digests.len()));
            for digest in digests.iter() {
                let next = indexes.len();
                let index = *indexes.entry(*digest).or_insert_with(|| {
                    self.pack_text(digest, &mut texts);
                    next
                });
                lists.extend_from_slice(&u32_bytes(index));
            }
        }
        let mut rest = of.as_bytes().to_vec();
        for number in [self.dimensions, indexes.len()] {
            rest.extend_from_slice(&u32_bytes(number));
        }
        rest.append(&mut texts);
        rest.extend_from_slice(&u32_bytes(memory_count));
        rest.append(&mut lists);
        [FORMAT_MARK, Revision::digest(&rest).as_bytes(), &rest].concat()
    }

    fn pack_text(&self, digest: &Digest, to: &mut Vec<u8>) {
        to.extend_from_slice(&digest.0);
        match self.by_text.get(digest) {
            Some(vector) => {
                to.push(VECTOR_PRESENT);
                to.extend(vector.bytes());
            }
            None => to.push(VECTOR_ABSENT),
        }
    }

    /// Adds data encoded by [`pack`](Self::pack). Returns `None` and changes nothing if it is
    /// damaged, has another fingerprint, or has vectors of another length.
    pub(super) fn merge_packed(&mut self, bytes: &[u8], of: &Revision) -> Option<()> {
        let rest = bytes.strip_prefix(FORMAT_MARK)?;
        let (sum, rest) = rest.split_first_chunk::<REVISION_BYTES>()?;
        (Revision::digest(rest).as_bytes() == sum).then_some(())?;
        let (made_by, rest) = rest.split_first_chunk::<REVISION_BYTES>()?;
        (made_by == of.as_bytes()).then_some(())?;
        let mut from = ByteReader(rest);
        let (dimensions, texts) = (from.number()?, from.number()?);
        let comparable = self.dimensions == 0 || dimensions == 0 || dimensions == self.dimensions;
        (comparable && dimensions <= DIMENSIONS_MAX).then_some(())?;
        let mut digests = Vec::new();
        let mut vectors = Vec::new();
        for _ in 0..texts {
            let digest = Digest(*from.array()?);
            digests.push(digest);
            if from.array::<1>()? == &[VECTOR_PRESENT] {
                vectors.push((digest, Vector::from_bytes(from.bytes(dimensions)?)?));
            }
        }
        let mut lists: Vec<(Revision, Arc<[Digest]>)> = Vec::new();
        for _ in 0..from.number()? {
            let revision = Revision::from_bytes(*from.array()?);
            let entries = from.number()?;
            let entry = |_| digests.get(from.number()?).copied();
            lists.push((revision, (0..entries).map(entry).collect::<Option<_>>()?));
        }
        from.0.is_empty().then_some(())?;
        self.change_count += 1;
        self.by_text.extend(vectors);
        self.by_memory.extend(lists);
        if !self.by_text.is_empty() {
            self.dimensions = dimensions.max(self.dimensions);
        }
        Some(())
    }
}

fn u32_bytes(of: usize) -> [u8; NUMBER_BYTES] {
    u32::try_from(of).expect("the bytes of a file are bounded").to_le_bytes()
}

/// A reader of bytes from the start.
struct ByteReader<'a>(&'a [u8]);

impl<'a> ByteReader<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn number(&mut self) -> Option<usize> {
        usize::try_from(u32::from_le_bytes(*self.array()?)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector(of: [f32; 2]) -> Vector {
        Vector::from_numbers(&of).unwrap()
    }

    fn revision(of: &str) -> Revision {
        Revision::digest(of.as_bytes())
    }

    /// Two memories: one with two entries, one that shares an entry with it and has one without a
    /// vector.
    fn sample() -> (Vectors, [Revision; 2]) {
        let [a, b, c] = ["a", "b", "c"].map(Digest::of);
        let memories = ["one", "other"].map(revision);
        let mut vectors = Vectors::default();
        vectors.set_entries(memories[0], Arc::new([a, b]));
        vectors.set_entries(memories[1], Arc::new([a, c]));
        vectors.insert(a, vector([1.0, 0.5])).unwrap();
        vectors.insert(b, vector([0.0, 1.0])).unwrap();
        (vectors, memories)
    }

    #[test]
    fn packed_vectors_are_restored() {
        let (vectors, memories) = sample();
        let of = revision("rules");
        let bytes = vectors.pack(&memories, &of);
        let mut read = Vectors::default();
        read.merge_packed(&bytes, &of).unwrap();
        assert_eq!(read.pack(&memories, &of), bytes);
        assert_eq!(read.fingerprint_of(&memories), vectors.fingerprint_of(&memories));
        assert_eq!(memories.map(|memory| read.is_complete(&memory)), [true, false]);
        let first = vector([1.0, 0.5]);
        assert_eq!(read.of_memory(&memories[1]), [Some(&first), None]);
        assert!(bytes.len() <= memories.iter().map(|_| vectors.bytes_of(2)).sum::<usize>() + 128);
    }

    #[test]
    fn only_vectors_of_existing_entries_are_packed_and_retained() {
        let (mut vectors, memories) = sample();
        let of = revision("rules");
        let mut read = Vectors::default();
        read.merge_packed(&vectors.pack(&memories[1..], &of), &of).unwrap();
        assert!(!read.has(&Digest::of("b")), "none of the memories has that entry");
        vectors.retain(&HashSet::from([memories[1]]));
        assert_eq!((vectors.has(&Digest::of("a")), vectors.has(&Digest::of("b"))), (true, false));
        vectors.retain(&HashSet::new());
        assert!(vectors.is_empty());
        vectors.insert(Digest::of("d"), Vector::from_numbers(&[1.0; 3]).unwrap()).unwrap();
    }

    #[test]
    fn damaged_bytes_and_other_fingerprints_are_ignored() {
        let (vectors, memories) = sample();
        let of = revision("rules");
        let bytes = vectors.pack(&memories, &of);
        let mut read = Vectors::default();
        assert_eq!(read.merge_packed(&bytes, &revision("other rules")), None);
        for end in 0..bytes.len() {
            assert_eq!(read.merge_packed(&bytes[..end], &of), None, "{end}");
            let mut other = bytes.clone();
            other[end] ^= 1;
            assert_eq!(read.merge_packed(&other, &of), None, "{end}");
        }
        assert!(read.is_empty());
    }

    #[test]
    fn bytes_with_a_matching_checksum_are_read_within_bounds() {
        let (vectors, memories) = sample();
        let of = revision("rules");
        let bytes = vectors.pack(&memories, &of);
        let start = FORMAT_MARK.len() + REVISION_BYTES;
        for index in start + REVISION_BYTES..bytes.len() {
            let mut other = bytes.clone();
            other[index] = other[index].wrapping_add(0x7F);
            let sum = Revision::digest(&other[start..]);
            other[FORMAT_MARK.len()..start].copy_from_slice(sum.as_bytes());
            let mut read = Vectors::default();
            // Whatever the bytes say, reading must end and give usable data.
            read.merge_packed(&other, &of);
            for memory in &memories {
                assert!(read.of_memory(memory).len() <= bytes.len());
            }
        }
    }

    #[test]
    fn a_vector_of_another_length_is_refused() {
        let (mut vectors, _) = sample();
        let longer = Vector::from_numbers(&[1.0; 3]).unwrap();
        let error = vectors.insert(Digest::of("c"), longer).unwrap_err();
        assert_eq!((error.known, error.found), (2, 3));
    }
}
