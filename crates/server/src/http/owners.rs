//! The owners whose memories a daemon serves: whom a request belongs to, and what its token allows.
//!
//! A daemon has an owner of its own, to whom its own token leads. With a directory it also serves the owners of tokens
//! in a database. Each of them has an engine, which is opened with the first request and closed when it is idle.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use memory::access::AgentClass;
use memory::limits::{DRAIN_WAIT, HTTP_SHUTDOWN_WAIT};
use memory::owner::{OwnerSize, Role, TokenRights};
use parking_lot::Mutex;
use protocol::error::{ErrorBody, ErrorCode};
use tokio::sync::OnceCell;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::app_state::{AGENT_CLASS_HEADER, AppState, SharedState};
use super::outside_reads::OutsideReads;
use super::owner_directory::{
    OpenOwnerError, OpenedOwner, OwnTokens, OwnerDirectory, OwnerResources,
};
use super::routes::{RequiredFeatures, RequiredRight, required_right};
use super::served_workspaces::{ServedWorkspaces, WorkspaceSet};
use crate::error::ErrorResponse;
use crate::limits::{OWNER_IDLE_MAX, OWNERS_CHECK_INTERVAL, OWNERS_OPEN_MAX};

/// The caller of a request. The request guard adds it to the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestOwner {
    /// A caller without a token, whom the guard lets use this route.
    Anonymous,
    /// The operator of the daemon, who has its own token.
    Operator,
    /// A caller with the token of an owner.
    Owner(TokenRights),
}

impl RequestOwner {
    /// Checks whether the caller has a right; the error is the answer.
    fn check(&self, right: RequiredRight) -> Result<(), ErrorResponse> {
        let missing: &str = match (self, right) {
            (Self::Anonymous | Self::Operator, _) => return Ok(()),
            (Self::Owner(rights), RequiredRight::Role(role)) if rights.role >= role => {
                return Ok(());
            }
            (Self::Owner(_), RequiredRight::Role(role)) => role.into(),
            (Self::Owner(_), RequiredRight::Operator) => "operator",
        };
        let body = ErrorBody::new(ErrorCode::InsufficientRole).with_fact("requiredRole", missing);
        Err(body.into())
    }
}

/// An owner that is open, or is being opened.
#[derive(Debug)]
struct OwnerSlot {
    open: OnceCell<(SharedState, Box<dyn OwnerResources>)>,
    last_used: Mutex<Instant>,
}

/// The owners that a daemon serves.
#[derive(Debug)]
pub(super) struct Owners {
    /// The owner of the daemon's own token.
    own: SharedState,
    others: Option<OtherOwners>,
}

/// The owners besides the daemon's own.
#[derive(Debug)]
struct OtherOwners {
    directory: Arc<dyn OwnerDirectory>,
    /// The name of the daemon's own owner.
    own_name: String,
    open: Mutex<HashMap<String, Arc<OwnerSlot>>>,
}

impl Owners {
    /// Serves only the daemon's own owner.
    pub(super) const fn only(own: SharedState) -> Self {
        Self { own, others: None }
    }

    /// Also serves the owners of a directory. The own owner has the name `own_name` there.
    pub(super) fn with_directory(
        own: SharedState,
        directory: Arc<dyn OwnerDirectory>,
        own_name: String,
    ) -> Self {
        Self { own, others: Some(OtherOwners { directory, own_name, open: Mutex::default() }) }
    }

    /// Returns the state of a caller's owner.
    async fn state_of(&self, caller: &RequestOwner) -> Result<SharedState, ErrorResponse> {
        match (caller, &self.others) {
            (RequestOwner::Owner(rights), Some(others)) => {
                others.state(&rights.owner, &self.own).await
            }
            _ => Ok(Arc::clone(&self.own)),
        }
    }

    /// Does the work of the directory until `stop` is cancelled: closes owners that are idle, and opens those whose tasks no
    /// daemon seems to run.
    pub(super) async fn maintain(&self, stop: &CancellationToken) {
        let Some(others) = &self.others else { return };
        let mut ticks = interval(OWNERS_CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut waiting = BTreeSet::new();
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            others.close_idle().await;
            waiting = others.adopt(waiting, &self.own).await;
        }
    }

    /// Returns the sizes of all open owners; empty without a directory.
    pub(super) async fn sizes(&self) -> Result<Vec<OwnerSize>, ErrorResponse> {
        let Some(others) = &self.others else { return Ok(Vec::new()) };
        let mut names = vec![others.own_name.clone()];
        names.extend(others.open.lock().keys().cloned());
        Ok(others.directory.sizes(&names).await?)
    }

    /// Takes no more tasks of any owner, and gives running ones some time to end.
    pub(super) async fn drain(&self) {
        let states = self.open_states();
        let draining = states.iter().map(|state| state.serving.lanes.drain(DRAIN_WAIT));
        futures_util::future::join_all(draining).await;
    }

    /// Ends all streams, after the running MCP calls were answered.
    pub(super) async fn end_streams(&self) {
        let states = self.open_states();
        let ending = states.iter().map(|state| state.end_streams());
        futures_util::future::join_all(ending).await;
    }

    /// Writes what is not written yet, and closes the engines of other owners. No request may arrive any more.
    pub(super) async fn close(&self) {
        let states = self.open_states();
        let flushing = states.iter().map(|state| state.flush_conversations());
        futures_util::future::join_all(flushing).await;
        for slot in self.open_slots() {
            if let Some((_, resources)) = slot.open.get() {
                resources.close().await;
            }
        }
    }

    fn open_slots(&self) -> Vec<Arc<OwnerSlot>> {
        let others = self.others.as_ref();
        others.map(|others| others.open.lock().values().cloned().collect()).unwrap_or_default()
    }

    /// Returns the states of all open owners.
    fn open_states(&self) -> Vec<SharedState> {
        let slots = self.open_slots();
        let others = slots.iter().filter_map(|slot| Some(Arc::clone(&slot.open.get()?.0)));
        [Arc::clone(&self.own)].into_iter().chain(others).collect()
    }
}

impl OtherOwners {
    /// Returns the state of an owner; opens it if it is not open.
    async fn state(&self, name: &str, own: &SharedState) -> Result<SharedState, ErrorResponse> {
        if name == self.own_name {
            return Ok(Arc::clone(own));
        }
        let slot = {
            let mut open = self.open.lock();
            if !open.contains_key(name) && open.len() >= OWNERS_OPEN_MAX {
                return Err(ErrorResponse::from(ErrorCode::Overloaded).retry_after(1));
            }
            let slot = open.entry(name.to_owned()).or_insert_with(|| {
                Arc::new(OwnerSlot { open: OnceCell::new(), last_used: Mutex::new(Instant::now()) })
            });
            *slot.last_used.lock() = Instant::now();
            Arc::clone(slot)
        };
        let open = slot.open.get_or_try_init(|| self.open_state(name, own)).await;
        Ok(Arc::clone(&open?.0))
    }

    async fn open_state(
        &self,
        name: &str,
        own: &SharedState,
    ) -> Result<(SharedState, Box<dyn OwnerResources>), OpenOwnerError> {
        let workspaces: Vec<_> =
            own.workspaces.plain().into_iter().filter(|workspace| workspace.primary).collect();
        let opened = self.directory.open(name, &workspaces).await?;
        let OpenedOwner { engine, services: serving, resources } = opened;
        let workspaces = ServedWorkspaces::new(
            (&engine, &serving.feeds),
            workspaces,
            WorkspaceSet::Named,
            CancellationToken::new(),
        );
        let state = AppState {
            engine,
            serving,
            workspaces,
            metrics: Arc::clone(&own.metrics),
            clock: Arc::clone(&own.clock),
            outside_reads: OutsideReads::default(),
            logins: Arc::clone(&own.logins),
            settings: None,
            agents: own.agents.clone(),
            tokens: Some(OwnTokens {
                directory: Arc::clone(&self.directory),
                owner: name.to_owned(),
            }),
        };
        Ok((Arc::new(state), resources))
    }

    /// Closes the owners that were not used for a while, and do nothing now.
    async fn close_idle(&self) {
        let idle: Vec<_> = {
            let mut open = self.open.lock();
            let is_idle = |slot: &Arc<OwnerSlot>| {
                Arc::strong_count(slot) == 1
                    && slot.last_used.lock().elapsed() >= OWNER_IDLE_MAX
                    && slot
                        .open
                        .get()
                        .is_none_or(|(state, _)| Arc::strong_count(state) == 1 && state.is_idle())
            };
            open.extract_if(|_, slot| is_idle(slot)).map(|(_, slot)| slot).collect()
        };
        for slot in idle {
            if let Some((state, resources)) = slot.open.get() {
                state.serving.lanes.drain(DRAIN_WAIT).await;
                state.end_streams().await;
                state.flush_conversations().await;
                resources.close().await;
            }
        }
    }

    /// Opens the queues that had unfinished tasks at the last look already. Their tasks run here if no other daemon runs
    /// them. Returns the queues that have some now.
    async fn adopt(
        &self,
        before: BTreeSet<(String, String)>,
        own: &SharedState,
    ) -> BTreeSet<(String, String)> {
        let unfinished = match self.directory.unfinished_lanes().await {
            Ok(unfinished) => unfinished.into_iter().collect::<BTreeSet<_>>(),
            Err(error) => {
                tracing::debug!(%error, "cannot look for unfinished tasks");
                return before;
            }
        };
        for (owner, workspace) in unfinished.intersection(&before) {
            let opened = async { self.state(owner, own).await?.workspace(Some(workspace)).await };
            if let Err(error) = opened.await {
                tracing::warn!(owner, workspace, ?error, "unfinished tasks cannot be continued");
            }
        }
        unfinished
    }
}

impl AppState {
    fn is_idle(&self) -> bool {
        self.serving.lanes.is_idle()
            && self.serving.feeds.readers() == 0
            && self.workspaces.all().iter().all(|served| served.mcp.is_idle())
    }

    /// Ends all streams of changes, after the running MCP calls were answered.
    async fn end_streams(&self) {
        self.serving.feeds.close_all();
        self.workspaces.end().await;
    }

    /// Writes the state of conversations. Answers do not wait for that, so shutdown does.
    async fn flush_conversations(&self) {
        let flushed = self.serving.conversations.flush();
        if timeout(HTTP_SHUTDOWN_WAIT, flushed).await.is_err() {
            tracing::warn!(
                "shutdown timeout: conversation state was not written; a memory may be shown a second time"
            );
        }
    }
}

/// The middleware after the guard: refuses a request whose token lacks a right, or whose route needs a feature that is
/// disabled in its workspace. Adds the state of the owner to the request. A request that matches no route passes: the
/// router answers it.
pub(super) async fn admit(
    State((owners, needs)): State<(Arc<Owners>, Arc<RequiredFeatures>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = request.extensions().get::<RequestOwner>().cloned();
    let caller = caller.unwrap_or(RequestOwner::Anonymous);
    let route = request.extensions().get::<MatchedPath>().map(|route| route.as_str().to_owned());
    // axum serves HEAD with the handler of GET, so it needs the same.
    let method = match request.method() {
        &Method::HEAD => Method::GET,
        method => method.clone(),
    };
    if let Some(route) = &route
        && let Err(refused) = caller.check(required_right(&method, route))
    {
        return refused.into_response();
    }
    let state = match owners.state_of(&caller).await {
        Ok(state) => state,
        Err(error) => return error.into_response(),
    };
    let required = route.and_then(|route| needs.get(&(method, route)).copied()).flatten();
    if let Some(feature) = required
        && !state.has_feature(feature, request.uri())
    {
        return ErrorResponse::feature_disabled(feature).into_response();
    }
    if matches!(&caller, RequestOwner::Owner(rights) if rights.role == Role::Read) {
        // An agent with such a token has the class that only reads, whatever it names.
        let class = HeaderValue::from_static(AgentClass::Explore.into());
        request.headers_mut().insert(AGENT_CLASS_HEADER, class);
    }
    request.extensions_mut().insert(state);
    request.extensions_mut().insert(owners);
    next.run(request).await
}
