//! The curator that needs no model and no network.
//!
//! Rules of grammar and shared words decide, in every language of the lexicon and, by the words alone, in
//! others. The same snapshot, request and time give the same answer. It errs to the side of keeping:
//! what it is not sure of it leaves as it is.

mod about;
mod book;
mod classify;
mod dream;
mod facts;
mod forget;
mod lexicon;
mod remember;
mod same;
mod similar;
mod tongues;
mod update;
mod when;
mod words;

pub use book::{Snapshot, Source, Stored, Written};
pub use dream::dream;
pub use forget::forget;
pub use remember::remember;
