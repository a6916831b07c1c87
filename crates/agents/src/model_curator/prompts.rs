//! What models are told about their work, and a guard that none of it becomes a memory.

use std::sync::LazyLock;

use super::ngrams::WordNgrams;

/// What a model that remembers is told.
pub(super) const REMEMBER: &str = include_str!("prompts/remember.md");

/// What a model that forgets is told.
pub(super) const FORGET: &str = include_str!("prompts/forget.md");

/// What a model that dreams is told.
pub(super) const DREAM: &str = include_str!("prompts/dream.md");

/// What a model that reviews a conversation is told.
pub(super) const REVIEW: &str = include_str!("prompts/review.md");
/// What a model that chooses what is recalled is told.
pub(super) const RECALL: &str = include_str!("prompts/recall.md");

/// Words in a row that no memory shares with a prompt.
const PROMPT_NGRAM_WORDS: usize = 8;

static PROMPT_NGRAMS: LazyLock<WordNgrams> = LazyLock::new(|| {
    WordNgrams::from_texts([REMEMBER, FORGET, DREAM, REVIEW, RECALL], PROMPT_NGRAM_WORDS)
});

/// Tells whether a text repeats words that stand in a prompt.
pub(crate) fn quotes_prompt(text: &str) -> bool {
    quoted_prompt_words("", text).is_some()
}

/// Returns words of a text that stand in a prompt, and not in what it was before.
pub(crate) fn quoted_prompt_words(before: &str, after: &str) -> Option<String> {
    let known = WordNgrams::from_texts([before], PROMPT_NGRAM_WORDS);
    PROMPT_NGRAMS.find_in(after, &[&known])
}
