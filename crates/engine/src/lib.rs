//! To be written.

/// Working out what to create from the memories of other tools.
pub mod import;
