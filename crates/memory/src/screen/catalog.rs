//! Every rule and pattern in one table, made ready once.
//!
//! A pattern names words of which one must be in a text before the pattern can match. All words of
//! all patterns are looked for in one pass; only then is the pattern's regular expression compiled,
//! once, and tried near the words that were found. So a clean text costs one pass, and a process
//! that checks a single text compiles next to nothing. What a pattern costs is bounded: the regular
//! expressions are of the kind that runs in linear time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::{Captures, Regex};

use super::scan::Hit;
use super::{Rule, injection, invisible, secrets, values};

/// How much of the text around a word a pattern is tried on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// The lines that the word is on.
    Line,
    /// Some bytes before and after the word, over line breaks.
    Near { before: usize, after: usize },
    /// From the word to the end of the text.
    Rest,
}

/// One shape that a rule looks for. A rule may have several.
pub(super) struct Pattern {
    /// The rule that is broken.
    pub(super) rule: Rule,
    /// Lower-case words of which a match holds at least one; found in either case of ASCII.
    pub(super) words: &'static [&'static str],
    /// The regular expression. `\b` is a boundary of ASCII words, so that a token may stand
    /// directly behind a letter of another script. In prose, a space is any white space or markup.
    pub(super) source: &'static str,
    /// Where it is tried.
    pub(super) reach: Reach,
    /// Returns the part of a match to report, or `None` when it is harmless after all.
    pub(super) judge: fn(&Captures<'_>) -> Option<Range<usize>>,
}

/// What stands between two words of prose: white space, and markup that a reader looks past.
const BETWEEN_WORDS: &str = r#"(?-u:[\s*_"'`>|,~#/\\-])+"#;

/// The patterns, made ready.
pub(super) struct Catalog {
    /// Finds the words of all patterns at once.
    finder: AhoCorasick,
    /// For each word, the patterns that asked for it.
    owners: Vec<Vec<usize>>,
    patterns: Vec<(&'static Pattern, OnceLock<Regex>)>,
    rules: Vec<Rule>,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::build);

/// Returns every rule once, in the order of the tables.
pub(super) fn rules() -> &'static [Rule] {
    &CATALOG.rules
}

impl Catalog {
    /// Returns the one catalog of this process.
    pub(super) fn get() -> &'static Self {
        &CATALOG
    }

    #[expect(clippy::expect_used, reason = "the words are constants, and a test builds from them")]
    fn build() -> Self {
        let patterns: Vec<_> = [secrets::PATTERNS, values::PATTERNS, injection::PATTERNS]
            .into_iter()
            .flatten()
            .map(|pattern| (pattern, OnceLock::new()))
            .collect();
        let mut owners_by_word: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, (pattern, _)) in patterns.iter().enumerate() {
            for word in pattern.words {
                owners_by_word.entry(word).or_default().push(index);
            }
        }
        let (words, owners): (Vec<_>, Vec<_>) = owners_by_word.into_iter().unzip();
        let finder = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .kind(Some(AhoCorasickKind::DFA))
            .build(words)
            .expect("the words fit an automaton");
        let mut rules: Vec<Rule> = Vec::new();
        let invisible = invisible::RULES.iter().copied();
        for rule in patterns.iter().map(|(pattern, _)| pattern.rule).chain(invisible) {
            if !rules.iter().any(|known| known.id == rule.id) {
                rules.push(rule);
            }
        }
        Self { finder, owners, patterns, rules }
    }

    /// Returns how many patterns there are.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Calls `found` for each place of a word and each pattern that asked for it, places in order
    /// of their ends.
    pub(super) fn each_word(&self, text: &str, mut found: impl FnMut(usize, Range<usize>)) {
        for word in self.finder.find_overlapping_iter(text) {
            for &pattern in &self.owners[word.pattern().as_usize()] {
                found(pattern, word.range());
            }
        }
    }

    /// Returns one of the patterns.
    pub(super) fn pattern(&self, index: usize) -> &'static Pattern {
        self.patterns[index].0
    }

    /// Adds what a pattern finds in a window of the text.
    pub(super) fn run(&self, index: usize, text: &str, window: Range<usize>, hits: &mut Vec<Hit>) {
        let (pattern, regex) = &self.patterns[index];
        let regex = regex.get_or_init(|| pattern.compile());
        // The text is cut behind the window only: what stands before it decides whether a word
        // begins there.
        let text = text.get(..window.end).unwrap_or_default();
        let mut position = window.start;
        while let Some(found) = regex.captures_at(text, position) {
            let Some(all) = found.get(0).filter(|all| !all.is_empty()) else { break };
            position = all.end();
            hits.extend((pattern.judge)(&found).map(|range| Hit { rule: pattern.rule, range }));
        }
    }
}

impl Pattern {
    #[expect(clippy::expect_used, reason = "the sources are constants, and a test compiles all")]
    fn compile(&self) -> Regex {
        let mut source = self.source.replace(r"\b", r"(?-u:\b)");
        if let Reach::Near { .. } = self.reach {
            source = source.replace(' ', BETWEEN_WORDS);
        }
        Regex::new(&source).expect("the source is a regular expression")
    }
}

/// Judges a match by nothing more: all of it is reported.
pub(super) fn whole(found: &Captures<'_>) -> Option<Range<usize>> {
    found.get(0).map(|all| all.range())
}
