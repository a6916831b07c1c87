//! The memory tool over HTTP, and text search through memories.
//!
//! A refused command is a successful answer with `ok: false`, because a model reads it. A search returns lines
//! with a literal text; ranked recall is in `context.rs`.

use axum::extract::{Query, Request};
use axum::{Extension, Json};
use engine::CallContext;
use memory::command::Reply;
use protocol::error::ErrorCode;
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
    Routes::new().add(routes!(tool: TOOL)).add(routes!(search: MEMORY))
}

/// Call the memory tool, as a model does.
///
/// The body holds the arguments of one of its six commands. A refused command is a 200 answer with `ok: false` and
/// a text for the model.
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
        (status = 200, description = "The text for the model", body = ToolReply),
        ErrorResponse,
    ),
)]
async fn tool(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Json<ToolReply>, ErrorResponse> {
    let headers = request.headers().clone();
    let arguments = Value::Object(body::fields(request).await?);
    let Query(WorkspaceQuery { workspace }) = query?;
    let memories = daemon.agent_memories(workspace.as_deref(), &headers).await?;
    let reply = match memory::tool::decode(&arguments, memories.layout()) {
        Ok(command) => memories.apply(command, &CallContext::default()).await?,
        Err(refusal) => Reply::Refused(refusal),
    };
    Ok(Json(to_wire::tool_reply(memory::tool::render(&reply))))
}

/// The query of a text search.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct SearchParams {
    /// The text to find, ignoring case.
    q: String,
    /// Only in this memory, folder or scope, such as `/memories/project`.
    path: Option<String>,
    /// The most lines to return.
    max: Option<usize>,
}

/// Search the text of memories.
#[utoipa::path(
    get,
    path = "/v1/search",
    tag = "memories",
    params(WorkspaceQuery, SearchParams),
    responses(
        (status = 200, description = "The matching lines", body = SearchResponse),
        ErrorResponse,
    ),
)]
async fn search(
    PersonRequest { memories, query: params }: PersonRequest<SearchParams>,
) -> Result<Json<SearchResponse>, ErrorResponse> {
    if params.q.trim().is_empty() {
        return Err(ErrorCode::InvalidQuery.into());
    }
    let under = params.path.as_deref().map(|path| memory_path(&memories, path)).transpose()?;
    let max = params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let hits = engine::search(&memories, &params.q, under.as_ref(), max).await?;
    let matches = hits.hits.into_iter().map(|hit| Match {
        path: hit.path.to_string(),
        line: to_wire::count(hit.line),
        text: hit.text,
    });
    Ok(Json(SearchResponse { matches: matches.collect(), more: hits.is_truncated }))
}
