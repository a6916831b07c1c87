//! The grammar of the commands about tasks (`remember`, `forget`, `dream`, `tasks`) and of `save`.

use clap::{Args, ValueEnum};
use memory::path::Scope;

use super::{AllowRules, Consent};

/// Store a text in the memory that fits
///
/// A curator chooses the scope and the memory; your wording stays. A text that is already stored, word for
/// word, is not written twice. An entry is replaced only by a plain statement of its new value (`The upload limit is
/// now 9 MB`). Other entries that may repeat or contradict the text become proposals for you to decide. Words such as
/// `tomorrow` are replaced by the date, in the time zone of this machine. The tasks of a workspace run one after the
/// other; Ctrl-C cancels this one.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa remember 'I prefer tabs over spaces'
  lukasa remember --scope project 'Run `just lint` before pushing'
  lukasa remember --dry-run 'The staging database moved to db2'
  git log -1 --format=%B | lukasa remember -")]
pub(crate) struct Remember {
    /// Text to remember, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    /// Scope to write to; by default the curator chooses
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeName>,

    /// Do not read existing memories: everything is written as new
    #[arg(long)]
    pub(crate) clean: bool,

    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Remove an entry from memories
///
/// Removes the entry that your words clearly mean. They mean an entry if they repeat it. They also do if they name
/// something that occurs in this entry alone, and the entry says nothing else. Otherwise nothing is removed, and the
/// possible entries are listed; on a terminal you choose one.
///
/// `everything about NAME` removes all entries with a name of several words; a single word is ambiguous, so you choose.
/// Questions, conditions, `except` and `keep` remove nothing, and pinned memories stay unchanged. On a terminal, the
/// entries to remove are shown first; without one `-y` is needed.
/// The exit status is 1 if nothing was removed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa forget 'my preference for tabs'
  lukasa forget --dry-run staging database
  lukasa forget --scope project 'just lint'
  lukasa forget -y --file project/db.md 'Staging runs on kestrel'")]
pub(crate) struct Forget {
    /// Words that describe the entry
    #[arg(required = true, num_args = 1.., allow_hyphen_values = false)]
    pub(crate) query: Vec<String>,

    /// Scope to search; all scopes by default
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeName>,

    /// Search only this memory; with the full text of an entry, that entry is removed
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<String>,

    /// Show what would be removed and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Tidy up memories
///
/// Merges entries that repeat each other, word for word, in the same place; replaces words such as `tomorrow` by the
/// date; and adds a description to memories without one. It changes at most 20 memories, as one change. Entries that may
/// repeat or contradict each other, that are out of date, or that are private and in a repository become proposals for
/// you to decide. On a terminal, the result is shown first; without one `-y` is needed.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lukasa dream --dry-run\n  lukasa dream\n  lukasa dream -y")]
pub(crate) struct Dream {
    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// List the tasks of this workspace, latest first
///
/// Lists waiting and running tasks, and those that ended in the last hour. Piped: one line per task with id, status,
/// time and result, separated by tabs.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa tasks
  lukasa tasks --json | jq '.tasks[] | select(.status == \"failed\")'
  lukasa tasks --cancel TASK")]
pub(crate) struct Tasks {
    /// List at most N tasks
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) max: usize,

    /// Cancel this task, if it has not written anything yet
    #[arg(long, value_name = "TASK", conflicts_with = "max")]
    pub(crate) cancel: Option<String>,
}

/// Add a fact to a context file, such as `AGENTS.md`
///
/// The fact becomes one line at the end of the section of added memories. The section is created if it
/// is missing, and nothing else changes.
///
/// If `context.file_names` is set, the first of these files that exists is written; if none exists, the first name is
/// created. Otherwise the project's file is the first that exists of `AGENTS.md`, `CLAUDE.md`,
/// `GEMINI.md` and `QWEN.md`; if none exists, `AGENTS.md` is created. Your own file is `QWEN.md` if it exists, else
/// `AGENTS.md`.
///
/// A context file is not a memory: it has no history here, so Lukasa cannot undo the addition. Agents load all of the
/// file by themselves.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa save --scope project 'Run `just lint` before pushing'
  lukasa save --scope global 'I prefer short answers'
  lukasa save 'Deploys are on Tuesdays'           asks which file
  lukasa save --edit --scope project              opens $VISUAL or $EDITOR")]
pub(crate) struct Save {
    /// Fact to add, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) fact: Option<String>,

    /// Open the fact in an editor first; several lines are added as they are
    #[arg(long)]
    pub(crate) edit: bool,

    /// Context file to write to
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<SaveScope>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// The owner of a context file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaveScope {
    /// Your own file, beside the settings
    Global,
    /// File of the project, at the top of the checkout
    Project,
}

/// A scope, as it is named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeName {
    /// Memories of the person, for all projects
    Global,
    /// Memories of the project
    Project,
    /// Memories of the workspace: that of this worktree, or the one that `--workspace-id` names
    Workspace,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Global => Self::Global,
            ScopeName::Project => Self::Project,
            ScopeName::Workspace => Self::Workspace,
        }
    }
}
