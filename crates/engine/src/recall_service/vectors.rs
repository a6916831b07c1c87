//! Vectors of what entries say, by a digest of it, and their form in the state folder.
//!
//! They are made of memories by somebody who may want money for it, so nothing is asked for twice; for all else they
//! are derived and may go at any time. A file has no text: digests of entries, vectors, and which entries a
//! memory of some revision has. Bytes that are not whole, or were made by other rules, are as good as none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use memory::document::Revision;
use model::DIMENSIONS_MAX;
use recall::Vector;

/// How many bytes of a digest tell a text from others.
const DIGEST_BYTES: usize = 16;
const REVISION_BYTES: usize = 32;
const NUMBER_BYTES: usize = 4;
/// Which form the bytes have.
const FORMAT_MARK: &[u8] = b"QVEC1";
/// What a text without a vector says of it.
const VECTOR_ABSENT: u8 = 0;
const VECTOR_PRESENT: u8 = 1;

/// A digest of what an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Digest([u8; DIGEST_BYTES]);

impl Digest {
    pub(super) fn of(text: &str) -> Self {
        let digest = Revision::digest(text.as_bytes());
        Self(std::array::from_fn(|at| digest.as_bytes()[at]))
    }
}

/// A vector that cannot be compared with those at hand.
#[derive(Debug, thiserror::Error)]
#[error(
    "it gives vectors of {found} numbers, and those at hand have {known}; if the model was changed, remove the folder \
     `vectors` from the state folder"
)]
pub(super) struct DimensionMismatch {
    known: usize,
    found: usize,
}

/// Vectors at hand, all as long.
#[derive(Debug, Default)]
pub(super) struct Vectors {
    by_text: HashMap<Digest, Vector>,
    /// What the entries of a memory say, in their order.
    by_memory: HashMap<Revision, Arc<[Digest]>>,
    /// How many numbers each has; 0 as long as there is none.
    dimensions: usize,
}

impl Vectors {
    /// Tells whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// Tells whether an entry that says this has a vector.
    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.by_text.contains_key(digest)
    }

    /// Returns the vectors of a memory's entries, in their order; of none if it is not known.
    pub(super) fn of_memory(&self, revision: &Revision) -> Vec<Option<&Vector>> {
        let digests = self.by_memory.get(revision).map_or(&[][..], |digests| digests);
        digests.iter().map(|digest| self.by_text.get(digest)).collect()
    }

    /// Returns what the entries of a memory say; `None` if it is not known.
    pub(super) fn entry_digests(&self, revision: &Revision) -> Option<&Arc<[Digest]>> {
        self.by_memory.get(revision)
    }

    /// Tells whether all entries of a memory have a vector.
    pub(super) fn is_complete(&self, revision: &Revision) -> bool {
        let listed = self.by_memory.get(revision);
        listed.is_some_and(|digests| digests.iter().all(|digest| self.has(digest)))
    }

    /// Tells whether an entry of these memories has a vector.
    pub(super) fn has_any(&self, memories: &[Revision]) -> bool {
        memories.iter().any(|revision| self.of_memory(revision).iter().any(Option::is_some))
    }

    /// Notes what the entries of a memory say.
    pub(super) fn set_entries(&mut self, revision: Revision, digests: Arc<[Digest]>) {
        self.by_memory.insert(revision, digests);
    }

    /// Tells whether a vector can be compared with those at hand.
    pub(super) fn check(&self, vector: &Vector) -> Result<(), DimensionMismatch> {
        let (known, found) = (self.dimensions, vector.dimensions());
        if known == 0 || known == found { Ok(()) } else { Err(DimensionMismatch { known, found }) }
    }

    /// Takes a vector in.
    pub(super) fn insert(
        &mut self,
        digest: Digest,
        vector: Vector,
    ) -> Result<(), DimensionMismatch> {
        self.check(&vector)?;
        self.dimensions = vector.dimensions();
        self.by_text.insert(digest, vector);
        Ok(())
    }

    /// Forgets all but these memories.
    pub(super) fn retain(&mut self, memories: &HashSet<Revision>) {
        self.by_memory.retain(|revision, _| memories.contains(revision));
        let digests: HashSet<Digest> =
            self.by_memory.values().flat_map(|digests| digests.iter().copied()).collect();
        self.by_text.retain(|digest, _| digests.contains(digest));
        if self.by_text.is_empty() {
            self.dimensions = 0;
        }
    }

    /// Returns how many bytes a memory with so many entries may take in a file.
    pub(super) const fn bytes_of(&self, entries: usize) -> usize {
        let dimensions = if self.dimensions == 0 { DIMENSIONS_MAX } else { self.dimensions };
        REVISION_BYTES + NUMBER_BYTES + entries * (NUMBER_BYTES + DIGEST_BYTES + 1 + dimensions)
    }

    /// Returns what tells one state of these memories from another.
    pub(super) fn fingerprint_of(&self, memories: &[Revision]) -> Revision {
        let mut told = Vec::new();
        for revision in memories {
            let of_memory = self.of_memory(revision);
            let with = of_memory.iter().flatten().count();
            told.extend_from_slice(revision.as_bytes());
            told.extend_from_slice(&u32_bytes(with));
            told.extend_from_slice(&u32_bytes(of_memory.len()));
        }
        Revision::digest(&told)
    }

    /// Returns what is known of these memories as bytes, in which `of` says by whom and how it was made.
    pub(super) fn pack(&self, memories: &[Revision], of: &Revision) -> Vec<u8> {
        let (mut texts, mut places) = (Vec::new(), HashMap::new());
        let mut lists = Vec::new();
        let mut listed = 0;
        for revision in memories {
            let Some(digests) = self.by_memory.get(revision) else { continue };
            listed += 1;
            lists.extend_from_slice(revision.as_bytes());
            lists.extend_from_slice(&u32_bytes(digests.len()));
            for digest in digests.iter() {
                let next = places.len();
                let place = *places.entry(*digest).or_insert_with(|| {
                    self.pack_text(digest, &mut texts);
                    next
                });
                lists.extend_from_slice(&u32_bytes(place));
            }
        }
        let mut rest = of.as_bytes().to_vec();
        for number_of in [self.dimensions, places.len()] {
            rest.extend_from_slice(&u32_bytes(number_of));
        }
        rest.append(&mut texts);
        rest.extend_from_slice(&u32_bytes(listed));
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

    /// Takes in what [`pack`](Self::pack) gave, if it is whole, of the same origin, and can be compared with what is
    /// at hand; `None` if not, and then nothing is taken in.
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

/// Bytes that are read from their beginning.
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

    /// Two memories: one of two entries, and one of an entry of the first and one without a vector.
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
    fn what_was_packed_is_there_again() {
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
    fn only_what_memories_hold_is_packed_and_kept_at_hand() {
        let (mut vectors, memories) = sample();
        let of = revision("rules");
        let mut read = Vectors::default();
        read.merge_packed(&vectors.pack(&memories[1..], &of), &of).unwrap();
        assert!(!read.has(&Digest::of("b")), "no memory of these says that");
        vectors.retain(&HashSet::from([memories[1]]));
        assert_eq!((vectors.has(&Digest::of("a")), vectors.has(&Digest::of("b"))), (true, false));
        vectors.retain(&HashSet::new());
        assert!(vectors.is_empty());
        vectors.insert(Digest::of("d"), Vector::from_numbers(&[1.0; 3]).unwrap()).unwrap();
    }

    #[test]
    fn bytes_that_are_not_whole_or_of_other_rules_are_passed_over() {
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
    fn bytes_with_a_sum_that_fits_are_read_within_bounds() {
        let (vectors, memories) = sample();
        let of = revision("rules");
        let bytes = vectors.pack(&memories, &of);
        let at = FORMAT_MARK.len() + REVISION_BYTES;
        for place in at + REVISION_BYTES..bytes.len() {
            let mut other = bytes.clone();
            other[place] = other[place].wrapping_add(0x7F);
            let sum = Revision::digest(&other[at..]);
            other[FORMAT_MARK.len()..at].copy_from_slice(sum.as_bytes());
            let mut read = Vectors::default();
            // Whatever it says, reading ends, and what is read can be used.
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
