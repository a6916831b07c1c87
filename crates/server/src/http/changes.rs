//! History: what was done, with what it did line by line, and taking it back.

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use engine::{Call, ChangesQuery, Dry, UndoTarget};
use memory::change::ChangeId;
use memory::limits::{HTTP_PAGE_DEFAULT, HTTP_PAGE_MAX};
use protocol::changes::{ChangePage, ChangeWithDiffs, Undone};
use protocol::error::ErrorBody;
use serde::Deserialize;
use utoipa::IntoParams;

use super::body::Json;
use super::daemon::Shared;
use super::memories::{Asked, Where, invalid, page_start, whole_path};
use super::path::Path;
use super::refused::Refused;
use super::routes::{Routes, routes};
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(list: MEMORY))
        .routes(routes!(show: MEMORY))
        .routes(routes!(undo: MEMORY))
}

/// Which changes to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Wanted {
    /// The id of the workspace; left out, the first one.
    workspace: Option<String>,
    /// Only those of this memory, folder or scope, such as `/memories/global/prefs.md`.
    path: Option<String>,
    /// Only those of this task.
    task: Option<String>,
    /// What the page before ended with.
    cursor: Option<String>,
    /// At most so many on a page.
    max: Option<usize>,
}

/// List changes, the newest first.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "list_changes",
    tag = "history",
    params(Wanted),
    responses(
        (status = 200, description = "A page of them", body = ChangePage),
        (status = "4XX", description = "They cannot be listed", body = ErrorBody),
        (status = "5XX", description = "They cannot be listed", body = ErrorBody),
    ),
)]
async fn list(
    State(daemon): State<Shared>,
    wanted: Asked<Wanted>,
    headers: HeaderMap,
) -> Result<Json<ChangePage>, Refused> {
    let Query(wanted) = wanted?;
    let memories = daemon.person(wanted.workspace.as_deref(), &headers).await?;
    let before = page_start(wanted.cursor.as_deref())?.map(ChangeId);
    let max = wanted.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let query = ChangesQuery {
        path: wanted.path.as_deref().map(|path| whole_path(&memories, path)).transpose()?,
        task: wanted.task,
        before,
        max,
        ..ChangesQuery::default()
    };
    let changes = memories.changes(&query).await?;
    let more = changes.last().filter(|_| changes.len() == max);
    Ok(Json(ChangePage {
        next_cursor: more.map(|oldest| oldest.id.to_string()),
        changes: changes.iter().map(|change| to_wire::change(change, &memories)).collect(),
    }))
}

/// Show a change, with what it did to each memory.
#[utoipa::path(
    get,
    path = "/v1/changes/{id}",
    tag = "history",
    params(("id" = i64, Path, description = "Its number"), Where),
    responses(
        (status = 200, description = "The change", body = ChangeWithDiffs),
        (status = "4XX", description = "It cannot be shown", body = ErrorBody),
        (status = "5XX", description = "It cannot be shown", body = ErrorBody),
    ),
)]
async fn show(
    State(daemon): State<Shared>,
    Path(id): Path<String>,
    asked: Asked<Where>,
    headers: HeaderMap,
) -> Result<Json<ChangeWithDiffs>, Refused> {
    let Query(Where { workspace }) = asked?;
    let memories = daemon.person(workspace.as_deref(), &headers).await?;
    let change = memories.change(number(&id)?).await?;
    let diffs = memories.diffs(&change).await?.into_iter().map(to_wire::diff).collect();
    Ok(Json(ChangeWithDiffs { change: to_wire::change(&change, &memories), diffs }))
}

fn number(id: &str) -> Result<ChangeId, Refused> {
    let id = id.parse().map_err(|_| invalid("a change is named by its number".into()))?;
    Ok(ChangeId(id))
}

/// How to take a change back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct How {
    /// The id of the workspace; left out, the first one.
    workspace: Option<String>,
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// Take a change back, as a new change.
///
/// Nothing happens when any of the memories changed since; the answer is 409 with the differences.
#[utoipa::path(
    post,
    path = "/v1/changes/{id}/undo",
    tag = "history",
    params(("id" = i64, Path, description = "Its number"), How),
    responses(
        (status = 200, description = "It is taken back", body = Undone),
        (status = "4XX", description = "It stays", body = ErrorBody),
        (status = "5XX", description = "It stays", body = ErrorBody),
    ),
)]
async fn undo(
    State(daemon): State<Shared>,
    Path(id): Path<String>,
    asked: Asked<How>,
    headers: HeaderMap,
) -> Result<Json<Undone>, Refused> {
    let Query(How { workspace, dry_run }) = asked?;
    let memories = daemon.person(workspace.as_deref(), &headers).await?;
    let dry = if dry_run { Dry::Run } else { Dry::No };
    let undone = memories.undo(&UndoTarget::Change(number(&id)?), dry, &Call::default()).await?;
    Ok(Json(to_wire::undone(&undone)))
}
