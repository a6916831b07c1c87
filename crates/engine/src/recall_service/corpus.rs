//! A corpus that follows the memories of a caller: updated by file stamps, queried for the memories
//! that fit a prompt.
//!
//! [`LiveCorpus`] adds to the search index of the crate `recall` everything needed to show a
//! result: texts, revisions, usage, review status. Reading and indexing run on blocking threads.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::limits::{RECALLED_ITEMS_MAX, RECALLED_UNREQUESTED_MAX};
use memory::path::{MemoryPath, Mount};
use memory::screen::Screen;
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use recall::limits::{CORPUS_AGE_MAX, CORPUS_DRIFT_SHARE, PROMPT_CHARS_MAX};
use recall::{Corpus, DenseScores, EntryVectors, MemoryHit, RankOptions, Threshold};
use store::backend::Stamp;
use store::{
    ChangedMemory, MEMORY_LIST, Memories, MemoriesVersion, ScannedMemory, StoreError, Unreviewed,
};
use tokio::sync::{OnceCell, OwnedMutexGuard};
use tokio::time::Instant;

use super::corpus_file::CorpusSlot;
use super::retrieved::{merge_duplicates, retrieved_memory};
use crate::query::{LastWrite, last_writes};
use crate::retriever::{RecallOrigin, ResidentEntries, RetrievedMemory};
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
    /// The memories of the caller of the last update, for reading texts in the background.
    pub(super) reader: Mutex<Option<Memories>>,
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
    /// Number of uses noted by then.
    pub(super) uses_noted: u64,
    /// Unreviewed memories, at the last update.
    pub(super) unreviewed: HashMap<MemoryPath, Unreviewed>,
    /// Writes that texts come from, by path and revision, as far as they were looked up.
    last_writes: HashMap<MemoryPath, (Revision, Option<LastWrite>)>,
    /// The version of the list of trusted folders that `unreviewed` is based on.
    pub(super) trust_version: Option<SystemTime>,
    /// The version of the memories at the last update, if it was known.
    pub(super) version: Option<MemoriesVersion>,
    /// The change count that the corpus includes, and the time of that update.
    pub(super) synced: Option<(u64, Instant)>,
    /// The vectors of the corpus's entries.
    pub(super) entry_vectors: Mutex<Option<CollectedVectors>>,
}

/// Vectors of entries, with the change counts of the corpus and of the vectors that they were collected at.
#[derive(Debug)]
pub(super) struct CollectedVectors {
    pub(super) change_counts: (u64, u64),
    pub(super) vectors: Arc<EntryVectors>,
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
    /// All usage counts, if they were read.
    pub(super) uses: Option<HashMap<MemoryPath, u64>>,
    pub(super) uses_noted: u64,
}

/// Files of memories, with the time of the last scan of all.
#[derive(Debug)]
pub(super) enum FoundFiles {
    /// Those that may have changed since the last update.
    Changed(Vec<ChangedMemory>, Instant),
    /// All of them.
    All(Vec<ScannedMemory>, Instant),
}

/// The memories that differ from a corpus.
#[derive(Debug)]
pub(super) struct CorpusDiff {
    pub(super) removed: Vec<MemoryPath>,
    /// New and changed memories, with the stamps of their files.
    pub(super) new: Vec<(MemoryPath, Option<Stamp>)>,
    /// All usage counts, if they were read.
    pub(super) uses: Option<HashMap<MemoryPath, u64>>,
    /// Time of the last scan of all files.
    pub(super) scanned_at: Instant,
}

impl LiveCorpus {
    pub(super) fn new(screen: Screen, slot: CorpusSlot, roots: Vec<(Mount, String)>) -> Self {
        let corpus = Corpus::new(screen);
        let (memories, uses) = (HashMap::new(), HashMap::new());
        let (unreviewed, last_writes) = (HashMap::new(), HashMap::new());
        let state = CorpusState {
            corpus,
            memories,
            uses,
            uses_noted: 0,
            unreviewed,
            last_writes,
            trust_version: None,
            version: None,
            synced: None,
            entry_vectors: Mutex::default(),
        };
        Self {
            state: RwLock::new(state),
            slot: Arc::new(tokio::sync::Mutex::new(slot)),
            roots,
            reader: Mutex::default(),
            vectors_loaded: OnceCell::new(),
            generation: AtomicU64::new(1),
            embedded_generation: AtomicU64::new(0),
        }
    }

    /// Checks whether all entries whose text was read had vectors at the last change.
    pub(super) fn has_all_vectors(&self) -> bool {
        let embedded = self.embedded_generation.load(Ordering::SeqCst);
        embedded == self.generation.load(Ordering::SeqCst)
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
                // The counts of two corpora are unrelated.
                state.entry_vectors = Mutex::default();
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

    /// Checks whether this process has updated the corpus.
    pub(super) fn was_updated(&self) -> bool {
        self.read().synced.is_some()
    }

    /// Checks whether the corpus is up to date with this version of the memories, and notes that it includes the
    /// changes counted so far.
    pub(super) fn is_of_version(
        &self,
        version: Option<&MemoriesVersion>,
        change_count: u64,
    ) -> bool {
        let mut state = self.write();
        let is_same = version.is_some() && state.version.as_ref() == version;
        let Some((synced_count, at)) = &mut state.synced else { return false };
        let is_current = is_same && at.elapsed() < CORPUS_AGE_MAX;
        if is_current {
            *synced_count = change_count;
        }
        is_current
    }

    /// Sets the usage counts.
    pub(super) fn set_uses(&self, uses: HashMap<MemoryPath, u64>, uses_noted: u64) {
        let mut state = self.write();
        (state.uses, state.uses_noted) = (uses, uses_noted);
    }

    /// Looks for changed files: only at those that changed since the last update where the system reports them, else at
    /// all.
    pub(super) async fn look_for_changes(
        &self,
        memories: &Memories,
    ) -> Result<FoundFiles, StoreError> {
        let recent = self.read().recent_version();
        if let Some((version, scanned_at)) = recent
            && let Some(changed) = memories.changed_since(&version).await
        {
            return Ok(FoundFiles::Changed(changed, scanned_at));
        }
        // Read first: a change during the scan is found by the next one.
        let scanned_at = Instant::now();
        let mut scanned = memories.scan_roots().await?;
        scanned.retain(|memory| !memory.exceeds_untrusted_limit);
        Ok(FoundFiles::All(scanned, scanned_at))
    }

    /// Compares files with the corpus.
    pub(super) fn diff(&self, found: FoundFiles) -> CorpusDiff {
        let state = self.read();
        match found {
            FoundFiles::Changed(changed, scanned_at) => {
                let (present, gone): (Vec<_>, Vec<_>) =
                    changed.into_iter().partition(|memory| memory.exists);
                let removed = gone.into_iter().map(|memory| memory.path).collect();
                let new = present.into_iter().map(|memory| (memory.path, memory.stamp));
                let new = new.filter(|(path, stamp)| !state.is_unchanged(path, *stamp)).collect();
                CorpusDiff { removed, new, uses: None, scanned_at }
            }
            FoundFiles::All(scanned, scanned_at) => {
                let present: HashSet<&MemoryPath> = scanned.iter().map(|one| &one.path).collect();
                let removed = state.memories.keys().filter(|path| !present.contains(path));
                let removed = removed.cloned().collect();
                let counts = scanned.iter().filter(|memory| memory.uses > 0);
                let uses = counts.map(|memory| (memory.path.clone(), memory.uses)).collect();
                let new = scanned.into_iter().map(|memory| (memory.path, memory.stamp));
                let new = new.filter(|(path, stamp)| !state.is_unchanged(path, *stamp)).collect();
                CorpusDiff { removed, new, uses: Some(uses), scanned_at }
            }
        }
    }

    /// Refreshes the review status of all memories, and marks the corpus as current.
    pub(super) async fn refresh_unreviewed(
        &self,
        memories: &Memories,
        current: Option<(u64, Instant)>,
        version: Option<MemoriesVersion>,
    ) {
        let trust_version = memories.trust_version();
        let unreviewed = if memories.may_hold_unreviewed().await {
            let texts: Vec<(MemoryPath, Revision)> = {
                let state = self.read();
                let texts = state.memories.iter();
                texts.map(|(path, memory)| (path.clone(), memory.revision)).collect()
            };
            let texts: Vec<_> =
                texts.iter().map(|(path, revision)| (path, Some(*revision))).collect();
            memories.unreviewed(&texts).await
        } else {
            HashMap::new()
        };
        let mut state = self.write();
        state.unreviewed = unreviewed;
        state.trust_version = trust_version;
        (state.synced, state.version) = (current, version);
    }

    /// Reads memories into an update. Unreadable ones, generated listings and memories with a merge conflict are skipped.
    pub(super) async fn read_memories(
        &self,
        memories: &Memories,
        new: &[(MemoryPath, Option<Stamp>)],
        update: &mut Update,
    ) {
        let paths: Vec<_> = new.iter().map(|(path, _)| path).collect();
        let texts = memories.read_readable(&paths).await;
        for ((path, stamp), text) in new.iter().zip(texts) {
            match text {
                Some(read) if is_recalled(path, &read.text) => {
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

    /// Looks up the writes that the texts of memories come from, where that was not done before; for all memories if
    /// none are named.
    pub(super) async fn look_up_last_writes(
        &self,
        memories: &Memories,
        paths: Option<&[MemoryPath]>,
    ) {
        let missing: Vec<(MemoryPath, Revision)> = {
            let state = self.read();
            let unknown = |(path, read): (&MemoryPath, &CachedMemory)| {
                let known = state.last_writes.get(path);
                let is_known = known.is_some_and(|(revision, _)| *revision == read.revision);
                (!is_known).then(|| (path.clone(), read.revision))
            };
            match paths {
                None => state.memories.iter().filter_map(unknown).collect(),
                Some(paths) => {
                    let named = paths.iter().filter_map(|path| state.memories.get_key_value(path));
                    named.filter_map(unknown).collect()
                }
            }
        };
        if missing.is_empty() {
            return;
        }
        match last_writes(memories, &missing).await {
            Ok(mut found) => {
                let mut state = self.write();
                for (path, revision) in missing {
                    let write = found.remove(&path);
                    state.last_writes.insert(path, (revision, write));
                }
            }
            // Memories are shown without the times of their writes.
            Err(error) => tracing::warn!(%error, "error while reading the times of memories"),
        }
    }

    /// Ranks the memories that fit a prompt.
    pub(super) fn rank(
        &self,
        prompt: &str,
        dense_scores: impl FnOnce(&CorpusState) -> Option<DenseScores>,
        origin: RecallOrigin,
        under: Option<&MemoryPath>,
    ) -> Ranking {
        let state = self.read();
        let dense_scores = dense_scores(&state);
        state.rank(prompt, dense_scores.as_ref(), origin, under)
    }

    /// Returns the memories of a ranking without the entries in `resident`, reading missing texts.
    /// Memories that changed since the ranking are left out.
    pub(super) async fn top(
        &self,
        memories: &Memories,
        ranking: &Ranking,
        resident: &ResidentEntries,
    ) -> Vec<RetrievedMemory> {
        let mut ranking = ranking.clone();
        let paths: Vec<MemoryPath> = ranking.0.iter().map(|(hit, _)| hit.path.clone()).collect();
        self.look_up_last_writes(memories, Some(&paths)).await;
        loop {
            let first = self.read().try_top(&ranking, resident);
            let missing = match first {
                Ok(selected) => return selected,
                Err(missing) => missing,
            };
            let changed = self.read_texts(memories, &missing).await;
            ranking.0.retain(|(hit, _)| !changed.contains(&hit.path));
        }
    }
}

/// The memories to show, best first.
#[derive(Clone, Debug)]
pub(super) struct Ranking(Vec<(MemoryHit, Revision)>);

impl Ranking {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

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

    /// Checks whether a file still has the stamp with which it was read.
    fn is_unchanged(&self, path: &MemoryPath, stamp: Option<Stamp>) -> bool {
        let cached = self.memories.get(path);
        stamp.is_some() && cached.is_some_and(|cached| cached.stamp == stamp)
    }

    /// Returns the version at the last update and the time of the last complete scan, unless that is too long ago.
    fn recent_version(&self) -> Option<(MemoriesVersion, Instant)> {
        let (_, scanned_at) = self.synced.filter(|(_, at)| at.elapsed() < CORPUS_AGE_MAX)?;
        Some((self.version.clone()?, scanned_at))
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
            self.last_writes.remove(path);
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
        if let Some(uses) = update.uses {
            (self.uses, self.uses_noted) = (uses, update.uses_noted);
        }
        (self.synced, self.version) = (None, None);
        drift
    }

    /// Ranks the memories that fit a prompt. Memories that must not be shown are no candidates.
    pub(super) fn rank(
        &self,
        prompt: &str,
        dense_scores: Option<&DenseScores>,
        origin: RecallOrigin,
        under: Option<&MemoryPath>,
    ) -> Ranking {
        let (threshold, limit) = match origin {
            RecallOrigin::Requested => (Threshold::Lenient, RECALLED_ITEMS_MAX),
            RecallOrigin::Unrequested => (Threshold::Strict, RECALLED_UNREQUESTED_MAX),
        };
        let options = RankOptions { limit, threshold, ..RankOptions::default() };
        let may_show = |path: &MemoryPath| match origin {
            RecallOrigin::Requested => self.unreviewed.get(path) != Some(&Unreviewed::Silent),
            RecallOrigin::Unrequested => !self.is_hidden_unrequested(path),
        };
        let hits = self.find(prompt, dense_scores, &options, |path| {
            under.is_none_or(|folder| path.is_within(folder)) && may_show(path)
        });
        Ranking(hits.into_iter().map(|(hit, read)| (hit, read.revision)).collect())
    }

    pub(super) fn find(
        &self,
        prompt: &str,
        dense_scores: Option<&DenseScores>,
        options: &RankOptions,
        is_candidate: impl Fn(&MemoryPath) -> bool,
    ) -> Vec<(MemoryHit, &CachedMemory)> {
        #[cfg(test)]
        RANKINGS.with(|rankings| rankings.set(rankings.get() + 1));
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
        let (prompt, _) = prompt.split_at(end);
        let hits = self.corpus.rank_with(prompt, options, dense_scores, is_candidate).into_iter();
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
            let is_equal = |(hit, _): &&(MemoryHit, &CachedMemory)| {
                hit.score >= score_min && hit.is_weak == best.is_weak
            };
            let count = rest.iter().take_while(is_equal).count().max(1);
            let (equal, others) = rest.split_at_mut(count);
            equal.sort_by_key(|one| std::cmp::Reverse(key(one)));
            rest = others;
        }
    }

    /// Returns the memories of a ranking without the entries in `resident`, and without those that changed since. What several memories
    /// say is shown once. Fails with the memories whose texts must be read first.
    pub(super) fn try_top(
        &self,
        ranking: &Ranking,
        resident: &ResidentEntries,
    ) -> Result<Vec<RetrievedMemory>, Vec<MemoryPath>> {
        let (mut chosen, mut missing) = (Vec::new(), Vec::new());
        let current = ranking.0.iter().filter_map(|(hit, revision)| {
            let read = self.memories.get(&hit.path)?;
            (read.revision == *revision).then_some((hit, read))
        });
        for (hit, read) in current {
            match read.text.get() {
                Some(text) => chosen.push(self.retrieved(hit.clone(), read, text)),
                None => missing.push(hit.path.clone()),
            }
        }
        if !missing.is_empty() {
            return Err(missing);
        }
        // Before duplicates are merged: what remains of one must not go with the other.
        resident.retain_unknown(&mut chosen);
        Ok(merge_duplicates(chosen))
    }

    /// Returns a hit as it is shown.
    pub(super) fn retrieved(
        &self,
        hit: MemoryHit,
        read: &CachedMemory,
        text: &Arc<str>,
    ) -> RetrievedMemory {
        let mark = self.unreviewed.get(&hit.path).copied().and_then(mark);
        let last_write = self.last_writes.get(&hit.path);
        let last_write = last_write.filter(|(revision, _)| *revision == read.revision);
        let last_write = last_write.and_then(|(_, write)| write.as_ref());
        retrieved_memory(hit, read, text, (mark, last_write))
    }
}

/// Checks whether recall may find a memory. The sides of a merge conflict contradict each other, so a memory with one is
/// found after it was resolved. A generated list repeats its memories.
fn is_recalled(path: &MemoryPath, text: &str) -> bool {
    let is_list = path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST);
    !(is_list && document::is_generated_list(text)) && document::conflict_line(text).is_none()
}
