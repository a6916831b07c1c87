//! The hooks of Codex CLI, as documented for its version 0.169.
//!
//! It tells of no end of a session. A text of more than 2,500 tokens, which it counts as four bytes each, is put
//! into a file; the model sees its beginning and end.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What its documentation says.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "SessionStart"),
        (Event::UserPrompt, "UserPromptSubmit"),
        (Event::PostToolUse, "PostToolUse"),
        (Event::PreCompact, "PreCompact"),
        (Event::Stop, "Stop"),
    ],
    answered: &[Event::SessionStart, Event::UserPrompt, Event::PostToolUse],
    text_bytes_max: 10_000,
    context_files: &["AGENTS.md"],
    second: 1,
    answers: Answered::Named,
    has_names: false,
    resumed: Resumed::Changes,
};
