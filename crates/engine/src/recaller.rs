//! Follows memories with a corpus, and finds in it what fits a prompt.
//!
//! A corpus is made of the memories that a caller sees and is brought up to date by looking at stamps: a memory
//! is read again only if its file has another one. As long as nobody told of a change since, a prompt is
//! answered from it at once; otherwise it is brought up to date first, beside the turn.
//!
//! Where a person named an endpoint, what means about the same is found by its vectors too ([`meaning`]): those of
//! entries are asked for ahead, that of a prompt while somebody looks for what fits it.
//!
//! Corpora are kept in the state folder (`corpus_file`), without the texts: those are read when they are shown first.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory::cache::Cache;
use memory::document::Revision;
use memory::feature::Feature;
use memory::limits::EMBED_RETRY_DELAY;
use memory::path::MemoryPath;
use memory::screen::Screen;
use parking_lot::Mutex;
use recall::limits::{CORPORA_CACHED_MAX, CORPUS_BATCH, CORPUS_PERSIST_DELAY, CORPUS_TRIM_DELAY};
use state::FileLock;
use store::{CacheDir, ChangeEvent, Memories, StoreError};
use tokio::sync::Notify;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::Embeddings;
use crate::recaller::corpus::{Followed, Update};
use crate::recaller::corpus_file::Place;
use crate::recaller::meaning::{Alike, Filled, Meaning};
use crate::select::{Select, SelectError, Selected, Selecting};

mod corpus;

mod corpus_file;

mod meaning;

mod shortlist;

mod vectors;

pub(crate) use self::shortlist::{Candidate, Shortlist};

/// Finds what fits a prompt, without a model and without a network unless a person named an endpoint.
#[derive(Debug)]
pub struct Recaller {
    screen: Screen,
    /// Corpora by what they are of.
    corpora: Mutex<Cache<String, Arc<Followed>, CORPORA_CACHED_MAX>>,
    /// How often something changed, as far as anybody told.
    changes: AtomicU64,
    /// Where corpora are kept, if they are.
    files: Option<CacheDir>,
    /// Told when a corpus is another than the one that is kept.
    drifted: Notify,
    /// What an endpoint tells, if a person named one.
    meaning: Option<Arc<Meaning>>,
}

impl Recaller {
    /// Returns one that has looked at nothing yet. What the screen objects to is never found. Corpora are
    /// kept in `files`, if there is such a folder.
    pub fn new(screen: Screen, files: Option<CacheDir>) -> Self {
        let (corpora, changes) = (Mutex::default(), AtomicU64::new(0));
        Self { screen, corpora, changes, files, drifted: Notify::new(), meaning: None }
    }

    /// Returns it with vectors of this endpoint, which are kept in `files` and asked for by the process that holds the lock.
    pub(crate) fn with_embeddings(
        self,
        embeddings: Embeddings,
        files: CacheDir,
        lock: FileLock,
    ) -> Self {
        let meaning = Meaning::new(embeddings, self.screen.clone(), files, lock);
        Self { meaning: Some(Arc::new(meaning)), ..self }
    }

    /// Notes what is told of changes, and lets go of what is behind when nothing more is told for a while. Goes on
    /// until whoever runs it ends it.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>) {
        let mut may_be_behind = false;
        loop {
            let told = tokio::select! {
                biased;
                told = notices.recv() => told,
                () = tokio::time::sleep(CORPUS_TRIM_DELAY), if may_be_behind => {
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
        memory::screen::drop_compiled_patterns();
        let changes = self.changes.load(Ordering::SeqCst);
        let mut corpora = self.corpora.lock();
        corpora.retain(|followed| {
            // Somebody brings it up to date at this moment.
            followed.held.try_read().is_none_or(|held| held.is_current(changes))
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
        let ranking = followed.rank(prompt, |held| Some(alike.as_ref()?.among(held)), |_, _| true);
        Ok(followed.first(memories, &ranking).await)
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
            tokio::time::sleep(CORPUS_PERSIST_DELAY).await;
            self.keep().await;
        }
    }

    fn followed(&self) -> Vec<Arc<Followed>> {
        self.corpora.lock().values().map(Arc::clone).collect()
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

    /// Returns the corpus of what these memories are.
    fn corpus(&self, memories: &Memories) -> Arc<Followed> {
        let name: String = memories
            .mounts()
            .iter()
            .map(|mount| match &mount.key {
                Some(key) => format!("{:?} {}\n", mount.mount, key.place),
                None => String::new(),
            })
            .collect();
        let mut corpora = self.corpora.lock();
        if let Some(followed) = corpora.get(&name) {
            return Arc::clone(followed);
        }
        let place = Place::new(self.files.clone(), &name);
        let roots = memories.mounts().into_iter();
        let roots = roots.filter_map(|mount| Some((mount.mount, mount.key?.place)));
        let followed = Arc::new(Followed::new(self.screen.clone(), place, roots.collect()));
        corpora.insert(name, Arc::clone(&followed));
        followed
    }

    /// Brings a corpus up to date.
    async fn update(
        &self,
        followed: &Arc<Followed>,
        memories: &Memories,
    ) -> Result<(), StoreError> {
        let place = followed.alone().await;
        // Counted first: what changes from here on is looked at the next time.
        let (changes, looked_at) = (self.changes.load(Ordering::SeqCst), Instant::now());
        let (surveyed, taken_up) =
            tokio::join!(memories.scan_roots(), followed.take_up(place, &self.screen));
        let mut surveyed = surveyed?;
        surveyed.retain(|one| !one.exceeds_untrusted_limit);
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
        let held = followed.held.try_read()?;
        let is_current = held.is_current(self.changes.load(Ordering::SeqCst));
        if !is_current || held.trust != asked.memories.trust_version() {
            return None;
        }
        let may_be = |path: &MemoryPath, revision: &Revision| {
            !asked.except.has(path, revision) && !held.is_unasked_silent(path)
        };
        let found = held.first(&held.rank(&asked.prompt, None, may_be)).ok()?;
        // What the words tell is not kept waiting. Where they tell nothing, an endpoint may.
        let may_be_more = || self.meaning.as_ref().is_some_and(|meaning| meaning.may_tell());
        if found.is_empty() && may_be_more() { None } else { Some(found) }
    }

    async fn select(
        &self,
        asked: Selecting,
        stop: CancellationToken,
    ) -> Result<Vec<Selected>, SelectError> {
        if !asked.memories.features().has(Feature::Recall) {
            return Ok(Vec::new());
        }
        let followed = self.corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let alike = self.alike(&followed, &asked.prompt).await;
        Ok(followed.found_unasked(&asked, alike.as_ref()).await)
    }
}

#[cfg(test)]
mod tests;
