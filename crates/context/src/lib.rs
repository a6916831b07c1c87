//! What a model is shown.
//!
//! Context files, the index of memories, the hot set, what was recalled, and what changed since: each is a
//! block that is rendered here, from values that were gathered elsewhere. Pure: the same values give the same
//! bytes. Every block has a cap. What came from a memory, a repository or a model is data in it: it cannot
//! close a block, open one, or begin a line where it must not.

pub mod segment;

mod mark;

pub use mark::Mark;

pub mod files;

pub mod index;

pub mod hot_set;

pub mod recalled;

pub mod tokens;

pub mod escape;
