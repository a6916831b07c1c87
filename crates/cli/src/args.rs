//! The grammar of the command line: every command, flag, help text and example.
//!
//! Help, completions, manual pages and the generated reference are all derived from these types. This module
//! runs nothing: the values are read by [`compose`](crate::compose) and by the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use serde::Deserialize;

mod agents;
mod context;
mod encoder;
mod git;
mod ls;
#[cfg(feature = "cluster")]
mod migrate;
mod models;
mod overview;
mod pending;
mod reference;
mod remote;
mod self_check;
mod serve;
mod service;
mod tasks;
mod workspace;

#[cfg(feature = "child")]
pub(crate) use agents::Acp;
pub(crate) use agents::{Hook, Install, InstallTarget, Installation, Mcp, Uninstall};
pub(crate) use context::{Context, Recall, Trust, TurnPhase};
pub(crate) use encoder::{Encoder, EncoderAction};
pub(crate) use git::MergeDriver;
pub(crate) use ls::{Filter, Ls, Order};
#[cfg(feature = "cluster")]
pub(crate) use migrate::Migrate;
pub(crate) use models::{ModelsArgs, Runs};
pub(crate) use overview::{color, grammar, grouped, overview, with_groups};
pub(crate) use pending::{PendingAction, PendingArgs, ProposalSelection};
pub(crate) use reference::{Reference, ReferenceTopic};
pub(crate) use remote::{Backend, Remote, RemoteAction};
pub(crate) use self_check::{SelfAction, SelfArgs, SelfCheck};
#[cfg(feature = "cluster")]
pub(crate) use serve::{Cluster, OwnerMapping, ProviderOptions, TokenAction};
pub(crate) use serve::{DEFAULT_PORT, Events, HttpAccess, RunnerKind, Serve, Token, Ui};
pub(crate) use service::{Service, ServiceAction};
pub(crate) use tasks::{Dream, Forget, Remember, Save, SaveScope, Tasks};
pub(crate) use workspace::{WorkspaceAction, WorkspaceArgs, WorkspaceRm};

/// A memory for AI agents: plain Markdown in three scopes, safe, with undo
#[derive(Debug, Parser)]
#[command(
    name = "lukasa",
    bin_name = "lukasa",
    version,
    max_term_width = 100,
    after_help = "Run `lukasa help COMMAND` for examples, `lukasa man` for the manual page.",
    after_long_help = overview::long_help()
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) globals: Globals,

    /// `None` prints the overview.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The state of the folder that an agent named to its hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AgentFolder {
    /// The agent named one existing folder, or none.
    #[default]
    Known,
    /// The folder was removed, or there are several. There is no project then, and the project of the current folder
    /// is not used instead.
    NoProject,
}

/// The options of every command.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Location")]
pub(crate) struct Globals {
    /// Use the project that contains DIR, which may be `ssh://HOST/PATH`
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,

    /// Set by a hook
    #[arg(skip)]
    pub(crate) agent_folder: AgentFolder,

    /// Place of project memories: `repo` in the checkout, `host` on this machine only
    #[arg(long, global = true, value_name = "PLACE")]
    pub(crate) project_root: Option<ProjectPlace>,

    /// Use this workspace instead of that of the git worktree
    #[arg(long, global = true, value_name = "ID")]
    pub(crate) workspace_id: Option<String>,

    /// Mount one folder at `/memories` instead of the three scopes
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        conflicts_with_all = ["project", "project_root", "workspace_id"]
    )]
    pub(crate) flat: Option<PathBuf>,

    /// Print JSON: one value, or one value per line for `log`, `grep`, `recall`, `events`, `demo`
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    /// When to use color; `always` also colors and aligns piped output
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    pub(crate) color: clap::ColorChoice,

    /// Do not use a pager
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_pager: bool,

    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Output", conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Print more on stderr; twice for details
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// The place of project memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProjectPlace {
    /// In the checkout, at `.lukasa/memory`
    Repo,
    /// On this machine only, shared by all worktrees
    Host,
}

/// The commands; the help of each one is on its arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(visible_alias = "list")]
    Ls(Ls),
    #[command(visible_alias = "cat")]
    View(View),
    Create(Create),
    #[command(visible_alias = "str_replace")]
    Replace(Replace),
    Insert(Insert),
    #[command(visible_alias = "delete")]
    Rm(Rm),
    #[command(visible_alias = "rename")]
    Mv(Mv),
    Edit(Edit),
    Pin(Pin),
    /// Unpin memories
    #[command(after_help = "Example:\n  lukasa unpin global/prefs.md")]
    Unpin(Pin),
    #[command(visible_alias = "search")]
    Grep(Grep),
    Recall(Recall),
    Log(Log),
    Show(Show),
    Diff(Diff),
    Undo(Undo),
    Remember(Remember),
    Forget(Forget),
    Dream(Dream),
    Tasks(Tasks),
    Pending(PendingArgs),
    Save(Save),
    Context(Context),
    Trust(Trust),
    Accept(Accept),
    Workspace(WorkspaceArgs),
    /// Show the folders and sizes of memories
    Status,
    /// Show which features are on, and the setting that decides it
    ///
    /// `[features]` in config.toml turns features on and off. `LUKASA_FEATURES` does so for one process
    /// (`LUKASA_FEATURES=-recall,+page`), and `[workspace."ID".features]` turns them off in one workspace. A feature that
    /// is off appears only in this list. A daemon and an MCP server read the settings when they start.
    Features,
    Models(ModelsArgs),
    Runs(Runs),
    Doctor(Doctor),
    Import(Import),
    Export(Export),
    #[cfg(feature = "cluster")]
    Migrate(Migrate),
    Ui(Ui),
    Serve(Serve),
    Service(Service),
    Encoder(Encoder),
    Remote(Remote),
    #[command(hide = true)]
    Backend(Backend),
    Token(Token),
    Events(Events),
    Mcp(Mcp),
    #[cfg(feature = "child")]
    #[command(long_flag = "acp")]
    Acp(Acp),
    Install(Install),
    Uninstall(Uninstall),
    Hook(Hook),
    #[command(hide = true)]
    MergeDriver(MergeDriver),
    Demo(Demo),
    #[command(name = "self")]
    Itself(SelfArgs),
    Completions(Completions),
    Man(Man),
    /// Print a reference in Markdown
    #[command(hide = true)]
    Reference(Reference),
}

/// Print a memory
///
/// Piped, the bytes are printed as they are on disk. On a terminal, control and invisible characters are
/// escaped. Viewing is not counted as a use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa view global/prefs.md
  lukasa view project/build.md --lines 10:20
  lukasa view project/build.md --lines 40:        from line 40 to the end")]
pub(crate) struct View {
    /// Path of the memory
    pub(crate) path: String,

    /// Print only lines A to B, counted from 1; either may be left out
    #[arg(long, short, value_name = "A:B")]
    pub(crate) lines: Option<LineRange>,

    /// Number the lines
    #[arg(long, short)]
    pub(crate) number: bool,
}

/// Create a memory
///
/// The text comes from the argument (a final newline is added if it has none), from stdin if it
/// is piped or TEXT is `-`, or from your editor.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa create global/prefs.md '- Prefers short answers.'
  git log -1 --format=%B | lukasa create project/last.md
  lukasa create workspace/plan.md         opens $VISUAL or $EDITOR
  lukasa create global/ci.md --allow secrets.assignment 'password = \"example-Pa55\"'")]
pub(crate) struct Create {
    /// Path of the new memory; must not exist
    pub(crate) path: String,

    /// Text, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// The screening rules that a person overrides.
#[derive(Args, Debug, Default)]
pub(crate) struct AllowRules {
    /// Write even if screening rule RULE matches; a rule as the refusal names it, or a family of rules
    #[arg(long = "allow", value_name = "RULE")]
    pub(crate) rules: Vec<String>,
}

/// Replace a text that occurs exactly once
///
/// Both texts are taken literally. An empty NEW deletes the old text.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa replace project/build.md 'uses npm' 'uses pnpm'
  lukasa replace global/prefs.md ', mostly' ''")]
pub(crate) struct Replace {
    /// Path of the memory
    pub(crate) path: String,
    /// Text to replace
    #[arg(allow_hyphen_values = true)]
    pub(crate) old: String,
    /// Replacement
    #[arg(allow_hyphen_values = true)]
    pub(crate) new: String,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Add lines to a memory
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa insert global/prefs.md 0 '# Preferences'     at the top
  lukasa insert project/todo.md 3 < more.txt          after line 3")]
pub(crate) struct Insert {
    /// Path of the memory
    pub(crate) path: String,
    /// Line to insert after; 0 is the top
    #[arg(allow_negative_numbers = true)]
    pub(crate) line: i64,
    /// Lines to insert, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Delete memories or folders
///
/// Several paths are deleted together or not at all. Deleting a folder asks first, because its
/// hidden files are deleted too; `lukasa undo` restores every memory. Without a terminal `-y` is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa rm global/old.md project/older.md
  lukasa rm -y workspace/drafts           without a question, as in scripts")]
pub(crate) struct Rm {
    /// Paths of memories or folders
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Consent to a command that removes text.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Consent {
    /// Do not ask; needed without a terminal and with `--json`
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Rename or move a memory or folder
///
/// A move may go to another scope; history and pins move too. If TO ends with a slash or is a scope, the name stays
/// the same and the folder changes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa mv global/notes.md global/tools/editor.md
  lukasa mv project/ci.md project/build/
  lukasa mv workspace/plan.md project/            keeps it beyond the workspace")]
pub(crate) struct Mv {
    /// Source path
    pub(crate) from: String,
    /// New path
    pub(crate) to: String,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Edit a memory in your editor
///
/// Opens $VISUAL, $EDITOR or vi on a private copy and saves your text when the editor ends. Nothing is written
/// if the editor fails or the text is unchanged. If the memory was changed in the meantime,
/// nothing is overwritten: the difference is shown and your text is kept as a draft. A draft with a secret is kept only
/// if you agree, and is deleted after a week. `lukasa doctor` lists drafts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa edit global/prefs.md
  VISUAL='code --wait' lukasa edit project/build.md
  lukasa edit global/prefs.md --draft FILE        continues with a draft")]
pub(crate) struct Edit {
    /// Path of the memory; created if it does not exist
    pub(crate) path: String,

    /// Start with the draft in FILE, kept by an earlier edit
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) draft: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Pin memories, which keeps them in the context of agents
///
/// Pins are stored outside of the memories, on this machine only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pin global/prefs.md
  lukasa ls --json | jq -r '.memories[] | select(.pinned).path'")]
pub(crate) struct Pin {
    /// Paths of memories
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
}

/// Accept unreviewed memories as trusted
///
/// A memory is unreviewed if it came with a repository, or if an agent wrote it after reading such text. A session
/// only counts it, and models see its text if they ask for it. A memory that a background review wrote is unreviewed too:
/// recall finds it, but no session begins with it.
///
/// This command shows each memory and asks. Once you agree, it is trusted like your own text. No byte changes, and
/// `lukasa undo` undoes the decision. Without a path, the unreviewed memories are listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa accept                       lists the unreviewed memories
  lukasa accept project/build.md
  lukasa accept project -y            all of the project, without showing it")]
pub(crate) struct Accept {
    /// Paths of memories, or of folders with all memories in them
    pub(crate) paths: Vec<String>,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Search the text of memories
///
/// PATTERN is plain text unless `-E` is given. The exit status is 1 when nothing matches.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa grep pnpm
  lukasa grep -i 'code style' project
  lukasa grep -E 'node (18|20)' -l")]
pub(crate) struct Grep {
    /// Text to search for
    #[arg(allow_hyphen_values = true)]
    pub(crate) pattern: String,

    /// Memory, folder or scope to search in
    pub(crate) path: Option<String>,

    /// Treat PATTERN as a regular expression
    #[arg(long, short = 'E')]
    pub(crate) regex: bool,

    /// Ignore case
    #[arg(long, short)]
    pub(crate) ignore_case: bool,

    #[command(flatten)]
    pub(crate) print: GrepPrint,
}

/// The parts of a match to print.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct GrepPrint {
    /// Print line numbers
    #[arg(long, short = 'n')]
    pub(crate) line_number: bool,

    /// Print only the paths of memories that match
    #[arg(long, short = 'l')]
    pub(crate) files_with_matches: bool,
}

/// List changes, newest first
///
/// Edits made outside of Lukasa are recorded first and listed too. With a path, a memory or folder is followed to its
/// earlier paths.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa log
  lukasa log global/prefs.md --since 2d
  lukasa log --since 2026-11-01 --until 2026-11-08 -n 100
  lukasa log --json | jq -r .id")]
pub(crate) struct Log {
    /// List only changes of this memory, or below this folder
    pub(crate) path: Option<String>,

    /// List only changes of this task
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) time_range: TimeRange,

    /// List at most N changes
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) max: usize,
}

/// A range of times; each end may be open.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TimeRange {
    /// Only changes at or after this time: `2h`, `3 days ago`, `2026-11-01`, `2026-11-01T08:00`
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,

    /// Only changes at or before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
}

/// Show one change in full
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lukasa show 42")]
pub(crate) struct Show {
    /// Number of the change, from `lukasa log`
    pub(crate) change: i64,
}

/// Show the difference that a change made
///
/// With the number of a change: its difference. With a memory: the difference of its last change. With a
/// memory and a revision or change: the difference from there to the current text. Without arguments:
/// the difference of the newest change.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa diff                        the newest change
  lukasa diff 42                     change 42
  lukasa diff global/prefs.md        the last change of that memory
  lukasa diff global/prefs.md 42     from the text after change 42 to the current one")]
pub(crate) struct Diff {
    /// Number of a change, or path of a memory
    #[arg(value_name = "CHANGE|PATH")]
    pub(crate) subject: Option<String>,

    /// Number of a change of the memory, or a revision or its first digits
    pub(crate) revision: Option<String>,
}

/// Undo changes
///
/// Without arguments, it shows the last change and asks whether to undo it. An undo is a change itself, so it
/// can be undone. It is refused, and changes nothing, if a memory was changed since: the difference is
/// shown instead. Changes that a task made in another project or workspace stay; they are named, and the exit
/// status is 1. Without a terminal `-y` is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa undo                             shows the last change and asks
  lukasa undo 42
  lukasa undo --task dream-17
  lukasa undo --since 2h --dry-run        shows what would be undone")]
pub(crate) struct Undo {
    /// Number of the change; by default the last one made through Lukasa
    #[arg(conflicts_with_all = ["task", "since", "until"])]
    pub(crate) change: Option<i64>,

    /// Undo all changes of this task
    #[arg(long, value_name = "TASK", conflicts_with_all = ["since", "until"])]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) time_range: TimeRange,

    /// Show what would be undone and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Check the store and repair it
///
/// Finds file names that are not valid memory paths, links, and files over the size limit. Finds frontmatter that is
/// invalid or occurs twice, and conflict markers of merges. Finds left-over temporary files, interrupted commits and
/// damaged state. The exit status is 1 while something needs attention. Also prints hints, which do not change the exit
/// status: entries that repeat others, missing descriptions, values of the frontmatter without quotes, and damaged
/// databases that were set aside.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lukasa doctor\n  lukasa doctor --fix")]
pub(crate) struct Doctor {
    /// Repair what can be repaired without losing a memory
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Import memories from another product or a folder
///
/// The import is one change, which `lukasa undo` undoes. Existing memories are never overwritten.
///
/// A home or checkout of Quipu, the earlier name of this program, is imported with pins, usage and modification times.
/// The home must be one that `QUIPU_HOME` or a default of Quipu names.
/// Memories of other projects and workspaces are listed with the place to import them. The database of Quipu is only
/// read, even while Quipu runs. History, tasks, sessions and runs are not imported; settings and trusted folders are
/// listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa import ~/notes --to global/notes --dry-run
  lukasa import ~/.claude/projects/-home-me-app/memory --to project
  lukasa import memory.jsonl --format server-memory
  lukasa import ~/.quipu --dry-run
  lukasa import .quipu")]
pub(crate) struct Import {
    /// Folder or file to read
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) source: PathBuf,

    /// Format of the source
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub(crate) format: ImportFormat,

    /// Scope or folder to write to [default: `global`; for Quipu, the scope of the memories]
    #[arg(long, value_name = "SCOPE[/FOLDER]")]
    pub(crate) to: Option<String>,

    /// Show what would be created and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// The layouts that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Detect automatically
    Auto,
    /// A tree of Markdown files
    Folder,
    /// Claude Code's auto memory
    ClaudeCode,
    /// Qwen Code's `memories/`
    Qwen,
    /// A home or checkout of Quipu, the earlier name of this program
    Quipu,
    /// The JSONL of MCP's server-memory
    ServerMemory,
}

/// Export memories
///
/// Writes a tar archive to stdout, or copies to a folder: the memories as files, and `lukasa.json`
/// with their revisions, pins and usage.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa export > memories.tar
  lukasa export global --to ~/backup/memories")]
pub(crate) struct Export {
    /// Memory, folder or scope to export; everything by default
    pub(crate) path: Option<String>,

    /// Folder to write to, or `-` for a tar archive on stdout
    #[arg(long, value_name = "DIR|-", default_value = "-", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,

    /// Overwrite existing files
    #[arg(long)]
    pub(crate) force: bool,
}

/// Run a guided demo in a temporary home
///
/// Creates a home and a git checkout, and lets the client of an agent write there over MCP. Refuses a secret,
/// resolves a conflict, kills a server in the middle of a commit, and undoes a change. Each statement that
/// it prints was checked. It takes a few seconds, needs git, and does not touch your own files.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lukasa demo")]
pub(crate) struct Demo {
    /// Keep the home and the checkout
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Print the completion script of a shell
///
/// It completes commands, flags, memories, scopes and the numbers of changes: the shell calls this
/// program while you type. Load the script when the shell starts, so that it matches after an upgrade too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples, for ~/.bashrc, ~/.zshrc (after compinit) and ~/.config/fish/config.fish:
  source <(lukasa completions bash)
  source <(lukasa completions zsh)
  lukasa completions fish | source")]
pub(crate) struct Completions {
    /// Name of the shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all of them to a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa man | man -l -
  lukasa man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one page per command to DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// A range of lines as `A:B`, `A:`, `:B` or `A`; counted from 1, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineRange {
    /// The first line.
    pub(crate) first: usize,
    /// The last line; `None` is the end.
    pub(crate) last: Option<usize>,
}

impl std::str::FromStr for LineRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| match part.parse::<usize>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("`{part}` is not a line number; lines are counted from 1")),
        };
        let (first, last) = match text.split_once(':') {
            None => {
                let line = number(text)?;
                (line, Some(line))
            }
            Some((first, last)) => (
                if first.is_empty() { 1 } else { number(first)? },
                if last.is_empty() { None } else { Some(number(last)?) },
            ),
        };
        if last.is_some_and(|last| last < first) {
            return Err(format!(
                "the first line, {first}, comes after the last line, {last}",
                last = last.unwrap_or(first)
            ));
        }
        Ok(Self { first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_has_a_help_text() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {argument}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn line_ranges_are_parsed_and_count_from_one() {
        fn check(text: &str, expected: Result<(usize, Option<usize>), &str>) {
            let read = text.parse::<LineRange>().map(|range| (range.first, range.last));
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
        check("3:7", Ok((3, Some(7))));
        check("3:", Ok((3, None)));
        check(":7", Ok((1, Some(7))));
        check("5", Ok((5, Some(5))));
        check("0:2", Err("`0` is not a line number; lines are counted from 1"));
        check("7:3", Err("the first line, 7, comes after the last line, 3"));
        check("a", Err("`a` is not a line number; lines are counted from 1"));
        check("", Err("`` is not a line number; lines are counted from 1"));
        check("-1:", Err("`-1` is not a line number; lines are counted from 1"));
    }
}
