//! What words mean, as far as a table can tell: two vectors for each token of a small English vocabulary.
//!
//! One tells which words are near each other, the other what texts mean that are made of them: a sum says of a text
//! what no word of it says by itself. The table was distilled from a sentence encoder by `scripts/distil`; where it
//! comes from and its licence stand beside it in `data/`. A word that the vocabulary lacks is taken for another form of one
//! that it has (`untied`, `replicas`), or else cut into the longest tokens that it knows, and its vector is
//! the middle of theirs. Words that are not written in Latin letters have none.
//! Without the feature `embedder` no word has one, and recall goes by the words alone.

use std::sync::LazyLock;

use crate::vector::dot_product;

/// How much the number of a direction is worth once a vector is made whole numbers.
const QUANTIZED_MAX: f32 = 127.0;
/// The longest word that is looked up, in bytes.
const WORD_BYTES_MAX: usize = 40;
/// What English words begin with that say that something is not so; other beginnings make other things of them.
const PREFIXES: [&[u8]; 4] = [b"un", b"non", b"mis", b"dis"];
/// What they end with, the longest first, and what the word itself may have in its place.
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
/// The shortest word that others are forms of, in letters.
const BASE_CHARS_MIN: usize = 3;
/// How many bytes the table's head takes.
const HEAD_BYTES: usize = 16;
/// How many numbers a byte holds.
const NUMBERS_PER_BYTE: usize = 2;
/// As many numbers as a vector may have: sums of their products have to fit.
const DIMS_MAX: usize = 1 << 12;

#[cfg(feature = "embedder")]
static BYTES: &[u8] = include_bytes!("../data/tokens.qtv");
#[cfg(not(feature = "embedder"))]
static BYTES: &[u8] = &[];

static TABLE: LazyLock<Option<EmbeddingTable<'static>>> =
    LazyLock::new(|| EmbeddingTable::parse(BYTES));

/// Returns the table that this program carries, if it does.
pub(crate) fn embedding_table() -> Option<&'static EmbeddingTable<'static>> {
    TABLE.as_ref()
}

/// Returns bytes that are others when the table is another: all but its words and its numbers.
pub(crate) fn table_header() -> &'static [u8] {
    let vectors = |table: &EmbeddingTable<'_>| {
        table.words.len() + table.numbers.map(<[u8]>::len).iter().sum::<usize>()
    };
    let numbers = embedding_table().map_or(0, vectors);
    &BYTES[..BYTES.len() - numbers]
}

/// What a vector is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorUse {
    /// How near words are to each other.
    Words,
    /// What texts mean that have the word.
    Texts,
}

/// Tokens and their vectors.
#[derive(Debug)]
pub(crate) struct EmbeddingTable<'a> {
    dims: usize,
    /// What one step of a number is worth, sense by sense and dimension by dimension.
    steps: [Vec<f32>; 2],
    /// How rare each token is: sixteenths of a doubling of its place in the order of frequency.
    ranks: &'a [u8],
    /// The tokens in the order of their bytes, a line each.
    words: &'a [u8],
    /// Where each token starts, and one past the end.
    starts: Vec<usize>,
    /// Sense by sense, token by token.
    numbers: [&'a [u8]; 2],
}

impl<'a> EmbeddingTable<'a> {
    /// Reads a table; `None` if these bytes are none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let whole = |at: usize| {
            let number = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
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
        let sound = starts.len() == count + 1 && numbers.len() == count * dims;
        let numbers = numbers.split_at(numbers.len() / 2).into();
        sound.then_some(Self { dims, steps, ranks, words, starts, numbers })
    }

    /// Returns how many numbers a vector has.
    pub(crate) const fn dims(&self) -> usize {
        self.dims
    }

    /// Returns how many tokens it has.
    pub(crate) const fn len(&self) -> usize {
        self.ranks.len()
    }

    /// Returns the vector of a word in plain small letters, of length 127; `None` if it has none.
    pub(crate) fn vector(&self, sense: VectorUse, word: &str) -> Option<Vec<i8>> {
        let mut vector = vec![0; self.dims];
        self.write_vector(sense, &self.tokenize(word)?, &mut vector).then_some(vector)
    }

    /// Puts the vector of a word of these tokens where there are zeros; returns whether it has one.
    pub(crate) fn write_vector(&self, sense: VectorUse, tokens: &[u32], vector: &mut [i8]) -> bool {
        let mut sum = vec![0.0; self.dims];
        for token in tokens {
            self.add_token_vector(sense, *token as usize, &mut sum);
        }
        write_unit_vector(&sum, vector)
    }

    /// Returns how rare a word is, from 0 to 1; `None` if it is no form of a token.
    pub(crate) fn rarity(&self, word: &str) -> Option<f32> {
        self.rarity_of(self.find_form(word.as_bytes())?)
    }

    /// Returns how rare a word is that is this token, from 0 to 1.
    pub(crate) fn rarity_of(&self, token: usize) -> Option<f32> {
        Some(f32::from(*self.ranks.get(token)?) / 255.0)
    }

    /// Returns the token that a word is, or is another form of.
    fn find_form(&self, word: &[u8]) -> Option<usize> {
        let bare = PREFIXES.iter().filter_map(|beginning| word.strip_prefix(*beginning));
        let mut bare = bare.filter(|rest| rest.len() > BASE_CHARS_MIN);
        let own = self.find(word).or_else(|| self.find_without_suffix(word));
        own.or_else(|| {
            bare.find_map(|rest| self.find(rest).or_else(|| self.find_without_suffix(rest)))
        })
    }

    /// Returns the token that a word is without what it ends with.
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

    /// Returns the token that a word in plain small letters is a form of, or else the longest tokens that it can
    /// be cut into from its beginning; `None` if it cannot be.
    pub(crate) fn tokenize(&self, word: &str) -> Option<Vec<u32>> {
        let word = word.as_bytes();
        let cuttable = word.len() <= WORD_BYTES_MAX && word.iter().all(u8::is_ascii_lowercase);
        (cuttable && word.len() > 1).then_some(())?;
        if let Some(token) = self.find_form(word) {
            return Some(vec![u32::try_from(token).ok()?]);
        }
        let mut tokens = Vec::new();
        let mut at = 0;
        let mut piece = Vec::with_capacity(word.len() + 2);
        while at < word.len() {
            let found = (at + 1..=word.len()).rev().find_map(|end| {
                piece.clear();
                if at > 0 {
                    piece.extend_from_slice(b"##");
                }
                piece.extend_from_slice(&word[at..end]);
                Some((self.find(&piece)?, end))
            });
            let (token, end) = found?;
            tokens.push(u32::try_from(token).ok()?);
            at = end;
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

    fn add_token_vector(&self, sense: VectorUse, token: usize, places: &mut [f32]) {
        let (steps, numbers) = (&self.steps[sense as usize], self.numbers[sense as usize]);
        let bytes = self.dims / NUMBERS_PER_BYTE;
        let numbers = &numbers[token * bytes..(token + 1) * bytes];
        let pairs = places.as_chunks_mut::<2>().0.iter_mut().zip(steps.as_chunks::<2>().0);
        for ((places, steps), pair) in pairs.zip(numbers) {
            places[0] += f32::from((pair << 4).cast_signed() >> 4) * steps[0];
            places[1] += f32::from(pair.cast_signed() >> 4) * steps[1];
        }
    }
}

/// Puts the direction of a vector, of length 127, where there are zeros; returns whether it has one.
pub(crate) fn write_unit_vector(vector: &[f32], direction: &mut [i8]) -> bool {
    let length = vector.iter().map(|number| number * number).sum::<f32>().sqrt();
    let is_any = length > f32::EPSILON;
    if is_any {
        let scale = QUANTIZED_MAX / length;
        let numbers = direction.iter_mut().zip(vector);
        numbers.for_each(|(to, number)| *to = round_to_i8(number * scale));
    }
    is_any
}

/// Returns how near two vectors are: 1 for the same, 0 for nothing in common.
pub(crate) fn cosine_similarity(one: &[i8], other: &[i8]) -> f32 {
    dot_product(one, other) / (QUANTIZED_MAX * QUANTIZED_MAX)
}

/// The nearest whole number, of halves the one further from zero.
#[expect(clippy::cast_possible_truncation, reason = "bounded to what the number can hold")]
fn round_to_i8(number: f32) -> i8 {
    // The largest number below a half: with a half, what is just below one would become two halves.
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
    fn words_that_mean_the_same_are_nearer_than_words_that_do_not() {
        assert!(word_similarity("notebook", "laptop") > word_similarity("notebook", "harvest"));
        assert!(word_similarity("defect", "bug") > word_similarity("defect", "holiday"));
        assert!((word_similarity("ship", "ship") - 1.0).abs() < 0.01);
    }

    #[test]
    fn a_word_that_is_no_token_is_cut_and_one_of_other_letters_has_no_vector() {
        let table = embedding_table().expect("a table");
        assert!(table.vector(VectorUse::Texts, "transcoding").is_some());
        for word in ["", "x", "naïve", "r2d2", "сборка", &"a".repeat(41)] {
            assert_eq!(table.vector(VectorUse::Texts, word), None, "{word}");
        }
        assert!(table.rarity("the") < table.rarity("harvest"));
    }

    #[test]
    fn a_word_that_is_no_token_is_another_form_of_one() {
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
    fn bytes_that_are_no_table_are_refused() {
        assert!(EmbeddingTable::parse(b"").is_none());
        assert!(EmbeddingTable::parse(b"QTV2").is_none());
        assert!(EmbeddingTable::parse(&BYTES[..BYTES.len() - 1]).is_none());
        let mut other = BYTES.to_vec();
        other[8] = 5;
        assert!(EmbeddingTable::parse(&other).is_none());
    }
}
