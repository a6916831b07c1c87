//! Context on request: what a session of a model would begin with now, and what fits a question.
//!
//! Neither opens a conversation nor counts as a use of a memory.

use axum::Json;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use protocol::conversation::{AgentHosts, ExplainedContext, RecalledBlock};
use protocol::error::{ErrorBody, ErrorCode};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, SharedState};
use super::conversations::{context_to_wire, recalled_to_wire};
use super::request::{QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(recall: RECALL))
        .routes(routes!(context: MEMORY))
        .routes(routes!(hosts: MEMORY))
}

/// A question.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RecallParams {
    /// The question, in any words.
    q: String,
}

/// Find the memories that fit a question.
///
/// The answer has the block that a model would be shown, and for each memory in it the reason why it fits. When
/// nothing fits, the text is empty and there are no memories.
#[utoipa::path(
    get,
    path = "/v1/recall",
    tag = "memories",
    params(WorkspaceQuery, RecallParams),
    responses(
        (status = 200, description = "What fits, the best first", body = RecalledBlock),
        (status = "4XX", description = "The question is empty, or the workspace unknown", body = ErrorBody),
        (status = "5XX", description = "The memories cannot be read", body = ErrorBody),
    ),
)]
async fn recall(
    State(daemon): State<SharedState>,
    PersonRequest { memories, query: question }: PersonRequest<RecallParams>,
) -> Result<Json<RecalledBlock>, ErrorResponse> {
    if question.q.trim().is_empty() {
        return Err(ErrorCode::InvalidQuery.into());
    }
    let recalled = daemon.engine.recall(&memories, &question.q).await?;
    let nothing = RecalledBlock { text: String::new(), memories: Vec::new() };
    Ok(Json(recalled.map_or(nothing, recalled_to_wire)))
}

/// The host that the context is for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct ContextQuery {
    /// The id of the workspace; left out, the first one.
    workspace: Option<String>,
    /// The most bytes of text that the host passes on to its model; left out, as many as there are.
    bytes_max: Option<usize>,
    /// Names of context files that the host shows its model itself, separated by commas.
    context_files_loaded: Option<String>,
}

/// Show what a session of a model would begin with now: context files, index and hot set.
#[utoipa::path(
    get,
    path = "/v1/context",
    tag = "memories",
    params(ContextQuery),
    responses(
        (status = 200, description = "The text, what each of its parts costs, and why it is there",
            body = ExplainedContext),
        (status = "4XX", description = "The workspace is unknown", body = ErrorBody),
        (status = "5XX", description = "The memories cannot be read", body = ErrorBody),
    ),
)]
async fn context(
    State(daemon): State<SharedState>,
    asked: QueryResult<ContextQuery>,
    headers: HeaderMap,
) -> Result<Json<ExplainedContext>, ErrorResponse> {
    let Query(asked) = asked?;
    let memories = daemon.agent_memories(asked.workspace.as_deref(), &headers).await?;
    let workspace = daemon.trusted_workspace(asked.workspace.as_deref())?;
    let client = daemon.client_id(workspace, &headers).await?;
    let files = daemon.context_files(workspace, &headers, client.as_ref());
    let loaded = asked.context_files_loaded.unwrap_or_default();
    let loaded: Vec<&str> =
        loaded.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let files = files.without_host_loaded(&loaded);
    let bytes_max = asked.bytes_max.unwrap_or(usize::MAX);
    let showing = daemon.engine.segment_within(&memories, &files, bytes_max).await?;
    Ok(Json(to_wire::explained(context_to_wire(&showing.segment), &showing)))
}

/// List the agents that show their model what memories there are, and how much of it.
#[utoipa::path(
    get,
    path = "/v1/hosts",
    operation_id = "list_hosts",
    tag = "memories",
    responses(
        (status = 200, description = "The agents", body = AgentHosts),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
    ),
)]
async fn hosts(State(daemon): State<SharedState>) -> Json<AgentHosts> {
    Json(AgentHosts { hosts: daemon.agents.clone() })
}
