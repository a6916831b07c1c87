//! Gathers the context of a segment: memories, their usage, pins and context files become the parts
//! that a model is shown.
//!
//! This module collects the data. The crate `context` decides what is shown and renders it. Nothing
//! is written, and nothing counts as a use of a memory.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use context::Mark;
use context::facts::{self, FactFile, Facts, SmallStore};
use context::files;
use context::index::{self, IndexEntry, IndexFrame};
use context::segment::{
    ChangedMemory, ContextPart, Delta, PartKind, Segment, ShownIndex, StampedMemory,
};
use memory::clock::Timestamp;
use memory::context_file::ImportStyle;
use memory::document::{self, Rules, conflict_line};
use memory::feature::Feature;
use memory::limits::{
    CHOSEN_TOKENS_MAX, DELTA_LINES_MAX, HOT_BYTES_MAX, MEMORY_BYTES_MAX, START_BYTES_PER_TOKEN,
    START_FILES_READ_BATCH, START_FILES_READ_MAX,
};
use memory::path::{MemoryPath, Mount, Scope};
use store::{
    ContextFileSet, ContextFiles, Listing, LoadScope, LoadSkipReason, Memories, MemoryEntry,
    SkippedContextSource, StoreError, Unreviewed,
};

pub use context::facts::FactCount;

/// The smallest number of bytes that a file counts for.
const FILE_BYTES_MIN: u64 = 64;

/// The largest number of bytes that a file counts for when some of several are to be read.
const FILE_BYTES_COUNTED_MAX: usize = 6_000;

/// The memories that the index is made of: more than have a line in it.
const INDEX_FILES_MAX: usize = 64;

/// The context of a model at the start of a segment, and the reasons for it.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The parts that the model is given.
    pub segment: Segment,
    /// The memories that the model knows from it; later deltas are relative to this.
    pub shown_index: ShownIndex,
    /// The context files in it, in order, each followed by its imports in order of first use.
    pub files: Vec<ShownFile>,
    /// The context files and imports that are not in it.
    pub skipped: Vec<SkippedContextSource>,
    /// Whether the context files of the project are missing because its machine is out of reach.
    pub lacks_project_files: bool,
    /// The size of the store, which decided what is given.
    pub size: StoreSize,
    /// Digests of the entries that the facts have whole.
    pub(crate) digests: Vec<u64>,
    /// The memories considered for the facts, in their order.
    pub facts: Vec<FactSource>,
    /// Number of all memories.
    pub memories: usize,
}

/// The context files of a folder, as a model is shown them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextText {
    /// The text; empty if there are none.
    pub text: String,
    /// The files in it, each followed by its imports in order of first use.
    pub files: Vec<ShownFile>,
    /// The files and imports that are not in it.
    pub skipped: Vec<SkippedContextSource>,
    /// Whether the files of the project are missing because its machine is out of reach.
    pub lacks_project_files: bool,
}

/// A context file that is shown, or an import of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason why it is loaded.
    pub scope: LoadScope,
    /// The file that imports it; `None` for a context file itself.
    pub parent: Option<PathBuf>,
    /// Size in bytes: of a context file as shown, with imports; of an import on its own.
    pub bytes: usize,
    /// Size in tokens, counted in the same way.
    pub tokens: usize,
    /// Whether it was cut to its share of the token budget.
    pub is_cut: bool,
}

/// A reason that keeps a memory out of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactExclusion {
    /// No person reviewed it here.
    Unreviewed,
    /// It has a merge conflict.
    Conflict,
}

/// A memory considered for the facts.
#[derive(Clone, Debug, PartialEq)]
pub struct FactSource {
    /// Path of the memory.
    pub path: MemoryPath,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// Number of uses on this host.
    pub uses: u64,
    /// Present heat: its uses, weighted by age.
    pub heat: f64,
    /// The numbers of its entries that are shown, and of all.
    pub count: FactCount,
    /// The reason that it is kept out, whatever its use.
    pub kept_out: Option<FactExclusion>,
}

impl SegmentReport {
    /// Returns the number of facts that are shown.
    pub fn facts_shown(&self) -> usize {
        self.facts.iter().map(|source| source.count.shown).sum()
    }
}

impl FactSource {
    /// Checks whether any of its entries is shown.
    pub const fn is_shown(&self) -> bool {
        self.count.shown > 0
    }
}

/// The size of a store, which decides what a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreSize {
    /// All facts are given.
    Small,
    /// A part of the facts and an index are given.
    Large,
}

/// The limits of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentLimits {
    /// The most bytes of its text.
    pub(crate) bytes_max: usize,
    /// The most tokens of the facts of a small store.
    pub(crate) start_tokens_max: usize,
    /// The size of the store in the segment before.
    pub(crate) previous_size: Option<StoreSize>,
}

impl SegmentLimits {
    /// Returns the limits of a small store. A store that was large must shrink by a fifth, so that a store at the limit
    /// does not change its form with each segment.
    const fn small_store(self) -> SmallStore {
        let Self { start_tokens_max: tokens_max, bytes_max, previous_size } = self;
        match previous_size {
            Some(StoreSize::Large) => {
                SmallStore { tokens_max: tokens_max / 5 * 4, bytes_max: bytes_max / 5 * 4 }
            }
            Some(StoreSize::Small) | None => SmallStore { tokens_max, bytes_max },
        }
    }
}

/// The current list of memories, for comparison with the one that a model was shown.
#[derive(Clone, Debug)]
pub(crate) struct CurrentIndex {
    /// Whether the model is shown memories at all.
    is_enabled: bool,
    listing: Listing,
    /// The memories that were read and that the model was not shown yet.
    changed: HashMap<MemoryPath, ReadSource>,
}

impl CurrentIndex {
    pub(crate) async fn new(memories: &Memories, shown: &ShownIndex) -> Result<Self, StoreError> {
        let features = memories.features();
        let is_enabled = features.has(Feature::ContextIndex) || features.has(Feature::HotSet);
        let listing = if is_enabled { memories.list(None).await? } else { Listing::default() };
        let is_new =
            |listed: &&MemoryEntry| !shown.contains(&listed.path, listed.bytes, listed.modified_at);
        let new = listing.memories.iter().filter(is_new).collect();
        // Removed memories take lines as well, so no more than this are named.
        let read = read_until(memories, new, |read| count_shown(read) >= DELTA_LINES_MAX).await;
        let changed = read.into_iter().map(|(listed, source)| (listed.path.clone(), source));
        Ok(Self { is_enabled, changed: changed.collect(), listing })
    }

    /// Returns the changes since `shown` without the entries in `resident`, and records them in `shown`; `None` if
    /// nothing changed.
    pub(crate) fn delta(&self, shown: &mut ShownIndex, resident: &HashSet<u64>) -> Option<Delta> {
        if !self.is_enabled {
            return None;
        }
        let changed = |path: &MemoryPath| match self.changed.get(path) {
            Some(ReadSource::Shown { text, mark }) => ChangedMemory::Shown { text, mark: *mark },
            Some(ReadSource::KeptOut(_)) => ChangedMemory::Withheld,
            Some(ReadSource::Unreadable) | None => ChangedMemory::Unread,
        };
        shown.delta(&stamped(&self.listing), &self.listing.incomplete_mounts, resident, changed)
    }

    /// Records the present state of the memories at or below `paths` in `shown`.
    pub(crate) fn adopt(&self, shown: &mut ShownIndex, paths: &[MemoryPath]) {
        for path in paths {
            shown.adopt(path, stamped(&self.listing));
        }
    }
}

fn stamped(listing: &Listing) -> Vec<StampedMemory<'_>> {
    let stamped = listing.memories.iter().map(|listed| StampedMemory {
        path: &listed.path,
        bytes: listed.bytes,
        modified_at: listed.modified_at,
    });
    stamped.collect()
}

/// Gathers the parts of a segment.
///
/// Room goes to facts first, then to context files, then to the index; a part that does not fit is cut or left out.
pub(crate) async fn gather(
    memories: &Memories,
    context_files: &ContextFiles,
    style: ImportStyle,
    limits: SegmentLimits,
    now: Timestamp,
) -> Result<SegmentReport, StoreError> {
    let (listing, loaded) = tokio::join!(memories.list(None), context_files.load());
    let listing = listing?;
    let features = memories.features();
    let mut start = if features.has(Feature::HotSet) {
        gather_facts(memories, &listing, limits, now).await
    } else {
        StartFacts::default()
    };
    let facts = ContextPart::new(PartKind::HotSet, std::mem::take(&mut start.facts.text));
    let mut room = Room(limits.bytes_max);
    room.take(facts.as_ref());
    let style = context_files.import_style().unwrap_or(style);
    let files = rendered_files(&loaded, style, room.0);
    let context_files = ContextPart::new(PartKind::ContextFiles, files.text);
    room.take(context_files.as_ref());
    let index = if features.has(Feature::ContextIndex) && start.size == StoreSize::Large {
        index_text(memories, &listing, &start, room.0).await
    } else {
        String::new()
    };
    let parts = [facts, context_files, ContextPart::new(PartKind::Index, index)];
    // A model that was not shown the name of a memory is not told that it is gone.
    let withheld = start.sources.iter().filter(|source| source.kept_out.is_some());
    let withheld: HashSet<&MemoryPath> = withheld.map(|source| &source.path).collect();
    let is_known = |memory: &StampedMemory<'_>| !withheld.contains(memory.path);
    Ok(SegmentReport {
        segment: Segment::from_parts(parts.into_iter().flatten().collect()),
        size: start.size,
        digests: start.facts.digests,
        shown_index: ShownIndex::from_listing(stamped(&listing).into_iter().filter(is_known)),
        files: files.files,
        skipped: files.skipped,
        lacks_project_files: files.lacks_project_files,
        facts: start.sources,
        memories: listing.memories.len() + listing.omitted,
    })
}

/// The bytes that a host still accepts.
struct Room(usize);

impl Room {
    fn take(&mut self, part: Option<&ContextPart>) {
        // One more for the blank line before the next part.
        self.0 = self.0.saturating_sub(part.map_or(0, |part| part.text.len() + 1));
    }
}

/// The facts of a segment, and the memories that were considered for them.
struct StartFacts {
    size: StoreSize,
    facts: Facts,
    sources: Vec<FactSource>,
}

impl Default for StartFacts {
    fn default() -> Self {
        Self { size: StoreSize::Large, facts: Facts::default(), sources: Vec::new() }
    }
}

/// A memory that was read for a model.
#[derive(Clone, Debug)]
enum ReadSource {
    /// A model may see it.
    Shown { text: String, mark: Option<Mark> },
    /// It is withheld.
    KeptOut(FactExclusion),
    /// It cannot be read.
    Unreadable,
}

/// Reads memories that a model may be shown unasked, and says why others are withheld; in the same order.
async fn read_sources(memories: &Memories, paths: &[&MemoryPath]) -> Vec<ReadSource> {
    let texts = memories.read_readable(paths).await;
    let read = paths.iter().zip(&texts);
    let revisions: Vec<_> =
        read.filter_map(|(path, text)| Some((*path, Some(text.as_ref()?.revision)))).collect();
    let (unreviewed, findings) =
        tokio::join!(memories.unreviewed(&revisions), memories.text_findings(paths));
    let sources = paths.iter().zip(texts).zip(findings).map(|((path, text), findings)| {
        let Some(text) = text.map(|read| read.text) else { return ReadSource::Unreadable };
        let unreviewed = unreviewed.get(*path).copied();
        if findings.in_conflict || conflict_line(&text).is_some() {
            return ReadSource::KeptOut(FactExclusion::Conflict);
        }
        let is_flagged = !findings.warnings.is_empty();
        if unreviewed.is_some_and(|unreviewed| unreviewed.is_never_hot() || is_flagged) {
            return ReadSource::KeptOut(FactExclusion::Unreviewed);
        }
        // A text that screening objects to is data.
        let mark = if is_flagged { Some(Mark::FromRepository) } else { unreviewed.and_then(mark) };
        ReadSource::Shown { text, mark }
    });
    sources.collect()
}

/// Reads memories in this order, in batches, until `is_enough` or too many were read. Those of other people, which must
/// not be shown, then keep no others from being read.
async fn read_until<'a>(
    memories: &Memories,
    listed: Vec<&'a MemoryEntry>,
    is_enough: impl Fn(&[(&'a MemoryEntry, ReadSource)]) -> bool,
) -> Vec<(&'a MemoryEntry, ReadSource)> {
    let mut read = Vec::new();
    for batch in listed.chunks(START_FILES_READ_BATCH) {
        if is_enough(&read) || read.len() >= START_FILES_READ_MAX {
            break;
        }
        let paths: Vec<_> = batch.iter().map(|listed| &listed.path).collect();
        read.extend(batch.iter().copied().zip(read_sources(memories, &paths).await));
    }
    read
}

/// Returns the number of memories that a model may see.
fn count_shown(read: &[(&MemoryEntry, ReadSource)]) -> usize {
    read.iter().filter(|(_, source)| matches!(source, ReadSource::Shown { .. })).count()
}

/// Gathers the facts: all of a small store, or the chosen ones of a large store.
async fn gather_facts(
    memories: &Memories,
    listing: &Listing,
    limits: SegmentLimits,
    now: Timestamp,
) -> StartFacts {
    let small = limits.small_store();
    // An empty file costs a read as well.
    let bytes = listing.memories.iter().map(|listed| listed.bytes.max(FILE_BYTES_MIN));
    let bytes: u64 = bytes.sum();
    let bytes_max = small.tokens_max.saturating_mul(START_BYTES_PER_TOKEN);
    if usize::try_from(bytes).is_ok_and(|bytes| bytes <= bytes_max) && listing.omitted == 0 {
        let all: Vec<_> = listing.memories.iter().collect();
        let paths: Vec<_> = all.iter().map(|listed| &listed.path).collect();
        let sources = read_sources(memories, &paths).await;
        let read = SourceTexts::new(all.into_iter().zip(sources).collect(), now);
        let withheld = withheld_line(read.kept_out());
        if let Some(facts) = facts::render_all(&read.files(), small, &withheld) {
            return read.into_facts(StoreSize::Small, facts);
        }
    }
    let mut sources = Vec::new();
    for (listed, bytes_max) in chosen(listing, now) {
        let is_enough = |read: &[(&MemoryEntry, ReadSource)]| bytes_shown(read) >= bytes_max;
        sources.extend(read_until(memories, listed, is_enough).await);
    }
    let read = SourceTexts::new(sources, now);
    let facts = facts::render_chosen(&read.files(), limits.bytes_max);
    read.into_facts(StoreSize::Large, facts)
}

/// Returns the bytes of memories that a model may see. A long one does not count in full, so that it keeps no others from
/// being read.
fn bytes_shown(read: &[(&MemoryEntry, ReadSource)]) -> usize {
    let bytes = read.iter().map(|(_, source)| match source {
        ReadSource::Shown { text, .. } => text.len().min(FILE_BYTES_COUNTED_MAX),
        ReadSource::KeptOut(_) | ReadSource::Unreadable => 0,
    });
    bytes.sum()
}

/// Returns the memories of a large store in three groups, with the bytes to read of each. The groups are the pinned ones,
/// rules with those about the person, and the others. The most important of a group come first.
fn chosen(listing: &Listing, now: Timestamp) -> [(Vec<&MemoryEntry>, usize); 3] {
    let is_global = |listed: &MemoryEntry| listed.path.mount() == Some(Mount::Scope(Scope::Global));
    let rank = |listed: &MemoryEntry| match listed.rules {
        Rules::All => 0,
        Rules::BelowHeadings => 1,
        Rules::None if is_global(listed) => 2,
        Rules::None => 3,
    };
    let is_readable = |listed: &&MemoryEntry| {
        usize::try_from(listed.bytes).is_ok_and(|bytes| bytes <= MEMORY_BYTES_MAX)
    };
    let readable = listing.memories.iter().filter(is_readable);
    let mut ranked: Vec<_> =
        readable.map(|listed| (rank(listed), listed.usage.heat(now), listed)).collect();
    ranked.sort_by(|(a_rank, a_heat, a), (b_rank, b_heat, b)| {
        a_rank
            .cmp(b_rank)
            .then_with(|| is_global(b).cmp(&is_global(a)))
            .then_with(|| b_heat.total_cmp(a_heat))
            .then_with(|| b.modified_at.cmp(&a.modified_at))
    });
    let group = |is_in: &dyn Fn(u8, &MemoryEntry) -> bool| -> Vec<&MemoryEntry> {
        let members = ranked.iter().filter(|(rank, _, listed)| is_in(*rank, listed));
        members.map(|(_, _, listed)| *listed).collect()
    };
    let chosen_bytes = CHOSEN_TOKENS_MAX * START_BYTES_PER_TOKEN;
    [
        (group(&|_, listed| listed.pinned), HOT_BYTES_MAX * 2),
        (group(&|rank, listed| !listed.pinned && rank < 3), chosen_bytes),
        (group(&|rank, listed| !listed.pinned && rank == 3), chosen_bytes),
    ]
}

/// Memories with the texts that a model may see.
struct SourceTexts<'a> {
    sources: Vec<(&'a MemoryEntry, ReadSource)>,
    now: Timestamp,
}

impl<'a> SourceTexts<'a> {
    /// Orders memories that were read: those that other people wrote are put last.
    fn new(mut sources: Vec<(&'a MemoryEntry, ReadSource)>, now: Timestamp) -> Self {
        sources.sort_by_key(|(listed, source)| {
            let is_outside = matches!(source, ReadSource::Shown { mark: Some(_), .. });
            (is_outside, !listed.pinned)
        });
        Self { sources, now }
    }

    fn shown(&self) -> impl Iterator<Item = (&'a MemoryEntry, &String, Option<Mark>)> {
        self.sources.iter().filter_map(|(listed, source)| match source {
            ReadSource::Shown { text, mark } => Some((*listed, text, *mark)),
            ReadSource::KeptOut(_) | ReadSource::Unreadable => None,
        })
    }

    fn kept_out(&self) -> impl Iterator<Item = FactExclusion> {
        self.sources.iter().filter_map(|(_, source)| match source {
            ReadSource::KeptOut(reason) => Some(*reason),
            ReadSource::Shown { .. } | ReadSource::Unreadable => None,
        })
    }

    fn files(&self) -> Vec<FactFile<'_>> {
        let mut files = Vec::new();
        for (listed, text, mark) in self.shown() {
            files.push(FactFile {
                path: &listed.path,
                text,
                mark,
                pinned: listed.pinned,
                rules: listed.rules,
                is_used: listed.usage.uses_after_creation() > 0,
            });
        }
        files
    }

    /// Returns the result, with the counts of what is shown of each memory.
    fn into_facts(self, size: StoreSize, facts: Facts) -> StartFacts {
        let mut counts = facts.counts.iter().copied();
        let sources = self.sources.into_iter().filter_map(|(listed, source)| {
            let (count, kept_out) = match source {
                ReadSource::Shown { .. } => (counts.next()?, None),
                ReadSource::KeptOut(reason) => (FactCount::default(), Some(reason)),
                ReadSource::Unreadable => return None,
            };
            Some(FactSource {
                path: listed.path.clone(),
                pinned: listed.pinned,
                uses: listed.usage.uses,
                heat: listed.usage.heat(self.now),
                count,
                kept_out,
            })
        });
        let sources = sources.collect();
        StartFacts { size, facts, sources }
    }
}

/// Returns a line that counts withheld memories; empty if there are none.
fn withheld_line(kept_out: impl Iterator<Item = FactExclusion>) -> String {
    let (mut unreviewed, mut conflicts) = (0, 0);
    for reason in kept_out {
        match reason {
            FactExclusion::Unreviewed => unreviewed += 1,
            FactExclusion::Conflict => conflicts += 1,
        }
    }
    let line = |count: usize, one: &str, several: &str| match count {
        0 => String::new(),
        1 => format!("(1 more {one})\n"),
        count => format!("({count} more {several})\n"),
    };
    let lists = "for the user's review; `lukasa accept` lists";
    let unreviewed = line(unreviewed, &format!("waits {lists} it"), &format!("wait {lists} them"));
    let names = "in conflict after a merge; `lukasa doctor` names the lines";
    unreviewed + &line(conflicts, &format!("is {names}"), &format!("are {names}"))
}

/// Renders the index of the memories that are not shown in full, the most used and then the newest first.
async fn index_text(
    memories: &Memories,
    listing: &Listing,
    start: &StartFacts,
    bytes_max: usize,
) -> String {
    let whole: HashSet<&MemoryPath> = start
        .sources
        .iter()
        .filter(|source| source.is_shown() && source.count.shown == source.count.all)
        .map(|source| &source.path)
        .collect();
    let mut listed: Vec<&MemoryEntry> =
        listing.memories.iter().filter(|listed| !whole.contains(&listed.path)).collect();
    listed.sort_by_key(|listed| {
        let uses = listed.usage.uses_after_creation();
        (Reverse(listed.pinned), Reverse(uses), Reverse(listed.modified_at))
    });
    let paths: Vec<&MemoryPath> = listed.iter().map(|listed| &listed.path).collect();
    let sources = read_until(memories, listed, |read| count_shown(read) >= INDEX_FILES_MAX).await;
    let unread = &paths[sources.len()..];
    let mut omitted = listing.omitted;
    let mut kept_out = Vec::new();
    let mut known = Vec::new();
    for (listed, source) in sources {
        match source {
            ReadSource::Shown { text, mark } => known.push((listed, IndexText::new(&text), mark)),
            ReadSource::KeptOut(reason) => kept_out.push(reason),
            ReadSource::Unreadable => omitted += 1,
        }
    }
    let mut entries = Vec::new();
    for (listed, text, mark) in &known {
        entries.push(IndexEntry {
            path: &listed.path,
            description: &text.description,
            facts: text.facts,
            pinned: listed.pinned,
            mark: *mark,
        });
    }
    let frame = IndexFrame {
        has_tool: memories.features().has(Feature::Tool),
        unread,
        omitted,
        withheld: &withheld_line(kept_out.into_iter()),
        bytes_max,
    };
    index::render(&entries, frame)
}

/// The part of a memory that the index shows.
struct IndexText {
    description: String,
    facts: usize,
}

impl IndexText {
    /// Describes a memory by its title. A title that repeats an entry is left out: the fact may be given elsewhere, and an
    /// early entry may say what no longer holds.
    fn new(text: &str) -> Self {
        let words = |line: &str| line.trim_end_matches(['.', ':', '。']).to_owned();
        let mut description = document::display_title(text);
        let entries = document::entries(text);
        if entries.iter().any(|entry| words(&entry.first_line) == words(&description)) {
            description.clear();
        }
        Self { description, facts: facts::count(text) }
    }
}

/// Loads and renders the context files.
pub(crate) async fn context_text(files: &ContextFiles, style: ImportStyle) -> ContextText {
    let loaded = files.load().await;
    rendered_files(&loaded, files.import_style().unwrap_or(style), usize::MAX)
}

/// Renders the loaded context files in at most `bytes_max` bytes.
fn rendered_files(loaded: &ContextFileSet, style: ImportStyle, bytes_max: usize) -> ContextText {
    let shown = files::render(&loaded.sources, &loaded.files, style, bytes_max);
    let files = files_shown(loaded, &shown);
    let dropped = shown.dropped.iter().filter_map(|&index| loaded.origins.get(index));
    let dropped = dropped.map(|origin| SkippedContextSource {
        path: origin.path.clone(),
        parent: None,
        reason: LoadSkipReason::NoRoom,
    });
    let skipped = loaded.skipped.iter().cloned().chain(dropped);
    ContextText {
        text: shown.text,
        files,
        skipped: skipped.collect(),
        lacks_project_files: loaded.is_incomplete,
    }
}

/// Loads and renders the context files of the project alone; `None` if its machine is out of reach.
pub(crate) async fn project_files_text(files: &ContextFiles, style: ImportStyle) -> Option<String> {
    let loaded = files.load().await;
    if loaded.is_incomplete {
        return None;
    }
    let scope = |index: usize| loaded.origins.get(index).map(|origin| origin.scope);
    let mut of_project = loaded.files.clone();
    of_project.retain(|&index| scope(index) == Some(LoadScope::Project));
    let style = files.import_style().unwrap_or(style);
    Some(files::render(&loaded.sources, &of_project, style, usize::MAX).text)
}

/// Returns the mark of an unreviewed memory, if it is shown with one.
pub(crate) const fn mark(unreviewed: Unreviewed) -> Option<Mark> {
    match unreviewed {
        Unreviewed::Silent | Unreviewed::Marked => Some(Mark::FromRepository),
        Unreviewed::Influenced => Some(Mark::Influenced),
        // A background review writes down only what the user said.
        Unreviewed::Background => None,
    }
}

fn files_shown(loaded: &ContextFileSet, files: &files::RenderedFiles) -> Vec<ShownFile> {
    let origin = |index: usize| loaded.origins.get(index);
    let mut all = Vec::new();
    for shown in &files.files {
        let Some(file) = origin(shown.source) else { continue };
        let parent = file.parent.and_then(origin).map(|parent| parent.path.clone());
        all.push(ShownFile {
            path: file.path.clone(),
            scope: file.scope,
            parent,
            bytes: shown.bytes,
            tokens: shown.tokens,
            is_cut: shown.is_cut,
        });
    }
    let is_shown = |index: usize| files.files.iter().any(|shown| shown.source == index);
    for (index, file) in loaded.origins.iter().enumerate() {
        let (Some(parent), Some(source)) = (file.parent, loaded.sources.get(index)) else {
            continue;
        };
        if is_shown(index) || source.text.is_empty() {
            continue;
        }
        let Some(parent) = origin(parent) else { continue };
        // Placed behind its parent file and the imports of that file listed so far.
        let predecessor = all.iter().rposition(|shown: &ShownFile| {
            shown.path == parent.path || shown.parent.as_ref() == Some(&parent.path)
        });
        // Its parent has no room, and neither has it.
        let Some(predecessor) = predecessor else { continue };
        let import = ShownFile {
            path: file.path.clone(),
            scope: file.scope,
            parent: Some(parent.path.clone()),
            bytes: source.text.len(),
            tokens: context::tokens::count(&source.text),
            is_cut: false,
        };
        all.insert(predecessor + 1, import);
    }
    all
}
