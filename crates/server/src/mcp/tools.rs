//! The tool `memory`: how clients see it, and how a call becomes a command and its result.
//!
//! A refusal and a failure of the machine are both results that say they are errors, so that the
//! model reads them; only what is no call of this tool is an error of the protocol.

use std::sync::Arc;

use engine::{Call, Memories, StoreError};
use memory::code::Code;
use memory::command::{Command, Reply};
use memory::path::Layout;
use memory::tool::{self, Rendered};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, ListToolsResult, Tool, ToolAnnotations,
};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use super::caller::Held;
use super::fault;

/// Returns the one tool, whatever the caller may do: what is refused says so when it is called, and
/// a list that depends on the caller would be a second place that decides.
pub(super) fn list(layout: Layout) -> ListToolsResult {
    ListToolsResult::with_all_items(vec![definition(layout)])
}

fn definition(layout: Layout) -> Tool {
    let hints = ToolAnnotations::with_title("Memory")
        .read_only(false)
        .destructive(true)
        .idempotent(false)
        .open_world(false);
    Tool::new(tool::NAME, tool::description(layout), object(tool::schema()))
        .with_title("Memory")
        .with_raw_output_schema(object(output_schema()))
        .with_annotations(hints)
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "ok": { "type": "boolean" },
            "code": { "type": "string" },
            "change": { "type": "integer" },
            "revision": { "type": "string" },
            "warnings": { "type": "array", "items": { "type": "object" } },
        },
        "required": ["ok"],
    })
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(object) => Arc::new(object),
        // A schema is an object; the snapshot of the list would show an empty one.
        _ => Arc::default(),
    }
}

/// Reads a call of a tool. What the model can mend is a reply.
pub(super) fn decode(
    name: &str,
    arguments: Option<JsonObject>,
    layout: Layout,
) -> Result<Result<Command, Reply>, ErrorData> {
    if name != tool::NAME {
        let what = format!("unknown tool `{name}`; the only one is `{}`", tool::NAME);
        return Err(ErrorData::invalid_params(what, None));
    }
    let arguments = Value::Object(arguments.unwrap_or_default());
    Ok(tool::decode(&arguments, layout).map_err(Reply::Refused))
}

/// Carries out a command among the `calls` that the server waits for before it ends. Runs on by
/// itself when nobody waits for the result any more: a write that has begun is finished. Until then
/// something may be held.
pub(super) async fn carry_out(
    calls: &TaskTracker,
    (memories, held): (Memories, Option<Held>),
    command: Command,
    call: Call,
) -> CallToolResult {
    let running = calls.spawn(async move {
        let done = memories.apply(command, &call).await;
        drop(held);
        done
    });
    match running.await {
        Ok(Ok(reply)) => result(&reply),
        Ok(Err(StoreError::Refused(refusal))) => result(&Reply::Refused(refusal)),
        Ok(Err(error)) => failed(fault::log("memory tool", &error)),
        Err(crash) => {
            tracing::error!(error = crate::chain(&crash), "a tool call crashed");
            failed(Code::StorageFailed)
        }
    }
}

/// Returns the result that says what came of a command.
pub(super) fn result(reply: &Reply) -> CallToolResult {
    let Rendered { text, is_error, structured } = tool::render(reply);
    encode(text, is_error, structured)
}

fn failed(code: Code) -> CallToolResult {
    let structured = json!({ "ok": false, "code": code.as_str() });
    encode(code.meaning().to_owned(), true, structured)
}

fn encode(text: String, is_error: bool, structured: Value) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result =
        if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = Some(structured);
    result
}
