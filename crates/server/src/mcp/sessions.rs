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
pub(crate) struct Full;

/// The sessions of one workspace.
#[derive(Debug)]
pub(super) struct Sessions {
    library: LocalSessionManager,
    max: usize,
    known: Mutex<HashMap<SessionId, Known>>,
    /// Counts uses, so that they have an order.
    uses: AtomicU64,
}

/// What is known of a session.
#[derive(Debug)]
struct Known {
    /// The id of the client that began it, if that has one.
    owner: Option<String>,
    /// The class of agent that it was begun for: no request in it may do more.
    class: AgentClass,
    last_used: u64,
    /// Held by every stream that waits for news, too.
    listening: Arc<()>,
}

impl Known {
    fn is_heard(&self) -> bool {
        Arc::strong_count(&self.listening) > 1
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::bounded(MCP_SESSIONS_MAX)
    }
}

impl Sessions {
    /// Returns no sessions, of which there may be as many.
    pub(super) fn bounded(max: usize) -> Self {
        let mut library = LocalSessionManager::default();
        // They end when their client says so or when there is no room, not while a person thinks.
        library.session_config.keep_alive = None;
        // Clients of the oldest revisions take the empty event that this sends for a broken message.
        library.session_config.sse_retry = None;
        Self { library, max, known: Mutex::default(), uses: AtomicU64::new(0) }
    }

    /// Makes room for a session: ends those unused longest that nobody listens to, until there are fewer
    /// than there may be. Several that begin at once may be more for a moment; the next one ends those.
    pub(super) async fn make_room(&self) -> Result<(), Full> {
        while let Some(unused) = self.one_too_many()? {
            if let Err(error) = self.close_session(&unused).await {
                tracing::debug!(%error, "a session had ended by itself");
            }
        }
        Ok(())
    }

    /// Returns the session that has to make room, if one has to.
    fn one_too_many(&self) -> Result<Option<SessionId>, Full> {
        let known = self.known.lock();
        if known.len() < self.max {
            return Ok(None);
        }
        let unheard = known.iter().filter(|(_, session)| !session.is_heard());
        let oldest = unheard.min_by_key(|(_, session)| session.last_used);
        oldest.map(|(id, _)| Some(SessionId::clone(id))).ok_or(Full)
    }

    /// Gives a session to the client that began it, for an agent of a class.
    pub(super) fn give(&self, id: &str, owner: Option<&str>, class: AgentClass) {
        if let Some(session) = self.known.lock().get_mut(id) {
            session.owner = owner.map(str::to_owned);
            session.class = class;
        }
    }

    /// Returns the class of agent that a session was begun for.
    pub(super) fn class_of(&self, id: &str) -> Option<AgentClass> {
        self.known.lock().get(id).map(|session| session.class)
    }

    /// Returns whether a session, if there is one of this name, is this client's.
    pub(super) fn may_use(&self, id: &str, client: Option<&str>) -> bool {
        self.known.lock().get(id).is_none_or(|session| session.owner.as_deref() == client)
    }

    fn next_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    fn note_use(&self, id: &SessionId) {
        let used = self.next_use();
        if let Some(session) = self.known.lock().get_mut(id) {
            session.last_used = used;
        }
    }

    /// Returns a stream that counts as listening to a session as long as it lives.
    fn listening<S>(&self, id: &SessionId, stream: S) -> impl Stream<Item = S::Item> + use<S>
    where
        S: Stream + Send + Sync + 'static,
    {
        self.note_use(id);
        let listening = self.known.lock().get(id).map(|session| Arc::clone(&session.listening));
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
        let (id, transport) = self.library.create_session().await?;
        let (last_used, listening) = (self.next_use(), Arc::default());
        // Until it is given to its client, nothing may be done in it but to look.
        let known = Known { owner: None, class: AgentClass::Explore, last_used, listening };
        self.known.lock().insert(SessionId::clone(&id), known);
        Ok((id, transport))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.library.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.library.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.known.lock().remove(id);
        self.library.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.note_use(id);
        self.library.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.note_use(id);
        self.library.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.library.create_standalone_stream(id).await?;
        Ok(self.listening(id, stream))
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        let stream = self.library.resume(id, last_event_id).await?;
        Ok(self.listening(id, stream))
    }
}
