//! Gathers the context of a segment: memories, their usage, pins and context files become the parts
//! that a model is shown.
//!
//! This module collects the data. The crate `context` decides what is shown and renders it. Nothing
//! is written, and nothing counts as a use of a memory.

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
use memory::document::{Revision, conflict_line};
use memory::feature::Feature;
use memory::limits::{HOT_ITEM_BYTES_MAX, HOT_ITEMS_MAX, INDEX_BYTES_KEPT, INDEX_LINES_MAX};
use memory::path::{MemoryPath, Mount};
use store::{
    ContextFileSet, ContextFiles, Listing, LoadScope, Memories, MemoryEntry, SkippedContextSource,
    StoreError, Unreviewed,
};

/// Description shown in place of that of a memory from a repository that screening objects to.
const FLAGGED_TEXT: &str = "(screening objects to this memory)";

/// Description shown in place of that of a memory from a repository that was not reviewed here.
const UNREVIEWED_TEXT: &str = "(came with the repository; not reviewed here)";

/// Description shown in place of that of a memory that an agent wrote after reading such a text.
const INFLUENCED_TEXT: &str =
    "(an agent wrote it after it had read unreviewed text; not reviewed since)";

/// Description shown in place of that of a memory with a merge conflict.
const CONFLICT_TEXT: &str = "(in conflict)";

/// Number of memories read at a time for the hot set. One batch is usually enough.
const READ_BATCH: usize = 2 * HOT_ITEMS_MAX;

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
    /// The memories considered for the hot set, warmest first.
    pub hot: Vec<HotSetEntry>,
    /// Number of memories covered by the index.
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

/// A reason that keeps a memory out of the hot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HotSetExclusion {
    /// No person reviewed it here.
    Unreviewed,
    /// It has a merge conflict.
    Conflict,
}

/// A memory considered for the hot set.
#[derive(Clone, Debug, PartialEq)]
pub struct HotSetEntry {
    /// Path of the memory.
    pub path: MemoryPath,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// Number of uses on this host.
    pub uses: u64,
    /// Present heat: its uses, weighted by age.
    pub heat: f64,
    /// Whether it is in the hot set.
    pub shown: bool,
    /// The reason that it is kept out, whatever its use.
    pub kept_out: Option<HotSetExclusion>,
    /// The revision shown, if the whole text is shown.
    pub full_revision: Option<Revision>,
}

/// The current list of memories, for comparison with the one that a model was shown.
#[derive(Clone, Debug)]
pub(crate) struct CurrentIndex {
    /// Whether the index feature is on.
    is_enabled: bool,
    listing: Listing,
    /// Display statuses of the memories that the model was not shown yet.
    statuses: HashMap<MemoryPath, DisplayStatus>,
}

impl CurrentIndex {
    pub(crate) async fn new(memories: &Memories, shown: &ShownIndex) -> Result<Self, StoreError> {
        let is_enabled = memories.features().has(Feature::ContextIndex);
        let listing = if is_enabled { memories.list(None).await? } else { Listing::default() };
        let is_new =
            |listed: &&MemoryEntry| !shown.contains(&listed.path, listed.bytes, listed.modified_at);
        let new = listing.memories.iter().filter(is_new);
        let new: Vec<_> = new.map(|listed| (&listed.path, None)).collect();
        let statuses = display_statuses(memories, &new).await;
        Ok(Self { is_enabled, listing, statuses })
    }

    /// Returns the changes since `shown` and records them there; `None` if nothing changed.
    pub(crate) fn delta(&self, shown: &mut ShownIndex) -> Option<ContextPart> {
        if !self.is_enabled {
            return None;
        }
        shown
            .delta(&stamped_entries(&self.listing, &self.statuses), &self.listing.incomplete_mounts)
    }
}

fn stamped_entries<'a>(
    listing: &'a Listing,
    statuses: &HashMap<MemoryPath, DisplayStatus>,
) -> Vec<StampedEntry<'a>> {
    let stamped = listing.memories.iter().map(|listed| {
        let status = statuses.get(&listed.path);
        let replacement = status.and_then(|status| status.replacement_text());
        let description = replacement.unwrap_or(&listed.description);
        let mark = status.filter(|_| replacement.is_none()).and_then(|status| status.mark());
        let pinned = listed.pinned;
        let entry = IndexEntry { path: &listed.path, description, pinned, mark };
        StampedEntry { entry, bytes: listed.bytes, modified_at: listed.modified_at }
    });
    stamped.collect()
}

/// Gathers the parts of a segment, within `bytes_max` bytes.
pub(crate) async fn gather(
    memories: &Memories,
    context_files: &ContextFiles,
    (style, bytes_max): (ImportStyle, usize),
    now: Timestamp,
) -> Result<SegmentReport, StoreError> {
    let (listing, files) = tokio::join!(memories.list(None), context_text(context_files, style));
    let listing = listing?;
    let statuses = index_statuses(memories, &listing).await;
    let stamped = stamped_entries(&listing, &statuses);
    let entries: Vec<_> = stamped.iter().map(|one| one.entry).collect();
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
        shown_index: ShownIndex::from_entries(&stamped),
        files: files.files,
        skipped: files.skipped,
        lacks_project_files: files.lacks_project_files,
        hot,
        memories: listing.memories.len() + listing.omitted,
    })
}

/// Loads and renders the context files.
pub(crate) async fn context_text(files: &ContextFiles, style: ImportStyle) -> ContextText {
    let loaded = files.load().await;
    let style = files.import_style().unwrap_or(style);
    let shown = files::render(&loaded.sources, &loaded.files, style);
    let files = files_shown(&loaded, &shown);
    ContextText {
        text: shown.text,
        files,
        skipped: loaded.skipped.clone(),
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
    Some(files::render(&loaded.sources, &of_project, style).text)
}

/// Returns the share of the hot set in the bytes that a host accepts.
const fn hot_bytes_max(bytes_max: usize) -> usize {
    bytes_max.saturating_sub(INDEX_BYTES_KEPT)
}

/// Returns the parts that fit into `bytes_max` bytes together, in their original order. The hot set
/// takes room first because a person pinned it, then the index, then context files.
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
    let fitting = [files, index, hot_set];
    parts.into_iter().zip(fitting).filter_map(|(part, fitting)| part.filter(|_| fitting)).collect()
}

/// Display status of a memory that screening objects to, that has a merge conflict, or that was not reviewed here.
#[derive(Clone, Copy, Debug, Default)]
struct DisplayStatus {
    is_flagged: bool,
    in_conflict: bool,
    unreviewed: Option<Unreviewed>,
}

impl DisplayStatus {
    /// Checks whether it stays out of the hot set, whatever its pins and usage.
    fn is_excluded_from_hot_set(self) -> bool {
        self.in_conflict || self.unreviewed.is_some_and(Unreviewed::is_never_hot)
    }

    /// Returns the reason that it stays out of the hot set.
    const fn exclusion(self) -> HotSetExclusion {
        if self.in_conflict { HotSetExclusion::Conflict } else { HotSetExclusion::Unreviewed }
    }

    fn mark(self) -> Option<Mark> {
        self.unreviewed.and_then(mark)
    }

    /// Returns the text shown in place of its description, if any.
    fn replacement_text(self) -> Option<&'static str> {
        match self.unreviewed {
            _ if self.is_flagged => Some(FLAGGED_TEXT),
            Some(Unreviewed::Silent) => Some(UNREVIEWED_TEXT),
            Some(Unreviewed::Influenced) => Some(INFLUENCED_TEXT),
            _ if self.in_conflict => Some(CONFLICT_TEXT),
            Some(Unreviewed::Marked | Unreviewed::Background) | None => None,
        }
    }

    /// Returns the notice shown before its text.
    fn notice(self) -> Option<&'static str> {
        if self.is_flagged { Some(FROM_CHECKOUT) } else { self.mark().map(Mark::before_text) }
    }
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

/// Returns the display statuses of the memories that the index may list.
async fn index_statuses(
    memories: &Memories,
    listing: &Listing,
) -> HashMap<MemoryPath, DisplayStatus> {
    let mut counts: HashMap<Option<Mount>, usize> = HashMap::new();
    let may_be_shown = listing.memories.iter().filter(|listed| {
        let count = counts.entry(listed.path.mount()).or_default();
        *count += 1;
        listed.pinned || *count <= INDEX_LINES_MAX
    });
    let shown: Vec<_> = may_be_shown.map(|listed| (&listed.path, None)).collect();
    display_statuses(memories, &shown).await
}

/// Returns the display statuses of these memories; a revision of `None` stands for the current one.
/// Memories that are shown without any notice are omitted.
async fn display_statuses(
    memories: &Memories,
    texts: &[(&MemoryPath, Option<Revision>)],
) -> HashMap<MemoryPath, DisplayStatus> {
    let unreviewed = memories.unreviewed(texts).await;
    let mut statuses = HashMap::new();
    let paths: Vec<_> = texts.iter().map(|(path, _)| *path).collect();
    for (path, findings) in paths.iter().zip(memories.text_findings(&paths).await) {
        let (is_flagged, in_conflict) = (!findings.warnings.is_empty(), findings.in_conflict);
        let unreviewed = unreviewed.get(*path).copied();
        if is_flagged || in_conflict || unreviewed.is_some() {
            let status = DisplayStatus { is_flagged, in_conflict, unreviewed };
            statuses.insert((*path).clone(), status);
        }
    }
    statuses
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

/// The text of a memory, read for the hot set.
struct HotText {
    rank: usize,
    text: String,
    bytes: usize,
    revision: Revision,
    notice: Option<&'static str>,
}

/// Reads the warmest memories until the hot set is full; unreadable ones are skipped.
async fn hot_set(
    memories: &Memories,
    ranked: &[RankedCandidate<'_>],
    bytes_max: usize,
) -> Result<(String, Vec<HotSetEntry>), StoreError> {
    let mut heads: Vec<HotText> = Vec::new();
    let mut kept_out: HashMap<usize, DisplayStatus> = HashMap::new();
    let mut filled: Option<HotSet> = None;
    for (batch, some) in ranked.chunks(READ_BATCH).enumerate() {
        let ranks = some.iter().enumerate().map(|(i, one)| (batch * READ_BATCH + i, one));
        let read =
            read_hot_texts(memories, ranks.map(|(rank, one)| (rank, one.candidate.path))).await;
        heads.extend(read.0);
        kept_out.extend(read.1);
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
    let HotSet { text, shown, truncated } = filled.unwrap_or(nothing);
    let whole: HashMap<usize, Option<Revision>> = shown
        .iter()
        .filter_map(|index| heads.get(*index).map(|head| (index, head)))
        .map(|(index, head)| (head.rank, (!truncated.contains(index)).then_some(head.revision)))
        .collect();
    let tried = ranked.iter().enumerate().map(|(index, one)| HotSetEntry {
        path: one.candidate.path.clone(),
        pinned: one.candidate.pinned,
        uses: one.candidate.usage.uses,
        heat: one.heat,
        shown: whole.contains_key(&index),
        kept_out: kept_out.get(&index).map(|status| status.exclusion()),
        full_revision: whole.get(&index).copied().flatten(),
    });
    Ok((text, tried.collect()))
}

/// Reads the starts of memories, skipping unreadable ones. Also returns the ranks of those that are
/// kept out because they were not reviewed here, or because they have a merge conflict.
async fn read_hot_texts(
    memories: &Memories,
    paths: impl Iterator<Item = (usize, &MemoryPath)> + Send,
) -> (Vec<HotText>, Vec<(usize, DisplayStatus)>) {
    let (ranks, paths): (Vec<_>, Vec<_>) = paths.unzip();
    let texts = memories.read_readable(&paths).await;
    let read = ranks.into_iter().zip(paths).zip(texts);
    let read: Vec<_> = read.filter_map(|((rank, path), text)| Some((rank, path, text?))).collect();
    let texts: Vec<_> = read.iter().map(|(_, path, read)| (*path, Some(read.revision))).collect();
    let statuses = display_statuses(memories, &texts).await;
    let (mut heads, mut kept_out) = (Vec::new(), Vec::new());
    for (rank, path, read) in read {
        let status = statuses.get(path).copied();
        let mut checked = status.unwrap_or_default();
        checked.in_conflict |= conflict_line(&read.text).is_some();
        if checked.is_excluded_from_hot_set() {
            kept_out.push((rank, checked));
            continue;
        }
        let bytes = read.text.len();
        let mut text = read.text;
        // At most one character more than this is shown, so the rest need not be kept.
        text.truncate(text.ceil_char_boundary(HOT_ITEM_BYTES_MAX));
        let notice = status.and_then(DisplayStatus::notice);
        heads.push(HotText { rank, text, bytes, revision: read.revision, notice });
    }
    (heads, kept_out)
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
        let import = ShownFile {
            path: file.path.clone(),
            scope: file.scope,
            parent: Some(parent.path.clone()),
            bytes: source.text.len(),
            tokens: context::tokens::count(&source.text),
            is_cut: false,
        };
        all.insert(predecessor.map_or(all.len(), |index| index + 1), import);
    }
    all
}
