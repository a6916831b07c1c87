//! The port that finds what fits a prompt, and the values that cross it.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use context::Mark;
use context::recalled::{self, RecalledItem};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::limits::RECALLED_TOKENS_DEFAULT;
use memory::path::MemoryPath;
use store::Memories;
use tokio_util::sync::CancellationToken;

/// A memory that fits a prompt, or the part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievedMemory {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision when it was selected.
    pub revision: Revision,
    /// What it is called.
    pub title: String,
    /// What of it fits; untrusted.
    pub text: String,
    /// When it was written.
    pub modified_at: Timestamp,
    /// Why it was selected, for people.
    pub why: String,
    /// Why it is marked: nobody here reviewed it.
    pub mark: Option<Mark>,
}

/// What a selection is asked for.
#[derive(Clone, Debug)]
pub struct RecallQuery {
    /// The workspace of the conversation.
    pub workspace: Arc<str>,
    /// The memories that the conversation may see.
    pub memories: Memories,
    /// What the person said.
    pub prompt: Arc<str>,
    /// What the conversation was shown already.
    pub except: ShownSet,
}

/// What a model is shown beside a prompt, or behind the results of tools.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallBlock {
    /// The block, which holds untrusted text as data.
    pub block: String,
    /// The memories that are in it, in its order.
    pub memories: Vec<RetrievedMemory>,
}

impl RecallBlock {
    /// Returns the block of what was selected, as much of it as may be shown; `None` when nothing was.
    pub fn render(found: &[RetrievedMemory], now: Timestamp) -> Option<Self> {
        let items: Vec<_> = found.iter().map(recalled_item).collect();
        let rendered = recalled::render(&items, RECALLED_TOKENS_DEFAULT, now)?;
        let memories = rendered.shown.iter().filter_map(|&at| found.get(at).cloned()).collect();
        Some(Self { block: rendered.text, memories })
    }
}

/// The reason why nothing was selected.
pub type RetrieveError = Box<dyn std::error::Error + Send + Sync>;

/// Finds what fits a prompt.
#[async_trait]
pub trait Retriever: std::fmt::Debug + Send + Sync {
    /// Returns what fits, the best first, if that can be said here and now, within a millisecond.
    fn try_retrieve(&self, asked: &RecallQuery) -> Option<Vec<RetrievedMemory>>;

    /// Returns what fits, the best first. Takes the time that it needs; ends early when it is stopped.
    async fn retrieve(
        &self,
        asked: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError>;
}

/// What a conversation was shown: memories, each as it was then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownSet(Arc<HashSet<ShortDigest>>);

/// The first 64 bits of the digest of a text.
pub(crate) type ShortDigest = u64;

impl ShownSet {
    /// Returns what has these digests.
    pub(crate) fn from_digests(digests: impl IntoIterator<Item = ShortDigest>) -> Self {
        Self(Arc::new(digests.into_iter().collect()))
    }

    /// Tells whether a memory was shown as it is in this revision.
    pub fn contains(&self, path: &MemoryPath, revision: &Revision) -> bool {
        self.0.contains(&shown_key(path, revision))
    }
}

fn recalled_item(selected: &RetrievedMemory) -> RecalledItem<'_> {
    let RetrievedMemory { path, title, text, modified_at, mark, .. } = selected;
    RecalledItem { path, title, text, saved_at: *modified_at, mark: *mark }
}

/// Returns what stands for a memory as it is in a revision.
pub(crate) fn shown_key(path: &MemoryPath, revision: &Revision) -> ShortDigest {
    short_digest(format!("{path}\0{revision}").as_bytes())
}

/// Returns the short digest of some bytes.
pub(crate) fn short_digest(bytes: &[u8]) -> ShortDigest {
    let first = Revision::digest(bytes).as_bytes().first_chunk().copied();
    ShortDigest::from_be_bytes(first.expect("a digest has more than eight bytes"))
}
