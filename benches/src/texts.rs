//! A generator of pseudorandom texts: memories and prompts, the same in each run.
//!
//! Their words are English, with a few frequent ones as in real texts, so that searches have some matches and not all.

/// Number of different words in the texts.
const WORDS: usize = 6_000;
/// Words of an entry.
const ENTRY_WORDS: usize = 9;

/// A generator of texts.
#[derive(Debug)]
pub(crate) struct TextGenerator {
    words: Vec<String>,
    state: u64,
}

impl TextGenerator {
    pub(crate) fn new() -> Self {
        // The table begins with numbers; its words follow, one a line.
        let table = String::from_utf8_lossy(include_bytes!("../../crates/recall/data/tokens.qtv"));
        let is_word =
            |line: &&str| line.len() > 3 && line.bytes().all(|byte| byte.is_ascii_lowercase());
        let words: Vec<String> = table.lines().filter(is_word).map(str::to_owned).collect();
        // A stride that shares no divisor with the count takes the words out of alphabetical order.
        let shuffled = (0..WORDS).map(|number| words[number * 7_919 % words.len()].clone());
        Self { words: shuffled.collect(), state: 7 }
    }

    /// Returns a number below `end`; small ones are much more frequent.
    fn below(&mut self, end: usize) -> usize {
        // Knuth's constants for a linear congruential generator.
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let chance = usize::try_from(self.state >> 44).unwrap_or(0);
        let most = 1 << 20;
        // The cube of a uniform number: the first eighth of the words makes half of the text.
        chance * chance / most * chance / most * end / most
    }

    /// Returns `count` words, separated by spaces.
    pub(crate) fn words(&mut self, count: usize) -> String {
        let indexes: Vec<usize> = (0..count).map(|_| self.below(WORDS)).collect();
        indexes.into_iter().map(|index| self.words[index].as_str()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the text of a memory about `topic` with `entries` entries, the first of which is `first`.
    pub(crate) fn memory(&mut self, topic: &str, first: &str, entries: usize) -> String {
        let head = format!("---\nname: {}\ndescription: {topic}\n---\n\n{first}", self.words(2));
        let others = (1..entries).map(|_| format!("- {}\n", self.words(ENTRY_WORDS)));
        let others: Vec<String> = others.collect();
        head + &others.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_generates_the_same_texts() {
        let generate = || {
            let mut texts = TextGenerator::new();
            (texts.words(5), texts.memory("a topic", "- first\n", 3))
        };
        let (words, memory) = generate();
        assert_eq!(generate(), (words.clone(), memory.clone()));
        assert_eq!(words.split(' ').count(), 5);
        assert!(memory.contains("description: a topic\n---\n\n- first\n- "), "{memory}");
        assert_eq!(memory.matches("\n- ").count(), 3);
    }
}
