//! The hooks of Claude Code, as documented for its version 2.1.
//!
//! It cuts what a hook answers at 10,000 characters; a text that is for the model goes into the answers to
//! `SessionStart`, `UserPromptSubmit` and `PostToolUse`. After it shortened a conversation it tells `SessionStart`
//! again.

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
    text_bytes_max: 10_000,
    context_files: &["CLAUDE.md", "CLAUDE.local.md"],
    second: 1,
    answers: Answered::Named,
    has_names: false,
    resumed: Resumed::Changes,
};
