//! HTTP: the task API that published clients speak, MCP at `/mcp`, and `/v1` for everything else.
//!
//! A request passes the [gate](GuardConfig), is decoded, handed to the engine, and what comes back is
//! encoded. Nothing about memories is decided here. Connections have deadlines and a bound
//! ([`serve`]), streams of events end with the daemon, and whatever is wrong is answered as JSON.

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

/// What the command line composed.
#[derive(Debug)]
pub struct HttpConfig {
    /// Gives out memories. Whoever calls [`serve`] closes it afterwards.
    pub engine: Engine,
    /// What the engine keeps going for the workspaces.
    pub serving: RunningServices,
    /// What is served; one of them is primary.
    pub workspaces: Vec<Workspace>,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// What a request must meet.
    pub rules: GuardConfig,
    /// Connections at a time.
    pub connections_max: usize,
    /// Shows and writes the person's settings; none if they are not in a file.
    pub settings: Option<Arc<dyn SettingsStore>>,
    /// The agents that are known, with what each shows its model.
    pub agents: Vec<AgentHost>,
}

/// Serves until `stop` is cancelled. Then no task is taken any more, those that run have ten seconds
/// to end, streams of events end, and what is under way is answered.
pub async fn serve(host: HttpConfig, listeners: Vec<Listener>, stop: CancellationToken) {
    let HttpConfig { engine, serving, workspaces, clock, rules, connections_max, settings, agents } =
        host;
    let measures = Metrics::new();
    let logins = Arc::new(logins::Logins::default());
    let own_page = engine.switches().global().has(Feature::Page).then(|| Arc::clone(&logins));
    let gate = Arc::new(RequestGuard::new(rules, Arc::clone(&measures), own_page));
    let (lanes, feeds) = (serving.lanes.clone(), Arc::clone(&serving.feeds));
    let ending = CancellationToken::new();
    let mcp = mcp::endpoints(&engine, &feeds, &workspaces, &ending);
    let readers = outside_reads::OutsideReads::default();
    let daemon = AppState {
        engine,
        serving,
        workspaces,
        metrics: measures,
        clock,
        mcp,
        outside_reads: readers,
        logins,
        settings,
        agents,
    };
    let daemon = Arc::new(daemon);
    let router = router(Arc::clone(&daemon), gate);
    let measures = Arc::clone(&daemon.metrics);
    let connections = Connections::new(router, connections_max, measures, ending.clone());
    let taking = futures_util::future::join_all(
        listeners.iter().map(|listener| connections.accept_loop(listener)),
    );
    let shutting_down = async {
        stop.cancelled().await;
        lanes.drain(DRAIN_WAIT).await;
        feeds.close_all();
        ending.cancel();
        futures_util::future::join_all(daemon.mcp.values().map(McpEndpoint::end)).await;
    };
    tokio::join!(taking, shutting_down);
    connections.wait_until_closed().await;
    // Answers do not wait for it, so the end does.
    let written = daemon.serving.conversations.flush();
    if tokio::time::timeout(HTTP_SHUTDOWN_WAIT, written).await.is_err() {
        tracing::warn!("gave up waiting for the state: something may be shown once more");
    }
}

fn router(daemon: Arc<AppState>, gate: Arc<RequestGuard>) -> Router {
    let (router, needs) = openapi::routes().into_router();
    router
        .fallback(async || ErrorResponse::from(ErrorCode::RouteNotFound))
        .method_not_allowed_fallback(async || ErrorResponse::from(ErrorCode::MethodNotAllowed))
        .layer(from_fn_with_state((Arc::clone(&daemon), Arc::new(needs)), routes::guard))
        .layer(from_fn_with_state(gate, guard::guard_request))
        .with_state(daemon)
}
