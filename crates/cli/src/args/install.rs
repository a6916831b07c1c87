//! The grammar of `quipu install` and `quipu uninstall`.

use clap::Args;

use crate::install::agents::{AgentName, Reach};

/// Let an agent use Quipu
///
/// Adds the MCP server, and hooks where the agent has them, to the agent's own settings. Shows the difference,
/// asks on a terminal, and writes. Everything else in the files stays as it is, byte for byte; what is there
/// already is left as you have it. A file that is not understood is not touched.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quipu install claude-code
  quipu install qwen --dry-run              only shows the difference
  quipu install codex --scope project       for everybody who works on this project
  quipu uninstall claude-code               takes it away again")]
pub(crate) struct Install {
    #[command(flatten)]
    pub(crate) what: Installation,
}

/// Take from an agent what `install` gave it
///
/// Takes the MCP server and the hooks that call `quipu` out of the agent's settings, and nothing else, however they
/// were edited since. Memories stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quipu uninstall claude-code
  quipu uninstall qwen --dry-run            only shows the difference
  quipu uninstall codex --scope project")]
pub(crate) struct Uninstall {
    #[command(flatten)]
    pub(crate) what: Installation,
}

/// Whose settings, and how.
#[derive(Args, Debug)]
pub(crate) struct Installation {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,

    /// In whose settings: yours, or those of the project
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: Reach,

    /// Only show what would be written
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,
}
