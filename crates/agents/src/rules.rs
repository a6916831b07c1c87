//! The curator that needs no model and no network.
//!
//! Rules of grammar and shared words decide, in every language of the lexicon and, by the words alone, in
//! others. The same snapshot, request and time give the same answer. It errs to the side of keeping:
//! what it is not sure of it leaves as it is.

mod classify;
mod content;
mod dates;
mod dream;
mod duplicate;
mod findings;
mod forget;
mod frontmatter;
mod language;
mod lexicon;
mod message_sentences;
mod phrases;
mod remember;
mod review;
mod similarity;
mod snapshot;
mod tokenize;
mod update;

pub(crate) use classify::is_private;
pub use dream::dream;
pub(crate) use dream::{DREAM_COMPLETED, has_own_metadata};
pub(crate) use duplicate::{NormalizedText, is_duplicate, is_fragment};
pub(crate) use findings::{ReviewDecision, TextChecks, apply_findings};
pub use forget::forget;
pub(crate) use forget::{EntryRef, candidates, forget_entries};
pub(crate) use frontmatter::first_words;
pub use remember::remember;
pub(crate) use remember::{check_screened, entry_outcome, mount_for};
pub use review::review;
pub(crate) use similarity::{
    EntryRelation, content_keys, most_similar_memories, relation_proposal,
};
pub(crate) use snapshot::ParsedEntry;
pub use snapshot::{EntryDates, ParsedText, Snapshot, StoredMemory};
pub(crate) use tokenize::is_unspaced;
