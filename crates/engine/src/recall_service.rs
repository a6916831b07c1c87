//! Recall: keeps a corpus of memories up to date and finds in it the memories that fit a prompt.
//!
//! A corpus covers the memories that a caller can see. An update compares file stamps and reads
//! only files with a new stamp. If no change was announced since the last update, a prompt is
//! answered from the corpus at once; otherwise an update runs first, in the background of the turn.
//!
//! If an embedding endpoint is configured, similar texts are found by their vectors too
//! ([`embeddings`]). Vectors of entries are requested ahead of time, those of a prompt when it
//! arrives.
//!
//! Corpora are cached in the state folder (`corpus_file`), without texts: a text is read when it is
//! first shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use memory::cache::Cache;
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
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::recall_service::corpus::{CorpusDiff, LiveCorpus, Ranking, Update};
use crate::recall_service::corpus_file::CorpusSlot;
use crate::recall_service::embeddings::{EmbeddingIndex, FillOutcome, QueryVector};
pub(crate) use crate::recall_service::vector_source::VectorSource;
use crate::retriever::{
    RecallOrigin, RecallQuery, ResidentEntries, RetrieveError, RetrievedMemory, Retriever,
};

mod corpus;

mod corpus_file;

mod embeddings;
#[cfg(feature = "encoder")]
pub(crate) mod local_encoder;

mod retrieved;

mod shortlist;
mod vector_source;

mod vectors;

pub(crate) use self::retrieved::merge_duplicates;
pub(crate) use self::shortlist::{Shortlist, ShortlistEntry};

/// The recall service. Uses no model, and no network unless an embedding endpoint is configured.
#[derive(Debug)]
pub struct RecallService {
    screen: Screen,
    /// Corpora by the mounts that they cover.
    corpora: Mutex<Cache<String, Arc<LiveCorpus>, CORPORA_CACHED_MAX>>,
    /// Number of change notices received.
    change_count: AtomicU64,
    /// The cache folder of corpora, if they are cached.
    files: Option<CacheDir>,
    /// Notified when a corpus differs from its cached file.
    persist_needed: Notify,
    /// The vectors of an embedding endpoint or the encoder, if there is one.
    embedding_index: Option<Arc<EmbeddingIndex>>,
}

impl RecallService {
    /// Returns a service without any corpus yet. Texts that `screen` objects to are never found.
    /// Corpora are cached in `files`, if given.
    pub fn new(screen: Screen, files: Option<CacheDir>) -> Self {
        let (corpora, change_count) = (Mutex::default(), AtomicU64::new(0));
        Self {
            screen,
            corpora,
            change_count,
            files,
            persist_needed: Notify::new(),
            embedding_index: None,
        }
    }

    /// Adds the vectors of a source. They are cached in `files` and computed by the process that holds
    /// `lock`.
    pub(crate) fn with_vectors(
        self,
        source: VectorSource,
        files: CacheDir,
        lock: FileLock,
    ) -> Self {
        let index = EmbeddingIndex::new(source, self.screen.clone(), files, lock);
        Self { embedding_index: Some(Arc::new(index)), ..self }
    }

    /// Counts change notices, and evicts outdated corpora after a quiet period. Runs until
    /// `notices` closes.
    pub async fn follow(&self, mut notices: Receiver<ChangeEvent>) {
        let mut may_be_outdated = false;
        loop {
            let notice = tokio::select! {
                biased;
                notice = notices.recv() => notice,
                () = tokio::time::sleep(CORPUS_TRIM_DELAY), if may_be_outdated => {
                    self.evict_outdated().await;
                    may_be_outdated = false;
                    continue;
                }
            };
            match notice {
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    self.change_count.fetch_add(1, Ordering::SeqCst);
                    may_be_outdated = true;
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Evicts corpora that no prompt has used since the last change. The next prompt would have to
    /// wait for an update anyway, and loads them from their files.
    async fn evict_outdated(&self) {
        self.persist().await;
        // Screening of the changed texts may have compiled patterns that are no longer needed.
        memory::screen::drop_compiled_patterns();
        let change_count = self.change_count.load(Ordering::SeqCst);
        let mut corpora = self.corpora.lock();
        corpora.retain(|corpus| {
            // A locked corpus is being updated, so it stays.
            corpus.state.try_read().is_none_or(|state| state.is_current(change_count))
        });
    }

    /// Builds or updates the corpus of these memories, so that the next prompt is answered at once.
    pub async fn prepare(&self, memories: &Memories) -> Result<(), StoreError> {
        if !memories.features().has(Feature::Recall) {
            return Ok(());
        }
        let corpus = self.live_corpus(memories);
        self.update(&corpus, memories).await?;
        let texts = corpus.read().paths_without_text();
        corpus.read_texts(memories, &texts).await;
        corpus.look_up_last_writes(memories, None).await;
        self.request_embeddings();
        Ok(())
    }

    /// Returns the memories that fit an explicit question, best first, from their current texts.
    /// They include memories that fit only weakly, marked as such; empty if none has any relation to
    /// the question. Waits for vectors up to the time of their source, then continues without them.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Vec<RetrievedMemory>, StoreError> {
        self.recall_under(memories, prompt, None).await
    }

    /// Like [`recall`](Self::recall), with `under` only among the memories of this folder. Other
    /// memories take no place in the result.
    pub async fn recall_under(
        &self,
        memories: &Memories,
        prompt: &str,
        under: Option<&MemoryPath>,
    ) -> Result<Vec<RetrievedMemory>, StoreError> {
        let (corpus, ranking) =
            self.rank_current(memories, prompt, RecallOrigin::Requested, under).await?;
        Ok(corpus.top(memories, &ranking, &ResidentEntries::default()).await)
    }

    /// Returns the memories that clearly fit a prompt, best first, for a caller that waits. Entries in
    /// `resident` are left out.
    pub(crate) async fn recall_unrequested(
        &self,
        memories: &Memories,
        prompt: &str,
        resident: &ResidentEntries,
    ) -> Result<Vec<RetrievedMemory>, StoreError> {
        let (corpus, ranking) =
            self.rank_current(memories, prompt, RecallOrigin::Unrequested, None).await?;
        Ok(corpus.top(memories, &ranking, resident).await)
    }

    /// Ranks the memories that fit a prompt in an up-to-date corpus, for a caller that waits.
    async fn rank_current(
        &self,
        memories: &Memories,
        prompt: &str,
        origin: RecallOrigin,
        under: Option<&MemoryPath>,
    ) -> Result<(Arc<LiveCorpus>, Ranking), StoreError> {
        memories.check_feature(Feature::Recall)?;
        let corpus = self.live_corpus(memories);
        self.update(&corpus, memories).await?;
        // Boxed so that the futures of its callers stay small.
        let query_vector = Box::pin(self.query_vector_waiting(&corpus, memories, prompt)).await?;
        let dense_scores = |state: &_| query_vector.as_ref()?.dense_scores(state);
        let ranking = corpus.rank(prompt, dense_scores, origin, under);
        Ok((corpus, ranking))
    }

    /// Writes changed corpora and vectors to their files, for the next process.
    pub async fn persist(&self) {
        let corpora = self.live_corpora();
        for corpus in &corpora {
            corpus.persist(corpus.lock().await).await;
            if let Some(index) = &self.embedding_index {
                index.persist(corpus).await;
            }
        }
        if let Some(index) = &self.embedding_index {
            index.retain_only(&corpora);
        }
    }

    /// Computes missing vectors of entries whenever there may be some. Never ends by itself.
    pub(crate) async fn embed_missing_loop(&self) {
        let Some(index) = &self.embedding_index else { return };
        let mut retry_at = None;
        loop {
            match retry_at {
                None => index.work_available.notified().await,
                Some(at) => tokio::select! {
                    () = index.work_available.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
            retry_at = None;
            for corpus in self.live_corpora() {
                if Self::embed_all(index, &corpus).await == FillOutcome::Incomplete {
                    let default_retry = Instant::now() + EMBED_RETRY_DELAY;
                    retry_at = Some(index.backoff_until().unwrap_or(default_retry));
                }
            }
        }
    }

    /// Checks whether vectors come from an embedding endpoint.
    pub(crate) fn uses_endpoint(&self) -> bool {
        self.embedding_index.as_ref().is_some_and(|index| !index.source().is_local())
    }

    /// Computes the vectors that the encoder of this process is missing, and writes them to their files, whenever a
    /// recall needed some. Never ends by itself.
    pub async fn embed_in_background(&self) {
        if self.embedding_index.as_ref().is_some_and(|index| index.source().is_local()) {
            tokio::join!(self.embed_missing_loop(), self.persist_loop());
        }
        std::future::pending::<()>().await;
    }

    /// Writes corpora to their files some time after they changed. Never ends by itself.
    pub(crate) async fn persist_loop(&self) {
        loop {
            self.persist_needed.notified().await;
            tokio::time::sleep(CORPUS_PERSIST_DELAY).await;
            self.persist().await;
        }
    }

    /// Computes all missing vectors of a corpus, reading the texts that were not read yet.
    async fn embed_all(index: &Arc<EmbeddingIndex>, corpus: &Arc<LiveCorpus>) -> FillOutcome {
        index.load_from_disk(corpus).await;
        let reader = corpus.reader.lock().clone();
        if let Some(memories) = reader {
            let paths = index.paths_without_text(corpus);
            for batch in paths.chunks(CORPUS_BATCH) {
                corpus.read_texts(&memories, batch).await;
            }
        }
        index.embed_missing(corpus, None).await
    }

    fn live_corpora(&self) -> Vec<Arc<LiveCorpus>> {
        self.corpora.lock().values().map(Arc::clone).collect()
    }

    fn request_embeddings(&self) {
        if let Some(index) = &self.embedding_index {
            index.work_available.notify_one();
        }
    }

    /// Returns a prompt's vector for a caller that waits. Computes missing vectors of entries
    /// meanwhile, as many as the source gives in time.
    async fn query_vector_waiting(
        &self,
        corpus: &Arc<LiveCorpus>,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Option<QueryVector<'_>>, StoreError> {
        let Some(index) = &self.embedding_index else { return Ok(None) };
        index.load_from_disk(corpus).await;
        if corpus.has_all_vectors() {
            let vector = index.embed_prompt(prompt).await;
            return Ok(vector.map(|vector| QueryVector { index, vector }));
        }
        let mut texts = index.paths_without_text(corpus);
        let awaited_max = index.source().awaited_memories_max();
        if texts.len() > awaited_max {
            // The same ones each time.
            texts.sort_unstable();
            texts.truncate(awaited_max);
        }
        corpus.read_texts(memories, &texts).await;
        index.prepare_source().await;
        let wait = index.source().wait_max();
        let filling = index.embed_missing(corpus, Some(Instant::now() + wait));
        let filling = async {
            // The encoder's work is bounded, and what it began is not lost. An endpoint may not answer.
            let timeout = if index.source().is_local() { Duration::MAX } else { wait };
            tokio::time::timeout(timeout, filling).await
        };
        let (vector, _) = tokio::join!(index.embed_prompt(prompt), filling);
        self.persist_needed.notify_one();
        // The background computes those that are left, and those of texts that were not read.
        self.request_embeddings();
        Ok(vector.map(|vector| QueryVector { index, vector }))
    }

    /// Returns a prompt's vector, if there are vectors to compare it with.
    async fn query_vector(&self, corpus: &LiveCorpus, prompt: &str) -> Option<QueryVector<'_>> {
        let index = self.embedding_index.as_ref()?;
        index.load_from_disk(corpus).await;
        self.request_embeddings();
        let vector = if index.is_usable() { index.embed_prompt(prompt).await } else { None };
        Some(QueryVector { index, vector: vector? })
    }

    /// Returns the corpus for the mounts of these memories.
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
        if let Some(corpus) = corpora.get(&name) {
            return Arc::clone(corpus);
        }
        let slot = CorpusSlot::new(self.files.clone(), &name);
        let roots = memories.mounts().into_iter();
        let roots = roots.filter_map(|mount| Some((mount.mount, mount.key?.place)));
        let corpus = Arc::new(LiveCorpus::new(self.screen.clone(), slot, roots.collect()));
        corpora.insert(name, Arc::clone(&corpus));
        corpus
    }

    /// Updates a corpus to the current files.
    async fn update(
        &self,
        corpus: &Arc<LiveCorpus>,
        memories: &Memories,
    ) -> Result<(), StoreError> {
        // Read first, so that a change during the scan causes another update.
        let change_count = self.change_count.load(Ordering::SeqCst);
        // The first list of a process is a walk, and so is the list that a version needs then. A command
        // that recalls once walks only for its update.
        let version = if corpus.was_updated() { memories.version().await } else { None };
        let uses_noted = memories.uses_noted();
        if corpus.is_of_version(version.as_ref(), change_count) {
            if corpus.read().uses_noted != uses_noted {
                corpus.set_uses(memories.use_counts().await, uses_noted);
            }
            return Ok(());
        }
        *corpus.reader.lock() = Some(memories.clone());
        let guard = corpus.lock().await;
        // Another caller may have updated it meanwhile.
        if corpus.is_of_version(version.as_ref(), change_count) {
            return Ok(());
        }
        let loaded = corpus.load_from_disk(guard, &self.screen);
        let (found, loaded) = tokio::join!(corpus.look_for_changes(memories), loaded);
        let CorpusDiff { removed, new, uses, scanned_at } = corpus.diff(found?);
        let uses = match uses {
            None if corpus.read().uses_noted != uses_noted => Some(memories.use_counts().await),
            uses => uses,
        };
        let mut update = Update { removed, uses, uses_noted, ..Update::default() };
        let mut batches = new.chunks(CORPUS_BATCH).peekable();
        let mut guard = loaded;
        loop {
            let batch = batches.next().unwrap_or_default();
            corpus.read_memories(memories, batch, &mut update).await;
            let is_last = batches.peek().is_none();
            let current = is_last.then_some((change_count, scanned_at));
            let Some(held_guard) = guard else { return Ok(()) };
            let next = Update { uses_noted, ..Update::default() };
            let update = std::mem::replace(&mut update, next);
            // Review status is refreshed before the corpus counts as current. If the update is
            // cancelled in between, the next one repeats it.
            let applied = corpus.apply_update(update, held_guard).await;
            if is_last {
                corpus.refresh_unreviewed(memories, current, version).await;
                if applied.is_some_and(|guard| guard.drift > 0) {
                    self.persist_needed.notify_one();
                }
                return Ok(());
            }
            // If the process ends here, the next one continues from this batch.
            guard = match applied {
                Some(guard) => corpus.persist(guard).await,
                None => None,
            };
        }
    }
}

#[async_trait]
impl Retriever for RecallService {
    fn try_retrieve(&self, query: &RecallQuery) -> Option<Vec<RetrievedMemory>> {
        if !query.memories.features().has(Feature::Recall) {
            return Some(Vec::new());
        }
        let corpus = self.live_corpus(&query.memories);
        // If the lock is taken, an update is running, and the caller has to wait for it.
        let current_state = || {
            let state = corpus.state.try_read()?;
            let is_current = state.is_current(self.change_count.load(Ordering::SeqCst))
                && state.trust_version == query.memories.trust_version();
            is_current.then_some(state)
        };
        drop(current_state()?);
        let index = self.embedding_index.as_ref().filter(|index| index.is_usable());
        let mut vector = None;
        if let Some(index) = index.filter(|index| index.source().is_local()) {
            // The vectors of the encoder change the ranking. If it is not loaded yet, the prefetch loads
            // it.
            if !index.source().is_loaded() {
                return None;
            }
            // The corpus is not locked meanwhile. Words that the encoder does not know may still match.
            let embedded = index.try_embed_prompt(&query.prompt);
            vector = embedded.map(|vector| QueryVector { index, vector });
        }
        let state = current_state()?;
        let dense_scores = vector.as_ref().and_then(|vector| vector.dense_scores(&state));
        let (dense_scores, origin) = (dense_scores.as_ref(), RecallOrigin::Unrequested);
        let ranking = state.rank(&query.prompt, dense_scores, origin, None);
        // Word matches are returned without waiting for an endpoint. Without any, its vectors may
        // still find a memory.
        if ranking.is_empty() && index.is_some_and(|index| !index.source().is_local()) {
            return None;
        }
        state.try_top(&ranking, &query.except).ok()
    }

    async fn retrieve(
        &self,
        query: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError> {
        if !query.memories.features().has(Feature::Recall) {
            return Ok(Vec::new());
        }
        let corpus = self.live_corpus(&query.memories);
        self.update(&corpus, &query.memories).await?;
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let query_vector = self.query_vector(&corpus, &query.prompt).await;
        Ok(corpus.retrieve_unrequested(&query, query_vector.as_ref()).await)
    }
}

#[cfg(test)]
mod tests;
