//! What the plugin for opencode tells, as opencode 1.18.33 runs it.
//!
//! The plugin is a file that `quipu install` writes. It puts an answer into the person's message or behind a tool's result, which stay in
//! the conversation.

use crate::hooks::{Answered, Event, Format, Resumed};

/// What was seen of it.
pub(super) const FORMAT: Format = Format {
    names: &[
        (Event::SessionStart, "chat.message"),
        (Event::UserPrompt, "chat.message"),
        (Event::PostToolUse, "tool.execute.after"),
        (Event::PreCompact, "experimental.session.compacting"),
        (Event::Stop, "session.idle"),
        (Event::SessionEnd, "session.deleted"),
    ],
    answered: &[Event::SessionStart, Event::UserPrompt, Event::PostToolUse],
    text_bytes_max: 25_000,
    context_files: &["AGENTS.md", "CLAUDE.md"],
    second: 1,
    answers: Answered::In("additionalContext"),
    has_names: false,
    resumed: Resumed::Changes,
};
