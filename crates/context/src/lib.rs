//! The texts that a model is shown: facts, context files, the index of memories, recalled memories, and changes since.
//!
//! Each is a block, rendered here from values that the caller gathered. Rendering is pure: the same values give the
//! same bytes. Every block has a size limit.
//!
//! Text from a memory, a repository or a model is untrusted data. It is escaped so that it cannot close a block, open
//! one, or begin a line where it must not. This crate reads no files and does not choose what is recalled.

pub mod segment;

mod mark;

pub use mark::Mark;

pub mod files;

pub mod facts;

pub mod index;

pub mod excerpt;

pub mod recalled;

pub mod tokens;

pub mod escape;
