//! Sums over a few numbers at a time, side by side, as processors like it.
//!
//! That numbers are worked on side by side is said, not left to the compiler: of a program that is built small it
//! makes no loop so.

use wide::{f32x4, i16x8, i32x4};

pub(crate) use wide::f32x8 as Lane;

/// How many numbers are worked on side by side.
pub(crate) const LANES: usize = 8;

/// Keeps the larger of each number of two lists.
pub(crate) fn keep_largest(largest: &mut [f32], more: &[f32]) {
    let (lanes, rest) = largest.as_chunks_mut::<LANES>();
    let (more_lanes, more_rest) = more.as_chunks::<LANES>();
    for (largest, more) in lanes.iter_mut().zip(more_lanes) {
        *largest = Lane::new(*largest).fast_max(Lane::new(*more)).to_array();
    }
    rest.iter_mut().zip(more_rest).for_each(|(largest, more)| *largest = largest.max(*more));
}

/// Divides each number by one of another list.
pub(crate) fn divide(numbers: &mut [f32], by: &[f32]) {
    let (lanes, rest) = numbers.as_chunks_mut::<LANES>();
    let (by_lanes, by_rest) = by.as_chunks::<LANES>();
    for (numbers, by) in lanes.iter_mut().zip(by_lanes) {
        *numbers = (Lane::new(*numbers) / Lane::new(*by)).to_array();
    }
    rest.iter_mut().zip(by_rest).for_each(|(number, by)| *number /= by);
}

/// Returns the sum of the numbers of a lane: pairs first, so that no sum waits for seven others.
pub(crate) fn sum(lane: Lane) -> f32 {
    let [low, high]: [f32x4; 2] = wide::bytemuck::cast(lane);
    let [a, b, c, d] = (low + high).to_array();
    (a + b) + (c + d)
}

/// Returns the sum of the products of two lists.
pub(crate) fn product(one: &[f32], other: &[f32]) -> f32 {
    let (lanes, rest) = one.as_chunks::<LANES>();
    let (other_lanes, other_rest) = other.as_chunks::<LANES>();
    let pairs = lanes.iter().zip(other_lanes);
    let sums =
        pairs.fold(Lane::ZERO, |sums, (one, other)| sums + Lane::new(*one) * Lane::new(*other));
    let rest = rest.iter().zip(other_rest).map(|(one, other)| one * other);
    sum(sums) + rest.sum::<f32>()
}

/// Returns the sum of the products of two lists; what is left over of whole sixteens is passed over.
pub(crate) fn product_of_bytes(one: &[i8], other: &[i8]) -> i32 {
    // Every other number, in twice as many bits: their product is one that fits.
    let halves = |bytes: &[i8; 16]| -> [i16x8; 2] {
        let pairs: i16x8 = wide::bytemuck::cast(*bytes);
        [(pairs << 8) >> 8, pairs >> 8]
    };
    let pairs = one.as_chunks().0.iter().zip(other.as_chunks().0);
    let sums = pairs.fold(i32x4::ZERO, |sums, (one, other)| {
        let ([low, high], [other_low, other_high]) = (halves(one), halves(other));
        sums + low.dot(other_low) + high.dot(other_high)
    });
    sums.reduce_add()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_worked_on_as_one_number_after_the_other() {
        let list = |of: fn(f32) -> f32| -> Vec<f32> {
            (0_u16..19).map(|number| of(f32::from(number))).collect()
        };
        let (up, down) = (list(|number| number), list(|number| 18.0 - number));
        let mut largest = up.clone();
        keep_largest(&mut largest, &down);
        assert_eq!(largest, list(|number| number.max(18.0 - number)));
        let mut parts = up.clone();
        divide(&mut parts, &list(|_| 4.0));
        assert_eq!(parts, list(|number| number / 4.0));
        let expected: f32 = up.iter().zip(&down).map(|(one, other)| one * other).sum();
        let sum = product(&up, &down);
        assert!((sum - expected).abs() < f32::EPSILON, "{sum}");
    }

    #[test]
    fn products_of_bytes_are_added_up() {
        let numbers = |step: i8| -> Vec<i8> {
            (0..192_u8).map(|at| at.cast_signed().wrapping_mul(step)).collect()
        };
        let (one, other) = (numbers(7), numbers(-3));
        let pairs = one.iter().zip(&other);
        let expected: i32 = pairs.map(|(one, other)| i32::from(*one) * i32::from(*other)).sum();
        assert_eq!(product_of_bytes(&one, &other), expected);
        assert_eq!(product_of_bytes(&[-128; 16], &[-128; 16]), 16 * 128 * 128);
        assert_eq!(product_of_bytes(&one, &[]), 0);
    }
}
