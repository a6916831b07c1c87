//! Vectors of entries and prompts, from an embedding endpoint or the encoder of this process.
//!
//! Entries are embedded in the background, each once, by one process at a time, and only the parts
//! that the corpus contains. A prompt is embedded when it arrives. After any error, recall continues
//! with words alone, and the source is not used for a while.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory::cache::Cache;
use memory::document::Revision;
use memory::limits::{
    EMBED_BATCH_FIRST, EMBED_CHARS_MAX, EMBED_REFUSALS_MAX, PROMPT_VECTORS_KEPT,
    VECTORS_FILE_BYTES_MAX,
};
use memory::path::MemoryPath;
use memory::screen::{Family, Screen, TextAuthor};
use parking_lot::{Mutex, RwLock};
use recall::{DenseScores, EntryVectors, Vector, passages};
use state::{FileLock, FileLockGuard, LockMode};
use store::CacheDir;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::corpus::{CollectedVectors, CorpusState, LiveCorpus, RootTexts, run_blocking};
use super::corpus_file::DIGEST_CHARS;
use super::vector_source::{VectorError, VectorSource, prompt_prefix};
use super::vectors::{Digest, Vectors};

use crate::backoff::Backoff;
use crate::runner::error_chain;

/// Size in bytes of a file beside the data of memories.
const FILE_OVERHEAD_BYTES: usize = 1_024;

/// Number of missing vectors from which they are written to their files as soon as they are computed,
/// and the time after which that is repeated.
const EMBED_PERSIST_MIN: usize = 64;
const EMBED_PERSIST_EVERY: Duration = Duration::from_secs(10);
/// Share of the entries that need a vector before the encoder's similarities count. The vectors of a few
/// entries would favor them.
const ENCODER_COVERAGE_MIN: f32 = 0.8;

/// The vectors of a source, and its backoff.
#[derive(Debug)]
pub(super) struct EmbeddingIndex {
    source: VectorSource,
    screen: Screen,
    /// Digest of the model, the version and the rules that the vectors were made with.
    fingerprint: Revision,
    files: CacheDir,
    /// Held by the process that requests vectors of entries.
    lock: FileLock,
    vectors: RwLock<Vectors>,
    /// Fingerprint of each root's vectors as written to its file.
    persisted_states: Mutex<HashMap<String, Revision>>,
    backoff: Mutex<Backoff>,
    prompt_vectors: Mutex<Cache<Digest, Arc<Vector>, PROMPT_VECTORS_KEPT>>,
    /// Entries that the source refused. Locked while vectors of entries are requested.
    rejected: tokio::sync::Mutex<HashSet<Digest>>,
    /// Notified when there may be entries without a vector.
    pub(super) work_available: Notify,
}

/// The result of requesting missing vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FillOutcome {
    /// No vector is missing.
    Complete,
    /// Another task or process is requesting them, or the source fails. Try again later.
    Incomplete,
}

/// A prompt's vector, with the index that it is compared with.
#[derive(Clone)]
pub(super) struct QueryVector<'a> {
    pub(super) index: &'a EmbeddingIndex,
    pub(super) vector: Arc<Vector>,
}

impl QueryVector<'_> {
    pub(super) fn dense_scores(&self, state: &CorpusState) -> Option<DenseScores> {
        self.index.dense_scores(state, &self.vector)
    }
}

impl EmbeddingIndex {
    /// Returns an index without vectors. Texts that the screen objects to are never embedded.
    pub(super) fn new(
        source: VectorSource,
        screen: Screen,
        files: CacheDir,
        lock: FileLock,
    ) -> Self {
        let rules = screen.fingerprint();
        let name = source.name();
        let version = env!("CARGO_PKG_VERSION");
        let identity = format!("{version}\n{rules}\n{EMBED_CHARS_MAX}\n{name}");
        Self {
            fingerprint: Revision::digest(identity.as_bytes()),
            source,
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

    /// Returns the source of the vectors.
    pub(super) const fn source(&self) -> &VectorSource {
        &self.source
    }

    /// Checks whether a prompt's vector may find more than its words do.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_backing_off() && !self.vectors.read().is_empty()
    }

    /// Prepares the source for the vectors that a caller is about to wait for.
    pub(super) async fn prepare_source(&self) {
        if self.is_backing_off() {
            return;
        }
        if let Err(error) = self.source.prepare().await {
            self.record_failure(&error);
        }
    }

    /// Compares a prompt with the entries of a corpus.
    ///
    /// Returns `None` while too few entries have a vector of the encoder.
    pub(super) fn dense_scores(&self, state: &CorpusState, prompt: &Vector) -> Option<DenseScores> {
        let vectors = self.entry_vectors(state);
        let is_covered = !self.source.is_local() || vectors.coverage() >= ENCODER_COVERAGE_MIN;
        is_covered.then(|| state.corpus.dense_scores(prompt, &vectors, self.source.scale()))
    }

    /// Returns the vectors of a corpus's entries. They are cached, because collecting them takes several times as long as
    /// comparing them.
    fn entry_vectors(&self, state: &CorpusState) -> Arc<EntryVectors> {
        let vectors = self.vectors.read();
        let change_counts = (state.corpus.change_count(), vectors.change_count());
        let mut cached = state.entry_vectors.lock();
        if let Some(cached) = &*cached
            && cached.change_counts == change_counts
        {
            return Arc::clone(&cached.vectors);
        }
        let of = |path: &MemoryPath| state.memories.get(path).map(|read| read.revision);
        let collected = Arc::new(state.corpus.entry_vectors(|path| {
            of(path).map_or_else(Vec::new, |revision| vectors.of_memory(&revision))
        }));
        *cached = Some(CollectedVectors { change_counts, vectors: Arc::clone(&collected) });
        collected
    }

    /// Returns the vector of a prompt, if the source gives one in time. A prompt with a secret is not
    /// sent to an endpoint.
    pub(super) async fn embed_prompt(&self, prompt: &str) -> Option<Arc<Vector>> {
        let text = prompt_prefix(prompt);
        let digest = Digest::of(&text);
        if let Some(cached) = self.prompt_vectors.lock().get(&digest) {
            return Some(Arc::clone(cached));
        }
        let may_be_used = || self.source.is_local() || !self.has_secret(prompt);
        if text.is_empty() || self.is_backing_off() || !may_be_used() {
            return None;
        }
        let embedded = self.source.embed_prompt(&text).await;
        match embedded.and_then(|vector| vector.map(|vector| self.check(vector)).transpose()) {
            Ok(None) => None,
            Ok(Some(vector)) => {
                let vector = Arc::new(vector);
                self.prompt_vectors.lock().insert(digest, Arc::clone(&vector));
                Some(vector)
            }
            Err(error) => {
                self.record_failure(&error);
                None
            }
        }
    }

    /// Returns the vector of a prompt if the source has it without a wait.
    pub(super) fn try_embed_prompt(&self, prompt: &str) -> Option<Arc<Vector>> {
        let text = prompt_prefix(prompt);
        let digest = Digest::of(&text);
        if let Some(cached) = self.prompt_vectors.lock().get(&digest) {
            return Some(Arc::clone(cached));
        }
        if text.is_empty() {
            return None;
        }
        let vector = Arc::new(self.source.try_embed_prompt(&text)?);
        self.prompt_vectors.lock().insert(digest, Arc::clone(&vector));
        Some(vector)
    }

    /// Loads the cached vectors of a corpus's roots, on the first call.
    pub(super) async fn load_from_disk(self: &Arc<Self>, corpus: &LiveCorpus) {
        corpus.vectors_loaded.get_or_init(async || self.reload(corpus).await).await;
    }

    /// Loads the cached vectors of a corpus's roots.
    async fn reload(self: &Arc<Self>, corpus: &LiveCorpus) {
        let (index, roots) = (Arc::clone(self), corpus.roots.clone());
        run_blocking(move || {
            for (_, root) in &roots {
                drop(index.load_root(root));
            }
        })
        .await;
    }

    /// Returns the memories with missing vectors whose text was not read yet.
    pub(super) fn paths_without_text(&self, corpus: &LiveCorpus) -> Vec<MemoryPath> {
        let (state, vectors) = (corpus.read(), self.vectors.read());
        let missing = state
            .memories
            .iter()
            .filter(|(_, read)| read.text.get().is_none() && !vectors.is_complete(&read.revision));
        missing.map(|(path, _)| path.clone()).collect()
    }

    /// Computes missing vectors of entries whose text was read; after `deadline`, no further batch.
    /// Many new vectors are written to their files at once, so that no process computes them again; a
    /// few are left to [`persist`](Self::persist).
    pub(super) async fn embed_missing(
        self: &Arc<Self>,
        corpus: &Arc<LiveCorpus>,
        deadline: Option<Instant>,
    ) -> FillOutcome {
        let Ok(mut rejected) = self.rejected.try_lock() else { return FillOutcome::Incomplete };
        let generation = corpus.generation.load(Ordering::SeqCst);
        if corpus.has_all_vectors() {
            return FillOutcome::Complete;
        }
        // The scan below reads all memories, so it is skipped while the source is in backoff.
        if self.is_backing_off() {
            return FillOutcome::Incomplete;
        }
        self.load_from_disk(corpus).await;
        let mut guard = None;
        loop {
            let mut missing = self.missing_entries(corpus, &rejected).await;
            if missing.is_empty() {
                corpus.embedded_generation.store(generation, Ordering::SeqCst);
                return FillOutcome::Complete;
            }
            let is_many = missing.len() >= EMBED_PERSIST_MIN;
            if guard.is_none() {
                guard = self.acquire_lock();
                if guard.is_none() {
                    return FillOutcome::Incomplete;
                }
                if is_many {
                    // Another process may have computed them meanwhile.
                    self.reload(corpus).await;
                    continue;
                }
            }
            let mut filled = FillOutcome::Complete;
            while !missing.is_empty() && filled == FillOutcome::Complete {
                let end = deadline.unwrap_or_else(|| Instant::now() + EMBED_PERSIST_EVERY);
                filled = self.embed_batches(&mut missing, &mut rejected, deadline, end).await;
                if is_many {
                    self.persist(corpus).await;
                }
            }
            if filled == FillOutcome::Incomplete {
                return FillOutcome::Incomplete;
            }
        }
    }

    /// Tries to become the process that computes vectors of entries.
    fn acquire_lock(&self) -> Option<FileLockGuard> {
        self.lock.try_acquire(LockMode::Exclusive).unwrap_or_else(|error| {
            // Without the lock nothing can be cached, so recall uses words alone. Logged at debug level
            // because this repeats.
            tracing::debug!(
                error = error_chain(&error),
                "error while acquiring the lock of the vectors; no entries are embedded"
            );
            None
        })
    }

    /// Writes the vectors of a corpus's memories to their files, where they changed.
    pub(super) async fn persist(self: &Arc<Self>, corpus: &LiveCorpus) {
        // The contents of the files are unknown before they were loaded.
        if !corpus.vectors_loaded.initialized() {
            return;
        }
        let (index, roots) = (Arc::clone(self), corpus.texts_by_root());
        run_blocking(move || {
            for (root, entries) in &roots {
                index.persist_root(root, entries);
            }
        })
        .await;
    }

    /// Drops vectors of entries that none of these corpora contains.
    pub(super) fn retain_only(&self, corpora: &[Arc<LiveCorpus>]) {
        let mut memories = HashSet::new();
        for corpus in corpora {
            memories.extend(corpus.read().memories.values().map(|read| read.revision));
        }
        self.vectors.write().retain(&memories);
    }

    /// Returns the end of the backoff, if the source is in backoff.
    pub(super) fn backoff_until(&self) -> Option<Instant> {
        self.backoff.lock().blocked_until()
    }

    /// Requests vectors of entries, starting with a small batch so that a slow source can answer
    /// in time.
    async fn embed_batches(
        &self,
        missing: &mut Vec<(Digest, String)>,
        rejected: &mut HashSet<Digest>,
        deadline: Option<Instant>,
        end: Instant,
    ) -> FillOutcome {
        let size_max = self.source.batch_max();
        let (mut size, mut refusals) = (EMBED_BATCH_FIRST.min(size_max), 0);
        while !missing.is_empty() {
            let count = size.min(missing.len());
            let texts: Vec<&str> = missing[..count].iter().map(|(_, text)| text.as_str()).collect();
            match self.embed_entries(&texts, deadline).await {
                Ok(found) => {
                    let mut vectors = self.vectors.write();
                    for ((digest, _), vector) in missing.drain(..found.len()).zip(found) {
                        let Some(vector) = vector else {
                            rejected.insert(digest);
                            continue;
                        };
                        if let Err(error) = vectors.insert(digest, vector) {
                            drop(vectors);
                            self.record_failure(&error.into());
                            return FillOutcome::Incomplete;
                        }
                    }
                    (size, refusals) = ((size * 2).min(size_max), 0);
                    if Instant::now() >= end {
                        let is_done = missing.is_empty() || deadline.is_none();
                        return if is_done {
                            FillOutcome::Complete
                        } else {
                            FillOutcome::Incomplete
                        };
                    }
                }
                // Either one text is too long, or all of them together.
                Err(error) if error.may_be_text_fault() && count > 1 => {
                    size = count / 2;
                }
                Err(error) if error.may_be_text_fault() && refusals < EMBED_REFUSALS_MAX => {
                    tracing::info!(
                        error = error_chain(&error),
                        "the endpoint refused an entry; the entry has no vector"
                    );
                    rejected.extend(missing.drain(..count).map(|(digest, _)| digest));
                    refusals += 1;
                }
                Err(error) => {
                    self.record_failure(&error);
                    return FillOutcome::Incomplete;
                }
            }
        }
        FillOutcome::Complete
    }

    async fn embed_entries(
        &self,
        texts: &[&str],
        deadline: Option<Instant>,
    ) -> Result<Vec<Option<Vector>>, VectorError> {
        let vectors = self.source.embed_entries(texts, deadline).await?;
        let check = |vector: Option<Vector>| vector.map(|vector| self.check(vector)).transpose();
        vectors.into_iter().map(check).collect()
    }

    /// Checks that a vector can be compared with the stored ones, which ends the backoff.
    fn check(&self, vector: Vector) -> Result<Vector, VectorError> {
        self.vectors.read().check(&vector)?;
        self.backoff.lock().record_success();
        Ok(vector)
    }

    /// Returns the entries to request, and stores the digests of all entries. Returns no more than
    /// fits into the cache files.
    async fn missing_entries(
        self: &Arc<Self>,
        corpus: &LiveCorpus,
        rejected: &HashSet<Digest>,
    ) -> Vec<(Digest, String)> {
        let (index, roots) = (Arc::clone(self), corpus.texts_by_root());
        let entries = run_blocking(move || {
            let mut missing = Vec::new();
            for (_, of_root) in &roots {
                index.collect_missing(of_root, &mut missing);
            }
            missing
        });
        let (mut entries, mut seen) = (entries.await.unwrap_or_default(), HashSet::new());
        entries.retain(|(digest, _)| !rejected.contains(digest) && seen.insert(*digest));
        entries
    }

    fn collect_missing(&self, root_texts: &RootTexts, missing: &mut Vec<(Digest, String)>) {
        let mut bytes = FILE_OVERHEAD_BYTES;
        for (revision, text) in root_texts {
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
            missing.extend(new.filter(|(digest, text)| !text.is_empty() && !vectors.has(digest)));
        }
    }

    /// Loads the cached vectors of a root, and returns the bytes. Entries of a damaged file are
    /// requested again.
    fn load_root(&self, root: &str) -> Option<Vec<u8>> {
        let bytes = self.files.read(&self.file_name(root))?;
        self.vectors.write().merge_packed(&bytes, &self.fingerprint)?;
        Some(bytes)
    }

    fn persist_root(&self, root: &str, root_texts: &RootTexts) {
        let revisions: Vec<Revision> = root_texts.iter().map(|(revision, _)| *revision).collect();
        let current = self.vectors.read().fingerprint_of(&revisions);
        let is_persisted = self.persisted_states.lock().get(root) == Some(&current);
        if is_persisted && self.files.exists(&self.file_name(root)) {
            return;
        }
        // Another process may have cached vectors that are not loaded here.
        let cached = self.load_root(root);
        let packed = {
            let vectors = self.vectors.read();
            let mut bytes = FILE_OVERHEAD_BYTES;
            let fits = |revision: &&Revision| {
                bytes += vectors.bytes_of(vectors.of_memory(revision).len());
                bytes <= VECTORS_FILE_BYTES_MAX
            };
            let fitting: Vec<Revision> = revisions.iter().take_while(fits).copied().collect();
            let is_any = vectors.has_any(&fitting) || cached.is_some();
            is_any.then(|| vectors.pack(&fitting, &self.fingerprint))
        };
        if let Some(packed) = packed.filter(|packed| cached.as_ref() != Some(packed))
            && let Err(error) = self.files.write(&self.file_name(root), &packed)
        {
            tracing::warn!(%error, "error while writing vectors to their cache file; retrying later");
            return;
        }
        self.persisted_states.lock().insert(root.to_owned(), current);
    }

    /// Returns the name of a root's file, from the root and the source.
    fn file_name(&self, root: &str) -> String {
        let identity = format!("{root}\n{}", self.source.name());
        Revision::digest(identity.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect()
    }

    fn has_secret(&self, prompt: &str) -> bool {
        let findings = self.screen.check(prompt, TextAuthor::Agent);
        findings.iter().any(|finding| finding.family == Family::Secrets)
    }

    /// Starts a backoff after an error, and logs it once per backoff.
    fn record_failure(&self, error: &VectorError) {
        let Some(delay) = self.backoff.lock().record_failure() else { return };
        tracing::warn!(
            error = error_chain(error),
            "error while computing vectors; recall uses words alone for {delay:?}"
        );
    }

    fn is_backing_off(&self) -> bool {
        self.backoff_until().is_some()
    }
}
