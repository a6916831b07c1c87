//! Words in a row, by which one text is found in another.

use std::collections::HashSet;

/// The runs of so many words that some texts have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    runs: HashSet<String>,
    words: usize,
}

impl Runs {
    /// Reads texts.
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>, words: usize) -> Self {
        let mut runs = HashSet::new();
        for text in texts {
            let all = words_of(text);
            runs.extend(all.windows(words).map(|run| run.join(" ")));
        }
        Self { runs, words }
    }

    /// Returns the first run of a text that is one of these and none of those that are known.
    pub(crate) fn found_in(&self, text: &str, known: &[&Self]) -> Option<String> {
        let all = words_of(text);
        let mut runs = all.windows(self.words.max(1)).map(|run| run.join(" "));
        runs.find(|run| {
            self.runs.contains(run) && known.iter().all(|known| !known.runs.contains(run))
        })
    }
}

/// Returns the words of a text in lower case, without signs; where words are not parted by spaces, pairs of characters.
fn words_of(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        if word.chars().any(crate::embedded::is_unspaced) {
            let chars: Vec<char> = word.chars().collect();
            words.extend(chars.chunks(2).map(|pair| pair.iter().collect::<String>()));
        } else {
            words.push(word.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_whatever_signs_and_letters_it_is_written_with() {
        let runs = Runs::of(["Never drop a fact, and never make one vaguer."], 5);
        let found = runs.found_in("- NEVER: drop a fact\nand ...", &[]);
        assert_eq!(found.as_deref(), Some("never drop a fact and"));
        assert_eq!(runs.found_in("Never drop facts, and never make one.", &[]), None);
        let known = Runs::of(["never drop a fact and"], 5);
        assert_eq!(runs.found_in("Never drop a fact, and", &[&known]), None);
        assert_eq!(runs.found_in("short", &[]), None);
    }

    #[test]
    fn text_without_spaces_has_runs_too() {
        let runs = Runs::of(["私は東京の小さな会社で働いています"], 4);
        assert!(runs.found_in("私は東京の小さな会社", &[]).is_some());
        assert!(runs.found_in("私は大阪の会社で働いて", &[]).is_none());
    }
}
