//! The grammar of what a model is shown: context, hot set, trust.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::hooks::host::HookHost;

/// Show what a model would be shown here
///
/// The context files of this folder with their imports, the index of memories, and the memories that are
/// given whole: as text, or with `--why` as a list of what each part costs, where it comes from, and what
/// was left out and why. With `--at` also what is recalled for a prompt by that moment of its turn. Nothing of
/// it counts as a use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa context
  lukasa context --why
  lukasa context --agent claude-code --why
  lukasa context --why --at prompt --prompt 'how do I run the slow tests?'
  lukasa context --json | jq '.parts[] | {part, tokens}'")]
pub(crate) struct Context {
    /// Show what there is and why, instead of the text
    #[arg(long)]
    pub(crate) why: bool,

    /// Show what this agent passes on to its model when a session begins, in bytes
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<HookHost>,

    /// Show what is there at a moment of a turn, in a session that begins with it
    #[arg(long, value_name = "MOMENT", requires = "prompt")]
    pub(crate) at: Option<TurnPhase>,

    /// What a person says in that turn
    #[arg(long, value_name = "TEXT", requires = "at")]
    pub(crate) prompt: Option<String>,
}

/// A moment of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TurnPhase {
    /// The model is asked
    Prompt,
    /// Tools have answered
    ToolResult,
}

/// Trust a folder: its context files and memories reach models unasked
///
/// Nothing of a folder that is not trusted is shown to a model as an instruction, and of memories that came with its
/// repository a model is shown the paths, and no text unless it asks for one. What this changes is listed first, and on
/// a terminal you are asked. Trust is kept on this host, for the folder by its real path and all below it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa trust                    the project of the current folder
  lukasa trust ~/src              everything below it
  lukasa trust --list
  lukasa trust --remove ~/src")]
pub(crate) struct Trust {
    /// The folder; else the top of the current project, else the current folder
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// List the trusted folders
    #[arg(long, conflicts_with_all = ["dir", "remove"])]
    pub(crate) list: bool,

    /// Trust it no longer
    #[arg(long)]
    pub(crate) remove: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Find the memories that fit a prompt
///
/// What an agent is shown beside it: at most five memories, the best first, and nothing when nothing fits.
/// No model is asked.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa recall how do I run the slow tests
  lukasa recall --explain 'which port does staging listen on?'
  lukasa recall --json deploy | jq -r .path")]
pub(crate) struct Recall {
    /// What a person would say to the agent
    #[arg(required = true, value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// Say why each memory was chosen
    #[arg(long)]
    pub(crate) explain: bool,
}
