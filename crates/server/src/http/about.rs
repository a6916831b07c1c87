//! What the daemon says about itself: that it lives, what it can do, how much it holds.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use engine::{Depth, Status};
use memory::limits::{
    EVENTS_WAITING_MAX, HTTP_BODY_BYTES_MAX, MEMORY_BYTES_MAX, SESSION_STREAMS_MAX,
    TASKS_MINOR_MAX, TASKS_UNFINISHED_MAX,
};
use protocol::capabilities::{
    Capabilities, Health, Limits, PROTOCOL_VERSION, ProtocolVersions, WorkspaceCapability,
};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::status::{HistoryStats, Stats};
use protocol::task::{ContextMode, TASK_TEXT_BYTES_MAX};
use serde_json::{Value, json};

use super::daemon::{Daemon, Shared};
use super::memories::{Asked, Where};
use super::refused::Refused;
use super::routes::{Routes, routes};
use crate::to_wire;

/// What can be asked for, as the task API names it. The first ones are those of managed memory.
const FEATURES: [&str; 12] = [
    "workspace_memory_remember",
    "workspace_memory_forget",
    "workspace_memory_dream",
    "workspace_memory_remember_project_scope",
    "workspace_memory_remember_user_scope",
    "workspace_memory_forget_scope",
    "session_events",
    "client_heartbeat",
    "quipu_tasks",
    "quipu_memories",
    "quipu_history",
    "quipu_transfer",
];

/// How many of the features are those of managed memory.
const MANAGED_FEATURES: usize = 6;

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(health))
        .routes(routes!(capabilities))
        .routes(routes!(stats))
        .routes(routes!(metrics))
}

/// Tell that the daemon lives. Needs no token.
#[utoipa::path(
    get,
    path = "/health",
    tag = "daemon",
    security(()),
    responses((status = 200, description = "It does", body = Health)),
)]
async fn health() -> Json<Health> {
    Json(Health { status: "ok".to_owned() })
}

/// Tell what the daemon can do.
#[utoipa::path(
    get,
    path = "/capabilities",
    tag = "daemon",
    responses(
        (status = 200, description = "What it can do", body = Capabilities),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
    ),
)]
async fn capabilities(State(daemon): State<Shared>) -> Result<Json<Capabilities>, Refused> {
    let primary = daemon.workspace(None)?;
    let is_on = daemon.workspaces.iter().any(|workspace| workspace.memory_enabled);
    let off = if is_on { 0 } else { MANAGED_FEATURES };
    let modes: Vec<_> = ContextMode::ALL.iter().map(|mode| Value::from(mode.as_str())).collect();
    let remember = ("workspace_memory_remember".to_owned(), json!({ "modes": modes }));
    Ok(Json(Capabilities {
        v: 1,
        protocol_versions: ProtocolVersions {
            current: PROTOCOL_VERSION.to_owned(),
            supported: vec![PROTOCOL_VERSION.to_owned()],
        },
        mode: "native".to_owned(),
        features: FEATURES.into_iter().skip(off).map(str::to_owned).collect(),
        feature_options: BTreeMap::from_iter(is_on.then_some(remember)),
        model_services: Vec::new(),
        transports: vec!["rest".to_owned()],
        limits: limits(),
        workspace_cwd: primary.cwd.display().to_string(),
        workspaces: daemon.workspaces.iter().map(workspace).collect(),
        quipu_version: env!("CARGO_PKG_VERSION").to_owned(),
    }))
}

fn workspace(workspace: &engine::Workspace) -> WorkspaceCapability {
    WorkspaceCapability {
        id: workspace.id.clone(),
        cwd: workspace.cwd.display().to_string(),
        primary: workspace.primary,
        trusted: workspace.trusted,
    }
}

fn limits() -> Limits {
    Limits {
        max_body_bytes: to_wire::count(HTTP_BODY_BYTES_MAX),
        max_task_text_bytes: to_wire::count(TASK_TEXT_BYTES_MAX),
        max_memory_bytes: to_wire::count(MEMORY_BYTES_MAX),
        max_unfinished_tasks: to_wire::count(TASKS_UNFINISHED_MAX),
        max_unfinished_minor_tasks: to_wire::count(TASKS_MINOR_MAX),
        max_subscribers_per_session: to_wire::count(SESSION_STREAMS_MAX),
        max_queued_frames: to_wire::count(EVENTS_WAITING_MAX),
    }
}

/// Count what there is.
#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "daemon",
    params(Where),
    responses(
        (status = 200, description = "The counts", body = Stats),
        (status = "4XX", description = "It cannot be counted", body = ErrorBody),
        (status = "5XX", description = "It cannot be counted", body = ErrorBody),
    ),
)]
async fn stats(
    State(daemon): State<Shared>,
    asked: Asked<Where>,
    headers: HeaderMap,
) -> Result<Json<Stats>, Refused> {
    let Query(Where { workspace }) = asked?;
    let memories = daemon.person(workspace.as_deref(), &headers).await?;
    let health = memories.health(Depth::Glance).await?;
    let (connections, event_streams) = daemon.measures.open();
    Ok(Json(Stats {
        workspace_id: daemon.workspace(workspace.as_deref())?.id.clone(),
        scopes: health.roots.iter().map(to_wire::scope_stats).collect(),
        history: HistoryStats {
            changes: health.state.changes,
            open: health.state.open,
            content_bytes: health.state.content_bytes,
            database_bytes: health.state.database_bytes,
        },
        event_streams,
        connections,
    }))
}

/// Count what there is, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "daemon",
    responses(
        (status = 200, description = "The counts",
            content_type = "application/openmetrics-text", body = String),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
        (status = "5XX", description = "The machine failed", body = ErrorBody),
    ),
)]
async fn metrics(State(daemon): State<Shared>) -> Result<Response, Refused> {
    daemon.measure().await?;
    let text = daemon.measures.text().map_err(|_| ErrorCode::Internal)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

impl Daemon {
    /// Notes how much all workspaces hold at this moment.
    async fn measure(&self) -> Result<(), Refused> {
        let counts = self.serving.lanes.counts().await?;
        for workspace in self.workspaces.iter().filter(|workspace| workspace.trusted) {
            let caller = engine::Caller::person("http");
            let memories = self.engine.memories(&workspace.binding, caller);
            let health = memories.health(Depth::Glance).await?;
            for root in &health.roots {
                let scope = to_wire::mount(root.mount);
                self.measures.note_scope(&workspace.id, scope, (root.files, root.bytes));
            }
            self.measures.note_history(health.state.changes, health.state.database_bytes);
            for status in Status::ALL.map(Status::as_str) {
                let mut of_status = counts
                    .iter()
                    .filter(|count| count.workspace == workspace.id && count.status == status);
                let tasks = of_status.next().map_or(0, |count| count.tasks);
                self.measures.note_tasks(&workspace.id, status, tasks);
            }
        }
        Ok(())
    }
}
