//! The part of a memory that recall shows: its best entries, never without the sentence that matched.
//!
//! A short memory is shown whole. Of a long one the entries that match are packed, best first, and shown in the order
//! of the file, each below its heading if there is room. An entry that is itself too long is cut around the sentence
//! with most of the matching words, at the borders of sentences and lines.

use std::ops::Range;
use std::sync::Arc;

use memory::document;
use memory::text::{fold, slice};

/// Mark of text that is left out.
const GAP: &str = "…";

/// The text of a memory, and which part of it matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedText {
    text: Arc<str>,
    /// Ranges of the entries to choose from, in bytes of the text, best first.
    entries: Vec<Range<usize>>,
    /// The words of the memory that match, folded.
    words: Vec<String>,
    /// Ranges that are not shown, because another memory shows the same.
    omitted: Vec<Range<usize>>,
}

/// A part of a memory, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The text.
    pub text: String,
    /// Whether more of the memory is left out than another memory shows.
    pub is_truncated: bool,
}

impl MatchedText {
    /// Returns the text of a memory of which these entries match, best first, by these words.
    pub fn new(text: Arc<str>, entries: Vec<Range<usize>>, words: &[&str]) -> Self {
        let words = words.iter().map(|word| fold(word)).filter(|word| !word.is_empty()).collect();
        let is_shown = |range: &Range<usize>| {
            text.get(range.clone()).is_some_and(|entry| !entry.trim().is_empty())
        };
        let entries = entries.into_iter().filter(is_shown).collect();
        Self { text, entries, words, omitted: Vec::new() }
    }

    /// Returns the ranges of the entries that match, best first.
    pub fn entries(&self) -> &[Range<usize>] {
        &self.entries
    }

    /// Returns the whole text of the memory.
    pub fn full_text(&self) -> &str {
        &self.text
    }

    /// Leaves an entry, with all of its parts that match, out of all excerpts: another memory shows the same, or the model
    /// has it.
    pub fn omit(&mut self, entry: Range<usize>) {
        let is_part = |part: &Range<usize>| entry.start <= part.start && part.end <= entry.end;
        self.entries.retain(|other| !is_part(other));
        self.omitted.push(entry);
    }

    /// Returns the best part of at most `chars_max` characters.
    pub fn excerpt(&self, chars_max: usize) -> Excerpt {
        ExcerptPlan::new(self).excerpt(chars_max)
    }
}

/// The parts that all excerpts of a text are made of.
#[derive(Debug)]
pub(crate) struct ExcerptPlan<'a> {
    source: &'a MatchedText,
    /// The body without what is omitted.
    whole: String,
    whole_chars: usize,
    /// The entries, best first, each with the heading above it.
    parts: Vec<(Range<usize>, Option<Range<usize>>)>,
    /// The sentence that matched.
    sentence: Range<usize>,
}

impl<'a> ExcerptPlan<'a> {
    pub(crate) fn new(source: &'a MatchedText) -> Self {
        let text = &*source.text;
        let body = text.len() - document::body(text).len()..text.len();
        let mut whole = String::new();
        let mut start = body.start;
        let mut omitted = source.omitted.clone();
        omitted.sort_unstable_by_key(|range| range.start);
        for range in &omitted {
            whole.push_str(text.get(start..range.start).unwrap_or_default());
            start = range.end;
        }
        whole.push_str(text.get(start..).unwrap_or_default());
        let whole = whole.trim().to_owned();
        let mut entries: Vec<Range<usize>> = source.entries.clone();
        if entries.is_empty() {
            entries.push(body);
        }
        let headings = document::headings(text);
        let heading_of = |entry: &Range<usize>| {
            let above = headings.iter().take_while(|heading| heading.range.end <= entry.start);
            above.last().map(|heading| heading.range.clone())
        };
        let parts: Vec<_> = entries
            .iter()
            .map(|entry| trimmed(text, entry.clone()))
            .map(|entry| (entry.clone(), heading_of(&entry)))
            .collect();
        let best = parts.first().map_or(0..0, |(entry, _)| entry.clone());
        let sentence = best_sentence(text, best, &source.words);
        Self { source, whole_chars: whole.chars().count(), whole, parts, sentence }
    }

    /// Returns the number of characters of the whole text.
    pub(crate) const fn whole_chars(&self) -> usize {
        self.whole_chars
    }

    /// Returns the number of characters that hold the sentence that matched, with the marks of a cut.
    pub(crate) fn sentence_chars(&self) -> usize {
        let sentence = slice(&self.source.text, self.sentence.clone()).chars().count();
        (sentence + 2 * GAP.chars().count()).min(self.whole_chars)
    }

    /// Returns the best part of at most `chars_max` characters.
    pub(crate) fn excerpt(&self, chars_max: usize) -> Excerpt {
        if self.whole_chars <= chars_max {
            return Excerpt { text: self.whole.clone(), is_truncated: false };
        }
        let text = &*self.source.text;
        let Some(((best, _), others)) = self.parts.split_first() else {
            return Excerpt { text: String::new(), is_truncated: true };
        };
        let chars = |range: &Range<usize>| slice(text, range.clone()).chars().count();
        if chars(best) > chars_max {
            let shown = self.cut(best, chars_max);
            let mark = |is_cut: bool| if is_cut { GAP } else { "" };
            let (before, after) = (mark(shown.start > best.start), mark(shown.end < best.end));
            let text = [before, slice(text, shown), after].concat();
            return Excerpt { text, is_truncated: true };
        }
        // Other parts cost their own characters, and those of the gap before them.
        let gap = GAP.chars().count() + 2;
        let mut left = chars_max - chars(best);
        let mut shown = vec![best.clone()];
        let headings = self.parts.iter().filter_map(|(_, heading)| heading.as_ref());
        let of_best = self.parts.iter().take(1).filter_map(|(_, heading)| heading.as_ref());
        let entries = others.iter().map(|(entry, _)| entry);
        for part in of_best.chain(entries).chain(headings) {
            let is_needed = !shown.contains(part)
                && self.parts.iter().any(|(entry, heading)| {
                    entry == part || (heading.as_ref() == Some(part) && shown.contains(entry))
                });
            let cost = chars(part) + gap;
            if is_needed && cost <= left {
                left -= cost;
                shown.push(part.clone());
            }
        }
        shown.sort_unstable_by_key(|part| part.start);
        Excerpt { text: self.joined(&shown), is_truncated: true }
    }

    /// Joins parts in their order, with a mark where text between them is left out.
    fn joined(&self, parts: &[Range<usize>]) -> String {
        let mut joined = String::new();
        let mut end = None;
        for part in parts {
            if let Some(end) = end {
                let between = self.source.text.get(end..part.start).unwrap_or_default();
                joined.push('\n');
                if !between.trim().is_empty() {
                    joined.push_str(GAP);
                    joined.push('\n');
                }
            }
            joined.push_str(slice(&self.source.text, part.clone()));
            end = Some(part.end);
        }
        joined
    }

    /// Returns the part of an entry around the sentence that matched, in at most `chars_max` characters with the marks
    /// of the cuts.
    fn cut(&self, entry: &Range<usize>, chars_max: usize) -> Range<usize> {
        let text = &*self.source.text;
        let chars = |range: &Range<usize>| slice(text, range.clone()).chars().count();
        let chars_max = chars_max.saturating_sub(2 * GAP.chars().count());
        if chars(&self.sentence) > chars_max {
            return cut_sentence(text, &self.sentence, &self.source.words, chars_max);
        }
        let all = sentences(text, entry.clone());
        let at = all.iter().position(|one| *one == self.sentence).unwrap_or(0);
        let (mut first, mut last) = (at, at);
        let range = |first: usize, last: usize| match (all.get(first), all.get(last)) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => self.sentence.clone(),
        };
        loop {
            // What follows explains more often than what precedes, so it is added first.
            let next = (last + 1 < all.len() && chars(&range(first, last + 1)) <= chars_max)
                .then_some((first, last + 1));
            let (_, after) = next.unwrap_or((first, last));
            let previous =
                (first > 0 && chars(&range(first - 1, after)) <= chars_max).then(|| first - 1);
            if next.is_none() && previous.is_none() {
                return range(first, last);
            }
            (first, last) = (previous.unwrap_or(first), after);
        }
    }
}

/// Returns a range without white space at both ends.
fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = slice(text, range.clone());
    let start = range.start + part.len() - part.trim_start().len();
    start..start + part.trim().len()
}

/// Returns the sentences of a range: parts that end with a line, or with a mark that ends a sentence.
fn sentences(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let part = slice(text, range.clone());
    let mut sentences = Vec::new();
    let mut start = 0;
    let mut characters = part.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let is_end = match character {
            '\n' | '。' | '！' | '？' => true,
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            _ => next.is_none(),
        };
        if is_end {
            let end = at + character.len_utf8();
            let sentence = trimmed(text, range.start + start..range.start + end);
            if !sentence.is_empty() {
                sentences.push(sentence);
            }
            start = end;
        }
    }
    sentences
}

/// Returns the sentence with most of the words; the first one, if none has any.
fn best_sentence(text: &str, entry: Range<usize>, words: &[String]) -> Range<usize> {
    let count = |sentence: &Range<usize>| {
        let sentence = fold(slice(text, sentence.clone()));
        words.iter().filter(|word| sentence.contains(word.as_str())).count()
    };
    let all = sentences(text, entry.clone());
    // The first of several maxima.
    all.into_iter().rev().max_by_key(count).unwrap_or(entry)
}

/// Returns at most `chars_max` characters of a sentence, around the first of the words, at spaces if there are any.
fn cut_sentence(
    text: &str,
    sentence: &Range<usize>,
    words: &[String],
    chars_max: usize,
) -> Range<usize> {
    let part = slice(text, sentence.clone());
    let has_word = |rest: &&str| {
        let beginning: String = rest.chars().take(WORD_CHARS_MAX).collect();
        let beginning = fold(&beginning);
        words.iter().any(|word| beginning.starts_with(word.as_str()))
    };
    let starts: Vec<usize> = part.char_indices().map(|(at, _)| at).collect();
    let first = starts.iter().position(|at| has_word(&slice(part, *at..))).unwrap_or(0);
    // A third of the room is for what precedes the word.
    let start = first.saturating_sub(chars_max / 3).min(starts.len().saturating_sub(chars_max));
    let at = |index: usize| starts.get(index).copied().unwrap_or(part.len());
    let window = at(start)..at(start + chars_max);
    let shown = slice(part, window.clone());
    let word = at(first);
    let from = if start == 0 {
        window.start
    } else {
        let space =
            shown.find(char::is_whitespace).map_or(window.start, |space| window.start + space);
        if space < word { space } else { window.start }
    };
    let to = if window.end == part.len() {
        window.end
    } else {
        let space =
            shown.rfind(char::is_whitespace).map_or(window.end, |space| window.start + space);
        if space > word { space } else { window.end }
    };
    trimmed(text, sentence.start + from..sentence.start + to)
}

/// Characters that are compared with a word when a sentence is cut.
const WORD_CHARS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    /// Returns a text of which the entries that begin with these lines match, best first.
    fn matched(text: &str, best: &[&str], words: &[&str]) -> MatchedText {
        let all = document::entries(text);
        let range = |line: &&str| {
            all.iter().find(|entry| entry.first_line.starts_with(*line)).unwrap().range.clone()
        };
        MatchedText::new(Arc::from(text), best.iter().map(range).collect(), words)
    }

    const HARBOUR: &str = "\
---
name: harbour
---

# Harbour

- Berth nine is for ferries
- The crane is checked in May

## Staff

- The harbour master is Olga
- Her office opens at nine

## Tides

- The tide table hangs in the office
";

    #[test]
    fn a_short_memory_is_shown_whole() {
        let text = matched(HARBOUR, &["Her office"], &["office"]);
        let excerpt = text.excerpt(1_000);
        assert!(!excerpt.is_truncated);
        assert_eq!(excerpt.text, document::body(HARBOUR).trim());
    }

    #[test]
    fn of_a_long_memory_the_best_entries_are_packed_in_the_order_of_the_file() {
        let text = matched(HARBOUR, &["The tide", "Her office", "Berth"], &["office", "nine"]);
        assert_snapshot!(text.excerpt(105).text, @r"
        ## Staff
        …
        - Her office opens at nine
        ## Tides
        - The tide table hangs in the office
        ");
        assert_snapshot!(text.excerpt(60).text, @r"
        ## Tides
        - The tide table hangs in the office
        ");
        assert_snapshot!(text.excerpt(38).text, @"- The tide table hangs in the office");
    }

    #[test]
    fn a_long_entry_is_cut_around_the_sentence_that_matched() {
        let text = "- We met in May. Lunch was late! The safe opens with 4711. Then Ada left.\n  She \
                    came back. Nobody knows why.\n- other\n";
        let text = matched(text, &["We met"], &["safe", "4711"]);
        let check = |chars: usize, expected: &str| {
            let excerpt = text.excerpt(chars);
            assert_eq!((excerpt.text.as_str(), excerpt.is_truncated), (expected, true), "{chars}");
            assert!(excerpt.text.chars().count() <= chars);
        };
        check(60, "…Lunch was late! The safe opens with 4711. Then Ada left.…");
        check(45, "…The safe opens with 4711. Then Ada left.…");
        check(30, "…The safe opens with 4711.…");
        check(14, "…The safe…");
    }

    #[test]
    fn what_is_omitted_is_left_out_without_a_mark() {
        let mut text = matched(HARBOUR, &["Her office", "The harbour"], &["office"]);
        text.omit(text.entries()[1].clone());
        let excerpt = text.excerpt(1_000);
        assert!(!excerpt.is_truncated && !excerpt.text.contains("Olga"), "{}", excerpt.text);
        assert!(!text.excerpt(80).text.contains("Olga"));
    }

    proptest! {
        #[test]
        fn an_excerpt_keeps_its_limit_and_the_sentence_that_matched(
            parts in prop::collection::vec("(- |## |\n|)[a-zé漢 .!?。\n]{0,60}\n", 1..12),
            best in 0_usize..12,
            word in "[a-zé漢]{0,3}",
            chars_max in 2_usize..200,
        ) {
            let text = parts.concat();
            let entries: Vec<_> = document::entries(&text).into_iter().map(|entry| entry.range).collect();
            let best = entries.iter().cycle().skip(best).take(entries.len().min(3)).cloned().collect();
            let text = MatchedText::new(Arc::from(text), best, &[&word]);
            let plan = ExcerptPlan::new(&text);
            let excerpt = plan.excerpt(chars_max);
            prop_assert!(excerpt.text.chars().count() <= chars_max, "{:?}", excerpt);
            if chars_max >= plan.sentence_chars() {
                let sentence = slice(&text.text, plan.sentence.clone());
                prop_assert!(excerpt.text.contains(sentence), "{sentence:?} in {excerpt:?}");
            }
            if let Some(entry) = text.entries.first() {
                let entry = slice(&text.text, entry.clone()).trim();
                let is_whole = excerpt.text.contains(entry);
                prop_assert!(is_whole || entry.chars().count() > chars_max, "{entry:?} in {excerpt:?}");
            }
        }
    }
}
