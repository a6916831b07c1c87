//! The rows of proposals: changes that wait for a person, and what the person decided.

use memory::change::{ChangeId, RootKey, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::proposal::{ProposalId, ProposalStatus};

/// A proposal that is to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProposal {
    /// When it was made.
    pub made_at: Timestamp,
    /// The kind of work that made it: `remember`, `dream`, `review`, ….
    pub origin: String,
    /// The task that made it.
    pub task: Option<String>,
    /// A digest by which the same proposal is recognized.
    pub digest: Revision,
    /// How far its new text may be trusted.
    pub trust: Trust,
    /// The roots of the memories that it names, in order and each once.
    pub roots: Vec<RootKey>,
    /// The proposal, as JSON.
    pub proposal: String,
}

/// A proposal as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalRow {
    /// Its number.
    pub id: ProposalId,
    /// The proposal as it was added.
    pub new: NewProposal,
    /// How far it is.
    pub status: ProposalStatus,
    /// When a person decided.
    pub decided_at: Option<Timestamp>,
    /// The change that accepting it made.
    pub change: Option<ChangeId>,
}

/// What became of proposals that were to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddedProposals {
    /// The numbers of those that wait now, in the order in which they were given.
    pub ids: Vec<ProposalId>,
    /// How many wait already, were made by the same task before, or were rejected by a person.
    pub already_known: usize,
    /// How many were left out, because as many as may wait about the same roots do.
    pub left_out: usize,
}

/// Which waiting proposals to return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposalQuery {
    /// Only those that name memories of these roots alone.
    pub roots: Vec<RootKey>,
    /// Only those with a larger number: the cursor.
    pub after: Option<ProposalId>,
    /// At most so many.
    pub max: usize,
}
