//! The OpenAPI 3.1 description of all routes, and the page that shows it.
//!
//! The description is generated from the `#[utoipa::path]` attributes of the handlers, by a test: the program embeds
//! only the resulting `document.json`, not the code that builds it. The test fails when the file is out of date;
//! `cargo xtask docs` writes it.

use std::sync::LazyLock;

use axum::response::Html;
use axum::{Extension, Json};
use protocol::error::ErrorCode;
use serde_json::Value;

use super::app_state::SharedState;
use super::docs_page;
use super::routes::{Routes, routes};
use super::{
    archive, batch, changes, context, context_files, conversations, events, health, mcp, memories,
    pending, server_status, sessions, settings, tasks, tokens, tool, ui, workspaces,
};

use crate::error::ErrorResponse;

static DOCUMENT: LazyLock<Value> = LazyLock::new(|| {
    // Cannot fail: a test parses the same file.
    serde_json::from_str(include_str!("openapi/document.json")).unwrap_or_default()
});

/// Returns all routes of the daemon.
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
        .merge(tokens::routes())
        .merge(ui::routes())
        .add(routes!(description: NOTHING))
        .add(routes!(docs: NOTHING))
}

/// Returns the OpenAPI description of the daemon's routes.
pub fn document() -> &'static Value {
    &DOCUMENT
}

/// Get the OpenAPI 3.1 description of all routes.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "daemon",
    responses(
        (status = 200, description = "The OpenAPI document", body = Object),
        ErrorResponse,
    ),
)]
async fn description(Extension(_daemon): Extension<SharedState>) -> Json<&'static Value> {
    Json(document())
}

/// Get the description of all routes as an HTML page.
#[utoipa::path(
    get,
    path = "/docs",
    tag = "daemon",
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        ErrorResponse,
    ),
)]
async fn docs(Extension(_daemon): Extension<SharedState>) -> Html<String> {
    Html(docs_page::render(document(), ErrorCode::ALL))
}

#[cfg(test)]
mod tests;
