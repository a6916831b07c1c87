//! Routes about the daemon itself: health, capabilities, statistics, metrics.
//!
//! `GET /health` is cheap and needs no token. Its deep form, and the counts of `/v1/stats` and `/metrics`, examine
//! the memories of the served workspaces. What a metric is called is in `metrics.rs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Query;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use engine::{Depth, HealthFindingKind, Status};
use memory::feature::Feature;
use memory::limits::{
    EVENTS_WAITING_MAX, MEMORY_BYTES_MAX, SESSION_STREAMS_MAX, TASKS_MINOR_MAX,
    TASKS_UNFINISHED_MAX,
};
use memory::path::Mount;
use protocol::capabilities::{
    Capabilities, Health, Limits, PROTOCOL_VERSION, ProtocolVersions, WorkspaceCapability,
    WorkspaceHealth,
};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::status::{HistoryStats, Stats};
use protocol::task::{ContextMode, TASK_TEXT_BYTES_MAX};
use serde::Deserialize;
use serde_json::{Value, json};
use strum::VariantArray as _;
use utoipa::IntoParams;

use super::app_state::{AppState, SharedState};
use super::owner_shares::OwnerConnection;
use super::owners::{Owners, RequestOwner};
use super::request::{QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::HTTP_BODY_BYTES_MAX;
use crate::to_wire;

/// The features of the task API with the switch that each needs. Those of managed memory come first.
const FEATURES: [(&str, Feature); 14] = [
    ("workspace_memory_remember", Feature::Tasks),
    ("workspace_memory_forget", Feature::Tasks),
    ("workspace_memory_dream", Feature::Tasks),
    ("workspace_memory_remember_project_scope", Feature::Tasks),
    ("workspace_memory_remember_user_scope", Feature::Tasks),
    ("workspace_memory_forget_scope", Feature::Tasks),
    ("workspace_memory", Feature::ContextFiles),
    ("session_events", Feature::Memory),
    ("client_heartbeat", Feature::Memory),
    ("lukasa_tasks", Feature::Tasks),
    ("lukasa_memories", Feature::Memory),
    ("lukasa_history", Feature::Memory),
    ("lukasa_transfer", Feature::Memory),
    ("lukasa_mcp", Feature::Memory),
];

/// The number of features, from the start of the list, that belong to managed memory.
const MANAGED_FEATURES: usize = 6;

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(health: NOTHING))
        .add(routes!(capabilities: NOTHING))
        .add(routes!(stats: MEMORY))
        .add(routes!(metrics: NOTHING))
}

/// The query of a health check.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct HealthParams {
    /// `1` also checks the state and all memories.
    deep: Option<String>,
}

/// Check that the daemon is running. Needs no token.
///
/// With a query it needs a token. `deep=1` also checks that memories can be read and written, and counts them; if
/// they cannot, the answer is 503 with the findings.
#[utoipa::path(
    get,
    path = "/health",
    tag = "daemon",
    security((), ("token" = [])),
    params(HealthParams),
    responses(
        (status = 200, description = "The daemon is running", body = Health),
        ErrorResponse,
    ),
)]
async fn health(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<HealthParams>,
) -> Result<Json<Health>, ErrorResponse> {
    let Query(HealthParams { deep }) = query?;
    let is_deep = deep.is_some_and(|deep| !["", "0", "false"].contains(&deep.as_str()));
    let workspaces = if is_deep { Some(daemon.examine().await?) } else { None };
    Ok(Json(Health { status: "ok".to_owned(), workspaces }))
}

/// List the daemon's capabilities and limits.
#[utoipa::path(
    get,
    path = "/capabilities",
    tag = "daemon",
    responses(
        (status = 200, description = "The capabilities", body = Capabilities),
        ErrorResponse,
    ),
)]
async fn capabilities(
    Extension(daemon): Extension<SharedState>,
) -> Result<Json<Capabilities>, ErrorResponse> {
    let primary = daemon.workspace(None).await?;
    let switches = daemon.engine.switches();
    let served = daemon.workspaces.all();
    let has = |feature| served.iter().any(|of| switches.for_workspace(of).has(feature));
    let is_on = has(Feature::Tasks) && served.iter().any(|workspace| workspace.memory_enabled);
    let off = if is_on { 0 } else { MANAGED_FEATURES };
    let modes: Vec<_> =
        ContextMode::VARIANTS.iter().map(|mode| Value::from(mode.as_ref())).collect();
    let remember = ("workspace_memory_remember".to_owned(), json!({ "modes": modes }));
    Ok(Json(Capabilities {
        v: 1,
        protocol_versions: ProtocolVersions {
            current: PROTOCOL_VERSION.to_owned(),
            supported: vec![PROTOCOL_VERSION.to_owned()],
        },
        mode: "native".to_owned(),
        features: FEATURES
            .into_iter()
            .skip(off)
            .filter(|(_, feature)| has(*feature))
            .map(|(name, _)| name.to_owned())
            .collect(),
        feature_options: BTreeMap::from_iter(is_on.then_some(remember)),
        model_services: Vec::new(),
        transports: vec!["rest".to_owned()],
        limits: limits(),
        workspace_cwd: primary.cwd.to_string(),
        workspaces: served.iter().map(|served| workspace(served)).collect(),
        lukasa_version: env!("CARGO_PKG_VERSION").to_owned(),
    }))
}

fn workspace(workspace: &engine::Workspace) -> WorkspaceCapability {
    WorkspaceCapability {
        id: workspace.id.clone(),
        cwd: workspace.cwd.to_string(),
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

/// Count memories, changes, connections and streams.
///
/// Connections and streams are those of the daemon. With a token of an owner they are the owner's, and the size of the
/// database is left out.
#[utoipa::path(
    get,
    path = "/v1/stats",
    tag = "daemon",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The counts", body = Stats),
        ErrorResponse,
    ),
)]
async fn stats(
    Extension(daemon): Extension<SharedState>,
    Extension(caller): Extension<RequestOwner>,
    connection: Option<Extension<Arc<OwnerConnection>>>,
    query: QueryResult<WorkspaceQuery>,
    headers: HeaderMap,
) -> Result<Json<Stats>, ErrorResponse> {
    let Query(WorkspaceQuery { workspace }) = query?;
    let memories = daemon.person_memories(workspace.as_deref(), &headers).await?;
    let health = memories.examine(Depth::Quick).await?;
    let is_owner = matches!(caller, RequestOwner::Owner(_));
    let (connections, event_streams) = if is_owner {
        let connections = connection.map_or(0, |Extension(connection)| connection.count());
        (to_wire::count(connections), daemon.event_streams.count())
    } else {
        daemon.metrics.open_counts()
    };
    let workspace = daemon.workspace(workspace.as_deref()).await?;
    let next_dream = daemon.serving.lanes.next_dream(&workspace).await?;
    Ok(Json(Stats {
        workspace_id: workspace.id.clone(),
        next_dream: next_dream.map(to_wire::next_dream),
        scopes: health.roots.iter().map(to_wire::scope_stats).collect(),
        history: HistoryStats {
            changes: health.state.changes,
            open: health.state.open,
            content_bytes: health.state.content_bytes,
            database_bytes: (!is_owner).then_some(health.state.database_bytes),
        },
        event_streams,
        connections,
    }))
}

/// Get the daemon's metrics, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "daemon",
    responses(
        (status = 200, description = "The metrics",
        content_type = "application/openmetrics-text", body = String),
        ErrorResponse,
    ),
)]
async fn metrics(
    Extension(daemon): Extension<SharedState>,
    Extension(owners): Extension<Arc<Owners>>,
) -> Result<Response, ErrorResponse> {
    daemon.update_metrics().await?;
    daemon.metrics.set_owners(&owners.sizes().await?);
    let text = daemon.metrics.text().map_err(|_| ErrorCode::Internal)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

/// Findings that make the daemon unhealthy: memories cannot be read or written. All others can wait for a person.
const SEVERE_FINDINGS: [HealthFindingKind; 4] = [
    HealthFindingKind::Unwritable,
    HealthFindingKind::DiskFull,
    HealthFindingKind::StateDamaged,
    HealthFindingKind::StateUnavailable,
];

/// The finding of tasks that wait because the state, or the lock file of the lane, cannot be written.
const TASKS_WAIT: &str = "tasks-wait";

impl AppState {
    /// Examines the memories and tasks of all workspaces. Severe findings are an error that lists them.
    async fn examine(&self) -> Result<Vec<WorkspaceHealth>, ErrorResponse> {
        let (mut examined, mut severe) = (Vec::new(), Vec::new());
        for workspace in self.workspaces.examined() {
            let caller = engine::Caller::person("http");
            let memories = self.engine.memories(&workspace.binding, caller);
            let health = memories.health(Depth::Quick).await?;
            let findings = health.findings.iter();
            let findings = findings.filter(|finding| SEVERE_FINDINGS.contains(&finding.kind));
            severe.extend(findings.map(|finding| {
                let scope = finding.mount.map(Mount::word);
                json!({ "workspace": workspace.id, "scope": scope, "kind": finding.kind.as_str() })
            }));
            if let Some(code) = self.serving.lanes.retry_cause(&workspace) {
                let code = code.as_ref();
                severe.push(json!({ "workspace": workspace.id, "kind": TASKS_WAIT, "code": code }));
            }
            if !severe.is_empty() {
                // Tasks are kept in the state, which may be what is damaged.
                continue;
            }
            let unfinished = self
                .serving
                .lanes
                .counts()
                .await?
                .into_iter()
                .filter(|count| count.workspace == workspace.id && !count.status.is_final());
            examined.push(WorkspaceHealth {
                id: workspace.id.clone(),
                memories: to_wire::count(health.roots.iter().map(|root| root.files).sum()),
                unfinished_tasks: unfinished.map(|count| count.tasks).sum(),
                findings: to_wire::count(health.findings.len()),
            });
        }
        if severe.is_empty() {
            return Ok(examined);
        }
        Err(ErrorBody::new(ErrorCode::Degraded).with_fact("findings", severe).into())
    }

    /// Sets the gauges of all workspaces to their current values.
    async fn update_metrics(&self) -> Result<(), ErrorResponse> {
        let counts = self.serving.lanes.counts().await?;
        self.metrics.set_models(&self.serving);
        for workspace in self.workspaces.examined() {
            let caller = engine::Caller::person("http");
            let memories = self.engine.memories(&workspace.binding, caller);
            let health = memories.examine(Depth::Quick).await?;
            for root in &health.roots {
                let scope = root.mount.word();
                self.metrics.set_scope(&workspace.id, scope, (root.files, root.bytes));
            }
            self.metrics.set_history(health.state.changes, health.state.database_bytes);
            for &status in Status::ALL {
                let mut of_status = counts
                    .iter()
                    .filter(|count| count.workspace == workspace.id && count.status == status);
                let tasks = of_status.next().map_or(0, |count| count.tasks);
                self.metrics.set_tasks(&workspace.id, status.as_str(), tasks);
            }
        }
        Ok(())
    }
}
