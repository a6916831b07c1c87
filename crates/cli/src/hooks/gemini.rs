//! The hooks of Gemini CLI, as its version 0.61 documents them.
//!
//! It has names of its own, and counts in milliseconds. It waits neither for `PreCompress` nor for `SessionEnd`, and
//! tells nothing after it shortened a conversation.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What its documentation says.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "SessionStart"),
        (Event::UserPrompt, "BeforeAgent"),
        (Event::PostToolUse, "AfterTool"),
        (Event::PreCompact, "PreCompress"),
        (Event::Stop, "AfterAgent"),
        (Event::SessionEnd, "SessionEnd"),
    ],
    answered: &[Event::SessionStart, Event::UserPrompt, Event::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["GEMINI.md"],
    second: 1_000,
    answers: Answered::Named,
    has_names: true,
    resumed: Resumed::All,
};
