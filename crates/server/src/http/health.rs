//! How the memories are: what could be better, and what can be mended.

use axum::Json;
use axum::extract::State;
use engine::Depth;
use protocol::error::ErrorBody;
use protocol::health::{MemoryHealth, RepairResponse};

use super::app_state::{PersonRequest, SharedState};
use super::request::WorkspaceQuery;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::to_wire;

pub(super) fn routes() -> Routes {
    Routes::new().routes(routes!(health: MEMORY)).routes(routes!(repair: MEMORY))
}

/// Look at every memory: what is wrong, and what could be better.
///
/// This reads all of them and may take some seconds.
#[utoipa::path(
    get,
    path = "/v1/health/memories",
    operation_id = "memory_health",
    tag = "memories",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "What was found", body = MemoryHealth),
        (status = "4XX", description = "The workspace is unknown", body = ErrorBody),
        (status = "5XX", description = "The memories cannot be looked at", body = ErrorBody),
    ),
)]
async fn health(
    State(daemon): State<SharedState>,
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<MemoryHealth>, ErrorResponse> {
    let health = memories.health(Depth::Thorough).await?;
    let stale = engine::stale_memories(&memories, daemon.clock.now()).await?;
    Ok(Json(to_wire::health(&health, &stale, &memories)))
}

/// Mend what can be mended without losing anything.
#[utoipa::path(
    post,
    path = "/v1/health/memories/repair",
    operation_id = "repair_memories",
    tag = "memories",
    params(WorkspaceQuery),
    responses(
        (status = 200, description = "What was done, and what is left", body = RepairResponse),
        (status = "4XX", description = "The workspace is unknown", body = ErrorBody),
        (status = "5XX", description = "It cannot be mended now", body = ErrorBody),
    ),
)]
async fn repair(
    PersonRequest { memories, .. }: PersonRequest,
) -> Result<Json<RepairResponse>, ErrorResponse> {
    let repaired = memories.repair().await?;
    Ok(Json(to_wire::repaired(&repaired, &memories)))
}
