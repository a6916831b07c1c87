//! Routes of MCP over streamable HTTP: the tools and resources of `lukasa mcp`, for many clients.
//!
//! This module resolves the workspace and the caller of a request and passes it on. The protocol itself, in all its
//! revisions, is in `crate::mcp`.

use axum::Extension;
use axum::extract::{Query, Request};
use axum::response::Response;
use protocol::error::{ErrorBody, ErrorCode};

use super::app_state::{AppState, SharedState};
use super::body;
use super::body_budget;
use super::request::{QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::keep_alive_while;
use crate::mcp::{ExplicitWorkspace, KeepAlive, TooManySessions, is_in_session, is_stream};

/// The body of an error: the daemon's own, or a JSON-RPC error.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: each side writes its own")]
enum McpErrorBody {
    /// An error of the daemon.
    Daemon(ErrorBody),
    /// An error of the protocol: a JSON-RPC error.
    Protocol { jsonrpc: String, error: serde_json::Value },
}

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(send: MEMORY, listen: MEMORY, leave: MEMORY))
}

/// Send a message of the Model Context Protocol (streamable HTTP).
///
/// Serves the same tools and resources as `lukasa mcp`. The newest revision needs no session; older ones begin with
/// `initialize`, whose answer names a session in `Mcp-Session-Id`. An error of the protocol is a JSON-RPC error, an
/// error of the daemon an `ErrorBody`.
#[utoipa::path(
    post,
    path = "/mcp",
    tag = "mcp",
    params(
        WorkspaceQuery,
        ("X-Lukasa-Agent-Class" = Option<String>, Header,
            description = "`exec` (default), `plan` or `explore`. At `initialize` it sets the class of the \
                session; a later request may lower it for itself. `lukasa/agentClass` in `_meta` lowers \
                it for one call"),
    ),
    request_body(content = Object, description = "One JSON-RPC message"),
    responses(
        (status = 200, description = "The JSON-RPC answer, or a stream that ends with it",
            content((Object = "application/json"), (Object = "text/event-stream"))),
        (status = 202, description = "The message was accepted; it has no answer"),
        (status = "4XX", description = "The request was refused, by the daemon or the protocol",
            body = McpErrorBody),
        (status = "5XX", description = "The daemon failed; the body says why", body = McpErrorBody),
    ),
)]
async fn send(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(query, request).await
}

/// Stream the notifications of an MCP session of an older revision.
#[utoipa::path(
    get,
    path = "/mcp",
    tag = "mcp",
    params(WorkspaceQuery, ("Mcp-Session-Id" = String, Header, description = "The id of the session")),
    responses(
        (status = 200, description = "The notifications", content_type = "text/event-stream", body = Object),
        (status = "4XX", description = "The request was refused, by the daemon or the protocol",
            body = McpErrorBody),
        (status = "5XX", description = "The daemon failed; the body says why", body = McpErrorBody),
    ),
)]
async fn listen(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(query, request).await
}

/// End an MCP session of an older revision.
#[utoipa::path(
    delete,
    path = "/mcp",
    tag = "mcp",
    params(WorkspaceQuery, ("Mcp-Session-Id" = String, Header, description = "The id of the session")),
    responses(
        (status = 202, description = "The session has ended"),
        (status = "4XX", description = "The request was refused, by the daemon or the protocol",
            body = McpErrorBody),
        (status = "5XX", description = "The daemon failed; the body says why", body = McpErrorBody),
    ),
)]
async fn leave(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    daemon.forward(query, request).await
}

impl From<TooManySessions> for ErrorResponse {
    fn from(_: TooManySessions) -> Self {
        ErrorCode::TooManySessions.into()
    }
}

impl AppState {
    /// Passes a request to the endpoint of its workspace, with its caller.
    async fn forward(
        &self,
        query: QueryResult<WorkspaceQuery>,
        request: Request,
    ) -> Result<Response, ErrorResponse> {
        let (mut parts, body) = body::with_parts(request).await?;
        if let Some(permit) = parts.extensions.remove::<body_budget::BudgetPermit>()
            && is_in_session(&parts.headers)
        {
            parts.extensions.insert(KeepAlive::new(permit));
        }
        let Query(WorkspaceQuery { workspace }) = query?;
        if workspace.is_some() {
            parts.extensions.insert(ExplicitWorkspace);
        }
        let workspace = self.trusted_workspace(workspace.as_deref()).await?;
        let caller = self.mcp_agent(&workspace, &parts.headers).await?;
        Ok(self.with_stream_gauge(workspace.mcp.answer(parts, body, caller).await?))
    }

    /// Counts an answer that is an event stream until the stream ends.
    fn with_stream_gauge(&self, response: Response) -> Response {
        if is_stream(&response) {
            let gauges = self.metrics.track_event_stream(&self.event_streams);
            response.map(|body| keep_alive_while(body, gauges))
        } else {
            response
        }
    }
}

#[cfg(test)]
mod tests;
