//! The catalog of all rules and patterns, with their lazily compiled regular expressions.
//!
//! Each pattern names words of which a match contains at least one. One pass searches for the words of all patterns.
//! The regular expression of a pattern is compiled only when one of its words occurs, cached for later texts, and tried
//! near the word. So a clean text costs one pass, and a process that checks a single text compiles very little. The
//! regular expressions run in linear time, so the cost of a pattern is bounded.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard};
use regex::bytes::Regex;

use super::multi_pattern::MultiPattern;
use super::pattern::{Pattern, PatternWindow, RuleHit};
use super::prose::Prose;
use super::{Rule, assignments, injection, invisible, secrets, services};
use crate::text::slice;

/// The patterns with their words and compiled expressions.
pub(super) struct Catalog {
    /// The words of all patterns.
    words: MultiPattern,
    patterns: Vec<(&'static Pattern, LazyRegex)>,
    rules: Vec<Rule>,
}

/// The regular expression of a pattern, compiled on first use and dropped by [`Catalog::drop_compiled`].
#[derive(Default)]
struct LazyRegex(Mutex<Option<Arc<Regex>>>);

/// The tables of patterns, in the order of the documentation.
const TABLES: [&[Pattern]; 4] =
    [secrets::PATTERNS, services::PATTERNS, assignments::PATTERNS, injection::PATTERNS];

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::build);

/// Returns every rule once, in the order of the tables.
pub(super) fn rules() -> &'static [Rule] {
    &CATALOG.rules
}

/// Returns the sources and words of all patterns, without compiling them.
pub(super) fn sources() -> String {
    let mut sources = String::new();
    for pattern in TABLES.into_iter().flatten() {
        sources.extend([pattern.rule.id, "\n", pattern.source, "\n"]);
        pattern.words.iter().for_each(|word| sources.extend([word, "\n"]));
    }
    sources
}

impl Catalog {
    /// Returns the catalog of this process.
    pub(super) fn get() -> &'static Self {
        &CATALOG
    }

    fn build() -> Self {
        let patterns: Vec<_> =
            TABLES.into_iter().flatten().map(|pattern| (pattern, LazyRegex::default())).collect();
        let words =
            MultiPattern::new(patterns.iter().enumerate().flat_map(|(index, (pattern, _))| {
                pattern.words.iter().map(move |word| (*word, index))
            }));
        let mut rules: Vec<Rule> = Vec::new();
        let invisible = invisible::RULES.iter().copied();
        for rule in patterns.iter().map(|(pattern, _)| pattern.rule).chain(invisible) {
            if !rules.iter().any(|known| known.id == rule.id) {
                rules.push(rule);
            }
        }
        Self { words, patterns, rules }
    }

    /// Drops the compiled expressions; they are compiled again when they are needed.
    pub(super) fn drop_compiled(&self) {
        self.patterns.iter().for_each(|(_, compiled)| *compiled.lock() = None);
    }

    /// Returns the number of patterns.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Returns the words of all patterns; their owners are the indexes of the patterns.
    pub(super) fn words(&self) -> &MultiPattern {
        &self.words
    }

    /// Returns the pattern with this index.
    pub(super) fn pattern(&self, index: usize) -> &'static Pattern {
        self.patterns[index].0
    }

    /// Adds the matches of a pattern in a window of the text.
    pub(super) fn run(
        &self,
        index: usize,
        text: &str,
        window: Range<usize>,
        hits: &mut Vec<RuleHit>,
    ) {
        let (pattern, compiled) = &self.patterns[index];
        let regex = Arc::clone(compiled.lock().get_or_insert_with(|| pattern.compile().into()));
        match pattern.reach {
            PatternWindow::Surrounding { .. } => {
                let prose = Prose::from_window(text, window);
                pattern.find(&regex, prose.text(), 0, |range| {
                    hits.push(RuleHit { rule: pattern.rule, range: prose.source(&range) });
                });
            }
            PatternWindow::Line | PatternWindow::ToEnd => {
                // Only the text after the window is cut: the text before it decides whether a word begins at its
                // start.
                let text = slice(text, ..window.end);
                pattern.find(&regex, text, window.start, |range| {
                    hits.push(RuleHit { rule: pattern.rule, range });
                });
            }
        }
    }
}

impl LazyRegex {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Regex>>> {
        self.0.lock()
    }
}
