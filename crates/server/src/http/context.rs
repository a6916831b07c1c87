//! Routes that compute context without a conversation: recall for a question, the context of a new session, and
//! the known hosts.
//!
//! They change nothing: no conversation is opened, and no use of a memory is counted.

use axum::extract::Query;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use protocol::conversation::{AgentHosts, ExplainedContext, RecalledBlock};
use protocol::error::ErrorCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, SharedState};
use super::conversations::{context_to_wire, recalled_to_wire};
use super::request::{QueryResult, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(recall: RECALL))
        .add(routes!(context: MEMORY))
        .add(routes!(hosts: MEMORY))
}

/// The query of a recall.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RecallParams {
    /// The prompt, in any words.
    q: String,
    /// Only among the memories of this folder or scope, such as `/memories/project`.
    path: Option<String>,
}

/// Find the memories that fit a prompt.
///
/// The answer has the text that a model would be shown, and for each of at most five memories its score and the reason
/// why it fits. It includes weak matches, marked as such, which are never shown beside a prompt unasked. If no memory
/// has any relation to the prompt, the text and the list are empty.
#[utoipa::path(
    get,
    path = "/v1/recall",
    tag = "memories",
    params(WorkspaceQuery, RecallParams),
    responses(
        (status = 200, description = "The memories that fit, best first", body = RecalledBlock),
        ErrorResponse,
    ),
)]
async fn recall(
    Extension(daemon): Extension<SharedState>,
    PersonRequest { memories, query: params }: PersonRequest<RecallParams>,
) -> Result<Json<RecalledBlock>, ErrorResponse> {
    if params.q.trim().is_empty() {
        return Err(ErrorCode::InvalidQuery.into());
    }
    let under = params.path.as_deref().map(|path| memory_path(&memories, path)).transpose()?;
    let recalled = daemon.engine.recall_under(&memories, &params.q, under.as_ref()).await?;
    let empty = RecalledBlock { text: String::new(), memories: Vec::new() };
    Ok(Json(recalled.map_or(empty, recalled_to_wire)))
}

/// The query of a context: the workspace, and what the host adds or limits itself.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct ContextQuery {
    /// The id of the workspace. The default is the first one.
    workspace: Option<String>,
    /// The most bytes of text that the host passes to its model. The default is no limit.
    bytes_max: Option<usize>,
    /// The names of context files that the host itself shows to its model, separated by commas.
    context_files_loaded: Option<String>,
}

/// Show the context that a new session of a model would begin with: facts, context files and index.
#[utoipa::path(
    get,
    path = "/v1/context",
    tag = "memories",
    params(ContextQuery),
    responses(
        (status = 200, description = "The text, and the tokens and reason of each part",
            body = ExplainedContext),
        ErrorResponse,
    ),
)]
async fn context(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<ContextQuery>,
    headers: HeaderMap,
) -> Result<Json<ExplainedContext>, ErrorResponse> {
    let Query(query) = query?;
    let memories = daemon.agent_memories(query.workspace.as_deref(), &headers).await?;
    let workspace = daemon.trusted_workspace(query.workspace.as_deref()).await?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let files = daemon.context_files(&workspace, &headers, client.as_ref());
    let loaded = query.context_files_loaded.unwrap_or_default();
    let loaded: Vec<&str> =
        loaded.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    let files = files.without_host_loaded(&loaded);
    let bytes_max = query.bytes_max.unwrap_or(usize::MAX);
    let showing = daemon.engine.segment_within(&memories, &files, bytes_max).await?;
    let facts = daemon.engine.count_facts(&memories).await?;
    Ok(Json(to_wire::explained(context_to_wire(&showing.segment), &showing, facts)))
}

/// List the known agents (hosts), with the context that each shows its model.
#[utoipa::path(
    get,
    path = "/v1/hosts",
    operation_id = "list_hosts",
    tag = "memories",
    responses(
        (status = 200, description = "The hosts", body = AgentHosts),
        ErrorResponse,
    ),
)]
async fn hosts(Extension(daemon): Extension<SharedState>) -> Json<AgentHosts> {
    Json(AgentHosts { hosts: daemon.agents.clone() })
}
