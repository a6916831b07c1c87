//! The domain of memories, as pure values and functions.
//!
//! It defines memory paths, documents and entries, the six commands, access rules, screening, the provenance of
//! changes, proposals, features and the limits of the product. It does no I/O: nothing here reads a file, a clock, a
//! socket or the environment, so all of it is tested with tables. Files and state are the business of the store.

pub mod path;

pub mod document;

pub mod merge;

pub mod command;

pub mod context_file;

pub mod tool;

pub mod access;

pub mod screen;

pub mod change;

pub mod proposal;

pub mod owner;

pub mod usage;

pub mod feature;

pub mod error_code;

pub mod text;

pub mod json;

pub mod cache;

pub mod clock;

pub mod limits;
