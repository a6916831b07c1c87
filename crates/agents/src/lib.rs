//! Mini-agents: they read memories, decide, and edit a draft; nothing else.
//!
//! [`embedded`] is the curator that needs no model and no network: `remember`, `forget` and `dream` as
//! pure functions from a snapshot of memories to edits, and `review`, which finds in a conversation what is worth keeping.
//! [`Curator`] is what a lane asks, over a [`store::Draft`]: it asks models, or [`Embedded`], which has those functions.
//! [`rerank`] asks a model which memories fit a prompt. Nothing here commits: the owner of the draft does.

pub mod embedded;

mod by_model;
mod curator;
mod ledger;
mod request;
mod review;
mod shelf;

pub use by_model::{AgentError, ByModel, Curator, RerankCandidate, rerank};
pub use curator::{CurateError, Embedded};
pub use ledger::{Ledger, Report};
pub use request::{
    Candidate, ContextMode, Dreamt, Edit, EntryAction, EntryNote, ForgetRequest, Forgotten,
    Refusal, RememberRequest, Remembered, Removed, Topic,
};
pub use review::{
    FINDINGS_MAX, Finding, LeftOut, Message, Moment, ReviewRequest, Reviewed, Role, Target,
};
