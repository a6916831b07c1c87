//! The grammar of the command line: every command, flag, help text and example.
//!
//! Help, completions, manual pages and the generated reference all come from here. Nothing is done
//! here: the values are read by [`compose`](crate::compose) and by the commands.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use serde::Deserialize;

mod agents;
mod context;
mod ls;
mod models;
mod overview;
mod pending;
mod reference;
mod serve;
mod service;
mod tasks;
mod workspace;

#[cfg(feature = "child")]
pub(crate) use agents::Acp;
pub(crate) use agents::{Hook, Install, Installation, Mcp, Uninstall};
pub(crate) use context::{Context, Recall, Trust, TurnPhase};
pub(crate) use ls::{Filter, Ls, Order};
pub(crate) use models::{ModelsArgs, Runs};
pub(crate) use overview::{color, grammar, grouped, overview, with_groups};
pub(crate) use pending::{PendingAction, PendingArgs, ProposalSelection};
pub(crate) use reference::{Reference, ReferenceTopic};
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

    /// `None` shows what there is.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The folder that an agent told its hook of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AgentFolder {
    /// The agent named one that exists, or none.
    #[default]
    Known,
    /// It was removed, or there are several: there is no project, and that of the current folder is not meant.
    NoProject,
}

/// What every command understands.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where")]
pub(crate) struct Globals {
    /// Take the project of DIR instead of the current folder's
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) project: Option<PathBuf>,

    /// Set by a hook
    #[arg(skip)]
    pub(crate) agent_folder: AgentFolder,

    /// Where project memories lie: `repo` in the checkout, `host` on this host only
    #[arg(long, global = true, value_name = "PLACE")]
    pub(crate) project_root: Option<ProjectPlace>,

    /// Mount this workspace instead of the one of the git worktree
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

    /// Print JSON: one value, or one a line for `log`, `grep`, `events`, `demo`
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    /// When to use color; `always` colors and aligns what goes into a pipe too
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    pub(crate) color: clap::ColorChoice,

    /// Print straight to the terminal
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) no_pager: bool,

    /// Print results and errors only
    #[arg(short, long, global = true, help_heading = "Output", conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more on stderr; twice for details
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// Where project memories lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProjectPlace {
    /// In the checkout, at `.lukasa/memory`
    Repo,
    /// On this host only, shared by all worktrees
    Host,
}

/// What to do. What each is for is said where its arguments are.
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
    /// Keep memories in context no longer
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
    /// List the memories that models are given whole, warmest first
    Hot,
    Trust(Trust),
    Accept(Accept),
    Workspace(WorkspaceArgs),
    /// Show where memories lie and how much there is
    Status,
    /// Show what is switched on, and which setting says so
    ///
    /// `[features]` in config.toml turns features on and off, `LUKASA_FEATURES` for one process
    /// (`LUKASA_FEATURES=-recall,+page`), and `[workspace."ID".features]` off in one workspace. What is off leaves no trace
    /// but this list. A daemon and an MCP server read it when they start.
    Features,
    Models(ModelsArgs),
    Runs(Runs),
    Doctor(Doctor),
    Import(Import),
    Export(Export),
    Ui(Ui),
    Serve(Serve),
    Service(Service),
    Token(Token),
    Events(Events),
    Mcp(Mcp),
    #[cfg(feature = "child")]
    #[command(long_flag = "acp")]
    Acp(Acp),
    Install(Install),
    Uninstall(Uninstall),
    Hook(Hook),
    Demo(Demo),
    Completions(Completions),
    Man(Man),
    /// Print a reference in Markdown
    #[command(hide = true)]
    Reference(Reference),
}

/// Print a memory
///
/// Piped, the bytes are as they are on disk. On a terminal, control and invisible characters are
/// shown instead of obeyed. Viewing is not counted as a use.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa view global/prefs.md
  lukasa view project/build.md --lines 10:20
  lukasa view project/build.md --lines 40:        from line 40 to the end")]
pub(crate) struct View {
    /// The memory
    pub(crate) path: String,

    /// Only lines A to B, counted from 1; either may be left out
    #[arg(long, short, value_name = "A:B")]
    pub(crate) lines: Option<LineRange>,

    /// Number the lines
    #[arg(long, short)]
    pub(crate) number: bool,
}

/// Make a memory
///
/// The text comes from the argument (a final newline is added if it has none), from stdin when that
/// is piped or TEXT is `-`, or from your editor.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa create global/prefs.md '- Prefers short answers.'
  git log -1 --format=%B | lukasa create project/last.md
  lukasa create workspace/plan.md         opens $VISUAL or $EDITOR
  lukasa create global/ci.md --allow secrets.assignment 'password = \"example-Pa55\"'")]
pub(crate) struct Create {
    /// Where: nothing may be there yet
    pub(crate) path: String,

    /// The text, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// What a person answers for.
#[derive(Args, Debug, Default)]
pub(crate) struct AllowRules {
    /// Write it although RULE objects: a screening rule, as the refusal names it, or a family
    #[arg(long = "allow", value_name = "RULE")]
    pub(crate) rules: Vec<String>,
}

/// Replace a text that occurs exactly once
///
/// Both texts are taken letter for letter. An empty NEW deletes the old text.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa replace project/build.md 'uses npm' 'uses pnpm'
  lukasa replace global/prefs.md ', mostly' ''")]
pub(crate) struct Replace {
    /// The memory
    pub(crate) path: String,
    /// What is there
    #[arg(allow_hyphen_values = true)]
    pub(crate) old: String,
    /// What shall be there instead
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
    /// The memory
    pub(crate) path: String,
    /// After which line; 0 is the top
    #[arg(allow_negative_numbers = true)]
    pub(crate) line: i64,
    /// The lines, or `-` for stdin
    #[arg(allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Delete memories or folders
///
/// Several paths are deleted together or not at all. Deleting a folder asks first, for it takes
/// hidden files with it; `lukasa undo` brings every memory back. Without a terminal `-y` is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa rm global/old.md project/older.md
  lukasa rm -y workspace/drafts           without a question, and in scripts")]
pub(crate) struct Rm {
    /// Memories or folders
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// The consent to a command that takes text away.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Consent {
    /// Do not ask; needed without a terminal and with `--json`
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Rename a memory or folder
///
/// Also moves it to another scope; history and pins go with it. When TO ends with a slash or is a scope, the name is
/// kept and the folder changes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa mv global/notes.md global/tools/editor.md
  lukasa mv project/ci.md project/build/
  lukasa mv workspace/plan.md project/            it outlives the workspace then")]
pub(crate) struct Mv {
    /// The path that it has
    pub(crate) from: String,
    /// The path that it gets
    pub(crate) to: String,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Edit a memory in your editor
///
/// Opens $VISUAL, $EDITOR or vi on a private copy and saves what you leave there. Nothing is written
/// when the editor fails or the text is unchanged. When somebody changed the memory meanwhile,
/// nothing is overwritten: the difference is shown and your text is kept as a draft. A text that holds a secret is
/// kept only if you say so, for a week; `lukasa doctor` lists drafts.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa edit global/prefs.md
  VISUAL='code --wait' lukasa edit project/build.md
  lukasa edit global/prefs.md --draft FILE        goes on with a draft that was kept")]
pub(crate) struct Edit {
    /// The memory; made if it is not there
    pub(crate) path: String,

    /// Begin with the text of FILE, which an earlier edit kept
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) draft: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// Keep memories in the agents' context
///
/// Pins are kept beside the memories, on this host only.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa pin global/prefs.md
  lukasa ls --json | jq -r '.memories[] | select(.pinned).path'")]
pub(crate) struct Pin {
    /// Memories
    #[arg(required = true)]
    pub(crate) paths: Vec<String>,
}

/// Answer for memories that nobody here reviewed
///
/// Such a memory came with a repository, or was written by an agent that had read one: models are not shown it unless they
/// ask. Or a background review wrote it: no session begins with it. This shows it to you and asks; once you agree, it is
/// trusted as what you wrote. No byte changes, and `lukasa undo` takes it back. Without a path, those that wait are listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa accept                       what nobody reviewed
  lukasa accept project/build.md
  lukasa accept project -y            everything in the project, unseen")]
pub(crate) struct Accept {
    /// Memories, or folders with all in them
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
    /// What to look for
    #[arg(allow_hyphen_values = true)]
    pub(crate) pattern: String,

    /// A memory, folder or scope to search in
    pub(crate) path: Option<String>,

    /// PATTERN is a regular expression
    #[arg(long, short = 'E')]
    pub(crate) regex: bool,

    /// Letters match in either case
    #[arg(long, short)]
    pub(crate) ignore_case: bool,

    #[command(flatten)]
    pub(crate) print: GrepPrint,
}

/// What is printed of a match.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct GrepPrint {
    /// Print line numbers
    #[arg(long, short = 'n')]
    pub(crate) line_number: bool,

    /// Print only the paths of memories that match
    #[arg(long, short = 'l')]
    pub(crate) files_with_matches: bool,
}

/// Show what was changed, newest first
///
/// Edits made outside of Lukasa are noticed first and listed too. With a path, a memory or folder is followed to the
/// paths that it had before.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa log
  lukasa log global/prefs.md --since 2d
  lukasa log --since 2026-11-01 --until 2026-11-08 -n 100
  lukasa log --json | jq -r .id")]
pub(crate) struct Log {
    /// Only changes of this memory, or below this folder
    pub(crate) path: Option<String>,

    /// Only changes of this task
    #[arg(long, value_name = "TASK")]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) time_range: TimeRange,

    /// At most N changes
    #[arg(long, short = 'n', value_name = "N", default_value_t = 50)]
    pub(crate) max: usize,
}

/// From when until when.
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
    /// Its number, as `lukasa log` lists it
    pub(crate) change: i64,
}

/// Show what a change did, or what became of a memory
///
/// With a change's number: what it did. With a memory: what its last change did to it. With a
/// memory and a revision or change: the difference from there to what is there now. With nothing:
/// what the newest change did.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa diff                        the newest change
  lukasa diff 42                     change 42
  lukasa diff global/prefs.md        the last change of that memory
  lukasa diff global/prefs.md 42     from what change 42 left to what is there now")]
pub(crate) struct Diff {
    /// A change's number or a memory
    #[arg(value_name = "CHANGE|PATH")]
    pub(crate) subject: Option<String>,

    /// A change's number, or a revision or its first digits, of the memory
    pub(crate) revision: Option<String>,
}

/// Take changes back
///
/// Alone, it shows the last change and asks whether to take it back. An undo is a change itself, so it
/// can be undone. It is refused, and changes nothing, when a memory was changed since: the difference is
/// shown instead. What a task did in another project or workspace stays, is named, and makes the exit
/// status 1. Without a terminal `-y` is needed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa undo                             shows the last change and asks
  lukasa undo 42
  lukasa undo --task dream-17
  lukasa undo --since 2h --dry-run        what would be taken back")]
pub(crate) struct Undo {
    /// The change's number; if nothing is said, the last one that was made through Lukasa
    #[arg(conflicts_with_all = ["task", "since", "until"])]
    pub(crate) change: Option<i64>,

    /// All changes of this task
    #[arg(long, value_name = "TASK", conflicts_with_all = ["since", "until"])]
    pub(crate) task: Option<String>,

    #[command(flatten)]
    pub(crate) time_range: TimeRange,

    /// Show what would be taken back and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) consent: Consent,
}

/// Look for trouble, and mend it
///
/// Finds names that cannot be addressed, links, files over the cap, frontmatter that cannot be read or is there
/// twice, conflict markers of merges, left-over temporary files, interrupted commits and damaged state. The exit
/// status is 1 while something needs attention. Also says what could be better, which changes no status: entries
/// that repeat others, missing descriptions, and values of the frontmatter that lack their quotes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  lukasa doctor\n  lukasa doctor --fix")]
pub(crate) struct Doctor {
    /// Mend what can be mended without losing a memory
    #[arg(long)]
    pub(crate) fix: bool,
}

/// Take over memories of another product or folder
///
/// All of it is one change, which `lukasa undo` takes back. What is there already is never
/// overwritten.
///
/// A home or a checkout of Quipu, the earlier name of this program, is taken over with its pins and usage and the times of
/// its memories. The memories of other projects and workspaces are listed with where to import them. Its database is only read,
/// also while Quipu runs. History, tasks, sessions and runs stay there; settings and trusted folders are listed.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa import ~/.quipu --dry-run
  lukasa import .quipu
  lukasa import ~/notes --to global/notes --dry-run
  lukasa import ~/.claude/projects/-home-me-app/memory --to project
  lukasa import memory.jsonl --format server-memory")]
pub(crate) struct Import {
    /// The folder or file to read
    #[arg(value_hint = ValueHint::AnyPath)]
    pub(crate) source: PathBuf,

    /// What it was written by
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    pub(crate) format: ImportFormat,

    /// The scope or folder to write to [default: `global`; for Quipu, the scope that the memories are from]
    #[arg(long, value_name = "SCOPE[/FOLDER]")]
    pub(crate) to: Option<String>,

    /// Show what would be made and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) allow_rules: AllowRules,
}

/// The layouts that can be taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportFormat {
    /// Find out
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

/// Copy memories out
///
/// Writes a tar archive to stdout or a copy to a folder: the memories as files, and `lukasa.json`
/// with their revisions, pins and usage.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa export > memories.tar
  lukasa export global --to ~/backup/memories")]
pub(crate) struct Export {
    /// A memory, folder or scope; everything if not given
    pub(crate) path: Option<String>,

    /// A folder, or `-` for a tar archive on stdout
    #[arg(long, value_name = "DIR|-", default_value = "-", value_hint = ValueHint::DirPath)]
    pub(crate) to: PathBuf,

    /// Overwrite files that are there
    #[arg(long)]
    pub(crate) force: bool,
}

/// Show all of it in a throw-away home
///
/// Makes a home and a git checkout, lets an agent's client write there over MCP, refuses a secret,
/// settles a conflict, kills a server in the middle of a commit, and takes a change back. Whatever
/// it says was checked; it takes a few seconds, needs git, and touches nothing of yours.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  lukasa demo")]
pub(crate) struct Demo {
    /// Leave the home and the checkout to look at
    #[arg(long)]
    pub(crate) keep: bool,
}

/// Print the completion script of a shell
///
/// It completes commands, flags, memories, scopes and the numbers of changes: the shell asks this
/// program while you type. Let the shell run it at its start, so that it fits after an upgrade too.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples, for ~/.bashrc, ~/.zshrc (after compinit) and ~/.config/fish/config.fish:
  source <(lukasa completions bash)
  source <(lukasa completions zsh)
  lukasa completions fish | source")]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write all of them to a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa man | man -l -
  lukasa man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write one page for each command to DIR
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
            return Err(format!("line {first} comes after the last line asked for"));
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
    fn a_range_of_lines_counts_from_one() {
        fn check(text: &str, expected: Result<(usize, Option<usize>), &str>) {
            let read = text.parse::<LineRange>().map(|range| (range.first, range.last));
            assert_eq!(read, expected.map_err(str::to_owned), "{text}");
        }
        check("3:7", Ok((3, Some(7))));
        check("3:", Ok((3, None)));
        check(":7", Ok((1, Some(7))));
        check("5", Ok((5, Some(5))));
        check("0:2", Err("`0` is not a line number; lines are counted from 1"));
        check("7:3", Err("line 7 comes after the last line asked for"));
        check("a", Err("`a` is not a line number; lines are counted from 1"));
        check("", Err("`` is not a line number; lines are counted from 1"));
        check("-1:", Err("`-1` is not a line number; lines are counted from 1"));
    }
}
