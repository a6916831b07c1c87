//! What every reader of texts needs: parts of them, and a form in which words compare.
//!
//! A range is worked out from the text that it is taken of, so it fits. One that does not was worked out for
//! another text, and to go on with nothing in its place would lose what stands there.

use std::slice::SliceIndex;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Returns a part of a text.
///
/// # Panics
///
/// Panics when the range ends outside of the text or inside of a character.
#[track_caller]
pub fn slice(text: &str, range: impl SliceIndex<str, Output = str>) -> &str {
    text.get(range).expect("a range lies within its text and ends between two characters")
}

/// Tells whether a list of words, parted by white space, has a word.
pub fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|listed| listed == word)
}

/// Returns a text for comparing: NFKC, lower case, without accents.
///
/// Marks of Latin, Greek and Cyrillic, points of Hebrew and vowel signs of Arabic go. Voicing marks of kana and the
/// signs of Indic scripts tell words apart, and so does the breve of `й`; they stay.
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
    fn words_that_differ_in_case_width_and_accents_compare() {
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
