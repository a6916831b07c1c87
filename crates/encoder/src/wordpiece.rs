//! The tokenizer of BERT models without case: text to token numbers.
//!
//! Text is cleaned and decomposed, accents are dropped, letters become lower case. Words are split at spaces and
//! punctuation, and each word is cut into the longest known pieces from its start.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

use crate::error::EncoderError;
use crate::limits;

/// Prefix of pieces that continue a word.
const CONTINUATION: &str = "##";
/// Han characters; each is a word. Kana and Hangul are not among them.
const HAN: [std::ops::RangeInclusive<char>; 8] = [
    '\u{4E00}'..='\u{9FFF}',
    '\u{3400}'..='\u{4DBF}',
    '\u{20000}'..='\u{2A6DF}',
    '\u{2A700}'..='\u{2B73F}',
    '\u{2B740}'..='\u{2B81F}',
    '\u{2B920}'..='\u{2CEAF}',
    '\u{F900}'..='\u{FAFF}',
    '\u{2F800}'..='\u{2FA1F}',
];

/// A vocabulary of word pieces.
pub(crate) struct WordPiece {
    /// All pieces, one after the other.
    text: Box<str>,
    /// Pieces that start a word, sorted by text.
    starts: Box<[Piece]>,
    /// Pieces that continue a word, without their prefix, sorted by text.
    continuations: Box<[Piece]>,
    unknown: u32,
    first: u32,
    last: u32,
}

/// One piece of a vocabulary.
struct Piece {
    text: Range<u32>,
    id: u32,
}

impl WordPiece {
    /// Parses a vocabulary: one piece a line; the number of the line is the token.
    pub(crate) fn parse(vocabulary: &str) -> Result<Self, EncoderError> {
        let text: Box<str> = vocabulary.into();
        let (mut starts, mut continuations) = (Vec::new(), Vec::new());
        let (mut position, mut id) = (0_u32, 0_u32);
        for line in text.split_inclusive('\n') {
            let piece = line.trim_end_matches(['\r', '\n']);
            let (list, skipped) = match piece.strip_prefix(CONTINUATION) {
                Some(rest) if !rest.is_empty() => (&mut continuations, CONTINUATION.len()),
                _ => (&mut starts, 0),
            };
            let start = position + length(skipped);
            list.push(Piece { text: start..position + length(piece.len()), id });
            position += length(line.len());
            id += 1;
        }
        for list in [&mut starts, &mut continuations] {
            list.sort_by(|a, b| slice(&text, a).cmp(slice(&text, b)));
        }
        let mut pieces = Self {
            starts: starts.into(),
            continuations: continuations.into(),
            text,
            unknown: 0,
            first: 0,
            last: 0,
        };
        let special = |name| {
            pieces
                .find(&pieces.starts, name)
                .ok_or(EncoderError::Damaged("its vocabulary is invalid"))
        };
        (pieces.unknown, pieces.first, pieces.last) =
            (special("[UNK]")?, special("[CLS]")?, special("[SEP]")?);
        Ok(pieces)
    }

    /// Returns the number of pieces.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() + self.continuations.len()
    }

    /// Returns the tokens of a text with the marks of its start and end, at most `tokens_max`.
    pub(crate) fn tokens(&self, text: &str, tokens_max: usize) -> Vec<u32> {
        let mut tokens = vec![self.first];
        let room = tokens_max.saturating_sub(1);
        let mut word = String::new();
        for c in text.chars().take(limits::TEXT_CHARS_MAX).filter(|&c| !is_dropped(c)) {
            if tokens.len() >= room {
                break;
            }
            if c.is_whitespace() {
                self.push_word(&mut word, &mut tokens);
            } else if is_han(c) {
                self.push_word(&mut word, &mut tokens);
                self.push_folded(c, &mut word, &mut tokens);
                self.push_word(&mut word, &mut tokens);
            } else {
                self.push_folded(c, &mut word, &mut tokens);
            }
        }
        self.push_word(&mut word, &mut tokens);
        tokens.truncate(room);
        tokens.push(self.last);
        tokens
    }

    /// Checks whether more than half of the tokens of a text are known, besides the marks of its start and end.
    pub(crate) fn are_mostly_known(&self, tokens: &[u32]) -> bool {
        let is_mark = |token: &&u32| [self.first, self.last].contains(token);
        let count = tokens.iter().filter(|token| !is_mark(token)).count();
        let unknown = tokens.iter().filter(|token| **token == self.unknown).count();
        2 * unknown < count
    }

    /// Appends a character without accents, in lower case. Punctuation is a word of its own.
    fn push_folded(&self, c: char, word: &mut String, tokens: &mut Vec<u32>) {
        let is_accent = |c: &char| c.general_category() == GeneralCategory::NonspacingMark;
        for c in std::iter::once(c).nfd().filter(|c| !is_accent(c)).flat_map(char::to_lowercase) {
            if is_punctuation(c) {
                self.push_word(word, tokens);
                word.push(c);
                self.push_word(word, tokens);
            } else {
                word.push(c);
            }
        }
    }

    /// Appends the tokens of a word and clears the word.
    fn push_word(&self, word: &mut String, tokens: &mut Vec<u32>) {
        let count = tokens.len();
        let mut rest = word.as_str();
        if word.chars().count() > limits::TOKENIZED_WORD_CHARS_MAX {
            tokens.push(self.unknown);
            rest = "";
        }
        while !rest.is_empty() {
            let pieces = if rest.len() == word.len() { &self.starts } else { &self.continuations };
            let Some((id, length)) = self.longest(pieces, rest) else {
                // One part that is not known makes the whole word unknown.
                tokens.truncate(count);
                tokens.push(self.unknown);
                break;
            };
            tokens.push(id);
            (_, rest) = rest.split_at(length);
        }
        word.clear();
    }

    /// Returns the longest piece that `word` starts with, and its length in bytes.
    fn longest(&self, pieces: &[Piece], word: &str) -> Option<(u32, usize)> {
        let mut ends = word.char_indices().rev().map(|(at, c)| at + c.len_utf8());
        ends.find_map(|end| Some((self.find(pieces, word.split_at(end).0)?, end)))
    }

    fn find(&self, pieces: &[Piece], text: &str) -> Option<u32> {
        let at = pieces.binary_search_by(|piece| slice(&self.text, piece).cmp(text)).ok()?;
        Some(pieces[at].id)
    }
}

fn slice<'a>(text: &'a str, piece: &Piece) -> &'a str {
    let range = piece.text.start as usize..piece.text.end as usize;
    text.get(range).expect("a piece is a part of the vocabulary")
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("the vocabulary is at most VOCABULARY_BYTES_MAX long")
}

/// Returns whether the tokenizer drops the character: control characters and the replacement character.
fn is_dropped(c: char) -> bool {
    let is_space = matches!(c, '\t' | '\n' | '\r');
    let is_other = c.general_category_group() == GeneralCategoryGroup::Other;
    c == '\u{FFFD}' || (is_other && !is_space)
}

fn is_han(c: char) -> bool {
    c >= '\u{3400}' && HAN.iter().any(|range| range.contains(&c))
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCABULARY: &str =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\nrun\nrunner\n##n\n##ing\ncle\n,\n'\nt\n库\n##s\n";

    fn tokens(text: &str) -> Vec<u32> {
        let pieces = WordPiece::parse(VOCABULARY).unwrap();
        let all = pieces.tokens(text, 8);
        assert_eq!((all[0], all[all.len() - 1]), (2, 3));
        all[1..all.len() - 1].to_vec()
    }

    #[test]
    fn words_are_cut_into_the_longest_pieces() {
        assert_eq!(tokens("running runners"), [4, 6, 7, 5, 13]);
    }

    #[test]
    fn case_and_accents_are_ignored() {
        assert_eq!(tokens("Clé RUN"), [8, 4]);
    }

    #[test]
    fn punctuation_and_han_characters_are_words() {
        assert_eq!(tokens("run,run't"), [4, 9, 4, 10, 11]);
        assert_eq!(tokens("run库run"), [4, 12, 4]);
    }

    #[test]
    fn a_word_with_an_unknown_part_is_unknown() {
        assert_eq!(tokens("runx run"), [1, 4]);
        assert_eq!(tokens(&"run".repeat(40)), [1]);
    }

    #[test]
    fn a_long_text_is_cut_off() {
        assert_eq!(tokens(&"run ".repeat(40)), [4; 6]);
        assert_eq!(tokens(""), [0; 0]);
    }

    #[test]
    fn a_vocabulary_without_marks_is_refused() {
        assert!(WordPiece::parse("run\n").is_err());
    }
}
