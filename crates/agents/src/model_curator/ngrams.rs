//! Words in a row, by which one text is found in another.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use unicode_normalization::UnicodeNormalization as _;

/// The runs of so many words that some texts have, as hashes.
#[derive(Clone, Debug, Default)]
pub(crate) struct WordNgrams {
    hashes: HashSet<u64>,
    words_per_ngram: usize,
}

impl WordNgrams {
    /// Reads texts.
    pub(crate) fn from_texts<'a>(texts: impl IntoIterator<Item = &'a str>, words: usize) -> Self {
        let mut runs = HashSet::new();
        for text in texts {
            runs.extend(words_of(text).windows(words).map(hash));
        }
        Self { hashes: runs, words_per_ngram: words }
    }

    /// Returns the first run of a text that is one of these and none of those that are known.
    pub(crate) fn find_in(&self, text: &str, known: &[&Self]) -> Option<String> {
        let all = words_of(text);
        let mut runs = all.windows(self.words_per_ngram.max(1));
        let found = runs.find(|run| {
            let run = hash(run);
            self.hashes.contains(&run) && known.iter().all(|known| !known.hashes.contains(&run))
        });
        found.map(|run| run.join(" "))
    }
}

fn hash(run: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    run.hash(&mut hasher);
    hasher.finish()
}

/// Returns the words of a text in lower case, without signs and accents, also within a word; where words are not parted
/// by spaces, each pair of characters.
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
    fn a_run_is_found_whatever_signs_and_letters_it_is_written_with() {
        let runs = WordNgrams::from_texts(["Never drop a fact, and never make one vaguer."], 5);
        let found = runs.find_in("- NEVER: drop a fact\nand ...", &[]);
        assert_eq!(found.as_deref(), Some("never drop a fact and"));
        assert_eq!(runs.find_in("Never drop facts, and never make one.", &[]), None);
        let known = WordNgrams::from_texts(["never drop a fact and"], 5);
        assert_eq!(runs.find_in("Never drop a fact, and", &[&known]), None);
        assert_eq!(runs.find_in("short", &[]), None);
        assert!(runs.find_in("n*e*ver d_rop à fact, and", &[]).is_some());
        assert!(runs.find_in("never-drop-a-fact-and", &[]).is_some());
    }

    #[test]
    fn text_without_spaces_has_runs_too() {
        let runs = WordNgrams::from_texts(["私は東京の小さな会社で働いています"], 4);
        assert!(runs.find_in("私は東京の小さな会社", &[]).is_some());
        assert!(runs.find_in("彼が言うには、私は東京の小さな会社", &[]).is_some());
        assert!(runs.find_in("彼女は大阪で教えている", &[]).is_none());
    }
}
