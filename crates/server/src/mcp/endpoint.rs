//! MCP over streamable HTTP: the endpoint of one workspace.
//!
//! The newest revision is stateless. Older ones begin with a handshake and continue in a session, which holds their
//! subscriptions. Host, origin, caller and body size were checked before, by the request guard and the route. This
//! module wraps the protocol library's service: it adds the rules of sessions, converts answers to the accepted form,
//! and turns the library's plain-text errors into JSON-RPC errors.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode};
use engine::{Caller, Feeds};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full as Whole};
use memory::access::AgentClass;
use memory::json;
use memory::limits::MCP_SHUTDOWN_WAIT;
use rmcp::ServerHandler;
use rmcp::model::ErrorData;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accept::{AcceptedForms, JSON, error_response, is_stream};
use super::caller::{self, SESSION_HEADER};
use super::changes::WatchSource;
use super::connection::{Connection, McpConfig};
use super::sessions::{Sessions, TooManySessions};
use super::stdio::{self, InvalidMessage};
use crate::keep_alive_while;
use crate::limits::{EVENT_HEARTBEAT, HTTP_BODY_BYTES_MAX};

/// The service of the protocol library, boxed.
type RequestService =
    dyn Fn(Request<Whole<Bytes>>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// The endpoint of one workspace's clients.
pub(crate) struct McpEndpoint {
    service: Box<RequestService>,
    sessions: Arc<Sessions>,
    /// The answers that are not sent completely yet.
    response_tasks: TaskTracker,
    /// The running tool calls, including those whose client has disconnected.
    call_tasks: TaskTracker,
    /// Cancelled to close all streams and sessions that are still open.
    force_close: CancellationToken,
}

impl fmt::Debug for McpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl McpEndpoint {
    /// Creates the endpoint of a workspace, whose feed watches its folders. When `ending` is cancelled, change streams
    /// end and no session or stream is started.
    pub(crate) fn new(
        host: McpConfig,
        (feeds, workspace): (Arc<Feeds>, String),
        ending: CancellationToken,
    ) -> Self {
        Self::with_handler(host, (feeds, workspace), ending, |connection| connection)
    }

    /// Does the same without sessions: each request stands alone, so that any daemon can answer it. Clients of older
    /// revisions receive no notifications then.
    pub(crate) fn without_sessions(
        host: McpConfig,
        feed: (Arc<Feeds>, String),
        ending: CancellationToken,
    ) -> Self {
        Self::build(host, feed, ending, (false, |connection| connection))
    }

    /// Creates an endpoint whose connections are wrapped by `handler`: one per session, and one per request without a
    /// session.
    pub(super) fn with_handler<H: ServerHandler>(
        host: McpConfig,
        (feeds, workspace): (Arc<Feeds>, String),
        ending: CancellationToken,
        handler: impl Fn(Connection) -> H + Send + Sync + 'static,
    ) -> Self {
        Self::build(host, (feeds, workspace), ending, (true, handler))
    }

    fn build<H: ServerHandler>(
        host: McpConfig,
        (feeds, workspace): (Arc<Feeds>, String),
        ending: CancellationToken,
        (has_sessions, handler): (bool, impl Fn(Connection) -> H + Send + Sync + 'static),
    ) -> Self {
        let calls = TaskTracker::new();
        let shared = calls.clone();
        let connect = move || {
            let watcher = WatchSource::Feed(Arc::clone(&feeds), workspace.clone());
            let connection = Connection::new(host.clone(), ending.child_token());
            handler(connection.with_subscriptions(watcher, shared.clone()))
        };
        let (sessions, force_close) = (Arc::new(Sessions::default()), CancellationToken::new());
        let config = StreamableHttpServerConfig::default()
            // The request guard has checked both.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(HTTP_BODY_BYTES_MAX)
            .with_sse_keep_alive(Some(EVENT_HEARTBEAT))
            .with_sse_retry(None)
            // A single message is answered as JSON, if the revision leaves the choice.
            .with_json_response(true)
            .with_legacy_session_mode(has_sessions)
            .with_cancellation_token(force_close.clone());
        let service =
            StreamableHttpService::new(move || Ok(connect()), Arc::clone(&sessions), config);
        let service = Box::new(move |request| {
            let service = service.clone();
            async move { service.handle(request).await.map(Body::new) }.boxed()
        });
        Self {
            service,
            sessions,
            response_tasks: TaskTracker::new(),
            call_tasks: calls,
            force_close,
        }
    }

    /// Answers a request of `caller`. Its agent class is that of its session, unless the request names a lower one.
    pub(crate) async fn answer(
        &self,
        mut parts: Parts,
        body: Bytes,
        (mut caller, named): (Caller, Option<AgentClass>),
    ) -> Result<Response<Body>, TooManySessions> {
        let body = match json::mend(&body) {
            Cow::Borrowed(_) => body,
            Cow::Owned(mended) => mended.into(),
        };
        let method = method_of(&body);
        let forms = AcceptedForms::from_headers(&parts.headers);
        forms.widen_accept(&parts.method, method.as_deref(), &mut parts.headers);
        let client = caller.provenance.client.clone();
        match session_of(&parts.headers) {
            Some(id) if !self.sessions.may_use(id, client.as_deref()) => {
                let unknown = ErrorData::invalid_request("there is no such session", None);
                return Ok(error_response(StatusCode::NOT_FOUND, unknown.into()));
            }
            Some(id) => {
                if let Some(of_session) = self.sessions.class_of(id) {
                    match caller::restrict_class(of_session, named.unwrap_or(of_session)) {
                        Ok(class) => caller.class = class,
                        Err(message) => {
                            let error = ErrorData::invalid_request(message, None);
                            return Ok(error_response(StatusCode::FORBIDDEN, error.into()));
                        }
                    }
                }
            }
            None if is_initialize(&parts, method.as_deref()) => {
                self.sessions.evict_idle().await?;
            }
            _ => {}
        }
        let class = caller.class;
        // GET streams of notifications are not tracked: they have no end that shutdown could wait for.
        let token = (parts.method == Method::POST).then(|| self.response_tasks.token());
        parts.extensions.insert(caller);
        let request = Request::from_parts(parts, Whole::new(body.clone()));
        let response = (self.service)(request).await;
        if let Some(new_session) = session_of(response.headers()) {
            self.sessions.assign(new_session, client.as_deref(), class);
        }
        let response = forms.into_accepted_form(into_json_rpc_error(response, &body).await).await;
        Ok(if is_stream(&response) {
            response.map(|body| keep_alive_while(body, token))
        } else {
            response
        })
    }

    /// Checks whether no answer is being sent, no call runs, and no client has a session.
    pub(crate) fn is_idle(&self) -> bool {
        self.response_tasks.is_empty() && self.call_tasks.is_empty() && self.sessions.is_empty()
    }

    /// Checks whether a session with this id exists.
    pub(crate) fn has_session(&self, id: &str) -> bool {
        self.sessions.class_of(id).is_some()
    }

    /// Waits up to [`MCP_SHUTDOWN_WAIT`] for running calls and their answers, then closes all streams and sessions. No
    /// request may be passed in afterwards.
    pub(crate) async fn end(&self) {
        self.response_tasks.close();
        self.call_tasks.close();
        let answered = async {
            self.call_tasks.wait().await;
            self.response_tasks.wait().await;
        };
        if timeout(MCP_SHUTDOWN_WAIT, answered).await.is_err() {
            tracing::warn!(
                calls = self.call_tasks.len(),
                "shutdown timeout: MCP calls are not answered"
            );
        }
        self.force_close.cancel();
    }
}

/// Checks whether a request belongs to a session. Its message may be answered later, over a stream of the session.
pub(crate) fn is_in_session(headers: &HeaderMap) -> bool {
    session_of(headers).is_some()
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()
}

/// Checks whether a request without a session begins one. The protocol library begins one for every handshake,
/// regardless of the revision in the headers.
fn is_initialize(parts: &Parts, method: Option<&str>) -> bool {
    parts.method == Method::POST && method == Some("initialize")
}

/// Returns the JSON-RPC method of a body, if any.
fn method_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    serde_json::from_slice::<Message>(body).ok().map(|message| message.method)
}

/// Converts a plain-text error of the protocol library to a JSON-RPC error.
async fn into_json_rpc_error(response: Response<Body>, sent: &[u8]) -> Response<Body> {
    let (status, headers) = (response.status(), response.headers());
    if status.is_success() || headers.get(CONTENT_TYPE) == Some(&JSON) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (status, error) = match (status, find_invalid_message(sent)) {
        // The text may contain internals; the library has logged it.
        (status, _) if status.is_server_error() => {
            (status, ErrorData::internal_error("the server failed", None).into())
        }
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, Some(error)) => (StatusCode::BAD_REQUEST, error),
        (status, _) => (status, ErrorData::invalid_request(text, None).into()),
    };
    let mut response = error_response(status, error);
    response.headers_mut().extend(parts.headers.into_iter().filter_map(|(name, value)| {
        let name = name.filter(|name| *name == axum::http::header::ALLOW)?;
        Some((name, value))
    }));
    response
}

/// Returns the reason why a body is not exactly one message; `None` if it is.
fn find_invalid_message(body: &[u8]) -> Option<InvalidMessage> {
    let mut messages = stdio::read_line(body);
    if let [Ok(_)] = messages.as_slice() {
        return None;
    }
    let invalid = messages.drain(..).find_map(Result::err);
    let not_one = || ErrorData::invalid_request("a body is one JSON-RPC message", None).into();
    Some(invalid.unwrap_or_else(not_one))
}
