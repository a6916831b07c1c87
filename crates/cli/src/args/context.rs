//! The grammar of the commands about the context of models: `context`, `trust`, `recall`.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use crate::hooks::host::HookHost;

/// Show the context that a model gets here
///
/// Prints the facts, the context files of this folder with their imports, and the index of memories that are not
/// shown in full. With `--why` it lists each part with its size and source, and the parts that were left out with the
/// reason. With `--at` it also shows the memories recalled for a prompt by that moment of its turn. None of
/// this counts as a use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa context
  lukasa context --why
  lukasa context --agent claude-code --why
  lukasa context --why --at prompt --prompt 'how do I run the slow tests?'
  lukasa context --json | jq '.parts[] | {part, tokens}'")]
pub(crate) struct Context {
    /// List the parts and their reasons instead of the text
    #[arg(long)]
    pub(crate) why: bool,

    /// Show what this agent passes to its model when a session starts, in bytes
    #[arg(long, value_name = "AGENT")]
    pub(crate) agent: Option<HookHost>,

    /// Show the context at this moment of a turn, in a new session
    #[arg(long, value_name = "MOMENT", requires = "prompt")]
    pub(crate) at: Option<TurnPhase>,

    /// Prompt of the user in that turn
    #[arg(long, value_name = "TEXT", requires = "at")]
    pub(crate) prompt: Option<String>,
}

/// A moment of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TurnPhase {
    /// The prompt is sent to the model
    Prompt,
    /// The results of tools are sent to the model
    ToolResult,
}

/// Trust a folder, so that models get its context files and memories
///
/// Models get no instructions from an untrusted folder. Of memories that came with its repository, models see the paths,
/// and the text only if they ask for it. The effect is listed first, and on a terminal you are asked. Trust is stored
/// on this machine, for the real path of the folder and all folders below it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa trust                    the project of the current folder
  lukasa trust ~/src              this folder and all below it
  lukasa trust --list
  lukasa trust --remove ~/src")]
pub(crate) struct Trust {
    /// Folder to trust; by default the top of the current project, else the current folder
    #[arg(value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,

    /// List the trusted folders
    #[arg(long, conflicts_with_all = ["dir", "remove"])]
    pub(crate) list: bool,

    /// Stop trusting the folder
    #[arg(long)]
    pub(crate) remove: bool,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Find the memories that fit a prompt
///
/// Prints at most five memories, best first. Each has a score from 0 to 1, the estimate that it helps. A memory below
/// 0.5 is marked as weak: beside a prompt, an agent would not get it, and it gets at most three. The exit status is 1 if
/// no memory has any relation to the prompt. No model chooses them, even if the setting `models.recall` names one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa recall how do I run the slow tests
  lukasa recall --explain 'which port does staging listen on?'
  lukasa recall --json deploy | jq -r .path")]
pub(crate) struct Recall {
    /// Prompt, as a user would write it
    #[arg(required = true, value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,

    /// Show why each memory was chosen
    #[arg(long)]
    pub(crate) explain: bool,
}
