//! The workspaces of the host: listed, and removed with their memories.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use engine::{Caller, Workspace, WorkspaceId, WorkspaceRemovalError};
use memory::error_code::MemoryErrorCode;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::workspaces::{HostWorkspace, HostWorkspaces, RemovedWorkspace};

use super::app_state::{AppState, ORIGIN, SharedState};
use super::request::{Path, client_name};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(list: MEMORY)).routes(routes!(remove: MEMORY))
}

/// List the workspaces of the host.
///
/// These are all whose memories lie on the host, whether or not this daemon serves them, but for those that it
/// serves without trusting them.
#[utoipa::path(
    get,
    path = "/v1/workspaces",
    tag = "memories",
    responses(
        (status = 200, description = "The workspaces", body = HostWorkspaces),
        (status = "4XX", description = "The caller may not ask", body = ErrorBody),
        (status = "5XX", description = "The memories cannot be read", body = ErrorBody),
    ),
)]
async fn list(State(daemon): State<SharedState>) -> Result<Json<HostWorkspaces>, ErrorResponse> {
    let mut workspaces = Vec::new();
    for found in daemon.engine.workspaces().await? {
        if daemon.is_untrusted(&found.id) {
            continue;
        }
        let served = daemon.workspaces.iter();
        let served = served.filter(|one| one.memory_workspace().as_ref() == Some(&found.id));
        workspaces.push(HostWorkspace {
            served_as: served.map(|one| one.id.clone()).collect(),
            id: found.id.to_string(),
            checkout: found.checkout.map(|folder| folder.display().to_string()),
            checkout_exists: found.checkout_exists,
            memories: found.memories,
            bytes: found.bytes,
        });
    }
    Ok(Json(HostWorkspaces { workspaces }))
}

/// Remove a workspace with its memories.
///
/// The memories are deleted as one change, whose undo brings them back. A workspace whose tasks wait or run is
/// not removed.
#[utoipa::path(
    delete,
    path = "/v1/workspaces/{id}",
    tag = "memories",
    params(("id" = String, Path, description = "The id of the workspace's memories, from the list")),
    responses(
        (status = 200, description = "The memories that were deleted", body = RemovedWorkspace),
        (status = "4XX", description = "There is no such workspace, or its tasks are not finished", body = ErrorBody),
        (status = "5XX", description = "The memories cannot be deleted", body = ErrorBody),
    ),
)]
async fn remove(
    State(daemon): State<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<RemovedWorkspace>, ErrorResponse> {
    let Ok(id) = id.parse::<WorkspaceId>() else { return Err(ErrorCode::WorkspaceNotFound.into()) };
    if daemon.is_untrusted(&id) {
        return Err(ErrorCode::UntrustedWorkspace.into());
    }
    let mut caller = Caller::person(ORIGIN);
    caller.provenance.client = daemon.named_client(&headers).await?;
    let removal = daemon.engine.remove_workspace(&id, caller, &daemon.workspaces).await?;
    Ok(Json(RemovedWorkspace {
        memories: removal.memories.iter().map(ToString::to_string).collect(),
        change: removal.change.map(|change| change.0),
        remaining_folder: removal.remaining_folder.map(|folder| folder.display().to_string()),
    }))
}

impl AppState {
    /// Tells whether these are the memories of a workspace that is served and not trusted.
    fn is_untrusted(&self, id: &WorkspaceId) -> bool {
        let untrusted = self.workspaces.iter().filter(|one| !one.trusted);
        untrusted.filter_map(Workspace::memory_workspace).any(|one| one == *id)
    }

    /// Returns the client that a request about the host names, which has to be registered in one of the
    /// workspaces.
    async fn named_client(&self, headers: &HeaderMap) -> Result<Option<String>, ErrorResponse> {
        if client_name(headers).is_none() {
            return Ok(None);
        }
        let mut refused = ErrorResponse::from(ErrorCode::InvalidClientId);
        for workspace in &self.workspaces {
            match self.client_id(workspace, headers).await {
                Ok(client) => return Ok(client.map(|client| client.to_string())),
                Err(error) => refused = error,
            }
        }
        Err(refused)
    }
}

impl From<WorkspaceRemovalError> for ErrorResponse {
    fn from(error: WorkspaceRemovalError) -> Self {
        let code = match error {
            WorkspaceRemovalError::NotFound(_) => ErrorCode::WorkspaceNotFound,
            WorkspaceRemovalError::Busy(_) => ErrorCode::WorkspaceBusy,
            WorkspaceRemovalError::TooMany(_) => ErrorCode::ScopeFull,
            WorkspaceRemovalError::Store(error) => return error.into(),
            WorkspaceRemovalError::State(error) => return error.into(),
            WorkspaceRemovalError::Folder(_) => {
                return ErrorResponse::failure(&error, MemoryErrorCode::StorageFailed);
            }
        };
        Self::from(code).with_message(error.to_string())
    }
}
