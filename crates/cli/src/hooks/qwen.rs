//! The hooks of Qwen Code, as its versions 0.15 and 0.24 document them.
//!
//! They are those of Claude Code, with names, and time limits that both take for milliseconds: the newer one counts in
//! seconds below 1,000. A test runs the agent itself.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What its documentation says.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "SessionStart"),
        (Event::UserPrompt, "UserPromptSubmit"),
        (Event::PostToolUse, "PostToolUse"),
        (Event::PreCompact, "PreCompact"),
        (Event::Stop, "Stop"),
        (Event::SessionEnd, "SessionEnd"),
    ],
    answered: &[Event::SessionStart, Event::UserPrompt, Event::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["QWEN.md", "AGENTS.md"],
    second: 1_000,
    answers: Answered::Named,
    has_names: true,
    resumed: Resumed::All,
};
