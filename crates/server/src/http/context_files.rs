//! Context files: which there are, and writing those of the person and of the project.
//!
//! The task API calls them the memory of a workspace. The checks come in the order of the tasks' ones: the
//! body, the workspace, the fields of the body, the client, and then the store's own.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use engine::ContextFiles;
use engine::feed::{FeedChange, FeedEvent};
use protocol::context_files::{
    ContextScope, LoadOptions, LoadedContext, MemoryFile, StatusIssue, WorkspaceMemory,
    WriteMemory, WriteMemoryResponse, WriteMode,
};
use protocol::error::{ErrorBody, ErrorCode};
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

/// What a context file is called in the task API.
const MEMORY_FILE: &str = "memory_file";

pub(super) fn routes() -> Routes {
    Routes::new()
        .in_workspaces(routes!(list: CONTEXT_FILES, write: SAVE_MEMORY))
        .in_workspaces(routes!(load: CONTEXT_FILES))
}

/// The workspace that a path names. Without one, the first one is meant.
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
        (status = 200, description = "The files", body = WorkspaceMemory),
        (status = "4XX", description = "They cannot be listed", body = ErrorBody),
        (status = "5XX", description = "They cannot be listed", body = ErrorBody),
    ),
)]
async fn list(
    State(daemon): State<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    headers: HeaderMap,
) -> Result<Json<WorkspaceMemory>, ErrorResponse> {
    let workspace = daemon.trusted_workspace(workspace.as_deref())?;
    let client = daemon.client_id(workspace, &headers).await?;
    let listing = daemon.context_files(workspace, &headers, client.as_ref()).list().await;
    let files = listing.files.iter().map(|file| MemoryFile {
        kind: MEMORY_FILE.to_owned(),
        path: file.path.display().to_string(),
        scope: to_wire::context_scope(file.scope),
        bytes: file.bytes,
        revision: file.revision.to_string(),
    });
    let errors = listing.skipped.iter().map(|one| StatusIssue {
        kind: MEMORY_FILE.to_owned(),
        status: "error".to_owned(),
        error: error_chain(&one.error),
    });
    Ok(Json(WorkspaceMemory {
        v: 1,
        workspace_cwd: workspace.cwd.display().to_string(),
        initialized: true,
        total_bytes: listing.files.iter().map(|file| file.bytes).sum(),
        file_count: to_wire::count(listing.files.len()),
        rule_count: 0,
        files: files.collect(),
        errors: errors.collect(),
    }))
}

/// Add to the context file of the person or of the first workspace's project, or replace it.
///
/// The first of the names that is there is written, else the first of them is made. With
/// `If-Match: "<revision>"` only that very text is replaced, with `If-None-Match: *` only nothing.
/// Without a `scope` the answer names the files that could be meant.
#[utoipa::path(
    post,
    path = "/workspace/memory",
    operation_id = "write_context_file",
    tag = "context files",
    params(
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: what is replaced"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`: nothing may be there; or revisions in quotes: none of these"),
    ),
    request_body = WriteMemory,
    responses(
        (status = 200, description = "It is written, or nothing was to be", body = WriteMemoryResponse),
        (status = "4XX", description = "Nothing is written", body = ErrorBody),
        (status = "5XX", description = "Nothing is written", body = ErrorBody),
    ),
)]
async fn write(
    State(daemon): State<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    request: Request,
) -> Result<Json<WriteMemoryResponse>, ErrorResponse> {
    let headers = request.headers().clone();
    let fields = body::fields(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref())?;
    let asked = match WriteMemory::read(&fields) {
        Err(ErrorCode::InvalidScope) => {
            return Err(daemon.scope_required_error(workspace, &headers));
        }
        asked => asked?,
    };
    let client = daemon.client_id(workspace, &headers).await?;
    let files = daemon.context_files(workspace, &headers, client.as_ref());
    let scope = from_wire::context_scope(asked.scope);
    let mode = asked.mode.unwrap_or(WriteMode::Append);
    let saved = match (mode, Conditions::from_headers(&headers)?.write_precondition()) {
        (WriteMode::Append, None) => files.append(scope, &asked.content).await?,
        (WriteMode::Append, Some(_)) => return Err(ErrorCode::InvalidPrecondition.into()),
        (WriteMode::Replace, expected) => files.replace(scope, &asked.content, expected).await?,
    };
    if saved.changed {
        let changed = FeedChange::ContextFile {
            scope,
            path: saved.path.clone(),
            write: mode.twin(),
            bytes: saved.bytes_written,
        };
        let news = FeedEvent { originator: client, change: changed };
        daemon.serving.feeds.publish_context_file(&workspace.id, news);
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

/// Load the context files of the first workspace with their imports, as a model is shown them.
///
/// The body says what is loaded beside the settings, for this call alone: further folders and files, whether the
/// project is trusted, how imports are shown. Nothing is written, and nothing is trusted afterwards.
#[utoipa::path(
    post,
    path = "/workspace/memory/load",
    operation_id = "load_context_files",
    tag = "context files",
    request_body = Option<LoadOptions>,
    responses(
        (status = 200, description = "The text, its files, and what is left out", body = LoadedContext),
        (status = "4XX", description = "They cannot be loaded", body = ErrorBody),
        (status = "5XX", description = "They cannot be loaded", body = ErrorBody),
    ),
)]
async fn load(
    State(daemon): State<SharedState>,
    Path(WorkspacePath { workspace }): Path<WorkspacePath>,
    request: Request,
) -> Result<Json<LoadedContext>, ErrorResponse> {
    let headers = request.headers().clone();
    let asked: LoadOptions = body::value(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref())?;
    let client = daemon.client_id(workspace, &headers).await?;
    let files = daemon.context_files(workspace, &headers, client.as_ref());
    let files = with_options(files, &asked)?;
    Ok(Json(to_wire::loaded_context(daemon.engine.context_text(&files).await)))
}

/// Returns context files that are loaded as a call or a session asks for.
pub(super) fn with_options(
    files: ContextFiles,
    asked: &LoadOptions,
) -> Result<ContextFiles, ErrorResponse> {
    let options = from_wire::load_options(asked)
        .map_err(|what| ErrorResponse::from(ErrorCode::InvalidArguments).with_message(what))?;
    let files = files.with_options(options);
    if asked.context_files_loaded.is_empty() {
        return Ok(files);
    }
    let loaded: Vec<&str> = asked.context_files_loaded.iter().map(String::as_str).collect();
    Ok(files.without_host_loaded(&loaded))
}

impl AppState {
    /// Asks which scope is meant, with the file of each.
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
