//! A corpus as bytes, so that the next process need not make it anew.
//!
//! Whole numbers are written in as many bytes as they need, terms as steps from one to the next, paths
//! by what they do not share with the one before. What can be made quickly from the rest is left out:
//! postings, vectors, what entries mean. Bytes that were made by another program, by other rules or with
//! another table, and bytes that were torn, are no corpus: a fingerprint and a checksum stand in front.
//! Whatever the bytes are, reading them ends, and takes memory within bounds.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::Date;
use memory::document::Revision;
use memory::path::{MemoryPath, Mount, RelativePath, Scope};
use memory::screen::Screen;

use crate::corpus::{Corpus, Entry, Held, Own, Summary};
use crate::embedder;
use crate::look::ALIKE_AMONG_MAX;
use crate::terms::{dims, number};
use crate::words::{stem, words};

/// Changes whenever bytes come to mean something else.
const MAGIC: &[u8; 4] = b"QRC2";
/// How many bytes the fingerprint and the checksum take, each.
const SUM_BYTES: usize = 8;
const HEAD_BYTES: usize = MAGIC.len() + 2 * SUM_BYTES;
/// As much as a corpus may have that is kept: terms, memories or entries, and terms of all entries.
const COUNT_MAX: usize = 1 << 20;
const PAIRS_MAX: usize = 1 << 24;
/// What a word weighs is counted in such parts of 1.
const QUARTERS: f32 = 4.0;
/// The rarest that a word is, in sixteenths.
const RARITY_MAX: u8 = 16;
/// A text that becomes other words when texts are cut in another way.
const PROBE: &str = "The Ships' sailed to_harbor toPort 3.5 on 2031-04-05: l'été, корабли в порту, 港に船が، سفن. \
     Her son won't unanchor in the US";

const ASKS: u8 = 1;
const TELLS_TIME: u8 = 2;
const HAS_SUBJECT: u8 = 4;

impl Corpus {
    /// Returns the corpus as bytes, with what its owner says about it; `None` when it is too large to be kept.
    pub fn pack(&self, about: &[u8]) -> Option<Vec<u8>> {
        let of_entry = |entry: &Entry| {
            let held = self.memories[entry.memory as usize].as_ref();
            entry.terms.len() + held.map_or(0, |held| held.head.len())
        };
        let pairs: usize = self.entries.iter().flatten().map(of_entry).sum();
        let sizes = [self.terms.list.len(), self.memories(), self.entries()];
        if pairs > PAIRS_MAX || sizes.into_iter().any(|size| size > COUNT_MAX) {
            return None;
        }
        let mut to = Writer::default();
        to.0.extend_from_slice(MAGIC);
        to.0.extend_from_slice(&fingerprint(&self.screen));
        to.0.extend_from_slice(&[0; SUM_BYTES]);
        to.text(about);
        let terms = self.pack_terms(&mut to);
        to.count(self.memories());
        let mut before = String::new();
        for (path, id) in &self.by_path {
            if let Some(held) = &self.memories[*id as usize] {
                to.path(path, &mut before);
                self.pack_memory(held, &terms, &mut to);
            }
        }
        let mut bytes = to.0;
        seal(&mut bytes);
        Some(bytes)
    }

    /// Returns the corpus that was packed, and what its owner said about it; `None` if these bytes are none, or
    /// are not what this program would make with this screen.
    pub fn unpack(screen: Screen, bytes: &[u8]) -> Option<(Self, Vec<u8>)> {
        let (sums, rest) = bytes.strip_prefix(MAGIC)?.split_at_checked(2 * SUM_BYTES)?;
        let (of_maker, of_bytes) = sums.split_at(SUM_BYTES);
        (of_bytes == checksum(rest) && of_maker == fingerprint(&screen)).then_some(())?;
        let mut from = Reader(rest);
        let about = from.text()?.to_vec();
        let mut corpus = Self::new(screen);
        corpus.unpack_terms(&mut from)?;
        let mut pairs = PAIRS_MAX;
        let mut entries = COUNT_MAX;
        let mut before = String::new();
        let memories = from.count(1)?;
        (memories <= COUNT_MAX).then_some(())?;
        corpus.reserve(memories.min(ALIKE_AMONG_MAX));
        for _ in 0..memories {
            let path = from.path(&mut before)?;
            let last = corpus.by_path.last_key_value();
            // What comes twice, or out of its order, was not written by us.
            last.is_none_or(|(last, _)| *last < path).then_some(())?;
            let (summary, own) = unpack_memory(memories, &mut from)?;
            entries = entries.checked_sub(own.len())?;
            let known = number(corpus.terms.list.len());
            let is_known =
                |terms: &[(u32, f32)]| terms.last().is_none_or(|(last, _)| *last < known);
            let all_known = is_known(&summary.head) && own.iter().all(|own| is_known(&own.terms));
            all_known.then_some(())?;
            let of_entries: usize = own.iter().map(|own| own.terms.len()).sum();
            let of_head = own.len().checked_mul(summary.head.len())?;
            pairs = pairs.checked_sub(of_entries.checked_add(of_head)?)?;
            corpus.insert(path, summary, own);
        }
        from.0.is_empty().then_some((corpus, about))
    }

    /// Writes the words that stand somewhere; returns the new number of each.
    fn pack_terms(&self, to: &mut Writer) -> Vec<u32> {
        let mut terms = vec![0; self.terms.list.len()];
        let mut stems = HashMap::new();
        let live = || {
            let all = self.terms.list.iter().enumerate();
            all.filter(|(_, term)| !term.postings.is_empty())
        };
        to.count(live().count());
        for (at, (id, term)) in live().enumerate() {
            terms[id] = number(at);
            to.text(term.word.as_bytes());
            let next = stems.len();
            let known = stems.get(&term.stem).copied();
            // The number after the last is a new stem, which follows.
            to.count(known.unwrap_or(next));
            if known.is_none() {
                stems.insert(term.stem, next);
                let root = stem(&term.word);
                let shared = shared(&term.word, &root);
                to.count(shared);
                to.text(root.as_bytes().get(shared..).unwrap_or_default());
            }
            to.count(term.postings.len());
            let (tokens, rarity) = self.terms.made_of(term);
            to.0.push(rarity);
            to.count(tokens.len());
            for token in tokens {
                to.count(*token as usize);
            }
        }
        terms
    }

    fn unpack_terms(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let count = from.count(5)?;
        (count <= COUNT_MAX).then_some(())?;
        self.terms.reserve(count);
        let mut pairs = PAIRS_MAX;
        let mut tokens = Vec::new();
        for _ in 0..count {
            let word: Arc<str> = str::from_utf8(from.text()?).ok()?.into();
            let stem = from.index()?;
            if stem == self.terms.stems.len() {
                let shared = from.index()?;
                let rest = str::from_utf8(from.text()?).ok()?;
                let shared = word.get(..shared)?;
                if rest.is_empty() {
                    self.terms.add_stem(&word, shared);
                } else {
                    self.terms.add_stem(&word, &[shared, rest].concat());
                }
            }
            (stem < self.terms.stems.len()).then_some(())?;
            let postings = from.index()?;
            pairs = pairs.checked_sub(postings)?;
            let rarity = from.byte()?;
            (rarity <= RARITY_MAX).then_some(())?;
            tokens.clear();
            for _ in 0..from.count(1)? {
                tokens.push(from.short()?);
            }
            let term = self.terms.push(word, number(stem), (&tokens, rarity));
            self.terms.list[term as usize].postings.reserve_exact(postings);
        }
        Some(())
    }

    fn pack_memory(&self, held: &Held, terms: &[u32], to: &mut Writer) {
        let date = held.date.map(|date| (date.year(), date.month(), date.day()));
        to.count(usize::from(date.is_some()));
        if let Some((year, month, day)) = date {
            to.0.extend_from_slice(&year.to_le_bytes());
            to.0.extend_from_slice(&[month.cast_unsigned(), day.cast_unsigned()]);
        }
        to.terms(&held.head, terms);
        // Among more memories nobody looks for the one that is alike as a whole.
        if self.memories() <= ALIKE_AMONG_MAX {
            let gist = self.gist_of_memory(held);
            to.0.extend(gist.iter().map(|number| number.cast_unsigned()));
        }
        to.count(held.entries.len());
        let mut end = 0;
        for entry in held.entries.iter().filter_map(|id| self.entries[*id as usize].as_ref()) {
            pack_entry(entry, terms, end, to);
            end = entry.range.end;
        }
    }
}

fn unpack_memory(memories: usize, from: &mut Reader<'_>) -> Option<(Summary, Vec<Own>)> {
    let date = match from.byte()? {
        0 => None,
        1 => {
            let year = i16::from_le_bytes(from.take(2)?.try_into().ok()?);
            let (month, day) = (from.byte()?.cast_signed(), from.byte()?.cast_signed());
            Some(Date::new(year, month, day).ok()?)
        }
        _ => return None,
    };
    let head = from.terms()?.into();
    let has_gist = memories <= ALIKE_AMONG_MAX;
    let gist = if has_gist { Some(from.take(dims())?) } else { None };
    let gist = gist.map(|gist| gist.iter().map(|number| number.cast_signed()).collect());
    let entries = from.count(4)?;
    let mut own = Vec::with_capacity(entries);
    let mut end = 0;
    for _ in 0..entries {
        let entry = unpack_entry(end, from)?;
        end = entry.range.end;
        own.push(entry);
    }
    Some((Summary { date, head, gist }, own))
}

fn pack_entry(entry: &Entry, terms: &[u32], end: usize, to: &mut Writer) {
    let flags = [
        (entry.asks, ASKS),
        (entry.tells_time, TELLS_TIME),
        (entry.subject.is_some(), HAS_SUBJECT),
    ];
    to.0.push(flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum());
    to.count(entry.range.start.saturating_sub(end));
    to.count(entry.range.len());
    to.count(whole(entry.own_words) as usize);
    if let Some(subject) = &entry.subject {
        to.text(subject.as_bytes());
    }
    to.terms(&entry.terms, terms);
}

fn unpack_entry(end: usize, from: &mut Reader<'_>) -> Option<Own> {
    let flags = from.byte()?;
    let start = end.checked_add(from.index()?)?;
    let end = start.checked_add(from.index()?)?;
    let words = from.short()? as f32;
    let subject = if flags & HAS_SUBJECT > 0 {
        Some(str::from_utf8(from.text()?).ok()?.into())
    } else {
        None
    };
    let (asks, tells_time) = (flags & ASKS > 0, flags & TELLS_TIME > 0);
    Some(Own { range: start..end, terms: from.terms()?, words, subject, asks, tells_time })
}

/// Puts the checksum in its place.
fn seal(bytes: &mut [u8]) {
    let (head, rest) = bytes.split_at_mut(HEAD_BYTES);
    let at = HEAD_BYTES - SUM_BYTES;
    head[at..].copy_from_slice(&checksum(rest));
}

/// What tells bytes from others that were torn; it is no defence against somebody who writes bytes on purpose.
fn checksum(bytes: &[u8]) -> [u8; SUM_BYTES] {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let all = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let sum = all.fold(bytes.len() as u64, |sum, word| {
        (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    sum.to_le_bytes()
}

/// What tells bytes of this program from those of one that cuts, screens or compares in another way.
fn fingerprint(screen: &Screen) -> [u8; SUM_BYTES] {
    let mut told = env!("CARGO_PKG_VERSION").as_bytes().to_vec();
    told.extend_from_slice(screen.fingerprint().as_bytes());
    told.extend_from_slice(embedder::head());
    for word in words(PROBE) {
        told.extend_from_slice(stem(&word.text).as_bytes());
        told.push(u8::from(word.is_small()));
        let tokens = embedder::table().and_then(|table| table.cut(&word.text)).unwrap_or_default();
        told.extend(tokens.into_iter().flat_map(u32::to_le_bytes));
    }
    let digest = Revision::of(&told);
    std::array::from_fn(|at| digest.as_bytes()[at])
}

/// How many bytes two texts begin with that are the same, up to the end of a character.
fn shared(one: &str, other: &str) -> usize {
    let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    one.floor_char_boundary(same)
}

/// A number that is whole and small.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as it says")]
fn whole(number: f32) -> u32 {
    number.round() as u32
}

const fn letter_of(mount: Mount) -> u8 {
    match mount {
        Mount::Flat => 0,
        Mount::Scope(Scope::Global) => 1,
        Mount::Scope(Scope::Project) => 2,
        Mount::Scope(Scope::Workspace) => 3,
    }
}

/// Bytes that are written.
#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    /// Writes a number, seven bits in a byte, the lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn text(&mut self, text: &[u8]) {
        self.count(text.len());
        self.0.extend_from_slice(text);
    }

    /// Writes what a path does not share with the one before.
    fn path(&mut self, path: &MemoryPath, before: &mut String) {
        self.0.push(path.mount().map_or(0, letter_of));
        let text = path.relative().map_or("", |relative| relative.as_str());
        let shared = shared(text, before);
        self.count(shared);
        self.text(text.as_bytes().get(shared..).unwrap_or_default());
        text.clone_into(before);
    }

    /// Writes terms, which are in their order, by their new numbers.
    fn terms(&mut self, terms: &[(u32, f32)], numbers: &[u32]) {
        self.count(terms.len());
        let mut next = 0;
        for (term, weight) in terms {
            let term = numbers[*term as usize];
            let quarters = whole(weight * QUARTERS);
            let is_one = quarters == whole(QUARTERS);
            self.number(u64::from(term - next) << 1 | u64::from(!is_one));
            if !is_one {
                self.number(quarters.into());
            }
            next = term + 1;
        }
    }
}

/// Bytes that are read, from whomever.
#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn short(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    fn index(&mut self) -> Option<usize> {
        self.number()?.try_into().ok()
    }

    /// Reads how many things follow, each of so many bytes at least: not more than there is room for.
    fn count(&mut self, bytes_each: usize) -> Option<usize> {
        let count = self.index()?;
        (count <= self.0.len() / bytes_each).then_some(count)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let count = self.count(1)?;
        self.take(count)
    }

    fn path(&mut self, before: &mut String) -> Option<MemoryPath> {
        let mount = match self.byte()? {
            0 => Mount::Flat,
            1 => Mount::Scope(Scope::Global),
            2 => Mount::Scope(Scope::Project),
            3 => Mount::Scope(Scope::Workspace),
            _ => return None,
        };
        let shared = self.index()?;
        let rest = str::from_utf8(self.text()?).ok()?;
        before.get(..shared)?;
        before.truncate(shared);
        before.push_str(rest);
        MemoryPath::inside(mount, RelativePath::parse(before).ok()?).ok()
    }

    fn terms(&mut self) -> Option<Vec<(u32, f32)>> {
        let count = self.count(1)?;
        let mut terms = Vec::with_capacity(count);
        let mut next = 0_u32;
        for _ in 0..count {
            let step = self.number()?;
            let term = next.checked_add(u32::try_from(step >> 1).ok()?)?;
            let weight = if step & 1 == 0 { 1.0 } else { self.short()? as f32 / QUARTERS };
            terms.push((term, weight));
            next = term.checked_add(1)?;
        }
        Some(terms)
    }
}

#[cfg(test)]
mod tests;
