//! A text with its disguises off.
//!
//! Full-width and mathematical letters, ligatures, accents, typographic quotes and dashes become
//! plain ones; Cyrillic and Greek letters inside Latin words become the Latin letters that they
//! look like; what is invisible is left out. Positions map back to the text as it was. Letters of
//! other scripts stay, so the patterns written in them still match.

use std::ops::Range;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::invisible::is_invisible;

/// How far to look ahead for the Latin letter at the end of a run of look-alikes.
const LOOK_ALIKE_RUN_MAX: usize = 16;

/// A folded text and the way back.
#[derive(Debug)]
pub(super) struct Folded {
    text: String,
    /// Where copying byte by byte begins or ends, in rising order of both positions.
    pieces: Vec<Piece>,
    source_bytes: usize,
}

/// A stretch of the folded text that comes from one stretch of the source.
#[derive(Clone, Copy, Debug)]
struct Piece {
    folded: usize,
    source: usize,
    /// Whether the two are the same bytes. If not, the source is one character.
    copied: bool,
}

impl Folded {
    /// Folds a text; `None` when it would stay as it is.
    pub(super) fn of(text: &str) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        let mut folded = Self {
            text: String::with_capacity(text.len()),
            pieces: Vec::new(),
            source_bytes: text.len(),
        };
        let mut copied_to = 0;
        for (position, character) in text.char_indices() {
            if is_plain(character) {
                continue;
            }
            let before = match copied_to == position {
                true => folded.text.chars().next_back(),
                false => text.get(..position).and_then(|before| before.chars().next_back()),
            };
            let after = text.get(position + character.len_utf8()..).unwrap_or_default();
            let Some(change) = change(character, before, after) else { continue };
            folded.copy(text, copied_to..position);
            folded.put(position, change);
            copied_to = position + character.len_utf8();
        }
        if folded.pieces.is_empty() {
            return None;
        }
        folded.copy(text, copied_to..text.len());
        Some(folded)
    }

    /// Returns the folded text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bytes of the source that a range of the folded text came from.
    pub(super) fn source(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.piece_at(range.start);
        let first = self.pieces.get(start).map_or(0, |piece| match piece.copied {
            true => piece.source + (range.start - piece.folded),
            false => piece.source,
        });
        let last = range.end.saturating_sub(1).max(range.start);
        let end = self.piece_at(last);
        let beyond = self.pieces.get(end + 1).map_or(self.source_bytes, |next| next.source);
        let end = self.pieces.get(end).map_or(beyond, |piece| match piece.copied {
            true => piece.source + (last + 1 - piece.folded),
            false => beyond,
        });
        first..end
    }

    fn piece_at(&self, folded: usize) -> usize {
        self.pieces.partition_point(|piece| piece.folded <= folded).saturating_sub(1)
    }

    fn copy(&mut self, text: &str, range: Range<usize>) {
        if !range.is_empty() {
            self.pieces.push(Piece { folded: self.text.len(), source: range.start, copied: true });
            self.text.push_str(text.get(range).unwrap_or_default());
        }
    }

    fn put(&mut self, source: usize, change: Change) {
        self.pieces.push(Piece { folded: self.text.len(), source, copied: false });
        match change {
            Change::Drop => {}
            Change::One(character) => self.text.push(character),
            Change::Decompose(character) => decompose_compatible(character, |part| {
                if !is_combining_mark(part) {
                    self.text.push(part);
                }
            }),
        }
    }
}

/// What becomes of a character.
enum Change {
    Drop,
    One(char),
    Decompose(char),
}

/// Returns whether a character surely stays, by ranges alone: most of most texts.
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

/// Returns what becomes of a character between what is already folded and the rest of the text, or
/// `None` when it stays.
fn change(character: char, before: Option<char>, after: &str) -> Option<Change> {
    if is_invisible(character) {
        return Some(Change::Drop);
    }
    match character {
        '\u{300}'..='\u{36F}' => {
            let marks_other_script = before.is_some_and(is_greek_or_later);
            (!marks_other_script).then_some(Change::Drop)
        }
        '‘' | '’' | '‚' | '‛' | 'ʼ' | '′' | '´' => Some(Change::One('\'')),
        '“' | '”' | '„' | '‟' | '«' | '»' | '″' => Some(Change::One('"')),
        '‐'..='―' | '−' => Some(Change::One('-')),
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(character) - 0xFEE0).map(Change::One),
        _ => match latin_look_alike(character) {
            Some(latin) => is_in_latin_word(before, after).then_some(Change::One(latin)),
            None => decomposes(character).then_some(Change::Decompose(character)),
        },
    }
}

/// Returns whether compatibility decomposition yields something other than the character.
fn decomposes(character: char) -> bool {
    // Other alphabets keep their marks: the patterns in them are written with marks.
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

/// Returns whether a run of look-alikes has a Latin letter on either side.
fn is_in_latin_word(before: Option<char>, after: &str) -> bool {
    let mut beyond = after
        .chars()
        .take(LOOK_ALIKE_RUN_MAX)
        .skip_while(|next| latin_look_alike(*next).is_some() || is_invisible(*next));
    before.is_some_and(|before| before.is_ascii_alphabetic())
        || beyond.next().is_some_and(|next| next.is_ascii_alphabetic())
}

/// Returns the Latin letter that a Cyrillic or Greek one cannot be told from.
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
