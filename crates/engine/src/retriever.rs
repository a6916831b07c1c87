//! The retriever interface, which finds the memories that fit a prompt, and its values.
//!
//! Implemented by [`RecallService`](crate::RecallService) and [`Reranker`](crate::Reranker).

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use context::Mark;
use context::excerpt::{Excerpt, MatchedText};
use context::recalled::{self, Rating, RecalledItem};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::limits::{RECALLED_ITEM_CHARS_MAX, RECALLED_TOKENS_DEFAULT};
use memory::path::MemoryPath;
use store::Memories;
use tokio_util::sync::CancellationToken;

/// The origin of a recall, which decides how well a memory must fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecallOrigin {
    /// A question of a person or a model. The best memories are shown, also if they fit weakly.
    Requested,
    /// A prompt, beside which only what clearly helps is shown.
    Unrequested,
}

/// A recalled memory.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrievedMemory {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision at the time of recall.
    pub revision: Revision,
    /// Its title.
    pub title: String,
    /// Its text, with the part that fits; untrusted.
    pub text: MatchedText,
    /// Time from which the text is, if known.
    pub saved_at: Option<Timestamp>,
    /// Time of the last modification of its file.
    pub modified_at: Timestamp,
    /// Estimate that it helps with the prompt, from 0 to 1, with two decimals. At least 0.5 unless it
    /// is weak.
    pub score: f64,
    /// Whether it fits only weakly, and would not be shown unasked.
    pub is_weak: bool,
    /// The reason why it was chosen, for people.
    pub why: String,
    /// The mark, if it was not reviewed here.
    pub mark: Option<Mark>,
    /// Other memories that fit and say the same.
    pub also_in: Vec<DuplicateMemory>,
}

/// A memory that says the same as another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateMemory {
    /// The memory.
    pub path: MemoryPath,
    /// Its revision at the time of recall.
    pub revision: Revision,
}

impl RetrievedMemory {
    /// Returns the part that fits, at most [`RECALLED_ITEM_CHARS_MAX`] characters.
    pub fn excerpt(&self) -> Excerpt {
        self.text.excerpt(RECALLED_ITEM_CHARS_MAX)
    }
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
    pub fn render(
        retrieved: &[RetrievedMemory],
        origin: RecallOrigin,
        now: Timestamp,
    ) -> Option<Self> {
        let also_in = |memory: &RetrievedMemory| -> Vec<MemoryPath> {
            memory.also_in.iter().map(|other| other.path.clone()).collect()
        };
        let also_in: Vec<_> = retrieved.iter().map(also_in).collect();
        let items = retrieved.iter().zip(&also_in);
        let items: Vec<_> =
            items.map(|(memory, also_in)| recalled_item(memory, also_in, origin)).collect();
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
    /// Returns the memories that clearly fit, best first, if the answer is available within a
    /// millisecond. If the best one was shown already, there are none.
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

fn recalled_item<'a>(
    memory: &'a RetrievedMemory,
    also_in: &'a [MemoryPath],
    origin: RecallOrigin,
) -> RecalledItem<'a> {
    let RetrievedMemory { path, title, text, saved_at, score, is_weak, mark, .. } = memory;
    let rating = Rating { score: *score, is_weak: *is_weak };
    RecalledItem {
        path,
        title,
        text,
        saved_at: *saved_at,
        mark: *mark,
        rating: (origin == RecallOrigin::Requested).then_some(rating),
        also_in,
    }
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
