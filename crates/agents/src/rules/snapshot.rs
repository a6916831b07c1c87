//! A snapshot of memories, parsed into entries: all input of a decision.
//!
//! Texts are parsed and tokenized when first needed, and the results are shared by clones. Each entry has its
//! context (headings, introduction), because the same words in another context mean something else.

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

/// A memory in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredMemory {
    /// Path.
    pub path: MemoryPath,
    /// Whole text.
    pub text: ParsedText,
    /// Whether a person pinned it; nothing is removed from it then.
    pub pinned: bool,
    /// Dates of its entries, which relative dates such as `tomorrow` depend on.
    pub entry_dates: EntryDates,
    /// Trust level. A text from outside never causes the removal of another.
    pub trust: Trust,
    /// Whether an agent wrote it after reading unreviewed text, and no person accepted it since.
    pub influenced: bool,
    /// Whether a background review wrote it, and no person accepted it since.
    pub written_by_review: bool,
}

/// Dates of a memory's entries. They come from history: a file's time changes when other entries are added, and a
/// checkout sets its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryDates {
    /// Unknown to the history.
    Unknown,
    /// One time for all entries.
    AllAt(Timestamp),
    /// Times of some entries, by their full text as in [`StoredMemory::entries_with_relative_dates`].
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
    /// Checks whether the memory is unreviewed on this host: it came with a repository, or was written under the
    /// influence of such text. The curator neither edits it nor counts its facts as known.
    pub(crate) fn is_unreviewed(&self) -> bool {
        self.influenced || (self.path.is_shared() && self.trust == Trust::Outside)
    }

    /// Returns the text without some of its entries, which are in order.
    pub(crate) fn text_without<'a>(
        &'a self,
        entries: impl IntoIterator<Item = &'a ParsedEntry, IntoIter: DoubleEndedIterator>,
    ) -> String {
        // From the end, so that the byte ranges of the others stay valid.
        let from_end = entries.into_iter().rev();
        from_end.fold(self.text.to_string(), |text, entry| without_entry(&text, &entry.entry))
    }

    /// Returns the entries with relative dates, each in full without its bullet. Their meaning depends on when they
    /// were written.
    pub fn entries_with_relative_dates(&self) -> Vec<&str> {
        let entries = self.text.parsed().entries.iter();
        entries
            .map(ParsedEntry::full_text)
            .filter(|whole| dates::has_relative_date(whole))
            .collect()
    }
}

/// All input of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Memories that could be read.
    pub memories: Vec<StoredMemory>,
    /// Paths of files that are not among the memories: no memory may be created there.
    pub occupied_paths: Vec<MemoryPath>,
    /// The paths among them where reading failed and that may hold entries.
    pub failed_reads: Vec<MemoryPath>,
    /// Mounts that the caller may write to.
    pub writable: Vec<Mount>,
    /// Current time.
    pub now: Timestamp,
    /// Time zone of the person, for relative dates.
    pub time_zone: TimeZone,
}

impl Snapshot {
    /// Returns the date of a time in the person's time zone.
    pub(crate) fn local_date(&self, time: Timestamp) -> Date {
        time.to_zoned(self.time_zone.clone()).date()
    }

    /// Checks whether entries of a memory may be changed without asking.
    pub(crate) fn may_edit(&self, stored: &StoredMemory) -> bool {
        !stored.pinned
            && !stored.is_unreviewed()
            && stored.path.mount().is_some_and(|mount| self.writable.contains(&mount))
    }
}

/// A text, parsed once for all its clones.
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
    /// Returns the parsed text.
    pub(crate) fn parsed(&self) -> &ParsedMemory {
        self.0.parsed.get_or_init(|| ParsedMemory::parse(&self.0.text))
    }

    /// Drops the cached tokens, which need the most memory, unless the text is shared.
    pub(crate) fn drop_tokens(&mut self) {
        let parsed = Arc::get_mut(&mut self.0).and_then(|inner| inner.parsed.get_mut());
        for entry in parsed.into_iter().flat_map(|parsed| &mut parsed.entries) {
            entry.tokenized.take();
        }
    }
}

/// The header and the entries of a text.
pub(crate) struct ParsedMemory {
    pub(crate) header: MemoryHeader,
    pub(crate) entries: Vec<ParsedEntry>,
    /// Whether no heading and no break follows the last entry.
    ends_with_entry: bool,
}

/// A parsed entry.
pub(crate) struct ParsedEntry {
    pub(crate) entry: Entry,
    /// Headings above it and the paragraph that introduces it, normalized.
    pub(crate) context: Arc<str>,
    pub(crate) normalized: NormalizedText,
    /// Whether it is a numbered step, whose meaning depends on its position.
    pub(crate) is_step: bool,
    /// Whether a paragraph introduces its list.
    pub(crate) has_introduction: bool,
    text: Arc<str>,
    /// Byte range of its statement, without the bullet and the reasons.
    statement: Range<usize>,
    tokenized: OnceLock<Box<TokenizedText>>,
}

/// Pattern of the beginning of an entry's reasons.
static REASONS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?im)^[ \t]*[*_]*(?:why|how[ _]to[ _]apply)[*_]*:").ok());

/// Returns the offset of the reasons in an entry, in bytes; `None` if it has none.
pub(crate) fn reasons_start(whole: &str) -> Option<usize> {
    REASONS.as_ref()?.find(whole).map(|found| found.start())
}

impl ParsedMemory {
    fn parse(text: &Arc<str>) -> Self {
        let mut context = EntryContext::default();
        let mut end = text.len() - document::body(text).len();
        let mut entries: Vec<ParsedEntry> = Vec::new();
        for entry in document::entries(text) {
            context.advance(slice(text, end..entry.range.start));
            end = entry.range.end;
            let note = ParsedEntry::parse(text, entry, &context);
            if !note.is_item() {
                context.introduction = Some(note.normalized.clone());
            }
            entries.push(note);
        }
        let ends_with_entry = slice(text, end..).trim().is_empty();
        Self { header: document::parse_header(text.as_bytes()), entries, ends_with_entry }
    }

    /// Checks whether an entry appended at the end would have no heading and no introduction, and be no step.
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
    /// Number of thematic breaks so far.
    breaks: usize,
    introduction: Option<NormalizedText>,
}

impl EntryContext {
    /// Reads the text between two entries: headings, thematic breaks and blank lines.
    fn advance(&mut self, gap: &str) {
        let mut is_below_text = false;
        for line in gap.lines().map(str::trim) {
            let level = line.chars().take_while(|c| *c == '#').count().max(1);
            let is_line = !line.is_empty() && line.chars().all(|c| "=-*_ ".contains(c));
            if !line.is_empty() && !is_line {
                self.headings.retain(|(above, _)| *above < level);
                self.headings.push((level, duplicate::normalize_line(line)));
            }
            // A line of dashes below text underlines it as a heading.
            self.breaks += usize::from(is_line && !is_below_text);
            is_below_text = !line.is_empty() && !is_line && !line.starts_with('#');
            if !line.is_empty() {
                self.introduction = None;
            }
        }
    }

    /// Returns the context of an entry. The introduction belongs only to list items.
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
    fn parse(text: &Arc<str>, entry: Entry, context: &EntryContext) -> Self {
        let all = slice(text, entry.range.clone());
        let bullet = slice(all, ..all.find(entry.first_line.as_str()).unwrap_or(0));
        let from = entry.range.start + bullet.len();
        let whole = entry.full_text(text);
        let statement = slice(whole, ..reasons_start(whole).unwrap_or(whole.len()));
        Self {
            context: context.context(!bullet.is_empty()),
            normalized: NormalizedText::new(whole),
            is_step: bullet.trim_end().ends_with(['.', ')']),
            has_introduction: !bullet.is_empty() && context.introduction.is_some(),
            text: Arc::clone(text),
            statement: from..from + statement.trim_end().len(),
            tokenized: OnceLock::new(),
            entry,
        }
    }

    /// Checks whether it is a list item.
    pub(crate) const fn is_item(&self) -> bool {
        self.statement.start > self.entry.range.start
    }

    /// Returns the whole entry, without the bullet and trailing white space.
    pub(crate) fn full_text(&self) -> &str {
        self.entry.full_text(&self.text)
    }

    /// Returns the statement, without the bullet and the reasons.
    pub(crate) fn statement(&self) -> &str {
        slice(&self.text, self.statement.clone())
    }

    /// Checks whether it has reasons.
    pub(crate) fn has_reasons(&self) -> bool {
        self.statement().len() < self.full_text().len()
    }

    /// Returns the tokens of the statement.
    pub(crate) fn tokenized(&self) -> &TokenizedText {
        self.tokenized.get_or_init(|| Box::new(TokenizedText::tokenize(self.statement())))
    }
}
