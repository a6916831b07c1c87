//! Routes of the person's settings file and of the trusted folders.
//!
//! This crate does not read settings: the command line does, and passes a [`SettingsStore`] that shows and writes
//! them. The list of trusted folders is the engine's.

use std::path::Path as FilePath;

use axum::extract::{Query, Request};
use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::{ProjectFolder, RemoteFolder, TrustError, UntrustedContent};
use protocol::error::ErrorCode;
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
                tracing::error!(error = %source, "failed to read or write the list of trusted folders");
                ErrorCode::Internal.into()
            }
            error => ErrorResponse::invalid_arguments(error.to_string()),
        }
    }
}

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(list: MEMORY))
        .add(routes!(put: MEMORY))
        .add(routes!(trust: MEMORY, put_trust: MEMORY))
}

/// List the settings, with the source of each value.
#[utoipa::path(
    get,
    path = "/v1/settings",
    operation_id = "list_settings",
    tag = "settings",
    responses(
        (status = 200, description = "The settings", body = Settings),
        ErrorResponse,
    ),
)]
async fn list(Extension(daemon): Extension<SharedState>) -> Result<Json<Settings>, ErrorResponse> {
    daemon.with_settings(|settings| settings.show()).await
}

/// Set a value in the settings file. Comments, order and other values stay.
///
/// A daemon reads its settings when it starts; `restartNeeded` is true if the file differs from them. With
/// `expected`, the answer is 409 and nothing is written if the setting has another value.
#[utoipa::path(
    put,
    path = "/v1/settings/{key}",
    operation_id = "put_setting",
    tag = "settings",
    params(("key" = String, Path, description = "The name of the setting, such as `retention.days`")),
    request_body = PutSetting,
    responses(
        (status = 200, description = "The settings with the new value", body = Settings),
        ErrorResponse,
    ),
)]
async fn put(
    Extension(daemon): Extension<SharedState>,
    Path(key): Path<String>,
    request: Request,
) -> Result<Json<Settings>, ErrorResponse> {
    let PutSetting { value, expected } = body::value(request).await?;
    daemon.with_settings(move |settings| settings.set(&key, &value, expected.as_ref())).await
}

/// List the trusted folders, and the texts of a workspace's project that models are shown once it is trusted.
#[utoipa::path(
    get,
    path = "/v1/trust",
    tag = "settings",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The trusted folders", body = TrustStatus),
        ErrorResponse,
    ),
)]
async fn trust(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    headers: HeaderMap,
) -> Result<Json<TrustStatus>, ErrorResponse> {
    let Query(WorkspaceQuery { workspace }) = query?;
    daemon.trust(workspace.as_deref(), &headers).await
}

/// Trust a folder and all below it, or stop trusting it.
#[utoipa::path(
    put,
    path = "/v1/trust",
    operation_id = "put_trust",
    tag = "settings",
    params(WorkspaceQuery),
    request_body = PutTrust,
    responses(
        (status = 200, description = "The trusted folders after the change", body = TrustStatus),
        ErrorResponse,
    ),
)]
async fn put_trust(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    request: Request,
) -> Result<Json<TrustStatus>, ErrorResponse> {
    let headers = request.headers().clone();
    let PutTrust { path, trusted } = body::value(request).await?;
    let Query(WorkspaceQuery { workspace }) = query?;
    let folder = FilePath::new(&path);
    let folders = daemon.engine.trusted_folders();
    match (path.parse::<RemoteFolder>(), trusted) {
        (Ok(remote), true) => drop(folders.add_remote(&remote).await?),
        (Ok(remote), false) => drop(folders.remove_remote(&remote).await?),
        (Err(_), _) if !folder.is_absolute() => {
            return Err(ErrorResponse::invalid_arguments("enter an absolute path"));
        }
        (Err(_), true) => drop(folders.add(folder).await?),
        (Err(_), false) => drop(folders.remove(folder).await?),
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
        let workspace = self.trusted_workspace(workspace).await?;
        let folders = self.engine.trusted_folders();
        let project = match &workspace.binding.project {
            None => None,
            Some(folder) => {
                let (folder, trusted) = match folder {
                    ProjectFolder::Local(folder) => {
                        let checkout = engine::Checkout::find(folder);
                        let folder = checkout.map_or_else(|| folder.clone(), |found| found.root);
                        let trusted = folders.has(&folder).await?;
                        (folder, trusted)
                    }
                    ProjectFolder::Remote(folder) => {
                        let trusted = folders.has_remote(folder).await?;
                        (folder.to_string().into(), trusted)
                    }
                };
                let files = self.context_files(&workspace, headers, None);
                let content = self.engine.untrusted_content(&files, &memories).await?;
                let (speaks, more) = instruction_sources(content, &folder);
                Some(FolderTrust { path: folder.display().to_string(), trusted, speaks, more })
            }
        };
        let (local, remotes) = (folders.list().await?, folders.remotes().await?);
        let local = local.iter().map(|folder| folder.display().to_string());
        let folders = local.chain(remotes.iter().map(ToString::to_string)).collect();
        Ok(Json(TrustStatus { folders, here: project }))
    }
}

/// Returns the instruction sources up to the page limit, and the number of those left out.
fn instruction_sources(
    content: UntrustedContent,
    folder: &FilePath,
) -> (Vec<InstructionSource>, u64) {
    let all = content.files.len() + content.memories.len();
    let files = content.files.iter().map(|path| InstructionSource {
        kind: InstructionSourceKind::ContextFile,
        path: path.strip_prefix(folder).unwrap_or(path).display().to_string(),
        description: String::new(),
    });
    let memories = content.memories.into_iter().map(|listed| InstructionSource {
        kind: InstructionSourceKind::Memory,
        path: listed.path.to_string(),
        description: listed.description,
    });
    let named: Vec<_> = files.chain(memories).take(HTTP_PAGE_MAX).collect();
    let more = to_wire::count(all - named.len());
    (named, more)
}
