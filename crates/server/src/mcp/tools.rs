//! The MCP tools `memory`, `view_memory`, `recall` and `save_memory`: their definitions, the decoding of calls, and the
//! encoding of results.
//!
//! Refusals and faults are tool results marked as errors, because a model reads results. Only a call of an unknown tool
//! is a protocol error. Descriptions, schemas and result texts of the tools are in `memory::tool`.

use std::sync::Arc;

use engine::{
    BackendError, CallContext, ContextFileError, ContextFiles, ContextScope, Engine, Memories,
    RecallBlock, RetrievedMemory, StoreError,
};
use memory::command::{MemoryCommand, Reply, Warning};
use memory::error_code::MemoryErrorCode;
use memory::feature::{Feature, Features};
use memory::path::Layout;
use memory::tool::recall;
use memory::tool::save::{self, SaveRequest, SaveScope};
use memory::tool::view;
use memory::tool::{self, ToolOutput};
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ListToolsResult, MetaObject, Tool, ToolAnnotations,
};
use rmcp::service::Peer;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::caller::KeepAlive;
use super::elicitation::{self, ScopeAnswer};
use crate::error::log_failure;

/// The key in a result's `_meta` of the facts for programs.
const FACTS: &str = "lukasa";

/// A decoded tool call.
pub(super) enum ToolCall {
    /// A command on memories.
    Command(MemoryCommand),
    /// A question for a recall.
    Recall(String),
    /// A fact for a context file.
    Save(SaveRequest),
    /// Invalid arguments, with the reply that tells the model how to correct them.
    Refused(Reply),
}

/// The names of the tools, each with the feature that it needs.
const TOOLS: [(&str, Feature); 4] = [
    (tool::NAME, Feature::Tool),
    (recall::NAME, Feature::Recall),
    (view::NAME, Feature::Tool),
    (save::NAME, Feature::SaveMemory),
];

/// Checks whether a tool is available. A flat layout has no context files, and so no `save_memory`.
fn is_available(name: &str, layout: Layout, features: Features) -> bool {
    let is_enabled = TOOLS.iter().any(|(tool, feature)| *tool == name && features.has(*feature));
    is_enabled && (name != save::NAME || layout == Layout::Scoped)
}

/// Returns the tools that are enabled, regardless of the caller's access. A call without access is refused when it is
/// made; a list that depends on the access would decide about it in a second place.
pub(super) fn list(layout: Layout, features: Features) -> ListToolsResult {
    let tools = TOOLS.iter().filter(|(name, _)| is_available(name, layout, features));
    let definition = |(name, _): &(&str, Feature)| match *name {
        recall::NAME => reader(recall::NAME, recall::DESCRIPTION, recall::schema()),
        view::NAME => reader(view::NAME, view::DESCRIPTION, view::schema()),
        save::NAME => save_definition(features.has(Feature::Tool)),
        _ => definition(layout),
    };
    ListToolsResult::with_all_items(tools.map(definition).collect())
}

/// Returns the definition of a tool with the hint that it is read-only, so that hosts need not ask the user for
/// confirmation.
fn reader(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let hints = ToolAnnotations::new().read_only(true).open_world(false);
    Tool::new(name, description, object(schema)).with_annotations(hints)
}

fn save_definition(has_memory_tool: bool) -> Tool {
    let hints = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(false)
        .open_world(false);
    let description =
        if has_memory_tool { save::DESCRIPTION } else { save::DESCRIPTION_WITHOUT_TOOL };
    Tool::new(save::NAME, description, object(save::schema())).with_annotations(hints)
}

fn definition(layout: Layout) -> Tool {
    let hints = ToolAnnotations::with_title("Memory")
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(false);
    Tool::new(tool::NAME, tool::description(layout), object(tool::schema()))
        .with_title("Memory")
        .with_annotations(hints)
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        // Cannot happen: a schema is an object. A snapshot test would show the empty one.
        _ => Arc::default(),
    }
}

/// Decodes a tool call. An unknown or disabled tool is a protocol error.
pub(super) fn decode(
    name: &str,
    arguments: Option<JsonObject>,
    (layout, features): (Layout, Features),
) -> Result<ToolCall, ErrorData> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    let decoded = match name {
        _ if !is_available(name, layout, features) => {
            let tools = list(layout, features).tools;
            let names: Vec<_> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
            let message = format!("unknown tool `{name}`; there are {}", names.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        }
        tool::NAME => tool::decode(&arguments, layout).map(ToolCall::Command),
        recall::NAME => recall::decode(&arguments).map(ToolCall::Recall),
        view::NAME => view::decode(&arguments, layout).map(ToolCall::Command),
        _ => save::decode(&arguments).map(ToolCall::Save),
    };
    Ok(decoded.unwrap_or_else(|refusal| ToolCall::Refused(Reply::Refused(refusal))))
}

/// Runs a recall and returns its text as a result.
pub(super) async fn recall(engine: &Engine, memories: &Memories, prompt: &str) -> CallToolResult {
    match engine.recall(memories, prompt).await {
        Ok(recalled) => {
            let (text, shown) = match recalled {
                Some(RecallBlock { block, memories }) => (block, memories),
                None => (recall::NOTHING.to_owned(), Vec::new()),
            };
            let memory = |memory: &RetrievedMemory| {
                let path = memory.path.to_string();
                json!({ "path": path, "score": memory.score, "weak": memory.is_weak })
            };
            let memories: Vec<_> = shown.iter().map(memory).collect();
            encode(text, false, json!({ "ok": true, "memories": memories }))
        }
        Err(StoreError::Refused(refusal)) => result(&Reply::Refused(refusal)),
        Err(error) => failure("recall", &error),
    }
}

/// Saves a fact, or returns the question which file is meant. Runs as a task of `calls`, like a command.
pub(super) async fn save(
    calls: &TaskTracker,
    (files, keep_alive): (SaveFiles, Option<KeepAlive>),
    save: SaveRequest,
) -> CallToolResult {
    let running = calls.spawn(async move {
        let result = files.save(&save).await;
        drop(keep_alive);
        result
    });
    running.await.unwrap_or_else(|crash| {
        tracing::error!(error = crate::error_chain(&crash), "a tool call crashed");
        failed(MemoryErrorCode::StorageFailed)
    })
}

/// The context files to which a client may add a fact.
pub(super) struct SaveFiles {
    pub(super) files: ContextFiles,
    /// Whether there is a project.
    pub(super) in_project: bool,
    /// The reason why there is none, if there is another one than that none was named.
    pub(super) no_project: Option<String>,
}

impl SaveFiles {
    async fn save(&self, save: &SaveRequest) -> CallToolResult {
        let scope = match save.scope {
            Some(SaveScope::Global) => ContextScope::Global,
            Some(SaveScope::Project) if self.in_project => ContextScope::Project,
            Some(SaveScope::Project) => {
                let text = match &self.no_project {
                    Some(reason) => format!("{reason}. Until then only 'global' can be saved to."),
                    None => "No project is associated with this session: only 'global' can be \
                             saved to."
                        .to_owned(),
                };
                return refused(MemoryErrorCode::ScopeUnavailable, text);
            }
            None => return self.scope_question(),
        };
        let saved = match &save.edited {
            Some(edited) => self.files.save_edited(scope, edited).await,
            None => self.files.save(scope, &save.fact).await,
        };
        match saved {
            Ok(saved) => {
                let file = format!("the {} instruction file", scope.as_str());
                let added = if saved.changed {
                    format!("Added to {file}.")
                } else {
                    format!("It stands in {file} already; nothing was added.")
                };
                let lines = saved.warnings.iter().map(ToString::to_string);
                let text = std::iter::once(added).chain(lines).collect::<Vec<_>>().join("\n");
                let warning =
                    |warning: &Warning| json!({ "rule": warning.rule, "line": warning.line });
                let warnings: Vec<_> = saved.warnings.iter().map(warning).collect();
                let facts = json!({ "ok": true, "scope": scope.as_str(), "warnings": warnings });
                encode(text, false, facts)
            }
            Err(error) => save_failure_result(&error),
        }
    }

    /// Returns the scopes to choose from.
    fn scopes(&self) -> &'static [ContextScope] {
        if self.in_project {
            &[ContextScope::Project, ContextScope::Global]
        } else {
            &[ContextScope::Global]
        }
    }

    /// Has the client ask its user which file is meant, if it can.
    pub(super) async fn elicit_scope(
        &self,
        peer: &Peer<RoleServer>,
        fact: &str,
        is_influenced: bool,
    ) -> ScopeAnswer {
        let mut message = format!("Which instruction file is this added to?\n\n{fact}\n");
        if is_influenced {
            message.insert_str(0, INFLUENCED_NOTICE);
        }
        for scope in self.scopes() {
            // A scope without a file gives its error when it is chosen.
            let Ok(path) = self.files.target(*scope) else { return ScopeAnswer::Unavailable };
            let line = format!("\n{}: {}", scope.as_str(), path.display());
            message.push_str(&line);
        }
        elicitation::ask_scope(peer, &message, self.scopes()).await
    }

    /// Returns the question which file is meant, with the path of each, as a result for the model.
    fn scope_question(&self) -> CallToolResult {
        let mut text =
            "Nothing is saved yet. Ask the person which file is meant, then call again:".to_owned();
        for scope in self.scopes() {
            match self.files.target(*scope) {
                Ok(path) => {
                    let line = format!(
                        "\n- `scope: \"{}\"` adds it to {}",
                        scope.as_str(),
                        path.display()
                    );
                    text.push_str(&line);
                }
                Err(error) => return save_failure_result(&error),
            }
        }
        refused(MemoryErrorCode::InvalidArguments, text)
    }
}

/// The text for a model after a person edited the whole file and removed lines from it.
const LINES_MISSING: &str = "Nothing was saved: the edited text leaves out lines that the instruction file has, and \
     `save_memory` only adds. Call again with the fact alone, or let the person edit the file.";

/// The notice in the elicitation of an agent that has read text that no person here reviewed.
const INFLUENCED_NOTICE: &str = "The agent has read memories that came with a repository and that no person reviewed, so this may \
     be the wish of someone else.\n\n";

/// Returns the result for a model that has read text that no person here reviewed, if the client cannot ask its user.
pub(super) fn influenced_result() -> CallToolResult {
    let text = "Nothing was saved: this session has read memories that came with a repository and that no person reviewed, \
                and instruction files are added to only with the person's agreement then. Show the person the fact; they \
                can save it with `lukasa save`.";
    refused(MemoryErrorCode::ReadOnly, text.to_owned())
}

/// Returns the result for a model whose user declined.
pub(super) fn declined_result() -> CallToolResult {
    refused(
        MemoryErrorCode::InvalidArguments,
        "The person was asked and does not want this saved.".to_owned(),
    )
}

/// Returns the result for a fact that was not saved. It names no path that the model does not know.
fn save_failure_result(error: &ContextFileError) -> CallToolResult {
    let code = error.code();
    match error {
        ContextFileError::Screened(refusal) => result(&Reply::Refused(refusal.clone())),
        ContextFileError::ReadOnly(_) => refused(code, error.to_string()),
        ContextFileError::Backend { source: BackendError::NotWritable(error), .. } => {
            let text = "Nothing was saved: the instruction file cannot be written on this machine";
            refused(code, format!("{text}: {}.", error.kind()))
        }
        ContextFileError::Conflict { .. } => refused(code, LINES_MISSING.to_owned()),
        _ => {
            tracing::warn!(%code, error = crate::error_chain(error), "failed to save a fact");
            failed(code)
        }
    }
}

fn refused(code: MemoryErrorCode, text: String) -> CallToolResult {
    encode(text, true, json!({ "ok": false, "code": code.as_ref() }))
}

/// Executes a command as a task of `calls`, for which shutdown waits. The task runs to its end even if this future is
/// dropped, so that a write that has begun is finished. `keep_alive` is dropped after it.
pub(super) async fn execute(
    calls: &TaskTracker,
    (memories, keep_alive): (Memories, Option<KeepAlive>),
    command: MemoryCommand,
    call: CallContext,
) -> CallToolResult {
    let running = calls.spawn(async move {
        let reply = memories.apply(command, &call).await;
        drop(keep_alive);
        reply
    });
    match running.await {
        Ok(Ok(reply)) => result(&reply),
        Ok(Err(StoreError::Refused(refusal))) => result(&Reply::Refused(refusal)),
        Ok(Err(error)) => failure("memory tool", &error),
        Err(crash) => {
            tracing::error!(error = crate::error_chain(&crash), "a tool call crashed");
            failed(MemoryErrorCode::StorageFailed)
        }
    }
}

/// Encodes the reply of a command.
pub(super) fn result(reply: &Reply) -> CallToolResult {
    let ToolOutput { text, is_error, mut facts } = tool::render(reply);
    // Only HTTP clients use the revision, and Cline shows its model the whole result: 64 hex digits at each call.
    if let Some(facts) = facts.as_object_mut() {
        facts.remove("revision");
    }
    encode(text, is_error, facts)
}

fn failure(what: &str, error: &StoreError) -> CallToolResult {
    log_failure(what, error, error.code());
    failed(error.code())
}

fn failed(code: MemoryErrorCode) -> CallToolResult {
    encode(code.meaning().to_owned(), true, json!({ "ok": false, "code": code.as_ref() }))
}

/// Returns a result with a text for the model and facts for programs.
///
/// The facts are in `_meta`, not in `structuredContent`: several hosts (Claude Code, Codex CLI, pydantic-ai) show their
/// model only the latter if a result has it.
fn encode(text: String, is_error: bool, facts: Value) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result =
        if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.meta = Some(MetaObject(JsonObject::from_iter([(FACTS.to_owned(), facts)])));
    result
}
