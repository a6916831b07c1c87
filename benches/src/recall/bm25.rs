//! Plain BM25 over whole texts: the baseline that recall is compared with.
//!
//! Words are runs of letters, digits and underscores in lower case. There are no stop words, no stems and no vectors.

use std::collections::HashMap;

/// The usual parameters: saturation of repeated words, and the penalty of long texts.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// An index of texts.
#[derive(Debug, Default)]
pub(crate) struct Bm25 {
    /// Number of times that each word occurs in each text.
    counts: Vec<HashMap<String, f64>>,
    lengths: Vec<f64>,
    /// Number of texts that have a word.
    frequencies: HashMap<String, f64>,
}

impl Bm25 {
    /// Indexes texts.
    pub(crate) fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut index = Self::default();
        for text in texts {
            let mut counts: HashMap<String, f64> = HashMap::new();
            for word in words(text) {
                *counts.entry(word).or_default() += 1.0;
            }
            index.lengths.push(counts.values().sum());
            for word in counts.keys() {
                *index.frequencies.entry(word.clone()).or_default() += 1.0;
            }
            index.counts.push(counts);
        }
        index
    }

    /// Returns the texts that share a word with a prompt, by number, the best first; equal ones in their order.
    pub(crate) fn rank(&self, prompt: &str) -> Vec<usize> {
        let all = self.lengths.iter().map(|_| 1.0).sum::<f64>();
        let average = (self.lengths.iter().sum::<f64>() / all.max(1.0)).max(1.0);
        let mut words: Vec<String> = words(prompt).collect();
        words.sort();
        words.dedup();
        let score = |(counts, length): (&HashMap<String, f64>, &f64)| -> f64 {
            let of_word = |word: &String| {
                let (count, has) = (*counts.get(word)?, self.frequencies[word]);
                let rarity = (1.0 + (all - has + 0.5) / (has + 0.5)).ln();
                let penalty = K1 * (1.0 - B + B * length / average);
                Some(rarity * count * (K1 + 1.0) / (count + penalty))
            };
            words.iter().filter_map(of_word).sum()
        };
        let mut scores: Vec<(usize, f64)> =
            self.counts.iter().zip(&self.lengths).map(score).enumerate().collect();
        scores.retain(|(_, score)| *score > 0.0);
        scores.sort_by(|a, b| b.1.total_cmp(&a.1));
        scores.into_iter().map(|(text, _)| text).collect()
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let text = text.to_lowercase();
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect();
    words.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rare_word_counts_more_than_a_frequent_one() {
        let index = Bm25::new(["the pier and the tide", "the pier", "the ferry", "tide"]);
        assert_eq!(index.rank("the ferry"), [2, 1, 0]);
        assert_eq!(index.rank("Tide?"), [3, 0]);
        assert_eq!(index.rank("anchor"), [0; 0]);
    }
}
