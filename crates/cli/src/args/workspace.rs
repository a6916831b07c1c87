//! The grammar of `lukasa workspace`.

use clap::{Args, Subcommand};
use engine::WorkspaceId;

/// List or remove the workspaces of this machine
///
/// A workspace holds the memories of one git worktree, or of one `--workspace-id`. Without an action,
/// all workspaces are listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa workspace ls                  all of them, with their worktrees
  lukasa workspace rm shop-1a2b3c4d5e6f
  lukasa workspace rm --gone           workspaces without a worktree")]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    pub(crate) action: Option<WorkspaceAction>,
}

/// The actions on workspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceAction {
    /// List the workspaces with their worktrees and memories
    #[command(visible_alias = "list")]
    Ls,
    #[command(visible_alias = "delete")]
    Rm(WorkspaceRm),
}

/// Remove workspaces with their memories
///
/// Asks first. `lukasa --workspace-id ID undo CHANGE` restores the memories. A worktree with waiting or running tasks
/// keeps its workspace. Tasks of a workspace that was named with `--workspace-id` are not checked.
#[derive(Args, Debug)]
pub(crate) struct WorkspaceRm {
    /// Ids of workspaces, from `lukasa workspace ls`
    #[arg(value_name = "ID", required_unless_present = "gone")]
    pub(crate) ids: Vec<WorkspaceId>,

    /// Remove all workspaces whose worktree no longer exists
    #[arg(long, conflicts_with = "ids")]
    pub(crate) gone: bool,

    /// Remove without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
}
