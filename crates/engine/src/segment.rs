//! What a model is shown, gathered: memories, how they are used, pins and context files become the parts of a
//! segment.
//!
//! Gathering is here, deciding is in `context`. Nothing is written, and nothing counts as a use.

use std::collections::HashMap;
use std::path::PathBuf;

use context::Mark;
use context::files;
use context::hot_set::{self, HotBody, HotCandidate, HotSet, RankedCandidate};
use context::index::{self, IndexEntry};
use context::segment::{ContextPart, PartKind, Segment, ShownIndex, StampedEntry};
use memory::clock::Timestamp;
use memory::command::view::FROM_CHECKOUT;
use memory::context_file::ImportStyle;
use memory::document::Revision;
use memory::feature::Feature;
use memory::limits::{HOT_ITEM_BYTES_MAX, HOT_ITEMS_MAX, INDEX_BYTES_KEPT, INDEX_LINES_MAX};
use memory::path::{MemoryPath, Mount};
use store::{
    ContextFileSet, ContextFiles, Listing, LoadScope, Memories, MemoryEntry, SkippedContextSource,
    StoreError, Unreviewed,
};

/// What stands for the description of a memory that came with a repository and that screening objects to.
const FLAGGED_TEXT: &str = "(screening objects to this memory)";

/// What stands for the description of one that came with a repository and that nobody here reviewed.
const UNREVIEWED_TEXT: &str = "(came with the repository; nobody here reviewed it)";

/// What stands for the description of one that an agent wrote after it had read such a text.
const INFLUENCED_TEXT: &str =
    "(an agent wrote it after it had read unreviewed text; nobody reviewed it)";

/// Memories that are read at a time for the hot set; so many are most often enough.
const READ_BATCH: usize = 2 * HOT_ITEMS_MAX;

/// What a model is given at the beginning of a segment, and why.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// What it is given.
    pub segment: Segment,
    /// What it knows by that of which memories there are; deltas go on from here.
    pub shown_index: ShownIndex,
    /// The context files in it, in their order, each followed by what it imports first.
    pub files: Vec<ShownFile>,
    /// The context files and imports that are not in it.
    pub skipped: Vec<SkippedContextSource>,
    /// The memories that were tried for the hot set, the warmest first.
    pub hot: Vec<HotSetEntry>,
    /// How many memories the index is of.
    pub memories: usize,
}

/// The context files of a folder, as a model is shown them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextText {
    /// The text; empty if there are none.
    pub text: String,
    /// The files in it, each followed by what it imports first.
    pub files: Vec<ShownFile>,
    /// The files and imports that are not in it.
    pub skipped: Vec<SkippedContextSource>,
}

/// A context file that is shown, or what it imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownFile {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is loaded.
    pub scope: LoadScope,
    /// The file that imports it; `None` for a context file itself.
    pub parent: Option<PathBuf>,
    /// The bytes of a context file as it is shown, with imports; those of an import as it is.
    pub bytes: usize,
    /// Its tokens, counted in the same way.
    pub tokens: usize,
    /// Whether it was cut to its share of the tokens.
    pub is_cut: bool,
}

/// A memory that was tried for the hot set.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSetEntry {
    /// Where it is.
    pub path: MemoryPath,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used on this host.
    pub uses: u64,
    /// What that is worth now.
    pub heat: f64,
    /// Whether it is in the hot set.
    pub shown: bool,
    /// Whether it is kept out since nobody here reviewed it.
    pub unreviewed: bool,
    /// The revision that is shown, if all of it is.
    pub full_revision: Option<Revision>,
}

/// Which memories there are, looked at to be compared with what a model was told.
#[derive(Clone, Debug)]
pub(crate) struct CurrentIndex {
    /// Whether the index is on.
    is_enabled: bool,
    listing: Listing,
    /// How memories are shown that nobody here reviewed, of what was not told yet.
    statuses: HashMap<MemoryPath, DisplayStatus>,
}

impl CurrentIndex {
    /// Looks at the memories.
    pub(crate) async fn new(memories: &Memories, told: &ShownIndex) -> Result<Self, StoreError> {
        let is_told = memories.features().has(Feature::ContextIndex);
        let listing = if is_told { memories.list(None).await? } else { Listing::default() };
        let is_new =
            |listed: &&MemoryEntry| !told.contains(&listed.path, listed.bytes, listed.modified_at);
        let new = listing.memories.iter().filter(is_new);
        let new: Vec<_> = new.map(|listed| (&listed.path, None)).collect();
        let standing = display_statuses(memories, &new).await;
        Ok(Self { is_enabled: is_told, listing, statuses: standing })
    }

    /// Returns what changed since a model was told which memories there are, and takes it for told; `None` if
    /// nothing did.
    pub(crate) fn delta(&self, told: &mut ShownIndex) -> Option<ContextPart> {
        if !self.is_enabled {
            return None;
        }
        told.delta(&stamped_entries(&self.listing, &self.statuses), &self.listing.incomplete_mounts)
    }
}

fn stamped_entries<'a>(
    listing: &'a Listing,
    standing: &HashMap<MemoryPath, DisplayStatus>,
) -> Vec<StampedEntry<'a>> {
    let seen = listing.memories.iter().map(|listed| {
        let standing = standing.get(&listed.path);
        let instead = standing.and_then(|standing| standing.replacement_text());
        let description = instead.unwrap_or(&listed.description);
        let mark = standing.filter(|_| instead.is_none()).and_then(|standing| standing.mark());
        let pinned = listed.pinned;
        let entry = IndexEntry { path: &listed.path, description, pinned, mark };
        StampedEntry { entry, bytes: listed.bytes, modified_at: listed.modified_at }
    });
    seen.collect()
}

/// Gathers what is shown and puts it together.
pub(crate) async fn gather(
    memories: &Memories,
    context_files: &ContextFiles,
    (style, bytes_max): (ImportStyle, usize),
    now: Timestamp,
) -> Result<SegmentReport, StoreError> {
    let (listing, files) = tokio::join!(memories.list(None), context_text(context_files, style));
    let listing = listing?;
    let standing = index_statuses(memories, &listing).await;
    let seen = stamped_entries(&listing, &standing);
    let entries: Vec<_> = seen.iter().map(|seen| seen.entry).collect();
    let features = memories.features();
    let ranked = if features.has(Feature::HotSet) { ranked(&listing, now) } else { Vec::new() };
    let (hot_text, hot) = hot_set(memories, &ranked, hot_bytes_max(bytes_max)).await?;
    // One byte more for the blank line between two parts.
    let index_bytes_max = bytes_max.saturating_sub(hot_text.len() + 1);
    let index = if features.has(Feature::ContextIndex) {
        index::render(&entries, listing.omitted, index_bytes_max, features.has(Feature::Tool))
    } else {
        String::new()
    };
    let parts = fit_parts(
        bytes_max,
        [
            ContextPart::new(PartKind::ContextFiles, files.text),
            ContextPart::new(PartKind::Index, index),
            ContextPart::new(PartKind::HotSet, hot_text),
        ],
    );
    Ok(SegmentReport {
        segment: Segment::from_parts(parts),
        shown_index: ShownIndex::from_entries(&seen),
        files: files.files,
        skipped: files.skipped,
        hot,
        memories: listing.memories.len() + listing.omitted,
    })
}

/// Loads context files and puts them together.
pub(crate) async fn context_text(files: &ContextFiles, style: ImportStyle) -> ContextText {
    let loaded = files.load().await;
    let style = files.import_style().unwrap_or(style);
    let shown = files::render(&loaded.sources, &loaded.files, style);
    let files = files_shown(&loaded, &shown);
    ContextText { text: shown.text, files, skipped: loaded.skipped.clone() }
}

/// Returns the bytes that the hot set may take of those that a host passes on.
const fn hot_bytes_max(bytes_max: usize) -> usize {
    bytes_max.saturating_sub(INDEX_BYTES_KEPT)
}

/// Returns the parts that fit into so many bytes together, in their order: the hot set first of all, since a
/// person pinned it, then the index, then context files.
fn fit_parts(bytes_max: usize, parts: [Option<ContextPart>; 3]) -> Vec<ContextPart> {
    let mut left = bytes_max;
    let mut fits = |kind| {
        let part = parts.iter().flatten().find(|part| part.kind == kind);
        // One more for the blank line before it.
        let rest = part.and_then(|part| left.checked_sub(part.text.len() + 1));
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let [hot_set, index, files] =
        [PartKind::HotSet, PartKind::Index, PartKind::ContextFiles].map(&mut fits);
    let kept = [files, index, hot_set];
    parts.into_iter().zip(kept).filter_map(|(part, kept)| part.filter(|_| kept)).collect()
}

/// How a memory is shown that screening objects to, or that nobody here reviewed.
#[derive(Clone, Copy, Debug)]
struct DisplayStatus {
    is_flagged: bool,
    unreviewed: Option<Unreviewed>,
}

impl DisplayStatus {
    /// Tells whether it is kept out of the hot set, whatever pins and use.
    fn is_excluded_from_hot_set(self) -> bool {
        self.unreviewed.is_some_and(Unreviewed::is_never_hot)
    }

    fn mark(self) -> Option<Mark> {
        self.unreviewed.and_then(mark)
    }

    /// Returns what is said instead of its description, if that is not shown.
    fn replacement_text(self) -> Option<&'static str> {
        match self.unreviewed {
            _ if self.is_flagged => Some(FLAGGED_TEXT),
            Some(Unreviewed::Silent) => Some(UNREVIEWED_TEXT),
            Some(Unreviewed::Influenced) => Some(INFLUENCED_TEXT),
            Some(Unreviewed::Marked | Unreviewed::Background) | None => None,
        }
    }

    /// Returns what is said before its text.
    fn notice(self) -> Option<&'static str> {
        if self.is_flagged { Some(FROM_CHECKOUT) } else { self.mark().map(Mark::before_text) }
    }
}

/// Returns the mark of a memory that nobody here reviewed, if it is shown with one.
pub(crate) const fn mark(unreviewed: Unreviewed) -> Option<Mark> {
    match unreviewed {
        Unreviewed::Silent | Unreviewed::Marked => Some(Mark::FromRepository),
        Unreviewed::Influenced => Some(Mark::Influenced),
        // It says what the person said.
        Unreviewed::Background => None,
    }
}

/// Returns how memories are shown in the index that came with a repository.
async fn index_statuses(
    memories: &Memories,
    listing: &Listing,
) -> HashMap<MemoryPath, DisplayStatus> {
    let mut looked_at: HashMap<Option<Mount>, usize> = HashMap::new();
    let may_be_shown = listing.memories.iter().filter(|listed| {
        let turn = looked_at.entry(listed.path.mount()).or_default();
        *turn += 1;
        listed.pinned || *turn <= INDEX_LINES_MAX
    });
    let shown: Vec<_> = may_be_shown.map(|listed| (&listed.path, None)).collect();
    display_statuses(memories, &shown).await
}

/// Returns how these memories are shown, of which `None` stands for the revision that is there now; those that are shown as any
/// other are left out.
async fn display_statuses(
    memories: &Memories,
    texts: &[(&MemoryPath, Option<Revision>)],
) -> HashMap<MemoryPath, DisplayStatus> {
    let unreviewed = memories.unreviewed(texts).await;
    let mut found = HashMap::new();
    let paths: Vec<_> = texts.iter().map(|(path, _)| *path).collect();
    for (path, objections) in paths.iter().zip(memories.read_warnings(&paths).await) {
        let is_objected = !objections.is_empty();
        let unreviewed = unreviewed.get(*path).copied();
        if is_objected || unreviewed.is_some() {
            found.insert((*path).clone(), DisplayStatus { is_flagged: is_objected, unreviewed });
        }
    }
    found
}

fn ranked(listing: &Listing, now: Timestamp) -> Vec<RankedCandidate<'_>> {
    let candidates: Vec<_> = listing
        .memories
        .iter()
        .map(|listed| HotCandidate {
            path: &listed.path,
            pinned: listed.pinned,
            usage: listed.usage,
        })
        .collect();
    hot_set::rank(&candidates, now)
}

/// A memory that was read for the hot set.
struct HotText {
    rank: usize,
    text: String,
    bytes: usize,
    revision: Revision,
    notice: Option<&'static str>,
}

/// Reads the warmest memories, as many as fit; what cannot be read is passed over.
async fn hot_set(
    memories: &Memories,
    ranked: &[RankedCandidate<'_>],
    bytes_max: usize,
) -> Result<(String, Vec<HotSetEntry>), StoreError> {
    let (mut heads, mut unreviewed): (Vec<HotText>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut filled: Option<HotSet> = None;
    for (turn, some) in ranked.chunks(READ_BATCH).enumerate() {
        let places = some.iter().enumerate().map(|(at, one)| (turn * READ_BATCH + at, one));
        let read = read_hot_texts(memories, places.map(|(at, one)| (at, one.candidate.path))).await;
        heads.extend(read.0);
        unreviewed.extend(read.1);
        let bodies: Vec<_> = heads
            .iter()
            .filter_map(|head| {
                let candidate = ranked.get(head.rank)?.candidate;
                let (path, pinned) = (candidate.path, candidate.pinned);
                let notice = head.notice;
                Some(HotBody { path, text: &head.text, bytes: head.bytes, notice, pinned })
            })
            .collect();
        filled = hot_set::fill(&bodies, bytes_max);
        if filled.as_ref().is_some_and(|set| set.shown.len() == HOT_ITEMS_MAX) {
            break;
        }
    }
    let nothing = HotSet { text: String::new(), shown: Vec::new(), truncated: Vec::new() };
    let HotSet { text, shown, truncated: cut } = filled.unwrap_or(nothing);
    let whole: HashMap<usize, Option<Revision>> = shown
        .iter()
        .filter_map(|at| heads.get(*at).map(|head| (at, head)))
        .map(|(at, head)| (head.rank, (!cut.contains(at)).then_some(head.revision)))
        .collect();
    let tried = ranked.iter().enumerate().map(|(at, one)| HotSetEntry {
        path: one.candidate.path.clone(),
        pinned: one.candidate.pinned,
        uses: one.candidate.usage.uses,
        heat: one.heat,
        shown: whole.contains_key(&at),
        unreviewed: unreviewed.contains(&at),
        full_revision: whole.get(&at).copied().flatten(),
    });
    Ok((text, tried.collect()))
}

/// Reads the beginnings of memories, but of those that cannot be read. Those that are kept out since nobody here reviewed
/// them are told apart by their place.
async fn read_hot_texts(
    memories: &Memories,
    paths: impl Iterator<Item = (usize, &MemoryPath)> + Send,
) -> (Vec<HotText>, Vec<usize>) {
    let (places, paths): (Vec<_>, Vec<_>) = paths.unzip();
    let texts = memories.read_readable(&paths).await;
    let read = places.into_iter().zip(paths).zip(texts);
    let read: Vec<_> =
        read.filter_map(|((place, path), text)| Some((place, path, text?))).collect();
    let texts: Vec<_> = read.iter().map(|(_, path, read)| (*path, Some(read.revision))).collect();
    let standing = display_statuses(memories, &texts).await;
    let (mut heads, mut kept_out) = (Vec::new(), Vec::new());
    for (place, path, read) in read {
        let standing = standing.get(path).copied();
        if standing.is_some_and(DisplayStatus::is_excluded_from_hot_set) {
            kept_out.push(place);
            continue;
        }
        let bytes = read.text.len();
        let mut text = read.text;
        // One character more than is shown is all that has to be kept.
        text.truncate(text.ceil_char_boundary(HOT_ITEM_BYTES_MAX));
        let notice = standing.and_then(DisplayStatus::notice);
        heads.push(HotText { rank: place, text, bytes, revision: read.revision, notice });
    }
    (heads, kept_out)
}

fn files_shown(loaded: &ContextFileSet, files: &files::RenderedFiles) -> Vec<ShownFile> {
    let origin = |at: usize| loaded.origins.get(at);
    let mut all = Vec::new();
    for shown in &files.files {
        let Some(of) = origin(shown.source) else { continue };
        let parent = of.parent.and_then(origin).map(|parent| parent.path.clone());
        all.push(ShownFile {
            path: of.path.clone(),
            scope: of.scope,
            parent,
            bytes: shown.bytes,
            tokens: shown.tokens,
            is_cut: shown.is_cut,
        });
    }
    let is_shown = |at: usize| files.files.iter().any(|shown| shown.source == at);
    for (at, of) in loaded.origins.iter().enumerate() {
        let (Some(parent), Some(source)) = (of.parent, loaded.sources.get(at)) else { continue };
        if is_shown(at) || source.text.is_empty() {
            continue;
        }
        let Some(parent) = origin(parent) else { continue };
        let before = all.iter().rposition(|one: &ShownFile| {
            one.path == parent.path || one.parent.as_ref() == Some(&parent.path)
        });
        let import = ShownFile {
            path: of.path.clone(),
            scope: of.scope,
            parent: Some(parent.path.clone()),
            bytes: source.text.len(),
            tokens: context::tokens::count(&source.text),
            is_cut: false,
        };
        all.insert(before.map_or(all.len(), |at| at + 1), import);
    }
    all
}
