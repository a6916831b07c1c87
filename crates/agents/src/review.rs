//! Requests and reports of background reviews, as plain values.
//!
//! A review reads the end of a conversation and looks for facts worth keeping. A model or the rules supply
//! findings. One function decides what becomes of them, so that a model may do no more than the rules.

use std::collections::{BTreeMap, BTreeSet};

use memory::path::{MemoryPath, Mount};
use memory::proposal::Proposal;

use crate::request::{CuratorEdit, EntryOutcome};

/// Maximum number of findings of one review.
pub const FINDINGS_MAX: usize = 5;

/// Author of a message.
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

/// Scope that a finding belongs to.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingTarget {
    /// The person, in all projects.
    User,
    /// This project; the person where there is none.
    Memory,
    /// This working copy of the project.
    Workspace,
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewMessage {
    /// Id by which findings refer to it.
    pub id: String,
    /// Author.
    pub role: MessageRole,
    /// Text.
    pub text: String,
}

/// A fact worth keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewFinding {
    /// Scope that it belongs to.
    pub target: FindingTarget,
    /// One statement that is clear by itself.
    pub text: String,
    /// Ids of the messages that support it.
    pub evidence: Vec<String>,
}

/// Occasion of a review.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ReviewTrigger {
    /// A number of turns have passed.
    Turns,
    /// The conversation has ended.
    End,
    /// The context of the model is about to be compacted.
    Compaction,
}

/// A conversation to review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewRequest {
    /// Name of the conversation, given by its host.
    pub session: String,
    /// First and last turn in the messages, counted from 1.
    pub turns: (u64, u64),
    /// Occasion.
    pub trigger: ReviewTrigger,
    /// Messages, oldest first.
    pub messages: Vec<ReviewMessage>,
}

/// Reason why a finding was skipped.
#[derive(strum::AsRefStr, strum::EnumString, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingSkipReason {
    /// A memory already says so.
    Known,
    /// It holds a secret or an injected instruction.
    Screened,
    /// The review already has the maximum number of findings.
    Limit,
    /// It repeats the model's own instructions.
    Instructions,
    /// It is not a single statement of suitable length.
    Form,
    /// Its scope cannot be written.
    Place,
}

/// Result of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReviewReport {
    /// Edits to make; empty if nothing was found.
    pub edits: Vec<CuratorEdit>,
    /// One sentence on the outcome, without a word of the conversation.
    pub summary: String,
    /// Paths of the changed memories.
    pub changed_paths: Vec<MemoryPath>,
    /// Mounts of the changed memories.
    pub scopes: BTreeSet<Mount>,
    /// Outcomes of the entries.
    pub changes: Vec<EntryOutcome>,
    /// Proposals for a person to decide.
    pub proposals: Vec<Proposal>,
    /// Number of skipped findings by reason.
    pub skipped: BTreeMap<FindingSkipReason, u32>,
    /// Turns and messages that were read, as a note for the history of the change.
    pub evidence_note: String,
}
