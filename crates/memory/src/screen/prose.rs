//! Normalized prose: a part of a text in lower case, with single spaces between words.
//!
//! Patterns for prose are matched against this form. So they need not handle capitals, line breaks, indentation,
//! quotation and emphasis, and stay small. Positions map back to the text.

use std::ops::Range;

use crate::text::slice;

/// A window of a text in normalized form.
///
/// White space, together with the markup around it, becomes one space, or one line break if it contains any. Markup
/// between letters without white space is kept: it belongs to a name, a contraction or an address.
pub(super) struct Prose {
    text: String,
    /// The offset of the source character for each byte; then the end.
    sources: Vec<usize>,
}

impl Prose {
    /// Normalizes a window of the text.
    pub(super) fn from_window(text: &str, window: Range<usize>) -> Self {
        let mut prose = Self {
            text: String::with_capacity(window.len()),
            sources: Vec::with_capacity(window.len() + 1),
        };
        let mut gap: Option<Range<usize>> = None;
        for (offset, character) in slice(text, window.clone()).char_indices() {
            let start = window.start + offset;
            if character.is_whitespace() || is_markup(character) {
                gap = Some(gap.map_or(start, |gap| gap.start)..start + character.len_utf8());
                continue;
            }
            if let Some(gap) = gap.take() {
                prose.bridge(text, gap);
            }
            prose.push_lower(character, start);
        }
        if let Some(gap) = gap {
            prose.bridge(text, gap);
        }
        prose.sources.push(window.end);
        prose
    }

    /// Returns the normalized text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the range of the source for a range of the normalized text.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let source_at = |position: usize| self.sources[position];
        let last = source_at(range.end.saturating_sub(1));
        let mut beyond = self.sources.iter().copied().skip(range.end);
        source_at(range.start)..beyond.find(|source| *source > last).unwrap_or(last)
    }

    /// Appends the normalized form of a range of white space and markup.
    fn bridge(&mut self, text: &str, gap: Range<usize>) {
        let between = slice(text, gap.clone());
        if between.contains('\n') {
            self.push('\n', gap.start);
        } else if between.contains(char::is_whitespace) {
            self.push(' ', gap.start);
        } else {
            for (offset, mark) in between.char_indices() {
                self.push(mark, gap.start + offset);
            }
        }
    }

    fn push_lower(&mut self, character: char, source: usize) {
        if character.is_ascii() {
            self.push(character.to_ascii_lowercase(), source);
        } else {
            for lower in character.to_lowercase() {
                self.push(lower, source);
            }
        }
    }

    fn push(&mut self, character: char, source: usize) {
        self.text.push(character);
        for _ in 0..character.len_utf8() {
            self.sources.push(source);
        }
    }
}

/// Checks whether a character is markup that can be ignored at the edge of a word.
fn is_markup(character: char) -> bool {
    matches!(character, '*' | '_' | '"' | '\'' | '`' | '>' | '|' | '~' | '#' | '/' | '\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let prose = Prose::from_window(text, 0..text.len());
        assert_eq!(prose.text(), expected, "{text:?}");
        assert_eq!(prose.source(&(0..expected.len())), 0..text.len(), "{text:?}");
    }

    #[test]
    fn prose_is_lower_case_with_single_spaces() {
        check("", "");
        check("Ignore  ALL\tprevious", "ignore all previous");
        check("**Ignore** _all_ `previous`", "**ignore all previous`");
        check("Ignore\n  > all\n// previous\n", "ignore\nall\nprevious\n");
        check("Don't run ~/.ssh/x_y, 'never'", "don't run .ssh/x_y, never'");
        check("ЗАБУДЬ Größe", "забудь größe");
    }

    #[test]
    fn a_range_maps_back_to_its_source() {
        let text = "so **Ignore**  İt";
        let prose = Prose::from_window(text, 3..text.len());
        assert_eq!(prose.text(), "**ignore i\u{307}t");
        assert_eq!(prose.source(&(2..8)), 5..11);
        assert_eq!(prose.source(&(9..10)), 15..17);
    }
}
