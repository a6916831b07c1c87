//! What agents tell and are answered, as JSON.
//!
//! The agents name the fields that matter here alike, but for `snake_case` and `camelCase`; what else differs stands in their [`Format`]. Fields that are
//! not known are passed over, so that a newer agent is understood too.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::json;

use crate::exit::Failure;
use crate::hooks::host::{AnswerPlacement, HookEvent, HookFormat};

/// What an agent told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HookInput {
    /// What happened.
    pub(super) event: HookEvent,
    /// In which session, as the agent calls it.
    pub(super) session: String,
    /// The folder that the agent works in.
    pub(super) folder: Option<PathBuf>,
    /// Whether the agent says that it works in no folder or in several, so that none is its project.
    pub(super) has_several_folders: bool,
    /// What a person asked for.
    pub(super) prompt: Option<String>,
    /// Whether a session that begins goes on with what its model knew.
    pub(super) resumes: bool,
    /// What the model answered at the end of its turn.
    pub(super) answer: Option<String>,
    /// The file in which the agent keeps the conversation.
    pub(super) transcript: Option<PathBuf>,
    /// Whether the model wrote memories with a tool.
    pub(super) wrote_memory: bool,
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
    tool_name: Option<String>,
    #[serde(default)]
    tool_input: serde_json::Value,
}

impl HookInput {
    /// Reads what was told of an event.
    pub(super) fn read(
        format: &HookFormat,
        event: HookEvent,
        bytes: &[u8],
    ) -> Result<Self, Failure> {
        let wire: RawHookInput =
            serde_json::from_slice(&memory::json::mend(bytes)).map_err(|error| {
                // What is in it is not repeated: it may be a person's prompt.
                let (line, column) = (error.line(), error.column());
                Failure::usage(format!("what was told is not understood at {line}:{column}"))
            })?;
        let RawHookInput { hook_event_name, session_id, conversation_id, .. } = wire;
        let RawHookInput { cwd, workspace_roots, prompt, source, tool_name, tool_input, .. } = wire;
        let Some(session) = session_id.or(conversation_id) else {
            return Err(Failure::usage("no session is named in what was told"));
        };
        let unnamed = matches!(format.answer_placement, AnswerPlacement::Field(_));
        let named = hook_event_name.as_deref().or(format.name(event).filter(|_| unnamed));
        if format.name(event) != named || named.is_none() {
            return Err(Failure::usage("another event was told than the one that was called for"));
        }
        let has_no_one_folder =
            cwd.is_none() && workspace_roots.as_ref().is_some_and(|roots| roots.len() != 1);
        let folder = cwd.or_else(|| workspace_roots?.into_iter().next());
        let folder = folder.filter(|folder| folder.is_absolute());
        let resumes = source.as_deref() == Some("resume");
        let prompt = prompt.map(|prompt| without_hook_context(&prompt).to_owned());
        let wrote_memory = tool_name.is_some_and(|name| writes_memory(&name, &tool_input));
        Ok(Self {
            event,
            session,
            folder,
            has_several_folders: has_no_one_folder,
            prompt,
            resumes,
            answer: wire.last_assistant_message,
            transcript: wire.transcript_path,
            wrote_memory,
        })
    }
}

/// Tells whether a call of a tool wrote memories: agents name a tool of a server after both.
fn writes_memory(tool: &str, input: &serde_json::Value) -> bool {
    let is_ours = tool.contains("lukasa") && tool.contains("memory");
    let writes = ["create", "str_replace", "insert"];
    is_ours
        && (tool.contains("save_memory")
            || input["command"].as_str().is_some_and(|one| writes.contains(&one)))
}

/// Returns what a person said, without what hooks had the agent put in front of it: Gemini CLI tells the first
/// prompt of a run without a terminal behind the blocks of `SessionStart`.
fn without_hook_context(prompt: &str) -> &str {
    let mut said = prompt;
    while let Some(block) = said.trim_start().strip_prefix("<hook_context>")
        && let Some((_, after)) = block.split_once("</hook_context>")
    {
        said = after.trim_start();
    }
    said
}

/// Writes a text for the model; `None` where the agent has no place for it.
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
