//! Every rule and pattern in one table, made ready once.
//!
//! A pattern names words of which one must be in a text before the pattern can match. All words of
//! all patterns are looked for in one pass; only then is the pattern's regular expression compiled,
//! kept for the next text, and tried near the words that were found. So a clean text costs one pass, and a process
//! that checks a single text compiles next to nothing. What a pattern costs is bounded: the regular
//! expressions are of the kind that runs in linear time.

use std::ops::Range;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::prose::Prose;
use super::scan::Hit;
use super::words::Words;
use super::{Rule, injection, invisible, secrets, services, values};
use crate::text::slice;

/// How much of the text around a word a pattern is tried on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// The lines that the word is on.
    Line,
    /// Some bytes before and after the word, over line breaks, as prose.
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
    /// The regular expression, over bytes: classes and `\b` mean those of ASCII, so that a token may
    /// stand directly behind a letter of another script. In prose it is matched against plain
    /// writing ([`Prose`]), and a space also means a line break.
    pub(super) source: &'static str,
    /// Where it is tried.
    pub(super) reach: Reach,
    /// Returns the part of a match to report, or `None` when it is harmless after all.
    pub(super) judge: fn(&Found<'_>) -> Option<Range<usize>>,
}

/// A match of a pattern.
pub(super) struct Found<'t> {
    text: &'t str,
    groups: Captures<'t>,
}

impl<'t> Found<'t> {
    /// Returns what a group of the pattern took and where, group 0 being all of the match.
    ///
    /// Patterns count bytes, so an edge may fall into a character; it is then moved outwards.
    pub(super) fn group(&self, index: usize) -> Option<(&'t str, Range<usize>)> {
        let range = self.groups.get(index)?.range();
        let start = self.text.floor_char_boundary(range.start);
        let end = self.text.ceil_char_boundary(range.end);
        Some((self.text.get(start..end)?, start..end))
    }

    /// Returns what stands before a range on its line.
    pub(super) fn line_before(&self, range: &Range<usize>) -> &'t str {
        let before = slice(self.text, ..range.start);
        before.rsplit('\n').next().unwrap_or_default()
    }
}

/// The patterns, made ready.
pub(super) struct Catalog {
    /// The words of all patterns.
    words: Words,
    patterns: Vec<(&'static Pattern, Compiled)>,
    rules: Vec<Rule>,
}

/// A pattern's regular expression, while it is needed.
#[derive(Default)]
struct Compiled(Mutex<Option<Arc<Regex>>>);

/// The tables of patterns, in the order of the documentation.
const TABLES: [&[Pattern]; 4] =
    [secrets::PATTERNS, services::PATTERNS, values::PATTERNS, injection::PATTERNS];

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
            TABLES.into_iter().flatten().map(|pattern| (pattern, Compiled::default())).collect();
        let words = Words::new(patterns.iter().enumerate().flat_map(|(index, (pattern, _))| {
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
    pub(super) fn rest(&self) {
        self.patterns.iter().for_each(|(_, compiled)| *compiled.lock() = None);
    }

    /// Returns how many patterns there are.
    pub(super) fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Returns the words of all patterns; their owners are the indexes of the patterns.
    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Returns one of the patterns.
    pub(super) fn pattern(&self, index: usize) -> &'static Pattern {
        self.patterns[index].0
    }

    /// Adds what a pattern finds in a window of the text.
    pub(super) fn run(&self, index: usize, text: &str, window: Range<usize>, hits: &mut Vec<Hit>) {
        let (pattern, compiled) = &self.patterns[index];
        let regex = Arc::clone(compiled.lock().get_or_insert_with(|| pattern.compile().into()));
        match pattern.reach {
            Reach::Near { .. } => {
                let prose = Prose::of(text, window);
                pattern.find(&regex, prose.text(), 0, |range| {
                    hits.push(Hit { rule: pattern.rule, range: prose.source(&range) });
                });
            }
            Reach::Line | Reach::Rest => {
                // The text is cut behind the window only: what stands before it decides whether a
                // word begins there.
                let text = slice(text, ..window.end);
                pattern.find(&regex, text, window.start, |range| {
                    hits.push(Hit { rule: pattern.rule, range });
                });
            }
        }
    }
}

impl Compiled {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Regex>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pattern {
    /// Calls `report` with what the pattern objects to from a position on.
    fn find(
        &self,
        regex: &Regex,
        text: &str,
        mut position: usize,
        mut report: impl FnMut(Range<usize>),
    ) {
        while let Some(groups) = regex.captures_at(text.as_bytes(), position) {
            let Some(all) = groups.get(0).filter(|all| !all.is_empty()) else { break };
            position = all.end();
            if let Some(range) = (self.judge)(&Found { text, groups }) {
                report(range);
            }
        }
    }

    fn compile(&self) -> Regex {
        let source = match self.reach {
            Reach::Near { .. } => self.source.replace(' ', r"[ \n]"),
            Reach::Line | Reach::Rest => self.source.to_owned(),
        };
        let regex = RegexBuilder::new(&source).unicode(false).build();
        regex.expect("the source is a regular expression")
    }
}

/// Judges a match by nothing more: all of it is reported.
pub(super) fn whole(found: &Found<'_>) -> Option<Range<usize>> {
    found.group(0).map(|(_, range)| range)
}
