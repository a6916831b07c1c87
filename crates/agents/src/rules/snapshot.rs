//! A snapshot of memories, read into entries.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock, OnceLock};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document::{self, Entry, MemoryHeader, without_entry};
use memory::path::{MemoryPath, Mount};
use memory::text::slice;
use regex::Regex;

use super::dates;
use super::duplicate::{self, NormalizedText};
use super::tokenize::TokenizedText;

/// A memory as the curator is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// Its path.
    pub path: MemoryPath,
    /// All of its text.
    pub text: ParsedText,
    /// Whether a person pinned it: nothing of it is taken away then.
    pub pinned: bool,
    /// When its entries were written: what says `tomorrow` meant the day after.
    pub entry_dates: EntryDates,
    /// How far its text may be trusted: what came from outside makes nothing go that did not.
    pub trust: Trust,
    /// Whether an agent wrote it after it had read text that nobody here reviewed, and nobody accepted it since.
    pub influenced: bool,
    /// Whether a background review wrote it, and nobody accepted it since.
    pub written_by_review: bool,
}

/// The times when the entries of a memory were written. The time of its file says so of none if others were added
/// since, and a file that came with a checkout has the time of the checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryDates {
    /// History does not tell.
    Unknown,
    /// All of them then.
    AllAt(Timestamp),
    /// Some of them, by all of their text as [`StoredMemory::entries_with_relative_dates`] gives it.
    PerEntry(BTreeMap<String, Timestamp>),
}

impl EntryDates {
    pub(crate) fn written_at(&self, whole: &str) -> Option<Timestamp> {
        match self {
            Self::Unknown => None,
            Self::AllAt(time) => Some(*time),
            Self::PerEntry(times) => times.get(whole).copied(),
        }
    }
}

impl StoredMemory {
    /// Tells whether nobody on this host reviewed it: it came with a repository, or was written after such text had been read. The
    /// curator ignores such a memory: it adds nothing to it, does not count it as known, and changes nothing in it.
    pub(crate) fn is_unreviewed(&self) -> bool {
        self.influenced || (self.path.is_shared() && self.trust == Trust::Outside)
    }

    /// Returns its text without these entries of it, which are in order.
    pub(crate) fn text_without<'a>(
        &'a self,
        notes: impl IntoIterator<Item = &'a ParsedEntry, IntoIter: DoubleEndedIterator>,
    ) -> String {
        // From the end, so that the places of the others stay as they are.
        let from_end = notes.into_iter().rev();
        from_end.fold(self.text.to_string(), |text, note| without_entry(&text, &note.entry))
    }

    /// Returns the entries that point at days without naming them, each whole and without its bullet. Which
    /// days they mean depends on when they were written.
    pub fn entries_with_relative_dates(&self) -> Vec<&str> {
        let notes = self.text.parsed().entries.iter();
        notes.map(ParsedEntry::full_text).filter(|whole| dates::has_relative_date(whole)).collect()
    }
}

/// Everything that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The memories that may be read.
    pub memories: Vec<StoredMemory>,
    /// What lies beside them and cannot be read: no memory may be made there.
    pub occupied_paths: Vec<MemoryPath>,
    /// Those of them that may hold something, which the machine failed to read.
    pub failed_reads: Vec<MemoryPath>,
    /// Where the caller may write.
    pub writable: Vec<Mount>,
    /// The time.
    pub now: Timestamp,
    /// The time zone of the person, by which `tomorrow` is meant.
    pub time_zone: TimeZone,
}

impl Snapshot {
    /// Returns the day that a time is, for the person.
    pub(crate) fn local_date(&self, time: Timestamp) -> Date {
        time.to_zoned(self.time_zone.clone()).date()
    }

    /// Tells whether entries of a memory may be changed without asking.
    pub(crate) fn may_edit(&self, stored: &StoredMemory) -> bool {
        !stored.pinned
            && !stored.is_unreviewed()
            && stored.path.mount().is_some_and(|mount| self.writable.contains(&mount))
    }
}

/// A text with what was read in it, once for all that hold it.
#[derive(Clone)]
pub struct ParsedText(Arc<ParsedTextInner>);

struct ParsedTextInner {
    text: Arc<str>,
    parsed: OnceLock<ParsedMemory>,
}

impl From<&str> for ParsedText {
    fn from(text: &str) -> Self {
        Self(Arc::new(ParsedTextInner { text: text.into(), parsed: OnceLock::new() }))
    }
}

impl From<String> for ParsedText {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl Deref for ParsedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl PartialEq for ParsedText {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for ParsedText {}

impl fmt::Debug for ParsedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl ParsedText {
    /// Returns what was read in it.
    pub(crate) fn parsed(&self) -> &ParsedMemory {
        self.0.parsed.get_or_init(|| ParsedMemory::parse(&self.0.text))
    }

    /// Forgets the words of its entries, which take the most room, if nothing else holds it.
    pub(crate) fn drop_tokens(&mut self) {
        let read = Arc::get_mut(&mut self.0).and_then(|held| held.parsed.get_mut());
        for note in read.into_iter().flat_map(|read| &mut read.entries) {
            note.tokenized.take();
        }
    }
}

/// The head and the entries of a text.
pub(crate) struct ParsedMemory {
    pub(crate) header: MemoryHeader,
    pub(crate) entries: Vec<ParsedEntry>,
    /// Whether nothing stands behind the last entry: no heading and no break.
    ends_with_entry: bool,
}

/// An entry, read.
pub(crate) struct ParsedEntry {
    pub(crate) entry: Entry,
    /// The headings above it and the paragraph that introduces it, each in its form.
    pub(crate) context: Arc<str>,
    pub(crate) normalized: NormalizedText,
    /// Whether it is a numbered step, which means nothing without its place.
    pub(crate) is_step: bool,
    /// Whether a paragraph stands before the list that it is in.
    pub(crate) has_introduction: bool,
    text: Arc<str>,
    /// What it states, without the bullet and without its reasons.
    statement: Range<usize>,
    tokenized: OnceLock<Box<TokenizedText>>,
}

/// Where the reasons of an entry begin.
static REASONS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^[ \t]*[*_]*(?:why|how[ _]to[ _]apply)[*_]*:").ok());

/// Returns where the reasons of a statement begin, in bytes; `None` if it gives none.
pub(crate) fn reasons_start(whole: &str) -> Option<usize> {
    REASONS.as_ref()?.find(whole).map(|found| found.start())
}

impl ParsedMemory {
    fn parse(text: &Arc<str>) -> Self {
        let mut above = EntryContext::default();
        let mut end = text.len() - document::body(text).len();
        let mut notes: Vec<ParsedEntry> = Vec::new();
        for entry in document::entries(text) {
            above.advance(slice(text, end..entry.range.start));
            end = entry.range.end;
            let note = ParsedEntry::parse(text, entry, &above);
            if !note.is_item() {
                above.introduction = Some(note.normalized.clone());
            }
            notes.push(note);
        }
        let ends_with_entry = slice(text, end..).trim().is_empty();
        Self { header: document::parse_header(text.as_bytes()), entries: notes, ends_with_entry }
    }

    /// Tells whether an entry at the end would stand below no heading and no introduction, and would be no step.
    pub(crate) fn can_append(&self) -> bool {
        let is_plain =
            |last: &ParsedEntry| last.is_item() && !last.is_step && last.context.is_empty();
        self.ends_with_entry && self.entries.last().is_none_or(is_plain)
    }
}

/// The headings and the introduction above an entry.
#[derive(Default)]
struct EntryContext {
    headings: Vec<(usize, String)>,
    /// The number of thematic breaks so far.
    breaks: usize,
    introduction: Option<NormalizedText>,
}

impl EntryContext {
    /// Passes text between two entries: headings, thematic breaks and blank lines.
    fn advance(&mut self, between: &str) {
        let mut is_below_text = false;
        for line in between.lines().map(str::trim) {
            let level = line.chars().take_while(|c| *c == '#').count().max(1);
            let is_line = !line.is_empty() && line.chars().all(|c| "=-*_ ".contains(c));
            if !line.is_empty() && !is_line {
                self.headings.retain(|(above, _)| *above < level);
                self.headings.push((level, duplicate::normalize_line(line)));
            }
            // A line below a heading underlines it.
            self.breaks += usize::from(is_line && !is_below_text);
            is_below_text = !line.is_empty() && !is_line && !line.starts_with('#');
            if !line.is_empty() {
                self.introduction = None;
            }
        }
    }

    /// Returns what is above an item of a list, or above another block, which no paragraph introduces.
    fn context(&self, is_item: bool) -> Arc<str> {
        let headings = self.headings.iter().map(|(_, heading)| heading.as_str());
        let introduction =
            self.introduction.as_ref().filter(|_| is_item).map(NormalizedText::as_str);
        let breaks = "\n".repeat(self.breaks);
        [breaks.as_str()]
            .into_iter()
            .filter(|breaks| !breaks.is_empty())
            .chain(headings)
            .chain(introduction)
            .collect::<Vec<_>>()
            .join("\n")
            .into()
    }
}

impl ParsedEntry {
    fn parse(text: &Arc<str>, entry: Entry, above: &EntryContext) -> Self {
        let all = slice(text, entry.range.clone());
        let bullet = slice(all, ..all.find(entry.first_line.as_str()).unwrap_or(0));
        let from = entry.range.start + bullet.len();
        let whole = entry.full_text(text);
        let stated = slice(whole, ..reasons_start(whole).unwrap_or(whole.len()));
        Self {
            context: above.context(!bullet.is_empty()),
            normalized: NormalizedText::new(whole),
            is_step: bullet.trim_end().ends_with(['.', ')']),
            has_introduction: !bullet.is_empty() && above.introduction.is_some(),
            text: Arc::clone(text),
            statement: from..from + stated.trim_end().len(),
            tokenized: OnceLock::new(),
            entry,
        }
    }

    /// Tells whether it is an item of a list.
    pub(crate) const fn is_item(&self) -> bool {
        self.statement.start > self.entry.range.start
    }

    /// Returns all of it, without the bullet and the white space at the end.
    pub(crate) fn full_text(&self) -> &str {
        self.entry.full_text(&self.text)
    }

    /// Returns what it states, without the bullet and without its reasons.
    pub(crate) fn statement(&self) -> &str {
        slice(&self.text, self.statement.clone())
    }

    /// Tells whether it gives reasons.
    pub(crate) fn has_reasons(&self) -> bool {
        self.statement().len() < self.full_text().len()
    }

    /// Returns the words of its statement.
    pub(crate) fn tokenized(&self) -> &TokenizedText {
        self.tokenized.get_or_init(|| Box::new(TokenizedText::tokenize(self.statement())))
    }
}
