//! Routes of the web page at `/ui`: its static files, and the login of a browser.
//!
//! The files hold no personal data, so every client that reaches the daemon may load them. `lukasa ui` opens a
//! browser with a ticket in the fragment of the address, which is neither sent to a server nor logged. The page
//! exchanges the ticket for a token of its own. The daemon's own token never reaches a browser.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::{Extension, Json};
use memory::document::Revision;
use protocol::error::ErrorCode;
use protocol::ui::{Login, LoginRequest, Ticket};

use super::app_state::SharedState;
use super::request::Path;
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;

/// Embeds the files of the page: name, content type and bytes.
macro_rules! files {
    ($($name:literal: $kind:literal),+ $(,)?) => {
        [$(($name, $kind, include_bytes!(concat!("../../ui/", $name)).as_slice())),+]
    };
}

static FILES: &[(&str, &str, &[u8])] = &files![
    "actions.js": "text/javascript; charset=utf-8",
    "api.js": "text/javascript; charset=utf-8",
    "app.js": "text/javascript; charset=utf-8",
    "changes.js": "text/javascript; charset=utf-8",
    "compare.js": "text/javascript; charset=utf-8",
    "conflict.js": "text/javascript; charset=utf-8",
    "context.js": "text/javascript; charset=utf-8",
    "dialog.js": "text/javascript; charset=utf-8",
    "diff.js": "text/javascript; charset=utf-8",
    "dom.js": "text/javascript; charset=utf-8",
    "drafts.js": "text/javascript; charset=utf-8",
    "editor.js": "text/javascript; charset=utf-8",
    "events.js": "text/javascript; charset=utf-8",
    "find.js": "text/javascript; charset=utf-8",
    "format.js": "text/javascript; charset=utf-8",
    "frontmatter.js": "text/javascript; charset=utf-8",
    "health.js": "text/javascript; charset=utf-8",
    "history.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "icons.js": "text/javascript; charset=utf-8",
    "inbox.js": "text/javascript; charset=utf-8",
    "index.html": "text/html; charset=utf-8",
    "keys.js": "text/javascript; charset=utf-8",
    "markdown.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "router.js": "text/javascript; charset=utf-8",
    "rows.js": "text/javascript; charset=utf-8",
    "runs.js": "text/javascript; charset=utf-8",
    "settings.js": "text/javascript; charset=utf-8",
    "store.js": "text/javascript; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "tasks.js": "text/javascript; charset=utf-8",
    "tree.js": "text/javascript; charset=utf-8",
    "trust.js": "text/javascript; charset=utf-8",
];

/// The content security policy: nothing is loaded from other origins, no inline script runs, and no other page may
/// frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

pub(super) fn routes() -> Routes {
    Routes::new()
        .add(routes!(redirect_to_index: PAGE))
        .add(routes!(index: PAGE))
        .add(routes!(file: PAGE))
        .add(routes!(ticket: PAGE))
        .add(routes!(log_in: PAGE))
}

/// Redirect to the web page.
#[utoipa::path(get, path = "/ui", tag = "page", security(()),
    responses(
        (status = 308, description = "The page is at `/ui/`"),
        ErrorResponse,
    ))]
async fn redirect_to_index() -> Redirect {
    Redirect::permanent("/ui/")
}

/// Get the web page. Needs no token, because it holds no data.
#[utoipa::path(get, path = "/ui/", tag = "page", security(()),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 304, description = "The browser has the current version"),
        ErrorResponse,
    ))]
async fn index(headers: HeaderMap) -> Response {
    serve_asset("index.html", &headers)
}

/// Get a file of the page. Needs no token.
#[utoipa::path(get, path = "/ui/{file}", tag = "page", security(()),
    params(("file" = String, Path, description = "The name of the file")),
    responses(
        (status = 200, description = "The file", content_type = "text/javascript", body = String),
        (status = 304, description = "The browser has the current version"),
        ErrorResponse,
    ))]
async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    serve_asset(&name, &headers)
}

/// Create a ticket for a browser that is about to be opened. It is valid for one login within a minute.
#[utoipa::path(post, path = "/ui/tickets", tag = "page",
    responses(
        (status = 200, description = "The ticket", body = Ticket),
        ErrorResponse,
    ))]
async fn ticket(Extension(daemon): Extension<SharedState>) -> Json<Ticket> {
    Json(Ticket { ticket: daemon.logins.issue_ticket() })
}

/// Exchange a ticket for a token. Needs no token. A ticket that was used or is too old is refused.
#[utoipa::path(post, path = "/ui/session", tag = "page", security(()),
    request_body = LoginRequest,
    responses(
        (status = 200, description = "The token of this browser", body = Login),
        ErrorResponse,
    ))]
async fn log_in(
    Extension(daemon): Extension<SharedState>,
    request: axum::extract::Request,
) -> Result<Json<Login>, ErrorResponse> {
    let fields = super::body::fields(request).await?;
    let ticket = fields.get("ticket").and_then(serde_json::Value::as_str).unwrap_or_default();
    let token = daemon.logins.redeem(ticket).ok_or_else(|| {
        let message =
            "the ticket was used already, or is older than a minute; `lukasa ui` gives a new one";
        ErrorResponse::from(ErrorCode::Unauthorized).with_message(message.to_owned())
    })?;
    Ok(Json(Login { token, workspace: daemon.workspace(None).await?.id.clone() }))
}

fn serve_asset(name: &str, headers: &HeaderMap) -> Response {
    let Some((_, kind, bytes)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return ErrorResponse::from(ErrorCode::RouteNotFound).into_response();
    };
    let tag = format!("\"{}\"", Revision::digest(bytes));
    let is_current =
        headers.get(IF_NONE_MATCH).is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut response = if is_current {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        (*bytes).into_response()
    };
    let mut set = |name: HeaderName, value: &'static str| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_TYPE, kind);
    // Another version of the daemon may serve other files, so the browser must revalidate each one.
    set(CACHE_CONTROL, "no-cache");
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(REFERRER_POLICY, "no-referrer");
    set(HeaderName::from_static("cross-origin-opener-policy"), "same-origin");
    set(HeaderName::from_static("cross-origin-resource-policy"), "same-origin");
    if let Ok(tag) = HeaderValue::try_from(tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test reads the source folder")]
    fn every_file_of_the_page_is_served() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
        let mut found: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let mut served: Vec<_> = FILES.iter().map(|(name, ..)| (*name).to_owned()).collect();
        found.sort();
        served.sort();
        assert_eq!(served, found);
        let bytes: usize = FILES.iter().map(|(.., bytes)| bytes.len()).sum();
        assert!(bytes <= 200 * 1024, "{bytes} bytes");
    }
}
