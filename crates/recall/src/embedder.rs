//! Word vectors from a built-in table: two vectors for each token of a small English vocabulary.
//!
//! One vector compares words with each other. The other is for sums over the words of a text, which compare whole
//! texts. `scripts/distil` distilled the table from a sentence encoder; `data/README.md` names the source and
//! license. A word outside the vocabulary is treated as another form of one inside it (`untied`, `replicas`).
//! Failing that, it is split into the longest known tokens, and its vector is their mean. Words that are not in
//! Latin letters have no vector. Without the feature `embedder` no word has one, and recall uses the words alone.

use std::sync::LazyLock;

use crate::vector::dot_product;

/// Length of a quantized unit vector.
const QUANTIZED_MAX: f32 = 127.0;
/// Maximum length of a word that is looked up, in bytes.
const WORD_BYTES_MAX: usize = 40;
/// English prefixes of negation; words with other prefixes mean something else.
const PREFIXES: [&[u8]; 4] = [b"un", b"non", b"mis", b"dis"];
/// English suffixes, longest first, and the ending that the base form may have instead.
const SUFFIXES: [(&[u8], &[u8]); 12] = [
    (b"iness", b"y"),
    (b"ness", b""),
    (b"ily", b"y"),
    (b"ies", b"y"),
    (b"ied", b"y"),
    (b"ing", b"e"),
    (b"ers", b"e"),
    (b"er", b"e"),
    (b"ed", b"e"),
    (b"ly", b"le"),
    (b"s", b""),
    (b"y", b"e"),
];
/// Minimum length of a base form, in letters.
const BASE_CHARS_MIN: usize = 3;
/// Size of the table's header, in bytes.
const HEAD_BYTES: usize = 16;
/// Numbers in one byte.
const NUMBERS_PER_BYTE: usize = 2;
/// Maximum number of dimensions, so that dot products do not overflow.
const DIMS_MAX: usize = 1 << 12;

#[cfg(feature = "embedder")]
static BYTES: &[u8] = include_bytes!("../data/tokens.qtv");
#[cfg(not(feature = "embedder"))]
static BYTES: &[u8] = &[];

static TABLE: LazyLock<Option<EmbeddingTable<'static>>> =
    LazyLock::new(|| EmbeddingTable::parse(BYTES));

/// Returns the built-in table; `None` without the feature.
pub(crate) fn embedding_table() -> Option<&'static EmbeddingTable<'static>> {
    TABLE.as_ref()
}

/// Returns the part of the table before its words and numbers. It differs between any two versions of the table.
pub(crate) fn table_header() -> &'static [u8] {
    let vectors = |table: &EmbeddingTable<'_>| {
        table.words.len() + table.numbers.map(<[u8]>::len).iter().sum::<usize>()
    };
    let numbers = embedding_table().map_or(0, vectors);
    &BYTES[..BYTES.len() - numbers]
}

/// Purpose of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorUse {
    /// Comparing words.
    Words,
    /// Summing over the words of a text.
    Texts,
}

/// The tokens and their vectors.
#[derive(Debug)]
pub(crate) struct EmbeddingTable<'a> {
    dims: usize,
    /// Value of one step of a number, by purpose and dimension.
    steps: [Vec<f32>; 2],
    /// Rarity of each token: the logarithm of its rank by frequency, in sixteenths of a doubling.
    ranks: &'a [u8],
    /// Tokens in byte order, one per line.
    words: &'a [u8],
    /// Offset of each token, and one past the end.
    starts: Vec<usize>,
    /// Quantized vectors, by purpose and token.
    numbers: [&'a [u8]; 2],
}

impl<'a> EmbeddingTable<'a> {
    /// Parses a table; `None` if the bytes are not valid.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let whole = |offset: usize| {
            let number = u32::from_le_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?);
            usize::try_from(number).ok()
        };
        (bytes.get(..4)? == b"QTV2").then_some(())?;
        let (count, dims, words_len) = (whole(4)?, whole(8)?, whole(12)?);
        (dims > 0 && dims.is_multiple_of(16) && dims <= DIMS_MAX).then_some(())?;
        let (steps, rest) = bytes.get(HEAD_BYTES..)?.split_at_checked(2 * dims * 4)?;
        let (ranks, rest) = rest.split_at_checked(count)?;
        let (words, numbers) = rest.split_at_checked(words_len)?;
        let mut steps = steps.as_chunks::<4>().0.iter().map(|step| f32::from_le_bytes(*step));
        let steps = [steps.by_ref().take(dims).collect(), steps.collect()];
        let ends = words.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let mut starts: Vec<usize> = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        starts.push(words.len() + 1);
        let is_valid = starts.len() == count + 1 && numbers.len() == count * dims;
        let numbers = numbers.split_at(numbers.len() / 2).into();
        is_valid.then_some(Self { dims, steps, ranks, words, starts, numbers })
    }

    /// Returns the number of dimensions of a vector.
    pub(crate) const fn dims(&self) -> usize {
        self.dims
    }

    /// Returns the number of tokens.
    pub(crate) const fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the vector of a folded word, at length 127; `None` if it has none.
    pub(crate) fn vector(&self, purpose: VectorUse, word: &str) -> Option<Vec<i8>> {
        let mut vector = vec![0; self.dims];
        self.write_vector(purpose, &self.tokenize(word)?, &mut vector).then_some(vector)
    }

    /// Writes the vector of a word with these tokens into zeros; returns whether it has one.
    pub(crate) fn write_vector(
        &self,
        purpose: VectorUse,
        tokens: &[u32],
        vector: &mut [i8],
    ) -> bool {
        let mut sum = vec![0.0; self.dims];
        for token in tokens {
            self.add_token_vector(purpose, *token as usize, &mut sum);
        }
        write_unit_vector(&sum, vector)
    }

    /// Returns the rarity of a word, from 0 to 1; `None` if it is no form of a token.
    pub(crate) fn rarity(&self, word: &str) -> Option<f32> {
        self.rarity_of(self.find_form(word.as_bytes())?)
    }

    /// Returns the rarity of a token, from 0 to 1.
    pub(crate) fn rarity_of(&self, token: usize) -> Option<f32> {
        Some(f32::from(*self.ranks.get(token)?) / 255.0)
    }

    /// Returns the token of a word or of its base form.
    fn find_form(&self, word: &[u8]) -> Option<usize> {
        let bare = PREFIXES.iter().filter_map(|beginning| word.strip_prefix(*beginning));
        let mut bare = bare.filter(|rest| rest.len() > BASE_CHARS_MIN);
        let own = self.find(word).or_else(|| self.find_without_suffix(word));
        own.or_else(|| {
            bare.find_map(|rest| self.find(rest).or_else(|| self.find_without_suffix(rest)))
        })
    }

    /// Returns the token of a word after removing a suffix.
    fn find_without_suffix(&self, word: &[u8]) -> Option<usize> {
        SUFFIXES.iter().find_map(|(ending, instead)| {
            let stem = word.strip_suffix(*ending).filter(|stem| stem.len() >= BASE_CHARS_MIN)?;
            let single = match stem {
                [rest @ .., a, b] if a == b || [*a, *b] == *b"ck" => &stem[..=rest.len()],
                _ => stem,
            };
            let whole = self.find(stem).or_else(|| self.find(single));
            whole.or_else(|| self.find(&[stem, *instead].concat()))
        })
    }

    /// Returns the token of a folded word or its base form, or else its longest tokens from the beginning; `None`
    /// if it cannot be split.
    pub(crate) fn tokenize(&self, word: &str) -> Option<Vec<u32>> {
        let word = word.as_bytes();
        let cuttable = word.len() <= WORD_BYTES_MAX && word.iter().all(u8::is_ascii_lowercase);
        (cuttable && word.len() > 1).then_some(())?;
        if let Some(token) = self.find_form(word) {
            return Some(vec![u32::try_from(token).ok()?]);
        }
        let mut tokens = Vec::new();
        let mut start = 0;
        let mut piece = Vec::with_capacity(word.len() + 2);
        while start < word.len() {
            let found = (start + 1..=word.len()).rev().find_map(|end| {
                piece.clear();
                if start > 0 {
                    piece.extend_from_slice(b"##");
                }
                piece.extend_from_slice(&word[start..end]);
                Some((self.find(&piece)?, end))
            });
            let (token, end) = found?;
            tokens.push(u32::try_from(token).ok()?);
            start = end;
        }
        Some(tokens)
    }

    fn find(&self, token: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.starts.len() - 1);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.words.get(self.starts[middle]..self.starts[middle + 1] - 1)?.cmp(token) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    fn add_token_vector(&self, purpose: VectorUse, token: usize, sums: &mut [f32]) {
        let (steps, numbers) = (&self.steps[purpose as usize], self.numbers[purpose as usize]);
        let bytes = self.dims / NUMBERS_PER_BYTE;
        let numbers = &numbers[token * bytes..(token + 1) * bytes];
        let pairs = sums.as_chunks_mut::<2>().0.iter_mut().zip(steps.as_chunks::<2>().0);
        for ((sums, steps), pair) in pairs.zip(numbers) {
            sums[0] += f32::from((pair << 4).cast_signed() >> 4) * steps[0];
            sums[1] += f32::from(pair.cast_signed() >> 4) * steps[1];
        }
    }
}

/// Writes a vector, scaled to length 127, into zeros; returns whether it is not zero.
pub(crate) fn write_unit_vector(vector: &[f32], direction: &mut [i8]) -> bool {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    let has_direction = length > f32::EPSILON;
    if has_direction {
        let scale = QUANTIZED_MAX / length;
        let numbers = direction.iter_mut().zip(vector);
        numbers.for_each(|(to, number)| *to = round_to_i8(number * scale));
    }
    has_direction
}

/// Returns the cosine similarity of two unit vectors: 1 for the same, 0 for unrelated ones.
pub(crate) fn cosine_similarity(one: &[i8], other: &[i8]) -> f32 {
    dot_product(one, other) / (QUANTIZED_MAX * QUANTIZED_MAX)
}

/// Rounds to the nearest integer, halves away from zero.
#[expect(clippy::cast_possible_truncation, reason = "bounded to what the number can hold")]
fn round_to_i8(number: f32) -> i8 {
    // The largest number below a half: adding a half itself would round 0.49999997 up to 1.
    const HALF: f32 = 0.499_999_97;
    (number.clamp(-QUANTIZED_MAX, QUANTIZED_MAX) + HALF.copysign(number)) as i32 as i8
}

#[cfg(test)]
#[cfg(feature = "embedder")]
mod tests {
    use super::*;

    fn word_similarity(one: &str, other: &str) -> f32 {
        let table = embedding_table().expect("a table");
        let vector = |word: &str| table.vector(VectorUse::Words, word).expect(word);
        cosine_similarity(&vector(one), &vector(other))
    }

    #[test]
    fn synonyms_are_more_similar_than_unrelated_words() {
        assert!(word_similarity("notebook", "laptop") > word_similarity("notebook", "harvest"));
        assert!(word_similarity("defect", "bug") > word_similarity("defect", "holiday"));
        assert!((word_similarity("ship", "ship") - 1.0).abs() < 0.01);
    }

    #[test]
    fn an_unknown_word_is_split_and_one_in_other_letters_has_no_vector() {
        let table = embedding_table().expect("a table");
        assert!(table.vector(VectorUse::Texts, "transcoding").is_some());
        for word in ["", "x", "naïve", "r2d2", "сборка", &"a".repeat(41)] {
            assert_eq!(table.vector(VectorUse::Texts, word), None, "{word}");
        }
        assert!(table.rarity("the") < table.rarity("harvest"));
    }

    #[test]
    fn an_unknown_word_takes_the_vector_of_its_base_form() {
        let table = embedding_table().expect("a table");
        for (word, of) in [
            ("untranslated", "translated"),
            ("panicking", "panic"),
            ("versioning", "version"),
            ("cleverness", "clever"),
            ("misconfigured", "configured"),
        ] {
            assert_eq!(table.rarity(word), table.rarity(of), "{word}");
            let vector = |word| table.vector(VectorUse::Texts, word);
            assert_eq!(vector(word), vector(of), "{word}");
        }
        assert_eq!(table.rarity("qqqzing"), None);
    }

    #[test]
    fn numbers_are_rounded_to_the_nearest() {
        for (number, expected) in [
            (0.0, 0),
            (0.49, 0),
            (0.5, 1),
            (-0.5, -1),
            (1.49, 1),
            (-1.51, -2),
            (500.0, 127),
            (-500.0, -127),
        ] {
            assert_eq!(round_to_i8(number), expected, "{number}");
            let whole = number.round().clamp(-QUANTIZED_MAX, QUANTIZED_MAX);
            assert!((f32::from(round_to_i8(number)) - whole).abs() < f32::EPSILON, "{number}");
        }
        assert_eq!(round_to_i8(0.499_999_97), 0);
    }

    #[test]
    fn invalid_tables_are_refused() {
        assert!(EmbeddingTable::parse(b"").is_none());
        assert!(EmbeddingTable::parse(b"QTV2").is_none());
        assert!(EmbeddingTable::parse(&BYTES[..BYTES.len() - 1]).is_none());
        let mut other = BYTES.to_vec();
        other[8] = 5;
        assert!(EmbeddingTable::parse(&other).is_none());
    }
}
