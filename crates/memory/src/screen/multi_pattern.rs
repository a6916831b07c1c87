//! Search for many words in one pass over a text.
//!
//! A bit table over hashes of the first three or four bytes of the words excludes most positions in about a nanosecond;
//! words are compared only at the others. The table is built in microseconds. An automaton for the same words takes
//! milliseconds, which a process that checks a single text would notice.

use std::ops::Range;

/// The number of looked-up bits of a hash: few enough for the table to fit into the L1 cache, enough for it to be
/// sparse with some hundred words.
const HASH_BITS: u32 = 15;

/// The number of 64-bit groups in a table.
const GROUPS: usize = (1 << HASH_BITS) / 64;

/// Words to search for, ignoring the case of ASCII letters, each with its pattern.
pub(super) struct MultiPattern {
    three_byte_prefixes: PrefixTable,
    four_byte_prefixes: PrefixTable,
}

/// The words whose first three or four bytes are looked up together.
struct PrefixTable {
    prefix_bits: Box<[u64; GROUPS]>,
    /// Sorted by the first bytes.
    words: Vec<SearchWord>,
}

struct SearchWord {
    first: u32,
    text: &'static str,
    owner: usize,
}

impl MultiPattern {
    /// Builds the tables from pairs of a word, with at least three bytes, and its owner.
    pub(super) fn new(words: impl Iterator<Item = (&'static str, usize)>) -> Self {
        let mut of_three = Vec::new();
        let mut of_four = Vec::new();
        for (text, owner) in words {
            let first = text.bytes().take(4).fold(0, shift_in);
            match text.len() {
                ..=3 => of_three.push(SearchWord { first, text, owner }),
                4.. => of_four.push(SearchWord { first, text, owner }),
            }
        }
        Self {
            three_byte_prefixes: PrefixTable::new(of_three),
            four_byte_prefixes: PrefixTable::new(of_four),
        }
    }

    /// Calls `found` with the owner and the range of each word in the text, in approximate order.
    pub(super) fn for_each_match(&self, text: &str, mut on_match: impl FnMut(usize, Range<usize>)) {
        let mut last_four = 0;
        for (position, byte) in text.bytes().enumerate() {
            last_four = shift_in(last_four, byte);
            let last_three = last_four & 0x00FF_FFFF;
            if self.three_byte_prefixes.may_match_prefix(last_three) && position >= 2 {
                self.three_byte_prefixes.compare(last_three, text, position - 2, &mut on_match);
            }
            if self.four_byte_prefixes.may_match_prefix(last_four) && position >= 3 {
                self.four_byte_prefixes.compare(last_four, text, position - 3, &mut on_match);
            }
        }
    }
}

impl PrefixTable {
    fn new(mut words: Vec<SearchWord>) -> Self {
        words.sort_by_key(|word| word.first);
        let mut begins = Box::new([0; GROUPS]);
        for word in &words {
            let bit = hash(word.first);
            begins[bit / 64] |= 1 << (bit % 64);
        }
        Self { prefix_bits: begins, words }
    }

    fn may_match_prefix(&self, first: u32) -> bool {
        let bit = hash(first);
        self.prefix_bits[bit / 64] >> (bit % 64) & 1 == 1
    }

    #[inline(never)]
    fn compare(
        &self,
        first: u32,
        text: &str,
        start: usize,
        on_match: &mut impl FnMut(usize, Range<usize>),
    ) {
        let begin = self.words.partition_point(|word| word.first < first);
        let candidates = &self.words[begin..];
        for word in candidates.iter().take_while(|word| word.first == first) {
            let end = start + word.text.len();
            let candidate = text.as_bytes().get(start..end);
            if candidate.is_some_and(|it| it.eq_ignore_ascii_case(word.text.as_bytes())) {
                on_match(word.owner, start..end);
            }
        }
    }
}

/// Shifts a byte into the last four. Setting the case bit of ASCII letters is enough here, because words are compared
/// exactly afterwards.
fn shift_in(last_four: u32, byte: u8) -> u32 {
    last_four << 8 | u32::from(byte | 0x20)
}

fn hash(first: u32) -> usize {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the bytes.
    (first.wrapping_mul(0x9E37_79B1) >> (u32::BITS - HASH_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&'static str], text: &str, expected: &[(usize, Range<usize>)]) {
        let words = MultiPattern::new(words.iter().enumerate().map(|(owner, word)| (*word, owner)));
        let mut found = Vec::new();
        words.for_each_match(text, |owner, range| found.push((owner, range)));
        found.sort_by_key(|(owner, range)| (*owner, range.start));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn every_occurrence_of_every_word_is_found() {
        check(&["key"], "", &[]);
        check(&["key"], "ke", &[]);
        check(&["key"], "key", &[(0, 0..3)]);
        check(&["key", "keys", "monkey"], "MonKeys", &[(0, 3..6), (1, 3..7), (2, 0..6)]);
        check(&["aaa", "aaaa"], "aaaaa", &[(0, 0..3), (0, 1..4), (0, 2..5), (1, 0..4), (1, 1..5)]);
        check(&["密码", "sk-"], "密码:sk-密码", &[(0, 0..6), (0, 10..16), (1, 7..10)]);
    }

    #[test]
    fn only_letters_match_in_either_case() {
        // `@` and the grave accent differ in the same bit as the two cases of a letter.
        check(&["a@b", "a_b_"], "A`B A\u{7f}B\u{7f} A@B A_B_", &[(0, 9..12), (1, 13..17)]);
    }
}
