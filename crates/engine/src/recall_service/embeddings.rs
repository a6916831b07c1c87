//! Vectors from an endpoint: of entries ahead of time, of a prompt when it is asked.
//!
//! Entries are sent where nobody waits for them, each once, by one process at a time, and only what the
//! corpus holds of them. A prompt is sent while somebody looks for what fits it. Whatever goes wrong, recall
//! goes on by words; the endpoint is then left alone for a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::cache::Cache;
use memory::document::Revision;
use memory::limits::{
    EMBED_BATCH_FIRST, EMBED_BATCH_WAIT, EMBED_CHARS_MAX, EMBED_REFUSALS_MAX, PROMPT_VECTORS_KEPT,
    VECTORS_FILE_BYTES_MAX,
};
use memory::path::MemoryPath;
use memory::screen::{Family, Screen, TextAuthor};
use model::EmbedError;
use parking_lot::{Mutex, RwLock};
use recall::{DenseScores, Vector, passages};
use state::{FileLock, LockMode};
use store::CacheDir;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::corpus::{CorpusState, LiveCorpus, RootTexts, run_blocking};
use super::corpus_file::DIGEST_CHARS;
use super::vectors::{Digest, DimensionMismatch, Vectors};

use crate::backoff::Backoff;
use crate::config::Embeddings;
use crate::runner::error_chain;

/// Bytes of a file beside what memories take.
const FILE_OVERHEAD_BYTES: usize = 1_024;

/// What an endpoint said, and how it is.
#[derive(Debug)]
pub(super) struct EmbeddingIndex {
    embeddings: Embeddings,
    screen: Screen,
    /// By whom and how vectors were made.
    fingerprint: Revision,
    files: CacheDir,
    /// Held by the process that asks for vectors of entries.
    lock: FileLock,
    vectors: RwLock<Vectors>,
    /// What of each root is in its file.
    persisted_states: Mutex<HashMap<String, Revision>>,
    backoff: Mutex<Backoff>,
    prompt_vectors: Mutex<Cache<Digest, Arc<Vector>, PROMPT_VECTORS_KEPT>>,
    /// Held by whoever asks for vectors of entries: those that the endpoint does not take.
    rejected: tokio::sync::Mutex<HashSet<Digest>>,
    /// Told when there may be entries without a vector.
    pub(super) work_available: Notify,
}

/// What came of asking for vectors of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillOutcome {
    /// There is nothing more to ask for.
    Complete,
    /// Somebody else is at it, or the endpoint fails: there is more, later.
    Incomplete,
}

/// Why a vector is none.
#[derive(Debug, thiserror::Error)]
enum EmbeddingError {
    #[error(transparent)]
    Endpoint(#[from] EmbedError),
    #[error(transparent)]
    DimensionMismatch(#[from] DimensionMismatch),
}

/// A prompt's vector, and what it is compared with.
#[derive(Clone)]
pub(super) struct QueryVector<'a> {
    pub(super) index: &'a EmbeddingIndex,
    pub(super) vector: Arc<Vector>,
}

impl QueryVector<'_> {
    pub(super) fn dense_scores(&self, held: &CorpusState) -> DenseScores {
        self.index.dense_scores(held, &self.vector)
    }
}

impl EmbeddingIndex {
    /// Returns one that knows nothing yet. Nothing that the screen objects to is ever sent.
    pub(super) fn new(
        embeddings: Embeddings,
        screen: Screen,
        files: CacheDir,
        lock: FileLock,
    ) -> Self {
        let rules = screen.fingerprint();
        let name = embeddings.endpoint.name();
        let version = env!("CARGO_PKG_VERSION");
        let told = format!("{version}\n{rules}\n{EMBED_CHARS_MAX}\n{name}");
        Self {
            fingerprint: Revision::digest(told.as_bytes()),
            embeddings,
            screen,
            files,
            lock,
            vectors: RwLock::default(),
            persisted_states: Mutex::default(),
            backoff: Mutex::default(),
            prompt_vectors: Mutex::default(),
            rejected: tokio::sync::Mutex::default(),
            work_available: Notify::new(),
        }
    }

    /// How long somebody who waits for an answer does so for vectors.
    pub(super) const fn wait_max(&self) -> Duration {
        self.embeddings.wait
    }

    /// Tells whether a prompt's vector may find more than its words do.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_backing_off() && !self.vectors.read().is_empty()
    }

    /// Compares a prompt with what a corpus holds.
    pub(super) fn dense_scores(&self, held: &CorpusState, prompt: &Vector) -> DenseScores {
        let vectors = self.vectors.read();
        let of = |path: &MemoryPath| held.memories.get(path).map(|read| read.revision);
        held.corpus.dense_scores(prompt, |path| {
            of(path).map_or_else(Vec::new, |revision| vectors.of_memory(&revision))
        })
    }

    /// Returns the vector of a prompt, if the endpoint gives one in time. A prompt with a secret is not sent.
    pub(super) async fn embed_prompt(&self, prompt: &str) -> Option<Arc<Vector>> {
        let sent: String = prompt.trim().chars().take(EMBED_CHARS_MAX).collect();
        let digest = Digest::of(&sent);
        if let Some(known) = self.prompt_vectors.lock().get(&digest) {
            return Some(Arc::clone(known));
        }
        if sent.is_empty() || self.is_backing_off() || self.has_secret(prompt) {
            return None;
        }
        match self.embed(&[&sent], self.embeddings.wait).await {
            Ok(vectors) => {
                let vector = Arc::new(vectors.into_iter().next()?);
                self.prompt_vectors.lock().insert(digest, Arc::clone(&vector));
                Some(vector)
            }
            Err(trouble) => {
                self.record_failure(&trouble);
                None
            }
        }
    }

    /// Takes up what is kept of a corpus's roots, the first time.
    pub(super) async fn load_from_disk(self: &Arc<Self>, followed: &LiveCorpus) {
        let read = async || {
            let (meaning, roots) = (Arc::clone(self), followed.roots.clone());
            run_blocking(move || {
                for (_, place) in &roots {
                    drop(meaning.load_root(place));
                }
            })
            .await;
        };
        followed.vectors_loaded.get_or_init(read).await;
    }

    /// Returns the memories with entries that have no vector and whose text was not read yet.
    pub(super) fn paths_without_text(&self, followed: &LiveCorpus) -> Vec<MemoryPath> {
        let (held, vectors) = (followed.read(), self.vectors.read());
        let lacking = held
            .memories
            .iter()
            .filter(|(_, read)| read.text.get().is_none() && !vectors.is_complete(&read.revision));
        lacking.map(|(path, _)| path.clone()).collect()
    }

    /// Asks for the vectors of entries that have none, batch by batch, and keeps them.
    pub(super) async fn embed_missing(self: &Arc<Self>, followed: &Arc<LiveCorpus>) -> FillOutcome {
        let Ok(mut refused) = self.rejected.try_lock() else { return FillOutcome::Incomplete };
        let seen = followed.generation.load(Ordering::SeqCst);
        if followed.embedded_generation.load(Ordering::SeqCst) == seen {
            return FillOutcome::Complete;
        }
        // All memories are looked at, which is for nothing where nobody can be asked.
        if self.is_backing_off() {
            return FillOutcome::Incomplete;
        }
        self.load_from_disk(followed).await;
        let mut guard = None;
        let filled = loop {
            let lacking = self.missing_entries(followed, &refused).await;
            if lacking.is_empty() {
                followed.embedded_generation.store(seen, Ordering::SeqCst);
                break FillOutcome::Complete;
            }
            if guard.is_none() {
                guard = self.lock.try_acquire(LockMode::Exclusive).unwrap_or_else(|error| {
                    // Where nothing can be kept, words alone do, and nothing is said each time.
                    tracing::debug!(
                        error = error_chain(&error),
                        "no entries are sent to the endpoint"
                    );
                    None
                });
            }
            if guard.is_none()
                || self.embed_batches(lacking, &mut refused).await == FillOutcome::Incomplete
            {
                break FillOutcome::Incomplete;
            }
        };
        self.persist(followed).await;
        filled
    }

    /// Keeps what is known of a corpus's memories, where that changed.
    pub(super) async fn persist(self: &Arc<Self>, followed: &LiveCorpus) {
        // Before that nobody knows what is in the files.
        if !followed.vectors_loaded.initialized() {
            return;
        }
        let (meaning, roots) = (Arc::clone(self), followed.texts_by_root());
        run_blocking(move || {
            for (place, entries) in &roots {
                meaning.persist_root(place, entries);
            }
        })
        .await;
    }

    /// Forgets what no memory of these corpora says.
    pub(super) fn retain_only(&self, corpora: &[Arc<LiveCorpus>]) {
        let mut memories = HashSet::new();
        for followed in corpora {
            memories.extend(followed.read().memories.values().map(|read| read.revision));
        }
        self.vectors.write().retain(&memories);
    }

    /// Returns when the endpoint may be asked again, if it is left alone.
    pub(super) fn backoff_until(&self) -> Option<Instant> {
        self.backoff.lock().blocked_until()
    }

    /// Asks for entries, a few at first: an endpoint that is slow answers them in time.
    async fn embed_batches(
        &self,
        mut lacking: Vec<(Digest, String)>,
        refused: &mut HashSet<Digest>,
    ) -> FillOutcome {
        let most = self.embeddings.batch.max(1);
        let (mut size, mut refusals) = (EMBED_BATCH_FIRST.min(most), 0);
        while !lacking.is_empty() {
            let count = size.min(lacking.len());
            let texts: Vec<&str> = lacking[..count].iter().map(|(_, text)| text.as_str()).collect();
            match self.embed(&texts, EMBED_BATCH_WAIT).await {
                Ok(found) => {
                    let mut vectors = self.vectors.write();
                    for ((digest, _), vector) in lacking.drain(..count).zip(found) {
                        if let Err(trouble) = vectors.insert(digest, vector) {
                            drop(vectors);
                            self.record_failure(&trouble.into());
                            return FillOutcome::Incomplete;
                        }
                    }
                    (size, refusals) = ((size * 2).min(most), 0);
                }
                // One of them may be too much by itself, or all together.
                Err(EmbeddingError::Endpoint(error)) if error.may_be_text_fault() && count > 1 => {
                    size = count / 2;
                }
                Err(EmbeddingError::Endpoint(error))
                    if error.may_be_text_fault() && refusals < EMBED_REFUSALS_MAX =>
                {
                    tracing::info!(%error, "an entry has no vector");
                    refused.extend(lacking.drain(..count).map(|(digest, _)| digest));
                    refusals += 1;
                }
                Err(trouble) => {
                    self.record_failure(&trouble);
                    return FillOutcome::Incomplete;
                }
            }
        }
        FillOutcome::Complete
    }

    async fn embed(
        &self,
        texts: &[&str],
        deadline: Duration,
    ) -> Result<Vec<Vector>, EmbeddingError> {
        const NONE: EmbedError = EmbedError::InvalidResponse("vectors without direction");
        let found = self.embeddings.endpoint.embed(texts, deadline).await?;
        let vectors: Option<Vec<Vector>> =
            found.iter().map(|found| Vector::from_numbers(found)).collect();
        let vectors = vectors.ok_or(NONE)?;
        vectors.iter().try_for_each(|vector| self.vectors.read().check(vector))?;
        self.backoff.lock().record_success();
        Ok(vectors)
    }

    /// Returns what is to be asked for, and notes what the entries of memories say. No more than can be kept.
    async fn missing_entries(
        self: &Arc<Self>,
        followed: &LiveCorpus,
        refused: &HashSet<Digest>,
    ) -> Vec<(Digest, String)> {
        let (meaning, roots) = (Arc::clone(self), followed.texts_by_root());
        let found = run_blocking(move || {
            let mut lacking = Vec::new();
            for (_, of_root) in &roots {
                meaning.collect_missing(of_root, &mut lacking);
            }
            lacking
        });
        let (mut found, mut seen) = (found.await.unwrap_or_default(), HashSet::new());
        found.retain(|(digest, _)| !refused.contains(digest) && seen.insert(*digest));
        found
    }

    fn collect_missing(&self, of_root: &RootTexts, lacking: &mut Vec<(Digest, String)>) {
        let mut bytes = FILE_OVERHEAD_BYTES;
        for (revision, text) in of_root {
            let texts = match text {
                Some(text) if !self.vectors.read().is_complete(revision) => {
                    passages(text, &self.screen, EMBED_CHARS_MAX)
                }
                _ => Vec::new(),
            };
            let digests: Arc<[Digest]> = texts.iter().map(|text| Digest::of(text)).collect();
            let mut vectors = self.vectors.write();
            if !digests.is_empty() {
                vectors.set_entries(*revision, Arc::clone(&digests));
            }
            let entries = vectors.entry_digests(revision).map_or(0, |listed| listed.len());
            bytes += vectors.bytes_of(entries);
            if bytes > VECTORS_FILE_BYTES_MAX {
                return;
            }
            let new = digests.iter().copied().zip(texts);
            lacking.extend(new.filter(|(digest, text)| !text.is_empty() && !vectors.has(digest)));
        }
    }

    /// Takes in what is kept of a root, and returns it. What is not whole is asked for anew.
    fn load_root(&self, place: &str) -> Option<Vec<u8>> {
        let bytes = self.files.read(&self.file_name(place))?;
        self.vectors.write().merge_packed(&bytes, &self.fingerprint)?;
        Some(bytes)
    }

    fn persist_root(&self, place: &str, of_root: &RootTexts) {
        let revisions: Vec<Revision> = of_root.iter().map(|(revision, _)| *revision).collect();
        let is_kept = |state| {
            self.persisted_states
                .lock()
                .insert(place.to_owned(), state)
                .is_some_and(|kept| kept == state)
        };
        if is_kept(self.vectors.read().fingerprint_of(&revisions)) {
            return;
        }
        // Another process may have kept what is not known here.
        let before = self.load_root(place);
        let packed = {
            let vectors = self.vectors.read();
            let mut bytes = FILE_OVERHEAD_BYTES;
            let fits = |revision: &&Revision| {
                bytes += vectors.bytes_of(vectors.of_memory(revision).len());
                bytes <= VECTORS_FILE_BYTES_MAX
            };
            let fitting: Vec<Revision> = revisions.iter().take_while(fits).copied().collect();
            let is_any = vectors.has_any(&fitting) || before.is_some();
            is_any.then(|| vectors.pack(&fitting, &self.fingerprint))
        };
        let Some(packed) = packed.filter(|packed| before.as_ref() != Some(packed)) else { return };
        if let Err(error) = self.files.write(&self.file_name(place), &packed) {
            tracing::warn!(%error, "vectors cannot be kept");
        }
    }

    /// The name of a root's file: whose vectors of which root they are.
    fn file_name(&self, place: &str) -> String {
        let told = format!("{place}\n{}", self.embeddings.endpoint.name());
        Revision::digest(told.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect()
    }

    fn has_secret(&self, prompt: &str) -> bool {
        let findings = self.screen.check(prompt, TextAuthor::Agent);
        findings.iter().any(|finding| finding.family == Family::Secrets)
    }

    /// Notes that the endpoint is of no use, and says so, once until it is asked again.
    fn record_failure(&self, trouble: &EmbeddingError) {
        let Some(delay) = self.backoff.lock().record_failure() else { return };
        tracing::warn!(error = error_chain(trouble), "recall goes by words alone for {delay:?}");
    }

    fn is_backing_off(&self) -> bool {
        self.backoff_until().is_some()
    }
}
