//! Patterns: the regular expression of a rule, the window in which it is tried, and its matches.
//!
//! A pattern also has words of which every match contains one, so that it is tried only near those words, and a
//! function that decides whether a match is reported. [`scan`](super::scan) selects the windows.

use std::ops::Range;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::Rule;
use crate::text::slice;

/// A rule with the range that it matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleHit {
    pub(super) rule: Rule,
    pub(super) range: Range<usize>,
}

/// The window around a word in which a pattern is tried.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternWindow {
    /// The lines that the word is on.
    Line,
    /// Some bytes before and after the word, across line breaks, as prose.
    Surrounding { before: usize, after: usize },
    /// From the word to the end of the text.
    ToEnd,
}

/// A pattern of a rule. A rule may have several.
pub(super) struct Pattern {
    /// The rule that the pattern belongs to.
    pub(super) rule: Rule,
    /// Lower-case words of which every match contains at least one, ignoring the case of ASCII letters.
    pub(super) words: &'static [&'static str],
    /// The regular expression over bytes. Classes and `\b` are those of ASCII, so that a token may directly follow a
    /// letter of another script. For prose it is matched against normalized text ([`Prose`](super::prose::Prose)), in
    /// which a space also matches a line break.
    pub(super) source: &'static str,
    /// The window in which the pattern is tried.
    pub(super) reach: PatternWindow,
    /// Returns the part of a match to report, or `None` if the match is harmless.
    pub(super) judge: fn(&PatternMatch<'_>) -> Option<Range<usize>>,
}

/// A match of a pattern.
pub(super) struct PatternMatch<'t> {
    text: &'t str,
    groups: Captures<'t>,
}

impl<'t> PatternMatch<'t> {
    /// Returns the text and the range of a group of the pattern; group 0 is the whole match.
    ///
    /// Patterns match bytes, so an end may be inside of a character; it is then moved outwards.
    pub(super) fn group(&self, index: usize) -> Option<(&'t str, Range<usize>)> {
        let range = self.groups.get(index)?.range();
        let start = self.text.floor_char_boundary(range.start);
        let end = self.text.ceil_char_boundary(range.end);
        Some((self.text.get(start..end)?, start..end))
    }

    /// Returns the text before a range on its line.
    pub(super) fn line_before(&self, range: &Range<usize>) -> &'t str {
        let before = slice(self.text, ..range.start);
        before.rsplit('\n').next().unwrap_or_default()
    }
}

impl Pattern {
    /// Calls `report` with each reported match from an offset on.
    pub(super) fn find(
        &self,
        regex: &Regex,
        text: &str,
        mut position: usize,
        mut report: impl FnMut(Range<usize>),
    ) {
        while let Some(groups) = regex.captures_at(text.as_bytes(), position) {
            let Some(all) = groups.get(0).filter(|all| !all.is_empty()) else { break };
            position = all.end();
            if let Some(range) = (self.judge)(&PatternMatch { text, groups }) {
                report(range);
            }
        }
    }

    pub(super) fn compile(&self) -> Regex {
        let source = match self.reach {
            PatternWindow::Surrounding { .. } => self.source.replace(' ', r"[ \n]"),
            PatternWindow::Line | PatternWindow::ToEnd => self.source.to_owned(),
        };
        let regex = RegexBuilder::new(&source).unicode(false).build();
        regex.expect("the source must be a regular expression")
    }
}

/// Reports the whole match without further checks.
pub(super) fn whole_match(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    found.group(0).map(|(_, range)| range)
}
