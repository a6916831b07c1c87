//! What a memory is.
//!
//! Paths, documents, the six commands as text in and text out, who may touch what, what is screened,
//! what a change says about itself, and every number of the product. Pure: nothing here can read a
//! file, a clock, a socket or the environment, so all of it is tested by tables.

pub mod path;

pub mod document;

pub mod command;

pub mod context_file;

pub mod tool;

pub mod access;

pub mod screen;

pub mod change;

pub mod proposal;

pub mod usage;

pub mod feature;

pub mod error_code;

pub mod text;

pub mod json;

pub mod cache;

pub mod clock;

pub mod limits;
