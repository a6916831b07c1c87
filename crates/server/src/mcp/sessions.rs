//! The MCP sessions over HTTP of clients with a handshake, bounded in number.
//!
//! The state of a session and the routing of its messages are the protocol library's. This module adds a limit, because
//! clients often never end their sessions: the least recently used session without a listener is evicted. It also
//! binds a session to the client that began it, and to an agent class.

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

/// The limit of sessions is reached, and each session has a listener.
#[derive(Debug)]
pub(crate) struct TooManySessions;

/// The sessions of one workspace.
#[derive(Debug)]
pub(super) struct Sessions {
    inner: LocalSessionManager,
    max: usize,
    entries: Mutex<HashMap<SessionId, SessionEntry>>,
    /// A counter that orders uses.
    use_count: AtomicU64,
}

/// The entry of a session.
#[derive(Debug)]
struct SessionEntry {
    /// The id of the client that began the session, if it has one.
    owner: Option<String>,
    /// The agent class of the session, the upper bound for its requests.
    class: AgentClass,
    last_used: u64,
    /// A reference count: each stream that waits for messages holds a clone.
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
    /// Checks whether there is no session.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.lock().is_empty()
    }

    /// Creates an empty table of at most `max` sessions.
    pub(super) fn with_max(max: usize) -> Self {
        let mut library = LocalSessionManager::default();
        // Sessions have no idle timeout: a client may be idle for hours. They end on request or by eviction.
        library.session_config.keep_alive = None;
        // Off: it sends an empty event, which clients of the oldest revisions take for an invalid message.
        library.session_config.sse_retry = None;
        Self { inner: library, max, entries: Mutex::default(), use_count: AtomicU64::new(0) }
    }

    /// Evicts the least recently used sessions without listeners until there is room for another one. Sessions that
    /// begin at the same time may exceed the limit for a moment; the next call evicts the excess.
    pub(super) async fn evict_idle(&self) -> Result<(), TooManySessions> {
        while let Some(idle) = self.session_to_evict()? {
            if let Err(error) = self.close_session(&idle).await {
                tracing::debug!(%error, "failed to close an evicted session; it had ended already");
            }
        }
        Ok(())
    }

    /// Returns the session to evict, if the limit is reached.
    fn session_to_evict(&self) -> Result<Option<SessionId>, TooManySessions> {
        let entries = self.entries.lock();
        if entries.len() < self.max {
            return Ok(None);
        }
        let idle = entries.iter().filter(|(_, session)| !session.has_listeners());
        let oldest = idle.min_by_key(|(_, session)| session.last_used);
        oldest.map(|(id, _)| Some(SessionId::clone(id))).ok_or(TooManySessions)
    }

    /// Binds a session to the client that began it, and to an agent class.
    pub(super) fn assign(&self, id: &str, owner: Option<&str>, class: AgentClass) {
        if let Some(session) = self.entries.lock().get_mut(id) {
            session.owner = owner.map(str::to_owned);
            session.class = class;
        }
    }

    /// Returns the agent class of a session.
    pub(super) fn class_of(&self, id: &str) -> Option<AgentClass> {
        self.entries.lock().get(id).map(|session| session.class)
    }

    /// Checks whether this client may use a session. An unknown id passes; the library refuses it.
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

    /// Wraps a stream that counts as a listener of a session until it is dropped.
    fn track_listener<S>(&self, id: &SessionId, stream: S) -> impl Stream<Item = S::Item> + use<S>
    where
        S: Stream + Send + Sync + 'static,
    {
        self.record_use(id);
        let listener = self.entries.lock().get(id).map(|session| Arc::clone(&session.listeners));
        unfold((Box::pin(stream), listener), async |(mut stream, listener)| {
            let message = stream.next().await?;
            Some((message, (stream, listener)))
        })
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        let (id, transport) = self.inner.create_session().await?;
        // Read-only until `assign` sets the class of its client.
        let entry = SessionEntry {
            owner: None,
            class: AgentClass::Explore,
            last_used: self.next_use(),
            listeners: Arc::default(),
        };
        self.entries.lock().insert(SessionId::clone(&id), entry);
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
