//! The description of all routes: OpenAPI 3.1, made from the code that serves them.

use axum::Json;
use axum::extract::State;
use axum::response::Html;
use protocol::error::{ErrorBody, ErrorCode};
use protocol::task::{ForgetRequest, RememberRequest};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, SecurityRequirement};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::daemon::Shared;
use super::page;
use super::{about, changes, events, memories, sessions, tasks, tool, transfer};

/// The body by which a task is asked for; which one depends on its kind.
#[derive(serde::Serialize, utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described: bodies are read field by field")]
pub(super) enum TaskBody {
    /// For a remember.
    Remember(RememberRequest),
    /// For a forget.
    Forget(ForgetRequest),
    /// For a dream.
    Dream {},
}

/// Returns all routes, with their description.
pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .merge(about::routes())
        .merge(tasks::routes())
        .merge(sessions::routes())
        .merge(events::routes())
        .merge(memories::routes())
        .merge(tool::routes())
        .merge(changes::routes())
        .merge(transfer::routes())
        .routes(routes!(description))
        .routes(routes!(docs))
}

/// Returns what the daemon serves.
pub fn document() -> OpenApi {
    describe(routes().into_openapi())
}

fn describe(routes: OpenApi) -> OpenApi {
    let info = InfoBuilder::new()
        .title("Quipu")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A memory for AI coding agents. Tasks speak the API that published clients speak; all \
             else is below `/v1`. Every answer that is no success is an `ErrorBody`.",
        ))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build();
    let mut document = OpenApiBuilder::from(routes)
        .info(info)
        .security(Some([SecurityRequirement::new("token", Vec::<String>::new())]))
        .build();
    // A wildcard is the router's spelling; the description knows none.
    let paths = std::mem::take(&mut document.paths.paths);
    document.paths.paths =
        paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let components = document.components.get_or_insert_default();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("token", bearer);
    document
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
async fn description(State(_daemon): State<Shared>) -> Json<OpenApi> {
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
async fn docs(State(_daemon): State<Shared>) -> Html<String> {
    Html(page::of(&document(), ErrorCode::ALL))
}

#[cfg(test)]
mod tests;
