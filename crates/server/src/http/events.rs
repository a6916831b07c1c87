//! Server-sent event streams of sessions and workspaces.
//!
//! A session's stream has the events of tasks; a workspace's stream has all events. The events come from the
//! engine's feeds, which also keep the backlog for reconnecting clients. This module encodes them as frames and
//! sends a heartbeat when there is no event for a while.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use engine::feed::{Event, EventCursor, SubscribeError, Subscription};
use futures_util::stream;
use protocol::cursor::{self, CURSOR_HEADER, EPOCH_HEADER, InvalidHeader, LAST_EVENT_ID_HEADER};
use protocol::error::ErrorCode;
use protocol::event::Envelope;
use protocol::sse;
use tokio::time::timeout;

use super::app_state::{AppState, SharedState};
use super::metrics::{GaugeGuard, Metrics};
use super::request::{Path, QueryResult, WorkspaceQuery};
use super::routes::{Routes, routes};
use crate::error::ErrorResponse;
use crate::limits::EVENT_HEARTBEAT;
use crate::to_wire;

/// The header that makes proxies forward frames without buffering.
const UNBUFFERED: HeaderName = HeaderName::from_static("x-accel-buffering");

pub(super) fn routes() -> Routes {
    Routes::new().add(routes!(of_session: MEMORY)).add(routes!(of_workspace: MEMORY))
}

/// Stream the events of tasks in a session's workspace, from the start of the session.
///
/// `Last-Event-ID` resumes after an event, and `X-Qwen-Event-Epoch` names the numbering of its id. Daemons with one
/// database share the numbering: any of them resumes the stream, which may begin before the session then.
#[utoipa::path(
    get,
    path = "/session/{id}/events",
    tag = "events",
    params(
        ("id" = String, Path, description = "The id of the session"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event received"),
        ("X-Qwen-Event-Epoch" = Option<String>, Header, description = "The epoch of that id"),
    ),
    responses(
        (status = 200, description = "Event frames, each with an envelope as its data",
            content_type = "text/event-stream", body = Envelope,
            headers(
                ("X-Qwen-Event-Epoch" = String, description = "The epoch of the event ids"),
                ("X-Lukasa-Event-Cursor" = u64, description = "The id of the event after which the stream begins"),
            )),
        ErrorResponse,
    ),
)]
async fn of_session(
    Extension(daemon): Extension<SharedState>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let session = daemon.session(&id, &headers).await?;
    daemon.trusted_workspace(Some(&session.workspace)).await?;
    let bus = daemon.serving.sessions.events(&session.id).await?;
    let bus = bus.ok_or(ErrorCode::SessionNotFound)?;
    let subscription = bus.subscribe(read_cursor(&headers).as_ref())?;
    Ok(stream_response(&daemon, subscription))
}

/// Stream all changes to the memories of a workspace, made by any program.
#[utoipa::path(
    get,
    path = "/v1/events",
    tag = "events",
    params(
        WorkspaceQuery,
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event received"),
        ("X-Qwen-Event-Epoch" = Option<String>, Header, description = "The epoch of that id"),
    ),
    responses(
        (status = 200, description = "Event frames, each with an envelope as its data",
            content_type = "text/event-stream", body = Envelope,
            headers(
                ("X-Qwen-Event-Epoch" = String, description = "The epoch of the event ids"),
                ("X-Lukasa-Event-Cursor" = u64, description = "The id of the event after which the stream begins"),
            )),
        ErrorResponse,
    ),
)]
async fn of_workspace(
    Extension(daemon): Extension<SharedState>,
    query: QueryResult<WorkspaceQuery>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let Query(WorkspaceQuery { workspace }) = query?;
    let workspace = daemon.trusted_workspace(workspace.as_deref()).await?;
    let cursor = read_cursor(&headers);
    let subscription = daemon.serving.feeds.subscribe(&workspace.id, cursor.as_ref()).await?;
    Ok(stream_response(&daemon, subscription))
}

impl From<SubscribeError> for ErrorResponse {
    fn from(error: SubscribeError) -> Self {
        match error {
            SubscribeError::Full => ErrorCode::TooManySubscribers.into(),
            SubscribeError::Closed => ErrorCode::WorkspaceDraining.into(),
            SubscribeError::Behind => ErrorCode::Overloaded.into(),
            SubscribeError::Log(error) => error.into(),
        }
    }
}

/// Returns the cursor to resume from. A header that cannot be parsed is logged and ignored.
fn read_cursor(headers: &HeaderMap) -> Option<EventCursor> {
    let text = |name| String::from_utf8_lossy(headers.get(name).map_or(b"", HeaderValue::as_bytes));
    let ignored = |error: InvalidHeader| tracing::warn!(%error, "ignored an invalid header");
    let last = cursor::last_event_id(&text(LAST_EVENT_ID_HEADER)).map_err(ignored).ok().flatten();
    let epoch = text(EPOCH_HEADER);
    let epoch = cursor::epoch(&epoch).map_err(ignored).ok().flatten().map(str::to_owned);
    Some(EventCursor { last_seen: last?, epoch })
}

/// The frames of one stream: the retry line first, then events and heartbeats.
struct EventFrames {
    subscription: Subscription,
    metrics: Arc<Metrics>,
    sent_retry: bool,
    _stream_gauges: [GaugeGuard; 2],
}

fn stream_response(daemon: &SharedState, subscription: Subscription) -> Response {
    let position = HeaderValue::from(subscription.position());
    let frames = EventFrames {
        subscription,
        metrics: Arc::clone(&daemon.metrics),
        sent_retry: false,
        _stream_gauges: daemon.metrics.track_event_stream(&daemon.event_streams),
    };
    let body = stream::unfold(frames, |mut frames| async {
        let frame = frames.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(frame)), frames))
    });
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (UNBUFFERED, HeaderValue::from_static("no")),
        (HeaderName::from_static(EPOCH_HEADER), epoch(daemon)),
        (HeaderName::from_static(CURSOR_HEADER), position),
    ];
    (head, Body::from_stream(body)).into_response()
}

fn epoch(daemon: &AppState) -> HeaderValue {
    let epoch = daemon.serving.feeds.epoch().to_string();
    HeaderValue::try_from(epoch).unwrap_or(HeaderValue::from_static(""))
}

impl EventFrames {
    /// Returns the next frame; `None` when the subscription has ended.
    async fn next(&mut self) -> Option<String> {
        if !std::mem::replace(&mut self.sent_retry, true) {
            return Some(sse::RETRY.to_owned());
        }
        let Ok(event) = timeout(EVENT_HEARTBEAT, self.subscription.next()).await else {
            return Some(sse::HEARTBEAT.to_owned());
        };
        let frame = encode_frame(&event?);
        self.metrics.record_event();
        Some(frame)
    }
}

fn encode_frame(event: &Event) -> String {
    let envelope = to_wire::event(event);
    // Cannot fail: the envelope has only strings and numbers.
    let data = serde_json::to_string(&envelope).unwrap_or_default();
    sse::write(envelope.id, envelope.event.as_ref(), &data)
}

#[cfg(test)]
mod tests {
    use engine::Feeds;
    use testkit::ManualClock;

    use super::*;
    use crate::http::metrics::OwnerStreams;

    #[tokio::test(start_paused = true)]
    async fn a_stream_sends_heartbeats_and_ends_when_its_feed_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let folders =
            engine::BaseFolders { data: folder.path().into(), state: folder.path().into() };
        let engine = engine::Engine::open(engine::Config::new(folders)).unwrap();
        let caller = engine::Caller::person("test");
        let memories = engine.memories(&engine::BindingRequest::default(), caller);
        let feeds = Feeds::new(Arc::new(ManualClock::default()));
        feeds.open("w", &memories);
        feeds.begin_session("w", "s");
        let bus = feeds.session("w", "s").unwrap();
        let metrics = Metrics::new();
        let mut frames = EventFrames {
            subscription: bus.subscribe(None).unwrap(),
            sent_retry: false,
            _stream_gauges: metrics.track_event_stream(&OwnerStreams::default()),
            metrics: Arc::clone(&metrics),
        };
        assert_eq!(frames.next().await.as_deref(), Some("retry: 3000\n\n"));
        let started = tokio::time::Instant::now();
        assert_eq!(frames.next().await.as_deref(), Some(": heartbeat\n\n"));
        assert_eq!(started.elapsed(), EVENT_HEARTBEAT);
        assert_eq!(metrics.open_counts(), (0, 1));
        feeds.close_all();
        assert_eq!(frames.next().await, None);
        drop(frames);
        assert_eq!(metrics.open_counts(), (0, 0));
    }
}
