//! The grammar of `quipu hook`.

use clap::Args;

/// Answer an agent's hook
///
/// `quipu install` lets the agent call it. Reads on stdin what the agent tells, and prints what the model is shown:
/// an index of memories when a session begins, and what fits a prompt, once. Whatever goes wrong, nothing is printed,
/// the exit status is 0, and it takes at most a second; `hooks.log` in the state folder says what it was.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Events: session-start, user-prompt, post-tool-use, pre-compact, stop, session-end

Examples:
  quipu hook session-start --agent claude-code < told.json")]
pub(crate) struct Hook {
    /// What happened
    #[arg(value_name = "EVENT")]
    pub(crate) event: String,

    /// In whose format: `claude-code`, `codex`, `gemini`, `qwen`, `copilot` or `cursor`
    #[arg(long, value_name = "AGENT", default_value = "claude-code")]
    pub(crate) agent: String,
}
