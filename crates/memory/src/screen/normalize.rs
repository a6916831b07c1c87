//! Normalization of disguised text, so that patterns match it.
//!
//! Full-width and mathematical letters, ligatures, accents, typographic quotes and dashes become plain ones. Cyrillic
//! and Greek letters inside Latin words become the Latin letters that they look like. Invisible characters are removed.
//! Positions map back to the source. Letters of other scripts are kept, so that the patterns in those scripts match.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::invisible::is_invisible;
use crate::text::slice;

/// A folded text, with a map of its positions to the source.
#[derive(Debug)]
pub(super) struct FoldedText {
    text: String,
    /// The starts of verbatim and changed spans, ascending in both texts.
    pieces: Vec<SourceSpan>,
    source_bytes: usize,
    joins_words: bool,
}

/// A stretch of the folded text that comes from one stretch of the source.
#[derive(Clone, Copy, Debug)]
struct SourceSpan {
    folded: usize,
    source: usize,
    /// Whether the bytes are the same. If not, the source is one character.
    is_verbatim: bool,
}

impl FoldedText {
    /// Folds a text; `None` if it would not change.
    pub(super) fn fold(text: &str) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        let mut folded = Self {
            text: String::with_capacity(text.len()),
            pieces: Vec::new(),
            source_bytes: text.len(),
            joins_words: false,
        };
        let mut copied_to = 0;
        let mut confusables = Confusables::default();
        for (position, character) in text.char_indices() {
            if is_plain(character) {
                continue;
            }
            let before =
                if copied_to == position { &folded.text } else { text_before(text, position) };
            let before = before.chars().next_back();
            let change = match latin_look_alike(character) {
                Some(latin) => confusables
                    .looks_latin(text, position, before)
                    .then_some(CharChange::Replace(latin)),
                None => change(character, before),
            };
            let Some(change) = change else { continue };
            let after = slice(text, position + character.len_utf8()..);
            folded.joins_words |= matches!(change, CharChange::Drop)
                && before.is_some_and(is_ascii_word)
                && after.starts_with(is_ascii_word);
            folded.push_verbatim(text, copied_to..position);
            folded.push_change(position, change);
            copied_to = position + character.len_utf8();
        }
        if folded.pieces.is_empty() {
            return None;
        }
        folded.push_verbatim(text, copied_to..text.len());
        Some(folded)
    }

    /// Returns the folded text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Checks whether folding has joined letters that an invisible character separated.
    pub(super) fn joins_words(&self) -> bool {
        self.joins_words
    }

    /// Returns the range of the source for a range of the folded text.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.source_of(range.start).start;
        let last = range.end.saturating_sub(1).max(range.start);
        start..self.source_of(last).end
    }

    /// Returns the byte of the source, or the bytes of the character, for a folded byte.
    fn source_of(&self, folded: usize) -> Range<usize> {
        let index = self.pieces.partition_point(|piece| piece.folded <= folded).saturating_sub(1);
        let beyond = self.pieces.get(index + 1).map_or(self.source_bytes, |next| next.source);
        match self.pieces.get(index) {
            Some(piece) if piece.is_verbatim => {
                let source = piece.source + (folded - piece.folded);
                source..source + 1
            }
            Some(piece) => piece.source..beyond,
            None => folded..folded,
        }
    }

    fn push_verbatim(&mut self, text: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.pieces.push(SourceSpan {
                folded: self.text.len(),
                source: range.start,
                is_verbatim: true,
            });
            self.text.push_str(slice(text, range));
        }
    }

    fn push_change(&mut self, source: usize, change: CharChange) {
        self.pieces.push(SourceSpan { folded: self.text.len(), source, is_verbatim: false });
        match change {
            CharChange::Drop => {}
            CharChange::Replace(character) => self.text.push(character),
            CharChange::Decompose(character) => decompose_compatible(character, |part| {
                if !is_combining_mark(part) {
                    self.text.push(part);
                }
            }),
        }
    }
}

/// A run of letters that look Latin, judged once as a whole.
#[derive(Default)]
struct Confusables {
    end: usize,
    is_latin: bool,
}

impl Confusables {
    /// Checks whether the run at this position has a Latin letter on either side.
    fn looks_latin(&mut self, text: &str, position: usize, before: Option<char>) -> bool {
        if position >= self.end {
            let rest = slice(text, position..);
            let beyond = rest.trim_start_matches(|letter: char| {
                latin_look_alike(letter).is_some() || is_invisible(letter)
            });
            self.end = text.len() - beyond.len();
            self.is_latin = before.is_some_and(|before| before.is_ascii_alphabetic())
                || beyond.starts_with(|next: char| next.is_ascii_alphabetic());
        }
        self.is_latin
    }
}

/// Returns the plain character that a character looks like, in lower case: for a full-width or mathematical letter the
/// plain one, for a Cyrillic or Greek letter the Latin one. `None` for invisible characters.
pub fn visual_equivalent(character: char) -> Option<char> {
    if character.is_ascii() {
        return (!character.is_control() || character.is_whitespace())
            .then(|| character.to_ascii_lowercase());
    }
    if is_invisible(character) || is_combining_mark(character) {
        return None;
    }
    if let Some(latin) = latin_look_alike(character) {
        return Some(latin.to_ascii_lowercase());
    }
    let mut first = None;
    decompose_compatible(character, |part| first = first.or(Some(part)));
    let plain = first.unwrap_or(character);
    Some(plain.to_lowercase().next().unwrap_or(plain))
}

/// The change of a character by folding.
#[derive(Clone, Copy)]
enum CharChange {
    Drop,
    Replace(char),
    Decompose(char),
}

fn text_before(text: &str, position: usize) -> &str {
    slice(text, ..position)
}

fn is_ascii_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Checks whether a character certainly does not change. Fast, because it covers most characters of most texts.
fn is_plain(character: char) -> bool {
    matches!(character,
        '\0'..='\u{9F}'
        | '\u{460}'..='\u{10FF}'
        | '\u{1200}'..='\u{17B3}'
        | '\u{2E80}'..='\u{2FFF}'
        | '\u{3001}'..='\u{3130}'
        | '\u{3400}'..='\u{D7FF}'
        | '\u{1F300}'..='\u{3FFFF}')
        && !matches!(character, '\u{61C}')
}

/// Returns the change of a character after the already folded text, or `None` if it is kept.
fn change(character: char, before: Option<char>) -> Option<CharChange> {
    if is_invisible(character) {
        return Some(CharChange::Drop);
    }
    match character {
        '\u{300}'..='\u{36F}' => {
            let marks_other_script = before.is_some_and(is_greek_or_later);
            (!marks_other_script).then_some(CharChange::Drop)
        }
        '‘' | '’' | '‚' | '‛' | 'ʼ' | '′' | '´' => Some(CharChange::Replace('\'')),
        '“' | '”' | '„' | '‟' | '«' | '»' | '″' => Some(CharChange::Replace('"')),
        '‐'..='―' | '−' => Some(CharChange::Replace('-')),
        '\u{FF01}'..='\u{FF5E}' => {
            char::from_u32(u32::from(character) - 0xFEE0).map(CharChange::Replace)
        }
        _ => decomposes(character).then_some(CharChange::Decompose(character)),
    }
}

/// Checks whether compatibility decomposition changes the character.
fn decomposes(character: char) -> bool {
    // Other alphabets keep their marks, because the patterns in them contain marks.
    if is_greek_or_later(character) {
        return false;
    }
    let mut same = true;
    decompose_compatible(character, |part| same &= part == character);
    !same
}

fn is_greek_or_later(character: char) -> bool {
    matches!(character, '\u{370}'..='\u{10FF}')
}

/// Returns the Latin letter that a Cyrillic or Greek letter looks like.
fn latin_look_alike(character: char) -> Option<char> {
    Some(match character {
        'а' | 'α' => 'a',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'һ' => 'h',
        'і' | 'ι' | 'ӏ' => 'i',
        'ј' => 'j',
        'κ' => 'k',
        'п' => 'n',
        'о' | 'ο' | 'σ' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'г' => 'r',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ц' => 'u',
        'ν' | 'ѵ' => 'v',
        'ԝ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'С' | 'Ϲ' => 'C',
        'Е' | 'Ε' => 'E',
        'Н' | 'Η' => 'H',
        'І' | 'Ι' | 'Ӏ' => 'I',
        'Ј' => 'J',
        'К' | 'Κ' => 'K',
        'М' | 'Μ' => 'M',
        'Ν' => 'N',
        'О' | 'Ο' => 'O',
        'Р' | 'Ρ' => 'P',
        'Ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'У' | 'Υ' => 'Y',
        'Х' | 'Χ' => 'X',
        'Ζ' => 'Z',
        _ => return None,
    })
}
