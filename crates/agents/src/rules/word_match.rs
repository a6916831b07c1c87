//! Finds the words of a request in entries: in the same form, by their stems, or with a typo.
//!
//! Most entries share no word with a request, and most words occur in many entries. Therefore each different word is
//! compared once, by its fingerprint.

use super::fingerprints::{Fingerprint, FingerprintMap, TokenFingerprint, is_selection_enabled};
use super::snapshot::ParsedEntry;
use super::tokenize::{TextToken, TokenizedText, is_unspaced};

/// Minimum length of a word that may be misspelled, in characters.
pub(crate) const TYPO_CHARS_MIN: usize = 5;

/// Finds words of a request in entries. Each different word of the entries is compared only once.
pub(crate) struct EntryWords<'q> {
    /// Words of the request.
    words: &'q [TextToken],
    /// Index in `matches` by the fingerprints of an entry's word and its key.
    by_word: FingerprintMap<(Fingerprint, Fingerprint), usize>,
    /// Matching words of the request; none for most words.
    matches: Vec<Vec<WordMatch>>,
}

/// A word of a request that an entry has in some form: by its stem, or with a typo.
#[derive(Clone, Copy)]
struct WordMatch {
    /// Index of the word in the request.
    index: usize,
    /// Whether it is the same word, apart from capitals.
    has_same_letters: bool,
}

impl<'q> EntryWords<'q> {
    /// Creates a search for these words.
    pub(crate) fn new(words: &'q [TextToken]) -> Self {
        Self { words, by_word: FingerprintMap::default(), matches: Vec::new() }
    }

    /// Returns the words of the request.
    pub(crate) const fn words(&self) -> &'q [TextToken] {
        self.words
    }

    /// Checks whether an entry has all words in some form.
    pub(crate) fn has_all_in_any_form(&mut self, entry: &ParsedEntry) -> bool {
        self.in_any_form(entry).len() == self.words.len()
    }

    /// Returns the words of the request that a token of an entry matches.
    fn matches(&mut self, entry: &ParsedEntry, token: &TokenFingerprint) -> &[WordMatch] {
        let index = *self.by_word.entry((token.word, token.key)).or_insert_with(|| {
            self.matches.push(compare_token(self.words, entry, token));
            self.matches.len() - 1
        });
        &self.matches[index]
    }

    /// Returns the indexes of the words that an entry has in some form, in order.
    pub(crate) fn in_any_form(&mut self, entry: &ParsedEntry) -> Vec<usize> {
        if !is_selection_enabled() {
            let text = entry.tokenize();
            let is_found = |index: &usize| has_in_any_form(&text, &self.words[*index]);
            return (0..self.words.len()).filter(is_found).collect();
        }
        let mut found = Vec::new();
        for token in &entry.fingerprints().statement {
            let matches = self.matches(entry, token).iter();
            found.extend(matches.map(|word| word.index));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Checks the necessary condition of [`is_same_word`] for each word and some token of the entry.
    pub(crate) fn may_have_all(&mut self, entry: &ParsedEntry) -> bool {
        if !is_selection_enabled() {
            return true;
        }
        let mut found = Vec::new();
        for token in entry.fingerprints().whole() {
            let matches = self.matches(entry, token).iter();
            found.extend(matches.filter(|word| word.has_same_letters).map(|word| word.index));
        }
        found.sort_unstable();
        found.dedup();
        found.len() == self.words.len()
    }
}

/// Returns the words that a token of an entry matches.
fn compare_token(
    words: &[TextToken],
    entry: &ParsedEntry,
    token: &TokenFingerprint,
) -> Vec<WordMatch> {
    // The statement is the beginning of the whole entry, so its tokens have the same ranges there.
    let spelling = token.word_in(entry.full_text()).unwrap_or_else(|| {
        let tokens = TokenizedText::tokenize(entry.full_text()).tokens.into_iter();
        let mut tokens = tokens.chain(entry.tokenize().tokens);
        let same = tokens.find(|other| Fingerprint::of(&other.word) == token.word);
        same.expect("the entry has its tokens").word
    });
    let compare = |(index, word): (usize, &TextToken)| {
        let has_same_letters = has_same_letters(&word.word, &spelling);
        let is_any_form = has_same_letters
            || Fingerprint::of(&word.key) == token.key
            || is_typo(&word.word, &spelling);
        is_any_form.then_some(WordMatch { index, has_same_letters })
    };
    words.iter().enumerate().filter_map(compare).collect()
}

/// Checks whether a text has a word in some form: by its stem, or with a typo.
fn has_in_any_form(text: &TokenizedText, word: &TextToken) -> bool {
    text.tokens.iter().any(|token| {
        token.key == word.key
            || is_same_word(word, token)
            || token.word == word.word
            || is_typo(&word.word, &token.word)
    })
}

/// Checks whether two words have a long common beginning, or differ by a typo: one letter, or two swapped.
fn is_typo(a: &str, b: &str) -> bool {
    let (a_chars, b_chars) = (a.chars().count(), b.chars().count());
    let (long, short) = (a_chars.max(b_chars), a_chars.min(b_chars));
    let common = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    // In a script with one character per syllable, words have fewer characters.
    let short_min = if a.is_ascii() { TYPO_CHARS_MIN } else { 2 };
    let begins_alike = common >= short_min && common * 5 >= long * 3;
    let typos_max = 1 + long / 9;
    begins_alike
        || (short >= TYPO_CHARS_MIN
            && long - short <= typos_max
            && typos_min(a, b) <= typos_max
            && strsim::damerau_levenshtein(a, b) <= typos_max)
}

/// Returns a lower bound of the edit distance, which takes much longer to compute: the number of letters that one
/// word has and the other lacks. It is 0 for words with other letters than ASCII.
fn typos_min(a: &str, b: &str) -> usize {
    if !a.is_ascii() || !b.is_ascii() {
        return 0;
    }
    let mut counts = [0_i32; 128];
    a.bytes().for_each(|letter| counts[usize::from(letter)] += 1);
    b.bytes().for_each(|letter| counts[usize::from(letter)] -= 1);
    let missing = |sign: i32| counts.iter().map(|count| (sign * count).max(0)).sum::<i32>();
    usize::try_from(missing(1).max(missing(-1))).unwrap_or_default()
}

/// Checks whether two words are the same, in the same form. Capitals matter if either is an acronym: `US` and `us`.
pub(crate) fn is_same_word(word: &TextToken, other: &TextToken) -> bool {
    // `Go` is not the `go` of a sentence; the first word may be either.
    let is_other_case = word.is_name && !other.is_name && other.range.start > 0;
    has_same_letters(&word.word, &other.word)
        && (is_unspaced_word(&word.word) || (word.is_acronym == other.is_acronym && !is_other_case))
}

/// Checks whether two words are the same, apart from capitals. In a script without spaces one may contain the other.
fn has_same_letters(word: &str, other: &str) -> bool {
    if is_unspaced_word(word) {
        other.contains(word) || word.contains(other) && other.chars().count() > 1
    } else {
        word == other
    }
}

fn is_unspaced_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(is_unspaced)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn two_words_have_at_least_as_many_typos_as_letters_of_only_one(
            a in "[a-d0-1é]{0,9}",
            b in "[a-d0-1é]{0,9}",
        ) {
            prop_assert!(typos_min(&a, &b) <= strsim::damerau_levenshtein(&a, &b));
        }
    }
}
