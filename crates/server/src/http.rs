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
mod owner_directory;
mod owner_shares;
mod owners;
mod pending;
mod request;
mod routes;
mod served_workspaces;
mod server_status;
mod sessions;
mod settings;
mod tasks;
mod tokens;
mod tool;
mod ui;
mod workspaces;

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use engine::{Engine, RunningServices, Workspace};
use memory::clock::Clock;
use memory::feature::Feature;
use protocol::conversation::AgentHost;
use protocol::error::ErrorCode;
use tokio_util::sync::CancellationToken;

pub use app_state::{SettingsError, SettingsStore};
pub use guard::{AllowedHosts, BadHost, BadOrigin, BadToken, BearerToken, GuardConfig, Origin};
pub use listen::Listener;
pub use openapi::document;
pub use owner_directory::{
    IdentityProvider, OpenOwnerError, OpenedOwner, OwnerDirectory, OwnerResources,
    ProviderUnavailable,
};

use self::app_state::AppState;
use self::guard::{OwnerTokens, RequestGuard};
use self::listen::Connections;
use self::metrics::{Metrics, OwnerStreams};
use self::owner_directory::OwnTokens;
use self::owner_shares::{OwnerShares, ShareLimits};
use self::owners::Owners;
use self::served_workspaces::{ServedWorkspaces, WorkspaceSet};
use crate::error::ErrorResponse;

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
    /// The owners of tokens in a database; `None` for a daemon that serves folders.
    pub directory: Option<DirectoryConfig>,
}

/// The owners that a daemon with a database serves. It also serves any workspace that a request names.
#[derive(Debug)]
pub struct DirectoryConfig {
    /// The owners.
    pub owners: Arc<dyn OwnerDirectory>,
    /// The name of the owner to whom the daemon's own token leads.
    pub own_name: String,
    /// The identity provider whose tokens are accepted, too.
    pub identity_provider: Option<Arc<dyn IdentityProvider>>,
}

/// Serves until `stop` is cancelled. Then no new task is accepted, running tasks have ten seconds to end, event streams
/// end, and requests in flight are answered.
pub async fn serve(host: HttpConfig, listeners: Vec<Listener>, stop: CancellationToken) {
    let HttpConfig {
        engine,
        serving,
        workspaces,
        clock,
        rules,
        connections_max,
        settings,
        agents,
        directory,
    } = host;
    let metrics = Metrics::new();
    let logins = Arc::new(logins::Logins::default());
    let page_logins = engine.switches().global().has(Feature::Page).then(|| Arc::clone(&logins));
    let owner_tokens = directory
        .as_ref()
        .map(|of| OwnerTokens::new(Arc::clone(&of.owners), of.identity_provider.clone()));
    let owner_shares = OwnerShares::new(ShareLimits::new(connections_max));
    let guard =
        RequestGuard::new(rules, Arc::clone(&metrics), page_logins, owner_tokens, owner_shares);
    let shutdown = CancellationToken::new();
    let set = if directory.is_some() { WorkspaceSet::Named } else { WorkspaceSet::Fixed };
    let feeds = Arc::clone(&serving.feeds);
    let ending = CancellationToken::new();
    let workspaces = ServedWorkspaces::new((&engine, &feeds), workspaces, set, ending);
    let outside_reads = outside_reads::OutsideReads::new(engine.outside_readers());
    let daemon = AppState {
        engine,
        serving,
        workspaces,
        metrics: Arc::clone(&metrics),
        event_streams: OwnerStreams::default(),
        clock,
        outside_reads,
        logins,
        settings,
        agents,
        tokens: directory
            .as_ref()
            .map(|of| OwnTokens { directory: Arc::clone(&of.owners), owner: of.own_name.clone() }),
    };
    let daemon = Arc::new(daemon);
    let owners = Arc::new(match directory {
        None => Owners::only(daemon),
        Some(of) => Owners::with_directory(daemon, of.owners, of.own_name),
    });
    let router = router(Arc::clone(&owners), Arc::new(guard));
    let connections = Connections::new(router, connections_max, metrics, shutdown.clone());
    let accepting = futures_util::future::join_all(
        listeners.iter().map(|listener| connections.accept_loop(listener)),
    );
    let shutting_down = async {
        owners.maintain(&stop).await;
        stop.cancelled().await;
        owners.drain().await;
        shutdown.cancel();
        owners.end_streams().await;
    };
    tokio::join!(accepting, shutting_down);
    connections.wait_until_closed().await;
    owners.close().await;
}

fn router(owners: Arc<Owners>, request_guard: Arc<RequestGuard>) -> Router {
    let (router, needs) = openapi::routes().into_router();
    router
        .fallback(async || ErrorResponse::from(ErrorCode::RouteNotFound))
        .method_not_allowed_fallback(async || ErrorResponse::from(ErrorCode::MethodNotAllowed))
        .layer(from_fn_with_state((owners, Arc::new(needs)), owners::admit))
        .layer(from_fn_with_state(request_guard, guard::guard_request))
}
