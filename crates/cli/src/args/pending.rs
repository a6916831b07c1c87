//! The grammar of `lukasa pending`.

use clap::{Args, Subcommand};

use super::Consent;

/// Decide on changes that the curator proposes
///
/// What `remember`, `forget` and `dream` are not sure of changes nothing and waits here. A proposal of the kind `review` is
/// about a memory that an agent wrote after it had read text that nobody reviewed: accepted, it is trusted as it is;
/// rejected, it stays and is kept back, until `lukasa accept` or `lukasa rm`. Without an action, the proposals about the
/// memories that are mounted are listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pending                       what waits, the oldest first
  lukasa pending show 3                what it would change, and why
  lukasa pending accept 3 5            each is a change that `lukasa undo` takes back
  lukasa pending reject 4              the same is not proposed again
  lukasa pending accept --all")]
pub(crate) struct PendingArgs {
    #[command(subcommand)]
    pub(crate) action: Option<PendingAction>,
}

/// What to do with proposals.
#[derive(Debug, Subcommand)]
pub(crate) enum PendingAction {
    /// List the proposals that wait
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
    /// Its number, as `lukasa pending` lists it
    #[arg(value_name = "ID")]
    pub(crate) id: i64,
}

/// Make the changes that are proposed
///
/// Each is a change of its own, made to the memories as they are now, and `lukasa undo` takes it back. A proposal
/// whose entries were changed since is stale: it is named with the reason, changes nothing, and stays in the list.
/// The exit status is 1 when one of several was not accepted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pending accept 3 5
  lukasa pending accept --all -y       without a question, and in scripts")]
pub(crate) struct PendingAccept {
    #[command(flatten)]
    pub(crate) selection: ProposalSelection,
}

/// Say no to changes that are proposed
///
/// Nothing is changed, and the same change of the same entries is not proposed again. A rejection cannot be taken back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lukasa pending reject 4\n  lukasa pending reject --all")]
pub(crate) struct PendingReject {
    #[command(flatten)]
    pub(crate) selection: ProposalSelection,
}

/// The proposals that are meant.
#[derive(Args, Debug)]
pub(crate) struct ProposalSelection {
    /// Their numbers, as `lukasa pending` lists them
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) ids: Vec<i64>,

    /// All that wait and are not stale, or to reject all that wait; asks first
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}
