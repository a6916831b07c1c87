//! A corpus as bytes, so that the next process need not make it anew.
//!
//! The bytes are a cache: a version, a fingerprint of what made them, a checksum, and the corpus in the form of
//! `postcard`. What can be made quickly from the rest is left out: postings, vectors, what entries mean. Bytes that
//! were made by another program, by other rules or with another table, and bytes that were torn, are no corpus.
//! Whatever the bytes are, reading them ends, and takes memory within bounds: each thing that is read takes a byte
//! at least, and sums that grow faster than the bytes are bounded.

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

/// Changes whenever bytes come to mean something else.
const MAGIC: &[u8; 4] = b"QRC3";
/// How many bytes the fingerprint takes.
const FINGERPRINT_BYTES: usize = 8;
/// How many bytes the checksum takes, a CRC-32 of what stands behind it.
const CHECKSUM_BYTES: usize = 4;
const PACKED_HEAD_BYTES: usize = MAGIC.len() + FINGERPRINT_BYTES + CHECKSUM_BYTES;
/// As much as a corpus may have that is kept: terms, memories or entries, and terms of all entries.
const PACKED_COUNT_MAX: usize = 1 << 20;
const TERM_OCCURRENCES_MAX: usize = 1 << 24;
/// What a word weighs is counted in such parts of 1.
const QUARTERS: f32 = 4.0;
/// The rarest that a word is, in sixteenths.
const RARITY_MAX: u8 = 16;
/// A text that becomes other words when texts are cut in another way.
const PROBE: &str = "The Ships' sailed to_harbor toPort 3.5 on 2031-04-05: l'été, корабли в порту, 港に船が، سفن. \
     Her son won't unanchor in the US";

/// What holds memories; their place here is their number in the bytes.
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
    /// Its number; the number after the last is a new one.
    stem: u32,
    /// A new stem that is not the word itself.
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
    /// The direction of what it means as a whole; nothing among so many memories that it is not looked for.
    #[serde(borrow)]
    gist: Cow<'a, [u8]>,
    #[serde(borrow)]
    entries: Vec<PackedEntry<'a>>,
}

#[derive(Serialize, Deserialize)]
struct PackedEntry<'a> {
    /// How far behind the end of the entry before it begins.
    gap: usize,
    length: usize,
    words: u32,
    subject: Option<&'a str>,
    asks: bool,
    tells_time: bool,
    terms: Vec<PackedWeight>,
}

/// A term of a list in rising order.
#[derive(Serialize, Deserialize)]
struct PackedWeight {
    /// How many terms lie between it and the one before.
    step: u32,
    quarters: u32,
}

impl Corpus {
    /// Returns the corpus as bytes, with what its owner says about it; `None` when it is too large to be kept.
    pub fn pack(&self, about: &[u8]) -> Option<Vec<u8>> {
        let of_entry = |entry: &IndexedEntry| {
            let held = self.memories[entry.memory as usize].as_ref();
            entry.terms.len() + held.map_or(0, |held| held.header_terms.len())
        };
        let pairs: usize = self.entries.iter().flatten().map(of_entry).sum();
        let sizes = [self.terms.list.len(), self.memories(), self.entries()];
        if pairs > TERM_OCCURRENCES_MAX || sizes.into_iter().any(|size| size > PACKED_COUNT_MAX) {
            return None;
        }
        let (terms, numbers) = self.pack_terms();
        let held = self.by_path.values().filter_map(|id| self.memories[*id as usize].as_ref());
        let memories =
            held.map(|held| self.pack_memory(held, &numbers)).collect::<Option<Vec<_>>>()?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&fingerprint(&self.screen));
        bytes.extend_from_slice(&[0; CHECKSUM_BYTES]);
        let packed = PackedCorpus { about, terms, memories };
        let mut bytes = postcard::to_extend(&packed, bytes).expect("a list of known length");
        write_checksum(&mut bytes);
        Some(bytes)
    }

    /// Returns the corpus that was packed, and what its owner said about it; `None` if these bytes are none, or
    /// are not what this program would make with this screen.
    pub fn unpack(screen: Screen, bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (of_maker, rest) = rest.split_first_chunk::<FINGERPRINT_BYTES>()?;
        let (of_bytes, rest) = rest.split_first_chunk::<CHECKSUM_BYTES>()?;
        (*of_bytes == checksum(rest) && *of_maker == fingerprint(&screen)).then_some(())?;
        let (packed, rest) = postcard::take_from_bytes::<PackedCorpus<'_>>(rest).ok()?;
        let sizes = [packed.terms.len(), packed.memories.len()];
        (rest.is_empty() && sizes.into_iter().all(|size| size <= PACKED_COUNT_MAX)).then_some(())?;
        let mut corpus = Self::new(screen);
        corpus.unpack_terms(packed.terms)?;
        corpus.reserve_postings(&packed.memories)?;
        let has_gist = packed.memories.len() <= SIMILARITY_CORPUS_MAX;
        let mut entries = PACKED_COUNT_MAX;
        corpus.reserve(packed.memories.len());
        for memory in packed.memories {
            let mount = *MOUNTS.get(usize::from(memory.mount))?;
            let path = MemoryPath::inside(mount, RelativePath::parse(memory.path).ok()?).ok()?;
            let last = corpus.by_path.last_key_value();
            // What comes twice, or out of its order, was not written by us.
            last.is_none_or(|(last, _)| *last < path).then_some(())?;
            entries = entries.checked_sub(memory.entries.len())?;
            let (summary, own) = unpack_memory(memory, has_gist)?;
            corpus.insert_memory(path, summary, own);
        }
        Some((corpus, packed.about.to_vec()))
    }

    /// Returns the words that stand somewhere, and the new number of each.
    fn pack_terms(&self) -> (Vec<PackedTerm<'_>>, Vec<u32>) {
        let mut numbers = vec![0; self.terms.list.len()];
        let mut stems = HashMap::new();
        let mut terms = Vec::new();
        let all = self.terms.list.iter().enumerate();
        for (id, term) in all.filter(|(_, term)| !term.postings.is_empty()) {
            numbers[id] = to_u32(terms.len());
            let next = to_u32(stems.len());
            let known = *stems.entry(term.stem).or_insert(next);
            let root = Some(stem(&term.word)).filter(|root| known == next && *root != *term.word);
            let (tokens, rarity) = self.terms.tokens_and_rarity(term);
            terms.push(PackedTerm {
                word: &term.word,
                stem: known,
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

    /// Makes room for what each term is found in, so that no list of a term grows step by step.
    fn reserve_postings(&mut self, memories: &[PackedMemory<'_>]) -> Option<()> {
        let mut postings = vec![0_usize; self.terms.list.len()];
        let mut count = |weights: &[PackedWeight], times: usize| {
            let mut next = 0_usize;
            for weight in weights {
                // A term that stands somewhere counts: a ranking skips entries that counted nothing.
                (weight.quarters > 0).then_some(())?;
                let at = next.checked_add(weight.step as usize)?;
                *postings.get_mut(at)? += times;
                next = at + 1;
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
        held: &'a MemoryRecord,
        numbers: &[u32],
    ) -> Option<PackedMemory<'a>> {
        let mount = held.path.mount()?;
        let mount = MOUNTS.iter().position(|known| *known == mount)?;
        let has_gist = self.memories() <= SIMILARITY_CORPUS_MAX;
        let gist = if has_gist { self.memory_vector(held) } else { &[] };
        let mut end = 0;
        let mut entries = Vec::with_capacity(held.entries.len());
        for entry in held.entries.iter().filter_map(|id| self.entries[*id as usize].as_ref()) {
            entries.push(PackedEntry {
                gap: entry.range.start - end,
                length: entry.range.len(),
                words: round_to_u32(entry.own_words),
                subject: entry.subject.as_deref(),
                asks: entry.asks_question,
                tells_time: entry.has_time_word,
                terms: pack_weights(&entry.terms, numbers),
            });
            end = entry.range.end;
        }
        Some(PackedMemory {
            mount: u8::try_from(mount).ok()?,
            path: held.path.relative()?.as_str(),
            date: held.date.map(|date| (date.year(), date.month(), date.day())),
            head: pack_weights(&held.header_terms, numbers),
            gist: gist.iter().map(|number| number.cast_unsigned()).collect(),
            entries,
        })
    }
}

fn unpack_memory(memory: PackedMemory<'_>, has_gist: bool) -> Option<(Summary, Vec<EntryFields>)> {
    let date = match memory.date {
        Some((year, month, day)) => Some(Date::new(year, month, day).ok()?),
        None => None,
    };
    (memory.gist.len() == if has_gist { dims() } else { 0 }).then_some(())?;
    let gist = has_gist.then(|| memory.gist.iter().map(|number| number.cast_signed()).collect());
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
            asks_question: entry.asks,
            has_time_word: entry.tells_time,
        });
    }
    Some((Summary { date, header_terms: head, text_vector: gist }, own))
}

/// Returns terms, which are in their order, by their new numbers.
fn pack_weights(terms: &[(u32, f32)], numbers: &[u32]) -> Vec<PackedWeight> {
    let mut next = 0;
    let packed = terms.iter().map(|(term, weight)| {
        let step = numbers[*term as usize] - next;
        next += step + 1;
        PackedWeight { step, quarters: round_to_u32(weight * QUARTERS) }
    });
    packed.collect()
}

/// Returns terms by their numbers, which were found to be known.
fn unpack_weights(packed: Vec<PackedWeight>) -> Vec<(u32, f32)> {
    let mut next = 0;
    let weights = packed.into_iter().map(|weight| {
        let term = next + weight.step;
        next = term + 1;
        (term, weight.quarters as f32 / QUARTERS)
    });
    weights.collect()
}

/// Puts the checksum in its place.
fn write_checksum(bytes: &mut [u8]) {
    let (head, rest) = bytes.split_at_mut(PACKED_HEAD_BYTES);
    head[PACKED_HEAD_BYTES - CHECKSUM_BYTES..].copy_from_slice(&checksum(rest));
}

/// Returns what tells bytes from others that were torn; it is no defence against bytes that were written on purpose.
fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32fast::hash(bytes).to_le_bytes()
}

/// Returns what tells bytes of this program from those of one that cuts, screens or compares in another way.
fn fingerprint(screen: &Screen) -> [u8; FINGERPRINT_BYTES] {
    let mut told = env!("CARGO_PKG_VERSION").as_bytes().to_vec();
    told.extend_from_slice(screen.fingerprint().as_bytes());
    told.extend_from_slice(embedder::table_header());
    for word in words(PROBE) {
        told.extend_from_slice(stem(&word.text).as_bytes());
        told.push(u8::from(word.is_stop_word()));
        let tokens = embedder::embedding_table()
            .and_then(|table| table.tokenize(&word.text))
            .unwrap_or_default();
        told.extend(tokens.into_iter().flat_map(u32::to_le_bytes));
    }
    let digest = Revision::digest(&told);
    std::array::from_fn(|at| digest.as_bytes()[at])
}

/// A number that is whole and small.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as it says")]
fn round_to_u32(number: f32) -> u32 {
    number.round() as u32
}

#[cfg(test)]
mod tests;
