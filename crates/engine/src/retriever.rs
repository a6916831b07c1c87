//! The retriever interface, which finds the memories that fit a prompt, and its values.
//!
//! Implemented by [`RecallService`](crate::RecallService) and [`Reranker`](crate::Reranker).

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use context::Mark;
use context::excerpt::{Excerpt, MatchedText};
use context::recalled::{self, Rating, RecalledItem};
use memory::clock::Timestamp;
use memory::document::{self, Revision};
use memory::limits::{RECALLED_ITEM_CHARS_MAX, RECALLED_TOKENS_DEFAULT};
use memory::path::MemoryPath;
use memory::text::slice;
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
    /// The entries that the conversation has already.
    pub except: ResidentEntries,
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

    /// Returns the digests of the entries that stand in the block: whole, or the best of a memory in part.
    pub(crate) fn digests(&self) -> Vec<u64> {
        let lines: HashSet<&str> = self.block.lines().map(str::trim).collect();
        let mut digests = Vec::new();
        for memory in &self.memories {
            let text = memory.text.full_text();
            let best = memory.text.entries().first();
            let entries = document::entries(text).into_iter().filter(|entry| {
                let shown = context::escape::data(slice(text, entry.range.clone()));
                let is_whole = shown.lines().map(str::trim).all(|line| lines.contains(line));
                is_whole || best.is_some_and(|best| contains(&entry.range, best))
            });
            digests.extend(entries.map(|entry| entry.digest(&memory.path, text)));
        }
        digests
    }
}

/// Checks whether a range of a text is a part of an entry. What recall finds of a long entry is a part of it.
fn contains(entry: &Range<usize>, part: &Range<usize>) -> bool {
    entry.start <= part.start && part.end <= entry.end && !part.is_empty()
}

/// The reason why recall failed.
pub type RetrieveError = Box<dyn std::error::Error + Send + Sync>;

/// A source of memories that fit a prompt.
#[async_trait]
pub trait Retriever: std::fmt::Debug + Send + Sync {
    /// Returns the memories that clearly fit, best first, if the answer is available within a
    /// millisecond. Entries that the conversation has are left out.
    fn try_retrieve(&self, query: &RecallQuery) -> Option<Vec<RetrievedMemory>>;

    /// Returns the fitting memories, best first. May take longer; ends early when `stop` fires.
    async fn retrieve(
        &self,
        query: RecallQuery,
        stop: CancellationToken,
    ) -> Result<Vec<RetrievedMemory>, RetrieveError>;
}

/// The entries that a conversation has in its context, by their digests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResidentEntries(Arc<HashSet<u64>>);

impl ResidentEntries {
    /// Returns the set with these digests.
    pub(crate) fn from_digests(digests: impl IntoIterator<Item = u64>) -> Self {
        Self(Arc::new(digests.into_iter().collect()))
    }

    /// Checks whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the digests.
    pub(crate) fn digests(&self) -> &HashSet<u64> {
        &self.0
    }

    /// Leaves the entries that a model has out of these memories, and the memories of which it has all that fits.
    pub(crate) fn retain_unknown(&self, found: &mut Vec<RetrievedMemory>) {
        if !self.0.is_empty() {
            found.retain_mut(|memory| self.omit_from(memory));
        }
    }

    /// Checks whether the conversation has the entries at these ranges of a text, of which there is at least one.
    pub(crate) fn has_all(&self, path: &MemoryPath, text: &str, ranges: &[Range<usize>]) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let entries = document::entries(text).into_iter();
        let is_fitting =
            |entry: &document::Entry| ranges.iter().any(|part| contains(&entry.range, part));
        let mut fitting = entries.filter(is_fitting).peekable();
        fitting.peek().is_some() && fitting.all(|entry| self.0.contains(&entry.digest(path, text)))
    }

    /// Leaves the entries that a model has out of a memory. Returns whether any of those that fit remain; without such,
    /// any at all.
    fn omit_from(&self, memory: &mut RetrievedMemory) -> bool {
        let full = memory.text.full_text().to_owned();
        let entries = document::entries(&full);
        let is_known =
            |entry: &&document::Entry| self.0.contains(&entry.digest(&memory.path, &full));
        let known: Vec<_> = entries.iter().filter(is_known).collect();
        let had_entries = !memory.text.entries().is_empty();
        for entry in &known {
            memory.text.omit(entry.range.clone());
        }
        if had_entries { !memory.text.entries().is_empty() } else { known.len() < entries.len() }
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
