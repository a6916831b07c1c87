//! Sums over a few numbers at a time, side by side, as processors like it.
//!
//! Lists that are handed in are as long as whole [`LANES`], filled up with zeros; what is left over of other lists
//! is passed over.

/// How many numbers are worked on side by side.
pub(crate) const LANES: usize = 8;

type Lane = [f32; LANES];

/// Returns a length filled up.
pub(crate) const fn filled_up(length: usize) -> usize {
    length.next_multiple_of(LANES)
}

/// Adds so many times a list to sums.
pub(crate) fn add(sums: &mut [f32], more: &[f32], weight: f32) {
    for (sums, more) in sums.as_chunks_mut::<LANES>().0.iter_mut().zip(more.as_chunks().0) {
        let more: &Lane = more;
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += weight * more);
    }
}

/// Keeps the larger of each number and so many times another.
pub(crate) fn keep_largest(largest: &mut [f32], more: &[f32], weight: f32) {
    for (largest, more) in largest.as_chunks_mut::<LANES>().0.iter_mut().zip(more.as_chunks().0) {
        let more: &Lane = more;
        for (most, more) in largest.iter_mut().zip(more) {
            let more = weight * more;
            *most = if more > *most { more } else { *most };
        }
    }
}

/// Returns the sum of what becomes of the numbers of two lists.
pub(crate) fn sum_of(one: &[f32], other: &[f32], of: impl Fn(f32, f32) -> f32) -> f32 {
    let mut sums = [0.0; LANES];
    for (one, other) in one.as_chunks::<LANES>().0.iter().zip(other.as_chunks::<LANES>().0) {
        for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
            *sum += of(*one, *other);
        }
    }
    let halves: [f32; LANES / 2] = std::array::from_fn(|at| sums[at] + sums[at + LANES / 2]);
    halves.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_worked_on_as_one_number_after_the_other() {
        let list = |of: fn(f32) -> f32| -> Vec<f32> {
            (0_u16..16).map(|number| of(f32::from(number))).collect()
        };
        let (up, down) = (list(|number| number), list(|number| 15.0 - number));
        let mut sums = up.clone();
        add(&mut sums, &down, 2.0);
        assert_eq!(sums, list(|number| number + 2.0 * (15.0 - number)));
        let mut largest = up.clone();
        keep_largest(&mut largest, &down, 0.5);
        assert_eq!(largest, list(|number| number.max(7.5 - number / 2.0)));
        let expected: f32 = up.iter().zip(&down).map(|(one, other)| one * other).sum();
        let sum = sum_of(&up, &down, |one, other| one * other);
        assert!((sum - expected).abs() < f32::EPSILON, "{sum}");
        assert_eq!([0, 1, 8, 9].map(filled_up), [0, 8, 8, 16]);
    }
}
