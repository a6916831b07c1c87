//! The page for people, at `/ui`: its files, and how a browser logs in.
//!
//! The files hold nothing of a person, so anybody who reaches the daemon may load them. A browser that is opened by `quipu ui`
//! brings a ticket in the fragment of the address, which no server and no log ever sees, and trades it for a token of its
//! own. The daemon's own token never reaches a browser.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use axum::extract::State;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Redirect, Response};
use memory::document::Revision;
use memory::limits::{UI_LOGINS_MAX, UI_SESSION_IDLE_MAX, UI_TICKET_AGE_MAX};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::ui::{Login, Ticket, Trade};
use tokio::time::Instant;
use uuid::Uuid;

use super::body::Json;
use super::daemon::Shared;
use super::path::Path;
use super::refused::Refused;
use super::routes::{Routes, routes};

/// Everything of the page: name, kind and bytes.
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

/// Nothing is loaded from elsewhere, nothing in a text is run, and no other page may frame this one.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
    trusted-types 'none'";

/// Tickets and tokens of browsers. Not kept beyond this process.
#[derive(Debug, Default)]
pub(super) struct Logins {
    /// Tickets that nobody used yet, with when they were given out.
    tickets: Mutex<HashMap<String, Instant>>,
    /// Tokens, with when they were used last.
    tokens: Mutex<HashMap<String, Instant>>,
}

impl Logins {
    /// Gives out a ticket.
    fn ticket(&self) -> String {
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, given| given.elapsed() < UI_TICKET_AGE_MAX);
        let ticket = secret();
        make_room(&mut tickets);
        tickets.insert(ticket.clone(), Instant::now());
        ticket
    }

    /// Trades a ticket for a token, once.
    fn trade(&self, ticket: &str) -> Option<String> {
        let given = {
            let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
            tickets.remove(ticket)
        };
        given.filter(|given| given.elapsed() < UI_TICKET_AGE_MAX)?;
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, used| used.elapsed() < UI_SESSION_IDLE_MAX);
        let token = secret();
        make_room(&mut tokens);
        tokens.insert(token.clone(), Instant::now());
        Some(token)
    }

    /// Tells whether a browser has this token, and notes that it was used.
    pub(super) fn has(&self, token: &str) -> bool {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        match tokens.get_mut(token) {
            Some(used) if used.elapsed() < UI_SESSION_IDLE_MAX => {
                *used = Instant::now();
                true
            }
            Some(_) => {
                tokens.remove(token);
                false
            }
            None => false,
        }
    }
}

/// Drops the oldest, if there are as many as there may be.
fn make_room(known: &mut HashMap<String, Instant>) {
    if known.len() >= UI_LOGINS_MAX
        && let Some(oldest) = known.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
    {
        known.remove(&oldest);
    }
}

/// Returns 244 random bits: nobody guesses them.
fn secret() -> String {
    [Uuid::new_v4(), Uuid::new_v4()].map(|half| half.simple().to_string()).concat()
}

pub(super) fn routes() -> Routes {
    Routes::new()
        .routes(routes!(top: PAGE))
        .routes(routes!(index: PAGE))
        .routes(routes!(file: PAGE))
        .routes(routes!(ticket: PAGE))
        .routes(routes!(log_in: PAGE))
}

/// Lead to the page for people.
#[utoipa::path(get, path = "/ui", tag = "page", security(()),
    responses(
        (status = 308, description = "It is at `/ui/`"),
        (status = "4XX", description = "It is switched off", body = ErrorBody),
    ))]
async fn top() -> Redirect {
    Redirect::permanent("/ui/")
}

/// Get the page for people. Needs no token: it holds nothing.
#[utoipa::path(get, path = "/ui/", tag = "page", security(()),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 304, description = "The browser has it"),
        (status = "4XX", description = "It is switched off", body = ErrorBody),
    ))]
async fn index(headers: HeaderMap) -> Response {
    served("index.html", &headers)
}

/// Get a file of the page. Needs no token.
#[utoipa::path(get, path = "/ui/{file}", tag = "page", security(()),
    params(("file" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The file", content_type = "text/javascript", body = String),
        (status = 304, description = "The browser has it"),
        (status = "4XX", description = "There is none of this name", body = ErrorBody),
    ))]
async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    served(&name, &headers)
}

/// Get a ticket, for a browser that is about to be opened. It is good for one login within a minute.
#[utoipa::path(post, path = "/ui/tickets", tag = "page",
    responses(
        (status = 200, description = "The ticket", body = Ticket),
        (status = "4XX", description = "The request is refused", body = ErrorBody),
    ))]
async fn ticket(State(daemon): State<Shared>) -> Json<Ticket> {
    Json(Ticket { ticket: daemon.logins.ticket() })
}

/// Trade a ticket for a token. Needs no token, and a ticket that was not used.
#[utoipa::path(post, path = "/ui/session", tag = "page", security(()),
    request_body = Trade,
    responses(
        (status = 200, description = "The token of this browser", body = Login),
        (status = "4XX", description = "The ticket was used, or is too old", body = ErrorBody),
    ))]
async fn log_in(
    State(daemon): State<Shared>,
    request: axum::extract::Request,
) -> Result<Json<Login>, Refused> {
    let fields = super::body::fields(request).await?;
    let ticket = fields.get("ticket").and_then(serde_json::Value::as_str).unwrap_or_default();
    let token = daemon.logins.trade(ticket).ok_or_else(|| {
        let used =
            "the ticket was used already, or is older than a minute; `quipu ui` gives a new one";
        Refused::from(ErrorCode::Unauthorized).saying(used.to_owned())
    })?;
    Ok(Json(Login { token, workspace: daemon.workspace(None)?.id.clone() }))
}

fn served(name: &str, headers: &HeaderMap) -> Response {
    let Some((_, kind, bytes)) = FILES.iter().find(|(known, ..)| *known == name) else {
        return Refused::from(ErrorCode::RouteNotFound).into_response();
    };
    let tag = format!("\"{}\"", Revision::of(bytes));
    let is_there =
        headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response =
        if is_there { StatusCode::NOT_MODIFIED.into_response() } else { (*bytes).into_response() };
    let mut set = |name: HeaderName, value: &'static str| {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    };
    set(CONTENT_TYPE, kind);
    // Another version of the daemon may serve other files: each is asked for again, and mostly not sent.
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
    use std::time::Duration;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test looks into the folder of the sources")]
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

    #[tokio::test(start_paused = true)]
    async fn a_ticket_is_good_once_and_for_a_minute() {
        let logins = Logins::default();
        let ticket = logins.ticket();
        let token = logins.trade(&ticket).unwrap();
        assert!(logins.has(&token) && !logins.has(&ticket) && !logins.has(""));
        assert_eq!(logins.trade(&ticket), None);
        let late = logins.ticket();
        tokio::time::advance(UI_TICKET_AGE_MAX).await;
        assert_eq!(logins.trade(&late), None);
        assert!(logins.has(&token));
        // A token lives as long as it is used.
        for _ in 0..3 {
            tokio::time::advance(UI_SESSION_IDLE_MAX.mul_f32(0.9)).await;
            assert!(logins.has(&token));
        }
        tokio::time::advance(UI_SESSION_IDLE_MAX).await;
        assert!(!logins.has(&token));
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_than_may_be() {
        let logins = Logins::default();
        let mut tokens = Vec::new();
        for _ in 0..UI_LOGINS_MAX + 5 {
            tokio::time::advance(Duration::from_millis(1)).await;
            let ticket = logins.ticket();
            tokens.push(logins.trade(&ticket).unwrap());
        }
        let live = tokens.iter().filter(|token| logins.has(token)).count();
        assert_eq!(live, UI_LOGINS_MAX);
    }
}
