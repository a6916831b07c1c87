//! The system prompts of the agents, and a check that keeps prompt text out of memories.
//!
//! The prompts are Markdown files in `prompts/`. The check compares runs of words: a new text may not repeat a run from a
//! prompt that the text before it did not have.

use std::sync::LazyLock;

use super::ngrams::WordNgrams;

/// System prompt for remembering.
pub(super) const REMEMBER: &str = include_str!("prompts/remember.md");

/// System prompt for forgetting.
pub(super) const FORGET: &str = include_str!("prompts/forget.md");

/// System prompt for dreams.
pub(super) const DREAM: &str = include_str!("prompts/dream.md");

/// System prompt for reviews.
pub(super) const REVIEW: &str = include_str!("prompts/review.md");
/// System prompt for selecting memories to recall.
pub(super) const RECALL: &str = include_str!("prompts/recall.md");

/// Number of consecutive words that no memory may share with a prompt.
const PROMPT_NGRAM_WORDS: usize = 8;

static PROMPT_NGRAMS: LazyLock<WordNgrams> = LazyLock::new(|| {
    WordNgrams::from_texts([REMEMBER, FORGET, DREAM, REVIEW, RECALL], PROMPT_NGRAM_WORDS)
});

/// Checks whether a text repeats words of a prompt.
pub(crate) fn quotes_prompt(text: &str) -> bool {
    quoted_prompt_words("", text).is_some()
}

/// Returns words that the new text repeats from a prompt and the old text did not have.
pub(crate) fn quoted_prompt_words(before: &str, after: &str) -> Option<String> {
    let existing = WordNgrams::from_texts([before], PROMPT_NGRAM_WORDS);
    PROMPT_NGRAMS.find_in(after, &[&existing])
}
