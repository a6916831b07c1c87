//! Finds the memories that fit a prompt.
//!
//! [`Corpus`] holds the words of memories, cut into entries, and answers a prompt with [`MemoryHit`]s, best
//! first, each with its reasons; or with nothing, when nothing fits. It is made of texts alone, follows
//! them one memory at a time, and can be made anew at any time: what it holds is derived. It
//! asks no model and no network; what somebody else's model says of whole texts can be handed in ([`DenseScores`]). What means the same in other words is found by a small table of token
//! vectors (feature `embedder`).

#![expect(
    clippy::cast_precision_loss,
    reason = "counts of words and entries become scores, where the last digits mean nothing"
)]

pub mod limits;

mod words;

mod embedder;

mod passage;

mod terms;

mod corpus;

mod codec;

mod prompt_classifier;

mod query;

mod weights;

mod vector;

mod dense;

mod candidates;

mod features;

mod abstain;

mod rank;

pub use abstain::ANSWER_FEATURES;
pub use corpus::Corpus;
pub use dense::DenseScores;
pub use features::{ENTRY_FEATURES, MEMORY_FEATURES};
pub use rank::{EntryHit, MemoryHit, RankOptions, Ranking, Reason};
pub use vector::{Vector, passages};
