//! Rows of proposals: changes that wait for a person, and the person's decisions.

use memory::change::{ChangeId, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::proposal::{ProposalId, ProposalStatus};

/// A proposal to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProposal {
    /// When it was made.
    pub made_at: Timestamp,
    /// The kind of work that made it: `remember`, `dream`, `review`, ….
    pub origin: String,
    /// The task that made it.
    pub task: Option<String>,
    /// Digest that identifies equal proposals.
    pub digest: Revision,
    /// Trust of its new text.
    pub trust: Trust,
    /// Roots of the memories that it names, in order and without duplicates.
    pub roots: Vec<RootKey>,
    /// The proposal, as JSON.
    pub proposal: String,
}

/// A stored proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalRow {
    /// Its number.
    pub id: ProposalId,
    /// The proposal as it was added.
    pub new: NewProposal,
    /// Waiting, accepted or rejected.
    pub status: ProposalStatus,
    /// Time of the person's decision.
    pub decided_at: Option<Timestamp>,
    /// The change that accepting it made.
    pub change: Option<ChangeId>,
}

/// The result of adding proposals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedProposals {
    /// Numbers of the added proposals, in the order of the input.
    pub ids: Vec<ProposalId>,
    /// Number of skipped ones that already wait, were made by the same task or were rejected.
    pub already_known: usize,
    /// Number of skipped ones because the limit of waiting proposals about the same roots is reached.
    pub left_out: usize,
}

/// A query for waiting proposals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposalQuery {
    /// Only proposals whose memories are all in these roots.
    pub roots: Vec<RootKey>,
    /// Only those with a larger number: the cursor.
    pub after: Option<ProposalId>,
    /// The maximum number of results.
    pub max: usize,
}
