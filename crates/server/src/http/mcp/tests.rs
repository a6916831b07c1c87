//! The official conformance suite, run against this server and against the fixture, which has the suite's names too.

use std::process::Command;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::http::header::AUTHORIZATION;
use axum::middleware::map_request;
use engine::{
    BaseFolders, BindingRequest, Config, Engine, Feeds, LaneSettings, RunningServices, Workspace,
};
use testkit::ManualClock;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::http::guard::{AllowedHosts, BearerToken, GuardConfig, RequestGuard};
use crate::http::listen::{Connections, Listener};
use crate::http::metrics::{Metrics, OwnerStreams};
use crate::http::owner_shares::{OwnerShares, ShareLimits};
use crate::http::owners::Owners;
use crate::http::served_workspaces::{ServedWorkspaces, config_of};
use crate::mcp::{McpConfig, McpEndpoint, fixture};

const TOKEN: &str = "a-token-for-tests-only";

/// A server at a loopback address.
struct McpTestServer {
    address: String,
    ending: CancellationToken,
    _folder: tempfile::TempDir,
}

impl Drop for McpTestServer {
    fn drop(&mut self) {
        self.ending.cancel();
    }
}

/// A constructor of an endpoint.
type MakeEndpoint = fn(McpConfig, (Arc<Feeds>, String), CancellationToken) -> McpEndpoint;

/// Serves a workspace behind the request guard, as the daemon does. A layer adds the token to each request, because
/// the suite sends none.
async fn serve(endpoint: MakeEndpoint) -> McpTestServer {
    let folder = tempfile::tempdir().unwrap();
    let (data, state) = (folder.path().join("data"), folder.path().join("state"));
    let engine = Engine::open(Config::new(BaseFolders { data, state })).unwrap();
    let workspace = Workspace::new(folder.path().to_owned(), BindingRequest::default());
    let workspace = Workspace { primary: true, ..workspace };
    let serving: RunningServices =
        engine.serve(std::slice::from_ref(&workspace), LaneSettings::default()).await.unwrap();
    let listener = Listener::at_address(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.address().unwrap().to_string();
    let rules = GuardConfig {
        hosts: AllowedHosts::default(),
        origins: vec![format!("http://{address}").parse().unwrap()],
        token: BearerToken::new(TOKEN).unwrap(),
        behind_proxy: false,
        requests_per_second_max: None,
    };
    let (metrics, ending) = (Metrics::new(), CancellationToken::new());
    let feed = (Arc::clone(&serving.feeds), workspace.id.clone());
    let end = endpoint(config_of(&engine, &workspace), feed, ending.clone());
    let workspaces = ServedWorkspaces::with_endpoint(workspace, end);
    let shares = OwnerShares::new(ShareLimits::new(8));
    let guard = Arc::new(RequestGuard::new(rules, Arc::clone(&metrics), None, None, shares));
    let connect = |router| Connections::new(router, 64, Arc::clone(&metrics), ending.clone());
    let clock = Arc::new(ManualClock::default());
    let logins = Arc::default();
    let daemon = AppState {
        engine,
        serving,
        workspaces,
        metrics: Arc::clone(&metrics),
        event_streams: OwnerStreams::default(),
        clock,
        outside_reads: crate::http::outside_reads::OutsideReads::new(None),
        logins,
        settings: None,
        agents: Vec::new(),
        tokens: None,
    };
    let router: Router = crate::http::router(Arc::new(Owners::only(Arc::new(daemon))), guard);
    let router = router.layer(map_request(async |mut request: Request| {
        let token = HeaderValue::try_from(format!("Bearer {TOKEN}")).unwrap();
        request.headers_mut().insert(AUTHORIZATION, token);
        request
    }));
    let connections = connect(router);
    tokio::spawn(async move { connections.accept_loop(&listener).await });
    McpTestServer { address, ending, _folder: folder }
}

/// The suite in its stable version, and in its newest, which has the requirements of each revision.
const SUITES: [(&str, &[&str]); 3] = [
    ("mcp-conformance-0.1", &[]),
    ("mcp-conformance-0.2", &["--requirements", "2025-11-25"]),
    ("mcp-conformance-0.2", &["--requirements", "2026-07-28"]),
];

#[expect(clippy::disallowed_methods, reason = "the environment names the tools of tests")]
fn tool(variable: &str) -> std::path::PathBuf {
    let set = std::env::var_os(variable);
    let missing =
        || panic!("{variable} is not set: run `cargo xtask test`, or see `cargo xtask tools`");
    set.map_or_else(missing, Into::into)
}

/// Runs the suite; fails on every failure that is not expected.
async fn check(served: &McpTestServer, expected_failures: Option<&'static str>) {
    for (package, version) in SUITES {
        let script = tool("LUKASA_TEST_NODE_MODULES").join(package).join("dist/index.js");
        let mut suite = Command::new(tool("LUKASA_TEST_NODE"));
        suite.arg(script).args(["server", "--url", &format!("http://{}/mcp", served.address)]);
        suite.args(version);
        suite.args(expected_failures.map(|file| format!("--expected-failures={file}")));
        let output = tokio::task::spawn_blocking(move || suite.output().unwrap()).await.unwrap();
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{package} {version:?}\n{stdout}\n{stderr}");
        // The suite must have run at all.
        assert!(stdout.contains("✓ tools-list: "), "{package} {version:?}\n{stdout}");
    }
}

#[tokio::test]
async fn the_conformance_suite_passes_against_the_fixture() {
    check(&serve(fixture::endpoint).await, None).await;
}

#[tokio::test]
async fn the_conformance_suite_fails_only_in_what_is_not_offered() {
    let expected_failures = concat!(env!("CARGO_MANIFEST_DIR"), "/src/http/mcp/not_offered.yml");
    check(&serve(McpEndpoint::new).await, Some(expected_failures)).await;
}
