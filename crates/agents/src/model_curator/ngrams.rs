//! Word n-grams, to find a passage of one text in another.
//!
//! Used to keep prompt text out of memories and private text out of shared ones. Matching ignores case, accents and
//! punctuation, so that a disguised passage is found too. Only hashes are stored.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use unicode_normalization::UnicodeNormalization as _;

/// The n-grams of some texts, as hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordNgrams {
    hashes: HashSet<u64>,
    words_per_ngram: usize,
}

impl WordNgrams {
    /// Collects the n-grams of texts.
    pub(crate) fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>, words: usize) -> Self {
        let mut hashes = HashSet::new();
        for text in texts {
            hashes.extend(words_of(text).windows(words).map(hash));
        }
        Self { hashes, words_per_ngram: words }
    }

    /// Returns the first n-gram of a text that is in this set and in none of the others.
    pub(crate) fn find_in(&self, text: &str, except: &[&Self]) -> Option<String> {
        let all = words_of(text);
        let mut ngrams = all.windows(self.words_per_ngram.max(1));
        let found = ngrams.find(|ngram| {
            let hash = hash(ngram);
            self.hashes.contains(&hash) && except.iter().all(|other| !other.hashes.contains(&hash))
        });
        found.map(|ngram| ngram.join(" "))
    }
}

fn hash(ngram: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    ngram.hash(&mut hasher);
    hasher.finish()
}

/// Returns the words of a text in lower case, without punctuation and accents, also within a word. In scripts
/// without spaces each pair of characters is a word.
fn words_of(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || "-/—–".contains(c)) {
        let letters: String = word.nfkd().filter(|c| c.is_alphanumeric()).collect();
        let letters = letters.to_lowercase();
        if letters.chars().any(crate::rules::is_unspaced) {
            let chars: Vec<char> = letters.chars().collect();
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if !letters.is_empty() {
            words.push(letters);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ngram_is_found_despite_punctuation_case_and_accents() {
        let ngrams = WordNgrams::from_texts(["Never drop a fact, and never make one vaguer."], 5);
        let found = ngrams.find_in("- NEVER: drop a fact\nand ...", &[]);
        assert_eq!(found.as_deref(), Some("never drop a fact and"));
        assert_eq!(ngrams.find_in("Never drop facts, and never make one.", &[]), None);
        let known = WordNgrams::from_texts(["never drop a fact and"], 5);
        assert_eq!(ngrams.find_in("Never drop a fact, and", &[&known]), None);
        assert_eq!(ngrams.find_in("short", &[]), None);
        assert!(ngrams.find_in("n*e*ver d_rop à fact, and", &[]).is_some());
        assert!(ngrams.find_in("never-drop-a-fact-and", &[]).is_some());
    }

    #[test]
    fn text_without_spaces_has_ngrams_too() {
        let ngrams = WordNgrams::from_texts(["私は東京の小さな会社で働いています"], 4);
        assert!(ngrams.find_in("私は東京の小さな会社", &[]).is_some());
        assert!(ngrams.find_in("彼が言うには、私は東京の小さな会社", &[]).is_some());
        assert!(ngrams.find_in("彼女は大阪で教えている", &[]).is_none());
    }
}
