//! The grammar of serving memories over MCP.

use clap::Args;

/// Serve memories to an agent over MCP on stdin and stdout
///
/// An agent's client starts this. `--project`, `--workspace-id` and `--flat` say which memories it
/// gets; without `--project` the roots that the client names are honored. The workspace is that of
/// the worktree, unless an id is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quipu mcp
  quipu mcp --agent-class plan --project ~/src/app
  quipu mcp --read-only --flat ./memories")]
pub(crate) struct Mcp {
    /// What the agent may do: `exec` writes everywhere, `plan` not to the project, `explore` only
    /// reads; so does a class that is not known
    #[arg(long, value_name = "CLASS", default_value = "exec")]
    pub(crate) agent_class: String,

    /// Let nobody write
    #[arg(long)]
    pub(crate) read_only: bool,

    /// The host's session, for history
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}
