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

use super::corpus_file::Place;
use crate::segment::mark;
use crate::select::{Selected, Selecting};

/// How much of its score a memory may lack and still fit as well as another.
const TIE_SHARE: f32 = 0.01;

#[cfg(test)]
thread_local! {
    /// How often this thread ranked.
    pub(super) static RANKINGS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// The memories of a root, in the order of their paths, with their texts as far as they were read.
pub(super) type OfRoot = Vec<(Revision, Option<Arc<str>>)>;

/// A corpus, and what its memories were when they were read.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) held: RwLock<Held>,
    /// Where it is kept. Held by whoever brings it up to date, or keeps it, until that is done.
    pub(super) place: Arc<tokio::sync::Mutex<Place>>,
    /// Where its memories lie, mount by mount.
    pub(super) roots: Vec<(Mount, String)>,
    /// Whether what is kept of their vectors was read.
    pub(super) vectors_read: OnceCell<()>,
    /// How often there was something new in it, from 1; and how often there had been when all entries had vectors.
    pub(super) seen: AtomicU64,
    pub(super) whole: AtomicU64,
}

#[derive(Debug)]
pub(super) struct Held {
    pub(super) corpus: Corpus,
    pub(super) memories: HashMap<MemoryPath, Read>,
    /// How often those were used that were, when that was looked at.
    pub(super) uses: HashMap<MemoryPath, u64>,
    /// Those that nobody here reviewed, when that was looked at.
    pub(super) unreviewed: HashMap<MemoryPath, Unreviewed>,
    /// Which version of the list of trusted folders that was told by.
    pub(super) trust: Option<SystemTime>,
    /// Up to which change it has everything, and when that was looked at.
    pub(super) current: Option<(u64, Instant)>,
}

/// A memory as it was read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    pub(super) stamp: Option<Stamp>,
    pub(super) revision: Revision,
    pub(super) modified_at: Timestamp,
    /// Not there yet if it was indexed by another process.
    pub(super) text: OnceLock<Arc<str>>,
}

/// What is new in a corpus.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) read: Vec<(MemoryPath, Read)>,
    pub(super) gone: Vec<MemoryPath>,
    pub(super) uses: HashMap<MemoryPath, u64>,
}

impl Followed {
    pub(super) fn new(screen: Screen, place: Place, roots: Vec<(Mount, String)>) -> Self {
        let corpus = Corpus::new(screen);
        let (memories, uses) = (HashMap::new(), HashMap::new());
        let unreviewed = HashMap::new();
        let held = Held { corpus, memories, uses, unreviewed, trust: None, current: None };
        Self {
            held: RwLock::new(held),
            place: Arc::new(tokio::sync::Mutex::new(place)),
            roots,
            vectors_read: OnceCell::new(),
            seen: AtomicU64::new(1),
            whole: AtomicU64::new(0),
        }
    }

    /// Returns its memories root by root, in the order of their paths, with their texts as far as they were read.
    pub(super) fn by_root(&self) -> Vec<(String, OfRoot)> {
        let held = self.read();
        let of_mount = |mount: Mount| -> OfRoot {
            let paths = held.corpus.paths().filter(|path| path.mount() == Some(mount));
            let reads = paths.filter_map(|path| held.memories.get(path));
            reads.map(|read| (read.revision, read.text.get().cloned())).collect()
        };
        self.roots.iter().map(|(mount, place)| (place.clone(), of_mount(*mount))).collect()
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write()
    }

    /// Waits until nobody else brings it up to date or keeps it.
    pub(super) async fn alone(&self) -> Alone {
        Arc::clone(&self.place).lock_owned().await
    }

    /// Begins with what another process kept, the first time.
    pub(super) async fn take_up(
        self: &Arc<Self>,
        mut place: Alone,
        screen: &Screen,
    ) -> Option<Alone> {
        let Some(unread) = place.unread.take() else { return Some(place) };
        let (followed, screen) = (Arc::clone(self), screen.clone());
        let read = blocking(move || {
            if let Some((corpus, memories)) = unread.read(screen) {
                let mut held = followed.write();
                (held.corpus, held.memories) = (corpus, memories);
            }
            place
        });
        read.await
    }

    /// Keeps it if enough changed.
    pub(super) async fn keep(self: &Arc<Self>, mut place: Alone) -> Option<Alone> {
        let is_near = place.drift * CORPUS_DRIFT_SHARE < self.read().memories.len();
        let file = place.file.clone().filter(|_| place.drift > 0 && !is_near);
        let Some(file) = file else { return Some(place) };
        let followed = Arc::clone(self);
        let keeping = blocking(move || {
            let packed = {
                let held = followed.read();
                file.pack(&held.corpus, &held.memories)
            };
            file.write(packed);
            place.drift = 0;
            place
        });
        keeping.await
    }

    /// Tells what went, and what is another text than was read before.
    pub(super) fn differences(
        &self,
        surveyed: Vec<ScannedMemory>,
    ) -> (Vec<MemoryPath>, Vec<ScannedMemory>) {
        let held = self.read();
        let found: HashSet<&MemoryPath> = surveyed.iter().map(|one| &one.path).collect();
        let gone = held.memories.keys().filter(|path| !found.contains(path)).cloned().collect();
        (gone, surveyed.into_iter().filter(|one| !held.has(one)).collect())
    }

    /// Looks which memories nobody here reviewed.
    pub(super) async fn review(&self, memories: &Memories, current: Option<(u64, Instant)>) {
        let trust = memories.trust_version();
        let texts: Vec<(MemoryPath, Revision)> = {
            let held = self.read();
            held.memories.iter().map(|(path, read)| (path.clone(), read.revision)).collect()
        };
        let texts: Vec<_> = texts.iter().map(|(path, revision)| (path, Some(*revision))).collect();
        let unreviewed = memories.unreviewed(&texts).await;
        let mut held = self.write();
        held.unreviewed = unreviewed;
        held.trust = trust;
        held.current = current;
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
                Some(read) if !is_list(path, &read.text) => {
                    let (revision, modified_at) = (read.revision, read.modified_at);
                    let text = OnceLock::from(Arc::from(read.text));
                    let read = Read { stamp: *stamp, revision, modified_at, text };
                    update.read.push((path.clone(), read));
                }
                Some(_) | None => update.gone.push(path.clone()),
            }
        }
    }

    pub(super) async fn take_in(
        self: &Arc<Self>,
        update: Update,
        mut place: Alone,
    ) -> Option<Alone> {
        let followed = Arc::clone(self);
        // Indexing takes a processor for a while when there is much that is new.
        let taking_in = blocking(move || {
            let is_new = !update.read.is_empty() || !update.gone.is_empty();
            place.drift += followed.write().take_in(update);
            followed.seen.fetch_add(u64::from(is_new), Ordering::SeqCst);
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
                    self.seen.fetch_add(1, Ordering::SeqCst);
                }
                _ => changed.push(path.clone()),
            }
        }
        changed
    }

    /// Ranks what fits, of what may be shown to somebody who did not ask and was not shown it yet.
    pub(super) fn rank_unasked(
        &self,
        asked: &Selecting,
        likeness: impl FnOnce(&Held) -> Option<DenseScores>,
    ) -> Ranking {
        let held = self.read();
        let likeness = likeness(&held);
        held.rank(&asked.prompt, likeness.as_ref(), |path, revision| {
            !asked.except.has(path, revision) && !held.is_unasked_silent(path)
        })
    }

    /// Ranks what fits, of what may be shown.
    pub(super) fn rank(
        &self,
        prompt: &str,
        likeness: impl FnOnce(&Held) -> Option<DenseScores>,
        may_be: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Ranking {
        let held = self.read();
        let likeness = likeness(&held);
        held.rank(prompt, likeness.as_ref(), may_be)
    }

    /// Returns the first of a ranking. Texts that were not read yet are read; what changed since it was ranked is left
    /// out, and the next ones move up.
    pub(super) async fn first(&self, memories: &Memories, ranking: &Ranking) -> Vec<Selected> {
        let mut ranking = ranking.clone();
        loop {
            let first = self.read().first(&ranking);
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
pub(super) type Alone = OwnedMutexGuard<Place>;

/// Does what takes a processor or waits for the disk where nobody waits; `None` if it died.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "a corpus could not be worked on")).ok()
}

impl Held {
    /// Tells whether nobody told of a change since it was brought up to date, and that is not long ago.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        self.current.is_some_and(|(known, at)| known == changes && at.elapsed() < CORPUS_AGE_MAX)
    }

    fn has(&self, one: &ScannedMemory) -> bool {
        let read = self.memories.get(&one.path);
        one.stamp.is_some() && read.is_some_and(|read| read.stamp == one.stamp)
    }

    /// Tells whether a memory is shown to nobody who did not ask for it.
    pub(super) fn is_unasked_silent(&self, path: &MemoryPath) -> bool {
        self.unreviewed.get(path).is_some_and(|unreviewed| unreviewed.is_silent())
    }

    /// Returns the memories whose text was not read yet.
    pub(super) fn without_text(&self) -> Vec<MemoryPath> {
        let without = self.memories.iter().filter(|(_, read)| read.text.get().is_none());
        without.map(|(path, _)| path.clone()).collect()
    }

    /// Takes an update in; returns how many memories the next process would have to read again for it.
    fn take_in(&mut self, update: Update) -> usize {
        let mut drift = 0;
        for path in &update.gone {
            drift += usize::from(self.memories.remove(path).is_some());
            self.corpus.remove(path);
        }
        for (path, read) in update.read {
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
        self.current = None;
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
        let found = self.find_with(prompt, likeness, &options).into_iter();
        let found = found.filter(|(hit, read)| {
            self.unreviewed.get(&hit.path) != Some(&Unreviewed::Silent)
                && may_be(&hit.path, &read.revision)
        });
        Ranking(found.map(|(hit, read)| (hit, read.revision)).collect())
    }

    pub(super) fn find_with(
        &self,
        prompt: &str,
        likeness: Option<&DenseScores>,
        options: &RankOptions,
    ) -> Vec<(MemoryHit, &Read)> {
        #[cfg(test)]
        RANKINGS.with(|rankings| rankings.set(rankings.get() + 1));
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
        let (prompt, _) = prompt.split_at(end);
        let hits = self.corpus.rank_with(prompt, options, likeness).into_iter();
        let mut found: Vec<(MemoryHit, &Read)> = hits
            .filter_map(|hit| Some((self.memories.get(&hit.path)?, hit)))
            .map(|(read, hit)| (hit, read))
            .collect();
        self.break_ties(&mut found);
        found
    }

    /// Puts what fits about equally well in its order: what was written on a later day first, then what was used
    /// more.
    fn break_ties(&self, found: &mut [(MemoryHit, &Read)]) {
        let place = |(hit, read): &(MemoryHit, &Read)| {
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
    pub(super) fn first(&self, ranking: &Ranking) -> Result<Vec<Selected>, Vec<MemoryPath>> {
        let (mut chosen, mut without) = (Vec::new(), Vec::new());
        let current = ranking.0.iter().filter_map(|(hit, revision)| {
            let read = self.memories.get(&hit.path)?;
            (read.revision == *revision).then_some((hit, read))
        });
        for (hit, read) in current.take(RECALLED_ITEMS_MAX) {
            match read.text.get() {
                Some(text) => {
                    let mark = self.unreviewed.get(&hit.path).copied().and_then(mark);
                    chosen.push(selected(hit.clone(), read, text, mark));
                }
                None => without.push(hit.path.clone()),
            }
        }
        if without.is_empty() { Ok(chosen) } else { Err(without) }
    }
}

fn is_list(path: &MemoryPath, text: &str) -> bool {
    path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
        && document::is_generated_list(text)
}

/// Returns what is shown of a memory.
pub(super) fn selected(hit: MemoryHit, read: &Read, text: &str, mark: Option<Mark>) -> Selected {
    Selected {
        title: title(&hit.path, text),
        text: excerpt(text, &hit.entries),
        why: why(&hit.reasons),
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
fn why(reasons: &[Reason]) -> String {
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
