//! A snapshot of memories, parsed into entries: all input of a decision.
//!
//! Texts are parsed when first needed, and the results are shared by clones. Each entry keeps the fingerprints of its
//! tokens, not the tokens themselves. It has a context (headings, introduction), because the same words in another
//! context mean something else.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::{Arc, LazyLock, OnceLock};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use memory::change::Trust;
use memory::clock::Timestamp;
use memory::document::{self, Entry, MemoryHeader, Revision, without_entry};
use memory::path::{MemoryPath, Mount};
use memory::text::slice;
use regex::Regex;

use super::duplicate::{self, NormalizedText};
use super::fingerprints::{EntryFingerprints, TokenFingerprint, token_fingerprints};
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
    /// Checks whether it has a merge conflict, which a person has to resolve.
    pub(crate) fn has_conflict(&self) -> bool {
        let text = &self.text.0;
        *text.has_conflict.get_or_init(|| document::conflict_line(&text.text).is_some())
    }

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
        from_end.fold(self.text.to_string(), |text, entry| without_entry(&text, &entry.entry()))
    }

    /// Returns the entries with relative dates, each in full without its bullet. Their meaning depends on when they
    /// were written.
    pub fn entries_with_relative_dates(&self) -> Vec<&str> {
        let entries = self.text.parsed().entries.iter();
        entries
            .filter(|entry| entry.fingerprints().has_relative_date)
            .map(ParsedEntry::full_text)
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
            && !stored.has_conflict()
            && stored.path.mount().is_some_and(|mount| self.writable.contains(&mount))
    }
}

/// A text, parsed once for all its clones.
#[derive(Clone)]
pub struct ParsedText(Arc<ParsedTextInner>);

struct ParsedTextInner {
    text: Arc<str>,
    parsed: OnceLock<ParsedMemory>,
    /// File name that the title was made with, and the tokens of the title.
    title: OnceLock<(Box<str>, Box<[TokenFingerprint]>)>,
    revision: OnceLock<Revision>,
    /// Whether it has an unresolved merge conflict.
    has_conflict: OnceLock<bool>,
}

impl From<&str> for ParsedText {
    fn from(text: &str) -> Self {
        Self(Arc::new(ParsedTextInner {
            text: text.into(),
            parsed: OnceLock::new(),
            title: OnceLock::new(),
            revision: OnceLock::new(),
            has_conflict: OnceLock::new(),
        }))
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

    /// Returns the tokens of the title of a memory with this text. The title depends on the file's name too.
    pub(crate) fn title_fingerprints(
        &self,
        file_name: &str,
        title: impl Fn() -> String,
    ) -> Cow<'_, [TokenFingerprint]> {
        let tokens = || token_fingerprints(&TokenizedText::tokenize(&title()));
        let (cached_name, cached) = self.0.title.get_or_init(|| (file_name.into(), tokens()));
        // A text that was cloned to another path has another title there.
        if **cached_name == *file_name {
            Cow::Borrowed(cached)
        } else {
            Cow::Owned(tokens().into_vec())
        }
    }

    /// Parses the text, and returns the memory that it needs with everything computed from it, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let ParsedMemory { header, entries, .. } = self.parsed();
        let optional = [&header.name, &header.kind].into_iter().flatten();
        let header_bytes = header.description.len()
            + header.first_line.len()
            + optional.map(String::len).sum::<usize>();
        let title = self.0.title.get();
        size_of::<ParsedTextInner>()
            + self.len()
            + header_bytes
            + title.map_or(0, |(name, tokens)| name.len() + size_of_val(&**tokens))
            + entries.iter().map(ParsedEntry::memory_bytes).sum::<usize>()
    }

    /// Returns the revision.
    pub(crate) fn revision(&self) -> Revision {
        *self.0.revision.get_or_init(|| Revision::digest(self.as_bytes()))
    }
}

/// The header and the entries of a text.
pub(crate) struct ParsedMemory {
    pub(crate) header: MemoryHeader,
    pub(crate) entries: Vec<ParsedEntry>,
    /// Whether no heading and no break follows the last entry.
    ends_with_entry: bool,
}

/// A parsed entry. Its texts are ranges of the memory's text.
pub(crate) struct ParsedEntry {
    /// Headings above it and the paragraph that introduces it, normalized.
    pub(crate) context: Arc<str>,
    pub(crate) normalized: NormalizedText,
    /// Whether it is a numbered step, whose meaning depends on its position.
    pub(crate) is_step: bool,
    /// Whether a paragraph introduces its list.
    pub(crate) has_introduction: bool,
    text: Arc<str>,
    /// Byte range of its lines.
    lines: Range<u32>,
    /// Offset of its text after the bullet, in bytes.
    start: u32,
    first_line_end: u32,
    /// End of its statement, which excludes the reasons.
    statement_end: u32,
    /// End of its text, without trailing white space.
    end: u32,
    fingerprints: OnceLock<EntryFingerprints>,
}

// There are sixty thousand in ten thousand memories.
const _: () = assert!(size_of::<ParsedEntry>() <= 176);

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
            let note = ParsedEntry::parse(text, &entry, &context, entries.last());
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
    fn context(&self, is_item: bool) -> String {
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
    }
}

impl ParsedEntry {
    /// Parses an entry; it shares its context with the entry before it if that is the same.
    fn parse(
        text: &Arc<str>,
        entry: &Entry,
        context: &EntryContext,
        before: Option<&Self>,
    ) -> Self {
        let all = slice(text, entry.range.clone());
        let bullet_bytes =
            all.find(entry.first_line.as_str()).expect("the first line is a part of the entry");
        let bullet = slice(all, ..bullet_bytes);
        let start = entry.range.start + bullet_bytes;
        let whole = entry.full_text(text);
        let statement = slice(whole, ..reasons_start(whole).unwrap_or(whole.len()));
        let has_introduction = !bullet.is_empty() && context.introduction.is_some();
        let context = context.context(!bullet.is_empty());
        let same = before.filter(|before| *before.context == *context);
        let offset = |offset: usize| u32::try_from(offset).expect("a memory is below 4 GiB");
        Self {
            context: same.map_or_else(|| context.into(), |before| Arc::clone(&before.context)),
            normalized: NormalizedText::new(whole),
            is_step: bullet.trim_end().ends_with(['.', ')']),
            has_introduction,
            text: Arc::clone(text),
            lines: offset(entry.range.start)..offset(entry.range.end),
            start: offset(start),
            first_line_end: offset(start + entry.first_line.len()),
            statement_end: offset(start + statement.trim_end().len()),
            end: offset(start + whole.len()),
            fingerprints: OnceLock::new(),
        }
    }

    /// Returns the entry in its text.
    pub(crate) fn entry(&self) -> Entry {
        let offset = |offset: u32| usize::try_from(offset).expect("the offset was a `usize`");
        let range = offset(self.lines.start)..offset(self.lines.end);
        Entry { range, first_line: self.first_line().to_owned() }
    }

    /// Checks whether it is a list item.
    pub(crate) const fn is_item(&self) -> bool {
        self.start > self.lines.start
    }

    fn until(&self, end: u32) -> &str {
        let offset = |offset: u32| usize::try_from(offset).expect("the offset was a `usize`");
        slice(&self.text, offset(self.start)..offset(end))
    }

    /// Returns the first line, without the bullet.
    pub(crate) fn first_line(&self) -> &str {
        self.until(self.first_line_end)
    }

    /// Returns the whole entry, without the bullet and trailing white space.
    pub(crate) fn full_text(&self) -> &str {
        self.until(self.end)
    }

    /// Returns the statement, without the bullet and the reasons.
    pub(crate) fn statement(&self) -> &str {
        self.until(self.statement_end)
    }

    /// Checks whether it has reasons.
    pub(crate) const fn has_reasons(&self) -> bool {
        self.statement_end < self.end
    }

    /// Tokenizes the statement. The tokens are not kept, because they need much memory.
    pub(crate) fn tokenize(&self) -> TokenizedText {
        TokenizedText::tokenize(self.statement())
    }

    /// Returns the fingerprints of the tokens.
    pub(crate) fn fingerprints(&self) -> &EntryFingerprints {
        self.fingerprints.get_or_init(|| EntryFingerprints::new(self.statement(), self.full_text()))
    }

    /// Returns the memory that it needs, in bytes.
    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.normalized.as_str().len() + self.fingerprints().heap_bytes()
    }
}
