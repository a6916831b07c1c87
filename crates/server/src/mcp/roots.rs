//! The project of a client, determined by its roots.
//!
//! Older revisions let a server ask for the roots. That is done once, before the first answer that depends on them,
//! and again when the client reports a change. A client that does not answer in time counts as one without roots. The
//! newest revision deprecates roots and has no requests from the server; asking would cost every tool call a second
//! round trip, so the start folder is used. Roots in several projects are ambiguous: to guess the first one could write
//! memories into the wrong repository, so such a client has no project.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::request::Parts;
use engine::{BindingRequest, Checkout, ProjectFolder, RemoteFolder, RemoteHost};
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rmcp::RoleServer;
use rmcp::model::{ClientResult, Extensions, ProtocolVersion, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::sync::OnceCell;

use crate::limits::MCP_ROOTS_WAIT;

/// The source that decides about the project of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProjectSource {
    /// The binding, because the user named the project. The client is not asked.
    Binding,
    /// The client's roots, if they are in one project; roots in several projects are ambiguous and mean no project.
    /// Without roots, the binding.
    ClientRoots,
    /// The workspace of the request, which has this binding. A client with roots in several projects must name one in
    /// its URL; else it has no project.
    Workspace,
}

/// A request extension: the HTTP request names its workspace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExplicitWorkspace;

/// The project of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ClientProject {
    /// The project of the binding.
    #[default]
    Bound,
    /// The project that contains this folder.
    Folder(ProjectFolder),
    /// No project, with the reason: the client has roots in several projects and names none.
    Unnamed(String),
}

impl ClientProject {
    /// Returns the binding of the host, changed to this project.
    pub(super) fn bind(self, host: &BindingRequest) -> BindingRequest {
        let (project, no_project) = match self {
            Self::Bound => return host.clone(),
            Self::Folder(folder) => (Some(folder), None),
            Self::Unnamed(reason) => (None, Some(reason)),
        };
        BindingRequest { project, no_project, ..host.clone() }
    }
}

/// The cached answer of a client about its roots.
#[derive(Debug)]
pub(super) struct Roots {
    source: ProjectSource,
    /// Other machines whose folders a client may name.
    remote_hosts: Vec<RemoteHost>,
    /// Replaced when the roots change; requests that wait for the old answer still get that one.
    answer: Mutex<Arc<OnceCell<ClientProject>>>,
}

impl Roots {
    pub(super) fn new(source: ProjectSource, remote_hosts: Vec<RemoteHost>) -> Self {
        Self { source, remote_hosts, answer: Mutex::default() }
    }

    /// Drops the cached answer.
    pub(super) fn changed(&self) {
        *self.answer.lock() = Arc::default();
    }

    /// Returns the project of a request, asking the client for its roots if there is no cached answer.
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
                let folder = |uri: &String| {
                    let local = folder(uri).map(ProjectFolder::Local);
                    let remote =
                        || remote_folder(uri, &self.remote_hosts).map(ProjectFolder::Remote);
                    local.or_else(remote)
                };
                project_of(self.source, uris.iter().filter_map(folder).collect())
            }
            Err(error) => {
                tracing::warn!(%error, "failed to get the client's roots; using the start folder");
                ClientProject::Bound
            }
        }
    }
}

/// Checks whether a client can be asked for roots. The newest revision has no such request.
fn has_roots(peer: &Peer<RoleServer>) -> bool {
    peer.peer_info().is_some_and(|client| {
        client.capabilities.roots.is_some()
            && client.protocol_version < ProtocolVersion::V_2026_07_28
    })
}

/// Returns the project of these roots: the only checkout among them, or else the first folder. A folder of another
/// machine counts as a checkout.
fn project_of(from: ProjectSource, folders: Vec<ProjectFolder>) -> ClientProject {
    let mut checkouts: Vec<ProjectFolder> = Vec::new();
    for folder in &folders {
        let checkout = match folder {
            ProjectFolder::Local(folder) => Checkout::find(folder).map(|found| found.root.into()),
            ProjectFolder::Remote(_) => Some(folder.clone()),
        };
        checkouts.extend(checkout.filter(|checkout| !checkouts.contains(checkout)));
    }
    if checkouts.len() > 1 {
        // Models read this, so it contains only the last component of each path.
        let name = |folder: &ProjectFolder| {
            let path = PathBuf::from(folder.to_string());
            format!("`{}`", path.file_name().unwrap_or_default().to_string_lossy())
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
        // The request decides, regardless of the roots.
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
        // A result without roots counts as an empty list.
        _ => Ok(Vec::new()),
    }
}

/// Returns the local folder of a `file` URI.
fn folder(uri: &str) -> Option<PathBuf> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_at_checked(rest.find('/')?)?;
    let is_local = host.is_empty() || host.eq_ignore_ascii_case("localhost");
    if !scheme.eq_ignore_ascii_case("file") || !is_local {
        return None;
    }
    let path = path.split(['?', '#']).next()?;
    let path = percent_decode_str(path).decode_utf8().ok()?;
    (!path.contains('\0')).then(|| PathBuf::from(path.as_ref()))
}

/// Returns the folder on another machine that a URI of the scheme `ssh` or `vscode-remote` names, if it is one of these
/// machines.
fn remote_folder(uri: &str, hosts: &[RemoteHost]) -> Option<RemoteFolder> {
    let address = match uri.strip_prefix("vscode-remote://") {
        Some(rest) => {
            let (authority, path) = rest.split_at_checked(rest.find('/')?)?;
            let authority = percent_decode_str(authority).decode_utf8().ok()?;
            format!("ssh://{}{path}", authority.strip_prefix("ssh-remote+")?)
        }
        None => uri.to_owned(),
    };
    let folder: RemoteFolder = address.split(['?', '#']).next()?.parse().ok()?;
    hosts.contains(folder.host()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_folder_is_used_only_on_a_listed_machine() {
        let hosts = ["build", "ada@build:2222"].map(|host| host.parse().unwrap());
        for (uri, expected) in [
            ("ssh://build/srv/shop", Some("ssh://build/srv/shop")),
            ("ssh://ada@build:2222/srv/a%20b", Some("ssh://ada@build:2222/srv/a%20b")),
            ("vscode-remote://ssh-remote+build/srv/shop?x#y", Some("ssh://build/srv/shop")),
            ("vscode-remote://ssh-remote%2Bbuild/srv", Some("ssh://build/srv")),
            ("vscode-remote://ssh-remote+other/srv", None),
            ("vscode-remote://wsl+Debian/srv", None),
            ("vscode-remote://ssh-remote+-oProxyCommand=x/srv", None),
            ("ssh://ada@build/srv", None),
            ("ssh://other/srv", None),
            ("file:///srv", None),
        ] {
            let found = remote_folder(uri, &hosts).map(|folder| folder.to_string());
            assert_eq!(found.as_deref(), expected, "{uri}");
            assert_eq!(remote_folder(uri, &[]), None, "{uri}");
        }
    }

    fn check(uri: &str, expected: Option<&str>) {
        assert_eq!(folder(uri), expected.map(PathBuf::from), "{uri}");
    }

    #[test]
    fn only_file_uris_of_this_machine_are_folders() {
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
