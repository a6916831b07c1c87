//! The agents whose hooks are understood, and what their documentation says of them.
//!
//! What is not documented was seen of the version that is named.

use clap::ValueEnum;
use protocol::conversation::AgentHost;

/// An agent whose hooks are understood.
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

/// Something that happens in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookEvent {
    /// A session begins, goes on or starts anew
    SessionStart,
    /// A person asked for something
    UserPrompt,
    /// A tool did something
    PostToolUse,
    /// The conversation is about to be shortened
    PreCompact,
    /// A turn ended
    Stop,
    /// A session ends
    SessionEnd,
}

/// What an agent's documentation says about its hooks.
#[derive(Debug)]
pub(crate) struct HookFormat {
    /// What it calls our events; what is not here it does not tell.
    pub(crate) names: &'static [(HookEvent, &'static str)],
    /// Which of them may be answered with a text for the model.
    pub(crate) answerable: &'static [HookEvent],
    /// How long such a text may be, in bytes, before the agent cuts it or puts it elsewhere.
    pub(crate) text_bytes_max: usize,
    /// Which context files it shows its model itself.
    pub(crate) context_files: &'static [&'static str],
    /// How many of its units a second has, in which it counts time limits.
    pub(crate) units_per_second: u64,
    /// Where it reads the text of an answer.
    pub(crate) answer_placement: AnswerPlacement,
    /// Whether hooks have names.
    pub(crate) has_names: bool,
    /// What the model is shown when a session is resumed.
    pub(crate) resume_content: ResumeContent,
}

/// Where an agent reads the text of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerPlacement {
    /// Beside the name of the event, in `hookSpecificOutput`.
    HookSpecificOutput,
    /// In this field. Such an agent may name no event in what it tells.
    Field(&'static str),
}

/// What a model is shown when its session is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResumeContent {
    /// What it was given at the beginning, and what changed since: the agent did not keep it.
    All,
    /// What changed since: the agent kept the rest.
    Changes,
    /// Nothing: the agent passes no answer on. Changes are told beside the next prompt.
    Nothing,
}

/// Claude Code, as documented for its version 2.1. It cuts what a hook answers at 10,000 characters. After it shortened
/// a conversation it tells `SessionStart` again.
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
};

/// Codex CLI, as documented for its version 0.169. It tells of no end of a session. A text of more than 2,500 tokens,
/// which it counts as four bytes each, is put into a file; the model sees its beginning and end.
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

/// Gemini CLI, as its version 0.61 documents them. It has names of its own, and counts in milliseconds. It waits neither
/// for `PreCompress` nor for `SessionEnd`, and tells nothing after it shortened a conversation.
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
    ..CLAUDE_CODE
};

/// Qwen Code, as its versions 0.15 and 0.24 document them: those of Claude Code, with names, and time limits that both
/// take for milliseconds: the newer one counts in seconds below 1,000. A test runs the agent itself.
const QWEN: HookFormat =
    HookFormat { names: CLAUDE_CODE.names, context_files: &["QWEN.md", "AGENTS.md"], ..GEMINI };

/// Copilot CLI, as its version 1.0.102 runs them. It names no event in what it tells, and reads a flat answer. When a
/// session is resumed, the model keeps the block that the session began with and is not shown the answer to
/// `sessionStart`. Of several answers to `userPromptSubmitted` only the last one reaches the model.
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
    ..CLAUDE_CODE
};

/// Cursor, as its documentation has them (<https://cursor.com/docs/agent/hooks>). It names a conversation, and the
/// folders of its window in the place of one. An answer beside a prompt does not reach the model: what fits is handed
/// over behind the next tool.
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
    ..CLAUDE_CODE
};

/// The plugin for opencode, as opencode 1.18.33 runs it: a file that `lukasa install` writes. It puts an answer into the
/// person's message or behind a tool's result, which stay in the conversation.
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
    /// Returns all of them as the daemon tells of them.
    pub(crate) fn all() -> Vec<AgentHost> {
        let told = |host: &Self| {
            let said = host.to_possible_value()?;
            let title = said.get_help().map(ToString::to_string);
            let HookFormat { text_bytes_max, context_files, .. } = host.format();
            Some(AgentHost {
                name: said.get_name().to_owned(),
                title: title.unwrap_or_else(|| said.get_name().to_owned()),
                context_bytes_max: *text_bytes_max as u64,
                context_files_loaded: context_files.iter().map(ToString::to_string).collect(),
            })
        };
        Self::value_variants().iter().filter_map(told).collect()
    }

    /// Returns what its documentation says.
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
    /// Returns the agent's name of an event; `None` when it tells of no such thing.
    pub(crate) fn name(&self, event: HookEvent) -> Option<&'static str> {
        self.names.iter().find(|(one, _)| *one == event).map(|(_, name)| *name)
    }
}

/// Returns the word for a value at the command line.
pub(crate) fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden from the command line");
    value.get_name().to_owned()
}
