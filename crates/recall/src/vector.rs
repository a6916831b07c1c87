//! Vectors of whole texts from an external embedding model, and the texts to embed.
//!
//! A [`Vector`] is quantized to one byte per dimension. [`passages`] returns the screened texts of a memory that
//! the caller sends to its model. This module calls no model; `dense` uses the vectors for ranking.

use memory::screen::Screen;
use wide::{i16x8, i32x4};

use crate::passage;

/// Largest value of a quantized dimension.
const QUANTIZED_MAX: f32 = 127.0;

/// A vector of a text, as an external embedding model gave it.
///
/// Quantized to one byte per dimension; a similarity is off by less than 0.01.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    numbers: Box<[i8]>,
    /// One divided by the length.
    scale: f32,
}

impl Vector {
    /// Quantizes a vector; `None` if it is empty, zero, or not finite.
    pub fn from_numbers(numbers: &[f32]) -> Option<Self> {
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let are_numbers = numbers.iter().all(|number| number.is_finite());
        (are_numbers && largest > 0.0).then_some(())?;
        #[expect(clippy::cast_possible_truncation, reason = "at most QUANTIZED_MAX after scaling")]
        let whole = |number: &f32| (number / largest * QUANTIZED_MAX).round() as i8;
        Self::from_quantized(numbers.iter().map(whole).collect())
    }

    /// Decodes the result of [`bytes`](Self::bytes); `None` if the vector is empty or zero.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_quantized(bytes.iter().map(|byte| byte.cast_signed()).collect())
    }

    /// Returns the encoded vector, one byte per dimension.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.numbers.iter().map(|number| number.cast_unsigned())
    }

    /// Returns the number of dimensions.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the cosine similarity: 1 for the same direction, 0 for unrelated vectors; `None` if the dimensions
    /// differ.
    pub fn similarity(&self, other: &Self) -> Option<f32> {
        let comparable = self.numbers.len() == other.numbers.len();
        comparable.then(|| dot_product(&self.numbers, &other.numbers) * self.scale * other.scale)
    }

    /// Returns the quantized dimensions.
    pub(crate) fn numbers(&self) -> &[i8] {
        &self.numbers
    }

    /// Returns one divided by the length.
    pub(crate) const fn scale(&self) -> f32 {
        self.scale
    }

    fn from_quantized(numbers: Box<[i8]>) -> Option<Self> {
        let square = dot_product(&numbers, &numbers);
        (square > 0.0).then(|| Self { numbers, scale: square.sqrt().recip() })
    }
}

/// Returns the dot product of two lists.
///
/// Bytes are processed as pairs, whose products processors add in one step. A plain loop is not compiled to that;
/// it makes a recall with vectors a sixth slower.
pub(crate) fn dot_product(one: &[i8], other: &[i8]) -> f32 {
    // Even and odd bytes, each widened to 16 bits: the product of two fits.
    let halves = |bytes: &[i8; 16]| -> [i16x8; 2] {
        let pairs: i16x8 = wide::bytemuck::cast(*bytes);
        [(pairs << 8) >> 8, pairs >> 8]
    };
    let ((ones, rest), (others, other_rest)) = (one.as_chunks(), other.as_chunks());
    let sums = ones.iter().zip(others).fold(i32x4::ZERO, |sums, (one, other)| {
        let ([low, high], [other_low, other_high]) = (halves(one), halves(other));
        sums + low.dot(other_low) + high.dot(other_high)
    });
    let rest = rest.iter().zip(other_rest).map(|(a, b)| i32::from(*a) * i32::from(*b));
    let sum: i64 = sums.to_array().into_iter().chain(rest).map(i64::from).sum();
    sum as f32
}

/// Returns the texts of a memory to embed, one per entry, in the order of [`Corpus`](crate::Corpus). Each is the
/// memory's title, the headings above the entry, and the entry, cut at `chars_max` characters. Text that `screen`
/// refuses is left out.
pub fn passages(text: &str, screen: &Screen, chars_max: usize) -> Vec<String> {
    let split = passage::split_passages(text, screen);
    let title = match &split.header.name {
        _ if !split.header.description.is_empty() => split.header.description.as_str(),
        Some(name) => name.as_str(),
        None => "",
    };
    let passage = |heading: &str, text: &str| {
        let parts = [title.trim(), heading.trim(), text.trim()].into_iter();
        let whole = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        whole.chars().take(chars_max).collect()
    };
    split.passages.iter().map(|unit| passage(&unit.heading, &unit.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_depends_on_direction_and_not_on_length() {
        let similarity = |one: &[f32], other: &[f32]| {
            Vector::from_numbers(one).unwrap().similarity(&Vector::from_numbers(other).unwrap())
        };
        let check = |one: &[f32], other: &[f32], expected: f32| {
            let actual = similarity(one, other).unwrap();
            assert!((actual - expected).abs() < 0.01, "{one:?} {other:?}: {actual}");
        };
        check(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0], 1.0);
        check(&[1.0, 0.0], &[0.0, 5.0], 0.0);
        check(&[1.0, 1.0], &[-2.0, -2.0], -1.0);
        check(&[1.0, 0.0], &[1.0, 1.0], 0.707);
        let long: Vec<f32> = (0_u16..1_000).map(|index| f32::from(index % 17) - 8.0).collect();
        check(&long, &long, 1.0);
        assert_eq!(similarity(&[1.0], &[1.0, 0.0]), None);
    }

    #[test]
    fn the_dot_product_of_bytes_is_exact() {
        let numbers = |step: i8| -> Vec<i8> {
            (0..200_u8).map(|at| at.cast_signed().wrapping_mul(step)).collect()
        };
        let (one, other) = (numbers(7), numbers(-3));
        let pairs = one.iter().zip(&other);
        let expected: i32 = pairs.map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
        let check = |one: &[i8], other: &[i8], expected: i32| {
            assert!((dot_product(one, other) - expected as f32).abs() < f32::EPSILON);
        };
        check(&one, &other, expected);
        check(&[-128; 16], &[-128; 16], 16 * 128 * 128);
        check(&one, &[], 0);
    }

    #[test]
    fn numbers_without_a_direction_are_no_vector() {
        for numbers in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!(Vector::from_numbers(numbers), None, "{numbers:?}");
        }
        assert_eq!(Vector::from_bytes(&[0, 0]), None);
    }

    #[test]
    fn a_vector_survives_encoding_and_decoding() {
        let vector = Vector::from_numbers(&[0.5, -0.25, 0.0, 1.0]).unwrap();
        let bytes: Vec<u8> = vector.bytes().collect();
        assert_eq!(Vector::from_bytes(&bytes), Some(vector));
    }

    #[test]
    fn a_passage_has_title_and_headings_and_nothing_that_screening_refuses() {
        let key = format!("ghp_{}", "a1B2c3D4e5".repeat(4).get(..36).unwrap());
        let text = format!(
            "---\nname: n\ndescription: House\n---\n# Pond\n\n- deep\n- token {key}\n- {}\n",
            "ä".repeat(30)
        );
        let expected =
            ["House\nPond\n- deep".to_owned(), format!("House\nPond\n- {}", "ä".repeat(7))];
        assert_eq!(passages(&text, &Screen::default(), 20), expected);
        let text = format!("---\ndescription: token {key}\n---\n- fine\n");
        assert_eq!(passages(&text, &Screen::default(), 20), ["- fine"]);
    }
}
