//! Routes of single memories: list, read, write, move, delete, pin.
//!
//! A write states its precondition. `If-Match` carries the revision that the caller read; `If-None-Match: *`, or
//! neither header, means that the file must not exist. A write whose precondition fails changes nothing. The full
//! syntax of both headers is in `conditions.rs`.

use axum::Json;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use engine::{CallContext, ListQuery, Memories, PageCursor, Precondition, StoreError};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount};
use protocol::error::ErrorCode;
use protocol::memories::{
    Memory, MemoryPage, Move, Pin, PutMemory, Sort, UnavailableScope, WriteResponse,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, PersonRequestWithBody};
use super::conditions::Conditions;
use super::request::{Path, WorkspaceQuery, memory_path};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::{HTTP_PAGE_DEFAULT, HTTP_PAGE_MAX};
use crate::twins::Twin;
use crate::{from_wire, to_wire};

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(list: MEMORY))
        .add(routes!(read: MEMORY, put: MEMORY, delete: MEMORY))
        .add(routes!(rename: MEMORY))
        .add(routes!(pin: MEMORY, unpin: MEMORY))
}

/// The query of a list of memories.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoryListParams {
    /// Only memories of this scope.
    scope: Option<String>,
    /// Only memories whose path, name or description contains this text, ignoring case.
    q: Option<String>,
    /// Only pinned memories if true, only others if false.
    pinned: Option<bool>,
    /// The order of the memories.
    #[param(inline)]
    sort: Option<Sort>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// The most memories on a page.
    max: Option<usize>,
}

/// List memories.
#[utoipa::path(
    get,
    path = "/v1/memories",
    operation_id = "list_memories",
    tag = "memories",
    params(WorkspaceQuery, MemoryListParams),
    responses(
        (status = 200, description = "A page of memories", body = MemoryPage),
        ErrorResponse,
    ),
)]
async fn list(
    PersonRequest { memories, query: params }: PersonRequest<MemoryListParams>,
) -> Result<Json<MemoryPage>, ErrorResponse> {
    let browse = ListQuery {
        mount: mount(&memories, params.scope.as_deref())?,
        words: params.q,
        pinned: params.pinned,
        order: params.sort.unwrap_or(Sort::Path).twin(),
        after: match params.cursor.as_deref().map(str::parse::<PageCursor>) {
            None => None,
            Some(Ok(cursor)) => Some(cursor),
            Some(Err(error)) => return Err(ErrorResponse::invalid_arguments(error.to_string())),
        },
        max: params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX),
    };
    let page = engine::list_page(&memories, &browse).await?;
    let unavailable = memories.mounts().into_iter().filter_map(|state| {
        let reason = state.unavailable?;
        Some(UnavailableScope { scope: state.mount.word().to_owned(), reason })
    });
    Ok(Json(MemoryPage {
        memories: page.memories.iter().map(to_wire::memory_item).collect(),
        total: to_wire::count(page.total),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
        unavailable: unavailable.collect(),
    }))
}

/// Returns the mount that `scope` names, or `None` without a scope.
fn mount(memories: &Memories, scope: Option<&str>) -> Result<Option<Mount>, ErrorResponse> {
    let Some(scope) = scope else { return Ok(None) };
    let mount = from_wire::mount(scope, memories.layout());
    mount.map(Some).ok_or_else(|| ErrorCode::InvalidScope.into())
}

/// Parses a path of a URL, such as `global/prefs.md`.
fn path(memories: &Memories, text: &str) -> Result<MemoryPath, ErrorResponse> {
    memory_path(memories, &format!("/memories/{text}"))
}

/// Read a memory.
///
/// `ETag` carries its revision. With `If-None-Match: "<revision>"` the answer is 304 if that is still the
/// current revision. With `If-Match: "<revision>"` the answer is 412 if it is not. Both accept a list.
#[utoipa::path(
    get,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: the revisions that the caller accepts"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: the revisions that the caller has"),
    ),
    responses(
        (status = 200, description = "The memory", body = Memory,
            headers(("ETag" = String, description = "The revision of the memory, in quotes"))),
        (status = 304, description = "The caller already has this revision"),
        ErrorResponse,
    ),
)]
async fn read(
    Path(name): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let path = path(&memories, &name)?;
    let read = memories.read(&path).await?;
    let tag = [(ETAG, etag(&read.revision))];
    if Conditions::from_headers(&headers)?.is_not_modified(read.revision)? {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let last = engine::last_write(&memories, &path, read.revision).await?;
    Ok((tag, Json(to_wire::memory(&path, read, last))).into_response())
}

/// Formats a revision as an `ETag`.
fn etag(revision: &Revision) -> HeaderValue {
    let tag = format!("\"{revision}\"");
    HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Write a whole memory.
///
/// To replace a memory, send `If-Match: "<revision>"` with the revision that you read. If the memory was changed or
/// deleted since, the answer is 412 with the current `revision`, if there is one. Without `If-Match` only a new
/// memory is created; if the path exists, the answer is 428, or 412 with `If-None-Match: *`. `If-Match` also accepts
/// several revisions, one of which must be the current one, or `*` for any; a weak tag matches nothing.
#[utoipa::path(
    put,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: the revisions that may be replaced"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`: the path must not exist; or revisions in quotes that must not be current"),
    ),
    request_body = PutMemory,
    responses(
        (status = 200, description = "The memory was replaced, or had this text already", body = WriteResponse),
        (status = 201, description = "The memory was created", body = WriteResponse),
        ErrorResponse,
    ),
)]
async fn put(
    Path(name): Path<String>,
    headers: HeaderMap,
    PersonRequestWithBody { memories, body: PutMemory { text }, .. }: PersonRequestWithBody<
        PutMemory,
    >,
) -> Result<Response, ErrorResponse> {
    let path = path(&memories, &name)?;
    let precondition = Conditions::from_headers(&headers)?.write_precondition();
    let has_precondition = precondition.is_some();
    let expected = precondition.unwrap_or(Precondition::Absent);
    let saved = match memories.save(&path, &text, expected, &CallContext::default()).await {
        Err(StoreError::Refused(CommandError::Conflict { .. })) if !has_precondition => {
            return Err(ErrorCode::PreconditionRequired.into());
        }
        saved => saved?,
    };
    let status = if saved.created { StatusCode::CREATED } else { StatusCode::OK };
    let written = WriteResponse {
        path: path.to_string(),
        revision: Some(saved.revision.to_string()),
        change: saved.change.map(|id| id.0),
        warnings: to_wire::warnings(&saved.warnings),
    };
    Ok((status, [(ETAG, etag(&saved.revision))], Json(written)).into_response())
}

/// Delete a memory, or a folder with its contents.
///
/// With `If-Match: "<revision>"` only that revision is deleted; if the memory was changed or deleted since, the
/// answer is 412. An undo restores everything.
#[utoipa::path(
    delete,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: the revisions that may be deleted"),
        ("If-None-Match" = Option<String>, Header,
            description = "Revisions in quotes that must not be deleted"),
    ),
    responses(
        (status = 200, description = "The memory was deleted", body = WriteResponse),
        ErrorResponse,
    ),
)]
async fn delete(
    Path(name): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
    headers: HeaderMap,
) -> Result<Json<WriteResponse>, ErrorResponse> {
    let path = path(&memories, &name)?;
    let call = CallContext::default();
    let change = match Conditions::from_headers(&headers)?.write_precondition() {
        None => {
            write_outcome(
                memories.apply(MemoryCommand::Delete { path: path.clone() }, &call).await?,
            )?
            .change
        }
        Some(expected) => engine::delete_if(&memories, &path, &expected, call).await?,
    };
    let change = change.map(|id| id.0);
    Ok(Json(WriteResponse { path: path.to_string(), revision: None, change, warnings: Vec::new() }))
}

/// The result of a command that was applied.
struct WriteOutcome {
    change: Option<memory::change::ChangeId>,
    warnings: Vec<memory::command::Warning>,
}

fn write_outcome(reply: Reply) -> Result<WriteOutcome, ErrorResponse> {
    match reply {
        Reply::Done { change, warnings, .. } => Ok(WriteOutcome { change, warnings }),
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

/// Move or rename a memory or folder within its scope.
#[utoipa::path(
    post,
    path = "/v1/memories/move",
    tag = "memories",
    params(WorkspaceQuery),
    request_body = Move,
    responses(
        (status = 200, description = "The memory was moved", body = WriteResponse),
        ErrorResponse,
    ),
)]
async fn rename(
    PersonRequestWithBody { memories, body: Move { from, to }, .. }: PersonRequestWithBody<Move>,
) -> Result<Json<WriteResponse>, ErrorResponse> {
    let (old_path, new_path) = (memory_path(&memories, &from)?, memory_path(&memories, &to)?);
    let path = new_path.to_string();
    let command = MemoryCommand::Rename { old_path, new_path };
    let WriteOutcome { change, warnings } =
        write_outcome(memories.apply(command, &CallContext::default()).await?)?;
    let warnings = to_wire::warnings(&warnings);
    Ok(Json(WriteResponse { path, revision: None, change: change.map(|id| id.0), warnings }))
}

/// Pin a memory: keep it in the agents' context.
#[utoipa::path(
    put,
    path = "/v1/pins/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
    ),
    responses(
        (status = 200, description = "The pin was set", body = Pin),
        ErrorResponse,
    ),
)]
async fn pin(
    Path(name): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<Pin>, ErrorResponse> {
    set_pin(&memories, &name, true).await
}

/// Unpin a memory.
#[utoipa::path(
    delete,
    path = "/v1/pins/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
    ),
    responses(
        (status = 200, description = "The pin was removed", body = Pin),
        ErrorResponse,
    ),
)]
async fn unpin(
    Path(name): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<Pin>, ErrorResponse> {
    set_pin(&memories, &name, false).await
}

async fn set_pin(
    memories: &Memories,
    name: &str,
    pinned: bool,
) -> Result<Json<Pin>, ErrorResponse> {
    let path = path(memories, name)?;
    let changed = memories.set_pin(&path, pinned).await?;
    Ok(Json(Pin { path: path.to_string(), pinned, changed }))
}
