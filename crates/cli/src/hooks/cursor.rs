//! The hooks of Cursor, as its documentation has them (<https://cursor.com/docs/agent/hooks>).
//!
//! It names a conversation, and the folders of its window in the place of one. An answer beside a prompt does not
//! reach the model: what fits is handed over behind the next tool.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What its documentation says.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "sessionStart"),
        (Event::UserPrompt, "beforeSubmitPrompt"),
        (Event::PostToolUse, "postToolUse"),
        (Event::PreCompact, "preCompact"),
        (Event::Stop, "stop"),
        (Event::SessionEnd, "sessionEnd"),
    ],
    answered: &[Event::SessionStart, Event::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md"],
    second: 1,
    answers: Answered::In("additional_context"),
    has_names: false,
    resumed: Resumed::Changes,
};
