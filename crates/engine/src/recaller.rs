//! Follows memories with a corpus, and finds in it what fits a prompt.
//!
//! A corpus is made of the memories that a caller sees and is brought up to date by looking at stamps: a memory
//! is read again only if its file has another one. As long as nobody told of a change since, a prompt is
//! answered from it at once; otherwise it is brought up to date first, beside the turn.
//!
//! Where a person named an endpoint, what means about the same is found by its vectors too ([`meaning`]): those of
//! entries are asked for ahead, that of a prompt while somebody looks for what fits it.
//!
//! Corpora are [kept](kept) in the state folder, without the texts: those are read when they are shown first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use async_trait::async_trait;
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::feature::Feature;
use memory::limits::{EMBED_RETRY_DELAY, RECALLED_ITEMS_MAX};
use memory::path::{MemoryPath, Mount};
use memory::screen::Screen;
use recall::limits::{
    CORPORA_KEPT_MAX, CORPUS_AGE_MAX, CORPUS_BATCH, CORPUS_DRIFT_SHARE, CORPUS_KEEP_DELAY,
    CORPUS_REST_DELAY, PROMPT_CHARS_MAX,
};
use recall::{Corpus, Hit, Likeness, Options, Vector};
use store::backend::Stamp;
use store::{
    DerivedFiles, MEMORY_LIST, Memories, Notice, StoreError, Surveyed, TurnFile, Unreviewed,
};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, OnceCell, OwnedMutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Embeddings;
use crate::conversation::{Select, Selected, Selecting};
use crate::recaller::excerpt::selected;
use crate::recaller::kept::Place;
use crate::recaller::meaning::{Filled, Meaning, OfRoot};
use crate::segment::mark;

mod kept;

mod excerpt;

mod meaning;

mod shortlist;

mod vectors;

pub(crate) use self::shortlist::{Candidate, Shortlist};

/// How much of its score a memory may lack and still fit as well as another.
const TIE_SHARE: f32 = 0.01;

/// Finds what fits a prompt, without a model and without a network unless a person named an endpoint.
#[derive(Debug)]
pub struct Recaller {
    screen: Screen,
    /// Corpora by what they are of, each with when it was wanted last.
    corpora: Mutex<Corpora>,
    /// How often something changed, as far as anybody told.
    changes: AtomicU64,
    /// Where corpora are kept, if they are.
    files: Option<DerivedFiles>,
    /// Told when a corpus is another than the one that is kept.
    drifted: Notify,
    /// What an endpoint tells, if a person named one.
    meaning: Option<Arc<Meaning>>,
}

#[derive(Debug, Default)]
struct Corpora {
    wanted: u64,
    by_name: BTreeMap<String, (u64, Arc<Followed>)>,
}

/// A corpus, and what its memories were when they were read.
#[derive(Debug)]
struct Followed {
    held: RwLock<Held>,
    /// Where it is kept. Held by whoever brings it up to date, or keeps it, until that is done.
    place: Arc<tokio::sync::Mutex<Place>>,
    /// Where its memories lie, mount by mount.
    roots: Vec<(Mount, String)>,
    /// Whether what is kept of their vectors was read.
    vectors_read: OnceCell<()>,
    /// How often there was something new in it, from 1; and how often there had been when all entries had vectors.
    seen: AtomicU64,
    whole: AtomicU64,
}

#[derive(Debug)]
struct Held {
    corpus: Corpus,
    memories: HashMap<MemoryPath, Read>,
    /// How often those were used that were, when that was looked at.
    uses: HashMap<MemoryPath, u64>,
    /// Those that nobody here reviewed, when that was looked at.
    unreviewed: HashMap<MemoryPath, Unreviewed>,
    /// Which version of the list of trusted folders that was told by.
    trust: Option<SystemTime>,
    /// Up to which change it has everything, and when that was looked at.
    current: Option<(u64, Instant)>,
}

/// A memory as it was read.
#[derive(Clone, Debug)]
struct Read {
    stamp: Option<Stamp>,
    revision: Revision,
    modified_at: Timestamp,
    /// Not there yet if it was indexed by another process.
    text: OnceLock<Arc<str>>,
}

/// What is new in a corpus.
#[derive(Debug, Default)]
struct Update {
    read: Vec<(MemoryPath, Read)>,
    gone: Vec<MemoryPath>,
    uses: HashMap<MemoryPath, u64>,
}

impl Recaller {
    /// Returns one that has looked at nothing yet. What the screen objects to is never found. Corpora are
    /// kept in `files`, if there is such a folder.
    pub fn new(screen: Screen, files: Option<DerivedFiles>) -> Self {
        let (corpora, changes) = (Mutex::default(), AtomicU64::new(0));
        Self { screen, corpora, changes, files, drifted: Notify::new(), meaning: None }
    }

    /// Returns it with vectors of this endpoint, which are kept in `files` and asked for by whoever has the `turn`.
    pub(crate) fn with_embeddings(
        self,
        embeddings: Embeddings,
        kept: (DerivedFiles, TurnFile),
    ) -> Self {
        let meaning = Meaning::new(embeddings, self.screen.clone(), kept);
        Self { meaning: Some(Arc::new(meaning)), ..self }
    }

    /// Notes what is told of changes, and lets go of what is behind when nothing more is told for a while. Goes on
    /// until whoever runs it ends it.
    pub async fn follow(&self, mut notices: Receiver<Notice>) {
        let mut may_be_behind = false;
        loop {
            let told = tokio::select! {
                biased;
                told = notices.recv() => told,
                () = tokio::time::sleep(CORPUS_REST_DELAY), if may_be_behind => {
                    self.let_go_of_what_is_behind().await;
                    may_be_behind = false;
                    continue;
                }
            };
            match told {
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                    may_be_behind = true;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Lets go of corpora that nobody has wanted since something changed. The next prompt would have to wait for
    /// such a one in any case, and has it from what is kept.
    async fn let_go_of_what_is_behind(&self) {
        self.keep().await;
        // Whoever changed something had it screened.
        memory::screen::rest();
        let changes = self.changes.load(Ordering::SeqCst);
        let mut corpora = self.corpora.lock().unwrap_or_else(PoisonError::into_inner);
        corpora.by_name.retain(|_, (_, followed)| {
            // Somebody brings it up to date at this moment.
            followed.held.try_read().map_or(true, |held| held.is_current(changes))
        });
    }

    /// Looks at these memories, so that the next prompt is answered at once.
    pub async fn prepare(&self, memories: &Memories) -> Result<(), StoreError> {
        if !memories.features().has(Feature::Recall) {
            return Ok(());
        }
        let followed = self.corpus(memories);
        self.update(&followed, memories).await?;
        let texts = followed.read().without_text();
        followed.read_texts(memories, &texts).await;
        self.want_vectors();
        Ok(())
    }

    /// Looks at these memories, so that this prompt is answered at once.
    pub async fn prepare_for(&self, memories: &Memories, prompt: &str) -> Result<(), StoreError> {
        if !memories.features().has(Feature::Recall) {
            return Ok(());
        }
        let followed = self.corpus(memories);
        self.update(&followed, memories).await?;
        let texts: Vec<MemoryPath> = {
            let held = followed.read();
            let found = held.find(prompt, None).into_iter();
            found.filter(|(_, read)| read.text.get().is_none()).map(|(hit, _)| hit.path).collect()
        };
        followed.read_texts(memories, &texts).await;
        Ok(())
    }

    /// Returns the memories that fit a prompt, the best first, from what they are at this moment. Nothing
    /// when nothing fits. Waits for an endpoint as long as a person allows, and goes on without it.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Vec<Selected>, StoreError> {
        memories.check_feature(Feature::Recall)?;
        let followed = self.corpus(memories);
        self.update(&followed, memories).await?;
        let alike = self.alike_now(&followed, memories, prompt).await?;
        followed.found(memories, (prompt, alike), |_, _| true).await
    }

    /// Keeps what changed since it was kept last, for the next process.
    pub async fn keep(&self) {
        let followed = self.followed();
        for followed in &followed {
            followed.keep(followed.alone().await).await;
            if let Some(meaning) = &self.meaning {
                meaning.keep(followed).await;
            }
        }
        if let Some(meaning) = &self.meaning {
            meaning.forget_all_but(&followed);
        }
    }

    /// Asks for the vectors of entries that have none, whenever there may be some. Goes on until whoever runs it
    /// ends it.
    pub(crate) async fn fill_up(&self) {
        let Some(meaning) = &self.meaning else { return };
        let mut again = None;
        loop {
            match again {
                None => meaning.wanted.notified().await,
                Some(at) => tokio::select! {
                    () = meaning.wanted.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
            again = None;
            for followed in self.followed() {
                if meaning.fill(&followed).await == Filled::NotYet {
                    let soon = Instant::now() + EMBED_RETRY_DELAY;
                    again = Some(meaning.rests_until().unwrap_or(soon));
                }
            }
        }
    }

    /// Keeps corpora a while after they changed. Goes on until whoever runs it ends it.
    pub(crate) async fn keep_up(&self) {
        loop {
            self.drifted.notified().await;
            tokio::time::sleep(CORPUS_KEEP_DELAY).await;
            self.keep().await;
        }
    }

    fn followed(&self) -> Vec<Arc<Followed>> {
        let corpora = self.corpora.lock().unwrap_or_else(PoisonError::into_inner);
        corpora.by_name.values().map(|(_, followed)| Arc::clone(followed)).collect()
    }

    fn want_vectors(&self) {
        if let Some(meaning) = &self.meaning {
            meaning.wanted.notify_one();
        }
    }

    /// Returns a prompt's vector for somebody who waits, and has entries sent that have none: as many as are
    /// answered for meanwhile.
    async fn alike_now(
        &self,
        followed: &Arc<Followed>,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Option<Alike<'_>>, StoreError> {
        let Some(meaning) = &self.meaning else { return Ok(None) };
        meaning.take_up(followed).await;
        let texts = meaning.without_text(followed);
        followed.read_texts(memories, &texts).await;
        let filling = tokio::time::timeout(meaning.wait(), meaning.fill(followed));
        let (vector, filled) = tokio::join!(meaning.of_prompt(prompt), filling);
        if filled != Ok(Filled::All) {
            self.want_vectors();
        }
        Ok(vector.map(|vector| Alike { meaning, vector }))
    }

    /// Returns a prompt's vector, if there is something to compare it with.
    async fn alike(&self, followed: &Followed, prompt: &str) -> Option<Alike<'_>> {
        let meaning = self.meaning.as_ref()?;
        meaning.take_up(followed).await;
        self.want_vectors();
        let vector = if meaning.may_tell() { meaning.of_prompt(prompt).await } else { None };
        Some(Alike { meaning, vector: vector? })
    }

    /// Returns the corpus of what these memories are; those that nobody wanted for the longest time go.
    fn corpus(&self, memories: &Memories) -> Arc<Followed> {
        let name: String = memories
            .mounts()
            .iter()
            .map(|mount| match &mount.key {
                Some(key) => format!("{:?} {}\n", mount.mount, key.place),
                None => String::new(),
            })
            .collect();
        let mut corpora = self.corpora.lock().unwrap_or_else(PoisonError::into_inner);
        corpora.wanted += 1;
        let wanted = corpora.wanted;
        if let Some((last, followed)) = corpora.by_name.get_mut(&name) {
            *last = wanted;
            return Arc::clone(followed);
        }
        if corpora.by_name.len() >= CORPORA_KEPT_MAX {
            let oldest = corpora.by_name.iter().min_by_key(|(_, (last, _))| *last);
            if let Some(name) = oldest.map(|(name, _)| name.clone()) {
                corpora.by_name.remove(&name);
            }
        }
        let place = Place::new(self.files.clone(), &name);
        let roots = memories.mounts().into_iter();
        let roots = roots.filter_map(|mount| Some((mount.mount, mount.key?.place)));
        let followed = Arc::new(Followed::new(self.screen.clone(), place, roots.collect()));
        corpora.by_name.insert(name, (wanted, Arc::clone(&followed)));
        followed
    }

    /// Brings a corpus up to date.
    fn update<'a>(
        &'a self,
        followed: &'a Arc<Followed>,
        memories: &'a Memories,
    ) -> futures_util::future::BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let place = followed.alone().await;
            // Counted first: what changes from here on is looked at the next time.
            let (changes, looked_at) = (self.changes.load(Ordering::SeqCst), Instant::now());
            let (surveyed, taken_up) =
                tokio::join!(Box::pin(memories.survey()), followed.take_up(place, &self.screen));
            let mut surveyed = surveyed?;
            surveyed.retain(|one| !one.is_too_much);
            let marked = surveyed.iter().filter(|one| one.uses > 0);
            let uses = marked.map(|one| (one.path.clone(), one.uses)).collect();
            let (gone, new) = followed.differences(surveyed);
            let mut update = Update { gone, uses, ..Update::default() };
            let mut batches = new.chunks(CORPUS_BATCH).peekable();
            let mut place = taken_up;
            loop {
                let batch = batches.next().unwrap_or_default();
                followed.read_memories(memories, batch, &mut update).await;
                let is_last = batches.peek().is_none();
                let current = is_last.then_some((changes, looked_at));
                let Some(alone) = place else { return Ok(()) };
                let next = Update { uses: update.uses.clone(), ..Update::default() };
                let update = std::mem::replace(&mut update, next);
                // What may be shown is known before it counts as up to date: whoever gives up in between leaves it
                // to be looked at again.
                let taken_in = followed.take_in(update, alone).await;
                if is_last {
                    followed.review(memories, current).await;
                    if taken_in.is_some_and(|place| place.drift > 0) {
                        self.drifted.notify_one();
                    }
                    return Ok(());
                }
                // Whoever is ended before the end goes on from here.
                place = match taken_in {
                    Some(place) => followed.keep(place).await,
                    None => None,
                };
            }
        })
    }
}

#[async_trait]
impl Select for Recaller {
    fn at_once(&self, asked: &Selecting) -> Option<Vec<Selected>> {
        if !asked.memories.features().has(Feature::Recall) {
            return Some(Vec::new());
        }
        let followed = self.corpus(&asked.memories);
        // Somebody takes in what is new at this moment.
        let held = followed.held.try_read().ok()?;
        let is_current = held.is_current(self.changes.load(Ordering::SeqCst));
        if !is_current || held.trust != asked.memories.trust_version() {
            return None;
        }
        let may_be = |path: &MemoryPath, revision: &Revision| {
            !asked.except.has(path, revision) && !held.is_unasked_silent(path)
        };
        let found = held.selected(&asked.prompt, None, may_be).ok()?;
        // What the words tell is not kept waiting. Where they tell nothing, an endpoint may.
        let may_be_more = || self.meaning.as_ref().is_some_and(|meaning| meaning.may_tell());
        if found.is_empty() && may_be_more() { None } else { Some(found) }
    }

    async fn select(
        &self,
        asked: Selecting,
        stop: CancellationToken,
    ) -> Result<Vec<Selected>, Box<dyn std::error::Error + Send + Sync>> {
        if !asked.memories.features().has(Feature::Recall) {
            return Ok(Vec::new());
        }
        let followed = self.corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let alike = self.alike(&followed, &asked.prompt).await;
        Ok(followed.found_unasked(&asked, alike).await?)
    }
}

impl Followed {
    fn new(screen: Screen, place: Place, roots: Vec<(Mount, String)>) -> Self {
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
    fn by_root(&self) -> Vec<(String, OfRoot)> {
        let held = self.read();
        let of_mount = |mount: Mount| -> OfRoot {
            let paths = held.corpus.paths().filter(|path| path.mount() == Some(mount));
            let reads = paths.filter_map(|path| held.memories.get(path));
            reads.map(|read| (read.revision, read.text.get().cloned())).collect()
        };
        self.roots.iter().map(|(mount, place)| (place.clone(), of_mount(*mount))).collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else brings it up to date or keeps it.
    async fn alone(&self) -> Alone {
        Arc::clone(&self.place).lock_owned().await
    }

    /// Begins with what another process kept, the first time.
    async fn take_up(self: &Arc<Self>, mut place: Alone, screen: &Screen) -> Option<Alone> {
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
    async fn keep(self: &Arc<Self>, mut place: Alone) -> Option<Alone> {
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
    fn differences(&self, surveyed: Vec<Surveyed>) -> (Vec<MemoryPath>, Vec<Surveyed>) {
        let held = self.read();
        let found: HashSet<&MemoryPath> = surveyed.iter().map(|one| &one.path).collect();
        let gone = held.memories.keys().filter(|path| !found.contains(path)).cloned().collect();
        (gone, surveyed.into_iter().filter(|one| !held.has(one)).collect())
    }

    /// Looks which memories nobody here reviewed.
    async fn review(&self, memories: &Memories, current: Option<(u64, Instant)>) {
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
    async fn read_memories(&self, memories: &Memories, new: &[Surveyed], update: &mut Update) {
        for Surveyed { path, stamp, .. } in new {
            match memories.read_if_readable(path).await {
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

    async fn take_in(self: &Arc<Self>, update: Update, mut place: Alone) -> Option<Alone> {
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
    async fn read_texts(&self, memories: &Memories, paths: &[MemoryPath]) -> Vec<MemoryPath> {
        let mut changed = Vec::new();
        for path in paths {
            let now = memories.read_if_readable(path).await;
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

    /// Returns what fits, of what may be shown to somebody who did not ask and was not shown it yet.
    async fn found_unasked(
        &self,
        asked: &Selecting,
        alike: Option<Alike<'_>>,
    ) -> Result<Vec<Selected>, StoreError> {
        let silent: HashSet<MemoryPath> = {
            let held = self.read();
            held.unreviewed.keys().filter(|path| held.is_unasked_silent(path)).cloned().collect()
        };
        let may_be = |path: &MemoryPath, revision: &Revision| {
            !asked.except.has(path, revision) && !silent.contains(path)
        };
        self.found(&asked.memories, (&asked.prompt, alike), may_be).await
    }

    /// Returns what fits, of what may be shown.
    async fn found(
        &self,
        memories: &Memories,
        (prompt, alike): (&str, Option<Alike<'_>>),
        may_be: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Result<Vec<Selected>, StoreError> {
        let mut changed: HashSet<MemoryPath> = HashSet::new();
        loop {
            let may_be = |path: &MemoryPath, revision: &Revision| {
                !changed.contains(path) && may_be(path, revision)
            };
            let selected = {
                let held = self.read();
                let likeness = alike.as_ref().map(|alike| alike.among(&held));
                held.selected(prompt, likeness.as_ref(), may_be)
            };
            match selected {
                Ok(selected) => return Ok(selected),
                Err(texts) => changed.extend(self.read_texts(memories, &texts).await),
            }
        }
    }
}

/// A prompt's vector, and what it is compared with.
#[derive(Clone)]
struct Alike<'a> {
    meaning: &'a Meaning,
    vector: Arc<Vector>,
}

impl Alike<'_> {
    fn among(&self, held: &Held) -> Likeness {
        self.meaning.likeness(held, &self.vector)
    }
}

/// The right to change a corpus. Whoever works on it where nobody waits takes it along, so that what is begun and
/// not waited for is done before the next begins.
type Alone = OwnedMutexGuard<Place>;

/// Does what takes a processor or waits for the disk where nobody waits; `None` if it died.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let work: Box<dyn FnOnce() -> T + Send> = Box::new(work);
    let done = tokio::task::spawn_blocking(work).await;
    done.inspect_err(|error| tracing::error!(%error, "a corpus could not be worked on")).ok()
}

impl Held {
    /// Tells whether nobody told of a change since it was brought up to date, and that is not long ago.
    fn is_current(&self, changes: u64) -> bool {
        self.current.is_some_and(|(known, at)| known == changes && at.elapsed() < CORPUS_AGE_MAX)
    }

    fn has(&self, one: &Surveyed) -> bool {
        let read = self.memories.get(&one.path);
        one.stamp.is_some() && read.is_some_and(|read| read.stamp == one.stamp)
    }

    /// Tells whether a memory is shown to nobody who did not ask for it.
    fn is_unasked_silent(&self, path: &MemoryPath) -> bool {
        self.unreviewed.get(path).is_some_and(|unreviewed| unreviewed.is_silent())
    }

    /// Returns the memories whose text was not read yet.
    fn without_text(&self) -> Vec<MemoryPath> {
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

    /// Returns the memories that fit, the best first: more than are shown, since those that were make room.
    fn find(&self, prompt: &str, likeness: Option<&Likeness>) -> Vec<(Hit, &Read)> {
        let options = Options { limit: 4 * RECALLED_ITEMS_MAX, ..Options::default() };
        self.find_with(prompt, likeness, &options)
    }

    fn find_with(
        &self,
        prompt: &str,
        likeness: Option<&Likeness>,
        options: &Options,
    ) -> Vec<(Hit, &Read)> {
        let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
        let prompt = prompt.get(..end).unwrap_or(prompt);
        let hits = self.corpus.rank_with(prompt, options, likeness).into_iter();
        let mut found: Vec<(Hit, &Read)> = hits
            .filter_map(|hit| Some((self.memories.get(&hit.path)?, hit)))
            .map(|(read, hit)| (hit, read))
            .collect();
        self.break_ties(&mut found);
        found
    }

    /// Puts what fits about equally well in its order: what was written on a later day first, then what was used
    /// more.
    fn break_ties(&self, found: &mut [(Hit, &Read)]) {
        let place = |(hit, read): &(Hit, &Read)| {
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

    /// Returns what fits, of what may be shown; or the memories whose texts must be read first.
    fn selected(
        &self,
        prompt: &str,
        likeness: Option<&Likeness>,
        may_be: impl Fn(&MemoryPath, &Revision) -> bool,
    ) -> Result<Vec<Selected>, Vec<MemoryPath>> {
        let (mut chosen, mut without) = (Vec::new(), Vec::new());
        let found = self.find(prompt, likeness).into_iter();
        let may_be = found.filter(|(hit, read)| {
            self.unreviewed.get(&hit.path) != Some(&Unreviewed::Silent)
                && may_be(&hit.path, &read.revision)
        });
        for (hit, read) in may_be.take(RECALLED_ITEMS_MAX) {
            match read.text.get() {
                Some(text) => {
                    let mark = self.unreviewed.get(&hit.path).copied().and_then(mark);
                    chosen.push(selected(hit, read, text, mark));
                }
                None => without.push(hit.path),
            }
        }
        if without.is_empty() { Ok(chosen) } else { Err(without) }
    }
}

fn is_list(path: &MemoryPath, text: &str) -> bool {
    path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
        && document::is_generated_list(text)
}

#[cfg(test)]
mod tests;
