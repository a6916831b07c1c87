//! How much each thing counts that speaks for an entry or a memory. One table, for every corpus.

use crate::features::{ENTRY, MEMORY};

/// Of an entry, in the order of [`crate::ENTRY_FEATURES`].
pub(crate) const OF_ENTRY: [f32; ENTRY] = [
    -0.87, 0.18, 1.56, 1.76, -0.86, 0.85, 1.79, 2.00, 1.72, -0.41, 1.96, 0.31, 2.56, -0.75, 0.51,
    0.57, 2.25, 3.88, 2.35,
];

/// Of a memory, in the order of [`crate::MEMORY_FEATURES`].
pub(crate) const OF_MEMORY: [f32; MEMORY] = [
    0.50, 0.04, 0.38, -2.25, -1.09, 0.93, 0.90, 0.76, -0.01, -0.62, 0.41, -0.18, -0.55, 0.64,
    -0.00, -0.23, 0.52, 0.31, 0.84,
];
