//! How much each thing counts that speaks for an entry or a memory. One table, for every corpus.

use crate::features::{ENTRY, MEMORY};

/// Of an entry, in the order of [`crate::ENTRY_FEATURES`].
pub(crate) const OF_ENTRY: [f32; ENTRY] = [
    -0.05, -0.73, 1.15, 1.34, -1.47, 0.72, 1.30, 1.36, 1.73, -0.14, 1.78, -0.68, 0.35, 2.21, 2.70,
    -0.43, -0.06, 1.30, 2.43, 4.37, 2.90, 1.50, 0.47,
];

/// Of a memory, in the order of [`crate::MEMORY_FEATURES`].
pub(crate) const OF_MEMORY: [f32; MEMORY] = [
    0.59, -0.12, 0.39, -4.27, -1.23, 1.20, 1.13, 0.87, -0.14, -0.56, 0.56, -0.72, -0.98, 0.18,
    0.47, -0.09, 0.87, -0.07, 0.70, 0.92,
];
