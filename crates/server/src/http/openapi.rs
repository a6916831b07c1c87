//! The description of all routes: OpenAPI 3.1, made from the code that serves them.
//!
//! It is made by a test, which fails when the embedded one says something else; `cargo xtask docs` has
//! it written.

use std::sync::LazyLock;

use axum::Json;
use axum::extract::State;
use axum::response::Html;
use protocol::error::{ErrorBody, ErrorCode};
use serde_json::Value;

use super::app_state::SharedState;
use super::docs_page;
use super::routes::{Routes, routes};
use super::{
    archive, batch, changes, context, context_files, conversations, events, health, mcp, memories,
    pending, server_status, sessions, settings, tasks, tool, ui, workspaces,
};

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    // What a test has read as JSON is JSON.
    serde_json::from_str(include_str!("openapi/document.json")).unwrap_or_default()
});

/// Returns all routes, with their description.
pub(super) fn routes() -> Routes {
    Routes::new()
        .merge(server_status::routes())
        .merge(tasks::routes())
        .merge(sessions::routes())
        .merge(context::routes())
        .merge(conversations::routes())
        .merge(events::routes())
        .merge(memories::routes())
        .merge(batch::routes())
        .merge(context_files::routes())
        .merge(tool::routes())
        .merge(mcp::routes())
        .merge(changes::routes())
        .merge(pending::routes())
        .merge(archive::routes())
        .merge(workspaces::routes())
        .merge(health::routes())
        .merge(settings::routes())
        .merge(ui::routes())
        .routes(routes!(description: NOTHING))
        .routes(routes!(docs: NOTHING))
}

/// Returns the description of what the daemon serves.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// Describe all routes, as OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "daemon",
    responses(
        (status = 200, description = "The description", body = Object),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
    ),
)]
async fn description(State(_daemon): State<SharedState>) -> Json<&'static Value> {
    Json(document())
}

/// Describe all routes, as a page for people.
#[utoipa::path(
    get,
    path = "/docs",
    tag = "daemon",
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
    ),
)]
async fn docs(State(_daemon): State<SharedState>) -> Html<String> {
    Html(docs_page::render(document(), ErrorCode::ALL))
}

#[cfg(test)]
mod tests;
