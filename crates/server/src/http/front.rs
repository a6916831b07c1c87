//! What is asked all the time, answered before a route is looked for: a memory whose file is as it was when
//! its answer was made, and how far a task is.
//!
//! The gate is the same, and so are the answers; whatever is not plain is left to the routes. Finding a route,
//! taking a request apart for it and putting its answer together costs as much as all that is done here.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use hyper::body::Body as _;
use hyper::body::Incoming;
use tower_service::Service as _;
use tracing::Instrument as _;

use super::answers::Kept;
use super::daemon::Shared;
use super::gate::{Gate, Passed, client_name};
use super::listen::Answering;

/// The routes that are known here.
const READ: &str = "/v1/memories/{*path}";
const LOOK_AT: &str = "/workspace/memory/{kind}/{task}";

/// The gate, the routes, and what comes before them.
#[derive(Clone, Debug)]
pub(super) struct Front {
    gate: Arc<Gate>,
    daemon: Shared,
    router: Router,
}

/// What a request asks for that is answered here.
enum Asked<'a> {
    Memory(Arc<Kept>),
    Task { kind: &'a str, task: &'a str },
}

impl Front {
    pub(super) fn new(gate: Arc<Gate>, daemon: Shared, router: Router) -> Self {
        Self { gate, daemon, router }
    }

    async fn answered(&self, mut request: Request<Incoming>) -> Response {
        if let Some(asked) = self.asked(&request) {
            let visit = self.gate.enter(&request);
            let response = match self.gate.check(&request) {
                Err(refused) => Some(refused.into_response()),
                Ok(()) => {
                    self.answer_at_once(&asked, &request).instrument(visit.span.clone()).await
                }
            };
            if let Some(response) = response {
                return self.gate.leave(visit, asked.route(), response);
            }
            request.extensions_mut().insert(Passed);
        }
        // In a box, so that what is answered here is moved about without the room that routes need.
        let Ok(response) = Box::pin(self.router.clone().call(request)).await;
        response
    }

    /// Tells what a request asks for, if that may be answered here.
    fn asked<'a>(&self, request: &'a Request<Incoming>) -> Option<Asked<'a>> {
        let is_plain = request.method() == Method::GET
            && request.body().is_end_stream()
            && client_name(request.headers()).is_none();
        let asked = request.uri().path_and_query().filter(|_| is_plain)?.as_str();
        if let Some(kept) = self.daemon.answers.get(asked) {
            return Some(Asked::Memory(kept));
        }
        let (kind, task) = asked.strip_prefix("/workspace/memory/")?.split_once('/')?;
        let is_plain = task.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        is_plain.then_some(Asked::Task { kind, task })
    }

    /// Answers what was asked; `None` leaves it to the routes.
    async fn answer_at_once(
        &self,
        asked: &Asked<'_>,
        request: &Request<Incoming>,
    ) -> Option<Response> {
        let daemon = &self.daemon;
        match asked {
            Asked::Memory(kept) => {
                let memories = daemon.memories(daemon.trusted(Some(&kept.workspace)).ok()?);
                let is_current = memories.stamp(&kept.path) == Some(kept.stamp);
                is_current.then(|| kept.answer.to(request.headers()))
            }
            Asked::Task { kind, task } => {
                let found = daemon.look_at(None, (kind, task), request.headers()).await;
                Some(found.into_response())
            }
        }
    }
}

impl Answering for Front {
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response> + Send {
        self.answered(request)
    }
}

impl Asked<'_> {
    fn route(&self) -> &'static str {
        match self {
            Self::Memory(_) => READ,
            Self::Task { .. } => LOOK_AT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_routes_that_are_known_here_are_routes() {
        let document = crate::http::document();
        for route in [READ.replace("{*", "{"), LOOK_AT.to_owned()] {
            assert!(document["paths"][&route]["get"].is_object(), "{route}");
        }
    }
}
