//! A snapshot of memories, read into entries.

use std::collections::HashMap;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use memory::clock::Timestamp;
use memory::document::{self, Entry, Head, Revision};
use memory::path::{MemoryPath, Mount};
use regex::Regex;

use super::words::Text;
use crate::request::Topic;

/// Entries whose words are kept from one task to the next: some megabytes.
const NOTES_KEPT_MAX: usize = 3_000;

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
    pub(crate) topic: Topic,
    read: Arc<Read>,
}

/// What was read in a text.
pub(crate) struct Read {
    pub(crate) head: Head,
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
    /// Reads a memory's text, or finds what was read in the same text before.
    pub(crate) fn of(text: &str) -> Arc<Self> {
        let revision = Revision::of(text.as_bytes());
        let known = shelf().find(&revision);
        known.unwrap_or_else(|| {
            let head = document::head(text.as_bytes());
            let entries = document::entries(text).into_iter();
            let notes = entries.map(|entry| Note::read(text, entry)).collect();
            let read = Arc::new(Self { head, notes });
            shelf().keep(revision, &read);
            read
        })
    }
}

/// Texts that were read, for the tasks that follow: reading takes a hundred times as long as comparing.
#[derive(Default)]
pub(crate) struct Shelf {
    read: HashMap<Revision, (Arc<Read>, u64)>,
    /// How many entries all of them have.
    notes: usize,
    /// Counts tasks.
    turn: u64,
}

static SHELF: LazyLock<Mutex<Shelf>> = LazyLock::new(Mutex::default);

/// Returns the one shelf.
pub(crate) fn shelf() -> MutexGuard<'static, Shelf> {
    // What is kept is whole at every moment.
    SHELF.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// Begins another task: what neither it nor the one before uses gives way.
    pub(crate) fn turn(&mut self) {
        self.turn += 1;
    }

    fn find(&mut self, revision: &Revision) -> Option<Arc<Read>> {
        let (read, used) = self.read.get_mut(revision)?;
        *used = self.turn;
        Some(Arc::clone(read))
    }

    fn keep(&mut self, revision: Revision, read: &Arc<Read>) {
        // An empty text costs something too.
        let notes = read.notes.len() + 1;
        if self.notes + notes > NOTES_KEPT_MAX {
            let turn = self.turn;
            self.read.retain(|_, (_, used)| *used + 1 >= turn);
            self.notes = self.read.values().map(|(read, _)| read.notes.len() + 1).sum();
        }
        // Rather the first of many for good than the last of them for nothing.
        if self.notes + notes <= NOTES_KEPT_MAX
            && self.read.insert(revision, (Arc::clone(read), self.turn)).is_none()
        {
            self.notes += notes;
        }
    }
}

impl<'a> Page<'a> {
    /// Reads a memory.
    pub(crate) fn read(stored: &'a Stored) -> Self {
        Self::again(stored, Read::of(&stored.text))
    }

    /// Returns a memory with what was read in its text.
    pub(crate) fn again(stored: &'a Stored, read: Arc<Read>) -> Self {
        let topic = Topic::nearest(read.head.kind.as_deref(), &stored.path);
        Self { stored, topic, read }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(notes: usize) -> Arc<Read> {
        let text = "- x\n".repeat(notes);
        let notes = document::entries(&text).into_iter();
        let notes = notes.map(|entry| Note::read(&text, entry)).collect();
        Arc::new(Read { head: document::head(b""), notes })
    }

    fn revision(number: usize) -> Revision {
        Revision::of(&number.to_le_bytes())
    }

    #[test]
    fn what_was_used_lately_is_kept_and_nothing_beyond_the_bound() {
        let mut shelf = Shelf::default();
        let many = read(NOTES_KEPT_MAX / 2 - 1);
        shelf.keep(revision(1), &many);
        shelf.keep(revision(2), &many);
        // Full, and both are of this task.
        shelf.keep(revision(3), &many);
        assert!(shelf.find(&revision(3)).is_none());
        shelf.turn();
        assert!(shelf.find(&revision(1)).is_some());
        shelf.turn();
        // Nobody has used the second since the task before the last.
        shelf.keep(revision(3), &many);
        let kept = [1, 2, 3].map(|number| shelf.find(&revision(number)).is_some());
        assert_eq!(kept, [true, false, true]);
        assert!(shelf.notes <= NOTES_KEPT_MAX);
    }

    #[test]
    fn the_same_text_is_read_once_whatever_its_path() {
        let text = "- The same text is read once.\n";
        assert!(Arc::ptr_eq(&Read::of(text), &Read::of(text)));
        assert!(!Arc::ptr_eq(&Read::of(text), &Read::of("- Another.\n")));
    }
}
