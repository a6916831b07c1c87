//! The agents with supported hooks, and the format of each.
//!
//! The formats follow the documentation of the agents. Undocumented behavior was observed in the version that is named.

use clap::ValueEnum;
use protocol::conversation::AgentHost;

/// An agent with supported hooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookHost {
    /// Claude Code
    ClaudeCode,
    /// Codex CLI
    Codex,
    /// Gemini CLI
    Gemini,
    /// Qwen Code
    Qwen,
    /// Copilot CLI
    Copilot,
    /// Cursor
    Cursor,
    /// opencode
    Opencode,
}

/// An event in a session of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookEvent {
    /// A session starts, is resumed or is cleared
    SessionStart,
    /// The user sent a prompt
    UserPrompt,
    /// A tool has finished
    PostToolUse,
    /// The conversation is about to be compacted
    PreCompact,
    /// A turn has ended
    Stop,
    /// A session has ended
    SessionEnd,
}

/// The format and the limits of an agent's hooks.
#[derive(Debug)]
pub(crate) struct HookFormat {
    /// The agent's names of events; it does not report events that are not listed.
    pub(crate) names: &'static [(HookEvent, &'static str)],
    /// The events whose answer may hold a text for the model.
    pub(crate) answerable: &'static [HookEvent],
    /// The maximum length of such a text in bytes. The agent truncates longer texts or moves them to a file.
    pub(crate) text_bytes_max: usize,
    /// The context files that the agent loads itself.
    pub(crate) context_files: &'static [&'static str],
    /// The unit of the agent's time limits, as a number per second.
    pub(crate) units_per_second: u64,
    /// The place of the text in an answer.
    pub(crate) answer_placement: AnswerPlacement,
    /// Whether hooks have names.
    pub(crate) has_names: bool,
    /// The content for the model when a session is resumed.
    pub(crate) resume_content: ResumeContent,
    /// The event that says that the model has lost its context.
    pub(crate) compaction: CompactionReport,
}

/// The event by which an agent reports that it compacted a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompactionReport {
    /// A start of the session follows. `PreCompact` may come without a compaction, when the user stops it.
    SessionStart,
    /// `PreCompact`: nothing follows, so the opening text is given again with the next prompt.
    PreCompact,
    /// None.
    Never,
}

/// The place of the text in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPlacement {
    /// In `hookSpecificOutput`, with the name of the event.
    HookSpecificOutput,
    /// In this field. The input of such an agent may name no event.
    Field(&'static str),
}

/// The content for a model when its session is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeContent {
    /// The opening text and the changes since: the agent did not keep the opening text.
    All,
    /// The changes since: the agent kept the opening text.
    Changes,
    /// Nothing: the agent ignores the answer. Changes are reported with the next prompt.
    Nothing,
}

/// Claude Code, as documented for its version 2.1. It truncates answers of hooks at 10,000 characters. After it compacted
/// a conversation it reports `SessionStart` again.
const CLAUDE_CODE: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "SessionStart"),
        (HookEvent::UserPrompt, "UserPromptSubmit"),
        (HookEvent::PostToolUse, "PostToolUse"),
        (HookEvent::PreCompact, "PreCompact"),
        (HookEvent::Stop, "Stop"),
        (HookEvent::SessionEnd, "SessionEnd"),
    ],
    answerable: &[HookEvent::SessionStart, HookEvent::UserPrompt, HookEvent::PostToolUse],
    text_bytes_max: 10_000,
    context_files: &["CLAUDE.md", "CLAUDE.local.md"],
    units_per_second: 1,
    answer_placement: AnswerPlacement::HookSpecificOutput,
    has_names: false,
    resume_content: ResumeContent::Changes,
    compaction: CompactionReport::SessionStart,
};

/// Codex CLI, as documented for its version 0.169. It does not report the end of a session. A text of more than 2,500
/// tokens, counted as four bytes each, is moved to a file; the model sees its beginning and end.
const CODEX: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "SessionStart"),
        (HookEvent::UserPrompt, "UserPromptSubmit"),
        (HookEvent::PostToolUse, "PostToolUse"),
        (HookEvent::PreCompact, "PreCompact"),
        (HookEvent::Stop, "Stop"),
    ],
    context_files: &["AGENTS.md"],
    ..CLAUDE_CODE
};

/// Gemini CLI, as documented for its version 0.61. It has its own names of events, and counts in milliseconds. It waits
/// neither for `PreCompress` nor for `SessionEnd`. It sends `PreCompress` before each request to its model, and reports
/// no event after it compacted a conversation.
const GEMINI: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "SessionStart"),
        (HookEvent::UserPrompt, "BeforeAgent"),
        (HookEvent::PostToolUse, "AfterTool"),
        (HookEvent::PreCompact, "PreCompress"),
        (HookEvent::Stop, "AfterAgent"),
        (HookEvent::SessionEnd, "SessionEnd"),
    ],
    text_bytes_max: 25_000,
    context_files: &["GEMINI.md"],
    units_per_second: 1_000,
    has_names: true,
    resume_content: ResumeContent::All,
    compaction: CompactionReport::Never,
    ..CLAUDE_CODE
};

/// Qwen Code, as documented for its versions 0.15 and 0.24. The events are those of Claude Code, and hooks have names.
/// Both versions take our time limits as milliseconds; the newer one counts values below 1,000 as seconds. A test runs
/// the agent itself.
const QWEN: HookFormat = HookFormat {
    names: CLAUDE_CODE.names,
    context_files: &["QWEN.md", "AGENTS.md"],
    compaction: CompactionReport::SessionStart,
    ..GEMINI
};

/// Copilot CLI, as observed in its version 1.0.102. Its input names no event, and it reads a flat answer. When a session
/// is resumed, the model keeps the opening text, and the agent ignores the answer to `sessionStart`. Of several answers
/// to `userPromptSubmitted` only the last one reaches the model.
const COPILOT: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "sessionStart"),
        (HookEvent::UserPrompt, "userPromptSubmitted"),
        (HookEvent::PostToolUse, "postToolUse"),
        (HookEvent::PreCompact, "preCompact"),
        (HookEvent::Stop, "agentStop"),
        (HookEvent::SessionEnd, "sessionEnd"),
    ],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md", "CLAUDE.md", "GEMINI.md"],
    answer_placement: AnswerPlacement::Field("additionalContext"),
    resume_content: ResumeContent::Nothing,
    compaction: CompactionReport::PreCompact,
    ..CLAUDE_CODE
};

/// Cursor, as documented (<https://cursor.com/docs/agent/hooks>). Its input names a conversation instead of a session,
/// and the folders of its window instead of one folder. An answer to a prompt does not reach the model, so recalled
/// memories are delivered after the next tool.
const CURSOR: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "sessionStart"),
        (HookEvent::UserPrompt, "beforeSubmitPrompt"),
        (HookEvent::PostToolUse, "postToolUse"),
        (HookEvent::PreCompact, "preCompact"),
        (HookEvent::Stop, "stop"),
        (HookEvent::SessionEnd, "sessionEnd"),
    ],
    answerable: &[HookEvent::SessionStart, HookEvent::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md"],
    answer_placement: AnswerPlacement::Field("additional_context"),
    compaction: CompactionReport::PreCompact,
    ..CLAUDE_CODE
};

/// opencode, through the plugin that `lukasa install` writes; tested with version 1.18.33. The plugin adds an answer to
/// the user's message or to the result of a tool, which stay in the conversation.
const OPENCODE: HookFormat = HookFormat {
    names: &[
        (HookEvent::SessionStart, "chat.message"),
        (HookEvent::UserPrompt, "chat.message"),
        (HookEvent::PostToolUse, "tool.execute.after"),
        (HookEvent::PreCompact, "experimental.session.compacting"),
        (HookEvent::Stop, "session.idle"),
        (HookEvent::SessionEnd, "session.deleted"),
    ],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md", "CLAUDE.md"],
    answer_placement: AnswerPlacement::Field("additionalContext"),
    ..CLAUDE_CODE
};

impl HookHost {
    /// Returns all agents in the form of the HTTP API.
    pub(crate) fn all() -> Vec<AgentHost> {
        let agent_host = |host: &Self| {
            let value = host.to_possible_value()?;
            let title = value.get_help().map(ToString::to_string);
            let HookFormat { text_bytes_max, context_files, .. } = host.format();
            Some(AgentHost {
                name: value.get_name().to_owned(),
                title: title.unwrap_or_else(|| value.get_name().to_owned()),
                context_bytes_max: *text_bytes_max as u64,
                context_files_loaded: context_files.iter().map(ToString::to_string).collect(),
            })
        };
        Self::value_variants().iter().filter_map(agent_host).collect()
    }

    /// Returns the format of the agent's hooks.
    pub(crate) const fn format(self) -> &'static HookFormat {
        match self {
            Self::ClaudeCode => &CLAUDE_CODE,
            Self::Codex => &CODEX,
            Self::Gemini => &GEMINI,
            Self::Qwen => &QWEN,
            Self::Copilot => &COPILOT,
            Self::Cursor => &CURSOR,
            Self::Opencode => &OPENCODE,
        }
    }
}

impl HookFormat {
    /// Returns the agent's name of an event; `None` if it does not report the event.
    pub(crate) fn name(&self, event: HookEvent) -> Option<&'static str> {
        self.names.iter().find(|(listed, _)| *listed == event).map(|(_, name)| *name)
    }
}

/// Returns the name of a value on the command line.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden from the command line");
    value.get_name().to_owned()
}
