//! What is asked all the time, answered before a route is looked for: a memory whose file is as it was when
//! its answer was made, and how far a task is.
//!
//! The gate is the same, and so are the answers; whatever is not plain is left to the routes. Finding a route,
//! taking a request apart for it and putting its answer together costs as much as all that is done here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse as _, Response};
use futures_util::future::{Either, Ready, ready};
use hyper::body::Body as _;
use hyper::body::Incoming;
use tower_service::Service as _;
use tracing::Instrument as _;

use memory::feature::Feature;

use super::answers::Kept;
use super::daemon::Shared;
use super::gate::{Gate, Passed, Sender, client_name};
use super::listen::{Answering, Visitor};
use super::refused::Refused;

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
enum Asked {
    Memory(Arc<Kept>),
    /// A task of the kind, by its id.
    Task,
}

/// An answer that is there, or one to come.
type Answer = Either<Ready<Answered>, Pin<Box<dyn Future<Output = Answered> + Send>>>;

type Answered = Result<Response, Infallible>;

impl Front {
    pub(super) fn new(gate: Arc<Gate>, daemon: Shared, router: Router) -> Self {
        Self { gate, daemon, router }
    }

    /// Tells what a request asks for, if that may be answered here.
    fn asked(&self, request: &Request<Incoming>) -> Option<Asked> {
        let is_plain = request.method() == Method::GET
            && request.body().is_end_stream()
            && client_name(request.headers()).is_none();
        let asked = request.uri().path_and_query().filter(|_| is_plain)?.as_str();
        let kept = self.daemon.answers.get(asked);
        kept.map(Asked::Memory).or_else(|| {
            kind_and_task(asked).filter(|_| self.daemon.has(Feature::Tasks, request.uri()))?;
            Some(Asked::Task)
        })
    }

    /// Answers with what is kept; `None` if that is not so any more.
    fn memory(
        &self,
        kept: &Kept,
        request: &Request<Incoming>,
        visitor: &Visitor,
    ) -> Option<Response> {
        let daemon = &self.daemon;
        let visit = self.gate.enter(request);
        let response = match self.check(request, visitor) {
            Err(refused) => Some(refused.into_response()),
            Ok(()) => visit.span.in_scope(|| {
                let memories = daemon.memories(daemon.trusted(Some(&kept.workspace)).ok()?);
                let is_current = memories.stamp(&kept.path) == Some(kept.stamp);
                is_current.then(|| kept.answer.to(request.headers()))
            }),
        };
        response.map(|response| self.gate.leave(visit, READ.into(), response))
    }

    /// Tells how far a task is.
    async fn task(self: Arc<Self>, request: Request<Incoming>, visitor: Visitor) -> Answered {
        let visit = self.gate.enter(&request);
        let found = async {
            self.check(&request, &visitor)?;
            let asked = kind_and_task(request.uri().path()).unwrap_or_default();
            self.daemon.look_at(None, asked, request.headers()).await
        };
        let response = found.instrument(visit.span.clone()).await.into_response();
        Ok(self.gate.leave(visit, LOOK_AT.into(), response))
    }

    /// Checks a request of somebody who gives no name.
    fn check(&self, request: &Request<Incoming>, visitor: &Visitor) -> Result<(), Refused> {
        self.gate.check(request, Sender { visitor: Some(visitor), name: None })
    }
}

impl Answering for Front {
    type Answer = Answer;

    fn answer(self: &Arc<Self>, mut request: Request<Incoming>, visitor: &Visitor) -> Answer {
        match self.asked(&request) {
            Some(Asked::Memory(kept)) => {
                if let Some(response) = self.memory(&kept, &request, visitor) {
                    return Either::Left(ready(Ok(response)));
                }
                request.extensions_mut().insert(Passed);
            }
            Some(Asked::Task) => {
                let task = Arc::clone(self).task(request, visitor.clone());
                return Either::Right(Box::pin(task));
            }
            None => {}
        }
        request.extensions_mut().insert(visitor.clone());
        Either::Right(Box::pin(self.router.clone().call(request)))
    }
}

/// Returns the kind and the id of the task that a path asks for, if it asks plainly for one.
fn kind_and_task(path: &str) -> Option<(&str, &str)> {
    let (kind, task) = path.strip_prefix("/workspace/memory/")?.split_once('/')?;
    let is_plain = task.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_plain.then_some((kind, task))
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
