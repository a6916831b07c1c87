//! Routes of history: list changes, show one with its diffs, undo one or several, list runs.
//!
//! A run groups the changes of one task or session. The history itself, its retention and the rules of undo are
//! the store's; this module parses filters and page cursors, and encodes the results.

use axum::extract::Query;
use axum::http::HeaderMap;
use axum::{Extension, Json};
use engine::{CallContext, ChangesQuery, DryRun, RunSource, TaskFilter, UndoTarget, Viewer};
use memory::change::{Actor, ChangeId};
use memory::clock::Timestamp;
use memory::limits::TASKS_LISTED_MAX;
use protocol::changes::{ChangePage, ChangeWithDiffs, UndoResponse, UndoSeveral};
use protocol::runs::{ModelRunPage, RunPage};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{PersonRequest, PersonRequestWithBody, SharedState};
use super::request::{Path, QueryResult, WorkspaceQuery, memory_path, page_start};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::{HTTP_BATCH_MAX, HTTP_PAGE_DEFAULT, HTTP_PAGE_MAX};
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(list: MEMORY))
        .add(routes!(show: MEMORY))
        .add(routes!(undo: MEMORY))
        .add(routes!(undo_several: MEMORY))
        .add(routes!(runs: MEMORY))
        .add(routes!(model_runs: MODELS))
}

/// The query of a list of changes.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ChangeListParams {
    /// Only changes to this memory, folder or scope, such as `/memories/global/prefs.md`.
    path: Option<String>,
    /// Only changes by this task.
    task: Option<String>,
    /// Only changes by this session of a host.
    session: Option<String>,
    /// Only changes by this actor: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    actor: Option<String>,
    /// Only changes at or after this time (ISO 8601).
    since: Option<String>,
    /// Only changes at or before this time.
    until: Option<String>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// The most changes on a page.
    max: Option<usize>,
}

/// List changes, newest first.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "list_changes",
    tag = "history",
    params(WorkspaceQuery, ChangeListParams),
    responses(
        (status = 200, description = "A page of changes", body = ChangePage),
        ErrorResponse,
    ),
)]
async fn list(
    PersonRequest { memories, query: params }: PersonRequest<ChangeListParams>,
) -> Result<Json<ChangePage>, ErrorResponse> {
    let before = page_start(params.cursor.as_deref())?.map(ChangeId);
    let max = params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let query = ChangesQuery {
        path: params.path.as_deref().map(|path| memory_path(&memories, path)).transpose()?,
        task: params.task,
        session: params.session,
        actor: params.actor.as_deref().map(actor).transpose()?,
        since: time(params.since.as_deref())?,
        until: time(params.until.as_deref())?,
        before,
        max,
    };
    let changes = memories.changes(&query).await?;
    let more = changes.last().filter(|_| changes.len() == max);
    Ok(Json(ChangePage {
        next_cursor: more.map(|oldest| oldest.id.to_string()),
        changes: changes.iter().map(|change| to_wire::change(change, &memories)).collect(),
    }))
}

/// Show a change, with a diff of each memory.
#[utoipa::path(
    get,
    path = "/v1/changes/{id}",
    tag = "history",
    params(("id" = i64, Path, description = "The number of the change"), WorkspaceQuery),
    responses(
        (status = 200, description = "The change", body = ChangeWithDiffs),
        ErrorResponse,
    ),
)]
async fn show(
    Path(id): Path<String>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<ChangeWithDiffs>, ErrorResponse> {
    let change = memories.change(number(&id)?).await?;
    let diffs = memories.diffs(&change).await?.into_iter().map(to_wire::diff).collect();
    Ok(Json(ChangeWithDiffs { change: to_wire::change(&change, &memories), diffs }))
}

fn number(id: &str) -> Result<ChangeId, ErrorResponse> {
    let id = id
        .parse()
        .map_err(|_| ErrorResponse::invalid_arguments("a change is named by its number"))?;
    Ok(ChangeId(id))
}

fn actor(word: &str) -> Result<Actor, ErrorResponse> {
    word.parse().map_err(|_| {
        ErrorResponse::invalid_arguments(
            "`actor` is `person`, `agent`, `task`, `review`, `dream` or `outside`",
        )
    })
}

/// Parses a time of a query or body (ISO 8601).
fn time(text: Option<&str>) -> Result<Option<Timestamp>, ErrorResponse> {
    let read = text.map(str::parse).transpose();
    read.map_err(|_| ErrorResponse::invalid_arguments("a time is like `2026-11-01T08:00:00Z`"))
}

/// The query of an undo.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
struct UndoParams {
    /// Only return what would happen.
    #[serde(default)]
    dry_run: bool,
}

/// Undo a change, as a new change.
///
/// If any of the memories changed since, nothing is undone; the answer is 409 with the differences.
#[utoipa::path(
    post,
    path = "/v1/changes/{id}/undo",
    tag = "history",
    params(("id" = i64, Path, description = "The number of the change"), WorkspaceQuery, UndoParams),
    responses(
        (status = 200, description = "The change was undone", body = UndoResponse),
        ErrorResponse,
    ),
)]
async fn undo(
    Path(id): Path<String>,
    PersonRequest { memories, query: UndoParams { dry_run } }: PersonRequest<UndoParams>,
) -> Result<Json<UndoResponse>, ErrorResponse> {
    let dry = if dry_run { DryRun::Yes } else { DryRun::No };
    let undone =
        memories.undo(&UndoTarget::Change(number(&id)?), dry, &CallContext::default()).await?;
    Ok(Json(to_wire::undone(&undone)))
}

/// Undo several changes, as one new change.
///
/// The body names either changes, a task, a session, or a time since when. If any of the memories changed since,
/// nothing is undone; the answer is 409 with the differences.
#[utoipa::path(
    post,
    path = "/v1/undo",
    tag = "history",
    params(WorkspaceQuery, UndoParams),
    request_body = UndoSeveral,
    responses(
        (status = 200, description = "The changes were undone", body = UndoResponse),
        ErrorResponse,
    ),
)]
async fn undo_several(
    Extension(daemon): Extension<SharedState>,
    PersonRequestWithBody { memories, query: UndoParams { dry_run }, body: selection }: PersonRequestWithBody<UndoSeveral, UndoParams>,
) -> Result<Json<UndoResponse>, ErrorResponse> {
    let since = time(selection.since.as_deref())?;
    let until = time(selection.until.as_deref())?;
    let target = match (selection.changes, selection.task, selection.session, since, until) {
        (Some(ids), None, None, None, None) if ids.len() <= HTTP_BATCH_MAX => {
            UndoTarget::Changes(ids.into_iter().map(ChangeId).collect())
        }
        (Some(ids), None, None, None, None) => {
            let (named, max) = (ids.len(), HTTP_BATCH_MAX);
            return Err(ErrorResponse::invalid_arguments(format!(
                "{named} changes are named, and at most {max} are undone at once"
            )));
        }
        (None, Some(task), None, None, None) => UndoTarget::Task(task),
        (None, None, Some(session), None, None) => UndoTarget::Session(session),
        (None, None, None, Some(since), until) => {
            UndoTarget::Span { since, until: until.unwrap_or_else(|| daemon.clock.now()) }
        }
        _ => {
            return Err(ErrorResponse::invalid_arguments(
                "name either `changes`, or `task`, or `session`, or `since` with or without `until`",
            ));
        }
    };
    let dry = if dry_run { DryRun::Yes } else { DryRun::No };
    let undone = memories.undo(&target, dry, &CallContext::default()).await?;
    Ok(Json(to_wire::undone(&undone)))
}

/// The query of a list of runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RunListParams {
    /// The id of the workspace. The default is the first one.
    workspace: Option<String>,
    /// The `nextCursor` of the previous page.
    cursor: Option<String>,
    /// The approximate number of runs on a page.
    max: Option<usize>,
}

/// List changes grouped by task or session, latest first.
///
/// Changes that name neither a task nor a session are listed only by `/v1/changes`.
#[utoipa::path(
    get,
    path = "/v1/runs",
    operation_id = "list_runs",
    tag = "history",
    params(RunListParams),
    responses(
        (status = 200, description = "A page of runs", body = RunPage),
        ErrorResponse,
    ),
)]
async fn runs(
    Extension(daemon): Extension<SharedState>,
    params: QueryResult<RunListParams>,
    headers: HeaderMap,
) -> Result<Json<RunPage>, ErrorResponse> {
    let Query(params) = params?;
    let workspace = daemon.trusted_workspace(params.workspace.as_deref()).await?;
    let memories = daemon.person_memories(params.workspace.as_deref(), &headers).await?;
    let before = page_start(params.cursor.as_deref())?.map(ChangeId);
    let max = params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let page = engine::runs(&memories, before, max).await?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let filter = TaskFilter { max: Some(TASKS_LISTED_MAX), ..TaskFilter::default() };
    let viewer = Viewer::Client(client.as_ref());
    let tasks = daemon.serving.lanes.list(&workspace, filter, viewer).await?;
    let status = |run: &engine::HistoryRun| {
        let RunSource::Task(id) = &run.source else { return None };
        tasks.iter().find(|task| task.id.as_str() == id).map(engine::Task::status)
    };
    Ok(Json(RunPage {
        runs: page.runs.iter().map(|run| to_wire::run(run, status(run))).collect(),
        next_cursor: page.next.map(|id| id.to_string()),
    }))
}

/// List the model runs for tasks of this workspace, with outcome and usage, newest first.
#[utoipa::path(
    get,
    path = "/v1/runs/models",
    operation_id = "list_model_runs",
    tag = "history",
    params(RunListParams),
    responses(
        (status = 200, description = "A page of model runs", body = ModelRunPage),
        ErrorResponse,
    ),
)]
async fn model_runs(
    Extension(daemon): Extension<SharedState>,
    params: QueryResult<RunListParams>,
) -> Result<Json<ModelRunPage>, ErrorResponse> {
    let Query(params) = params?;
    let workspace = daemon.trusted_workspace(params.workspace.as_deref()).await?;
    let before =
        page_start(params.cursor.as_deref())?.and_then(|before| u64::try_from(before).ok());
    let max = params.max.unwrap_or(HTTP_PAGE_DEFAULT).clamp(1, HTTP_PAGE_MAX);
    let page = daemon.engine.model_work(Some(&workspace.id), before, max).await?;
    Ok(Json(ModelRunPage {
        runs: page.works.iter().map(to_wire::model_run).collect(),
        next_cursor: page.next.map(|number| number.to_string()),
    }))
}
