//! One call of the memory tool, and search through all memories.

use axum::Json;
use axum::extract::{Query, Request, State};
use engine::CallContext;
use memory::command::Reply;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::memories::{Match, SearchResponse, ToolReply};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, SharedState};
use super::body;
use super::request::{QueryResult, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::{HTTP_PAGE_DEFAULT, HTTP_PAGE_MAX};
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(tool: TOOL)).routes(routes!(search: MEMORY))
}

/// Call the memory tool, as a model does.
///
/// The body holds the arguments of one of its six commands. A refusal is an answer that the model
/// reads, with `ok: false`.
#[utoipa::path(
    post,
    path = "/v1/tool",
    tag = "memories",
    params(
        WorkspaceQuery,
        ("X-Lukasa-Agent-Class" = Option<String>, Header,
            description = "`exec` (when left out), `plan` or `explore`"),
    ),
    request_body(content = Object, description = "The arguments of one command"),
    responses(
        (status = 200, description = "What the model reads", body = ToolReply),
        (status = "4XX", description = "The request is none", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn tool(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Json<ToolReply>, ErrorResponse> {
    let headers = request.headers().clone();
    let arguments = Value::Object(body::fields(request).await?);
    let Query(WorkspaceQuery { workspace }) = asked?;
    let memories = daemon.agent_memories(workspace.as_deref(), &headers).await?;
    let reply = match memory::tool::decode(&arguments, memories.layout()) {
        Ok(command) => memories.apply(command, &CallContext::default()).await?,
        Err(refusal) => Reply::Refused(refusal),
    };
    Ok(Json(to_wire::tool_reply(memory::tool::render(&reply))))
}

/// What to search for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct SearchParams {
    /// The text, in either case.
    q: String,
    /// Only in this memory, folder or scope, such as `/memories/project`.
    path: Option<String>,
    /// At most so many lines.
    max: Option<usize>,
}

/// Search the text of memories.
#[utoipa::path(
    get,
    path = "/v1/search",
    tag = "memories",
    params(WorkspaceQuery, SearchParams),
    responses(
        (status = 200, description = "The lines that hold it", body = SearchResponse),
        (status = "4XX", description = "It cannot be searched for", body = ErrorBody),
        (status = "5XX", description = "It cannot be searched for", body = ErrorBody),
    ),
)]
async fn search(
    PersonRequest { memories, query: asked }: PersonRequest<SearchParams>,
) -> Result<Json<SearchResponse>, ErrorResponse> {
    if asked.q.trim().is_empty() {
        return Err(ErrorCode::InvalidQuery.into());
    }
    let under = asked.path.as_deref().map(|path| memory_path(&memories, path)).transpose()?;
    let max = asked.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let hits = engine::search(&memories, &asked.q, under.as_ref(), max).await?;
    let matches = hits.hits.into_iter().map(|hit| Match {
        path: hit.path.to_string(),
        line: to_wire::count(hit.line),
        text: hit.text,
    });
    Ok(Json(SearchResponse { matches: matches.collect(), more: hits.is_truncated }))
}
