//! Routes of all workspaces on this machine: list them, and remove one with its memories.
//!
//! A workspace here is a set of memories on disk, whether or not this daemon serves it. Workspaces that are served
//! but not trusted are neither listed nor removed. Removal itself is the engine's.

use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::{Caller, Workspace, WorkspaceId, WorkspaceRemovalError};
use memory::error_code::MemoryErrorCode;
use protocol::error::ErrorCode;
use protocol::workspaces::{HostWorkspace, HostWorkspaces, RemovedWorkspace};

use super::app_state::{AppState, ORIGIN, SharedState};
use super::request::{Path, client_name};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(list: MEMORY)).add(routes!(remove: MEMORY))
}

/// List the workspaces on this machine.
///
/// The list has every workspace with memories on this machine, whether or not this daemon serves it. It leaves out
/// those that the daemon serves but does not trust.
#[utoipa::path(
    get,
    path = "/v1/workspaces",
    tag = "memories",
    responses(
        (status = 200, description = "The workspaces", body = HostWorkspaces),
        ErrorResponse,
    ),
)]
async fn list(
    Extension(daemon): Extension<SharedState>,
) -> Result<Json<HostWorkspaces>, ErrorResponse> {
    let mut workspaces = Vec::new();
    for workspace in daemon.engine.workspaces().await? {
        if daemon.is_untrusted(&workspace.id) {
            continue;
        }
        let served = daemon.workspaces.all();
        let served = served
            .iter()
            .filter(|served| served.memory_workspace().as_ref() == Some(&workspace.id));
        workspaces.push(HostWorkspace {
            served_as: served.map(|served| served.id.clone()).collect(),
            id: workspace.id.to_string(),
            checkout: workspace.checkout.map(|folder| folder.display().to_string()),
            checkout_exists: workspace.checkout_exists,
            memories: workspace.memories,
            bytes: workspace.bytes,
        });
    }
    Ok(Json(HostWorkspaces { workspaces }))
}

/// Remove a workspace with its memories.
///
/// The memories are deleted as one change, which an undo restores. A workspace with waiting or running tasks is not
/// removed.
#[utoipa::path(
    delete,
    path = "/v1/workspaces/{id}",
    tag = "memories",
    params(("id" = String, Path, description = "The id of the workspace's memories, from the list")),
    responses(
        (status = 200, description = "The memories that were deleted", body = RemovedWorkspace),
        ErrorResponse,
    ),
)]
async fn remove(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<RemovedWorkspace>, ErrorResponse> {
    let Ok(id) = id.parse::<WorkspaceId>() else { return Err(ErrorCode::WorkspaceNotFound.into()) };
    if daemon.is_untrusted(&id) {
        return Err(ErrorCode::UntrustedWorkspace.into());
    }
    let mut caller = Caller::person(ORIGIN);
    caller.provenance.client = daemon.named_client(&headers).await?;
    let removal = daemon.engine.remove_workspace(&id, caller, &daemon.workspaces.plain()).await?;
    Ok(Json(RemovedWorkspace {
        memories: removal.memories.iter().map(ToString::to_string).collect(),
        change: removal.change.map(|change| change.0),
        remaining_folder: removal.remaining_folder.map(|folder| folder.display().to_string()),
    }))
}

impl AppState {
    /// Checks whether a served workspace has this id and is not trusted.
    fn is_untrusted(&self, id: &WorkspaceId) -> bool {
        let untrusted = |workspace: &Workspace| {
            !workspace.trusted && workspace.memory_workspace().as_ref() == Some(id)
        };
        self.workspaces.find(untrusted).is_some()
    }

    /// Returns the client that a request names, if it is registered in any served workspace. Without a name the result
    /// is `None`; an unknown name is an error.
    async fn named_client(&self, headers: &HeaderMap) -> Result<Option<String>, ErrorResponse> {
        if client_name(headers).is_none() {
            return Ok(None);
        }
        let mut last_error = ErrorResponse::from(ErrorCode::InvalidClientId);
        for workspace in self.workspaces.all() {
            match self.client_id(&workspace, headers).await {
                Ok(client) => return Ok(client.map(|client| client.to_string())),
                Err(error) => last_error = error,
            }
        }
        Err(last_error)
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
