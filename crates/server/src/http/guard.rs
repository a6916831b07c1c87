//! The guard that every request passes before routing: host, origin, token, rate limit.
//!
//! The checks run in this order, and the first failure is the answer. The guard reads no body and decides nothing
//! about memories; it knows only the public routes (`GET /health`, and the files and login of the page). It also
//! names requests, counts and logs answers, sets common headers, and puts each body under the shared budget.

mod host;

mod origin;

mod rate;

mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, VARY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use protocol::error::{ErrorBody, ErrorCode};
use protocol::id::is_client_id;
use tokio::time::Instant;
use tracing::Instrument as _;

pub use host::{AllowedHosts, BadHost};
pub use origin::{BadOrigin, Origin};
pub use token::{BadToken, BearerToken};

use self::rate::ClientRateLimiter;
use super::body_budget::BodyBudget;
use super::connection_state::ConnectionState;
use super::logins::Logins;
use super::metrics::Metrics;
use super::request::client_name;
use crate::error::ErrorResponse;
use crate::limits::HTTP_BODIES_BYTES_MAX;

/// The header that names a request, in both directions.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The settings of the request guard.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Names of this machine besides the loopback names.
    pub hosts: AllowedHosts,
    /// The origins whose pages may send requests.
    pub origins: Vec<Origin>,
    /// The token that a request must carry.
    pub token: BearerToken,
    /// The most requests per second of one client; `None` for no limit.
    pub requests_per_second_max: Option<std::num::NonZeroU32>,
}

/// The request guard of one daemon.
#[derive(Debug)]
pub(super) struct RequestGuard {
    config: GuardConfig,
    rate_limiter: Option<ClientRateLimiter>,
    body_budget: BodyBudget,
    request_ids: RequestIds,
    metrics: Arc<Metrics>,
    /// The browsers logged in to the page; `None` if the page is disabled.
    logins: Option<Arc<Logins>>,
}

/// A generator of request ids: a prefix of this process and a number.
#[derive(Debug)]
struct RequestIds {
    /// The prefix.
    process: String,
    last: AtomicU64,
}

impl RequestIds {
    /// Returns the request id that the caller sent, if it is valid, or a new one.
    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let sent = headers.get(REQUEST_ID);
        if let Some(sent) = sent.filter(|id| id.to_str().is_ok_and(is_client_id)) {
            return sent.clone();
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let id = [&self.process, itoa::Buffer::new().format(number)].concat();
        HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
    }
}

impl RequestGuard {
    pub(super) fn new(
        config: GuardConfig,
        metrics: Arc<Metrics>,
        logins: Option<Arc<Logins>>,
    ) -> Self {
        let rate_limiter = config.requests_per_second_max.map(ClientRateLimiter::new);
        let process = format!("{:x}-", std::process::id());
        Self {
            config,
            rate_limiter,
            body_budget: BodyBudget::new(HTTP_BODIES_BYTES_MAX),
            request_ids: RequestIds { process, last: AtomicU64::new(0) },
            metrics,
            logins,
        }
    }

    /// Checks a request; the error is the answer to it.
    fn check(&self, request: &Request) -> Result<(), ErrorResponse> {
        let headers = request.headers();
        if !self.config.hosts.allow(request.uri(), headers) {
            return Err(ErrorCode::HostNotAllowed.into());
        }
        let is_own = self.logins.is_some() && origin::is_own(request.uri(), headers);
        if !is_own && !origin::allows(&self.config.origins, headers) {
            return Err(ErrorCode::OriginNotAllowed.into());
        }
        let needs_no_token =
            is_public(request) || self.logins.is_some() && is_public_page_request(request);
        if needs_no_token || origin::is_preflight(request) {
            return Ok(());
        }
        if !self.config.token.matches_headers(headers) && !self.is_logged_in(request) {
            return Err(ErrorResponse::from(ErrorCode::Unauthorized).with_challenge());
        }
        let connection = request.extensions().get::<ConnectionState>();
        connection.inspect(|connection| connection.mark_authenticated());
        match &self.rate_limiter {
            Some(limiter) => {
                let peer = connection.map(ConnectionState::peer);
                limiter.check(peer, client_name(headers)).map_err(too_many_requests)
            }
            None => Ok(()),
        }
    }

    /// Checks whether a request carries the token of a logged-in browser. Such a token creates no tickets, so a login
    /// cannot be passed on.
    fn is_logged_in(&self, request: &Request) -> bool {
        let token = token::presented_token(request.headers())
            .filter(|_| request.uri().path() != TICKET_PATH);
        self.logins.as_ref().zip(token).is_some_and(|(logins, token)| logins.is_valid(token))
    }
}

/// Checks whether a request is the plain health check, which needs no token. The deep one costs more, and needs it.
fn is_public(request: &Request) -> bool {
    let uri = request.uri();
    let is_plain = uri.path() == "/health" && uri.query().is_none();
    is_plain && [Method::GET, Method::HEAD].contains(request.method())
}

/// The path of the route that creates login tickets; it needs the daemon's own token.
const TICKET_PATH: &str = "/ui/tickets";

/// Checks whether a request to the page needs no token: its files, which hold no data, and the login, which needs a
/// ticket instead.
fn is_public_page_request(request: &Request) -> bool {
    let path = request.uri().path();
    let is_file =
        path == "/ui" || path.strip_prefix("/ui/").is_some_and(|name| !name.contains('/'));
    match *request.method() {
        Method::GET | Method::HEAD => is_file && path != TICKET_PATH,
        Method::POST => path == "/ui/session",
        _ => false,
    }
}

fn too_many_requests(seconds: u64) -> ErrorResponse {
    let body = ErrorBody::new(ErrorCode::RateLimited).with_fact("retryAfterSeconds", seconds);
    ErrorResponse::from(body).retry_after(seconds)
}

/// The middleware: passes a request on to the routes, or answers it.
pub(super) async fn guard_request(
    State(guard): State<Arc<RequestGuard>>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let request_id = guard.request_ids.request_id(request.headers());
    let span = tracing::info_span!("request", id = request_id.to_str().unwrap_or_default());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = origin::allowed_origin(&guard.config.origins, request.headers()).cloned();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = async {
        match guard.check(&request) {
            Err(refused) => refused.into_response(),
            Ok(()) if origin::is_preflight(&request) => origin::preflight(),
            Ok(()) => {
                let (mut request, permit) = guard.body_budget.limit(request);
                if let Some(permit) = &permit {
                    // For handlers whose work outlives the response: they keep the permit until they are done.
                    request.extensions_mut().insert(permit.clone());
                }
                let running = next.run(request);
                run_to_completion(async move {
                    let response = running.await;
                    drop(permit);
                    response
                })
                .await
            }
        }
    }
    .instrument(span.clone())
    .await;
    let (status, took) = (response.status().as_u16(), started.elapsed());
    guard.metrics.record_response(
        &method,
        route.as_ref().map_or("none", MatchedPath::as_str),
        status,
        took,
    );
    span.in_scope(|| {
        tracing::debug!(%method, path, status, micros = took.as_micros(), "answered");
    });
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, request_id);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        origin::add_cors_headers(headers, origin);
    }
    response
}

/// Runs a request to its end even when its connection is closed meanwhile: a write that is dropped half-way would
/// be left for recovery.
async fn run_to_completion(work: impl Future<Output = Response> + Send + 'static) -> Response {
    match tokio::spawn(work.in_current_span()).await {
        Ok(response) => response,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_shut_down) => ErrorResponse::from(ErrorCode::WorkspaceDraining).into_response(),
        },
    }
}

#[cfg(test)]
mod tests;
