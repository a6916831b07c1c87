//! Every rule and pattern in one table, made ready once.
//!
//! A pattern names words of which one must be in a text before the pattern can match. All words of
//! all patterns are looked for in one pass; only then is the pattern's regular expression compiled,
//! kept for the next text, and tried near the words that were found. So a clean text costs one pass, and a process
//! that checks a single text compiles next to nothing. What a pattern costs is bounded: the regular
//! expressions are of the kind that runs in linear time.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard};
use regex::bytes::Regex;

use super::multi_pattern::MultiPattern;
use super::pattern::{Pattern, PatternWindow, RuleHit};
use super::prose::Prose;
use super::{Rule, assignments, injection, invisible, secrets, services};
use crate::text::slice;

/// The patterns, made ready.
pub(super) struct Catalog {
    /// The words of all patterns.
    words: MultiPattern,
    patterns: Vec<(&'static Pattern, LazyRegex)>,
    rules: Vec<Rule>,
}

/// A pattern's regular expression, while it is needed.
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

/// Returns what all patterns look for, one after the other; makes nothing ready.
pub(super) fn sources() -> String {
    let mut sources = String::new();
    for pattern in TABLES.into_iter().flatten() {
        sources.extend([pattern.rule.id, "\n", pattern.source, "\n"]);
        pattern.words.iter().for_each(|word| sources.extend([word, "\n"]));
    }
    sources
}

impl Catalog {
    /// Returns the one catalog of this process.
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

    /// Lets go of what was compiled: it is compiled again when a text needs it.
    pub(super) fn drop_compiled(&self) {
        self.patterns.iter().for_each(|(_, compiled)| *compiled.lock() = None);
    }

    /// Returns how many patterns there are.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Returns the words of all patterns; their owners are the indexes of the patterns.
    pub(super) fn words(&self) -> &MultiPattern {
        &self.words
    }

    /// Returns one of the patterns.
    pub(super) fn pattern(&self, index: usize) -> &'static Pattern {
        self.patterns[index].0
    }

    /// Adds what a pattern finds in a window of the text.
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
                // The text is cut behind the window only: what stands before it decides whether a
                // word begins there.
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
