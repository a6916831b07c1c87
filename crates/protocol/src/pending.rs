//! Proposals over `/v1`: changes that wait for a person's decision, and the decisions.
//!
//! A proposal is accepted or rejected on its own; one that no longer applies to the current memories is stale.

use serde::{Deserialize, Serialize};

use crate::changes::Diff;

/// A proposal: a change that waits for a person's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingProposal {
    /// The proposal's number.
    pub id: i64,
    /// The kind of reason: `repetition`, `contradiction`, `update`, `expiry`, `misplacement`, `review`.
    pub kind: String,
    /// The reason, in one sentence. It may quote the entries.
    pub reason: String,
    /// The probability that the proposal is right, in percent.
    pub score: u32,
    /// The kind of task that made it: `remember`, `forget`, `dream`.
    pub origin: String,
    /// The task that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The time when it was made: ISO 8601, UTC, milliseconds.
    pub made_at: String,
    /// The reason why it can no longer be accepted; none if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// The entries that the proposal would change; empty if it asks for a review.
    pub changes: Vec<ProposedEntry>,
    /// The memory that a person is asked to read and confirm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewItem>,
    /// The effect on each memory now, or of the write that is to be reviewed; empty if the proposal is stale.
    pub diffs: Vec<Diff>,
}

/// A memory that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReviewItem {
    /// The memory's path.
    pub path: String,
    /// The revision to review.
    pub revision: String,
}

/// An entry that a proposal would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProposedEntry {
    /// The memory that holds the entry.
    pub path: String,
    /// The current text; none to add an entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The new text; none to remove the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// One page of waiting proposals, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingPage {
    /// The proposals.
    pub proposals: Vec<PendingProposal>,
    /// The number of waiting proposals on all pages.
    pub waiting: u64,
    /// The `cursor` of the next page; none on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The proposals to decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProposalIds {
    /// The numbers of the proposals.
    pub ids: Vec<i64>,
}

/// The outcome for each proposal, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Decisions {
    /// The outcomes.
    pub decisions: Vec<Decision>,
}

/// The outcome for one proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Decision {
    /// The number of the proposal.
    pub id: i64,
    /// Whether the proposal was decided as requested.
    pub done: bool,
    /// The change that accepting the proposal made; an undo reverts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The error code, if it was not decided: `not_found`, `conflict` if it is stale or already decided, `read_only`,
    /// ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
