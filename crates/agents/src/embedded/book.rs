//! A snapshot of memories, read into entries.

use std::ops::{Deref, Range};
use std::rc::Rc;
use std::sync::LazyLock;

use memory::clock::Timestamp;
use memory::document::{self, Entry, Head};
use memory::path::{MemoryPath, Mount};
use regex::Regex;

use super::words::Text;
use crate::request::Topic;

/// A memory as the curator is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its path.
    pub path: MemoryPath,
    /// All of its text.
    pub text: String,
    /// Whether a person pinned it: nothing of it is taken away then.
    pub pinned: bool,
    /// When its text was written, if that is known: what says `tomorrow` meant the day after. A file
    /// that came with a checkout has the time of the checkout, which says nothing.
    pub written_at: Option<Timestamp>,
}

/// Everything that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The memories that may be read.
    pub memories: Vec<Stored>,
    /// Where the caller may write.
    pub writable: Vec<Mount>,
    /// The time.
    pub now: Timestamp,
}

/// A memory and what was read in it.
pub(crate) struct Page<'a> {
    pub(crate) stored: &'a Stored,
    read: Rc<Read>,
}

/// What was read in a memory.
pub(crate) struct Read {
    pub(crate) head: Head,
    pub(crate) topic: Topic,
    pub(crate) notes: Vec<Note>,
}

/// An entry, read.
pub(crate) struct Note {
    pub(crate) entry: Entry,
    /// What it states, without the bullet and without its reasons.
    pub(crate) statement: String,
    /// The statement's words.
    pub(crate) text: Text,
    /// All of its words, where reasons add to those of the statement.
    explained: Option<Text>,
}

/// Where the reasons of an entry begin.
static REASONS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^[ \t]*[*_]*(?:why|how[ _]to[ _]apply)[*_]*:").ok());

impl Deref for Page<'_> {
    type Target = Read;

    fn deref(&self) -> &Read {
        &self.read
    }
}

impl Read {
    /// Reads a memory.
    pub(crate) fn of(stored: &Stored) -> Self {
        let head = document::head(stored.text.as_bytes());
        let topic = Topic::nearest(head.kind.as_deref(), &stored.path);
        let notes = document::entries(&stored.text)
            .into_iter()
            .map(|entry| Note::read(&stored.text, entry))
            .collect();
        Self { head, topic, notes }
    }
}

impl<'a> Page<'a> {
    /// Reads a memory.
    pub(crate) fn read(stored: &'a Stored) -> Self {
        Self::again(stored, Rc::new(Read::of(stored)))
    }

    /// Returns a memory that was read before.
    pub(crate) const fn again(stored: &'a Stored, read: Rc<Read>) -> Self {
        Self { stored, read }
    }

    pub(crate) fn mount(&self) -> Option<Mount> {
        self.stored.path.mount()
    }

    /// Returns the words that the memory says about itself.
    pub(crate) fn title(&self) -> Text {
        let name = self.head.name.clone().unwrap_or_default();
        let file = self.stored.path.relative().map_or("", |relative| relative.file_name());
        let file = file.strip_suffix(".md").unwrap_or(file).replace(['-', '_'], " ");
        Text::read(&format!("{name}\n{file}\n{}", self.head.description))
    }
}

impl Note {
    fn read(text: &str, entry: Entry) -> Self {
        let whole = text.get(entry.range.clone()).unwrap_or_default();
        let from = whole.find(entry.first_line.as_str()).unwrap_or(0);
        let whole = whole.get(from..).unwrap_or_default();
        let reasons =
            REASONS.as_ref().and_then(|pattern| pattern.find(whole)).map(|found| found.start());
        let statement = whole.get(..reasons.unwrap_or(whole.len())).unwrap_or_default().trim_end();
        Self {
            statement: statement.to_owned(),
            text: Text::read(statement),
            explained: reasons.map(|_| Text::read(whole)),
            entry,
        }
    }

    /// Returns all of its words.
    pub(crate) fn full(&self) -> &Text {
        self.explained.as_ref().unwrap_or(&self.text)
    }

    /// Tells whether it gives reasons.
    pub(crate) const fn is_explained(&self) -> bool {
        self.explained.is_some()
    }
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
