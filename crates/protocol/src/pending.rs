//! Proposals over `/v1`: changes that wait for a person, and what the person decides.

use serde::{Deserialize, Serialize};

use crate::changes::Diff;

/// A change that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingProposal {
    /// Its number.
    pub id: i64,
    /// The kind of reason: `repetition`, `contradiction`, `update`, `expiry`, `misplacement`, `review`.
    pub kind: String,
    /// Why, in one sentence. It may quote the entries.
    pub reason: String,
    /// How likely it is right, in percent.
    pub score: u32,
    /// The kind of work that made it: `remember`, `forget`, `dream`.
    pub origin: String,
    /// The task that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// When it was made: ISO 8601, UTC, milliseconds.
    pub made_at: String,
    /// Why it cannot be accepted as the memories are now; none if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// The entries that it would change; empty if it asks for a review.
    pub changes: Vec<ProposedEntry>,
    /// The memory that a person is asked to read, and to answer for as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ReviewItem>,
    /// What it would do to each memory now, or what the writing did that is to be reviewed; empty when it is stale.
    pub diffs: Vec<Diff>,
}

/// A memory that waits for a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ReviewItem {
    /// Its path.
    pub path: String,
    /// Its revision.
    pub revision: String,
}

/// An entry that a proposal would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProposedEntry {
    /// Its memory.
    pub path: String,
    /// Its text; none if an entry is to be added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The text that it gets; none if it is to be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Proposals that wait, the oldest first, one page of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PendingPage {
    /// The proposals.
    pub proposals: Vec<PendingProposal>,
    /// How many wait, on all pages together.
    pub waiting: u64,
    /// What `cursor` the next page has; none on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The proposals that a decision is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProposalIds {
    /// Their numbers.
    pub ids: Vec<i64>,
}

/// What became of each proposal that was to be decided, in the order of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Decisions {
    /// The decisions.
    pub decisions: Vec<Decision>,
}

/// What became of one proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Decision {
    /// The proposal.
    pub id: i64,
    /// Whether it was decided as asked.
    pub done: bool,
    /// The change that accepting it made; an undo takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// Why it was not decided: `not_found`, `conflict` when it is stale or was decided before, `read_only`, ….
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The same in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
