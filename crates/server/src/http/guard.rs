//! The gate: what is asked of every request before anybody looks at what it wants.
//!
//! In this order, and the first that fails is what is told: the host that the request names, the
//! origin of the page that sent it, the bearer token, how often this client asks. Nothing here reads
//! a body, knows a route but `GET /health`, or decides about memories. Behind it, all bodies share room.

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

/// What a person set about the gate.
#[derive(Clone, Debug)]
pub struct GuardConfig {
    /// Names of this machine beside those of the loopback.
    pub hosts: AllowedHosts,
    /// Origins whose pages may call.
    pub origins: Vec<Origin>,
    /// What a caller has to bring.
    pub token: BearerToken,
    /// Requests a second that one client may send; `None` for as many as it likes.
    pub requests_per_second_max: Option<std::num::NonZeroU32>,
}

/// The gate of one daemon.
#[derive(Debug)]
pub(super) struct RequestGuard {
    config: GuardConfig,
    rate_limiter: Option<ClientRateLimiter>,
    body_budget: BodyBudget,
    request_ids: RequestIds,
    metrics: Arc<Metrics>,
    /// Who is logged in to the page of this daemon, unless that is off.
    logins: Option<Arc<Logins>>,
}

/// Gives requests names: a word of this process and a number.
#[derive(Debug)]
struct RequestIds {
    /// What the names of this process begin with.
    process: String,
    last: AtomicU64,
}

impl RequestIds {
    /// Returns the name that the caller gave the request, if it is one, or a new one.
    fn request_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(REQUEST_ID);
        if let Some(given) = given.filter(|given| given.to_str().is_ok_and(is_client_id)) {
            return given.clone();
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let name = [&self.process, itoa::Buffer::new().format(number)].concat();
        HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("-"))
    }
}

impl RequestGuard {
    pub(super) fn new(
        rules: GuardConfig,
        measures: Arc<Metrics>,
        logins: Option<Arc<Logins>>,
    ) -> Self {
        let rates = rules.requests_per_second_max.map(ClientRateLimiter::new);
        let process = format!("{:x}-", std::process::id());
        let names = RequestIds { process, last: AtomicU64::new(0) };
        let room = BodyBudget::new(HTTP_BODIES_BYTES_MAX);
        Self {
            config: rules,
            rate_limiter: rates,
            body_budget: room,
            request_ids: names,
            metrics: measures,
            logins,
        }
    }

    /// Checks a request; an error is the answer.
    fn check(&self, request: &Request) -> Result<(), ErrorResponse> {
        let headers = request.headers();
        if !self.config.hosts.allow(request.uri(), headers) {
            return Err(ErrorCode::HostNotAllowed.into());
        }
        let is_own = self.logins.is_some() && origin::is_own(request.uri(), headers);
        if !is_own && !origin::allows(&self.config.origins, headers) {
            return Err(ErrorCode::OriginNotAllowed.into());
        }
        let is_open =
            is_public(request) || self.logins.is_some() && is_public_page_request(request);
        if is_open || origin::is_preflight(request) {
            return Ok(());
        }
        if !self.config.token.matches_headers(headers) && !self.is_logged_in(request) {
            return Err(ErrorResponse::from(ErrorCode::Unauthorized).with_challenge());
        }
        let visitor = request.extensions().get::<ConnectionState>();
        visitor.inspect(|visitor| visitor.mark_authenticated());
        match &self.rate_limiter {
            Some(rates) => {
                let peer = visitor.map(ConnectionState::peer);
                rates.check(peer, client_name(headers)).map_err(too_many_requests)
            }
            None => Ok(()),
        }
    }

    /// Tells whether a browser sends a request that is logged in. It gets no tickets for others.
    fn is_logged_in(&self, request: &Request) -> bool {
        let token = token::presented_token(request.headers())
            .filter(|_| request.uri().path() != TICKET_PATH);
        self.logins.as_ref().zip(token).is_some_and(|(logins, token)| logins.is_valid(token))
    }
}

/// Tells whether anybody may ask this. A look at how things are in depth costs more, and is not.
fn is_public(request: &Request) -> bool {
    let uri = request.uri();
    let is_plain = uri.path() == "/health" && uri.query().is_none();
    is_plain && [Method::GET, Method::HEAD].contains(request.method())
}

/// Where the daemon's own token gets tickets for browsers.
const TICKET_PATH: &str = "/ui/tickets";

/// Tells whether anybody may ask this of the page: its files, which hold nothing, and to log in, which needs a ticket.
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

/// Lets a request through to the routes, or answers it.
pub(super) async fn guard_request(
    State(gate): State<Arc<RequestGuard>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let name = gate.request_ids.request_id(request.headers());
    let span = tracing::info_span!("request", id = name.to_str().unwrap_or_default());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let origin = origin::allowed_origin(&gate.config.origins, request.headers()).cloned();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = async {
        match gate.check(&request) {
            Err(refused) => refused.into_response(),
            Ok(()) if origin::is_preflight(&request) => origin::preflight(),
            Ok(()) => {
                let (mut request, held) = gate.body_budget.limit(request);
                if let Some(held) = &held {
                    // Whoever answers later than this is over holds it as long.
                    request.extensions_mut().insert(held.clone());
                }
                let answering = next.run(request);
                run_to_completion(async move {
                    let response = answering.await;
                    drop(held);
                    response
                })
                .await
            }
        }
    }
    .instrument(span.clone())
    .await;
    let (status, took) = (response.status().as_u16(), began.elapsed());
    gate.metrics.record_response(
        &method,
        route.as_ref().map_or("none", MatchedPath::as_str),
        status,
        took,
    );
    span.in_scope(|| {
        tracing::debug!(%method, path, status, micros = took.as_micros(), "answered");
    });
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, name);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.append(VARY, HeaderValue::from_static("origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        origin::add_cors_headers(headers, origin);
    }
    response
}

/// Completes what a request asks for even when its connection goes away meanwhile: a write that stops
/// half-way would be left for a recovery.
async fn run_to_completion(work: impl Future<Output = Response> + Send + 'static) -> Response {
    match tokio::spawn(work.in_current_span()).await {
        Ok(response) => response,
        Err(died) => match died.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_shut_down) => ErrorResponse::from(ErrorCode::WorkspaceDraining).into_response(),
        },
    }
}

#[cfg(test)]
mod tests;
