//! Mini-agents: they read memories, decide, and edit a draft; nothing else.
//!
//! [`rules`] is the curator that needs no model and no network: `remember`, `forget` and `dream` as
//! pure functions from a snapshot of memories to edits, and `review`, which finds in a conversation what is worth keeping.
//! [`Curator`] is what a lane asks, over a [`store::Draft`]: it asks models, or [`RuleCurator`], which has those functions.
//! [`rerank`] asks a model which memories fit a prompt. Nothing here commits: the owner of the draft does.

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
