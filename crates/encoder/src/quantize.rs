//! Rounding of weights to 8 bits.
//!
//! A row of weights becomes integers and one scale. Processors without VNNI multiply pairs of bytes and add the two
//! products in 16 bits, where too large a sum saturates. With inputs up to 255, no pair saturates if the magnitudes
//! of its two weights add up to at most 128, so the scale is chosen for that.

/// Maximum of the sum of the magnitudes of two neighboring weights: 255 × 128 < 2¹⁵.
const PAIR_MAX: f32 = 128.0;
/// Maximum magnitude of one weight.
const WEIGHT_MAX: f32 = 127.0;

/// Rounds a row of weights for products of integers; returns the integers and the scale.
pub(crate) fn quantize_weights(row: &[f32]) -> (Vec<i8>, f32) {
    let pair = row.chunks(2).map(|pair| pair.iter().map(|x| x.abs()).sum()).fold(0.0, f32::max);
    // Rounding adds at most one half to each of the two.
    let scale = (pair / (PAIR_MAX - 1.0)).max(largest(row) / WEIGHT_MAX);
    (round(row, scale), scale)
}

/// Rounds a row of numbers that are only looked up; returns the integers and the scale.
pub(crate) fn quantize_row(row: &[f32]) -> (Vec<i8>, f32) {
    let scale = largest(row) / WEIGHT_MAX;
    (round(row, scale), scale)
}

fn largest(row: &[f32]) -> f32 {
    row.iter().fold(0.0, |largest, x| largest.max(x.abs()))
}

fn round(row: &[f32], scale: f32) -> Vec<i8> {
    if scale == 0.0 {
        return vec![0; row.len()];
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most WEIGHT_MAX after scaling")]
    let whole = |x: &f32| (x / scale).round() as i8;
    row.iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_pair_of_weights_saturates() {
        let rows = [
            vec![1.0, 1.0, -0.2],
            vec![0.3, -0.9],
            vec![5.0],
            vec![0.0, 0.0],
            vec![-1.0, 0.004, 0.5, 0.5],
        ];
        for row in rows {
            let (whole, scale) = quantize_weights(&row);
            for pair in whole.chunks(2) {
                let sum: i32 = pair.iter().map(|&x| i32::from(x).abs() * 255).sum();
                assert!(sum <= i32::from(i16::MAX), "{row:?} became {whole:?}");
            }
            for (x, whole) in row.iter().zip(whole) {
                assert!((x - f32::from(whole) * scale).abs() <= scale / 2.0 + f32::EPSILON);
            }
        }
    }
}
