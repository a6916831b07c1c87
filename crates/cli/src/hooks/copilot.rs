//! The hooks of Copilot CLI, as its version 1.0.102 runs them.
//!
//! It names no event in what it tells, and reads a flat answer. When a session is resumed, the model keeps the block
//! that the session began with and is not shown the answer to `sessionStart`. Of several answers to
//! `userPromptSubmitted` only the last one reaches the model.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What was seen of it.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "sessionStart"),
        (Event::UserPrompt, "userPromptSubmitted"),
        (Event::PostToolUse, "postToolUse"),
        (Event::PreCompact, "preCompact"),
        (Event::Stop, "agentStop"),
        (Event::SessionEnd, "sessionEnd"),
    ],
    answered: &[Event::SessionStart, Event::UserPrompt, Event::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md", "CLAUDE.md", "GEMINI.md"],
    second: 1,
    answers: Answered::In("additionalContext"),
    has_names: false,
    resumed: Resumed::Nothing,
};
