//! Which project a client works in, as it says by its roots.
//!
//! The older revisions let a server ask for them; that is done once, before the first answer that
//! depends on it, and again when the client says that they changed. A client that does not answer
//! in time is taken to have none. The newest revision calls roots deprecated and has no request
//! from the server; asking would cost every tool call a second round, so the host's start folder
//! counts there. Roots in several projects leave it open which one is meant: the first one would be a guess,
//! and what is remembered would lie in the wrong repository.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::request::Parts;
use engine::{BindingRequest, Checkout};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rmcp::RoleServer;
use rmcp::model::{ClientResult, Extensions, ProtocolVersion, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::sync::OnceCell;

use crate::limits::MCP_ROOTS_WAIT;

/// Who decides which project a client works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectSource {
    /// The binding, because a person named the project; the client is not asked.
    Binding,
    /// The client, if it has roots: the project in which they lie. Several projects are none, since nothing says
    /// which one is meant. Without roots, the binding.
    ClientRoots,
    /// The workspace that a request names, which the binding leads to. A client with roots in several projects
    /// has to name one; without a name there is no project for it.
    Workspace,
}

/// A mark on an HTTP request that names the workspace that it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplicitWorkspace;

/// The project that a client works in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientProject {
    /// The one of the binding.
    #[default]
    Bound,
    /// The one that this folder lies in.
    Folder(PathBuf),
    /// None, for this reason: the client works in several and does not say which one it means.
    Unnamed(String),
}

impl ClientProject {
    /// Returns a binding for a client in this project.
    pub(super) fn bind(self, host: &BindingRequest) -> BindingRequest {
        let (project_dir, no_project) = match self {
            Self::Bound => return host.clone(),
            Self::Folder(folder) => (Some(folder), None),
            Self::Unnamed(reason) => (None, Some(reason)),
        };
        BindingRequest { project_dir, no_project, ..host.clone() }
    }
}

/// The project that a client said it works in, once it was asked.
#[derive(Debug)]
pub(super) struct Roots {
    source: ProjectSource,
    /// Replaced when the client's roots change: who waits for the old answer still gets that one.
    answer: Mutex<Arc<OnceCell<ClientProject>>>,
}

impl Roots {
    pub(super) fn new(from: ProjectSource) -> Self {
        Self { source: from, answer: Mutex::default() }
    }

    /// Forgets what the client said.
    pub(super) fn changed(&self) {
        *self.answer.lock() = Arc::default();
    }

    /// Returns the project that a request is about, asking the client for its roots if that was not done.
    pub(super) async fn project(
        &self,
        peer: &Peer<RoleServer>,
        extensions: &Extensions,
    ) -> ClientProject {
        let is_decided = match self.source {
            ProjectSource::Binding => true,
            ProjectSource::ClientRoots => false,
            ProjectSource::Workspace => {
                let parts = extensions.get::<Parts>();
                parts.is_some_and(|parts| parts.extensions.get::<ExplicitWorkspace>().is_some())
            }
        };
        if is_decided || !has_roots(peer) {
            return ClientProject::Bound;
        }
        let answer = Arc::clone(&self.answer.lock());
        answer.get_or_init(|| self.ask(peer)).await.clone()
    }

    async fn ask(&self, peer: &Peer<RoleServer>) -> ClientProject {
        match list_roots(peer).await {
            Ok(uris) => {
                project_of(self.source, uris.iter().filter_map(|uri| folder(uri)).collect())
            }
            Err(error) => {
                tracing::warn!(%error, "the client did not give its roots; using the start folder");
                ClientProject::Bound
            }
        }
    }
}

/// Returns whether a client has roots that it can be asked for; the newest revision has no such request.
fn has_roots(peer: &Peer<RoleServer>) -> bool {
    peer.peer_info().is_some_and(|client| {
        client.capabilities.roots.is_some()
            && client.protocol_version < ProtocolVersion::V_2026_07_28
    })
}

/// Returns the project of these roots: the only checkout among them, else the first folder.
fn project_of(from: ProjectSource, folders: Vec<PathBuf>) -> ClientProject {
    let mut checkouts: Vec<PathBuf> = Vec::new();
    for checkout in folders.iter().filter_map(|folder| Checkout::find(folder)) {
        if !checkouts.contains(&checkout.root) {
            checkouts.push(checkout.root);
        }
    }
    if checkouts.len() > 1 {
        // Models read this, so it has no more of the paths than their last names.
        let name = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("`{name}`")
        };
        let names: Vec<_> = checkouts.iter().map(name).collect();
        let how = match from {
            ProjectSource::Workspace => {
                "name one by `?workspace=ID` in the URL of this server (`GET /capabilities` lists \
                 the ids)"
            }
            ProjectSource::ClientRoots | ProjectSource::Binding => {
                "name one by starting this server as `lukasa mcp --project DIR`"
            }
        };
        let reason =
            format!("the client has roots in several projects ({}); {how}", names.join(", "));
        return ClientProject::Unnamed(reason);
    }
    let only = checkouts.pop().or_else(|| folders.into_iter().next());
    match (from, only) {
        (ProjectSource::ClientRoots, Some(folder)) => ClientProject::Folder(folder),
        // The request decides, whatever the only root is.
        (ProjectSource::Workspace | ProjectSource::Binding, _) | (_, None) => ClientProject::Bound,
    }
}

#[expect(deprecated, reason = "the newest revision has no roots; the older ones do")]
async fn list_roots(peer: &Peer<RoleServer>) -> Result<Vec<String>, ServiceError> {
    let request = ServerRequest::ListRootsRequest(rmcp::model::ListRootsRequest::default());
    let options = PeerRequestOptions::with_timeout(MCP_ROOTS_WAIT);
    match peer.send_request_with_option(request, options).await?.await_response().await? {
        ClientResult::ListRootsResult(listed) => {
            Ok(listed.roots.into_iter().map(|root| root.uri).collect())
        }
        // A result without roots is read as an empty one.
        _ => Ok(Vec::new()),
    }
}

/// Returns the folder of this machine that a URI names.
fn folder(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_at_checked(rest.find('/')?)?;
    let here = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    if !scheme.eq_ignore_ascii_case("file") || !here {
        return None;
    }
    let path = path.split(['?', '#']).next()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    (!path.contains('\0')).then(|| PathBuf::from(path.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(uri: &str, expected: Option<&str>) {
        assert_eq!(folder(uri), expected.map(PathBuf::from), "{uri}");
    }

    #[test]
    fn only_a_folder_of_this_machine_is_a_project() {
        check("file:///home/ada/engine", Some("/home/ada/engine"));
        check("file:///home/ada/my%20work%2Fx/%C3%A9", Some("/home/ada/my work/x/é"));
        check("FILE://localhost/srv", Some("/srv"));
        check("file:///srv?x=1#top", Some("/srv"));
        check("file://elsewhere/srv", None);
        check("https://example.org/srv", None);
        check("file:///%00", None);
        check("file:///%ff", None);
        check("file://", None);
        check("/srv", None);
        check("", None);
    }
}
