//! A snapshot of memories, read into entries.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock, OnceLock};

use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document::{self, Entry, Head};
use memory::limits::MEMORY_BYTES_MAX;
use memory::path::{MemoryPath, Mount};
use regex::Regex;

use super::lexicon::Class;
use super::sketch::{Sketch, number, ordered};
use super::tongues::{Chosen, Tongues};
use super::when;
use super::words::{Text, tongues};
use crate::request::Topic;

/// A memory as the curator is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its path.
    pub path: MemoryPath,
    /// All of its text.
    pub text: Source,
    /// Whether a person pinned it: nothing of it is taken away then.
    pub pinned: bool,
    /// When its entries were written: what says `tomorrow` meant the day after.
    pub written: Written,
    /// How far its text may be trusted: what came from outside makes nothing go that did not.
    pub trust: Trust,
}

/// When the entries of a memory were written. The time of its file says so of none if others were added since,
/// and a file that came with a checkout has the time of the checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nobody knows.
    Unknown,
    /// All of them then.
    At(Timestamp),
    /// Some of them, by all of their text as [`Stored::pointing`] gives it.
    Each(BTreeMap<String, Timestamp>),
}

impl Written {
    pub(crate) fn of(&self, whole: &str) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::At(time) => Some(*time),
            Self::Each(times) => times.get(whole).copied(),
        }
    }
}

impl Stored {
    /// Returns the entries that point at days without naming them, each whole and without its bullet. Which
    /// days they mean depends on when they were written.
    pub fn pointing(&self) -> Vec<&str> {
        let notes = self.text.read().notes.iter();
        notes.map(Note::whole).filter(|whole| when::points_at_day(whole)).collect()
    }
}

/// Everything that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The memories that may be read.
    pub memories: Vec<Stored>,
    /// What lies beside them and cannot be read: no memory may be made there.
    pub unread: Vec<MemoryPath>,
    /// Where the caller may write.
    pub writable: Vec<Mount>,
    /// The time.
    pub now: Timestamp,
}

/// A text with what was read in it, once for all that hold it.
#[derive(Clone)]
pub struct Source(Arc<Held>);

struct Held {
    text: Arc<str>,
    read: OnceLock<Read>,
    /// The words of a title by their numbers, with the name of the file that it is about.
    title: OnceLock<(String, Box<[usize]>)>,
}

impl From<&str> for Source {
    fn from(text: &str) -> Self {
        let held = Held { text: text.into(), read: OnceLock::new(), title: OnceLock::new() };
        Self(Arc::new(held))
    }
}

impl From<String> for Source {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl Deref for Source {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Source {}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Source {
    /// Returns what was read in it.
    pub(crate) fn read(&self) -> &Read {
        self.0.read.get_or_init(|| Read::of(&self.0.text))
    }

    /// Forgets the words of its entries, which take the most room, if nobody else holds it; what tells
    /// which entries can matter stays.
    pub(crate) fn rest(&mut self) {
        let read = Arc::get_mut(&mut self.0).and_then(|held| held.read.get_mut());
        for note in read.into_iter().flat_map(|read| &mut read.notes) {
            note.words.take();
        }
    }
}

/// A memory and what it is about.
pub(crate) struct Page<'a> {
    pub(crate) stored: &'a Stored,
    pub(crate) topic: Topic,
}

/// What was read in a text.
pub(crate) struct Read {
    pub(crate) head: Head,
    pub(crate) notes: Vec<Note>,
    /// The words of all entries by their numbers, in order.
    pub(crate) said: Box<[usize]>,
}

/// An entry, read.
pub(crate) struct Note {
    pub(crate) entry: Entry,
    pub(crate) sketch: Sketch,
    /// Whether it says that something is no longer so.
    pub(crate) says_gone: bool,
    text: Arc<str>,
    /// The languages that it is read in.
    chosen: Chosen,
    /// What it states, without the bullet and without its reasons.
    statement: Range<usize>,
    /// All of it, where reasons add to the statement.
    explained: Option<Range<usize>>,
    words: OnceLock<Box<Words>>,
}

/// The words of an entry.
struct Words {
    statement: Text,
    explained: Option<Text>,
    sentences: Vec<Sentence>,
}

/// One sentence of several.
pub(crate) struct Sentence {
    pub(crate) source: String,
    pub(crate) text: Text,
    pub(crate) sketch: Sketch,
}

/// Where the reasons of an entry begin.
static REASONS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^[ \t]*[*_]*(?:why|how[ _]to[ _]apply)[*_]*:").ok());

impl Deref for Page<'_> {
    type Target = Read;

    fn deref(&self) -> &Read {
        self.stored.text.read()
    }
}

impl Read {
    fn of(text: &Arc<str>) -> Self {
        let mut said = Vec::new();
        let beside = tongues(text);
        let entries = document::entries(text).into_iter();
        let notes = entries.map(|entry| Note::read(text, entry, &beside, &mut said)).collect();
        Self { head: document::head(text.as_bytes()), notes, said: ordered(said) }
    }
}

impl<'a> Page<'a> {
    /// Reads a memory.
    pub(crate) fn read(stored: &'a Stored) -> Self {
        let topic = Topic::nearest(stored.text.read().head.kind.as_deref(), &stored.path);
        Self { stored, topic }
    }

    pub(crate) fn mount(&self) -> Option<Mount> {
        self.stored.path.mount()
    }

    /// Returns the words that the memory says about itself.
    pub(crate) fn title(&self) -> Text {
        let name = self.head.name.as_deref().unwrap_or_default();
        let file = file_words(&self.stored.path);
        Text::read(&format!("{name}\n{file}\n{}", self.head.description))
    }

    /// Calls `with` with the numbers of the words that the memory says about itself.
    pub(crate) fn with_title<T>(&self, with: impl FnOnce(&[usize]) -> T) -> T {
        let numbers = || ordered(self.title().content().map(|token| number(&token.key)).collect());
        let file = file_name(&self.stored.path);
        let (of, known) = self.stored.text.0.title.get_or_init(|| (file.to_owned(), numbers()));
        if of == file { with(known) } else { with(&numbers()) }
    }

    /// Returns the words of the file's name.
    pub(crate) fn file_title(&self) -> Text {
        Text::read(&file_words(&self.stored.path))
    }
}

fn file_name(path: &MemoryPath) -> &str {
    path.relative().map_or("", |relative| relative.file_name())
}

/// Returns the name of a memory's file as words.
pub(crate) fn file_words(path: &MemoryPath) -> String {
    let name = file_name(path);
    name.strip_suffix(".md").unwrap_or(name).replace(['-', '_'], " ")
}

impl Note {
    /// Reads an entry of a text with words of these languages, and adds the numbers of its own to `said`.
    fn read(text: &Arc<str>, entry: Entry, beside: &Tongues, said: &mut Vec<usize>) -> Self {
        let all = entry.range.clone();
        let whole = text.get(all.clone()).unwrap_or_default();
        let from = all.start + whole.find(entry.first_line.as_str()).unwrap_or(0);
        let whole = text.get(from..all.end).unwrap_or_default();
        let reasons =
            REASONS.as_ref().and_then(|pattern| pattern.find(whole)).map(|found| found.start());
        let stated = whole.get(..reasons.unwrap_or(whole.len())).unwrap_or_default().trim_end();
        let explained = reasons.map(|_| from..from + whole.len());
        let (words, chosen) = Text::read_beside(stated, beside);
        let mut add = |text: &Text| said.extend(text.content().map(|token| number(&token.key)));
        match &explained {
            Some(_) => add(&Text::read_in(whole, chosen)),
            None => add(&words),
        }
        Self {
            sketch: Sketch::of(&words),
            says_gone: words.has(Class::Gone),
            text: Arc::clone(text),
            chosen,
            statement: from..from + stated.len(),
            explained,
            words: OnceLock::new(),
            entry,
        }
    }

    /// Returns all of it, without the bullet and the white space at the end.
    pub(crate) fn whole(&self) -> &str {
        self.entry.whole(&self.text)
    }

    /// Where it begins behind the bullet.
    pub(crate) const fn whole_start(&self) -> usize {
        self.statement.start
    }

    /// Returns what it states, without the bullet and without its reasons.
    pub(crate) fn statement(&self) -> &str {
        self.text.get(self.statement.clone()).unwrap_or_default()
    }

    fn words(&self) -> &Words {
        self.words.get_or_init(|| {
            let is_one = self.cut().nth(1).is_none();
            let explained = self.explained.clone().and_then(|all| self.text.get(all));
            Box::new(Words {
                statement: Text::read_in(self.statement(), self.chosen),
                explained: explained.map(|all| Text::read_in(all, self.chosen)),
                sentences: if is_one {
                    Vec::new()
                } else {
                    self.cut().map(|one| Sentence::read(one, self.chosen)).collect()
                },
            })
        })
    }

    /// Returns the statement's words.
    pub(crate) fn text(&self) -> &Text {
        &self.words().statement
    }

    /// Returns all of its words.
    pub(crate) fn full(&self) -> &Text {
        let words = self.words();
        words.explained.as_ref().unwrap_or(&words.statement)
    }

    /// Tells whether it gives reasons.
    pub(crate) const fn is_explained(&self) -> bool {
        self.explained.is_some()
    }

    /// Returns the statement's words without keeping them.
    pub(crate) fn text_once(&self) -> Text {
        Text::read_in(self.statement(), self.chosen)
    }

    /// Returns the sentences and clauses of its statement, if there are several.
    pub(crate) fn sentences(&self) -> &[Sentence] {
        if self.cut().nth(1).is_none() { &[] } else { &self.words().sentences }
    }

    fn cut(&self) -> impl Iterator<Item = &str> {
        self.statement().split_inclusive(['.', '。', '!', '?', ';', '\n'])
    }
}

impl Sentence {
    fn read(source: &str, chosen: Chosen) -> Self {
        let text = Text::read_in(source, chosen);
        Self { source: source.to_owned(), sketch: Sketch::of(&text), text }
    }
}

/// Whether the caller may change a memory without being asked to: nothing of a pinned one is taken away.
pub(crate) fn may_change(snapshot: &Snapshot, stored: &Stored) -> bool {
    !stored.pinned && stored.path.mount().is_some_and(|mount| snapshot.writable.contains(&mount))
}

/// Returns the text without the parts at these ranges, which are in order and do not overlap.
pub(crate) fn without(text: &str, ranges: &[Range<usize>]) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut end = 0;
    for range in ranges {
        kept.push_str(text.get(end..range.start).unwrap_or_default());
        end = range.end;
    }
    kept.push_str(text.get(end..).unwrap_or_default());
    kept
}

/// The text with the fact as its last entry; `None` where that would be no entry of its own.
pub(crate) fn appended(text: &str, fact: &str) -> Option<String> {
    let lines = line_ends(text);
    let entry = format!("- {}", indented(fact, 2)).replace('\n', lines);
    let end = if text.is_empty() || text.ends_with(['\n', '\r']) { "" } else { lines };
    let before = document::entries(text).len();
    // After a list the next bullet follows on; after anything else a blank line keeps the two apart.
    ["", lines].into_iter().find_map(|gap| {
        let text = format!("{text}{end}{gap}{entry}{lines}");
        (text.len() <= MEMORY_BYTES_MAX && document::entries(&text).len() == before + 1)
            .then_some(text)
    })
}

pub(crate) fn line_ends(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// The fact with its further lines below the first one's text.
pub(crate) fn indented(fact: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    let mut lines = fact.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        text.push('\n');
        if !line.trim().is_empty() {
            text.push_str(&indent);
            text.push_str(line);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_at_rest_is_read_again_as_it_was() {
        let mut source = Source::from("- The gate opens. It is green.\n  Why: the tide\n");
        let words = |source: &Source| {
            let note = &source.read().notes[0];
            let words = [note.text(), note.full(), &note.sentences()[1].text];
            words.map(|text| text.tokens.iter().map(|token| token.key.clone()).collect::<Vec<_>>())
        };
        let before = words(&source);
        let other = source.clone();
        source.rest();
        assert!(source.read().notes[0].words.get().is_some(), "somebody else holds it");
        drop(other);
        source.rest();
        assert!(source.read().notes[0].words.get().is_none());
        assert_eq!(words(&source), before);
    }
}
