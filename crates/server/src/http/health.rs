//! Routes that check the memories of a workspace and repair them.
//!
//! The checks and repairs are the engine's; stale memories are added here as advice. The daemon's own health is in
//! `server_status.rs`.

use axum::{Extension, Json};
use engine::Depth;
use protocol::health::{MemoryHealth, RepairResponse};

use super::app_state::{PersonRequest, SharedState};
use super::request::WorkspaceQuery;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(health: MEMORY)).add(routes!(repair: MEMORY))
}

/// Check every memory for problems, and list advice.
///
/// This reads all memories and may take some seconds.
#[utoipa::path(
    get,
    path = "/v1/health/memories",
    operation_id = "memory_health",
    tag = "memories",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The findings and the advice", body = MemoryHealth),
        ErrorResponse,
    ),
)]
async fn health(
    Extension(daemon): Extension<SharedState>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<MemoryHealth>, ErrorResponse> {
    let health = memories.health(Depth::Thorough).await?;
    let stale = engine::stale_memories(&memories, daemon.clock.now()).await?;
    Ok(Json(to_wire::health(&health, &stale, &memories)))
}

/// Repair what can be repaired without data loss.
#[utoipa::path(
    post,
    path = "/v1/health/memories/repair",
    operation_id = "repair_memories",
    tag = "memories",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "The repairs, and the remaining findings", body = RepairResponse),
        ErrorResponse,
    ),
)]
async fn repair(
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<RepairResponse>, ErrorResponse> {
    let repaired = memories.repair().await?;
    Ok(Json(to_wire::repaired(&repaired, &memories)))
}
