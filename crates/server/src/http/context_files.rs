//! Routes of context files, such as `AGENTS.md`: list them, load them with imports, write those of the person and
//! the project.
//!
//! The task API calls them the memory of a workspace. Published clients rely on which error comes first, so the order
//! of checks is that of tasks: body, workspace, fields of the body, client, the store's own checks.

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::ContextFiles;
use engine::feed::{FeedChange, FeedEvent};
use protocol::context_files::{
    ContextScope, LoadOptions, LoadedContext, MemoryFile, StatusIssue, WorkspaceMemory,
    WriteMemory, WriteMemoryResponse, WriteMode,
};
use protocol::error::ErrorCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use strum::VariantArray as _;

use super::app_state::{AppState, SharedState};
use super::body;
use super::conditions::Conditions;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::twins::Twin;
use crate::{error_chain, from_wire, to_wire};

/// The task API's word for a context file.
const MEMORY_FILE: &str = "memory_file";

pub(super) fn routes() -> Routes {
    Routes::new()
        .in_workspaces(routes!(list: CONTEXT_FILES, write: SAVE_MEMORY))
        .in_workspaces(routes!(load: CONTEXT_FILES))
}

/// The workspace of a path. Without one it means the first workspace.
#[derive(Debug, Deserialize)]
struct WorkspacePath {
    workspace: Option<String>,
}

/// List the context files of the first workspace, as they are loaded.
#[utoipa::path(
    get,
    path = "/workspace/memory",
    operation_id = "list_context_files",
    tag = "context files",
    responses(
        (status = 200, description = "The context files", body = WorkspaceMemory),
        ErrorResponse,
    ),
)]
async fn list(
    Extension(daemon): Extension<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    headers: HeaderMap,
) -> Result<Json<WorkspaceMemory>, ErrorResponse> {
    let workspace = daemon.trusted_workspace(workspace.as_deref()).await?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let listing = daemon.context_files(&workspace, &headers, client.as_ref()).list().await;
    let files = listing.files.iter().map(|file| MemoryFile {
        kind: MEMORY_FILE.to_owned(),
        path: file.path.display().to_string(),
        scope: to_wire::context_scope(file.scope),
        bytes: file.bytes,
        revision: file.revision.to_string(),
    });
    let errors = listing.skipped.iter().map(|file| StatusIssue {
        kind: MEMORY_FILE.to_owned(),
        status: "error".to_owned(),
        error: error_chain(&file.error),
    });
    Ok(Json(WorkspaceMemory {
        v: 1,
        workspace_cwd: workspace.cwd.to_string(),
        initialized: true,
        total_bytes: listing.files.iter().map(|file| file.bytes).sum(),
        file_count: to_wire::count(listing.files.len()),
        rule_count: 0,
        files: files.collect(),
        errors: errors.collect(),
    }))
}

/// Append to or replace the context file of the person or of the first workspace's project.
///
/// Of the file names that are looked for, the first one that exists is written; if none exists, the first one is
/// created. With `If-Match: "<revision>"` only that revision is replaced, with `If-None-Match: *` only a new file
/// is created. Without a `scope` the request is refused, and the answer names the file of each scope.
#[utoipa::path(
    post,
    path = "/workspace/memory",
    operation_id = "write_context_file",
    tag = "context files",
    params(
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: the revisions that may be replaced"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`: the file must not exist; or revisions in quotes that must not be current"),
    ),
    request_body = WriteMemory,
    responses(
        (status = 200, description = "The file was written, or needed no change", body = WriteMemoryResponse),
        ErrorResponse,
    ),
)]
async fn write(
    Extension(daemon): Extension<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    request: Request,
) -> Result<Json<WriteMemoryResponse>, ErrorResponse> {
    let headers = request.headers().clone();
    let fields = body::fields(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref()).await?;
    let write = match WriteMemory::read(&fields) {
        Err(ErrorCode::InvalidScope) => {
            return Err(daemon.scope_required_error(&workspace, &headers));
        }
        write => write?,
    };
    let client = daemon.client_id(&workspace, &headers).await?;
    let files = daemon.context_files(&workspace, &headers, client.as_ref());
    let scope = from_wire::context_scope(write.scope);
    let mode = write.mode.unwrap_or(WriteMode::Append);
    let saved = match (mode, Conditions::from_headers(&headers)?.write_precondition()) {
        (WriteMode::Append, None) => files.append(scope, &write.content).await?,
        (WriteMode::Append, Some(_)) => return Err(ErrorCode::InvalidPrecondition.into()),
        (WriteMode::Replace, expected) => files.replace(scope, &write.content, expected).await?,
    };
    if saved.changed {
        let changed = FeedChange::ContextFile {
            scope,
            path: saved.path.clone(),
            write: mode.twin(),
            bytes: saved.bytes_written,
        };
        let event = FeedEvent { originator: client, change: changed };
        daemon.serving.feeds.publish_context_file(&workspace.id, event);
    }
    Ok(Json(WriteMemoryResponse {
        ok: true,
        file_path: saved.path.display().to_string(),
        bytes_written: to_wire::count(saved.bytes_written),
        mode,
        changed: saved.changed,
        warnings: to_wire::warnings(&saved.warnings),
    }))
}

/// Load the context files of the first workspace with their imports, as shown to a model.
///
/// The body has options beside the settings, for this call only: more folders and files, whether the project is
/// trusted, how imports are shown. Nothing is written, and the trust is not remembered.
#[utoipa::path(
    post,
    path = "/workspace/memory/load",
    operation_id = "load_context_files",
    tag = "context files",
    request_body = Option<LoadOptions>,
    responses(
        (status = 200, description = "The text, its files, and the files left out", body = LoadedContext),
        ErrorResponse,
    ),
)]
async fn load(
    Extension(daemon): Extension<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    request: Request,
) -> Result<Json<LoadedContext>, ErrorResponse> {
    let headers = request.headers().clone();
    let options: LoadOptions = body::value(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref()).await?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let files = daemon.context_files(&workspace, &headers, client.as_ref());
    let files = with_options(files, &options)?;
    Ok(Json(to_wire::loaded_context(daemon.engine.context_text(&files).await)))
}

/// Applies the load options of a request or a conversation.
pub(super) fn with_options(
    files: ContextFiles,
    requested: &LoadOptions,
) -> Result<ContextFiles, ErrorResponse> {
    let options = from_wire::load_options(requested)
        .map_err(|error| ErrorResponse::from(ErrorCode::InvalidArguments).with_message(error))?;
    let files = files.with_options(options);
    if requested.context_files_loaded.is_empty() {
        return Ok(files);
    }
    let loaded: Vec<&str> = requested.context_files_loaded.iter().map(String::as_str).collect();
    Ok(files.without_host_loaded(&loaded))
}

impl AppState {
    /// Returns the error for a missing scope, with the file of each scope as a fact.
    fn scope_required_error(
        &self,
        workspace: &engine::Workspace,
        headers: &HeaderMap,
    ) -> ErrorResponse {
        let files = self.context_files(workspace, headers, None);
        let path = |&scope: &ContextScope| {
            let path = files.target(from_wire::context_scope(scope)).ok()?;
            Some((scope.to_string(), Value::from(path.display().to_string())))
        };
        let paths: Map<String, Value> = ContextScope::VARIANTS.iter().filter_map(path).collect();
        ErrorResponse::from(ErrorCode::InvalidScope).with_fact("paths", paths)
    }
}
