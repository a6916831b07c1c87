//! Routes of tasks: submit a `remember`, `forget` or `dream`, read its status, cancel it, list tasks.
//!
//! Published clients rely on which error comes first, so the order of checks is the same for every kind: body,
//! workspace, fields of the body, client, the lane's own checks. Each route is served twice: for the first workspace,
//! and for the one that the path names. Lanes run the tasks; see `engine`.

use std::sync::Arc;

use axum::extract::{Query, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use engine::{CancelOutcome, ClientId, Requester, SubmitError, TaskFilter, TaskId, Viewer};
use memory::change::Trust;
use memory::feature::Feature;
use memory::limits::TASKS_LISTED_MAX;
use protocol::error::ErrorCode;
use protocol::task::{
    ForgetRequest, RememberRequest, Task, TaskKind, TaskList, TaskStatus, WorkKind,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{AppState, SharedState};
use super::body;
use super::request::Path;
use super::routes::{Routes, routes};
use super::served_workspaces::ServedWorkspace;
use crate::error::{ErrorResponse, submit_code};
use crate::limits::HTTP_RETRY_AFTER_SECONDS;
use crate::twins::Twin;
use crate::{from_wire, to_wire};

/// The origin recorded for tasks that are submitted here.
const ORIGIN: &str = "http";

pub(super) fn routes() -> Routes {
    Routes::new()
        .in_workspaces(routes!(submit: TASKS))
        .in_workspaces(routes!(get: TASKS, cancel: TASKS))
        .add(routes!(list: TASKS))
}

/// The body of a task request; its form depends on the kind.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: bodies are read field by field")]
enum TaskBody {
    /// The body of `remember`.
    Remember(RememberRequest),
    /// The body of `forget`.
    Forget(ForgetRequest),
    /// The body of `dream`.
    Dream {},
}

/// The path of a task kind. Without a workspace it means the first one.
#[derive(Debug, Deserialize)]
struct KindPath {
    workspace: Option<String>,
    kind: String,
}

/// The path of a task. Without a workspace it means the first one.
#[derive(Debug, Deserialize)]
struct TaskPath {
    workspace: Option<String>,
    kind: String,
    task: String,
}

/// Submit a task to the first workspace.
///
/// The body is `{content, contextMode?, scope?}` for `remember`, `{query, scope?}` for `forget`, and
/// `{}` or nothing for `dream`.
#[utoipa::path(
    post,
    path = "/workspace/memory/{kind}",
    tag = "tasks",
    params(("kind" = TaskKind, Path, description = "The kind of the task")),
    request_body = TaskBody,
    responses(
        (status = 202, description = "The task was queued", body = Task),
        ErrorResponse,
    ),
)]
async fn submit(
    Extension(daemon): Extension<SharedState>,
    Path(KindPath { workspace, kind }): Path<KindPath>,
    request: Request,
) -> Result<(StatusCode, Json<Task>), ErrorResponse> {
    let kind = parse_kind(&kind)?;
    let headers = request.headers().clone();
    let fields = body::fields(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref()).await?;
    let task = from_wire::request(kind, &fields)?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let outside_read = daemon.outside_read_of(client.as_ref().map(ToString::to_string));
    let mut requester = Requester::client(ORIGIN, client);
    // A client that has read unreviewed text may pass it on: what it asks for is trusted no more than that text.
    if outside_read.is_set().await? {
        requester.trust = Trust::Outside;
    }
    let submitted = daemon.serving.lanes.submit(&workspace, task, requester).await;
    let task = submitted.map_err(|error| submit_error(kind, error))?;
    Ok((StatusCode::ACCEPTED, Json(to_wire::task(&task))))
}

/// Get the status of a task of the first workspace.
#[utoipa::path(
    get,
    path = "/workspace/memory/{kind}/{task}",
    tag = "tasks",
    params(
        ("kind" = TaskKind, Path, description = "The kind of the task"),
        ("task" = String, Path, description = "The id of the task"),
    ),
    responses(
        (status = 200, description = "The status of the task", body = Task),
        ErrorResponse,
    ),
)]
async fn get(
    Extension(daemon): Extension<SharedState>,
    Path(path): Path<TaskPath>,
    headers: HeaderMap,
) -> Result<Json<Task>, ErrorResponse> {
    let (kind, workspace, id, client) = daemon.task(&path, &headers).await?;
    let viewer = Viewer::Client(client.as_ref());
    let found = daemon.serving.lanes.get(&workspace, &id, viewer).await?;
    let task = found.ok_or_else(|| not_found(kind))?;
    Ok(Json(to_wire::task(&task)))
}

/// Cancel a task of the first workspace.
#[utoipa::path(
    delete,
    path = "/workspace/memory/{kind}/{task}",
    tag = "tasks",
    params(
        ("kind" = TaskKind, Path, description = "The kind of the task"),
        ("task" = String, Path, description = "The id of the task"),
    ),
    responses(
        (status = 200, description = "The task has ended: cancelled now, or finished before", body = Task),
        (status = 202, description = "The cancellation was requested; the task ends soon", body = Task),
        ErrorResponse,
    ),
)]
async fn cancel(
    Extension(daemon): Extension<SharedState>,
    Path(path): Path<TaskPath>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Task>), ErrorResponse> {
    let (kind, workspace, id, client) = daemon.task(&path, &headers).await?;
    let viewer = Viewer::Client(client.as_ref());
    let found = daemon.serving.lanes.cancel(&workspace, &id, viewer).await?;
    let (status, task) = match found.ok_or_else(|| not_found(kind))? {
        CancelOutcome::AlreadyEnded(task) => (StatusCode::OK, task),
        CancelOutcome::Requested(task) => (StatusCode::ACCEPTED, task),
    };
    Ok((status, Json(to_wire::task(&task))))
}

/// The query of a list of tasks.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TaskListParams {
    /// The id of the workspace. The default is the first one.
    workspace: Option<String>,
    /// Only tasks of this kind.
    kind: Option<WorkKind>,
    /// Only tasks with this status.
    status: Option<TaskStatus>,
    /// The most tasks to return.
    max: Option<usize>,
}

/// List the tasks that this client may see, latest first.
#[utoipa::path(
    get,
    path = "/v1/tasks",
    operation_id = "list_tasks",
    tag = "tasks",
    params(TaskListParams),
    responses(
        (status = 200, description = "The tasks", body = TaskList),
        ErrorResponse,
    ),
)]
async fn list(
    Extension(daemon): Extension<SharedState>,
    params: Result<Query<TaskListParams>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<TaskList>, ErrorResponse> {
    let Query(params) = params?;
    let workspace = daemon.trusted_workspace(params.workspace.as_deref()).await?;
    let client = daemon.client_id(&workspace, &headers).await?;
    let filter = TaskFilter {
        kind: params.kind.map(Twin::twin),
        status: params.status.map(Twin::twin),
        max: Some(params.max.unwrap_or(TASKS_LISTED_MAX).min(TASKS_LISTED_MAX)),
    };
    let viewer = Viewer::Client(client.as_ref());
    let tasks = daemon.serving.lanes.list(&workspace, filter, viewer).await?;
    Ok(Json(TaskList { tasks: tasks.iter().map(to_wire::listed_task).collect() }))
}

fn parse_kind(word: &str) -> Result<TaskKind, ErrorResponse> {
    word.parse().map_err(|_| ErrorCode::RouteNotFound.into())
}

impl AppState {
    /// Resolves the kind, workspace, id and client of a request about a task.
    async fn task(
        &self,
        path: &TaskPath,
        headers: &HeaderMap,
    ) -> Result<(TaskKind, Arc<ServedWorkspace>, TaskId, Option<ClientId>), ErrorResponse> {
        let kind = parse_kind(&path.kind)?;
        let workspace = self.trusted_workspace(path.workspace.as_deref()).await?;
        let client = self.client_id(&workspace, headers).await?;
        let id: Result<TaskId, _> = path.task.parse();
        let id = id.ok().filter(|id| id.kind() == from_wire::task_kind(kind));
        let id = id.ok_or_else(|| not_found(kind))?;
        Ok((kind, workspace, id, client))
    }
}

fn not_found(kind: TaskKind) -> ErrorResponse {
    let code = match kind {
        TaskKind::Remember => ErrorCode::RememberTaskNotFound,
        TaskKind::Forget => ErrorCode::ForgetTaskNotFound,
        TaskKind::Dream => ErrorCode::DreamTaskNotFound,
    };
    code.into()
}

fn submit_error(kind: TaskKind, error: SubmitError) -> ErrorResponse {
    let code = submit_code(from_wire::task_kind(kind), &error);
    match error {
        SubmitError::FeatureDisabled => ErrorResponse::feature_disabled(Feature::Tasks),
        SubmitError::Full | SubmitError::Draining => {
            ErrorResponse::from(code).retry_after(HTTP_RETRY_AFTER_SECONDS)
        }
        SubmitError::State(error) => error.into(),
        SubmitError::Untrusted | SubmitError::Unavailable | SubmitError::ProbeFailed => code.into(),
    }
}
