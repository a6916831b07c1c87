//! The rule curator's decisions: pure functions that need no model and no network.
//!
//! Grammar rules and shared words decide; grammar in every language of the lexicon, words alone in others. The same
//! snapshot, request and time give the same result. When in doubt, memories stay as they are.

mod classify;
mod content;
mod dates;
mod dream;
mod duplicate;
mod findings;
mod fingerprints;
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
mod subject;
mod subject_words;
mod tokenize;
mod update;
mod word_match;

pub(crate) use classify::is_private;
pub use dream::dream;
pub(crate) use dream::{DREAM_COMPLETED, has_own_metadata};
pub(crate) use duplicate::{NormalizedText, is_duplicate, is_fragment};
pub(crate) use findings::{ReviewDecision, TextChecks, apply_findings};
pub use forget::forget;
pub(crate) use forget::{EntryRef, candidates, forget_entries};
pub use frontmatter::refresh_frontmatter;
pub(crate) use frontmatter::{first_words, title_fingerprints};
pub use remember::remember;
pub(crate) use remember::{check_screened, entry_outcome, mount_for};
pub use review::review;
pub(crate) use similarity::{
    EntryRelation, content_keys, most_similar_memories, relation_proposal,
};
pub(crate) use snapshot::ParsedEntry;
pub use snapshot::{EntryDates, ParsedText, Snapshot, StoredMemory};
pub(crate) use tokenize::is_unspaced;
