//! Vectors of whole texts, made elsewhere, and the texts that they are made of.

use memory::screen::Screen;
use wide::{i16x8, i32x4};

use crate::passage;

/// The largest whole number that a vector has.
const QUANTIZED_MAX: f32 = 127.0;

/// The direction of what a text means, as somebody else's model has it.
///
/// Kept in whole numbers, a byte each: how near two of them are is off by less than a hundredth.
#[derive(Clone, Debug, PartialEq)]
pub struct Vector {
    numbers: Box<[i8]>,
    /// One divided by its length.
    scale: f32,
}

impl Vector {
    /// Returns a vector of these numbers; `None` if they have no direction, or one of them is none.
    pub fn from_numbers(numbers: &[f32]) -> Option<Self> {
        let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let are_numbers = numbers.iter().all(|number| number.is_finite());
        (are_numbers && most > 0.0).then_some(())?;
        #[expect(clippy::cast_possible_truncation, reason = "no larger than the largest")]
        let whole = |number: &f32| (number / most * QUANTIZED_MAX).round() as i8;
        Self::from_quantized(numbers.iter().map(whole).collect())
    }

    /// Returns the vector of these bytes, which [`bytes`](Self::bytes) gave; `None` if they have no direction.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Self::from_quantized(bytes.iter().map(|byte| byte.cast_signed()).collect())
    }

    /// Returns it as bytes, one for each number.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.numbers.iter().map(|number| number.cast_unsigned())
    }

    /// Returns how many numbers it has.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// Returns how near two are: 1 for the same direction, 0 for nothing in common; `None` if they have not as
    /// many numbers.
    pub fn similarity(&self, other: &Self) -> Option<f32> {
        let comparable = self.numbers.len() == other.numbers.len();
        comparable.then(|| dot_product(&self.numbers, &other.numbers) * self.scale * other.scale)
    }

    fn from_quantized(numbers: Box<[i8]>) -> Option<Self> {
        let square = dot_product(&numbers, &numbers);
        (square > 0.0).then(|| Self { numbers, scale: square.sqrt().recip() })
    }
}

/// Returns the sum of the products of two lists.
///
/// Bytes are taken as pairs, whose products processors add up in one step. A plain loop is not compiled to that, and
/// makes a recall by sense a sixth longer.
pub(crate) fn dot_product(one: &[i8], other: &[i8]) -> f32 {
    // Every other number, in twice as many bits: their product is one that fits.
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

/// Returns the texts of a memory that vectors are made of, entry by entry, as [`Corpus`](crate::Corpus) counts them:
/// what the memory is called, the headings above the entry, and what it says; of each at most `chars_max`
/// characters. What `screen` objects to is in none of them.
pub fn passages(text: &str, screen: &Screen, chars_max: usize) -> Vec<String> {
    let cut = passage::split_passages(text, screen);
    let title = match &cut.header.name {
        _ if !cut.header.description.is_empty() => cut.header.description.as_str(),
        Some(name) => name.as_str(),
        None => "",
    };
    let passage = |heading: &str, text: &str| {
        let parts = [title.trim(), heading.trim(), text.trim()].into_iter();
        let whole = parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n");
        whole.chars().take(chars_max).collect()
    };
    cut.passages.iter().map(|unit| passage(&unit.heading, &unit.text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_near_by_their_direction_and_not_by_their_length() {
        let nearness = |one: &[f32], other: &[f32]| {
            Vector::from_numbers(one).unwrap().similarity(&Vector::from_numbers(other).unwrap())
        };
        let check = |one: &[f32], other: &[f32], expected: f32| {
            let found = nearness(one, other).unwrap();
            assert!((found - expected).abs() < 0.01, "{one:?} {other:?}: {found}");
        };
        check(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0], 1.0);
        check(&[1.0, 0.0], &[0.0, 5.0], 0.0);
        check(&[1.0, 1.0], &[-2.0, -2.0], -1.0);
        check(&[1.0, 0.0], &[1.0, 1.0], 0.707);
        let long: Vec<f32> = (0_u16..1_000).map(|at| f32::from(at % 17) - 8.0).collect();
        check(&long, &long, 1.0);
        assert_eq!(nearness(&[1.0], &[1.0, 0.0]), None);
    }

    #[test]
    fn products_of_bytes_are_added_up() {
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
    fn what_has_no_direction_is_no_vector() {
        for numbers in [&[][..], &[0.0, 0.0], &[f32::NAN, 1.0], &[f32::INFINITY, 1.0]] {
            assert_eq!(Vector::from_numbers(numbers), None, "{numbers:?}");
        }
        assert_eq!(Vector::from_bytes(&[0, 0]), None);
    }

    #[test]
    fn a_vector_is_the_same_after_it_was_bytes() {
        let vector = Vector::from_numbers(&[0.5, -0.25, 0.0, 1.0]).unwrap();
        let bytes: Vec<u8> = vector.bytes().collect();
        assert_eq!(Vector::from_bytes(&bytes), Some(vector));
    }

    #[test]
    fn a_passage_has_what_its_entry_stands_under_and_nothing_that_screening_objects_to() {
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
