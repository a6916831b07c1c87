//! The grammar of what has to do with agents: setting them up, and serving them.

use clap::Args;

use crate::install::agents::{AgentName, InstallScope};

/// Let an agent use Lukasa
///
/// Adds the MCP server, and hooks or a plugin where the agent has them, to the agent's own settings. Without a name it lists the
/// agents on this machine and offers them. What changes your permissions (the agent runs the tools without asking) or
/// switches off the agent's own memory is asked one by one; `--yes` consents to it, and without a terminal and
/// `--yes` it is left out. Everything else in the files stays as it is, byte for byte. A file that is not understood
/// is not touched.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa install                             offers the agents on this machine
  lukasa install claude-code
  lukasa install qwen --dry-run              only shows the difference
  lukasa install codex --yes --no-permissions
  lukasa install codex --scope project       for everybody who works on this project
  lukasa install --print                     a configuration for other MCP clients
  lukasa uninstall claude-code               takes it away again")]
pub(crate) struct Install {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<AgentName>,

    #[command(flatten)]
    pub(crate) installation: Installation,

    #[command(flatten)]
    pub(crate) exclusions: Exclusions,

    /// Print the configuration that most MCP clients read, and write nothing
    #[arg(long, conflicts_with_all = ["agent", "scope", "dry_run", "yes"])]
    pub(crate) print: bool,
}

/// What is not written.
#[derive(Args, Debug)]
pub(crate) struct Exclusions {
    /// Let the agent ask before it runs the tools, as it does now
    #[arg(long)]
    pub(crate) no_permissions: bool,

    /// Leave the agent's own memory on
    #[arg(long)]
    pub(crate) no_replace_memory: bool,

    /// Write no plugin: opencode has the tools then, and is shown no memory beside them
    #[arg(long)]
    pub(crate) no_plugin: bool,
}

/// Take from an agent what `install` gave it
///
/// Takes the MCP server, the plugin and the hooks that call `lukasa` out of the agent's settings, gives settings that `install`
/// changed their value back, and removes files and folders that it made. A file that was not edited since gets its
/// exact bytes back. Memories stay.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa uninstall claude-code
  lukasa uninstall qwen --dry-run            only shows the difference
  lukasa uninstall codex --scope project")]
pub(crate) struct Uninstall {
    /// The agent
    #[arg(value_name = "AGENT")]
    pub(crate) agent: AgentName,

    #[command(flatten)]
    pub(crate) installation: Installation,
}

/// Whose settings, and how.
#[derive(Args, Debug)]
pub(crate) struct Installation {
    /// In whose settings: yours, or those of the project
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    pub(crate) scope: InstallScope,

    /// Only show what would be written
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,

    /// Show the difference before it is written
    #[arg(long)]
    pub(crate) diff: bool,

    /// Do not ask: consent to everything that is not excluded by a flag
    #[arg(long, short)]
    pub(crate) yes: bool,
}

/// Answer an agent's hook
///
/// `lukasa install` lets the agent call it. Reads on stdin what the agent tells, and prints what the model is shown:
/// an index of memories when a session begins, and what fits a prompt, once. Whatever goes wrong, nothing is printed,
/// the exit status is 0, and it takes at most a second; `hooks.log` in the state folder says what it was.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Events: session-start, user-prompt, post-tool-use, pre-compact, stop, session-end

Examples:
  lukasa hook session-start --agent claude-code < told.json")]
pub(crate) struct Hook {
    /// What happened
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,

    /// In whose format: `claude-code`, `codex`, `gemini`, `qwen`, `copilot` or `cursor`
    #[arg(long, value_name = "AGENT", default_value = "claude-code")]
    pub(crate) agent: String,
}

/// Serve memories to an agent over MCP on stdin and stdout
///
/// An agent's client starts this. `--project`, `--workspace-id` and `--flat` say which memories it
/// gets; without `--project` the roots that the client names are honored. The workspace is that of
/// the worktree, unless an id is given.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa mcp
  lukasa mcp --agent-class plan --project ~/src/app
  lukasa mcp --read-only --flat ./memories")]
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

/// Do tasks for a client that speaks the Agent Client Protocol on stdin and stdout
///
/// A client starts this; so does the daemon, which has tasks decided in a process of their own. It offers what
/// `lukasa remember`, `forget` and `dream` do as the ext-methods `qwen/control/workspace/memory/…`, and holds no
/// conversation: asking for a session is an error. The project is that of the current folder, or the `cwd` of a call,
/// unless `--project` or `--flat` says which.
#[cfg(feature = "child")]
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  lukasa acp
  lukasa --acp                        the same, for clients that know no commands
  lukasa acp --project ~/src/app")]
pub(crate) struct Acp {}
