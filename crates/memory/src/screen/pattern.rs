//! What a rule looks for: a pattern, where it is tried, and what it finds.

use std::ops::Range;

use regex::bytes::{Captures, Regex, RegexBuilder};

use super::Rule;
use crate::text::slice;

/// A rule and the bytes that break it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleHit {
    pub(super) rule: Rule,
    pub(super) range: Range<usize>,
}

/// How much of the text around a word a pattern is tried on.
#[derive(Clone, Copy, Debug)]
pub(super) enum PatternWindow {
    /// The lines that the word is on.
    Line,
    /// Some bytes before and after the word, over line breaks, as prose.
    Surrounding { before: usize, after: usize },
    /// From the word to the end of the text.
    ToEnd,
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
    pub(super) reach: PatternWindow,
    /// Returns the part of a match to report, or `None` when it is harmless after all.
    pub(super) judge: fn(&PatternMatch<'_>) -> Option<Range<usize>>,
}

/// A match of a pattern.
pub(super) struct PatternMatch<'t> {
    text: &'t str,
    groups: Captures<'t>,
}

impl<'t> PatternMatch<'t> {
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

impl Pattern {
    /// Calls `report` with what the pattern objects to from a position on.
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
        regex.expect("the source is a regular expression")
    }
}

/// Judges a match by nothing more: all of it is reported.
pub(super) fn whole_match(found: &PatternMatch<'_>) -> Option<Range<usize>> {
    found.group(0).map(|(_, range)| range)
}
