//! The HTTP server of the daemon: the task API of published clients, MCP at `/mcp`, and `/v1` for everything else.
//!
//! A request passes the [request guard](GuardConfig) and the feature check, and is then decoded, passed to the engine,
//! and answered. Every error is JSON. Connections are limited in number and time ([`serve`]), and event streams end
//! with the daemon. Each submodule has the routes of one subject; decisions about memories are the engine's.

mod app_state;
mod archive;
mod batch;
mod body;
mod body_budget;
mod changes;
mod conditions;
mod connection_state;
mod context;
mod context_files;
mod conversations;
mod docs_page;
mod events;
mod guard;
mod health;
mod listen;
mod logins;
mod mcp;
mod memories;
mod metrics;
mod openapi;
mod outside_reads;
mod pending;
mod request;
mod routes;
mod server_status;
mod sessions;
mod settings;
mod tasks;
mod tool;
mod ui;
mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use engine::{Engine, RunningServices, Workspace};
use memory::clock::Clock;
use memory::feature::Feature;
use memory::limits::{DRAIN_WAIT, HTTP_SHUTDOWN_WAIT};
use protocol::conversation::AgentHost;
use protocol::error::ErrorCode;
use tokio_util::sync::CancellationToken;

pub use app_state::{SettingsError, SettingsStore};
pub use guard::{AllowedHosts, BadHost, BadOrigin, BadToken, BearerToken, GuardConfig, Origin};
pub use listen::Listener;
pub use openapi::document;

use self::app_state::AppState;
use self::guard::RequestGuard;
use self::listen::Connections;
use self::metrics::Metrics;
use crate::error::ErrorResponse;
use crate::mcp::McpEndpoint;

/// The configuration of the HTTP server.
#[derive(Debug)]
pub struct HttpConfig {
    /// The engine. The caller of [`serve`] closes it afterwards.
    pub engine: Engine,
    /// The background services of the engine: lanes, feeds, conversations, sessions.
    pub serving: RunningServices,
    /// The served workspaces; one of them is primary.
    pub workspaces: Vec<Workspace>,
    /// The clock for times in answers.
    pub clock: Arc<dyn Clock>,
    /// The settings of the request guard.
    pub rules: GuardConfig,
    /// The most connections at a time.
    pub connections_max: usize,
    /// Access to the person's settings file; `None` if there is none.
    pub settings: Option<Arc<dyn SettingsStore>>,
    /// The known agents, with the context that each shows its model.
    pub agents: Vec<AgentHost>,
}

/// Serves until `stop` is cancelled. Then no new task is accepted, running tasks have ten seconds to end, event streams
/// end, and requests in flight are answered.
pub async fn serve(host: HttpConfig, listeners: Vec<Listener>, stop: CancellationToken) {
    let HttpConfig { engine, serving, workspaces, clock, rules, connections_max, settings, agents } =
        host;
    let metrics = Metrics::new();
    let logins = Arc::new(logins::Logins::default());
    let page_logins = engine.switches().global().has(Feature::Page).then(|| Arc::clone(&logins));
    let request_guard = Arc::new(RequestGuard::new(rules, Arc::clone(&metrics), page_logins));
    let (lanes, feeds) = (serving.lanes.clone(), Arc::clone(&serving.feeds));
    let shutdown = CancellationToken::new();
    let mcp = mcp::endpoints(&engine, &feeds, &workspaces, &shutdown);
    let daemon = AppState {
        engine,
        serving,
        workspaces,
        metrics,
        clock,
        mcp,
        outside_reads: outside_reads::OutsideReads::default(),
        logins,
        settings,
        agents,
    };
    let daemon = Arc::new(daemon);
    let router = router(Arc::clone(&daemon), request_guard);
    let metrics = Arc::clone(&daemon.metrics);
    let connections = Connections::new(router, connections_max, metrics, shutdown.clone());
    let accepting = futures_util::future::join_all(
        listeners.iter().map(|listener| connections.accept_loop(listener)),
    );
    let shutting_down = async {
        stop.cancelled().await;
        lanes.drain(DRAIN_WAIT).await;
        feeds.close_all();
        shutdown.cancel();
        futures_util::future::join_all(daemon.mcp.values().map(McpEndpoint::end)).await;
    };
    tokio::join!(accepting, shutting_down);
    connections.wait_until_closed().await;
    // Answers do not wait for the state of conversations to be written, so shutdown does.
    let flushed = daemon.serving.conversations.flush();
    if tokio::time::timeout(HTTP_SHUTDOWN_WAIT, flushed).await.is_err() {
        tracing::warn!(
            "shutdown timeout: conversation state was not written; a memory may be shown a second time"
        );
    }
}

fn router(daemon: Arc<AppState>, request_guard: Arc<RequestGuard>) -> Router {
    let (router, needs) = openapi::routes().into_router();
    router
        .fallback(async || ErrorResponse::from(ErrorCode::RouteNotFound))
        .method_not_allowed_fallback(async || ErrorResponse::from(ErrorCode::MethodNotAllowed))
        .layer(from_fn_with_state(
            (Arc::clone(&daemon), Arc::new(needs)),
            routes::refuse_disabled_features,
        ))
        .layer(from_fn_with_state(request_guard, guard::guard_request))
        .with_state(daemon)
}
