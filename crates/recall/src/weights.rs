//! How much each thing counts that speaks for an entry or a memory. One table, for every corpus.

use crate::features::{ENTRY, MEMORY};

/// Of an entry, in the order of [`crate::ENTRY_FEATURES`].
pub(crate) const OF_ENTRY: [f32; ENTRY] = [
    -0.60, 0.22, 1.29, 1.26, 0.85, 1.50, 2.08, 2.27, 1.00, -0.40, 2.56, -0.74, 0.56, 0.46, 2.23,
    4.06, 2.75,
];

/// Of a memory, in the order of [`crate::MEMORY_FEATURES`].
pub(crate) const OF_MEMORY: [f32; MEMORY] = [
    0.42, 0.10, 0.39, -0.13, -0.86, 0.94, 0.78, 0.76, -0.02, -0.61, 0.48, 0.05, -0.22, -0.20,
    -0.13, 0.43, 0.75,
];
