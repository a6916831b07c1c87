//! MCP over streamable HTTP: the end of one workspace, to which requests are handed that passed the gate.
//!
//! The newest revision is served request by request. The older ones begin with a handshake and go on in a
//! session, because a subscription has to lie somewhere. Which hosts and pages may call, who the caller is
//! and how large a body may be is decided before; here it is only passed on.

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

/// Answers a request, as the protocol library does.
type RequestService =
    dyn Fn(Request<Whole<Bytes>>) -> BoxFuture<'static, Response<Body>> + Send + Sync;

/// What the clients of one workspace are served by.
pub(crate) struct McpEndpoint {
    service: Box<RequestService>,
    sessions: Arc<Sessions>,
    /// Answers to requests that are not told to their end.
    response_tasks: TaskTracker,
    /// Tool calls under way, whether or not somebody still waits for them.
    call_tasks: TaskTracker,
    /// Cancelled when what is still open is cut.
    force_close: CancellationToken,
}

impl fmt::Debug for McpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("sessions", &self.sessions).finish_non_exhaustive()
    }
}

impl McpEndpoint {
    /// Returns the end of a workspace, whose feed watches its folders. Once `ending` is cancelled,
    /// streams of changes end and nothing new is begun.
    pub(crate) fn new(
        host: McpConfig,
        (feeds, workspace): (Arc<Feeds>, String),
        ending: CancellationToken,
    ) -> Self {
        Self::with_handler(host, (feeds, workspace), ending, |connection| connection)
    }

    /// Returns such an end, at which each session, and each request without one, is served by what
    /// `handler` makes of the connection that it would have got.
    pub(super) fn with_handler<H: ServerHandler>(
        host: McpConfig,
        (feeds, workspace): (Arc<Feeds>, String),
        ending: CancellationToken,
        handler: impl Fn(Connection) -> H + Send + Sync + 'static,
    ) -> Self {
        let calls = TaskTracker::new();
        let shared = calls.clone();
        let connect = move || {
            let watcher = WatchSource::Feed(Arc::clone(&feeds), workspace.clone());
            let connection = Connection::new(host.clone(), ending.child_token());
            handler(connection.with_subscriptions(watcher, shared.clone()))
        };
        let (sessions, cut) = (Arc::new(Sessions::default()), CancellationToken::new());
        let config = StreamableHttpServerConfig::default()
            // The gate looked at both.
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(HTTP_BODY_BYTES_MAX)
            .with_sse_keep_alive(Some(EVENT_HEARTBEAT))
            .with_sse_retry(None)
            // An answer that is one message is no stream, where the revision lets us choose.
            .with_json_response(true)
            .with_cancellation_token(cut.clone());
        let service =
            StreamableHttpService::new(move || Ok(connect()), Arc::clone(&sessions), config);
        let answering = Box::new(move |request| {
            let service = service.clone();
            async move { service.handle(request).await.map(Body::new) }.boxed()
        });
        Self {
            service: answering,
            sessions,
            response_tasks: TaskTracker::new(),
            call_tasks: calls,
            force_close: cut,
        }
    }

    /// Answers a request of `caller`, whose class is that of its session, or the one that the request names
    /// itself.
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
                        Err(what) => {
                            let above = ErrorData::invalid_request(what, None);
                            return Ok(error_response(StatusCode::FORBIDDEN, above.into()));
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
        // A stream that waits for news is no answer: it would never be told to its end.
        let answer = (parts.method == Method::POST).then(|| self.response_tasks.token());
        parts.extensions.insert(caller);
        let request = Request::from_parts(parts, Whole::new(body.clone()));
        let response = (self.service)(request).await;
        if let Some(begun) = session_of(response.headers()) {
            self.sessions.assign(begun, client.as_deref(), class);
        }
        let response = forms.into_accepted_form(into_json_rpc_error(response, &body).await).await;
        Ok(if is_stream(&response) {
            response.map(|body| keep_alive_while(body, answer))
        } else {
            response
        })
    }

    /// Tells whether there is a session of this name.
    pub(crate) fn has_session(&self, id: &str) -> bool {
        self.sessions.class_of(id).is_some()
    }

    /// Waits until what is under way is answered, if that takes no longer than a write may, then ends all
    /// streams and sessions. Nothing more may be handed over.
    pub(crate) async fn end(&self) {
        self.response_tasks.close();
        self.call_tasks.close();
        let answered = async {
            self.call_tasks.wait().await;
            self.response_tasks.wait().await;
        };
        if timeout(MCP_SHUTDOWN_WAIT, answered).await.is_err() {
            tracing::warn!(calls = self.call_tasks.len(), "gave up waiting for answers over MCP");
        }
        self.force_close.cancel();
    }
}

/// Returns whether a message is one of a session: it is taken, and may be answered later.
pub(crate) fn is_in_session(headers: &HeaderMap) -> bool {
    session_of(headers).is_some()
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_HEADER)?.to_str().ok()
}

/// Returns whether a request, which names no session, begins one: the protocol library begins one for a
/// handshake, whatever revision its headers name.
fn is_initialize(parts: &Parts, method: Option<&str>) -> bool {
    parts.method == Method::POST && method == Some("initialize")
}

/// Returns the method that a body names, if it is a message that has one.
fn method_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Message {
        method: String,
    }
    serde_json::from_slice::<Message>(body).ok().map(|message| message.method)
}

/// Says as a message what the protocol library says as plain text, when it does not take a request.
async fn into_json_rpc_error(response: Response<Body>, sent: &[u8]) -> Response<Body> {
    let (status, headers) = (response.status(), response.headers());
    if status.is_success() || headers.get(CONTENT_TYPE) == Some(&JSON) {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let (status, refusal) = match (status, find_invalid_message(sent)) {
        // Its words may tell of the inside; it has logged them.
        (status, _) if status.is_server_error() => {
            (status, ErrorData::internal_error("the server failed", None).into())
        }
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, Some(refusal)) => (StatusCode::BAD_REQUEST, refusal),
        (status, _) => (status, ErrorData::invalid_request(text, None).into()),
    };
    let mut response = error_response(status, refusal);
    response.headers_mut().extend(parts.headers.into_iter().filter_map(|(name, value)| {
        let name = name.filter(|name| *name == axum::http::header::ALLOW)?;
        Some((name, value))
    }));
    response
}

/// Says why a body is not one message; `None` if it is.
fn find_invalid_message(sent: &[u8]) -> Option<InvalidMessage> {
    let mut read = stdio::read_line(sent);
    if let [Ok(_)] = read.as_slice() {
        return None;
    }
    let wrong = read.drain(..).find_map(Result::err);
    let other = || ErrorData::invalid_request("a body is one JSON-RPC message", None).into();
    Some(wrong.unwrap_or_else(other))
}
