//! What a person sets: their settings file, and the folders that they trust.
//!
//! This crate reads no settings: the command line does, and hands in who shows and writes them.

use std::path::Path as FilePath;

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::HeaderMap;
use engine::{TrustError, UntrustedContent};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::settings::{
    FolderTrust, InstructionSource, InstructionSourceKind, PutSetting, PutTrust, Settings,
    TrustStatus,
};

use super::app_state::{AppState, SettingsError, SettingsStore, SharedState};
use super::body;
use super::request::{Path, QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::HTTP_PAGE_MAX;
use crate::to_wire;

impl From<SettingsError> for ErrorResponse {
    fn from(error: SettingsError) -> Self {
        let code = match &error {
            SettingsError::Invalid(_) => ErrorCode::InvalidArguments,
            SettingsError::FileChanged | SettingsError::ValueChanged => ErrorCode::Conflict,
            SettingsError::Io(_) => ErrorCode::Internal,
        };
        Self::from(code).with_message(error.to_string())
    }
}

impl From<TrustError> for ErrorResponse {
    fn from(error: TrustError) -> Self {
        match error {
            TrustError::Backend(source) => {
                tracing::error!(error = %source, "the list of trusted folders cannot be used");
                ErrorCode::Internal.into()
            }
            error => ErrorResponse::invalid_arguments(error.to_string()),
        }
    }
}

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list: MEMORY))
        .routes(routes!(put: MEMORY))
        .routes(routes!(trust: MEMORY, put_trust: MEMORY))
}

/// List the settings, with where each value is from.
#[utoipa::path(
    get,
    path = "/v1/settings",
    operation_id = "list_settings",
    tag = "settings",
    responses(
        (status = 200, description = "The settings", body = Settings),
        (status = "4XX", description = "The settings file cannot be read", body = ErrorBody),
        (status = "5XX", description = "The settings file cannot be read", body = ErrorBody),
    ),
)]
async fn list(State(daemon): State<SharedState>) -> Result<Json<Settings>, ErrorResponse> {
    daemon.with_settings(|settings| settings.show()).await
}

/// Set a value in the settings file. Comments, order and all else in it stay.
///
/// A daemon reads its settings when it starts: `restartNeeded` says that they differ. With `expected`, nothing is
/// written and the answer is 409 if the setting has another value by now.
#[utoipa::path(
    put,
    path = "/v1/settings/{key}",
    operation_id = "put_setting",
    tag = "settings",
    params(("key" = String, Path, description = "Its name, such as `retention.days`")),
    request_body = PutSetting,
    responses(
        (status = 200, description = "It is set", body = Settings),
        (status = "4XX", description = "The value is not right, or is not set here", body = ErrorBody),
        (status = "5XX", description = "The settings file cannot be written", body = ErrorBody),
    ),
)]
async fn put(
    State(daemon): State<SharedState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Json<Settings>, ErrorResponse> {
    let PutSetting { value, expected } = body::value(request).await?;
    daemon.with_settings(move |settings| settings.set(&key, &value, expected.as_ref())).await
}

/// List the trusted folders, and what the project of a workspace would say to models unasked.
#[utoipa::path(
    get,
    path = "/v1/trust",
    tag = "settings",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The folders", body = TrustStatus),
        (status = "4XX", description = "The workspace is unknown", body = ErrorBody),
        (status = "5XX", description = "The list cannot be read", body = ErrorBody),
    ),
)]
async fn trust(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    headers: HeaderMap,
) -> Result<Json<TrustStatus>, ErrorResponse> {
    let Query(WorkspaceQuery { workspace }) = asked?;
    daemon.trust(workspace.as_deref(), &headers).await
}

/// Trust a folder with all below it, or trust it no longer.
#[utoipa::path(
    put,
    path = "/v1/trust",
    operation_id = "put_trust",
    tag = "settings",
    params(WorkspaceQuery),
    request_body = PutTrust,
    responses(
        (status = 200, description = "The folders that are trusted then", body = TrustStatus),
        (status = "4XX", description = "It is no folder that can be trusted", body = ErrorBody),
        (status = "5XX", description = "The list cannot be written", body = ErrorBody),
    ),
)]
async fn put_trust(
    State(daemon): State<SharedState>,
    asked: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Json<TrustStatus>, ErrorResponse> {
    let headers = request.headers().clone();
    let PutTrust { path, trusted } = body::value(request).await?;
    let Query(WorkspaceQuery { workspace }) = asked?;
    let folder = FilePath::new(&path);
    if !folder.is_absolute() {
        return Err(ErrorResponse::invalid_arguments("enter an absolute path"));
    }
    let folders = daemon.engine.trusted_folders();
    if trusted {
        folders.add(folder).await?;
    } else {
        folders.remove(folder).await?;
    }
    daemon.trust(workspace.as_deref(), &headers).await
}

impl AppState {
    async fn with_settings(
        &self,
        work: impl FnOnce(&dyn SettingsStore) -> Result<Settings, SettingsError> + Send + 'static,
    ) -> Result<Json<Settings>, ErrorResponse> {
        let settings = self.settings.clone().ok_or_else(|| {
            ErrorResponse::from(ErrorCode::NotFound)
                .with_message("this daemon has no settings file".to_owned())
        })?;
        let done = tokio::task::spawn_blocking(move || work(&*settings)).await;
        Ok(Json(done.map_err(|_| ErrorCode::Internal)??))
    }

    async fn trust(
        &self,
        workspace: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Json<TrustStatus>, ErrorResponse> {
        let memories = self.person_memories(workspace, headers).await?;
        let workspace = self.trusted_workspace(workspace)?;
        let folders = self.engine.trusted_folders();
        let here = match &workspace.binding.project_dir {
            None => None,
            Some(folder) => {
                let folder =
                    engine::Checkout::find(folder).map_or(folder.clone(), |found| found.root);
                let files = self.context_files(workspace, headers, None);
                let speaking = self.engine.untrusted_content(&files, &memories).await?;
                let trusted = folders.has(&folder).await?;
                let (speaks, more) = speaks(speaking, &folder);
                Some(FolderTrust { path: folder.display().to_string(), trusted, speaks, more })
            }
        };
        let folders = folders.list().await?;
        let folders = folders.iter().map(|folder| folder.display().to_string()).collect();
        Ok(Json(TrustStatus { folders, here }))
    }
}

/// Returns what would speak, and how much of it is left out.
fn speaks(speaking: UntrustedContent, folder: &FilePath) -> (Vec<InstructionSource>, u64) {
    let all = speaking.files.len() + speaking.memories.len();
    let files = speaking.files.iter().map(|path| InstructionSource {
        kind: InstructionSourceKind::ContextFile,
        path: path.strip_prefix(folder).unwrap_or(path).display().to_string(),
        description: String::new(),
    });
    let memories = speaking.memories.into_iter().map(|listed| InstructionSource {
        kind: InstructionSourceKind::Memory,
        path: listed.path.to_string(),
        description: listed.description,
    });
    let named: Vec<_> = files.chain(memories).take(HTTP_PAGE_MAX).collect();
    let more = to_wire::count(all - named.len());
    (named, more)
}
