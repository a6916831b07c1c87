//! Memories one by one: listed, read, written, moved, pinned.
//!
//! A write that replaces something names it. `If-Match` carries the revision that the caller read, and
//! `If-None-Match: *` says that nothing is there, as does saying nothing; whoever is not right about it
//! changes nothing. What they may say beside that is in `conditions.rs`.

use axum::Json;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use engine::{CallContext, ListQuery, Memories, PageCursor, Precondition, StoreError};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::document::Revision;
use memory::path::{MemoryPath, Mount};
use protocol::error::{ErrorBody, ErrorCode};
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
        .routes(routes!(list: MEMORY))
        .routes(routes!(read: MEMORY, put: MEMORY, delete: MEMORY))
        .routes(routes!(rename: MEMORY))
        .routes(routes!(pin: MEMORY, unpin: MEMORY))
}

/// Which memories to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MemoryListParams {
    /// Only those of this scope.
    scope: Option<String>,
    /// Only those whose path, name or description holds this, in either case.
    q: Option<String>,
    /// Only those that are pinned, or are not.
    pinned: Option<bool>,
    /// In which order.
    #[param(inline)]
    sort: Option<Sort>,
    /// What the page before ended with.
    cursor: Option<String>,
    /// At most so many on a page.
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
        (status = 200, description = "A page of them", body = MemoryPage),
        (status = "4XX", description = "They cannot be listed", body = ErrorBody),
        (status = "5XX", description = "They cannot be listed", body = ErrorBody),
    ),
)]
async fn list(
    PersonRequest { memories, query: wanted }: PersonRequest<MemoryListParams>,
) -> Result<Json<MemoryPage>, ErrorResponse> {
    let browse = ListQuery {
        mount: mount(&memories, wanted.scope.as_deref())?,
        words: wanted.q,
        pinned: wanted.pinned,
        order: wanted.sort.unwrap_or(Sort::Path).twin(),
        after: match wanted.cursor.as_deref().map(str::parse::<PageCursor>) {
            None => None,
            Some(Ok(cursor)) => Some(cursor),
            Some(Err(error)) => return Err(ErrorResponse::invalid_arguments(error.to_string())),
        },
        max: wanted.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX),
    };
    let page = engine::list_page(&memories, &browse).await?;
    let unavailable = memories.mounts().into_iter().filter_map(|state| {
        let reason = state.unavailable?;
        Some(UnavailableScope { scope: to_wire::mount(state.mount).to_owned(), reason })
    });
    Ok(Json(MemoryPage {
        memories: page.memories.iter().map(to_wire::memory_item).collect(),
        total: to_wire::count(page.total),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
        unavailable: unavailable.collect(),
    }))
}

/// Returns the root that a scope names; none for none.
fn mount(memories: &Memories, scope: Option<&str>) -> Result<Option<Mount>, ErrorResponse> {
    let Some(scope) = scope else { return Ok(None) };
    let mount = from_wire::mount(scope, memories.layout());
    mount.map(Some).ok_or_else(|| ErrorCode::InvalidScope.into())
}

/// Reads a path as URLs have it: `global/prefs.md`.
fn path(memories: &Memories, text: &str) -> Result<MemoryPath, ErrorResponse> {
    memory_path(memories, &format!("/memories/{text}"))
}

/// Read a memory.
///
/// `ETag` carries its revision. With `If-None-Match: "<revision>"` nothing is sent when that is still
/// the current one, with `If-Match: "<revision>"` only what is that one, or else 412. Both take a list too.
#[utoipa::path(
    get,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: what the caller wants"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: what the caller has"),
    ),
    responses(
        (status = 200, description = "The memory", body = Memory,
            headers(("ETag" = String, description = "Its revision, in quotes"))),
        (status = 304, description = "The caller has it"),
        (status = "4XX", description = "It cannot be read", body = ErrorBody),
        (status = "5XX", description = "It cannot be read", body = ErrorBody),
    ),
)]
async fn read(
    Path(at): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let path = path(&memories, &at)?;
    let read = memories.read(&path).await?;
    let tag = [(ETAG, etag(&read.revision))];
    if Conditions::from_headers(&headers)?.is_not_modified(read.revision)? {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    let last = engine::last_write(&memories, &path, read.revision).await?;
    Ok((tag, Json(to_wire::memory(&path, read, last))).into_response())
}

/// Returns a revision as `ETag` has it.
fn etag(revision: &Revision) -> HeaderValue {
    let tag = format!("\"{revision}\"");
    HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Write a whole memory.
///
/// Needs `If-Match: "<revision>"` to replace what was read; when somebody else was quicker, or it is gone, the
/// answer is 412 with the current `revision`, if there is one. Without it only what is not there is made; when
/// something is, the answer is 428, or 412 with `If-None-Match: *`. `If-Match` takes several revisions as well,
/// one of which has to be the current one, or `*` for whatever is there; a weak tag matches nothing.
#[utoipa::path(
    put,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: what is replaced"),
        ("If-None-Match" = Option<String>, Header,
            description = "`*`: nothing may be there; or revisions in quotes: none of these"),
    ),
    request_body = PutMemory,
    responses(
        (status = 200, description = "It is replaced, or was so already", body = WriteResponse),
        (status = 201, description = "It is made", body = WriteResponse),
        (status = "4XX", description = "Nothing is written", body = ErrorBody),
        (status = "5XX", description = "Nothing is written", body = ErrorBody),
    ),
)]
async fn put(
    Path(at): Path<String>,
    headers: HeaderMap,
    PersonRequestWithBody { memories, body: PutMemory { text }, .. }: PersonRequestWithBody<
        PutMemory,
    >,
) -> Result<Response, ErrorResponse> {
    let path = path(&memories, &at)?;
    let named = Conditions::from_headers(&headers)?.write_precondition();
    let is_named = named.is_some();
    let expected = named.unwrap_or(Precondition::Absent);
    let saved = match memories.save(&path, &text, expected, &CallContext::default()).await {
        Err(StoreError::Refused(CommandError::Conflict { .. })) if !is_named => {
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

/// Delete a memory, or a folder with all that is in it.
///
/// With `If-Match: "<revision>"` only that very text is deleted; when it is another one by now, or gone, the
/// answer is 412. An undo brings everything back.
#[utoipa::path(
    delete,
    path = "/v1/memories/{*path}",
    tag = "memories",
    params(
        ("path" = String, Path, description = "Scope and path, such as `global/prefs.md`",
            example = "global/prefs.md"),
        WorkspaceQuery,
        ("If-Match" = Option<String>, Header,
            description = "`*`, or revisions in quotes: what is deleted"),
        ("If-None-Match" = Option<String>, Header,
            description = "Revisions in quotes: what is not deleted"),
    ),
    responses(
        (status = 200, description = "It is gone", body = WriteResponse),
        (status = "4XX", description = "Nothing is deleted", body = ErrorBody),
        (status = "5XX", description = "Nothing is deleted", body = ErrorBody),
    ),
)]
async fn delete(
    Path(at): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
    headers: HeaderMap,
) -> Result<Json<WriteResponse>, ErrorResponse> {
    let path = path(&memories, &at)?;
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

/// What a command did.
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

/// Give a memory or folder another path in its scope.
#[utoipa::path(
    post,
    path = "/v1/memories/move",
    tag = "memories",
    params(WorkspaceQuery),
    request_body = Move,
    responses(
        (status = 200, description = "It has the new path", body = WriteResponse),
        (status = "4XX", description = "It has the old one", body = ErrorBody),
        (status = "5XX", description = "It has the old one", body = ErrorBody),
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

/// Keep a memory in the agents' context.
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
        (status = 200, description = "It is pinned", body = Pin),
        (status = "4XX", description = "It cannot be pinned", body = ErrorBody),
        (status = "5XX", description = "It cannot be pinned", body = ErrorBody),
    ),
)]
async fn pin(
    Path(at): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<Pin>, ErrorResponse> {
    set_pin(&memories, &at, true).await
}

/// Keep a memory in the agents' context no longer.
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
        (status = 200, description = "It is not pinned", body = Pin),
        (status = "4XX", description = "It cannot be unpinned", body = ErrorBody),
        (status = "5XX", description = "It cannot be unpinned", body = ErrorBody),
    ),
)]
async fn unpin(
    Path(at): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<Pin>, ErrorResponse> {
    set_pin(&memories, &at, false).await
}

async fn set_pin(memories: &Memories, at: &str, pinned: bool) -> Result<Json<Pin>, ErrorResponse> {
    let path = path(memories, at)?;
    let changed = memories.set_pin(&path, pinned).await?;
    Ok(Json(Pin { path: path.to_string(), pinned, changed }))
}
