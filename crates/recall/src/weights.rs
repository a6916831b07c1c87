//! How much each thing counts that speaks for an entry or a memory. One table, for every corpus.

use crate::features::{ENTRY, MEMORY};

/// Of an entry, in the order of [`crate::ENTRY_FEATURES`].
pub(crate) const OF_ENTRY: [f32; ENTRY] = [
    -0.45, -0.13, 1.46, 1.33, -1.02, 0.32, 1.20, 1.36, 1.56, -0.34, 1.71, -0.17, 0.67, 2.01, 2.55,
    -0.75, 0.51, 1.05, 2.24, 3.96, 2.36,
];

/// Of a memory, in the order of [`crate::MEMORY_FEATURES`].
pub(crate) const OF_MEMORY: [f32; MEMORY] = [
    0.57, -0.04, 0.32, -2.30, -1.03, 1.15, 0.99, 0.89, 0.02, -0.54, 0.25, -0.24, -0.54, 0.47, 0.09,
    -0.22, 0.53, 0.25, 0.75, 0.48,
];
