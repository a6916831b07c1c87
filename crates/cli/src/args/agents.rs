//! The grammar of the commands for agents: installation, hooks, and the servers on stdin and stdout.

use std::sync::LazyLock;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use crate::install::agents::{AgentName, InstallScope};

/// Set up an agent to use Lukasa
///
/// Adds the MCP server, and hooks or a plugin if the agent supports them, to the agent's own settings. Without a name it
/// lists the agents on this machine and offers to set them up.
///
/// It also asks whether the agent may run Lukasa's tools without asking you, and whether to switch off the agent's own
/// memory. `--yes` answers yes to both. Without a terminal, and without `--yes`, both stay as they are.
/// Everything else in the files stays as it is, byte for byte. A file that cannot be parsed is not changed.
///
/// `git` sets up the clone of the current folder: git merges the memories of the project by entry then, and not by line.
/// With `--scope project` the attributes are in `.gitattributes`, for everyone who works on the project.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa install                             lists the agents on this machine
  lukasa install claude-code
  lukasa install qwen --dry-run              only shows the difference
  lukasa install codex --yes --no-permissions
  lukasa install codex --scope project       for all who work on this project
  lukasa install git                         merges memories by entry in this clone
  lukasa install --print                     a configuration for other MCP clients
  lukasa uninstall claude-code               removes it again")]
pub(crate) struct Install {
    /// Agent to set up, or git
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<InstallTarget>,

    #[command(flatten)]
    pub(crate) installation: Installation,

    #[command(flatten)]
    pub(crate) exclusions: Exclusions,

    /// Print the configuration that most MCP clients read, and write nothing
    #[arg(long, conflicts_with_all = ["agent", "scope", "dry_run", "yes"])]
    pub(crate) print: bool,
}

/// A program to set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstallTarget {
    /// An agent.
    Agent(AgentName),
    /// git, which gets a merge driver.
    Git,
}

/// All programs to set up, with git last.
static TARGETS: LazyLock<Vec<InstallTarget>> = LazyLock::new(|| {
    let agents = AgentName::value_variants().iter().copied().map(InstallTarget::Agent);
    agents.chain([InstallTarget::Git]).collect()
});

impl ValueEnum for InstallTarget {
    fn value_variants<'a>() -> &'a [Self] {
        &TARGETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Agent(agent) => agent.to_possible_value(),
            Self::Git => Some(PossibleValue::new("git").help("git: merge driver of memories")),
        }
    }
}

/// The parts of an installation that are left out.
#[derive(Args, Debug)]
pub(crate) struct Exclusions {
    /// Do not change permissions: the agent keeps asking before it runs Lukasa's tools
    #[arg(long)]
    pub(crate) no_permissions: bool,

    /// Leave the agent's own memory on
    #[arg(long)]
    pub(crate) no_replace_memory: bool,

    /// Write no plugin: opencode has the tools then, but gets no memories in its context
    #[arg(long)]
    pub(crate) no_plugin: bool,
}

/// Remove Lukasa from the settings of an agent
///
/// Removes the MCP server, the plugin and the hooks that call `lukasa` from the agent's settings. Restores the settings
/// that `install` changed, and removes the files and folders that it created. A file that was not edited since gets its
/// exact bytes back. Memories stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa uninstall claude-code
  lukasa uninstall qwen --dry-run            only shows the difference
  lukasa uninstall codex --scope project")]
pub(crate) struct Uninstall {
    /// Agent to remove it from, or git
    #[arg(value_name = "AGENT")]
    pub(crate) agent: InstallTarget,

    #[command(flatten)]
    pub(crate) installation: Installation,
}

/// The settings to change, and how to change them.
#[derive(Args, Debug)]
pub(crate) struct Installation {
    /// Settings to change: your own, or those of the project
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: InstallScope,

    /// Show what would be written and change nothing
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Show the difference before it is written
    #[arg(long)]
    pub(crate) diff: bool,

    /// Do not ask: consent to everything that is not excluded by a flag
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Handle a hook event of an agent
///
/// The agent calls this command after `lukasa install`. It reads the event from stdin and prints text for the model:
/// the facts when a session starts, and the memories that fit a prompt, each once. On an error it prints
/// nothing, the exit status is 0, and `hooks.log` in the state folder holds the reason. It takes at most a second.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Events: session-start, user-prompt, post-tool-use, pre-compact, stop, session-end

Examples:
  lukasa hook session-start --agent claude-code < event.json")]
pub(crate) struct Hook {
    /// Name of the event
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,

    /// Agent that calls, which sets the format: `claude-code`, `codex`, `gemini`, `qwen`, `copilot` or `cursor`
    #[arg(long, value_name = "AGENT", default_value = "claude-code")]
    pub(crate) agent: String,
}

/// Serve memories to an agent over MCP on stdin and stdout
///
/// The client of an agent starts this command. `--project`, `--workspace-id` and `--flat` select the memories it
/// gets; without `--project` the roots that the client names are used. The workspace is that of
/// the worktree, unless an id is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa mcp
  lukasa mcp --agent-class plan --project ~/src/app
  lukasa mcp --read-only --flat ./memories")]
pub(crate) struct Mcp {
    /// Access of the agent: `exec` writes everywhere, `plan` everywhere but to the project, `explore` and
    /// unknown classes only read
    #[arg(long, value_name = "CLASS", default_value = "exec")]
    pub(crate) agent_class: String,

    /// Read-only mode
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Session of the agent, recorded in the history
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

/// Run tasks over the Agent Client Protocol on stdin and stdout
///
/// A client starts this command; so does the daemon, to decide on tasks in a separate process. It offers `lukasa
/// remember`, `forget` and `dream` as the ext-methods `qwen/control/workspace/memory/…`. It has no
/// conversations: a request for a session is an error. The project is that of the current folder, or of the `cwd` of a
/// call, unless `--project` or `--flat` selects one.
#[cfg(feature = "child")]
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa acp
  lukasa --acp                        the same, for clients that only pass flags
  lukasa acp --project ~/src/app")]
pub(crate) struct Acp {}
