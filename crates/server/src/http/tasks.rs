//! Remember, forget and dream as tasks: asked for, looked at, taken back.
//!
//! The checks come in one order, whatever the kind: the body, the workspace, the fields of the body,
//! the client, and then the lane's own. Each route is served twice: for the first workspace, and for any.

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode};
use engine::{
    CancelOutcome, ClientId, Requester, SubmitError, TaskFilter, TaskId, Viewer, Workspace,
};
use memory::change::Trust;
use memory::feature::Feature;
use memory::limits::TASKS_LISTED_MAX;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::task::{
    ForgetRequest, RememberRequest, Task, TaskKind, TaskList, TaskStatus, WorkKind,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::app_state::{AppState, SharedState};
use super::body;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::{ErrorResponse, submit_code};
use crate::limits::HTTP_RETRY_AFTER_SECONDS;
use crate::twins::Twin;
use crate::{from_wire, to_wire};

/// By which way tasks come in that are asked for here.
const ORIGIN: &str = "http";

pub(super) fn routes() -> Routes {
    Routes::new()
        .in_workspaces(routes!(submit: TASKS))
        .in_workspaces(routes!(get: TASKS, cancel: TASKS))
        .routes(routes!(list: TASKS))
}

/// The body by which a task is asked for; which one depends on its kind.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: bodies are read field by field")]
enum TaskBody {
    /// For a remember.
    Remember(RememberRequest),
    /// For a forget.
    Forget(ForgetRequest),
    /// For a dream.
    Dream {},
}

/// A kind of task. Without a workspace, the first one is meant.
#[derive(Debug, Deserialize)]
struct KindPath {
    workspace: Option<String>,
    kind: String,
}

/// A task. Without a workspace, the first one is meant.
#[derive(Debug, Deserialize)]
struct TaskPath {
    workspace: Option<String>,
    kind: String,
    task: String,
}

/// Ask for a task in the first workspace.
///
/// The body is `{content, contextMode?, scope?}` for `remember`, `{query, scope?}` for `forget`, and
/// `{}` or nothing for `dream`.
#[utoipa::path(
    post,
    path = "/workspace/memory/{kind}",
    tag = "tasks",
    params(("kind" = TaskKind, Path, description = "What kind of work it is")),
    request_body = TaskBody,
    responses(
        (status = 202, description = "It is queued", body = Task),
        (status = "4XX", description = "It is not", body = ErrorBody),
        (status = "5XX", description = "It is not", body = ErrorBody),
    ),
)]
async fn submit(
    State(daemon): State<SharedState>,
    Path(KindPath { workspace, kind }): Path<KindPath>,
    request: Request,
) -> Result<(StatusCode, Json<Task>), ErrorResponse> {
    let kind = parse_kind(&kind)?;
    let headers = request.headers().clone();
    let fields = body::fields(request).await?;
    let workspace = daemon.trusted_workspace(workspace.as_deref())?;
    let asked = from_wire::request(kind, &fields)?;
    let client = daemon.client_id(workspace, &headers).await?;
    let read = daemon.outside_read_of(client.as_ref().map(ToString::to_string));
    let mut by = Requester::client(ORIGIN, client);
    if read.is_set() {
        by.trust = Trust::Outside;
    }
    let submitted = daemon.serving.lanes.submit(workspace, asked, by).await;
    let task = submitted.map_err(|error| submit_error(kind, error))?;
    Ok((StatusCode::ACCEPTED, Json(to_wire::task(&task))))
}

/// Look at a task of the first workspace.
#[utoipa::path(
    get,
    path = "/workspace/memory/{kind}/{task}",
    tag = "tasks",
    params(
        ("kind" = TaskKind, Path, description = "What kind of work it is"),
        ("task" = String, Path, description = "Its id"),
    ),
    responses(
        (status = 200, description = "How far it is", body = Task),
        (status = "4XX", description = "It cannot be looked at", body = ErrorBody),
        (status = "5XX", description = "It cannot be looked at", body = ErrorBody),
    ),
)]
async fn get(
    State(daemon): State<SharedState>,
    Path(path): Path<TaskPath>,
    headers: HeaderMap,
) -> Result<Json<Task>, ErrorResponse> {
    let (kind, workspace, id, client) = daemon.task(&path, &headers).await?;
    let viewer = Viewer::Client(client.as_ref());
    let found = daemon.serving.lanes.get(workspace, &id, viewer).await?;
    let task = found.ok_or_else(|| not_found(kind))?;
    Ok(Json(to_wire::task(&task)))
}

/// Take a task of the first workspace back.
#[utoipa::path(
    delete,
    path = "/workspace/memory/{kind}/{task}",
    tag = "tasks",
    params(
        ("kind" = TaskKind, Path, description = "What kind of work it is"),
        ("task" = String, Path, description = "Its id"),
    ),
    responses(
        (status = 200, description = "It is over: taken back, or done before", body = Task),
        (status = 202, description = "It is being stopped and ends soon", body = Task),
        (status = "4XX", description = "It cannot be looked at", body = ErrorBody),
        (status = "5XX", description = "It cannot be looked at", body = ErrorBody),
    ),
)]
async fn cancel(
    State(daemon): State<SharedState>,
    Path(path): Path<TaskPath>,
    headers: HeaderMap,
) -> Result<(StatusCode, Json<Task>), ErrorResponse> {
    let (kind, workspace, id, client) = daemon.task(&path, &headers).await?;
    let viewer = Viewer::Client(client.as_ref());
    let found = daemon.serving.lanes.cancel(workspace, &id, viewer).await?;
    let (status, task) = match found.ok_or_else(|| not_found(kind))? {
        CancelOutcome::AlreadyEnded(task) => (StatusCode::OK, task),
        CancelOutcome::Requested(task) => (StatusCode::ACCEPTED, task),
    };
    Ok((status, Json(to_wire::task(&task))))
}

/// Which tasks to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TaskListParams {
    /// The id of the workspace; left out, the first one.
    workspace: Option<String>,
    /// Only those of this kind.
    kind: Option<WorkKind>,
    /// Only those that are so far.
    status: Option<TaskStatus>,
    /// At most so many.
    max: Option<usize>,
}

/// List the tasks that this client may see, the latest first.
#[utoipa::path(
    get,
    path = "/v1/tasks",
    operation_id = "list_tasks",
    tag = "tasks",
    params(TaskListParams),
    responses(
        (status = 200, description = "The tasks", body = TaskList),
        (status = "4XX", description = "They cannot be listed", body = ErrorBody),
        (status = "5XX", description = "They cannot be listed", body = ErrorBody),
    ),
)]
async fn list(
    State(daemon): State<SharedState>,
    wanted: Result<Query<TaskListParams>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
) -> Result<Json<TaskList>, ErrorResponse> {
    let Query(wanted) = wanted?;
    let workspace = daemon.trusted_workspace(wanted.workspace.as_deref())?;
    let client = daemon.client_id(workspace, &headers).await?;
    let filter = TaskFilter {
        kind: wanted.kind.map(Twin::twin),
        status: wanted.status.map(Twin::twin),
        max: Some(wanted.max.unwrap_or(TASKS_LISTED_MAX).min(TASKS_LISTED_MAX)),
    };
    let viewer = Viewer::Client(client.as_ref());
    let tasks = daemon.serving.lanes.list(workspace, filter, viewer).await?;
    Ok(Json(TaskList { tasks: tasks.iter().map(to_wire::listed_task).collect() }))
}

fn parse_kind(word: &str) -> Result<TaskKind, ErrorResponse> {
    word.parse().map_err(|_| ErrorCode::RouteNotFound.into())
}

impl AppState {
    /// Reads which task a request is about, and which client asks.
    async fn task(
        &self,
        path: &TaskPath,
        headers: &HeaderMap,
    ) -> Result<(TaskKind, &Workspace, TaskId, Option<ClientId>), ErrorResponse> {
        let kind = parse_kind(&path.kind)?;
        let workspace = self.trusted_workspace(path.workspace.as_deref())?;
        let client = self.client_id(workspace, headers).await?;
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
