//! The grammar of the commands that leave the work to a curator.

use clap::{Args, ValueEnum};
use memory::path::Scope;

use super::{AllowRules, Consent};

/// Remember a text where it belongs
///
/// A curator decides which scope and which memory it goes to; the wording stays yours. What is known already, word for
/// word, is not written twice. An entry is replaced only by a plain statement of its new value (`The upload limit is
/// now 9 MB`); what else may repeat or contradict the text becomes a proposal for you to decide. The day of `tomorrow` is
/// named, by the time zone of this machine. Tasks of a workspace are done one after the other, whoever asks for them;
/// Ctrl-C takes this one back.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa remember 'I prefer tabs over spaces'
  lukasa remember --scope project 'Run `just lint` before pushing'
  lukasa remember --dry-run 'The staging database moved to db2'
  git log -1 --format=%B | lukasa remember -")]
pub(crate) struct Remember {
    /// The text, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    /// Where it must go
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeName>,

    /// Look at no earlier memory: everything is written afresh
    #[arg(long)]
    pub(crate) clean: bool,

    /// Show what would change and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Forget what was remembered
///
/// Removes the entry that your words clearly mean: they repeat it, or they name what stands in this entry alone, and it
/// says nothing else. Otherwise nothing is removed, and the entries that may be meant are listed; on a terminal you
/// choose one. `everything about NAME` removes all entries with a name of several words; one word may stand for several
/// things, so you choose. Questions, conditions, `except` and `keep` remove nothing, and pinned memories are left alone.
/// On a terminal, what would go is shown first; without one `-y` is needed.
/// The exit status is 1 when nothing was removed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa forget 'my preference for tabs'
  lukasa forget --dry-run staging database
  lukasa forget --scope project 'just lint'
  lukasa forget -y --file project/db.md 'Staging runs on kestrel'")]
pub(crate) struct Forget {
    /// What to forget, in a few words
    #[arg(required = true, num_args = 1.., allow_hyphen_values = false)]
    pub(crate) query: Vec<String>,

    /// Where to look; everywhere if not given
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<ScopeName>,

    /// The only memory to look in; with all of an entry's text, that entry is meant
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Option<String>,

    /// Show what would go and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Tidy memories up
///
/// Merges entries that say the same, word for word, in the same place; names days such as `tomorrow`; and gives a
/// description to memories without one. It changes at most 20 memories, as one change. Entries that may repeat or
/// contradict each other, that ended, or that are private and lie in a repository become proposals for you to decide.
/// On a terminal, what would be done is shown first; without one `-y` is needed.
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
/// Those that wait or run, and those that ended in the last hour. Piped: one line each of id, status,
/// time and what came of it, with tabs between.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa tasks
  lukasa tasks --json | jq '.tasks[] | select(.status == \"failed\")'
  lukasa tasks --cancel TASK")]
pub(crate) struct Tasks {
    /// At most N tasks
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) max: usize,

    /// Take this task back, if nothing of it is written yet
    #[arg(long, value_name = "TASK", conflicts_with = "max")]
    pub(crate) cancel: Option<String>,
}

/// Add a fact to a context file, such as `AGENTS.md`
///
/// The fact becomes one line at the end of the section of added memories; the section is made where it
/// is missing, and nothing else changes. Of the names that are set, the first that is there is written.
/// A context file is not a memory: it has no history here, and hosts load all of it by themselves.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa save --scope project 'Run `just lint` before pushing'
  lukasa save --scope global 'I prefer short answers'
  lukasa save 'Deploys are on Tuesdays'           asks which file
  lukasa save --edit --scope project              opens $VISUAL or $EDITOR")]
pub(crate) struct Save {
    /// The fact, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) fact: Option<String>,

    /// Open the editor on it first; several lines are added as they are
    #[arg(long)]
    pub(crate) edit: bool,

    /// Whose file
    #[arg(long, value_name = "SCOPE")]
    pub(crate) scope: Option<SaveScope>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Whose context file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SaveScope {
    /// Your own, beside the settings
    Global,
    /// The project's, at the top of the checkout
    Project,
}

/// A scope, as a person names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScopeName {
    /// The person, in all projects
    Global,
    /// The project
    Project,
    /// The workspace: this worktree's, or the one that `--workspace-id` names
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
