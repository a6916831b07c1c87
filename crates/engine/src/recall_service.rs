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
use crate::recall_service::corpus::{LiveCorpus, Update};
use crate::recall_service::corpus_file::CorpusSlot;
use crate::recall_service::embeddings::{EmbeddingIndex, FillOutcome, QueryVector};
use crate::retriever::{RecallQuery, RetrieveError, RetrievedMemory, Retriever};

mod corpus;

mod corpus_file;

mod embeddings;

mod shortlist;

mod vectors;

pub(crate) use self::shortlist::{Shortlist, ShortlistEntry};

/// Finds what fits a prompt, without a model and without a network unless a person named an endpoint.
#[derive(Debug)]
pub struct RecallService {
    screen: Screen,
    /// Corpora by what they are of.
    corpora: Mutex<Cache<String, Arc<LiveCorpus>, CORPORA_CACHED_MAX>>,
    /// How often something changed, as far as anybody told.
    change_count: AtomicU64,
    /// Where corpora are kept, if they are.
    files: Option<CacheDir>,
    /// Told when a corpus is another than the one that is kept.
    persist_needed: Notify,
    /// What an endpoint tells, if a person named one.
    embedding_index: Option<Arc<EmbeddingIndex>>,
}

impl RecallService {
    /// Returns one that has looked at nothing yet. What the screen objects to is never found. Corpora are
    /// kept in `files`, if there is such a folder.
    pub fn new(screen: Screen, files: Option<CacheDir>) -> Self {
        let (corpora, changes) = (Mutex::default(), AtomicU64::new(0));
        Self {
            screen,
            corpora,
            change_count: changes,
            files,
            persist_needed: Notify::new(),
            embedding_index: None,
        }
    }

    /// Returns it with vectors of this endpoint, which are kept in `files` and asked for by the process that holds the lock.
    pub(crate) fn with_embeddings(
        self,
        embeddings: Embeddings,
        files: CacheDir,
        lock: FileLock,
    ) -> Self {
        let meaning = EmbeddingIndex::new(embeddings, self.screen.clone(), files, lock);
        Self { embedding_index: Some(Arc::new(meaning)), ..self }
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
                    self.evict_outdated().await;
                    may_be_behind = false;
                    continue;
                }
            };
            match told {
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    self.change_count.fetch_add(1, Ordering::SeqCst);
                    may_be_behind = true;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Lets go of corpora that nobody has wanted since something changed. The next prompt would have to wait for
    /// such a one in any case, and has it from what is kept.
    async fn evict_outdated(&self) {
        self.persist().await;
        // Whoever changed something had it screened.
        memory::screen::drop_compiled_patterns();
        let changes = self.change_count.load(Ordering::SeqCst);
        let mut corpora = self.corpora.lock();
        corpora.retain(|followed| {
            // Somebody brings it up to date at this moment.
            followed.state.try_read().is_none_or(|held| held.is_current(changes))
        });
    }

    /// Looks at these memories, so that the next prompt is answered at once.
    pub async fn prepare(&self, memories: &Memories) -> Result<(), StoreError> {
        if !memories.features().has(Feature::Recall) {
            return Ok(());
        }
        let followed = self.live_corpus(memories);
        self.update(&followed, memories).await?;
        let texts = followed.read().paths_without_text();
        followed.read_texts(memories, &texts).await;
        self.request_embeddings();
        Ok(())
    }

    /// Returns the memories that fit a prompt, the best first, from what they are at this moment. Nothing
    /// when nothing fits. Waits for an endpoint as long as a person allows, and goes on without it.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Vec<RetrievedMemory>, StoreError> {
        memories.check_feature(Feature::Recall)?;
        let followed = self.live_corpus(memories);
        self.update(&followed, memories).await?;
        let alike = self.query_vector_waiting(&followed, memories, prompt).await?;
        let ranking =
            followed.rank(prompt, |held| Some(alike.as_ref()?.dense_scores(held)), |_, _| true);
        Ok(followed.top(memories, &ranking).await)
    }

    /// Keeps what changed since it was kept last, for the next process.
    pub async fn persist(&self) {
        let followed = self.live_corpora();
        for followed in &followed {
            followed.persist(followed.lock().await).await;
            if let Some(meaning) = &self.embedding_index {
                meaning.persist(followed).await;
            }
        }
        if let Some(meaning) = &self.embedding_index {
            meaning.retain_only(&followed);
        }
    }

    /// Asks for the vectors of entries that have none, whenever there may be some. Goes on until whoever runs it
    /// ends it.
    pub(crate) async fn embed_missing_loop(&self) {
        let Some(meaning) = &self.embedding_index else { return };
        let mut again = None;
        loop {
            match again {
                None => meaning.work_available.notified().await,
                Some(at) => tokio::select! {
                    () = meaning.work_available.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
            again = None;
            for followed in self.live_corpora() {
                if meaning.embed_missing(&followed).await == FillOutcome::Incomplete {
                    let soon = Instant::now() + EMBED_RETRY_DELAY;
                    again = Some(meaning.backoff_until().unwrap_or(soon));
                }
            }
        }
    }

    /// Keeps corpora a while after they changed. Goes on until whoever runs it ends it.
    pub(crate) async fn persist_loop(&self) {
        loop {
            self.persist_needed.notified().await;
            tokio::time::sleep(CORPUS_PERSIST_DELAY).await;
            self.persist().await;
        }
    }

    fn live_corpora(&self) -> Vec<Arc<LiveCorpus>> {
        self.corpora.lock().values().map(Arc::clone).collect()
    }

    fn request_embeddings(&self) {
        if let Some(meaning) = &self.embedding_index {
            meaning.work_available.notify_one();
        }
    }

    /// Returns a prompt's vector for somebody who waits, and has entries sent that have none: as many as are
    /// answered for meanwhile.
    async fn query_vector_waiting(
        &self,
        followed: &Arc<LiveCorpus>,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Option<QueryVector<'_>>, StoreError> {
        let Some(meaning) = &self.embedding_index else { return Ok(None) };
        meaning.load_from_disk(followed).await;
        let texts = meaning.paths_without_text(followed);
        followed.read_texts(memories, &texts).await;
        let filling = tokio::time::timeout(meaning.wait_max(), meaning.embed_missing(followed));
        let (vector, filled) = tokio::join!(meaning.embed_prompt(prompt), filling);
        if filled != Ok(FillOutcome::Complete) {
            self.request_embeddings();
        }
        Ok(vector.map(|vector| QueryVector { index: meaning, vector }))
    }

    /// Returns a prompt's vector, if there is something to compare it with.
    async fn query_vector(&self, followed: &LiveCorpus, prompt: &str) -> Option<QueryVector<'_>> {
        let meaning = self.embedding_index.as_ref()?;
        meaning.load_from_disk(followed).await;
        self.request_embeddings();
        let vector = if meaning.is_usable() { meaning.embed_prompt(prompt).await } else { None };
        Some(QueryVector { index: meaning, vector: vector? })
    }

    /// Returns the corpus of what these memories are.
    fn live_corpus(&self, memories: &Memories) -> Arc<LiveCorpus> {
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
        let place = CorpusSlot::new(self.files.clone(), &name);
        let roots = memories.mounts().into_iter();
        let roots = roots.filter_map(|mount| Some((mount.mount, mount.key?.place)));
        let followed = Arc::new(LiveCorpus::new(self.screen.clone(), place, roots.collect()));
        corpora.insert(name, Arc::clone(&followed));
        followed
    }

    /// Brings a corpus up to date.
    async fn update(
        &self,
        followed: &Arc<LiveCorpus>,
        memories: &Memories,
    ) -> Result<(), StoreError> {
        let place = followed.lock().await;
        // Counted first: what changes from here on is looked at the next time.
        let (changes, looked_at) = (self.change_count.load(Ordering::SeqCst), Instant::now());
        let (surveyed, taken_up) =
            tokio::join!(memories.scan_roots(), followed.load_from_disk(place, &self.screen));
        let mut surveyed = surveyed?;
        surveyed.retain(|one| !one.exceeds_untrusted_limit);
        let marked = surveyed.iter().filter(|one| one.uses > 0);
        let uses = marked.map(|one| (one.path.clone(), one.uses)).collect();
        let (gone, new) = followed.diff(surveyed);
        let mut update = Update { removed: gone, uses, ..Update::default() };
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
            let taken_in = followed.apply_update(update, alone).await;
            if is_last {
                followed.refresh_unreviewed(memories, current).await;
                if taken_in.is_some_and(|place| place.drift > 0) {
                    self.persist_needed.notify_one();
                }
                return Ok(());
            }
            // Whoever is ended before the end goes on from here.
            place = match taken_in {
                Some(place) => followed.persist(place).await,
                None => None,
            };
        }
    }
}

#[async_trait]
impl Retriever for RecallService {
    fn try_retrieve(&self, asked: &RecallQuery) -> Option<Vec<RetrievedMemory>> {
        if !asked.memories.features().has(Feature::Recall) {
            return Some(Vec::new());
        }
        let followed = self.live_corpus(&asked.memories);
        // Somebody takes in what is new at this moment.
        let held = followed.state.try_read()?;
        let is_current = held.is_current(self.change_count.load(Ordering::SeqCst));
        if !is_current || held.trust_version != asked.memories.trust_version() {
            return None;
        }
        let may_be = |path: &MemoryPath, revision: &Revision| {
            !asked.except.contains(path, revision) && !held.is_hidden_unrequested(path)
        };
        let found = held.try_top(&held.rank(&asked.prompt, None, may_be)).ok()?;
        // What the words tell is not kept waiting. Where they tell nothing, an endpoint may.
        let may_be_more =
            || self.embedding_index.as_ref().is_some_and(|meaning| meaning.is_usable());
        if found.is_empty() && may_be_more() { None } else { Some(found) }
    }

    async fn retrieve(
        &self,
        asked: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError> {
        if !asked.memories.features().has(Feature::Recall) {
            return Ok(Vec::new());
        }
        let followed = self.live_corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let alike = self.query_vector(&followed, &asked.prompt).await;
        Ok(followed.retrieve_unrequested(&asked, alike.as_ref()).await)
    }
}

#[cfg(test)]
mod tests;
