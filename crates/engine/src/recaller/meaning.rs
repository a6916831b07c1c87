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

use super::corpus::{Followed, Held, OfRoot, blocking};
use super::corpus_file::DIGEST_CHARS;
use super::vectors::{Digest, OtherLength, Vectors};

use crate::backoff::Backoff;
use crate::config::Embeddings;
use crate::runner::chain;

/// Bytes of a file beside what memories take.
const FILE_REST_BYTES: usize = 1_024;

/// What an endpoint said, and how it is.
#[derive(Debug)]
pub(super) struct Meaning {
    embeddings: Embeddings,
    screen: Screen,
    /// By whom and how vectors were made.
    made_by: Revision,
    files: CacheDir,
    /// Held by the process that asks for vectors of entries.
    lock: FileLock,
    vectors: RwLock<Vectors>,
    /// What of each root is in its file.
    kept: Mutex<HashMap<String, Revision>>,
    backoff: Mutex<Backoff>,
    prompts: Mutex<Cache<Digest, Arc<Vector>, PROMPT_VECTORS_KEPT>>,
    /// Held by whoever asks for vectors of entries: those that the endpoint does not take.
    refused: tokio::sync::Mutex<HashSet<Digest>>,
    /// Told when there may be entries without a vector.
    pub(super) wanted: Notify,
}

/// What came of asking for vectors of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// There is nothing more to ask for.
    All,
    /// Somebody else is at it, or the endpoint fails: there is more, later.
    NotYet,
}

/// Why a vector is none.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Endpoint(#[from] EmbedError),
    #[error(transparent)]
    OtherLength(#[from] OtherLength),
}

/// A prompt's vector, and what it is compared with.
#[derive(Clone)]
pub(super) struct Alike<'a> {
    pub(super) meaning: &'a Meaning,
    pub(super) vector: Arc<Vector>,
}

impl Alike<'_> {
    pub(super) fn among(&self, held: &Held) -> DenseScores {
        self.meaning.likeness(held, &self.vector)
    }
}

impl Meaning {
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
            made_by: Revision::digest(told.as_bytes()),
            embeddings,
            screen,
            files,
            lock,
            vectors: RwLock::default(),
            kept: Mutex::default(),
            backoff: Mutex::default(),
            prompts: Mutex::default(),
            refused: tokio::sync::Mutex::default(),
            wanted: Notify::new(),
        }
    }

    /// How long somebody who waits for an answer does so for vectors.
    pub(super) const fn wait(&self) -> Duration {
        self.embeddings.wait
    }

    /// Tells whether a prompt's vector may find more than its words do.
    pub(super) fn may_tell(&self) -> bool {
        !self.is_resting() && !self.vectors.read().is_empty()
    }

    /// Compares a prompt with what a corpus holds.
    pub(super) fn likeness(&self, held: &Held, prompt: &Vector) -> DenseScores {
        let vectors = self.vectors.read();
        let of = |path: &MemoryPath| held.memories.get(path).map(|read| read.revision);
        held.corpus.dense_scores(prompt, |path| {
            of(path).map_or_else(Vec::new, |revision| vectors.of_memory(&revision))
        })
    }

    /// Returns the vector of a prompt, if the endpoint gives one in time. A prompt with a secret is not sent.
    pub(super) async fn of_prompt(&self, prompt: &str) -> Option<Arc<Vector>> {
        let sent: String = prompt.trim().chars().take(EMBED_CHARS_MAX).collect();
        let digest = Digest::of(&sent);
        if let Some(known) = self.prompts.lock().get(&digest) {
            return Some(Arc::clone(known));
        }
        if sent.is_empty() || self.is_resting() || self.has_secret(prompt) {
            return None;
        }
        match self.ask(&[&sent], self.embeddings.wait).await {
            Ok(vectors) => {
                let vector = Arc::new(vectors.into_iter().next()?);
                self.prompts.lock().insert(digest, Arc::clone(&vector));
                Some(vector)
            }
            Err(trouble) => {
                self.failed(&trouble);
                None
            }
        }
    }

    /// Takes up what is kept of a corpus's roots, the first time.
    pub(super) async fn take_up(self: &Arc<Self>, followed: &Followed) {
        let read = async || {
            let (meaning, roots) = (Arc::clone(self), followed.roots.clone());
            blocking(move || roots.iter().for_each(|(_, place)| drop(meaning.read(place)))).await;
        };
        followed.vectors_read.get_or_init(read).await;
    }

    /// Returns the memories with entries that have no vector and whose text was not read yet.
    pub(super) fn without_text(&self, followed: &Followed) -> Vec<MemoryPath> {
        let (held, vectors) = (followed.read(), self.vectors.read());
        let lacking = held
            .memories
            .iter()
            .filter(|(_, read)| read.text.get().is_none() && !vectors.is_whole(&read.revision));
        lacking.map(|(path, _)| path.clone()).collect()
    }

    /// Asks for the vectors of entries that have none, batch by batch, and keeps them.
    pub(super) async fn fill(self: &Arc<Self>, followed: &Arc<Followed>) -> Filled {
        let Ok(mut refused) = self.refused.try_lock() else { return Filled::NotYet };
        let seen = followed.seen.load(Ordering::SeqCst);
        if followed.whole.load(Ordering::SeqCst) == seen {
            return Filled::All;
        }
        // All memories are looked at, which is for nothing where nobody can be asked.
        if self.is_resting() {
            return Filled::NotYet;
        }
        self.take_up(followed).await;
        let mut guard = None;
        let filled = loop {
            let lacking = self.lacking(followed, &refused).await;
            if lacking.is_empty() {
                followed.whole.store(seen, Ordering::SeqCst);
                break Filled::All;
            }
            if guard.is_none() {
                guard = self.lock.try_acquire(LockMode::Exclusive).unwrap_or_else(|error| {
                    // Where nothing can be kept, words alone do, and nothing is said each time.
                    tracing::debug!(error = chain(&error), "no entries are sent to the endpoint");
                    None
                });
            }
            if guard.is_none() || self.ask_all(lacking, &mut refused).await == Filled::NotYet {
                break Filled::NotYet;
            }
        };
        self.keep(followed).await;
        filled
    }

    /// Keeps what is known of a corpus's memories, where that changed.
    pub(super) async fn keep(self: &Arc<Self>, followed: &Followed) {
        // Before that nobody knows what is in the files.
        if !followed.vectors_read.initialized() {
            return;
        }
        let (meaning, roots) = (Arc::clone(self), followed.by_root());
        blocking(move || roots.iter().for_each(|(place, of_root)| meaning.write(place, of_root)))
            .await;
    }

    /// Forgets what no memory of these corpora says.
    pub(super) fn forget_all_but(&self, corpora: &[Arc<Followed>]) {
        let mut memories = HashSet::new();
        for followed in corpora {
            memories.extend(followed.read().memories.values().map(|read| read.revision));
        }
        self.vectors.write().retain(&memories);
    }

    /// Returns when the endpoint may be asked again, if it is left alone.
    pub(super) fn rests_until(&self) -> Option<Instant> {
        self.backoff.lock().until()
    }

    /// Asks for entries, a few at first: an endpoint that is slow answers them in time.
    async fn ask_all(
        &self,
        mut lacking: Vec<(Digest, String)>,
        refused: &mut HashSet<Digest>,
    ) -> Filled {
        let most = self.embeddings.batch.max(1);
        let (mut size, mut refusals) = (EMBED_BATCH_FIRST.min(most), 0);
        while !lacking.is_empty() {
            let count = size.min(lacking.len());
            let texts: Vec<&str> = lacking[..count].iter().map(|(_, text)| text.as_str()).collect();
            match self.ask(&texts, EMBED_BATCH_WAIT).await {
                Ok(found) => {
                    let mut vectors = self.vectors.write();
                    for ((digest, _), vector) in lacking.drain(..count).zip(found) {
                        if let Err(trouble) = vectors.put(digest, vector) {
                            drop(vectors);
                            self.failed(&trouble.into());
                            return Filled::NotYet;
                        }
                    }
                    (size, refusals) = ((size * 2).min(most), 0);
                }
                // One of them may be too much by itself, or all together.
                Err(Trouble::Endpoint(error)) if error.may_be_text_fault() && count > 1 => {
                    size = count / 2;
                }
                Err(Trouble::Endpoint(error))
                    if error.may_be_text_fault() && refusals < EMBED_REFUSALS_MAX =>
                {
                    tracing::info!(%error, "an entry has no vector");
                    refused.extend(lacking.drain(..count).map(|(digest, _)| digest));
                    refusals += 1;
                }
                Err(trouble) => {
                    self.failed(&trouble);
                    return Filled::NotYet;
                }
            }
        }
        Filled::All
    }

    async fn ask(&self, texts: &[&str], deadline: Duration) -> Result<Vec<Vector>, Trouble> {
        const NONE: EmbedError = EmbedError::InvalidResponse("vectors without direction");
        let found = self.embeddings.endpoint.embed(texts, deadline).await?;
        let vectors: Option<Vec<Vector>> =
            found.iter().map(|found| Vector::from_numbers(found)).collect();
        let vectors = vectors.ok_or(NONE)?;
        vectors.iter().try_for_each(|vector| self.vectors.read().check(vector))?;
        self.backoff.lock().answered();
        Ok(vectors)
    }

    /// Returns what is to be asked for, and notes what the entries of memories say. No more than can be kept.
    async fn lacking(
        self: &Arc<Self>,
        followed: &Followed,
        refused: &HashSet<Digest>,
    ) -> Vec<(Digest, String)> {
        let (meaning, roots) = (Arc::clone(self), followed.by_root());
        let found = blocking(move || {
            let mut lacking = Vec::new();
            for (_, of_root) in &roots {
                meaning.find_lacking(of_root, &mut lacking);
            }
            lacking
        });
        let (mut found, mut seen) = (found.await.unwrap_or_default(), HashSet::new());
        found.retain(|(digest, _)| !refused.contains(digest) && seen.insert(*digest));
        found
    }

    fn find_lacking(&self, of_root: &OfRoot, lacking: &mut Vec<(Digest, String)>) {
        let mut bytes = FILE_REST_BYTES;
        for (revision, text) in of_root {
            let texts = match text {
                Some(text) if !self.vectors.read().is_whole(revision) => {
                    passages(text, &self.screen, EMBED_CHARS_MAX)
                }
                _ => Vec::new(),
            };
            let digests: Arc<[Digest]> = texts.iter().map(|text| Digest::of(text)).collect();
            let mut vectors = self.vectors.write();
            if !digests.is_empty() {
                vectors.list(*revision, Arc::clone(&digests));
            }
            let entries = vectors.listed(revision).map_or(0, |listed| listed.len());
            bytes += vectors.bytes_of(entries);
            if bytes > VECTORS_FILE_BYTES_MAX {
                return;
            }
            let new = digests.iter().copied().zip(texts);
            lacking.extend(new.filter(|(digest, text)| !text.is_empty() && !vectors.has(digest)));
        }
    }

    /// Takes in what is kept of a root, and returns it. What is not whole is asked for anew.
    fn read(&self, place: &str) -> Option<Vec<u8>> {
        let bytes = self.files.read(&self.file_of(place))?;
        self.vectors.write().take_in(&bytes, &self.made_by)?;
        Some(bytes)
    }

    fn write(&self, place: &str, of_root: &OfRoot) {
        let revisions: Vec<Revision> = of_root.iter().map(|(revision, _)| *revision).collect();
        let is_kept = |state| {
            self.kept.lock().insert(place.to_owned(), state).is_some_and(|kept| kept == state)
        };
        if is_kept(self.vectors.read().state_of(&revisions)) {
            return;
        }
        // Another process may have kept what is not known here.
        let before = self.read(place);
        let packed = {
            let vectors = self.vectors.read();
            let mut bytes = FILE_REST_BYTES;
            let fits = |revision: &&Revision| {
                bytes += vectors.bytes_of(vectors.of_memory(revision).len());
                bytes <= VECTORS_FILE_BYTES_MAX
            };
            let fitting: Vec<Revision> = revisions.iter().take_while(fits).copied().collect();
            let is_any = vectors.has_any(&fitting) || before.is_some();
            is_any.then(|| vectors.pack(&fitting, &self.made_by))
        };
        let Some(packed) = packed.filter(|packed| before.as_ref() != Some(packed)) else { return };
        if let Err(error) = self.files.write(&self.file_of(place), &packed) {
            tracing::warn!(%error, "vectors cannot be kept");
        }
    }

    /// The name of a root's file: whose vectors of which root they are.
    fn file_of(&self, place: &str) -> String {
        let told = format!("{place}\n{}", self.embeddings.endpoint.name());
        Revision::digest(told.as_bytes()).to_string().chars().take(DIGEST_CHARS).collect()
    }

    fn has_secret(&self, prompt: &str) -> bool {
        let findings = self.screen.check(prompt, TextAuthor::Agent);
        findings.iter().any(|finding| finding.family == Family::Secrets)
    }

    /// Notes that the endpoint is of no use, and says so, once until it is asked again.
    fn failed(&self, trouble: &Trouble) {
        let Some(delay) = self.backoff.lock().failed() else { return };
        tracing::warn!(error = chain(trouble), "recall goes by words alone for {delay:?}");
    }

    fn is_resting(&self) -> bool {
        self.rests_until().is_some()
    }
}
