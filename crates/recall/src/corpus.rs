//! The corpus: memories as words, one memory at a time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Mutex;

use jiff::civil::Date;
use memory::path::MemoryPath;
use memory::screen::Screen;

use crate::look::Scratch;
use crate::terms::{Gist, Posting, Terms, dims, number};
use crate::unit::{self, Unit};
use crate::words::{Kind, Word, words};

/// How much a word counts by where it stands.
const BODY: f32 = 1.0;
const HEADING: f32 = 0.75;
const DESCRIPTION: f32 = 1.0;
const NAME: f32 = 1.0;
const FOLDER: f32 = 0.5;
/// The whole of a name that is made of parts counts less than the parts: it is found by them too.
const SIGN: f32 = 1.0;

/// One entry of a memory, in words.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) memory: u32,
    pub(crate) ordinal: u32,
    pub(crate) range: Range<usize>,
    /// The terms that it is found by, in their order, each with its weight.
    pub(crate) terms: Box<[(u32, f32)]>,
    /// How many words it has, its head included.
    pub(crate) length: f32,
    /// How many words it has of its own.
    pub(crate) own_words: f32,
    pub(crate) subject: Option<Box<str>>,
    pub(crate) asks: bool,
    pub(crate) tells_time: bool,
}

/// One memory.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) path: MemoryPath,
    pub(crate) entries: Vec<u32>,
    pub(crate) date: Option<Date>,
    /// The direction of what it means as a whole.
    pub(crate) gist: Vec<i8>,
}

/// The words of memories, and where each stands. See the crate's documentation.
///
/// Ranking takes `&self` and may be done by several threads at once.
#[derive(Debug, Default)]
pub struct Corpus {
    screen: Screen,
    pub(crate) terms: Terms,
    pub(crate) memories: Vec<Option<Held>>,
    pub(crate) entries: Vec<Option<Entry>>,
    /// Which of two entries comes first that are alike: the same in every corpus, and quick to compare.
    pub(crate) keys: Vec<u64>,
    /// The directions of what entries mean, entry by entry.
    pub(crate) gists: Vec<i8>,
    by_path: BTreeMap<MemoryPath, u32>,
    free_memories: Vec<u32>,
    free_entries: Vec<u32>,
    /// How many entries begin with each subject.
    pub(crate) subjects: HashMap<Box<str>, usize>,
    /// The sum of the lengths of all entries.
    pub(crate) words: f64,
    pub(crate) scratch: Mutex<Vec<Scratch>>,
}

impl Corpus {
    /// Returns a corpus of no memories. What `screen` objects to never enters it.
    pub fn new(screen: Screen) -> Self {
        Self { screen, ..Self::default() }
    }

    /// Returns how many memories it has.
    pub fn memories(&self) -> usize {
        self.by_path.len()
    }

    /// Returns how many entries it has.
    pub fn entries(&self) -> usize {
        self.entries.len() - self.free_entries.len()
    }

    /// Takes a memory in, in place of what it had under this path. `written` is the day it is from,
    /// unless its frontmatter, its name or its description says another.
    pub fn put(&mut self, path: &MemoryPath, text: &str, written: Option<Date>) {
        self.remove(path);
        let cut = unit::cut(text, &self.screen);
        let id = self.free_memories.pop().unwrap_or_else(|| {
            self.memories.push(None);
            number(self.memories.len() - 1)
        });
        let name = cut.head.name.as_deref().unwrap_or_default();
        let description = cut.head.description.as_str();
        let mut head: BTreeMap<Box<str>, (Word, f32)> = BTreeMap::new();
        let (folders, file) = folders_and_file(path);
        let file_name = file.clone();
        for (text, weight) in [
            (folders, FOLDER),
            (file, NAME),
            (name.to_owned(), NAME),
            (description.to_owned(), DESCRIPTION),
        ] {
            for word in words(&text).into_iter().filter(|word| !word.is_small()) {
                let known = head.entry(word.text.as_str().into()).or_insert((word, 0.0));
                known.1 = known.1.max(weight);
            }
        }
        let named = unit::first_date(name).or_else(|| unit::first_date(description));
        let date = cut.date.or(named).or_else(|| unit::first_date(&file_name)).or(written);
        let mut entries = Vec::new();
        let mut of_head = Gist::default();
        for (word, _) in head.values() {
            of_head.add_word(word);
        }
        let mut gist = of_head.clone();
        for unit in cut.units {
            let (entry, own) =
                self.enter((id, path), number(entries.len()), &unit, (&head, &of_head));
            entries.push(entry);
            gist.merge(&own);
        }
        let gist = gist.direction();
        self.by_path.insert(path.clone(), id);
        self.memories[id as usize] = Some(Held { path: path.clone(), entries, date, gist });
    }

    /// Takes a memory out. Returns whether it was there.
    pub fn remove(&mut self, path: &MemoryPath) -> bool {
        let Some(id) = self.by_path.remove(path) else { return false };
        if let Some(memory) = self.memories[id as usize].take() {
            for entry in memory.entries {
                self.leave(entry);
            }
        }
        self.free_memories.push(id);
        true
    }

    /// Returns the paths of its memories, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &MemoryPath> {
        self.by_path.keys()
    }

    /// How long an entry is, on average.
    pub(crate) fn average_length(&self) -> f32 {
        #[expect(clippy::cast_possible_truncation, reason = "an average of short lengths")]
        let average = (self.words / self.entries().max(1) as f64) as f32;
        average.max(1.0)
    }

    fn enter(
        &mut self,
        (memory, path): (u32, &MemoryPath),
        ordinal: u32,
        unit: &Unit,
        (head, of_head): (&BTreeMap<Box<str>, (Word, f32)>, &Gist),
    ) -> (u32, Gist) {
        let own = words(&unit.text);
        let own_words = own.iter().filter(|word| word.kind != Kind::Sign).count() as f32;
        let tells_time = own.iter().any(|word| crate::question::tells_time(&word.text));
        let mut weights: BTreeMap<u32, f32> = BTreeMap::new();
        let mut length = 0.0;
        for word in own.iter().filter(|word| !word.is_small()) {
            let weight = if word.kind == Kind::Sign { SIGN } else { BODY };
            *weights.entry(self.terms.add(word)).or_default() += weight;
            length += weight;
        }
        for word in words(&unit.heading).iter().filter(|word| !word.is_small()) {
            *weights.entry(self.terms.add(word)).or_default() += HEADING;
            length += HEADING;
        }
        let mut gist = Gist::default();
        for &term in weights.keys() {
            self.terms.add_meaning(term, &mut gist);
        }
        for (word, weight) in head.values() {
            *weights.entry(self.terms.add(word)).or_default() += weight;
            length += weight;
        }
        let id = self.free_entries.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.keys.push(0);
            number(self.entries.len() - 1)
        });
        self.keys[id as usize] = key(path, ordinal);
        let mut whole = gist.clone();
        whole.merge(of_head);
        let at = id as usize * dims();
        self.gists.resize(self.entries.len() * dims(), 0);
        self.gists[at..at + dims()].copy_from_slice(&whole.direction());
        let mut stems = HashSet::new();
        for (&term, &weight) in &weights {
            let term = &mut self.terms.list[term as usize];
            let at = term.postings.partition_point(|posting| posting.entry < id);
            term.postings.insert(at, Posting { entry: id, weight });
            if stems.insert(term.stem) {
                self.terms.stems[term.stem as usize].entries += 1;
            }
        }
        if let Some(subject) = &unit.subject {
            *self.subjects.entry(subject.as_str().into()).or_default() += 1;
        }
        self.words += f64::from(length);
        self.entries[id as usize] = Some(Entry {
            memory,
            ordinal,
            range: unit.range.clone(),
            terms: weights.into_iter().collect(),
            length,
            own_words,
            subject: unit.subject.as_deref().map(Into::into),
            asks: asks(&unit.text),
            tells_time,
        });
        (id, gist)
    }

    fn leave(&mut self, id: u32) {
        let Some(entry) = self.entries[id as usize].take() else { return };
        let mut stems = HashSet::new();
        for (term, _) in &entry.terms {
            let term = &mut self.terms.list[*term as usize];
            if let Ok(at) = term.postings.binary_search_by_key(&id, |posting| posting.entry) {
                term.postings.remove(at);
            }
            if stems.insert(term.stem) {
                self.terms.stems[term.stem as usize].entries -= 1;
            }
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

/// FNV-1a of a path and a number.
fn key(path: &MemoryPath, ordinal: u32) -> u64 {
    let mount = path.mount().map(|mount| mount.to_string()).unwrap_or_default();
    let relative = path.relative().map_or("", |relative| relative.as_str());
    let bytes = mount.bytes().chain(relative.bytes()).chain(ordinal.to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3)
    })
}

/// The folders of a path below its scope, and the name of its file.
fn folders_and_file(path: &MemoryPath) -> (String, String) {
    let Some(relative) = path.relative() else { return Default::default() };
    let file = relative.file_name();
    let file = file.strip_suffix(".md").unwrap_or(file).to_owned();
    let folders = relative.parent().map(|parent| parent.as_str().to_owned()).unwrap_or_default();
    let kinds = ["user", "feedback", "project", "reference"];
    let folders: Vec<&str> = folders.split('/').filter(|folder| !kinds.contains(folder)).collect();
    (folders.join(" "), file)
}

/// Whether a text asks something, there or on its way: a question mark that no address goes on after.
fn asks(text: &str) -> bool {
    text.contains(['？', '؟']) || text.split_whitespace().any(|word| word.ends_with('?'))
}
