//! A corpus that follows the memories of a caller: brought up to date by their stamps, asked for what fits a prompt.

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

/// How much of its score a memory may lack and still fit as well as another.
const TIE_SHARE: f32 = 0.01;

#[cfg(test)]
thread_local! {
    /// How often this thread ranked.
    pub(super) static RANKINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The memories of a root, in the order of their paths, with their texts as far as they were read.
pub(super) type RootTexts = Vec<(Revision, Option<Arc<str>>)>;

/// A corpus, and what its memories were when they were read.
#[derive(Debug)]
pub(super) struct LiveCorpus {
    pub(super) state: RwLock<CorpusState>,
    /// Where it is kept. Held by whoever brings it up to date, or keeps it, until that is done.
    pub(super) slot: Arc<tokio::sync::Mutex<CorpusSlot>>,
    /// Where its memories lie, mount by mount.
    pub(super) roots: Vec<(Mount, String)>,
    /// Whether what is kept of their vectors was read.
    pub(super) vectors_loaded: OnceCell<()>,
    /// How often there was something new in it, from 1; and how often there had been when all entries had vectors.
    pub(super) generation: AtomicU64,
    pub(super) embedded_generation: AtomicU64,
}

#[derive(Debug)]
pub(super) struct CorpusState {
    pub(super) corpus: Corpus,
    pub(super) memories: HashMap<MemoryPath, CachedMemory>,
    /// How often those were used that were, when that was looked at.
    pub(super) uses: HashMap<MemoryPath, u64>,
    /// Those that nobody here reviewed, when that was looked at.
    pub(super) unreviewed: HashMap<MemoryPath, Unreviewed>,
    /// Which version of the list of trusted folders that was told by.
    pub(super) trust_version: Option<SystemTime>,
    /// Up to which change it has everything, and when that was looked at.
    pub(super) synced: Option<(u64, Instant)>,
}

/// A memory as it was read.
#[derive(Clone, Debug)]
pub(super) struct CachedMemory {
    pub(super) stamp: Option<Stamp>,
    pub(super) revision: Revision,
    pub(super) modified_at: Timestamp,
    /// Not there yet if it was indexed by another process.
    pub(super) text: OnceLock<Arc<str>>,
}

/// What is new in a corpus.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) indexed: Vec<(MemoryPath, CachedMemory)>,
    pub(super) removed: Vec<MemoryPath>,
    pub(super) uses: HashMap<MemoryPath, u64>,
}

impl LiveCorpus {
    pub(super) fn new(screen: Screen, place: CorpusSlot, roots: Vec<(Mount, String)>) -> Self {
        let corpus = Corpus::new(screen);
        let (memories, uses) = (HashMap::new(), HashMap::new());
        let unreviewed = HashMap::new();
        let held =
            CorpusState { corpus, memories, uses, unreviewed, trust_version: None, synced: None };
        Self {
            state: RwLock::new(held),
            slot: Arc::new(tokio::sync::Mutex::new(place)),
            roots,
            vectors_loaded: OnceCell::new(),
            generation: AtomicU64::new(1),
            embedded_generation: AtomicU64::new(0),
        }
    }

    /// Returns its memories root by root, in the order of their paths, with their texts as far as they were read.
    pub(super) fn texts_by_root(&self) -> Vec<(String, RootTexts)> {
        let held = self.read();
        let of_mount = |mount: Mount| -> RootTexts {
            let paths = held.corpus.paths().filter(|path| path.mount() == Some(mount));
            let reads = paths.filter_map(|path| held.memories.get(path));
            reads.map(|read| (read.revision, read.text.get().cloned())).collect()
        };
        self.roots.iter().map(|(mount, place)| (place.clone(), of_mount(*mount))).collect()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, CorpusState> {
        self.state.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, CorpusState> {
        self.state.write()
    }

    /// Waits until nobody else brings it up to date or keeps it.
    pub(super) async fn lock(&self) -> CorpusGuard {
        Arc::clone(&self.slot).lock_owned().await
    }

    /// Begins with what another process kept, the first time.
    pub(super) async fn load_from_disk(
        self: &Arc<Self>,
        mut place: CorpusGuard,
        screen: &Screen,
    ) -> Option<CorpusGuard> {
        let Some(unread) = place.unloaded.take() else { return Some(place) };
        let (followed, screen) = (Arc::clone(self), screen.clone());
        let read = run_blocking(move || {
            if let Some((corpus, memories)) = unread.load(screen) {
                let mut held = followed.write();
                (held.corpus, held.memories) = (corpus, memories);
            }
            place
        });
        read.await
    }

    /// Keeps it if enough changed.
    pub(super) async fn persist(self: &Arc<Self>, mut place: CorpusGuard) -> Option<CorpusGuard> {
        let is_near = place.drift * CORPUS_DRIFT_SHARE < self.read().memories.len();
        let file = place.file.clone().filter(|_| place.drift > 0 && !is_near);
        let Some(file) = file else { return Some(place) };
        let followed = Arc::clone(self);
        let keeping = run_blocking(move || {
            let packed = {
                let held = followed.read();
                file.pack(&held.corpus, &held.memories)
            };
            file.store(packed);
            place.drift = 0;
            place
        });
        keeping.await
    }

    /// Tells what went, and what is another text than was read before.
    pub(super) fn diff(
        &self,
        surveyed: Vec<ScannedMemory>,
    ) -> (Vec<MemoryPath>, Vec<ScannedMemory>) {
        let held = self.read();
        let found: HashSet<&MemoryPath> = surveyed.iter().map(|one| &one.path).collect();
        let gone = held.memories.keys().filter(|path| !found.contains(path)).cloned().collect();
        (gone, surveyed.into_iter().filter(|one| !held.is_unchanged(one)).collect())
    }

    /// Looks which memories nobody here reviewed.
    pub(super) async fn refresh_unreviewed(
        &self,
        memories: &Memories,
        current: Option<(u64, Instant)>,
    ) {
        let trust = memories.trust_version();
        let texts: Vec<(MemoryPath, Revision)> = {
            let held = self.read();
            held.memories.iter().map(|(path, read)| (path.clone(), read.revision)).collect()
        };
        let texts: Vec<_> = texts.iter().map(|(path, revision)| (path, Some(*revision))).collect();
        let unreviewed = memories.unreviewed(&texts).await;
        let mut held = self.write();
        held.unreviewed = unreviewed;
        held.trust_version = trust;
        held.synced = current;
    }

    /// Reads memories. What cannot be read is passed over, and so is a listing that was generated.
    pub(super) async fn read_memories(
        &self,
        memories: &Memories,
        new: &[ScannedMemory],
        update: &mut Update,
    ) {
        let paths: Vec<_> = new.iter().map(|one| &one.path).collect();
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
        mut place: CorpusGuard,
    ) -> Option<CorpusGuard> {
        let followed = Arc::clone(self);
        // Indexing takes a processor for a while when there is much that is new.
        let taking_in = run_blocking(move || {
            let is_new = !update.indexed.is_empty() || !update.removed.is_empty();
            place.drift += followed.write().apply_update(update);
            followed.generation.fetch_add(u64::from(is_new), Ordering::SeqCst);
            place
        });
        taking_in.await
    }

    /// Reads texts of memories that were indexed by another process; returns those that are not what they
    /// were then.
    pub(super) async fn read_texts(
        &self,
        memories: &Memories,
        paths: &[MemoryPath],
    ) -> Vec<MemoryPath> {
        let mut changed = Vec::new();
        let texts = memories.read_readable(&paths.iter().collect::<Vec<_>>()).await;
        for (path, now) in paths.iter().zip(texts) {
            let held = self.read();
            match (now, held.memories.get(path)) {
                (Some(now), Some(read)) if now.revision == read.revision => {
                    read.text.get_or_init(|| Arc::from(now.text));
                    self.generation.fetch_add(1, Ordering::SeqCst);
                }
                _ => changed.push(path.clone()),
            }
        }
        changed
    }

    /// Ranks what fits, of what may be shown to somebody who did not ask and was not shown it yet.
    pub(super) fn rank_unrequested(
        &self,
        asked: &RecallQuery,
        likeness: impl FnOnce(&CorpusState) -> Option<DenseScores>,
    ) -> Ranking {
        let held = self.read();
        let likeness = likeness(&held);
        held.rank(&asked.prompt, likeness.as_ref(), |path, revision| {
            !asked.except.contains(path, revision) && !held.is_hidden_unrequested(path)
        })
    }

    /// Ranks what fits, of what may be shown.
    pub(super) fn rank(
        &self,
        prompt: &str,
        likeness: impl FnOnce(&CorpusState) -> Option<DenseScores>,
        may_be: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Ranking {
        let held = self.read();
        let likeness = likeness(&held);
        held.rank(prompt, likeness.as_ref(), may_be)
    }

    /// Returns the first of a ranking. Texts that were not read yet are read; what changed since it was ranked is left
    /// out, and the next ones move up.
    pub(super) async fn top(&self, memories: &Memories, ranking: &Ranking) -> Vec<RetrievedMemory> {
        let mut ranking = ranking.clone();
        loop {
            let first = self.read().try_top(&ranking);
            let without = match first {
                Ok(selected) => return selected,
                Err(without) => without,
            };
            let changed = self.read_texts(memories, &without).await;
            ranking.0.retain(|(hit, _)| !changed.contains(&hit.path));
        }
    }
}

/// What fits a prompt, the best first: more than are shown, since those that changed meanwhile make room.
#[derive(Clone, Debug)]
pub(super) struct Ranking(Vec<(MemoryHit, Revision)>);

/// The right to change a corpus. Whoever works on it where nobody waits takes it along, so that what is begun and
/// not waited for is done before the next begins.
pub(super) type CorpusGuard = OwnedMutexGuard<CorpusSlot>;

/// Does what takes a processor or waits for the disk where nobody waits; `None` if it died.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "a corpus could not be worked on")).ok()
}

impl CorpusState {
    /// Tells whether nobody told of a change since it was brought up to date, and that is not long ago.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        self.synced.is_some_and(|(known, at)| known == changes && at.elapsed() < CORPUS_AGE_MAX)
    }

    fn is_unchanged(&self, one: &ScannedMemory) -> bool {
        let read = self.memories.get(&one.path);
        one.stamp.is_some() && read.is_some_and(|read| read.stamp == one.stamp)
    }

    /// Tells whether a memory is shown to nobody who did not ask for it.
    pub(super) fn is_hidden_unrequested(&self, path: &MemoryPath) -> bool {
        self.unreviewed.get(path).is_some_and(|unreviewed| unreviewed.is_silent())
    }

    /// Returns the memories whose text was not read yet.
    pub(super) fn paths_without_text(&self) -> Vec<MemoryPath> {
        let without = self.memories.iter().filter(|(_, read)| read.text.get().is_none());
        without.map(|(path, _)| path.clone()).collect()
    }

    /// Takes an update in; returns how many memories the next process would have to read again for it.
    fn apply_update(&mut self, update: Update) -> usize {
        let mut drift = 0;
        for path in &update.removed {
            drift += usize::from(self.memories.remove(path).is_some());
            self.corpus.remove(path);
        }
        for (path, read) in update.indexed {
            let is_same = self.memories.get(&path).is_some_and(|had| had.revision == read.revision);
            if !is_same {
                // The files of a checkout have the time of the checkout.
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

    /// Ranks the memories that fit, of those that may be shown.
    pub(super) fn rank(
        &self,
        prompt: &str,
        likeness: Option<&DenseScores>,
        may_be: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Ranking {
        let options = RankOptions { limit: 4 * RECALLED_ITEMS_MAX, ..RankOptions::default() };
        let found = self.find(prompt, likeness, &options).into_iter();
        let found = found.filter(|(hit, read)| {
            self.unreviewed.get(&hit.path) != Some(&Unreviewed::Silent)
                && may_be(&hit.path, &read.revision)
        });
        Ranking(found.map(|(hit, read)| (hit, read.revision)).collect())
    }

    pub(super) fn find(
        &self,
        prompt: &str,
        likeness: Option<&DenseScores>,
        options: &RankOptions,
    ) -> Vec<(MemoryHit, &CachedMemory)> {
        #[cfg(test)]
        RANKINGS.with(|rankings| rankings.set(rankings.get() + 1));
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
        let (prompt, _) = prompt.split_at(end);
        let hits = self.corpus.rank_with(prompt, options, likeness).into_iter();
        let mut found: Vec<(MemoryHit, &CachedMemory)> = hits
            .filter_map(|hit| Some((self.memories.get(&hit.path)?, hit)))
            .map(|(read, hit)| (hit, read))
            .collect();
        self.break_ties(&mut found);
        found
    }

    /// Puts what fits about equally well in its order: what was written on a later day first, then what was used
    /// more.
    fn break_ties(&self, found: &mut [(MemoryHit, &CachedMemory)]) {
        let place = |(hit, read): &(MemoryHit, &CachedMemory)| {
            // The files of a checkout have the time of the checkout.
            let day = (!hit.path.is_shared())
                .then(|| read.modified_at.to_zoned(jiff::tz::TimeZone::UTC).date());
            (day, self.uses.get(&hit.path).copied().unwrap_or_default())
        };
        let mut rest = found;
        while let Some((best, _)) = rest.first() {
            let least = best.score - best.score.abs() * TIE_SHARE;
            let count = rest.iter().take_while(|(hit, _)| hit.score >= least).count().max(1);
            let (equal, others) = rest.split_at_mut(count);
            equal.sort_by_key(|one| std::cmp::Reverse(place(one)));
            rest = others;
        }
    }

    /// Returns the first of a ranking, but for what changed since; or the memories whose texts must be read first.
    pub(super) fn try_top(
        &self,
        ranking: &Ranking,
    ) -> Result<Vec<RetrievedMemory>, Vec<MemoryPath>> {
        let (mut chosen, mut without) = (Vec::new(), Vec::new());
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
                None => without.push(hit.path.clone()),
            }
        }
        if without.is_empty() { Ok(chosen) } else { Err(without) }
    }
}

fn is_generated_index(path: &MemoryPath, text: &str) -> bool {
    path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
        && document::is_generated_list(text)
}

/// Returns what is shown of a memory.
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

/// Returns what a memory is called: its name, else what its description says, else its file's name.
pub(super) fn title(path: &MemoryPath, text: &str) -> String {
    let head = document::parse_header(text.as_bytes());
    let described = Some(head.description).filter(|description| !description.is_empty());
    head.name.or(described).unwrap_or_else(|| {
        let path = path.to_string();
        let file = path.rsplit('/').next().unwrap_or(&path);
        file.strip_suffix(".md").unwrap_or(file).to_owned()
    })
}

/// Returns what of a memory is shown: all of it when it is short, else its entries that fit best.
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

/// Says why a memory was chosen.
fn reason_text(reasons: &[Reason]) -> String {
    let reason = |reason: &Reason| match reason {
        Reason::ExactWord { query_word: asked, memory_word: found } if asked == found => {
            format!("has `{asked}`")
        }
        Reason::ExactWord { query_word: asked, memory_word: found } => {
            format!("has `{found}` for `{asked}`")
        }
        Reason::Misspelled { query_word: asked, memory_word: found } => {
            format!("has `{found}`, probably for `{asked}`")
        }
        Reason::SimilarWord { query_word: asked, memory_word: found, .. } => {
            format!("has `{found}`, near `{asked}`")
        }
        Reason::Date => "is from the day or month asked for".to_owned(),
        Reason::Subject => "is about what is named".to_owned(),
        Reason::SimilarText { similarity: nearness } => {
            format!("is near to the prompt as a whole ({nearness:.2})")
        }
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join("; ")
}
