//! Helpers for texts: checked slices, word lists, and a folded form for comparing words.
//!
//! A range is computed from the text that it slices, so it fits. A range that does not fit was computed for another
//! text, which is a bug: [`slice()`] panics, because an empty result would silently lose text.

use std::slice::SliceIndex;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns the part of a text in a range.
///
/// # Panics
///
/// Panics when the range ends outside of the text or inside of a character.
#[track_caller]
pub fn slice(text: &str, range: impl SliceIndex<str, Output = str>) -> &str {
    text.get(range).expect("a range must lie within its text, on character boundaries")
}

/// Checks whether a list of words, separated by white space, contains a word.
pub fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// Returns a text in the form for comparing words: NFKC, lower case, without accents.
///
/// Marks of Latin, Greek and Cyrillic, points of Hebrew and vowel signs of Arabic are removed. Voicing marks of kana,
/// the signs of Indic scripts and the breve of `й` distinguish words, so they are kept.
pub fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let lower = text.nfkc().collect::<String>().to_lowercase();
    let mut letter = ' ';
    let bare = lower.nfd().filter(|&c| {
        let is_breve = c == '\u{306}' && letter == 'и';
        letter = if is_combining_mark(c) { letter } else { c };
        is_breve
            || !matches!(c,
                '\u{300}'..='\u{36F}' | '\u{591}'..='\u{5C7}' | '\u{64B}'..='\u{652}' | '\u{640}')
    });
    bare.nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_only_in_case_width_or_accents_fold_to_the_same_text() {
        for (text, folded) in [
            ("Naïve CAFÉ", "naive cafe"),
            ("ｆｕｌｌ", "full"),
            ("Й ё", "й е"),
            ("ガ", "ガ"),
            ("كِتَاب", "كتاب"),
        ] {
            assert_eq!(fold(text), folded, "{text}");
        }
    }
}
