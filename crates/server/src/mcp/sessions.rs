//! Sessions of clients that begin with a handshake, over HTTP: as many as there may be, each with the
//! client that began it.
//!
//! What a session holds and how its messages find their stream is the protocol library's. Added here is
//! what a server needs that runs for months: clients that never say goodbye cost a bounded amount, and a
//! session serves nobody but its client.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::stream::{Stream, StreamExt as _, unfold};
use memory::access::AgentClass;
use memory::limits::MCP_SESSIONS_MAX;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    ServerSseMessage, SessionId, SessionManager,
};

/// There are as many sessions as there may be, and somebody listens to each.
#[derive(Debug)]
pub(crate) struct TooManySessions;

/// The sessions of one workspace.
#[derive(Debug)]
pub(super) struct Sessions {
    inner: LocalSessionManager,
    max: usize,
    entries: Mutex<HashMap<SessionId, SessionEntry>>,
    /// Counts uses, so that they have an order.
    use_count: AtomicU64,
}

/// What is known of a session.
#[derive(Debug)]
struct SessionEntry {
    /// The id of the client that began it, if that has one.
    owner: Option<String>,
    /// The class of agent that it was begun for: no request in it may do more.
    class: AgentClass,
    last_used: u64,
    /// Held by every stream that waits for news, too.
    listeners: Arc<()>,
}

impl SessionEntry {
    fn has_listeners(&self) -> bool {
        Arc::strong_count(&self.listeners) > 1
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::with_max(MCP_SESSIONS_MAX)
    }
}

impl Sessions {
    /// Returns no sessions, of which there may be as many.
    pub(super) fn with_max(max: usize) -> Self {
        let mut library = LocalSessionManager::default();
        // They end when their client says so or when there is no room, not while a person thinks.
        library.session_config.keep_alive = None;
        // Clients of the oldest revisions take the empty event that this sends for a broken message.
        library.session_config.sse_retry = None;
        Self { inner: library, max, entries: Mutex::default(), use_count: AtomicU64::new(0) }
    }

    /// Makes room for a session: ends those unused longest that nobody listens to, until there are fewer
    /// than there may be. Several that begin at once may be more for a moment; the next one ends those.
    pub(super) async fn evict_idle(&self) -> Result<(), TooManySessions> {
        while let Some(unused) = self.session_to_evict()? {
            if let Err(error) = self.close_session(&unused).await {
                tracing::debug!(%error, "a session had ended by itself");
            }
        }
        Ok(())
    }

    /// Returns the session that has to make room, if one has to.
    fn session_to_evict(&self) -> Result<Option<SessionId>, TooManySessions> {
        let known = self.entries.lock();
        if known.len() < self.max {
            return Ok(None);
        }
        let unheard = known.iter().filter(|(_, session)| !session.has_listeners());
        let oldest = unheard.min_by_key(|(_, session)| session.last_used);
        oldest.map(|(id, _)| Some(SessionId::clone(id))).ok_or(TooManySessions)
    }

    /// Gives a session to the client that began it, for an agent of a class.
    pub(super) fn assign(&self, id: &str, owner: Option<&str>, class: AgentClass) {
        if let Some(session) = self.entries.lock().get_mut(id) {
            session.owner = owner.map(str::to_owned);
            session.class = class;
        }
    }

    /// Returns the class of agent that a session was begun for.
    pub(super) fn class_of(&self, id: &str) -> Option<AgentClass> {
        self.entries.lock().get(id).map(|session| session.class)
    }

    /// Returns whether a session, if there is one of this name, is this client's.
    pub(super) fn may_use(&self, id: &str, client: Option<&str>) -> bool {
        self.entries.lock().get(id).is_none_or(|session| session.owner.as_deref() == client)
    }

    fn next_use(&self) -> u64 {
        self.use_count.fetch_add(1, Ordering::Relaxed)
    }

    fn record_use(&self, id: &SessionId) {
        let used = self.next_use();
        if let Some(session) = self.entries.lock().get_mut(id) {
            session.last_used = used;
        }
    }

    /// Returns a stream that counts as listening to a session as long as it lives.
    fn track_listener<S>(&self, id: &SessionId, stream: S) -> impl Stream<Item = S::Item> + use<S>
    where
        S: Stream + Send + Sync + 'static,
    {
        self.record_use(id);
        let listening = self.entries.lock().get(id).map(|session| Arc::clone(&session.listeners));
        unfold((Box::pin(stream), listening), async |(mut stream, listening)| {
            let message = stream.next().await?;
            Some((message, (stream, listening)))
        })
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        let (last_used, listening) = (self.next_use(), Arc::default());
        // Until it is given to its client, nothing may be done in it but to look.
        let known = SessionEntry {
            owner: None,
            class: AgentClass::Explore,
            last_used,
            listeners: listening,
        };
        self.entries.lock().insert(SessionId::clone(&id), known);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.inner.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.inner.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.entries.lock().remove(id);
        self.inner.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.record_use(id);
        self.inner.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.record_use(id);
        self.inner.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.create_standalone_stream(id).await?;
        Ok(self.track_listener(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.inner.resume(id, last_event_id).await?;
        Ok(self.track_listener(id, stream))
    }
}
