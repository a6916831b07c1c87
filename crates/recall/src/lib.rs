//! Finds the memories that fit a prompt.
//!
//! [`Corpus`] indexes the words of memories, cut into entries. It answers a prompt with [`MemoryHit`]s, best
//! first, each with its reasons, or with nothing when nothing fits.
//!
//! A corpus is derived data: it is built from texts alone, is updated one memory at a time, and can be rebuilt at
//! any time. It calls no model and no network. Similarity scores of an external embedding model can be passed in
//! ([`DenseScores`]). A small table of token vectors finds words that mean about the same (feature `embedder`).

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
pub use dense::{DenseScores, EntryVectors, SimilarityScale};
pub use features::{ENTRY_FEATURES, MEMORY_FEATURES};
pub use rank::{EntryHit, MemoryHit, RankOptions, Ranking, Reason, Threshold};
pub use vector::{Vector, passages};
