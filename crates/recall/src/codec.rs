//! Serializes a corpus, so that the next process need not rebuild it.
//!
//! The bytes are a cache: a version, a fingerprint of the rules that made them, a checksum, and the corpus as
//! `postcard`. Postings and most vectors are left out, because they are quickly recomputed. Bytes of another
//! version, other rules or another table are rejected, and so are damaged ones. Decoding any bytes ends and uses
//! bounded memory: each decoded item takes at least one byte, and sums that grow faster than the bytes are limited.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::Date;
use memory::document::Revision;
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use memory::screen::Screen;
use serde::{Deserialize, Serialize};

use crate::candidates::SIMILARITY_CORPUS_MAX;
use crate::corpus::{Corpus, EntryFields, IndexedEntry, MemoryRecord, Summary};
use crate::embedder;
use crate::terms::{dims, to_u32};
use crate::words::{stem, words};

/// Format version; changes whenever the meaning of the bytes changes.
const MAGIC: &[u8; 4] = b"QRC4";
/// Size of the fingerprint, in bytes.
const FINGERPRINT_BYTES: usize = 8;
/// Size of the checksum, in bytes: a CRC-32 of the bytes after it.
const CHECKSUM_BYTES: usize = 4;
const PACKED_HEAD_BYTES: usize = MAGIC.len() + FINGERPRINT_BYTES + CHECKSUM_BYTES;
/// Maximum size of a corpus that is serialized: terms, memories or entries, and terms summed over all entries.
const PACKED_COUNT_MAX: usize = 1 << 20;
const TERM_OCCURRENCES_MAX: usize = 1 << 24;
/// Factor from a weight to the unit that it is stored in.
const QUARTERS: f32 = 4.0;
/// Maximum rarity of a word, in sixteenths.
const RARITY_MAX: u8 = 16;
/// Sample text whose words change when the rules of splitting text change.
const PROBE: &str = "The Ships' sailed to_harbor toPort 3.5 on 2031-04-05: l'été, корабли в порту, 港に船が، سفن. \
     Her son won't unanchor in the US. See src/tide.rs:88, v2.10, HTTPServer, HAL-22 and well-known 0x1F";

/// Mounts; their index is their number in the bytes.
const MOUNTS: [Mount; 4] = [
    Mount::Flat,
    Mount::Scope(Scope::Global),
    Mount::Scope(Scope::Project),
    Mount::Scope(Scope::Workspace),
];

#[derive(Serialize, Deserialize)]
struct PackedCorpus<'a> {
    about: &'a [u8],
    #[serde(borrow)]
    terms: Vec<PackedTerm<'a>>,
    #[serde(borrow)]
    memories: Vec<PackedMemory<'a>>,
}

#[derive(Serialize, Deserialize)]
struct PackedTerm<'a> {
    word: &'a str,
    /// Number of the stem; the next unused number is a new stem.
    stem: u32,
    /// Text of a new stem, if it differs from the word.
    #[serde(borrow)]
    root: Option<Cow<'a, str>>,
    rarity: u8,
    tokens: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct PackedMemory<'a> {
    mount: u8,
    path: &'a str,
    date: Option<(i16, i8, i8)>,
    head: Vec<PackedWeight>,
    /// Vector of the memory as a whole; empty in a corpus that is too large to compare memories.
    #[serde(borrow)]
    vector: Cow<'a, [u8]>,
    #[serde(borrow)]
    entries: Vec<PackedEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct PackedEntry<'a> {
    /// Bytes between the end of the previous entry and its start.
    gap: usize,
    length: usize,
    words: u32,
    subject: Option<&'a str>,
    asks_question: bool,
    has_time_word: bool,
    terms: Vec<PackedWeight>,
}

/// A term in a sorted list.
#[derive(Serialize, Deserialize)]
struct PackedWeight {
    /// Number of terms between it and the previous one.
    step: u32,
    quarters: u32,
}

impl Corpus {
    /// Serializes the corpus together with the owner's data `about`; `None` if it is too large.
    pub fn pack(&self, about: &[u8]) -> Option<Vec<u8>> {
        let of_entry = |entry: &IndexedEntry| {
            let record = self.memories[entry.memory as usize].as_ref();
            entry.terms.len() + record.map_or(0, |record| record.header_terms.len())
        };
        let pairs: usize = self.entries.iter().flatten().map(of_entry).sum();
        let sizes = [self.terms.list.len(), self.memories(), self.entries()];
        if pairs > TERM_OCCURRENCES_MAX || sizes.into_iter().any(|size| size > PACKED_COUNT_MAX) {
            return None;
        }
        let (terms, numbers) = self.pack_terms();
        let records = self.by_path.values().filter_map(|id| self.memories[*id as usize].as_ref());
        let memories =
            records.map(|record| self.pack_memory(record, &numbers)).collect::<Option<Vec<_>>>()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&fingerprint(&self.screen));
        bytes.extend_from_slice(&[0; CHECKSUM_BYTES]);
        let packed = PackedCorpus { about, terms, memories };
        let mut bytes = postcard::to_extend(&packed, bytes).expect("a list of known length");
        write_checksum(&mut bytes);
        Some(bytes)
    }

    /// Decodes a serialized corpus and the owner's data. `None` if the bytes are damaged, or were made with another
    /// version or other screening rules.
    pub fn unpack(screen: Screen, bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (fingerprint_bytes, rest) = rest.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let (checksum_bytes, rest) = rest.split_first_chunk::<CHECKSUM_BYTES>()?;
        (*checksum_bytes == checksum(rest) && *fingerprint_bytes == fingerprint(&screen))
            .then_some(())?;
        let (packed, rest) = postcard::take_from_bytes::<PackedCorpus<'_>>(rest).ok()?;
        let sizes = [packed.terms.len(), packed.memories.len()];
        (rest.is_empty() && sizes.into_iter().all(|size| size <= PACKED_COUNT_MAX)).then_some(())?;
        let mut corpus = Self::new(screen);
        corpus.unpack_terms(packed.terms)?;
        corpus.reserve_postings(&packed.memories)?;
        let has_vector = packed.memories.len() <= SIMILARITY_CORPUS_MAX;
        let mut entries = PACKED_COUNT_MAX;
        corpus.reserve(packed.memories.len());
        for memory in packed.memories {
            let mount = *MOUNTS.get(usize::from(memory.mount))?;
            let path = MemoryPath::inside(mount, RelativePath::parse(memory.path).ok()?).ok()?;
            let last = corpus.by_path.last_key_value();
            // Duplicates, or paths out of order, were not written by this code.
            last.is_none_or(|(last, _)| *last < path).then_some(())?;
            entries = entries.checked_sub(memory.entries.len())?;
            let (summary, own) = unpack_memory(memory, has_vector)?;
            corpus.insert_memory(path, summary, own);
        }
        Some((corpus, packed.about.to_vec()))
    }

    /// Returns the words that occur in an entry, and the new number of each.
    fn pack_terms(&self) -> (Vec<PackedTerm<'_>>, Vec<u32>) {
        let mut numbers = vec![0; self.terms.list.len()];
        let mut stems = HashMap::new();
        let mut terms = Vec::new();
        let all = self.terms.list.iter().enumerate();
        for (id, term) in all.filter(|(_, term)| !term.postings.is_empty()) {
            numbers[id] = to_u32(terms.len());
            let next = to_u32(stems.len());
            let stem_number = *stems.entry(term.stem).or_insert(next);
            let root =
                Some(stem(&term.word)).filter(|root| stem_number == next && *root != *term.word);
            let (tokens, rarity) = self.terms.tokens_and_rarity(term);
            terms.push(PackedTerm {
                word: &term.word,
                stem: stem_number,
                root,
                rarity,
                tokens: tokens.to_vec(),
            });
        }
        (terms, numbers)
    }

    fn unpack_terms(&mut self, terms: Vec<PackedTerm<'_>>) -> Option<()> {
        let tokens_known = embedder::embedding_table().map_or(0, embedder::EmbeddingTable::len);
        self.terms.reserve(terms.len());
        for term in terms {
            let is_known = |token: &u32| (*token as usize) < tokens_known;
            (term.rarity <= RARITY_MAX && term.tokens.iter().all(is_known)).then_some(())?;
            let word = Arc::from(term.word);
            if term.stem as usize == self.terms.stems.len() {
                self.terms.add_stem(&word, term.root.as_deref().unwrap_or(term.word));
            }
            ((term.stem as usize) < self.terms.stems.len()).then_some(())?;
            self.terms.push(word, term.stem, &term.tokens, term.rarity);
        }
        Some(())
    }

    /// Reserves space for the postings of each term, so that the lists do not grow step by step.
    fn reserve_postings(&mut self, memories: &[PackedMemory<'_>]) -> Option<()> {
        let mut postings = vec![0_usize; self.terms.list.len()];
        let mut count = |weights: &[PackedWeight], times: usize| {
            let mut next = 0_usize;
            for weight in weights {
                // A term's weight must be positive: a ranking skips entries whose score is 0.
                (weight.quarters > 0).then_some(())?;
                let index = next.checked_add(weight.step as usize)?;
                *postings.get_mut(index)? += times;
                next = index + 1;
            }
            Some(())
        };
        let mut pairs = TERM_OCCURRENCES_MAX;
        for memory in memories {
            let of_head = memory.entries.len().checked_mul(memory.head.len())?;
            let of_entries: usize = memory.entries.iter().map(|entry| entry.terms.len()).sum();
            pairs = pairs.checked_sub(of_entries.checked_add(of_head)?)?;
            count(&memory.head, memory.entries.len())?;
            for entry in &memory.entries {
                count(&entry.terms, 1)?;
            }
        }
        for (term, count) in self.terms.list.iter_mut().zip(postings) {
            term.postings.reserve_exact(count);
        }
        Some(())
    }

    fn pack_memory<'a>(
        &'a self,
        record: &'a MemoryRecord,
        numbers: &[u32],
    ) -> Option<PackedMemory<'a>> {
        let mount = record.path.mount()?;
        let mount = MOUNTS.iter().position(|known| *known == mount)?;
        let has_vector = self.memories() <= SIMILARITY_CORPUS_MAX;
        let vector = if has_vector { self.memory_vector(record) } else { &[] };
        let mut end = 0;
        let mut entries = Vec::with_capacity(record.entries.len());
        for entry in record.entries.iter().filter_map(|id| self.entries[*id as usize].as_ref()) {
            entries.push(PackedEntry {
                gap: entry.range.start - end,
                length: entry.range.len(),
                words: round_to_u32(entry.own_words),
                subject: entry.subject.as_deref(),
                asks_question: entry.asks_question,
                has_time_word: entry.has_time_word,
                terms: pack_weights(&entry.terms, numbers),
            });
            end = entry.range.end;
        }
        Some(PackedMemory {
            mount: u8::try_from(mount).ok()?,
            path: record.path.relative()?.as_str(),
            date: record.date.map(|date| (date.year(), date.month(), date.day())),
            head: pack_weights(&record.header_terms, numbers),
            vector: vector.iter().map(|number| number.cast_unsigned()).collect(),
            entries,
        })
    }
}

fn unpack_memory(
    memory: PackedMemory<'_>,
    has_vector: bool,
) -> Option<(Summary, Vec<EntryFields>)> {
    let date = match memory.date {
        Some((year, month, day)) => Some(Date::new(year, month, day).ok()?),
        None => None,
    };
    (memory.vector.len() == if has_vector { dims() } else { 0 }).then_some(())?;
    let vector =
        has_vector.then(|| memory.vector.iter().map(|number| number.cast_signed()).collect());
    let head = unpack_weights(memory.head).into();
    let mut own = Vec::with_capacity(memory.entries.len());
    let mut end = 0_usize;
    for entry in memory.entries {
        let start = end.checked_add(entry.gap)?;
        end = start.checked_add(entry.length)?;
        own.push(EntryFields {
            range: start..end,
            terms: unpack_weights(entry.terms),
            words: entry.words as f32,
            subject: entry.subject.map(Into::into),
            asks_question: entry.asks_question,
            has_time_word: entry.has_time_word,
        });
    }
    Some((Summary { date, header_terms: head, text_vector: vector }, own))
}

/// Encodes sorted terms by their new numbers.
fn pack_weights(terms: &[(u32, f32)], numbers: &[u32]) -> Vec<PackedWeight> {
    let mut next = 0;
    let packed = terms.iter().map(|(term, weight)| {
        let step = numbers[*term as usize] - next;
        next += step + 1;
        PackedWeight { step, quarters: round_to_u32(weight * QUARTERS) }
    });
    packed.collect()
}

/// Decodes terms. Their numbers were checked by `reserve_postings`.
fn unpack_weights(packed: Vec<PackedWeight>) -> Vec<(u32, f32)> {
    let mut next = 0;
    let weights = packed.into_iter().map(|weight| {
        let term = next + weight.step;
        next = term + 1;
        (term, weight.quarters as f32 / QUARTERS)
    });
    weights.collect()
}

/// Writes the checksum into the header.
fn write_checksum(bytes: &mut [u8]) {
    let (head, rest) = bytes.split_at_mut(PACKED_HEAD_BYTES);
    head[PACKED_HEAD_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum(rest));
}

/// Returns a checksum that detects damaged bytes; it is no defense against deliberate changes.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// Returns a fingerprint of the rules that split, screen and compare text.
fn fingerprint(screen: &Screen) -> [u8; FINGERPRINT_BYTES] {
    let mut rules = env!("CARGO_PKG_VERSION").as_bytes().to_vec();
    rules.extend_from_slice(screen.fingerprint().as_bytes());
    rules.extend_from_slice(embedder::table_header());
    for word in words(PROBE) {
        rules.extend_from_slice(stem(&word.text).as_bytes());
        rules.push(u8::from(word.is_stop_word()));
        let tokens = embedder::embedding_table()
            .and_then(|table| table.tokenize(&word.text))
            .unwrap_or_default();
        rules.extend(tokens.into_iter().flat_map(u32::to_le_bytes));
    }
    let digest = Revision::digest(&rules);
    std::array::from_fn(|index| digest.as_bytes()[index])
}

/// Converts a float that is a small whole number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and whole")]
fn round_to_u32(number: f32) -> u32 {
    number.round() as u32
}

#[cfg(test)]
mod tests;
