//! What a background review is given and what it comes to, as values.
//!
//! A review reads the end of a conversation and looks for what is worth keeping. Whoever finds it, a model or the rules,
//! hands over findings; what becomes of them is decided in one place, so that a model may not do more than the rules.

use std::collections::{BTreeMap, BTreeSet};

use memory::path::{MemoryPath, Mount};
use memory::proposal::Proposal;

use crate::request::{CuratorEdit, EntryOutcome};

/// The most findings that one review takes.
pub const FINDINGS_MAX: usize = 5;

/// Who said a message.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageRole {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// Whose a finding is.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingTarget {
    /// The person's, in all projects.
    User,
    /// This project's; the person's where there is none.
    Memory,
    /// This copy of the project's.
    Workspace,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewMessage {
    /// Its id, by which findings name it.
    pub id: String,
    /// Who said it.
    pub role: MessageRole,
    /// What was said.
    pub text: String,
}

/// Something worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFinding {
    /// Whose it is.
    pub target: FindingTarget,
    /// One statement that stands alone.
    pub text: String,
    /// The ids of the messages that say so.
    pub evidence: Vec<String>,
}

/// When a review is made.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReviewTrigger {
    /// So many turns have passed.
    Turns,
    /// The conversation has ended.
    End,
    /// What the model knows is about to be shortened.
    Compaction,
}

/// What is to be reviewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRequest {
    /// The conversation, as its host names it.
    pub session: String,
    /// Its first and its last turn that are read, counted from 1.
    pub turns: (u64, u64),
    /// Why now.
    pub trigger: ReviewTrigger,
    /// What was said, the oldest first.
    pub messages: Vec<ReviewMessage>,
}

/// Why a finding was not taken.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingSkipReason {
    /// A memory says so already.
    Known,
    /// It holds a secret or an order to a model.
    Screened,
    /// A review takes no more.
    Limit,
    /// It repeats what the model was told about its work.
    Instructions,
    /// It is no single statement of a fair length.
    Form,
    /// It cannot be written where it belongs.
    Place,
}

/// What a review comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewReport {
    /// What is to be done; nothing if nothing was found.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on what was done, without a word of the conversation.
    pub summary: String,
    /// The memories that change.
    pub changed_paths: Vec<MemoryPath>,
    /// Where they lie.
    pub scopes: BTreeSet<Mount>,
    /// The entries that change.
    pub changes: Vec<EntryOutcome>,
    /// What a person should decide.
    pub proposals: Vec<Proposal>,
    /// The number of findings that were not taken, by the reason.
    pub skipped: BTreeMap<FindingSkipReason, u32>,
    /// The turns that were read and what was said in them, for the history of what changes.
    pub evidence_note: String,
}
