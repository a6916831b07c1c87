//! Runs the rules over a text.
//!
//! The text is scanned with look-alikes and invisible characters folded, and once more unfolded if folding could hide a
//! match. A pattern is tried only on windows around its words; adjacent windows are merged. So every pattern sees each
//! byte at most once per scan, and the cost of a hostile text is at most its length times the number of patterns.

use std::collections::HashMap;
use std::ops::Range;

use super::catalog::Catalog;
use super::normalize::FoldedText;
use super::pattern::{PatternWindow, RuleHit};
use super::{Family, assignments, invisible, report, tables};
use crate::text::slice;

/// Returns all matches of the rules, sorted by position, without duplicates.
pub(super) fn hits(text: &str) -> Vec<RuleHit> {
    let mut hits = match FoldedText::fold(text) {
        None => matches(text),
        Some(folded) => {
            let mut hits = matches(folded.text());
            for hit in &mut hits {
                hit.range = folded.source(&hit.range);
            }
            // Folding may have joined a token to the word before it, so that the token is not found there.
            if folded.joins_words() {
                hits.extend(matches(text));
            }
            hits
        }
    };
    invisible::find(text, &mut hits);
    hits.sort_by_key(|hit| (hit.range.start, hit.range.end, hit.rule.id));
    without_repeats(without_shadowed(hits))
}

/// Runs the patterns over one form of the text.
fn matches(text: &str) -> Vec<RuleHit> {
    let catalog = Catalog::get();
    let mut hits = Vec::new();
    let mut headings = Vec::new();
    for (index, window) in windows(text) {
        if assignments::names_secret(catalog.pattern(index)) {
            headings.push(window.clone());
        }
        catalog.run(index, text, window, &mut hits);
    }
    hits.retain(|hit| !report::is_report(text, hit));
    tables::find(text, headings, &mut hits);
    hits
}

/// Returns the windows of the text on which patterns are tried, with the indexes of the patterns.
///
/// Windows of one pattern do not overlap, except for the bytes before a word.
pub(super) fn windows(text: &str) -> Vec<(usize, Range<usize>)> {
    let catalog = Catalog::get();
    let mut open: Vec<Option<Range<usize>>> = vec![None; catalog.pattern_count()];
    let mut closed = Vec::new();
    catalog.words().for_each_match(text, |index, word| {
        let reach = catalog.pattern(index).reach;
        let open = &mut open[index];
        if let (Some(open), PatternWindow::Line | PatternWindow::ToEnd) = (&open, reach)
            && open.start <= word.start
            && word.end <= open.end
        {
            return;
        }
        let next = window(text, reach, &word);
        match open {
            Some(open) if next.start <= open.end => {
                *open = next.start.min(open.start)..next.end.max(open.end);
            }
            _ => closed.extend(open.replace(next).map(|full| (index, full))),
        }
    });
    let last = open.into_iter().enumerate();
    closed.extend(last.filter_map(|(index, window)| Some((index, window?))));
    closed
}

/// Returns the window of a pattern for one occurrence of its words.
fn window(text: &str, reach: PatternWindow, word: &Range<usize>) -> Range<usize> {
    let before = slice(text, ..word.start);
    let after = slice(text, word.end..);
    match reach {
        PatternWindow::Line => {
            let start = before.rfind('\n').map_or(0, |newline| newline + 1);
            let end = after.find('\n').map_or(text.len(), |newline| word.end + newline);
            start..end
        }
        PatternWindow::Surrounding { before, after } => {
            let start = text.floor_char_boundary(word.start.saturating_sub(before));
            let end = text.ceil_char_boundary(word.end.saturating_add(after));
            start..end
        }
        PatternWindow::ToEnd => word.start..text.len(),
    }
}

/// Removes assignments whose value a more exact rule has found: that of the provider says more. Expects matches sorted
/// by position.
fn without_shadowed(hits: Vec<RuleHit>) -> Vec<RuleHit> {
    let mut exact: Vec<Range<usize>> = Vec::new();
    for hit in hits
        .iter()
        .filter(|hit| hit.rule.family == Family::Secrets && !assignments::is_assignment(hit))
    {
        match exact.last_mut() {
            Some(last) if hit.range.start < last.end => last.end = last.end.max(hit.range.end),
            _ => exact.push(hit.range.clone()),
        }
    }
    let mut loose_end = 0;
    let mut remaining = hits;
    remaining.retain(|hit| {
        if !assignments::is_assignment(hit) {
            return true;
        }
        let next = exact.partition_point(|range| range.end <= hit.range.start);
        let shadowed = exact.get(next).is_some_and(|range| range.start < hit.range.end);
        let first = hit.range.start >= loose_end;
        if first && !shadowed {
            loose_end = hit.range.end;
        }
        first && !shadowed
    });
    remaining
}

/// Removes matches that overlap an earlier match of the same rule: the two forms of a text mostly give the same
/// matches. Expects matches sorted by position.
fn without_repeats(hits: Vec<RuleHit>) -> Vec<RuleHit> {
    let mut ends: HashMap<&str, usize> = HashMap::new();
    let mut remaining = hits;
    remaining.retain(|hit| {
        let end = ends.entry(hit.rule.id).or_default();
        let first = hit.range.start >= *end;
        if first {
            *end = hit.range.end;
        }
        first
    });
    remaining
}
