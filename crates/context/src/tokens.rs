//! How many tokens a text is, by a conservative estimate.
//!
//! Every model counts in its own way, and the tables that would be needed to count as one of them does are
//! larger than the whole program. So runs of characters are counted, each as what common tokenizers make of it
//! when they do not know the word well: more rather than fewer. English and code come out a third to a half
//! above what two tables in common use make of them (measured on the documents and sources of this
//! repository), Chinese twice, Russian up to four times. Only what looks like chance, such as digests, comes out
//! below, by up to a fifth.

/// ASCII letters that a token holds at the least, but for the last of a word.
const LETTERS_PER_TOKEN: usize = 4;

/// Marks in a row that a token holds at the least.
const MARKS_PER_TOKEN: usize = 2;

/// Bytes of other letters that a token holds at the least.
const OTHER_BYTES_PER_TOKEN: usize = 2;

/// Returns how many tokens a text is, rather too many, for texts as people and programs write them.
///
/// A run of ASCII letters is a token for every four letters begun, a run of marks for every two. A digit is
/// one. Other characters are one for every two bytes begun. A run of spaces is nothing if it is one space, else one; so
/// is a run of line breaks.
pub fn count(text: &str) -> usize {
    let mut total = 0;
    let mut run: Option<(CharClass, usize)> = None;
    for byte in text.bytes() {
        let kind = CharClass::of(byte);
        match &mut run {
            Some((same, length)) if *same == kind => *length += 1,
            _ => {
                total += run.map_or(0, |(kind, length)| kind.tokens(length));
                run = Some((kind, 1));
            }
        }
    }
    total + run.map_or(0, |(kind, length)| kind.tokens(length))
}

/// What a run of bytes is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CharClass {
    Letters,
    Digits,
    Space,
    Break,
    Marks,
    Other,
}

impl CharClass {
    const fn of(byte: u8) -> Self {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Self::Letters,
            b'0'..=b'9' => Self::Digits,
            b' ' => Self::Space,
            b'\n' | b'\r' | b'\t' => Self::Break,
            0x80.. => Self::Other,
            _ => Self::Marks,
        }
    }

    const fn tokens(self, length: usize) -> usize {
        match self {
            Self::Letters => length.div_ceil(LETTERS_PER_TOKEN),
            Self::Digits => length,
            Self::Marks => length.div_ceil(MARKS_PER_TOKEN),
            // One space is a part of the word that follows.
            Self::Space => (length > 1) as usize,
            Self::Break => 1,
            Self::Other => length.div_ceil(OTHER_BYTES_PER_TOKEN),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn runs_are_counted_by_what_they_are_made_of() {
        fn check(text: &str, expected: usize) {
            assert_eq!(count(text), expected, "{text:?}");
        }
        check("", 0);
        check("tea", 1);
        check("teapots", 2);
        check("tea pot", 2);
        check("tea  pot\n\n\npot", 5);
        check("v1.25", 5);
        check("}));", 2);
        check("a.b", 3);
        check("日本語", 5);
        check("Привет", 6);
        check("🫖", 2);
    }

    proptest! {
        #[test]
        fn parts_count_no_less_than_the_whole(left in any::<String>(), right in any::<String>()) {
            let whole = count(&format!("{left}{right}"));
            // A space on either side of the cut is two, which are counted.
            prop_assert!(whole <= count(&left) + count(&right) + 1);
        }
    }
}
