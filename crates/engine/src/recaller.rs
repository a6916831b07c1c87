//! Follows memories with a corpus, and finds in it what fits a prompt.
//!
//! A corpus is made of the memories that a caller sees and is brought up to date by looking at stamps: a memory
//! is read again only if its file has another one. As long as nobody told of a change since, a prompt is
//! answered from it at once; otherwise it is brought up to date first, beside the turn.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use async_trait::async_trait;
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::limits::{
    CORPORA_KEPT_MAX, CORPUS_AGE_MAX, PROMPT_CHARS_MAX, RECALLED_ITEM_CHARS_MAX, RECALLED_ITEMS_MAX,
};
use memory::path::{MemoryPath, Mount, Scope};
use memory::screen::Screen;
use recall::{Corpus, EntryHit, Hit, Options, Reason};
use store::backend::Stamp;
use store::{MEMORY_LIST, Memories, Notice, StoreError, Surveyed};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::conversation::{Select, Selected, Selecting};

/// Finds what fits a prompt, without a model and without a network.
#[derive(Debug)]
pub struct Recaller {
    screen: Screen,
    /// Corpora by what they are of, each with when it was wanted last.
    corpora: Mutex<Corpora>,
    /// How often something changed, as far as anybody told.
    changes: AtomicU64,
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
    /// Held by whoever brings it up to date.
    updating: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Held {
    corpus: Corpus,
    memories: HashMap<MemoryPath, Read>,
    /// Up to which change it has everything, and when that was looked at.
    current: Option<(u64, Instant)>,
}

/// A memory as it was read.
#[derive(Clone, Debug)]
struct Read {
    stamp: Option<Stamp>,
    revision: Revision,
    modified_at: Timestamp,
    text: Arc<str>,
}

/// What is new in a corpus.
#[derive(Debug, Default)]
struct Update {
    read: Vec<(MemoryPath, Read)>,
    gone: Vec<MemoryPath>,
}

impl Recaller {
    /// Returns one that has looked at nothing yet. What the screen objects to is never found.
    pub fn new(screen: Screen) -> Self {
        Self { screen, corpora: Mutex::default(), changes: AtomicU64::new(0) }
    }

    /// Notes what is told of changes. Goes on until whoever runs it ends it.
    pub async fn follow(&self, mut notices: Receiver<Notice>) {
        loop {
            match notices.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => {
                    self.changes.fetch_add(1, Ordering::SeqCst);
                }
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Looks at these memories, so that the next prompt is answered at once.
    pub async fn prepare(&self, memories: &Memories) -> Result<(), StoreError> {
        self.update(&self.corpus(memories), memories).await
    }

    /// Returns the memories that fit a prompt, the best first, from what they are at this moment. Nothing
    /// when nothing fits.
    pub async fn recall(
        &self,
        memories: &Memories,
        prompt: &str,
    ) -> Result<Vec<Selected>, StoreError> {
        let followed = self.corpus(memories);
        self.update(&followed, memories).await?;
        Ok(found(&followed.read(), prompt, |_, _| true))
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
        let followed = Arc::new(Followed::new(self.screen.clone()));
        corpora.by_name.insert(name, (wanted, Arc::clone(&followed)));
        followed
    }

    /// Brings a corpus up to date.
    async fn update(
        &self,
        followed: &Arc<Followed>,
        memories: &Memories,
    ) -> Result<(), StoreError> {
        let _alone = followed.updating.lock().await;
        // Counted first: what changes from here on is looked at the next time.
        let (changes, looked_at) = (self.changes.load(Ordering::SeqCst), Instant::now());
        let surveyed = Box::pin(memories.survey()).await?;
        let update = followed.differences(memories, surveyed).await?;
        let followed = Arc::clone(followed);
        // Indexing takes a processor for a while when there is much that is new.
        let taken_in = tokio::task::spawn_blocking(move || {
            followed.take_in(update, (changes, looked_at));
        });
        if let Err(error) = taken_in.await {
            tracing::error!(%error, "memories could not be taken in");
        }
        Ok(())
    }
}

#[async_trait]
impl Select for Recaller {
    fn at_once(&self, asked: &Selecting) -> Option<Vec<Selected>> {
        let followed = self.corpus(&asked.memories);
        // Somebody takes in what is new at this moment.
        let held = followed.held.try_read().ok()?;
        held.is_current(self.changes.load(Ordering::SeqCst)).then(|| select(&held, asked))
    }

    async fn select(
        &self,
        asked: Selecting,
        stop: CancellationToken,
    ) -> Result<Vec<Selected>, Box<dyn std::error::Error + Send + Sync>> {
        let followed = self.corpus(&asked.memories);
        self.update(&followed, &asked.memories).await?;
        if stop.is_cancelled() {
            return Ok(Vec::new());
        }
        let found = select(&followed.read(), &asked);
        Ok(found)
    }
}

impl Followed {
    fn new(screen: Screen) -> Self {
        let corpus = Corpus::new(screen);
        let held = Held { corpus, memories: HashMap::new(), current: None };
        Self { held: RwLock::new(held), updating: tokio::sync::Mutex::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.held.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what is another text than was read before. What is no text, or too large, or gone since it was
    /// found, is passed over, and so is a listing that was generated.
    async fn differences(
        &self,
        memories: &Memories,
        surveyed: Vec<Surveyed>,
    ) -> Result<Update, StoreError> {
        let mut update = Update::default();
        let wanted = {
            let held = self.read();
            let mut gone: Vec<_> = held.memories.keys().cloned().collect();
            gone.sort_unstable();
            for one in &surveyed {
                if let Ok(at) = gone.binary_search(&one.path) {
                    gone.remove(at);
                }
            }
            update.gone = gone;
            surveyed.into_iter().filter(|one| !held.has(one)).collect::<Vec<_>>()
        };
        for Surveyed { path, stamp, .. } in wanted {
            match memories.read(&path).await {
                Ok(read) if !is_list(&path, &read.text) => {
                    let text = Arc::from(read.text);
                    let (revision, modified_at) = (read.revision, read.modified_at);
                    update.read.push((path, Read { stamp, revision, modified_at, text }));
                }
                Ok(_) | Err(StoreError::Refused(_)) => update.gone.push(path),
                Err(error) => return Err(error),
            }
        }
        Ok(update)
    }

    fn take_in(&self, update: Update, current: (u64, Instant)) {
        let mut held = self.write();
        for path in &update.gone {
            held.memories.remove(path);
            held.corpus.remove(path);
        }
        for (path, read) in update.read {
            let is_same = held.memories.get(&path).is_some_and(|had| had.revision == read.revision);
            if !is_same {
                // The files of a checkout have the time of the checkout.
                let ours = path.mount() != Some(Mount::Scope(Scope::Project));
                let written =
                    ours.then(|| read.modified_at.to_zoned(jiff::tz::TimeZone::UTC).date());
                held.corpus.put(&path, &read.text, written);
            }
            held.memories.insert(path, read);
        }
        held.current = Some(current);
    }
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
}

fn is_list(path: &MemoryPath, text: &str) -> bool {
    path.relative().is_some_and(|relative| relative.as_str() == MEMORY_LIST)
        && document::is_generated_list(text)
}

fn select(held: &Held, asked: &Selecting) -> Vec<Selected> {
    found(held, &asked.prompt, |path, revision| !asked.except.has(path, revision))
}

/// Returns what fits, of what may be shown.
fn found(
    held: &Held,
    prompt: &str,
    may_be: impl Fn(&MemoryPath, &Revision) -> bool,
) -> Vec<Selected> {
    // Those that were shown make room for others.
    let options = Options { limit: 4 * RECALLED_ITEMS_MAX, ..Options::default() };
    let end = prompt.char_indices().nth(PROMPT_CHARS_MAX).map_or(prompt.len(), |(end, _)| end);
    let prompt = prompt.get(..end).unwrap_or(prompt);
    let hits = held.corpus.rank(prompt, &options).into_iter();
    let selected = hits.filter_map(|hit| {
        let read = held.memories.get(&hit.path)?;
        may_be(&hit.path, &read.revision).then(|| selected(hit, read))
    });
    selected.take(RECALLED_ITEMS_MAX).collect()
}

fn selected(hit: Hit, read: &Read) -> Selected {
    Selected {
        title: title(&hit.path, &read.text),
        text: excerpt(&read.text, &hit.entries),
        why: why(&hit.reasons),
        path: hit.path,
        revision: read.revision,
        modified_at: read.modified_at,
    }
}

/// Returns what a memory is called: its name, else what its description says, else its file's name.
fn title(path: &MemoryPath, text: &str) -> String {
    let head = document::head(text.as_bytes());
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
        Reason::Word { asked, found } if asked == found => format!("has `{asked}`"),
        Reason::Word { asked, found } => format!("has `{found}` for `{asked}`"),
        Reason::Misspelled { asked, found } => format!("has `{found}`, probably for `{asked}`"),
        Reason::Near { asked, found, .. } => format!("has `{found}`, near `{asked}`"),
        Reason::Date => "is from the day or month asked for".to_owned(),
        Reason::Subject => "is about what is named".to_owned(),
    };
    reasons.iter().map(reason).collect::<Vec<_>>().join("; ")
}
