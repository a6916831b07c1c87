//! Routes of client sessions: begin, end, detach, heartbeat.
//!
//! A session registers a client with a workspace. It gives the client an id to send with its requests and an event
//! stream; it has no conversation (see `conversations.rs`). The table of sessions is the engine's.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use engine::{BeginSessionError, SessionId};
use protocol::error::ErrorCode;
use protocol::session::{Heartbeat, Session, SessionRequest};

use super::app_state::{AppState, SharedState};
use super::body;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(begin: MEMORY))
        .add(routes!(end: MEMORY))
        .add(routes!(detach: MEMORY))
        .add(routes!(heartbeat: MEMORY))
}

/// Begin a session, with a client id and a stream of task events.
///
/// It has no conversation. Each request begins a new session.
#[utoipa::path(
    post,
    path = "/session",
    tag = "sessions",
    request_body = Option<SessionRequest>,
    responses(
        (status = 200, description = "The session has begun", body = Session),
        ErrorResponse,
    ),
)]
async fn begin(
    Extension(daemon): Extension<SharedState>,
    request: Request,
) -> Result<Json<Session>, ErrorResponse> {
    let SessionRequest { cwd } = body::value(request).await?;
    let workspace = match cwd.as_deref() {
        None => daemon.workspace(None).await?,
        Some(cwd) => daemon.workspace_of_folder(cwd)?,
    };
    let session = daemon.serving.sessions.begin(&workspace.id).await?;
    Ok(Json(Session {
        session_id: session.id.to_string(),
        workspace_cwd: workspace.cwd.to_string(),
        attached: false,
        client_id: session.client.to_string(),
        created_at: to_wire::time(session.created_at),
        event_epoch: Some(daemon.serving.feeds.epoch().to_string()),
    }))
}

impl From<BeginSessionError> for ErrorResponse {
    fn from(error: BeginSessionError) -> Self {
        match error {
            BeginSessionError::Full => ErrorCode::TooManySessions.into(),
            BeginSessionError::State(error) => error.into(),
        }
    }
}

impl AppState {
    /// Returns the session with this id, unless the request names another client than the session's.
    pub(super) async fn session(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<engine::Session, ErrorResponse> {
        let id: SessionId = id.parse().map_err(|_| ErrorCode::SessionNotFound)?;
        let session =
            self.serving.sessions.session(&id).await?.ok_or(ErrorCode::SessionNotFound)?;
        let workspace = self.workspace(Some(&session.workspace)).await?;
        match self.client_id(&workspace, headers).await? {
            Some(client) if client != session.client => Err(ErrorCode::SessionNotFound.into()),
            _ => Ok(session),
        }
    }

    async fn end_session(
        &self,
        id: &str,
        headers: &HeaderMap,
    ) -> Result<StatusCode, ErrorResponse> {
        let session = self.session(id, headers).await?;
        if self.serving.sessions.end(&session).await? {
            Ok(StatusCode::NO_CONTENT)
        } else {
            Err(ErrorCode::SessionNotFound.into())
        }
    }
}

/// End a session. Its client id becomes invalid, and its streams end.
#[utoipa::path(
    delete,
    path = "/session/{id}",
    tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 204, description = "The session has ended"),
        ErrorResponse,
    ),
)]
async fn end(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ErrorResponse> {
    daemon.end_session(&id, &headers).await
}

/// Leave a session. The same as ending it, because a session has one client.
#[utoipa::path(
    post,
    path = "/session/{id}/detach",
    tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 204, description = "The session has ended"),
        ErrorResponse,
    ),
)]
async fn detach(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, ErrorResponse> {
    daemon.end_session(&id, &headers).await
}

/// Check that a session exists. Sessions do not expire, so a heartbeat keeps nothing open.
#[utoipa::path(
    post,
    path = "/session/{id}/heartbeat",
    tag = "sessions",
    params(("id" = String, Path, description = "The id of the session")),
    responses(
        (status = 200, description = "The session exists", body = Heartbeat),
        ErrorResponse,
    ),
)]
async fn heartbeat(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Heartbeat>, ErrorResponse> {
    let session = daemon.session(&id, &headers).await?;
    Ok(Json(Heartbeat {
        session_id: session.id.to_string(),
        client_id: session.client.to_string(),
        last_seen_at: daemon.clock.now().as_millisecond(),
    }))
}
