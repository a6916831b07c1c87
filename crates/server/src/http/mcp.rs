//! MCP over streamable HTTP: the tool and the resources that `lukasa mcp` serves, to many clients.
//!
//! Here a request is only given its workspace and its caller. What it asks for, in which revision of the
//! protocol, is `crate::mcp`'s business.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::response::Response;
use engine::{Caller, Engine, Feeds, Workspace};
use memory::access::AgentClass;
use protocol::error::{ErrorBody, ErrorCode};
use tokio_util::sync::CancellationToken;

use super::app_state::{AppState, MCP_ORIGIN, SharedState};
use super::body;
use super::body_budget;
use super::request::{QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::keep_alive_while;
use crate::mcp::{
    ExplicitWorkspace, KeepAlive, McpConfig, McpEndpoint, ProjectSource, TooManySessions,
    is_in_session, is_stream,
};

/// Returns where the clients of each workspace are served, until `ending` is cancelled.
pub(super) fn endpoints(
    engine: &Engine,
    feeds: &Arc<Feeds>,
    workspaces: &[Workspace],
    ending: &CancellationToken,
) -> HashMap<String, McpEndpoint> {
    let endpoint = |workspace: &Workspace| {
        let feed = (Arc::clone(feeds), workspace.id.clone());
        let end = McpEndpoint::new(config_of(engine, workspace), feed, ending.clone());
        (workspace.id.clone(), end)
    };
    workspaces.iter().map(endpoint).collect()
}

fn config_of(engine: &Engine, workspace: &Workspace) -> McpConfig {
    McpConfig {
        engine: engine.clone(),
        binding: workspace.binding.clone(),
        caller: Caller::agent(AgentClass::Exec, MCP_ORIGIN),
        // The workspace is named by the request: the client's roots must not lead elsewhere.
        project: ProjectSource::Workspace,
    }
}

/// What a request is refused with.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: each side writes its own")]
enum McpErrorBody {
    /// By the daemon.
    Daemon(ErrorBody),
    /// By the protocol: a JSON-RPC error.
    Protocol { jsonrpc: String, error: serde_json::Value },
}

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(send: MEMORY, listen: MEMORY, leave: MEMORY))
}

/// Send a message of the Model Context Protocol (streamable HTTP).
///
/// The same tool and resources as `lukasa mcp`. The newest revision is served request by request; the older
/// ones begin with `initialize`, whose answer names a session in `Mcp-Session-Id`. What the protocol
/// refuses is answered as a JSON-RPC error, what the gate refuses as everywhere.
#[utoipa::path(
    post,
    path = "/mcp",
    tag = "mcp",
    params(
        WorkspaceQuery,
        ("X-Lukasa-Agent-Class" = Option<String>, Header,
            description = "`exec` (when left out), `plan` or `explore`; at `initialize` that of the \
                session, later that of a request, which may not be above it. One call may be lowered by \
                `lukasa/agentClass` in its `_meta`"),
    ),
    request_body(content = Object, description = "One JSON-RPC message"),
    responses(
        (status = 200, description = "The answer, or a stream that ends with it",
            content((Object = "application/json"), (Object = "text/event-stream"))),
        (status = 202, description = "The message is taken and has no answer"),
        (status = "4XX", description = "The request is refused, by the daemon or the protocol",
            body = McpErrorBody),
        (status = "5XX", description = "The machine failed", body = McpErrorBody),
    ),
)]
async fn send(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(asked, request).await
}

/// Read what changed, in an MCP session of an older revision.
#[utoipa::path(
    get,
    path = "/mcp",
    tag = "mcp",
    params(WorkspaceQuery, ("Mcp-Session-Id" = String, Header, description = "The session")),
    responses(
        (status = 200, description = "Notifications", content_type = "text/event-stream", body = Object),
        (status = "4XX", description = "There is no stream", body = McpErrorBody),
        (status = "5XX", description = "There is no stream", body = McpErrorBody),
    ),
)]
async fn listen(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(asked, request).await
}

/// End an MCP session of an older revision.
#[utoipa::path(
    delete,
    path = "/mcp",
    tag = "mcp",
    params(WorkspaceQuery, ("Mcp-Session-Id" = String, Header, description = "The session")),
    responses(
        (status = 202, description = "It has ended"),
        (status = "4XX", description = "It has not", body = McpErrorBody),
        (status = "5XX", description = "It has not", body = McpErrorBody),
    ),
)]
async fn leave(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(asked, request).await
}

impl From<TooManySessions> for ErrorResponse {
    fn from(_: TooManySessions) -> Self {
        ErrorCode::TooManySessions.into()
    }
}

impl AppState {
    /// Hands a request to the workspace that it means, with who calls.
    async fn forward(
        &self,
        asked: QueryResult<WorkspaceQuery>,
        request: Request,
    ) -> Result<Response, ErrorResponse> {
        let (mut parts, body) = body::with_parts(request).await?;
        if let Some(held) = parts.extensions.remove::<body_budget::BudgetPermit>()
            && is_in_session(&parts.headers)
        {
            parts.extensions.insert(KeepAlive::new(held));
        }
        let Query(WorkspaceQuery { workspace }) = asked?;
        if workspace.is_some() {
            parts.extensions.insert(ExplicitWorkspace);
        }
        let workspace = self.trusted_workspace(workspace.as_deref())?;
        let endpoint = self.mcp.get(&workspace.id).ok_or(ErrorCode::WorkspaceNotFound)?;
        let caller = self.mcp_agent(workspace, &parts.headers).await?;
        Ok(self.with_stream_gauge(endpoint.answer(parts, body, caller).await?))
    }

    /// Counts an answer among the streams as long as it is one.
    fn with_stream_gauge(&self, response: Response) -> Response {
        if is_stream(&response) {
            let open = self.metrics.track_event_stream();
            response.map(|body| keep_alive_while(body, open))
        } else {
            response
        }
    }
}

#[cfg(test)]
mod tests;
