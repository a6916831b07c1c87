//! The index that recall searches: terms, postings and entries of all memories, updated one memory at a time.
//!
//! A memory is screened and split into passages; each passage becomes an [`IndexedEntry`] with the weights of its
//! terms. The terms of a memory's header (path, name, description) count for all its entries and are stored once.
//! Removing a memory subtracts it again, so that a corpus after any changes ranks like one built from scratch.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher as _;
use std::ops::Range;
use std::sync::OnceLock;

use fnv::FnvHasher;
use jiff::civil::Date;
use memory::path::MemoryPath;
use memory::screen::Screen;

use crate::passage::{self, Passage};
use crate::terms::{Posting, Terms, TextVector, to_u32};
use crate::words::{Word, WordKind, is_time_word, words};

/// Marker in `Stem::last_counted` while an entry is removed: the stem was already decremented for it.
const REMOVED_STEM: u32 = u32::MAX;
/// Weight of a word by the place that it occurs in.
const BODY: f32 = 1.0;
const HEADING: f32 = 0.75;
const DESCRIPTION: f32 = 1.0;
const NAME: f32 = 1.0;
const FOLDER: f32 = 0.5;
/// Weight of the whole of an identifier. It is found by its parts too.
const SIGN: f32 = 1.0;

/// One indexed entry of a memory.
#[derive(Debug)]
pub(crate) struct IndexedEntry {
    pub(crate) memory: u32,
    pub(crate) ordinal: u32,
    pub(crate) range: Range<usize>,
    /// Terms of its text and its headings, sorted, with their weights. The terms of its memory's header also match
    /// it.
    pub(crate) terms: Box<[(u32, f32)]>,
    /// Sum of the weights of its terms, those of the memory's header included.
    pub(crate) length: f32,
    /// Number of words in its own text.
    pub(crate) own_words: f32,
    /// `ln(1 + own_words)`.
    pub(crate) own_words_log: f32,
    pub(crate) subject: Option<Box<str>>,
    pub(crate) asks_question: bool,
    pub(crate) has_time_word: bool,
    text_vector: OnceLock<Box<[i8]>>,
}

/// Facts about a memory as a whole, before it is inserted.
#[derive(Debug)]
pub(crate) struct Summary {
    pub(crate) date: Option<Date>,
    /// Terms of its header, sorted and unique.
    pub(crate) header_terms: Box<[(u32, f32)]>,
    /// Vector of the memory as a whole, if it was computed before.
    pub(crate) text_vector: Option<Box<[i8]>>,
}

/// The content of an entry, before it is inserted.
#[derive(Debug)]
pub(crate) struct EntryFields {
    pub(crate) range: Range<usize>,
    /// Terms of its text and its headings, sorted and unique.
    pub(crate) terms: Vec<(u32, f32)>,
    pub(crate) words: f32,
    pub(crate) subject: Option<Box<str>>,
    pub(crate) asks_question: bool,
    pub(crate) has_time_word: bool,
}

/// An indexed memory.
#[derive(Debug)]
pub(crate) struct MemoryRecord {
    pub(crate) path: MemoryPath,
    pub(crate) entries: Vec<u32>,
    pub(crate) date: Option<Date>,
    /// Terms of its path, name and description; they match all of its entries.
    pub(crate) header_terms: Box<[(u32, f32)]>,
    /// Whether the same few names stand before most of its entries.
    pub(crate) is_conversation: bool,
    text_vector: OnceLock<Box<[i8]>>,
}

/// An index of memories. See the crate's documentation.
///
/// Ranking takes `&self`; several threads may rank at once.
#[derive(Debug, Default)]
pub struct Corpus {
    pub(crate) screen: Screen,
    pub(crate) terms: Terms,
    pub(crate) memories: Vec<Option<MemoryRecord>>,
    pub(crate) entries: Vec<Option<IndexedEntry>>,
    /// Tie-breaker between equal entries. Derived from path and ordinal, so it is the same in every corpus.
    pub(crate) entry_order: Vec<u64>,
    pub(crate) by_path: BTreeMap<MemoryPath, u32>,
    free_memories: Vec<u32>,
    free_entries: Vec<u32>,
    /// Number of entries for each subject.
    pub(crate) subjects: HashMap<Box<str>, usize>,
    /// Sum of the lengths of all entries.
    pub(crate) words: f64,
    change_count: u64,
}

impl Corpus {
    /// Creates an empty corpus. Text that `screen` refuses never enters it.
    pub fn new(screen: Screen) -> Self {
        Self { screen, ..Self::default() }
    }

    /// Returns the number of memories.
    pub fn memories(&self) -> usize {
        self.by_path.len()
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.entries.len() - self.free_entries.len()
    }

    /// Returns the number of memories that were inserted or removed so far. Data by number of entry, such as
    /// [`EntryVectors`](crate::EntryVectors), is valid while it stays the same.
    pub const fn change_count(&self) -> u64 {
        self.change_count
    }

    /// Adds a memory, or replaces the one at this path. `written` is its date, unless its frontmatter, name,
    /// description or file name holds one.
    pub fn put(&mut self, path: &MemoryPath, text: &str, written: Option<Date>) {
        self.remove(path);
        let split = passage::split_passages(text, &self.screen);
        let name = split.header.name.as_deref().unwrap_or_default();
        let description = split.header.description.as_str();
        let (folders, file) = folders_and_file(path);
        let header_date = passage::first_date(name).or_else(|| passage::first_date(description));
        let date = split.date.or(header_date).or_else(|| passage::first_date(&file)).or(written);
        let mut head: BTreeMap<u32, f32> = BTreeMap::new();
        for (text, weight) in [
            (folders.as_str(), FOLDER),
            (file.as_str(), NAME),
            (name, NAME),
            (description, DESCRIPTION),
        ] {
            let words = words(text)
                .into_iter()
                .filter(|word| !word.is_stop_word() && !split.is_screened_out);
            for word in words {
                let max = head.entry(self.terms.add(&word)).or_insert(0.0);
                *max = max.max(weight);
            }
        }
        let summary = Summary { date, header_terms: head.into_iter().collect(), text_vector: None };
        let passages: Vec<EntryFields> =
            split.passages.iter().map(|passage| self.entry_fields(passage)).collect();
        self.insert_memory(path.clone(), summary, passages);
    }

    /// Reserves space for memories.
    pub(crate) fn reserve(&mut self, memories: usize) {
        self.memories.reserve(memories);
        // At least one entry each.
        self.entries.reserve(memories);
        self.entry_order.reserve(memories);
    }

    /// Inserts a memory whose path is not in the corpus.
    pub(crate) fn insert_memory(
        &mut self,
        path: MemoryPath,
        Summary { date, header_terms: head, text_vector }: Summary,
        entries: Vec<EntryFields>,
    ) {
        self.change_count += 1;
        let id = self.free_memories.pop().unwrap_or_else(|| {
            self.memories.push(None);
            to_u32(self.memories.len() - 1)
        });
        let path_hash = path_hash(&path);
        let is_conversation = is_conversation(&entries);
        let entries = entries.into_iter().enumerate();
        let entries = entries
            .map(|(ordinal, own)| self.insert_entry((id, path_hash, &head), to_u32(ordinal), own))
            .collect();
        self.by_path.insert(path.clone(), id);
        let text_vector = text_vector.map_or_else(OnceLock::new, OnceLock::from);
        self.memories[id as usize] = Some(MemoryRecord {
            path,
            entries,
            date,
            header_terms: head,
            is_conversation,
            text_vector,
        });
    }

    /// Removes a memory. Returns whether it was in the corpus.
    pub fn remove(&mut self, path: &MemoryPath) -> bool {
        let Some(id) = self.by_path.remove(path) else { return false };
        self.change_count += 1;
        if let Some(memory) = self.memories[id as usize].take() {
            for entry in memory.entries {
                self.remove_entry(entry, &memory.header_terms);
            }
        }
        self.free_memories.push(id);
        true
    }

    /// Returns the paths of the memories, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        self.by_path.keys()
    }

    /// Returns the average length of an entry, at least 1.
    pub(crate) fn average_length(&self) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "an average of short lengths")]
        let average = (self.words / self.entries().max(1) as f64) as f32;
        average.max(1.0)
    }

    /// Converts a passage into terms, which are added to the vocabulary.
    fn entry_fields(&mut self, passage: &Passage) -> EntryFields {
        let all = words(&passage.text);
        let heading = words(&passage.heading);
        let weight = |word: &Word| if word.kind == WordKind::Identifier { SIGN } else { BODY };
        let weighted = all.iter().map(|word| (word, weight(word)));
        let weighted = weighted.chain(heading.iter().map(|word| (word, HEADING)));
        let mut terms: Vec<(u32, f32)> = weighted
            .filter(|(word, _)| !word.is_stop_word())
            .map(|(word, weight)| (self.terms.add(word), weight))
            .collect();
        terms.sort_unstable_by_key(|(term, _)| *term);
        terms.dedup_by(|(term, weight), (previous, sum)| {
            let is_same = term == previous;
            if is_same {
                *sum += *weight;
            }
            is_same
        });
        EntryFields {
            range: passage.range.clone(),
            terms,
            words: all.iter().filter(|word| word.kind != WordKind::Identifier).count() as f32,
            subject: passage.subject.as_deref().map(Into::into),
            asks_question: has_question_mark(&passage.text),
            has_time_word: all.iter().any(|word| is_time_word(&word.text)),
        }
    }

    fn insert_entry(
        &mut self,
        (memory, path_hash, head): (u32, u64, &[(u32, f32)]),
        ordinal: u32,
        own: EntryFields,
    ) -> u32 {
        let id = self.free_entries.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entry_order.push(0);
            to_u32(self.entries.len() - 1)
        });
        let mut key = FnvHasher::with_key(path_hash);
        key.write(&ordinal.to_le_bytes());
        self.entry_order[id as usize] = key.finish();
        let mut length = 0.0;
        for (term, weight) in merged_terms(&own.terms, head) {
            length += weight;
            let term = &mut self.terms.list[term as usize];
            let index = match term.postings.last() {
                Some(last) if last.entry > id => {
                    term.postings.partition_point(|posting| posting.entry < id)
                }
                _ => term.postings.len(),
            };
            term.postings.insert(index, Posting::new(id, weight));
            let stem = &mut self.terms.stems[term.stem as usize];
            stem.entries += usize::from(stem.last_counted != id + 1);
            stem.last_counted = id + 1;
        }
        if let Some(subject) = &own.subject {
            match self.subjects.get_mut(subject) {
                Some(count) => *count += 1,
                None => drop(self.subjects.insert(subject.clone(), 1)),
            }
        }
        self.words += f64::from(length);
        self.entries[id as usize] = Some(IndexedEntry {
            memory,
            ordinal,
            range: own.range,
            terms: own.terms.into(),
            length,
            own_words: own.words,
            own_words_log: own.words.ln_1p(),
            subject: own.subject,
            asks_question: own.asks_question,
            has_time_word: own.has_time_word,
            text_vector: OnceLock::new(),
        });
        id
    }

    /// Returns the vector of an entry; all zero if none of its words has one.
    pub(crate) fn entry_vector<'a>(&self, entry: &'a IndexedEntry) -> &'a [i8] {
        entry.text_vector.get_or_init(|| {
            let mut sum = TextVector::default();
            if let Some(memory) = &self.memories[entry.memory as usize] {
                self.add_vectors(&entry.terms, &mut sum);
                self.add_vectors(&memory.header_terms, &mut sum);
            }
            sum.unit_vector().into()
        })
    }

    /// Returns the vector of a memory as a whole; all zero if none of its words has one.
    pub(crate) fn memory_vector<'a>(&self, memory: &'a MemoryRecord) -> &'a [i8] {
        memory.text_vector.get_or_init(|| {
            let mut sum = TextVector::default();
            for entry in memory.entries.iter().filter_map(|id| self.entries[*id as usize].as_ref())
            {
                self.add_vectors(&entry.terms, &mut sum);
            }
            self.add_vectors(&memory.header_terms, &mut sum);
            sum.unit_vector().into()
        })
    }

    fn add_vectors(&self, terms: &[(u32, f32)], sum: &mut TextVector) {
        for (term, _) in terms {
            self.terms.add_vector(*term, sum);
        }
    }

    fn remove_entry(&mut self, id: u32, head: &[(u32, f32)]) {
        let Some(entry) = self.entries[id as usize].take() else { return };
        for (term, _) in merged_terms(&entry.terms, head) {
            let term = &mut self.terms.list[term as usize];
            if let Ok(index) = term.postings.binary_search_by_key(&id, |posting| posting.entry) {
                term.postings.remove(index);
            }
            let stem = &mut self.terms.stems[term.stem as usize];
            stem.entries -= usize::from(stem.last_counted != REMOVED_STEM);
            stem.last_counted = REMOVED_STEM;
        }
        for (term, _) in merged_terms(&entry.terms, head) {
            let stem = self.terms.list[term as usize].stem;
            self.terms.stems[stem as usize].last_counted = 0;
        }
        if let Some(subject) = &entry.subject
            && let Some(count) = self.subjects.get_mut(subject)
        {
            *count -= 1;
            if *count == 0 {
                self.subjects.remove(subject);
            }
        }
        self.words -= f64::from(entry.length);
        self.free_entries.push(id);
    }
}

/// Merges two sorted lists of terms; the weights of a term in both are added.
fn merged_terms<'a>(
    own: &'a [(u32, f32)],
    head: &'a [(u32, f32)],
) -> impl Iterator<Item = (u32, f32)> + use<'a> {
    let (mut own, mut head) = (own, head);
    std::iter::from_fn(move || match (own.split_first(), head.split_first()) {
        (Some((one, of_own)), Some((other, of_head))) if one.0 == other.0 => {
            (own, head) = (of_own, of_head);
            Some((one.0, one.1 + other.1))
        }
        (Some((one, of_own)), other) if other.is_none_or(|(other, _)| one.0 < other.0) => {
            own = of_own;
            Some(*one)
        }
        (_, other) => {
            let (other, of_head) = other?;
            head = of_head;
            Some(*other)
        }
    })
}

/// Returns a hash of a path that is the same in every process.
fn path_hash(path: &MemoryPath) -> u64 {
    let mut key = FnvHasher::default();
    key.write(path.mount().map(|mount| mount.to_string()).unwrap_or_default().as_bytes());
    key.write(path.relative().map_or("", |relative| relative.as_str()).as_bytes());
    key.finish()
}

/// Returns the folders of a path below its scope, without the standard ones, and the name of its file.
fn folders_and_file(path: &MemoryPath) -> (String, String) {
    let Some(relative) = path.relative() else { return Default::default() };
    let file = relative.file_name();
    let file = file.strip_suffix(".md").unwrap_or(file).to_owned();
    let folders = relative.parent().map(|parent| parent.as_str().to_owned()).unwrap_or_default();
    let kinds = ["user", "feedback", "project", "reference"];
    let folders: Vec<&str> = folders.split('/').filter(|folder| !kinds.contains(folder)).collect();
    (folders.join(" "), file)
}

/// Checks whether entries are turns of a conversation: names stand before two thirds of them, and each on average
/// before two.
fn is_conversation(entries: &[EntryFields]) -> bool {
    let mut subjects: Vec<&str> = entries.iter().filter_map(|own| own.subject.as_deref()).collect();
    let named = subjects.len();
    if named * 3 < entries.len() * 2 {
        return false;
    }
    subjects.sort_unstable();
    subjects.dedup();
    named > 1 && named >= 2 * subjects.len()
}

/// Checks for a question mark at the end of a word. One inside a word is part of a web address.
fn has_question_mark(text: &str) -> bool {
    text.contains(['？', '؟']) || text.split_whitespace().any(|word| word.ends_with('?'))
}
