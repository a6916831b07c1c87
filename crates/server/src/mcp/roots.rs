//! Which project a client works in, as it says by its roots.
//!
//! The older revisions let a server ask for them; that is done once, before the first answer that
//! depends on it, and again when the client says that they changed. A client that does not answer
//! in time is taken to have none. The newest revision calls roots deprecated and has no request
//! from the server; asking would cost every tool call a second round, so the host's start folder
//! counts there.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use memory::limits::MCP_ROOTS_WAIT;
use percent_encoding::percent_decode_str;
use rmcp::RoleServer;
use rmcp::model::{ClientResult, ServerRequest};
use rmcp::service::{Peer, PeerRequestOptions, ServiceError};
use tokio::sync::OnceCell;

use super::ProjectFrom;

/// The folder that a client said it works in, once it was asked.
#[derive(Debug)]
pub(super) struct Roots {
    from: ProjectFrom,
    /// Replaced when the client's roots change: who waits for the old answer still gets that one.
    answer: Mutex<Arc<OnceCell<Option<PathBuf>>>>,
}

impl Roots {
    pub(super) fn new(from: ProjectFrom) -> Self {
        Self { from, answer: Mutex::default() }
    }

    /// Forgets what the client said.
    pub(super) fn changed(&self) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// Returns the first folder among the client's roots, asking for them if that was not done.
    /// `None` leaves it to the binding.
    pub(super) async fn project(&self, peer: &Peer<RoleServer>) -> Option<PathBuf> {
        if self.from == ProjectFrom::Binding || !has_roots(peer) {
            return None;
        }
        let answer = Arc::clone(&self.answer.lock().unwrap_or_else(PoisonError::into_inner));
        answer.get_or_init(|| ask(peer)).await.clone()
    }
}

fn has_roots(peer: &Peer<RoleServer>) -> bool {
    peer.peer_info().is_some_and(|client| client.capabilities.roots.is_some())
}

async fn ask(peer: &Peer<RoleServer>) -> Option<PathBuf> {
    match list_roots(peer).await {
        Ok(uris) => uris.iter().find_map(|uri| folder(uri)),
        Err(error) => {
            tracing::warn!(%error, "the client did not give its roots; using the start folder");
            None
        }
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
