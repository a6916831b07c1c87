//! A corpus that follows the memories of a caller: updated by file stamps, queried for the memories
//! that fit a prompt.
//!
//! [`LiveCorpus`] adds to the search index of the crate `recall` everything needed to show a
//! result: texts, revisions, usage, review status. Reading and indexing run on blocking threads.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use ::context::Mark;
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::limits::{RECALLED_ITEM_CHARS_MAX, RECALLED_ITEMS_MAX};
use memory::path::{MemoryPath, Mount};
use memory::screen::Screen;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use recall::limits::{CORPUS_AGE_MAX, CORPUS_DRIFT_SHARE, PROMPT_CHARS_MAX};
use recall::{Corpus, DenseScores, EntryHit, MemoryHit, RankOptions, Reason};
use store::backend::Stamp;
use store::{MEMORY_LIST, Memories, ScannedMemory, Unreviewed};
use tokio::sync::{OnceCell, OwnedMutexGuard};
use tokio::time::Instant;

use super::corpus_file::CorpusSlot;
use crate::retriever::{RecallQuery, RetrievedMemory};
use crate::segment::mark;

/// Relative score difference below which two memories count as equally good.
const TIE_SHARE: f32 = 0.01;

#[cfg(test)]
thread_local! {
    /// Number of rankings on this thread.
    pub(super) static RANKINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The memories of a root in path order, with their texts if they were read.
pub(super) type RootTexts = Vec<(Revision, Option<Arc<str>>)>;

/// A corpus with the state of its memories at the last update.
#[derive(Debug)]
pub(super) struct LiveCorpus {
    pub(super) state: RwLock<CorpusState>,
    /// The cache file. Locked while the corpus is updated or written.
    pub(super) slot: Arc<tokio::sync::Mutex<CorpusSlot>>,
    /// The root of each mount.
    pub(super) roots: Vec<(Mount, String)>,
    /// Initialized once the cached vectors were loaded.
    pub(super) vectors_loaded: OnceCell<()>,
    /// Generation of the contents, from 1; the next field has the generation in which all entries
    /// had vectors.
    pub(super) generation: AtomicU64,
    pub(super) embedded_generation: AtomicU64,
}

#[derive(Debug)]
pub(super) struct CorpusState {
    pub(super) corpus: Corpus,
    pub(super) memories: HashMap<MemoryPath, CachedMemory>,
    /// Usage counts of used memories, at the last update.
    pub(super) uses: HashMap<MemoryPath, u64>,
    /// Unreviewed memories, at the last update.
    pub(super) unreviewed: HashMap<MemoryPath, Unreviewed>,
    /// The version of the list of trusted folders that `unreviewed` is based on.
    pub(super) trust_version: Option<SystemTime>,
    /// The change count that the corpus includes, and the time of that update.
    pub(super) synced: Option<(u64, Instant)>,
}

/// A memory as read at the last update.
#[derive(Clone, Debug)]
pub(super) struct CachedMemory {
    pub(super) stamp: Option<Stamp>,
    pub(super) revision: Revision,
    pub(super) modified_at: Timestamp,
    /// Unset if another process indexed the memory.
    pub(super) text: OnceLock<Arc<str>>,
}

/// Changes to apply to a corpus.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) indexed: Vec<(MemoryPath, CachedMemory)>,
    pub(super) removed: Vec<MemoryPath>,
    pub(super) uses: HashMap<MemoryPath, u64>,
}

impl LiveCorpus {
    pub(super) fn new(screen: Screen, slot: CorpusSlot, roots: Vec<(Mount, String)>) -> Self {
        let corpus = Corpus::new(screen);
        let (memories, uses) = (HashMap::new(), HashMap::new());
        let unreviewed = HashMap::new();
        let state =
            CorpusState { corpus, memories, uses, unreviewed, trust_version: None, synced: None };
        Self {
            state: RwLock::new(state),
            slot: Arc::new(tokio::sync::Mutex::new(slot)),
            roots,
            vectors_loaded: OnceCell::new(),
            generation: AtomicU64::new(1),
            embedded_generation: AtomicU64::new(0),
        }
    }

    /// Returns its memories by root, in path order, with their texts if they were read.
    pub(super) fn texts_by_root(&self) -> Vec<(String, RootTexts)> {
        let state = self.read();
        let of_mount = |mount: Mount| -> RootTexts {
            let paths = state.corpus.paths().filter(|path| path.mount() == Some(mount));
            let cached = paths.filter_map(|path| state.memories.get(path));
            cached.map(|memory| (memory.revision, memory.text.get().cloned())).collect()
        };
        self.roots.iter().map(|(mount, root)| (root.clone(), of_mount(*mount))).collect()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, CorpusState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, CorpusState> {
        self.state.write()
    }

    /// Waits for the exclusive right to update or write the corpus.
    pub(super) async fn lock(&self) -> CorpusGuard {
        Arc::clone(&self.slot).lock_owned().await
    }

    /// Loads the corpus that another process cached, on the first call.
    pub(super) async fn load_from_disk(
        self: &Arc<Self>,
        mut guard: CorpusGuard,
        screen: &Screen,
    ) -> Option<CorpusGuard> {
        let Some(unloaded) = guard.unloaded.take() else { return Some(guard) };
        let (live, screen) = (Arc::clone(self), screen.clone());
        let loading = run_blocking(move || {
            if let Some((corpus, memories)) = unloaded.load(screen) {
                let mut state = live.write();
                (state.corpus, state.memories) = (corpus, memories);
            }
            guard
        });
        loading.await
    }

    /// Writes the corpus to its cache file if enough changed.
    pub(super) async fn persist(self: &Arc<Self>, mut guard: CorpusGuard) -> Option<CorpusGuard> {
        let is_small = guard.drift * CORPUS_DRIFT_SHARE < self.read().memories.len();
        let file = guard.file.clone().filter(|_| guard.drift > 0 && !is_small);
        let Some(file) = file else { return Some(guard) };
        let live = Arc::clone(self);
        let writing = run_blocking(move || {
            let packed = {
                let state = live.read();
                file.pack(&state.corpus, &state.memories)
            };
            file.store(packed);
            guard.drift = 0;
            guard
        });
        writing.await
    }

    /// Compares a scan with the corpus: returns removed memories, and new or changed ones.
    pub(super) fn diff(
        &self,
        scanned: Vec<ScannedMemory>,
    ) -> (Vec<MemoryPath>, Vec<ScannedMemory>) {
        let state = self.read();
        let present: HashSet<&MemoryPath> = scanned.iter().map(|memory| &memory.path).collect();
        let removed =
            state.memories.keys().filter(|path| !present.contains(path)).cloned().collect();
        (removed, scanned.into_iter().filter(|memory| !state.is_unchanged(memory)).collect())
    }

    /// Refreshes the review status of all memories, and marks the corpus as current.
    pub(super) async fn refresh_unreviewed(
        &self,
        memories: &Memories,
        current: Option<(u64, Instant)>,
    ) {
        let trust_version = memories.trust_version();
        let texts: Vec<(MemoryPath, Revision)> = {
            let state = self.read();
            state.memories.iter().map(|(path, memory)| (path.clone(), memory.revision)).collect()
        };
        let texts: Vec<_> = texts.iter().map(|(path, revision)| (path, Some(*revision))).collect();
        let unreviewed = memories.unreviewed(&texts).await;
        let mut state = self.write();
        state.unreviewed = unreviewed;
        state.trust_version = trust_version;
        state.synced = current;
    }

    /// Reads memories into an update. Unreadable ones and generated listings are skipped.
    pub(super) async fn read_memories(
        &self,
        memories: &Memories,
        new: &[ScannedMemory],
        update: &mut Update,
    ) {
        let paths: Vec<_> = new.iter().map(|memory| &memory.path).collect();
        let texts = memories.read_readable(&paths).await;
        for (ScannedMemory { path, stamp, .. }, text) in new.iter().zip(texts) {
            match text {
                Some(read) if !is_generated_index(path, &read.text) => {
                    let (revision, modified_at) = (read.revision, read.modified_at);
                    let text = OnceLock::from(Arc::from(read.text));
                    let read = CachedMemory { stamp: *stamp, revision, modified_at, text };
                    update.indexed.push((path.clone(), read));
                }
                Some(_) | None => update.removed.push(path.clone()),
            }
        }
    }

    pub(super) async fn apply_update(
        self: &Arc<Self>,
        update: Update,
        mut guard: CorpusGuard,
    ) -> Option<CorpusGuard> {
        let live = Arc::clone(self);
        // Indexing many new memories takes CPU time.
        let applying = run_blocking(move || {
            let is_new = !update.indexed.is_empty() || !update.removed.is_empty();
            guard.drift += live.write().apply_update(update);
            live.generation.fetch_add(u64::from(is_new), Ordering::SeqCst);
            guard
        });
        applying.await
    }

    /// Reads texts of memories that another process indexed. Returns those whose revision has
    /// changed since.
    pub(super) async fn read_texts(
        &self,
        memories: &Memories,
        paths: &[MemoryPath],
    ) -> Vec<MemoryPath> {
        let mut changed = Vec::new();
        let texts = memories.read_readable(&paths.iter().collect::<Vec<_>>()).await;
        for (path, current) in paths.iter().zip(texts) {
            let state = self.read();
            match (current, state.memories.get(path)) {
                (Some(current), Some(read)) if current.revision == read.revision => {
                    read.text.get_or_init(|| Arc::from(current.text));
                    self.generation.fetch_add(1, Ordering::SeqCst);
                }
                _ => changed.push(path.clone()),
            }
        }
        changed
    }

    /// Ranks the memories that fit a prompt, except those that must not be shown unasked and those
    /// already shown.
    pub(super) fn rank_unrequested(
        &self,
        query: &RecallQuery,
        dense_scores: impl FnOnce(&CorpusState) -> Option<DenseScores>,
    ) -> Ranking {
        let state = self.read();
        let dense_scores = dense_scores(&state);
        state.rank(&query.prompt, dense_scores.as_ref(), |path, revision| {
            !query.except.contains(path, revision) && !state.is_hidden_unrequested(path)
        })
    }

    /// Ranks the memories that fit a prompt and are eligible.
    pub(super) fn rank(
        &self,
        prompt: &str,
        dense_scores: impl FnOnce(&CorpusState) -> Option<DenseScores>,
        is_eligible: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Ranking {
        let state = self.read();
        let dense_scores = dense_scores(&state);
        state.rank(prompt, dense_scores.as_ref(), is_eligible)
    }

    /// Returns the top of a ranking, reading missing texts. Memories that changed since the ranking
    /// are left out, and the next ones move up.
    pub(super) async fn top(&self, memories: &Memories, ranking: &Ranking) -> Vec<RetrievedMemory> {
        let mut ranking = ranking.clone();
        loop {
            let first = self.read().try_top(&ranking);
            let missing = match first {
                Ok(selected) => return selected,
                Err(missing) => missing,
            };
            let changed = self.read_texts(memories, &missing).await;
            ranking.0.retain(|(hit, _)| !changed.contains(&hit.path));
        }
    }
}

/// A ranking, best first. Longer than what is shown, to replace memories that changed in the
/// meantime.
#[derive(Clone, Debug)]
pub(super) struct Ranking(Vec<(MemoryHit, Revision)>);

/// Exclusive access to a corpus. A blocking job takes it along, so that an abandoned job still
/// finishes before the next one starts.
pub(super) type CorpusGuard = OwnedMutexGuard<CorpusSlot>;

/// Runs CPU-bound or blocking work on a blocking thread; `None` if it panicked.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    let result = tokio::task::spawn_blocking(work).await;
    result
        .inspect_err(|error| tracing::error!(%error, "error: background work on a corpus panicked"))
        .ok()
}

impl CorpusState {
    /// Checks whether no change was announced since the last update, and that the update is recent.
    pub(super) fn is_current(&self, change_count: u64) -> bool {
        self.synced.is_some_and(|(synced_count, at)| {
            synced_count == change_count && at.elapsed() < CORPUS_AGE_MAX
        })
    }

    fn is_unchanged(&self, scanned: &ScannedMemory) -> bool {
        let cached = self.memories.get(&scanned.path);
        scanned.stamp.is_some() && cached.is_some_and(|cached| cached.stamp == scanned.stamp)
    }

    /// Checks whether a memory must not be shown unasked.
    pub(super) fn is_hidden_unrequested(&self, path: &MemoryPath) -> bool {
        self.unreviewed.get(path).is_some_and(|unreviewed| unreviewed.is_silent())
    }

    /// Returns the memories whose text was not read yet.
    pub(super) fn paths_without_text(&self) -> Vec<MemoryPath> {
        let missing = self.memories.iter().filter(|(_, read)| read.text.get().is_none());
        missing.map(|(path, _)| path.clone()).collect()
    }

    /// Applies an update; returns the number of memories that a process with the old cache file
    /// would have to read again.
    fn apply_update(&mut self, update: Update) -> usize {
        let mut drift = 0;
        for path in &update.removed {
            drift += usize::from(self.memories.remove(path).is_some());
            self.corpus.remove(path);
        }
        for (path, read) in update.indexed {
            let is_same = self.memories.get(&path).is_some_and(|old| old.revision == read.revision);
            if !is_same {
                // Files of a checkout carry the time of the checkout, which says nothing about the
                // text.
                let written = (!path.is_shared())
                    .then(|| read.modified_at.to_zoned(jiff::tz::TimeZone::UTC).date());
                let text = read.text.get().map_or("", |text| text);
                self.corpus.put(&path, text, written);
            }
            drift += usize::from(!is_same || read.stamp.is_some());
            self.memories.insert(path, read);
        }
        self.uses = update.uses;
        self.synced = None;
        drift
    }

    /// Ranks the eligible memories that fit a prompt.
    pub(super) fn rank(
        &self,
        prompt: &str,
        dense_scores: Option<&DenseScores>,
        is_eligible: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Ranking {
        let options = RankOptions { limit: 4 * RECALLED_ITEMS_MAX, ..RankOptions::default() };
        let hits = self.find(prompt, dense_scores, &options).into_iter();
        let hits = hits.filter(|(hit, read)| {
            self.unreviewed.get(&hit.path) != Some(&Unreviewed::Silent)
                && is_eligible(&hit.path, &read.revision)
        });
        Ranking(hits.map(|(hit, read)| (hit, read.revision)).collect())
    }

    pub(super) fn find(
        &self,
        prompt: &str,
        dense_scores: Option<&DenseScores>,
        options: &RankOptions,
    ) -> Vec<(MemoryHit, &CachedMemory)> {
        #[cfg(test)]
        RANKINGS.with(|rankings| rankings.set(rankings.get() + 1));
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
        let (prompt, _) = prompt.split_at(end);
        let hits = self.corpus.rank_with(prompt, options, dense_scores, |_| true).into_iter();
        let mut found: Vec<(MemoryHit, &CachedMemory)> = hits
            .filter_map(|hit| Some((self.memories.get(&hit.path)?, hit)))
            .map(|(read, hit)| (hit, read))
            .collect();
        self.break_ties(&mut found);
        found
    }

    /// Reorders about equally good results: later day of writing first, then higher usage.
    fn break_ties(&self, found: &mut [(MemoryHit, &CachedMemory)]) {
        let key = |(hit, read): &(MemoryHit, &CachedMemory)| {
            // Files of a checkout carry the time of the checkout, which says nothing about the
            // text.
            let day = (!hit.path.is_shared())
                .then(|| read.modified_at.to_zoned(jiff::tz::TimeZone::UTC).date());
            (day, self.uses.get(&hit.path).copied().unwrap_or_default())
        };
        let mut rest = found;
        while let Some((best, _)) = rest.first() {
            let score_min = best.score - best.score.abs() * TIE_SHARE;
            let count = rest.iter().take_while(|(hit, _)| hit.score >= score_min).count().max(1);
            let (equal, others) = rest.split_at_mut(count);
            equal.sort_by_key(|one| std::cmp::Reverse(key(one)));
            rest = others;
        }
    }

    /// Returns the top of a ranking without memories that changed since. Fails with the memories
    /// whose texts must be read first.
    pub(super) fn try_top(
        &self,
        ranking: &Ranking,
    ) -> Result<Vec<RetrievedMemory>, Vec<MemoryPath>> {
        let (mut chosen, mut missing) = (Vec::new(), Vec::new());
        let current = ranking.0.iter().filter_map(|(hit, revision)| {
            let read = self.memories.get(&hit.path)?;
            (read.revision == *revision).then_some((hit, read))
        });
        for (hit, read) in current.take(RECALLED_ITEMS_MAX) {
            match read.text.get() {
                Some(text) => {
                    let mark = self.unreviewed.get(&hit.path).copied().and_then(mark);
                    chosen.push(retrieved_memory(hit.clone(), read, text, mark));
                }
                None => missing.push(hit.path.clone()),
            }
        }
        if missing.is_empty() { Ok(chosen) } else { Err(missing) }
    }
}

fn is_generated_index(path: &MemoryPath, text: &str) -> bool {
    path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
        && document::is_generated_list(text)
}

/// Returns a hit as it is shown.
pub(super) fn retrieved_memory(
    hit: MemoryHit,
    read: &CachedMemory,
    text: &str,
    mark: Option<Mark>,
) -> RetrievedMemory {
    RetrievedMemory {
        title: title(&hit.path, text),
        text: excerpt(text, &hit.entries),
        why: reason_text(&hit.reasons),
        path: hit.path,
        revision: read.revision,
        modified_at: read.modified_at,
        mark,
    }
}

/// Returns the title of a memory: its name, else its description, else its file name.
pub(super) fn title(path: &MemoryPath, text: &str) -> String {
    let head = document::parse_header(text.as_bytes());
    let described = Some(head.description).filter(|description| !description.is_empty());
    head.name.or(described).unwrap_or_else(|| {
        let path = path.to_string();
        let file = path.rsplit('/').next().unwrap_or(&path);
        file.strip_suffix(".md").unwrap_or(file).to_owned()
    })
}

/// Returns the part of a memory that is shown: all of a short one, else its best entries.
fn excerpt(text: &str, entries: &[EntryHit]) -> String {
    let body = document::body(text).trim();
    if body.chars().count() <= RECALLED_ITEM_CHARS_MAX {
        return body.to_owned();
    }
    let mut ranges: Vec<_> = entries.iter().map(|entry| entry.range.clone()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let parts = ranges.into_iter().filter_map(|range| text.get(range)).map(str::trim);
    parts.collect::<Vec<_>>().join("\n…\n")
}

/// Describes why a memory was chosen.
fn reason_text(reasons: &[Reason]) -> String {
    let reason = |reason: &Reason| match reason {
        Reason::ExactWord { query_word, memory_word } if query_word == memory_word => {
            format!("has `{query_word}`")
        }
        Reason::ExactWord { query_word, memory_word } => {
            format!("has `{memory_word}` for `{query_word}`")
        }
        Reason::Misspelled { query_word, memory_word } => {
            format!("has `{memory_word}`, probably for `{query_word}`")
        }
        Reason::SimilarWord { query_word, memory_word, .. } => {
            format!("has `{memory_word}`, near `{query_word}`")
        }
        Reason::Date => "is from the day or month asked for".to_owned(),
        Reason::Subject => "is about what is named".to_owned(),
        Reason::SimilarText { similarity } => {
            format!("is near to the prompt as a whole ({similarity:.2})")
        }
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join("; ")
}
