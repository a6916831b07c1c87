//! Curators: they read memories, decide what becomes of them, and edit a draft.
//!
//! [`rules`] holds pure functions from a snapshot of memories to edits, for `remember`, `forget`, `dream` and
//! `review`. They need no model and no network. [`RuleCurator`] runs them on stored memories.
//! [`Curator`] is the entry point for a lane: it asks models, or the [`RuleCurator`] for tasks without a model.
//! [`rerank`] asks a model which memories fit a prompt. Nothing here commits; the owner of the [`store::Draft`]
//! does.

pub mod rules;

mod cache;
mod curator;
mod ledger;
mod model_curator;
mod request;
mod review;

pub use curator::{CurateError, RuleCurator};
pub use ledger::{Ledger, RunReport};
pub use model_curator::{AgentError, Curator, CuratorModels, RerankCandidate, rerank};
pub use request::{
    ContextMode, CuratorEdit, DreamReport, EntryAction, EntryCandidate, EntryOutcome, ForgetReport,
    ForgetRequest, ForgottenEntry, MemoryTopic, RememberError, RememberReport, RememberRequest,
};
pub use review::{
    FINDINGS_MAX, FindingSkipReason, FindingTarget, MessageRole, ReviewFinding, ReviewMessage,
    ReviewReport, ReviewRequest, ReviewTrigger,
};
