//! Parsing of hook input and rendering of answers, both JSON.
//!
//! The agents use the same names for the fields that are read here, in `snake_case` or `camelCase`; other differences are
//! in their [`HookFormat`]. Unknown fields are ignored, so that newer versions of an agent work too.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;

use crate::exit::Failure;
use crate::hooks::host::{AnswerPlacement, HookEvent, HookFormat};

/// The input of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HookInput {
    /// The event that the agent reports.
    pub(super) event: HookEvent,
    /// The agent's id of the session.
    pub(super) session: String,
    /// The absolute path of the folder that the agent works in.
    pub(super) folder: Option<PathBuf>,
    /// Whether the agent works in no folder or in several, so that none of them is its project.
    pub(super) has_several_folders: bool,
    /// The prompt of the user.
    pub(super) prompt: Option<String>,
    /// Whether a starting session resumes an earlier conversation.
    pub(super) resumes: bool,
    /// The answer of the model at the end of its turn.
    pub(super) answer: Option<String>,
    /// The transcript file of the conversation.
    pub(super) transcript: Option<PathBuf>,
    /// Whether the model wrote memories with a tool.
    pub(super) wrote_memory: bool,
    /// The arguments of a call of the tool `memory`.
    pub(super) memory_command: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct RawHookInput {
    hook_event_name: Option<String>,
    #[serde(alias = "sessionId")]
    session_id: Option<String>,
    conversation_id: Option<String>,
    cwd: Option<PathBuf>,
    workspace_roots: Option<Vec<PathBuf>>,
    prompt: Option<String>,
    source: Option<String>,
    #[serde(alias = "prompt_response")]
    last_assistant_message: Option<String>,
    #[serde(alias = "transcriptPath")]
    transcript_path: Option<PathBuf>,
    #[serde(alias = "toolName")]
    tool_name: Option<String>,
    #[serde(default, alias = "toolArgs")]
    tool_input: serde_json::Value,
}

impl HookInput {
    /// Parses the input for an event.
    pub(super) fn read(
        format: &HookFormat,
        event: HookEvent,
        bytes: &[u8],
    ) -> Result<Self, Failure> {
        let wire: RawHookInput =
            serde_json::from_slice(&memory::json::mend(bytes)).map_err(|error| {
                // The input is not repeated in the error: it may hold a user's prompt.
                let (line, column) = (error.line(), error.column());
                Failure::usage(format!("invalid hook input at line {line}, column {column}"))
            })?;
        let RawHookInput { hook_event_name, session_id, conversation_id, .. } = wire;
        let RawHookInput { cwd, workspace_roots, prompt, source, tool_name, tool_input, .. } = wire;
        let Some(session) = session_id.or(conversation_id) else {
            return Err(Failure::usage("the hook input names no session"));
        };
        let unnamed = matches!(format.answer_placement, AnswerPlacement::Field(_));
        let named = hook_event_name.as_deref().or(format.name(event).filter(|_| unnamed));
        if format.name(event) != named || named.is_none() {
            return Err(Failure::usage(match format.name(event) {
                Some(name) => {
                    format!("expected event `{name}`, but the hook input names another one")
                }
                None => "the agent does not report this event".to_owned(),
            }));
        }
        let has_several_folders =
            cwd.is_none() && workspace_roots.as_ref().is_some_and(|roots| roots.len() != 1);
        let folder = cwd.or_else(|| workspace_roots?.into_iter().next());
        let folder = folder.filter(|folder| folder.is_absolute());
        let resumes = source.as_deref() == Some("resume");
        let prompt = prompt.map(|prompt| without_hook_context(&prompt).to_owned());
        // Some agents send the arguments as JSON in a string.
        let parsed = tool_input.as_str().and_then(|text| serde_json::from_str(text).ok());
        let tool_input = parsed.unwrap_or(tool_input);
        let tool = tool_name.filter(|name| name.contains("lukasa") && name.contains("memory"));
        let wrote_memory = tool.as_deref().is_some_and(|name| writes_memory(name, &tool_input));
        // `view_memory` and `save_memory` change no memory.
        let changes = tool_input["command"].as_str().is_some_and(|command| command != "view");
        let memory_command = tool.filter(|_| changes).map(|_| tool_input);
        Ok(Self {
            event,
            session,
            folder,
            has_several_folders,
            prompt,
            resumes,
            answer: wire.last_assistant_message,
            transcript: wire.transcript_path,
            wrote_memory,
            memory_command,
        })
    }
}

/// Checks whether a call of a tool of ours wrote memories. Agents put the names of the server and the tool into one name.
fn writes_memory(tool: &str, input: &serde_json::Value) -> bool {
    let writes = ["create", "str_replace", "insert"];
    tool.contains("save_memory")
        || input["command"].as_str().is_some_and(|command| writes.contains(&command))
}

/// Returns a prompt without the leading blocks of hooks. Gemini CLI puts the blocks of `SessionStart` before the first
/// prompt of a run without a terminal.
fn without_hook_context(prompt: &str) -> &str {
    let mut text = prompt;
    while let Some(block) = text.trim_start().strip_prefix("<hook_context>")
        && let Some((_, after)) = block.split_once("</hook_context>")
    {
        text = after.trim_start();
    }
    text
}

/// Renders the answer with a text for the model; `None` if the agent reads no text for this event.
pub(super) fn answer(format: &HookFormat, event: HookEvent, text: &str) -> Option<String> {
    let name = format.name(event).filter(|_| format.answerable.contains(&event))?;
    let answer = match format.answer_placement {
        AnswerPlacement::Field(field) => json!({ field: text }),
        AnswerPlacement::HookSpecificOutput => {
            let answer = json!({ "hookEventName": name, "additionalContext": text });
            json!({ "hookSpecificOutput": answer })
        }
    };
    Some(answer.to_string())
}
