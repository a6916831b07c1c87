//! The guard that every request passes before routing: host, origin, token, rate limit.
//!
//! The checks run in this order, and the first failure is the answer. The guard reads no body and decides nothing
//! about memories; it knows only the public routes (`GET /health`, and the files and login of the page). It also
//! names requests, counts and logs answers, sets common headers, and puts each body under the shared budget. In a daemon
//! with a database it also counts connections for owners, and ends answers whose token is refused meanwhile.

mod host;

mod origin;

mod owner_tokens;

mod rate;

mod refusal;

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
use uuid::Uuid;

pub use host::{AllowedHosts, BadHost};
pub use origin::{BadOrigin, Origin};
pub(super) use owner_tokens::OwnerTokens;
pub use token::{BadToken, BearerToken};

use self::rate::{ClientRateLimiter, RatedSender};
use super::body_budget::BodyBudget;
use super::connection_state::ConnectionState;
use super::logins::Logins;
use super::metrics::Metrics;
use super::owner_shares::{NoConnectionLeft, OwnerConnection, OwnerShares};
use super::owners::RequestOwner;
use super::request::client_name;
use crate::error::ErrorResponse;
use crate::limits::{HTTP_BODIES_BYTES_MAX, HTTP_RETRY_AFTER_SECONDS};

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
    /// Whether a TLS proxy is in front, so that the page of this daemon may have an `https` origin.
    pub behind_proxy: bool,
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
    /// The tokens of owners in a database, if there is one.
    owner_tokens: Option<OwnerTokens>,
    owner_shares: Arc<OwnerShares>,
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
        owner_tokens: Option<OwnerTokens>,
        owner_shares: Arc<OwnerShares>,
    ) -> Self {
        let rate_limiter = config.requests_per_second_max.map(ClientRateLimiter::new);
        // Not the id of the process, which is the same in all containers.
        let process = format!("{:x}-", Uuid::new_v4().as_fields().0);
        Self {
            config,
            rate_limiter,
            body_budget: BodyBudget::new(HTTP_BODIES_BYTES_MAX),
            request_ids: RequestIds { process, last: AtomicU64::new(0) },
            metrics,
            logins,
            owner_tokens,
            owner_shares,
        }
    }

    /// Checks the host and the origin of a request, and whether it may have no token; the error is the answer to it.
    fn check_route(&self, request: &Request) -> Result<TokenNeed, ErrorResponse> {
        let headers = request.headers();
        if !self.config.hosts.allow(request.uri(), headers) {
            return Err(ErrorCode::HostNotAllowed.into());
        }
        let is_own = self.logins.is_some()
            && origin::is_own(request.uri(), headers, self.config.behind_proxy);
        if !is_own && !origin::allows(&self.config.origins, headers) {
            return Err(ErrorCode::OriginNotAllowed.into());
        }
        let needs_no_token =
            is_public(request) || self.logins.is_some() && is_public_page_request(request);
        if needs_no_token || origin::is_preflight(request) {
            return Ok(TokenNeed::NoToken);
        }
        if self.config.token.matches_headers(headers) || self.is_logged_in(request) {
            return Ok(TokenNeed::Known);
        }
        match (token::presented_token(headers), &self.owner_tokens) {
            (Some(token), Some(_)) => Ok(TokenNeed::Unknown {
                token: token.to_owned(),
                is_current: is_about_tokens(request.uri().path()),
            }),
            _ => Err(unauthorized()),
        }
    }

    /// Returns the caller of a request; the error is the answer to it.
    async fn caller(&self, need: TokenNeed) -> Result<RequestOwner, ErrorResponse> {
        match (need, &self.owner_tokens) {
            (TokenNeed::NoToken, _) => Ok(RequestOwner::Anonymous),
            (TokenNeed::Known, _) => Ok(RequestOwner::Operator),
            (TokenNeed::Unknown { .. }, None) => Err(unauthorized()),
            (TokenNeed::Unknown { token, is_current }, Some(tokens)) => {
                let rights = tokens.rights(&token, is_current).await?;
                rights.map(RequestOwner::Owner).ok_or_else(unauthorized)
            }
        }
    }

    /// Counts the connection of a request for the owner of its token, or refuses the request if the owner has its share of
    /// the connections. Only then the connection has authenticated: one that is refused can be evicted like one without
    /// a token.
    fn count_connection(
        &self,
        request: &Request,
        caller: &RequestOwner,
    ) -> Result<Option<Arc<OwnerConnection>>, ErrorResponse> {
        let Some(connection) = request.extensions().get::<ConnectionState>() else {
            return Ok(None);
        };
        let counted = match caller {
            // The connection stays that of an owner: requests without a token must not free a share.
            RequestOwner::Anonymous => return Ok(None),
            RequestOwner::Operator => {
                connection.count_for_none();
                None
            }
            RequestOwner::Owner(rights) => {
                let counted = connection.count_for(&rights.owner, &self.owner_shares);
                Some(counted.map_err(too_many_connections)?)
            }
        };
        connection.mark_authenticated();
        Ok(counted)
    }

    /// Checks whether a caller sends too many requests. Callers without a token are not counted.
    fn check_rate(&self, request: &Request, caller: &RequestOwner) -> Result<(), ErrorResponse> {
        let connection = request.extensions().get::<ConnectionState>();
        let sender = match caller {
            RequestOwner::Anonymous => return Ok(()),
            RequestOwner::Operator => RatedSender::Peer(connection.map(ConnectionState::peer)),
            RequestOwner::Owner(rights) => RatedSender::Owner(rights.owner.as_str().into()),
        };
        let limiter = self.rate_limiter.as_ref();
        limiter.map_or(Ok(()), |limiter| {
            limiter.check(sender, client_name(request.headers())).map_err(too_many_requests)
        })
    }

    /// Checks whether a request carries the token of a logged-in browser. Such a token creates neither tickets nor tokens, so a
    /// login cannot be passed on.
    fn is_logged_in(&self, request: &Request) -> bool {
        let path = request.uri().path();
        let token = token::presented_token(request.headers())
            .filter(|_| path != TICKET_PATH && !is_about_tokens(path));
        self.logins.as_ref().zip(token).is_some_and(|(logins, token)| logins.is_valid(token))
    }
}

/// The token that a request carries.
#[derive(Clone, Debug)]
enum TokenNeed {
    /// The route needs none.
    NoToken,
    /// The daemon's own token, or that of a logged-in browser.
    Known,
    /// A token that only the directory may know.
    Unknown {
        token: String,
        /// Whether the cache must not answer.
        is_current: bool,
    },
}

/// Checks whether a path is that of the tokens. A token that was revoked must create no other one.
fn is_about_tokens(path: &str) -> bool {
    path.starts_with("/v1/tokens")
}

fn unauthorized() -> ErrorResponse {
    ErrorResponse::from(ErrorCode::Unauthorized).with_challenge()
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

fn too_many_connections(reason: NoConnectionLeft) -> ErrorResponse {
    let refused = match reason {
        NoConnectionLeft::OfOwner => too_many_requests(HTTP_RETRY_AFTER_SECONDS)
            .with_message("the owner has too many open connections; close some and try again"),
        NoConnectionLeft::OfAll => ErrorResponse::from(ErrorCode::Overloaded)
            .with_message("the owners have too many open connections; try again")
            .retry_after(HTTP_RETRY_AFTER_SECONDS),
    };
    refused.close_connection()
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
        let checked = match guard.check_route(&request) {
            Ok(need) => guard.caller(need.clone()).await.map(|caller| (need, caller)),
            Err(refused) => Err(refused),
        };
        let checked = checked.and_then(|(need, caller)| {
            let connection = guard.count_connection(&request, &caller)?;
            guard.check_rate(&request, &caller)?;
            Ok(CheckedRequest { need, caller, connection })
        });
        match checked {
            Err(refused) => refused.into_response(),
            Ok(_) if origin::is_preflight(&request) => origin::preflight(),
            Ok(checked) => pass_on(&guard, checked, request, next).await,
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

/// The result of all checks of a request.
#[derive(Debug)]
struct CheckedRequest {
    need: TokenNeed,
    caller: RequestOwner,
    /// Its connection, if it counts for an owner.
    connection: Option<Arc<OwnerConnection>>,
}

/// Passes a request on to the routes.
async fn pass_on(
    guard: &Arc<RequestGuard>,
    CheckedRequest { need, caller, connection }: CheckedRequest,
    request: Request,
    next: Next,
) -> Response {
    let (mut request, permit) = guard.body_budget.limit(request, connection.clone());
    request.extensions_mut().insert(caller);
    if let Some(permit) = &permit {
        // For handlers whose work outlives the response: they keep the permit until they are done.
        request.extensions_mut().insert(permit.clone());
    }
    if let Some(connection) = &connection {
        request.extensions_mut().insert(Arc::clone(connection));
    }
    let running = next.run(request);
    let response = run_to_completion(async move {
        let response = running.await;
        // A request that outlives its connection counts for its owner until it is done.
        drop((permit, connection));
        response
    })
    .await;
    match need {
        TokenNeed::Unknown { .. } => guard.end_when_refused(need, response),
        TokenNeed::NoToken | TokenNeed::Known => response,
    }
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
