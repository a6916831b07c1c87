//! A linear layer with weights of 8 bits: `y = x · Wᵀ + b`.

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmUninitOptions, PackedBMatrix};
use rten_simd::SimdOp;
use rten_tensor::NdTensorView;
use rten_vecmath::{ExtendInit, MinMax, Quantize};

thread_local! {
    /// Multiplies inputs of 8 bits without sign by weights of 8 bits with sign. One for each thread, because it cannot be
    /// sent to another; all choose the same instructions.
    static GEMM: GemmExecutor<u8, i8, i32> = GemmExecutor::new();
}

/// Largest value of a quantized input.
const INPUT_MAX: f32 = 255.0;

/// Rows of numbers, each rounded to 8 bits with its own scale and zero point.
pub(crate) struct QuantizedRows {
    numbers: Vec<u8>,
    zeros: Vec<u8>,
    scales: Vec<f32>,
    columns: usize,
}

impl QuantizedRows {
    /// Rounds rows of `columns` numbers.
    pub(crate) fn new(rows: &[f32], columns: usize) -> Self {
        let mut numbers = Vec::with_capacity(rows.len());
        let (mut zeros, mut scales) = (Vec::new(), Vec::new());
        for row in rows.chunks_exact(columns) {
            let (low, high) = MinMax::new(row).dispatch();
            let (low, high) = (low.min(0.0), high.max(0.0));
            let scale = if high > low { (high - low) / INPUT_MAX } else { 1.0 };
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "0 to INPUT_MAX"
            )]
            let zero = (-low / scale).round() as u8;
            numbers.extend_init(|free| {
                let (free, _) = free.split_at_mut(columns);
                Quantize::new(row, free, scale.recip(), zero).dispatch()
            });
            zeros.push(zero);
            scales.push(scale);
        }
        Self { numbers, zeros, scales, columns }
    }
}

/// A linear layer.
pub(crate) struct Linear {
    weights: PackedBMatrix<i8>,
    scales: Box<[f32]>,
    biases: Box<[f32]>,
    /// Sum of the weights of each output, by which the zero points of the inputs are taken off.
    totals: Box<[i32]>,
}

impl Linear {
    /// Packs the weights, one row for each output, for the multiplication on this processor.
    pub(crate) fn new(rows: &[i8], scales: Box<[f32]>, biases: Box<[f32]>) -> Self {
        let outputs = scales.len();
        let inputs = rows.len() / outputs.max(1);
        let total = |row: &[i8]| row.iter().map(|&x| i32::from(x)).sum();
        let totals = rows.chunks_exact(inputs.max(1)).map(total).collect();
        let matrix = NdTensorView::from_data([outputs, inputs], rows);
        Self {
            weights: GEMM.with(|gemm| gemm.prepack_b(matrix.transposed())),
            scales,
            biases,
            totals,
        }
    }

    /// Returns the outputs of all rows, one row after the other.
    pub(crate) fn apply(&self, rows: &QuantizedRows) -> Vec<f32> {
        let outputs = self.scales.len();
        let mut sums = Vec::with_capacity(rows.scales.len() * outputs);
        let input =
            NdTensorView::from_data([rows.scales.len(), rows.columns], rows.numbers.as_slice());
        sums.extend_init(|free| {
            // The zero points that the library takes off give wrong sums for more than one tile of rows in this
            // version, so they are taken off below.
            let options = GemmUninitOptions::default();
            let (free, _) = free.split_at_mut(rows.scales.len() * outputs);
            let weights = GemmInputB::Packed(&self.weights);
            let input = GemmInputA::Unpacked(input);
            let multiplied = GEMM.with(|gemm| gemm.gemm_uninit(free, input, weights, options));
            multiplied.expect("the rows have as many numbers as the weights")
        });
        let mut results = Vec::with_capacity(sums.len());
        for ((sums, scale), zero) in sums.chunks_exact(outputs).zip(&rows.scales).zip(&rows.zeros) {
            let zero = i32::from(*zero);
            let columns = sums.iter().zip(&self.totals).zip(&self.scales).zip(&self.biases);
            #[expect(
                clippy::cast_precision_loss,
                reason = "far finer than the rounding to 8 bits"
            )]
            results.extend(columns.map(|(((sum, total), column), bias)| {
                (sum - zero * total) as f32 * scale * column + bias
            }));
        }
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_multiplies_and_adds() {
        let layer = Linear::new(&[100, 0, -50, 100], [0.01, 0.02].into(), [0.5, 0.0].into());
        let rows = QuantizedRows::new(&[1.0, -1.0, 0.25, 0.5, 0.0, 0.0], 2);
        let expected = [1.5, -3.0, 0.75, 0.75, 0.5, 0.0];
        for (y, expected) in layer.apply(&rows).iter().zip(expected) {
            assert!((y - expected).abs() < 0.02, "{y} is not {expected}");
        }
    }

    /// The sums are exact for the largest inputs and weights, on every processor.
    #[test]
    fn sums_of_large_numbers_do_not_saturate() {
        let inner = 64;
        let (whole, scale) = crate::quantize::quantize_weights(&vec![1.0; inner]);
        let layer = Linear::new(&whole, [scale].into(), [0.0].into());
        let rows = QuantizedRows::new(&vec![1.0; 20 * inner], inner);
        for y in layer.apply(&rows) {
            assert!((y - 64.0).abs() < 0.6, "{y}");
        }
    }
}
