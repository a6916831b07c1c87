//! What agents tell and are answered, as JSON.
//!
//! The four agents name the fields that matter here alike; what differs stands in their [`Format`]. Fields that are
//! not known are passed over, so that a newer agent is understood too.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;

use crate::exit::Failure;
use crate::hooks::{Event, Format};

/// What an agent told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    /// What happened.
    pub(super) event: Event,
    /// In which session, as the agent calls it.
    pub(super) session: String,
    /// The folder that the agent works in.
    pub(super) folder: Option<PathBuf>,
    /// What a person asked for.
    pub(super) prompt: Option<String>,
    /// Whether a session that begins goes on with what its model knew.
    pub(super) resumes: bool,
}

#[derive(Deserialize)]
struct Wire {
    hook_event_name: String,
    session_id: String,
    cwd: Option<PathBuf>,
    prompt: Option<String>,
    source: Option<String>,
}

impl Told {
    /// Reads what was told of an event.
    pub(super) fn read(format: &Format, event: Event, bytes: &[u8]) -> Result<Self, Failure> {
        let wire: Wire = serde_json::from_slice(bytes).map_err(|error| {
            // What is in it is not repeated: it may be a person's prompt.
            let (line, column) = (error.line(), error.column());
            Failure::usage(format!("what was told is not understood at {line}:{column}"))
        })?;
        let Wire { hook_event_name, session_id, cwd, prompt, source } = wire;
        if format.name(event) != Some(hook_event_name.as_str()) {
            return Err(Failure::usage("another event was told than the one that was called for"));
        }
        let folder = cwd.filter(|folder| folder.is_absolute());
        let resumes = source.as_deref() == Some("resume");
        Ok(Self { event, session: session_id, folder, prompt, resumes })
    }
}

/// Writes a text for the model; `None` where the agent has no place for it.
pub(super) fn answer(format: &Format, event: Event, text: &str) -> Option<String> {
    let name = format.name(event).filter(|_| format.answered.contains(&event))?;
    let answer = json!({ "hookEventName": name, "additionalContext": text });
    Some(json!({ "hookSpecificOutput": answer }).to_string())
}
