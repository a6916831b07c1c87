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
mod found;
mod lexicon;
mod remember;
mod review;
mod same;
mod signals;
mod similar;
mod speech;
mod tongues;
mod update;
mod when;
mod words;

pub(crate) use about::first_words;
pub(crate) use book::Note;
pub use book::{Snapshot, Source, Stored, Written};
pub(crate) use classify::is_private;
pub use dream::dream;
pub(crate) use dream::{DREAM_COMPLETED, says_more_than_its_entries};
pub use forget::forget;
pub(crate) use forget::{At, candidates, forget_entries};
pub(crate) use found::{Checks, Found, take};
pub use remember::remember;
pub(crate) use remember::{check_screened, mount_for, note};
pub use review::review;
pub(crate) use same::{Form, is_fragment, is_same};
pub(crate) use similar::{Likeness, keys, likely, proposal};
pub(crate) use words::is_unspaced;
