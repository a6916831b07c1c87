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
use futures_util::future::join_all;
use memory::access::AgentClass;
use memory::limits::{DRAIN_WAIT, HTTP_SHUTDOWN_WAIT};
use memory::owner::{OwnerSize, Role, TokenRights};
use parking_lot::Mutex;
use protocol::error::{ErrorBody, ErrorCode};
use tokio::sync::OnceCell;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::app_state::{AGENT_CLASS_HEADER, AppState, SharedState};
use super::metrics::OwnerStreams;
use super::outside_reads::OutsideReads;
use super::owner_directory::{
    OpenOwnerError, OpenedOwner, OwnTokens, OwnerDirectory, OwnerResources,
};
use super::routes::{RequiredFeatures, RequiredRight, required_right};
use super::served_workspaces::{ServedWorkspaces, WorkspaceSet};
use crate::error::ErrorResponse;
use crate::limits::{LANES_ADOPTED_MAX, OWNER_IDLE_MAX, OWNERS_CHECK_INTERVAL, OWNERS_OPEN_MAX};

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
            (Self::Operator, _) | (Self::Anonymous, RequiredRight::Role(Role::Read)) => {
                return Ok(());
            }
            (Self::Owner(rights), RequiredRight::Role(role)) if rights.role >= role => {
                return Ok(());
            }
            (_, RequiredRight::Role(role)) => role.into(),
            (_, RequiredRight::Operator) => "operator",
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
    open: Mutex<OpenOwners>,
}

/// The table of open owners.
#[derive(Debug, Default)]
struct OpenOwners {
    slots: HashMap<String, Arc<OwnerSlot>>,
    /// Whether the daemon shuts down, so that no owner is opened any more.
    is_closing: bool,
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
                others.state(&rights.owner, &self.own, Use::Request).await
            }
            _ => Ok(Arc::clone(&self.own)),
        }
    }

    /// Does the work of the directory until `stop` is cancelled: closes owners that are idle, and opens those whose tasks no
    /// daemon runs.
    pub(super) async fn maintain(&self, stop: &CancellationToken) {
        let Some(others) = &self.others else { return };
        let looking = async {
            let mut ticks = interval(OWNERS_CHECK_INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut waiting = BTreeSet::new();
            loop {
                ticks.tick().await;
                others.close_idle().await;
                waiting = others.adopt(waiting, &self.own).await;
            }
        };
        stop.run_until_cancelled(looking).await;
    }

    /// Returns the sizes of all open owners; empty without a directory.
    pub(super) async fn sizes(&self) -> Result<Vec<OwnerSize>, ErrorResponse> {
        let Some(others) = &self.others else { return Ok(Vec::new()) };
        let mut names = vec![others.own_name.clone()];
        names.extend(others.open.lock().slots.keys().cloned());
        Ok(others.directory.sizes(&names).await?)
    }

    /// Opens no more owners, takes no more tasks of any owner, and gives running ones some time to end.
    pub(super) async fn drain(&self) {
        if let Some(others) = &self.others {
            others.open.lock().is_closing = true;
        }
        let states = self.open_states();
        join_all(states.iter().map(|state| state.serving.lanes.drain(DRAIN_WAIT))).await;
    }

    /// Ends all streams, after the running MCP calls were answered.
    pub(super) async fn end_streams(&self) {
        let states = self.open_states();
        join_all(states.iter().map(|state| state.end_streams())).await;
    }

    /// Writes what is not written yet, and closes the engines of other owners. No request may arrive any more.
    pub(super) async fn close(&self) {
        let states = self.open_states();
        join_all(states.iter().map(|state| state.flush_conversations())).await;
        for slot in self.open_slots() {
            if let Some((_, resources)) = slot.open.get() {
                resources.close().await;
            }
        }
    }

    fn open_slots(&self) -> Vec<Arc<OwnerSlot>> {
        let Some(others) = &self.others else { return Vec::new() };
        others.open.lock().slots.values().cloned().collect()
    }

    /// Returns the states of all open owners.
    fn open_states(&self) -> Vec<SharedState> {
        let slots = self.open_slots();
        let others = slots.iter().filter_map(|slot| Some(Arc::clone(&slot.open.get()?.0)));
        [Arc::clone(&self.own)].into_iter().chain(others).collect()
    }
}

/// The reason why an owner is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// A request: the owner stays open for a while.
    Request,
    /// Tasks that no daemon runs.
    Adoption,
}

impl OwnerSlot {
    fn new() -> Arc<Self> {
        Arc::new(Self { open: OnceCell::new(), last_used: Mutex::new(Instant::now()) })
    }

    /// Checks whether the owner does nothing, and no request uses it. The table has one reference to the slot.
    fn is_idle(self: &Arc<Self>) -> bool {
        Arc::strong_count(self) == 1
            && self
                .open
                .get()
                .is_none_or(|(state, _)| Arc::strong_count(state) == 1 && state.is_idle())
    }

    /// Ends the services of the owner.
    async fn close(&self) {
        let Some((state, resources)) = self.open.get() else { return };
        state.serving.lanes.drain(DRAIN_WAIT).await;
        state.end_streams().await;
        state.flush_conversations().await;
        resources.close().await;
    }
}

impl OpenOwners {
    /// Removes the owner that was idle longest.
    fn remove_idlest(&mut self) -> Option<Arc<OwnerSlot>> {
        let idle = self.slots.iter().filter(|(_, slot)| slot.is_idle());
        let (name, _) = idle.min_by_key(|(_, slot)| *slot.last_used.lock())?;
        let name = name.clone();
        self.slots.remove(&name)
    }
}

impl OtherOwners {
    /// Returns the state of an owner; opens it if it is not open.
    async fn state(
        &self,
        name: &str,
        own: &SharedState,
        used_for: Use,
    ) -> Result<SharedState, ErrorResponse> {
        if name == self.own_name {
            return Ok(Arc::clone(own));
        }
        let (slot, evicted) = self.slot(name, used_for)?;
        if let Some(evicted) = evicted {
            // In the background, since the caller does not need its end.
            tokio::spawn(async move { evicted.close().await });
        }
        let open = slot.open.get_or_try_init(|| self.open_state(name, own)).await;
        Ok(Arc::clone(&open?.0))
    }

    /// Returns the slot of an owner, and one that was removed from the table to make room for it.
    fn slot(
        &self,
        name: &str,
        used_for: Use,
    ) -> Result<(Arc<OwnerSlot>, Option<Arc<OwnerSlot>>), ErrorResponse> {
        let mut open = self.open.lock();
        if let Some(slot) = open.slots.get(name) {
            if used_for == Use::Request {
                *slot.last_used.lock() = Instant::now();
            }
            return Ok((Arc::clone(slot), None));
        }
        if open.is_closing {
            return Err(ErrorCode::WorkspaceDraining.into());
        }
        let mut evicted = None;
        if open.slots.len() >= OWNERS_OPEN_MAX {
            evicted = open.remove_idlest();
            if evicted.is_none() {
                let message = format!("{OWNERS_OPEN_MAX} owners are in use, which is the maximum");
                let refused = ErrorResponse::from(ErrorCode::Overloaded).with_message(message);
                return Err(refused.retry_after(1));
            }
        }
        let slot = OwnerSlot::new();
        open.slots.insert(name.to_owned(), Arc::clone(&slot));
        Ok((slot, evicted))
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
        let outside_reads = OutsideReads::new(engine.outside_readers());
        let state = AppState {
            engine,
            serving,
            workspaces,
            metrics: Arc::clone(&own.metrics),
            event_streams: OwnerStreams::default(),
            clock: Arc::clone(&own.clock),
            outside_reads,
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
            let was_idle =
                |slot: &Arc<OwnerSlot>| slot.last_used.lock().elapsed() >= OWNER_IDLE_MAX;
            let idle = open.slots.extract_if(|_, slot| was_idle(slot) && slot.is_idle());
            idle.map(|(_, slot)| slot).collect()
        };
        join_all(idle.iter().map(|slot| slot.close())).await;
    }

    /// Opens some of the queues that no daemon worked on at the last look already. Returns the queues that no daemon works on
    /// now.
    async fn adopt(
        &self,
        before: BTreeSet<(String, String)>,
        own: &SharedState,
    ) -> BTreeSet<(String, String)> {
        if own.workspaces.find(|workspace| workspace.memory_enabled).is_none() {
            return before;
        }
        let unfinished = match self.directory.unfinished_lanes().await {
            Ok(unfinished) => unfinished.into_iter().collect::<BTreeSet<_>>(),
            Err(error) => {
                tracing::debug!(%error, "cannot look for unfinished tasks");
                return before;
            }
        };
        let mut waiting = unfinished.clone();
        for lane in unfinished.intersection(&before).take(LANES_ADOPTED_MAX) {
            let (owner, workspace) = lane;
            let opened = async {
                self.state(owner, own, Use::Adoption).await?.workspace(Some(workspace)).await
            };
            if let Err(error) = opened.await {
                let code = error.code();
                tracing::debug!(owner, workspace, %code, "unfinished tasks are not continued here");
                if code == ErrorCode::StorageUnavailable {
                    break;
                }
                // Left out of the next look, which reaches those behind it.
                waiting.remove(lane);
            }
        }
        waiting
    }
}

impl AppState {
    fn is_idle(&self) -> bool {
        self.workspaces.all().iter().all(|served| served.is_idle(&self.serving))
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
