//! The retriever interface, which finds the memories that fit a prompt, and its values.
//!
//! Implemented by [`RecallService`](crate::RecallService) and [`Reranker`](crate::Reranker).

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

/// A recalled memory, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievedMemory {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision at the time of recall.
    pub revision: Revision,
    /// Its title.
    pub title: String,
    /// The part that fits; untrusted text.
    pub text: String,
    /// Time of the last write.
    pub modified_at: Timestamp,
    /// The reason why it was chosen, for people.
    pub why: String,
    /// The mark, if it was not reviewed here.
    pub mark: Option<Mark>,
}

/// A recall request.
#[derive(Clone, Debug)]
pub struct RecallQuery {
    /// The workspace of the conversation.
    pub workspace: Arc<str>,
    /// The memories that the conversation may use.
    pub memories: Memories,
    /// The user's prompt.
    pub prompt: Arc<str>,
    /// The memories that the conversation was shown already.
    pub except: ShownSet,
}

/// The block that a model is shown beside a prompt or behind tool results.
#[derive(Clone, Debug, PartialEq)]
pub struct RecallBlock {
    /// The text of the block, which carries untrusted text as data.
    pub block: String,
    /// The memories in the block, in order.
    pub memories: Vec<RetrievedMemory>,
}

impl RecallBlock {
    /// Renders a block of memories, within the token limit; `None` if there are none.
    pub fn render(retrieved: &[RetrievedMemory], now: Timestamp) -> Option<Self> {
        let items: Vec<_> = retrieved.iter().map(recalled_item).collect();
        let rendered = recalled::render(&items, RECALLED_TOKENS_DEFAULT, now)?;
        let memories =
            rendered.shown.iter().filter_map(|&index| retrieved.get(index).cloned()).collect();
        Some(Self { block: rendered.text, memories })
    }
}

/// The reason why recall failed.
pub type RetrieveError = Box<dyn std::error::Error + Send + Sync>;

/// A source of memories that fit a prompt.
#[async_trait]
pub trait Retriever: std::fmt::Debug + Send + Sync {
    /// Returns the fitting memories, best first, if the answer is available within a millisecond.
    fn try_retrieve(&self, query: &RecallQuery) -> Option<Vec<RetrievedMemory>>;

    /// Returns the fitting memories, best first. May take longer; ends early when `stop` fires.
    async fn retrieve(
        &self,
        query: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError>;
}

/// The memories that a conversation was shown, each with its revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownSet(Arc<HashSet<ShortDigest>>);

/// The first 64 bits of the digest of a text.
pub(crate) type ShortDigest = u64;

impl ShownSet {
    /// Returns the set with these digests.
    pub(crate) fn from_digests(digests: impl IntoIterator<Item = ShortDigest>) -> Self {
        Self(Arc::new(digests.into_iter().collect()))
    }

    /// Checks whether a memory was shown in this revision.
    pub fn contains(&self, path: &MemoryPath, revision: &Revision) -> bool {
        self.0.contains(&shown_key(path, revision))
    }
}

fn recalled_item(selected: &RetrievedMemory) -> RecalledItem<'_> {
    let RetrievedMemory { path, title, text, modified_at, mark, .. } = selected;
    RecalledItem { path, title, text, saved_at: *modified_at, mark: *mark }
}

/// Returns the key of a memory in a revision.
pub(crate) fn shown_key(path: &MemoryPath, revision: &Revision) -> ShortDigest {
    short_digest(format!("{path}\0{revision}").as_bytes())
}

/// Returns the short digest of some bytes.
pub(crate) fn short_digest(bytes: &[u8]) -> ShortDigest {
    let first = Revision::digest(bytes).as_bytes().first_chunk().copied();
    ShortDigest::from_be_bytes(first.expect("a digest has more than eight bytes"))
}
