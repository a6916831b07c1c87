//! How much each thing counts that speaks for an entry or a memory. One table, for every corpus.

use crate::features::{ENTRY, MEMORY};

/// Of an entry, in the order of [`crate::ENTRY_FEATURES`].
pub(crate) const OF_ENTRY: [f32; ENTRY] = [
    -0.03, -0.63, 1.19, 1.34, -1.20, 0.63, 1.20, 1.29, 1.58, -0.15, 1.64, -0.40, 0.31, 2.11, 2.55,
    -0.43, -0.03, 1.34, 2.29, 3.96, 2.37, 1.31, 0.44,
];

/// Of a memory, in the order of [`crate::MEMORY_FEATURES`].
pub(crate) const OF_MEMORY: [f32; MEMORY] = [
    0.52, -0.01, 0.31, -2.38, -1.00, 1.30, 1.07, 0.78, 0.12, -0.48, 0.33, -0.17, -0.47, 0.54,
    -0.02, -0.24, 0.52, 0.20, 0.90, 0.49,
];
