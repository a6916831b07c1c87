//! The grammar of `lukasa pending`.

use clap::{Args, Subcommand};

use super::Consent;

/// Decide on changes that the curator proposes
///
/// If `remember`, `forget` or `dream` cannot decide on a change, it becomes a proposal and waits here. Without
/// an action, the proposals about the mounted memories are listed.
///
/// A proposal of the kind `review` is about a memory that an agent wrote after it had read unreviewed text, or that a
/// background review wrote. Accepted, the memory is trusted as it is. Rejected, it stays unreviewed until `lukasa accept`
/// or `lukasa rm`. A session only counts an agent's unreviewed memory, and models see the text if they ask for it. That
/// of a background review is recalled, but no session begins with it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pending                       lists the proposals, oldest first
  lukasa pending show 3                shows its change and its reason
  lukasa pending accept 3 5            makes two changes; `lukasa undo` undoes each
  lukasa pending reject 4              the same change is not proposed again
  lukasa pending accept --all")]
pub(crate) struct PendingArgs {
    #[command(subcommand)]
    pub(crate) action: Option<PendingAction>,
}

/// The actions on proposals.
#[derive(Debug, Subcommand)]
pub(crate) enum PendingAction {
    /// List the waiting proposals
    #[command(visible_alias = "list")]
    Ls,
    Show(PendingShow),
    Accept(PendingAccept),
    Reject(PendingReject),
}

/// Show what a proposal would change, and why
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lukasa pending show 3")]
pub(crate) struct PendingShow {
    /// Number of the proposal, from `lukasa pending`
    #[arg(value_name = "ID")]
    pub(crate) id: i64,
}

/// Accept proposals, which makes their changes
///
/// Each is a change of its own to the current memories, and `lukasa undo` undoes it. A proposal
/// whose entries were changed since is stale: it is named with the reason, changes nothing, and stays in the list.
/// The exit status is 1 if one of several was not accepted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pending accept 3 5
  lukasa pending accept --all -y       without a question, as in scripts")]
pub(crate) struct PendingAccept {
    #[command(flatten)]
    pub(crate) selection: ProposalSelection,
}

/// Reject proposals
///
/// Nothing is changed, and the same change of the same entries is not proposed again. A rejection cannot be undone.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lukasa pending reject 4\n  lukasa pending reject --all")]
pub(crate) struct PendingReject {
    #[command(flatten)]
    pub(crate) selection: ProposalSelection,
}

/// The selected proposals.
#[derive(Args, Debug)]
pub(crate) struct ProposalSelection {
    /// Numbers of proposals, from `lukasa pending`
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) ids: Vec<i64>,

    /// Select all waiting proposals, to accept only those that are not stale; asks first
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}
