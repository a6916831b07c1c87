//! The session registry of a daemon: registered clients, and the client ids that they were given.
//!
//! A session belongs to a workspace and survives a restart. It gives its client a name under which
//! it requests tasks that no other client sees, and a stream of its workspace's task events. It
//! implies no conversation.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use memory::clock::{Clock, Timestamp};
use memory::limits::SESSIONS_MAX;
use parking_lot::Mutex;
use state::{SessionRow, StateError, TaskStore};
use store::BaseFolders;
use uuid::Uuid;

use crate::feed::{EventBus, Feeds, SubscribeError};
use crate::task::ClientId;

/// The id of a session: a UUID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// A text that is not a session id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session id must be a UUID")]
pub struct BadSessionId;

impl SessionId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SessionId {
    type Err = BadSessionId;

    fn from_str(text: &str) -> Result<Self, BadSessionId> {
        // Only the canonical spelling is accepted, because ids are compared as text.
        let id = Self(Uuid::try_parse(text).map_err(|_| BadSessionId)?.to_string());
        if id.0 == text { Ok(id) } else { Err(BadSessionId) }
    }
}

/// A client that is registered with a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Id of the session.
    pub id: SessionId,
    /// The id of the workspace.
    pub workspace: String,
    /// The client id under which it requests tasks.
    pub client: ClientId,
    /// Time of registration.
    pub created_at: Timestamp,
}

/// The reason why a session cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum BeginSessionError {
    /// The workspace has its maximum of sessions, and each has subscribers.
    #[error(
        "the workspace has its maximum of sessions, and all of them have subscribers; end one first"
    )]
    Full,
    /// The state cannot store it.
    #[error("the session cannot be stored")]
    State(#[from] StateError),
}

/// The session registry. Sessions are stored in the state; usage is tracked in memory.
#[derive(Debug)]
pub struct SessionRegistry {
    tasks: Arc<dyn TaskStore>,
    feeds: Arc<Feeds>,
    clock: Arc<dyn Clock>,
    folders: BaseFolders,
    sessions_max: usize,
    /// Number of sessions per workspace, once counted. Locked while sessions change.
    counts: tokio::sync::Mutex<HashMap<String, usize>>,
    last_used: Mutex<LastUsed>,
}

/// The order in which clients were last seen, as increasing numbers. Not stored: after a restart, a
/// client counts as used with its next request.
#[derive(Debug, Default)]
struct LastUsed {
    latest: u64,
    by_client: HashMap<String, u64>,
}

impl LastUsed {
    fn record(&mut self, client: &str) {
        self.latest += 1;
        self.by_client.insert(client.to_owned(), self.latest);
    }

    /// Returns the number of the client's last use; 0 if this process has not seen it.
    fn last_used(&self, client: &str) -> u64 {
        self.by_client.get(client).copied().unwrap_or_default()
    }
}

impl SessionRegistry {
    /// Returns the registry of the sessions stored in `tasks`, whose streams are in `feeds`.
    pub fn new(
        tasks: Arc<dyn TaskStore>,
        feeds: Arc<Feeds>,
        clock: Arc<dyn Clock>,
        folders: BaseFolders,
    ) -> Self {
        let counts = tokio::sync::Mutex::default();
        let last_used = Mutex::default();
        Self { tasks, feeds, clock, folders, sessions_max: SESSIONS_MAX, counts, last_used }
    }

    /// Returns the same registry with another maximum number of sessions per workspace.
    #[must_use]
    pub fn with_sessions_max(mut self, sessions_max: usize) -> Self {
        self.sessions_max = sessions_max;
        self
    }

    /// Starts a session with a unique client id. If the workspace has its maximum of sessions, ends
    /// the least recently used one without subscribers.
    pub async fn begin(&self, workspace: &str) -> Result<Session, BeginSessionError> {
        let mut counts = self.counts.lock().await;
        let count = match counts.get(workspace) {
            Some(&count) if count < self.sessions_max => count,
            _ => self.evict_oldest(workspace).await?,
        };
        let session = Session {
            id: SessionId(Uuid::new_v4().to_string()),
            workspace: workspace.to_owned(),
            client: new_client_id(),
            created_at: self.clock.now(),
        };
        self.folders.create_state_folder();
        // The stream starts before the client can have requested a task.
        self.feeds.begin_session(workspace, session.id.as_str());
        if let Err(error) = self.tasks.add_session(session_row(&session)).await {
            self.feeds.end_session(workspace, session.id.as_str());
            return Err(error.into());
        }
        counts.insert(workspace.to_owned(), count + 1);
        self.last_used.lock().record(session.client.as_str());
        Ok(session)
    }

    /// Ends sessions without subscribers, least recently used first, until there is room for one
    /// more. Returns the remaining number.
    async fn evict_oldest(&self, workspace: &str) -> Result<usize, BeginSessionError> {
        let mut sessions = self.tasks.sessions(workspace).await?;
        let mut count = sessions.len();
        {
            // The sort is stable: sessions not used in this process stay in order of creation.
            let last_used = self.last_used.lock();
            sessions.sort_by_key(|session| last_used.last_used(&session.client));
        }
        for session in sessions {
            if count < self.sessions_max {
                break;
            }
            if !self.feeds.session_has_subscribers(workspace, &session.id) {
                self.tasks.end_session(&session.id).await?;
                self.feeds.end_session(workspace, &session.id);
                self.last_used.lock().by_client.remove(&session.client);
                count -= 1;
            }
        }
        if count < self.sessions_max { Ok(count) } else { Err(BeginSessionError::Full) }
    }

    /// Ends a session with its streams and forgets its client. Returns whether it existed.
    pub async fn end(&self, session: &Session) -> Result<bool, StateError> {
        let mut counts = self.counts.lock().await;
        let ended = self.tasks.end_session(session.id.as_str()).await?;
        self.feeds.end_session(&session.workspace, session.id.as_str());
        self.last_used.lock().by_client.remove(session.client.as_str());
        if let Some(count) = counts.get_mut(&session.workspace)
            && ended
        {
            *count = count.saturating_sub(1);
        }
        Ok(ended)
    }

    /// Returns the session with this id, and marks its client as used.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, StateError> {
        let session = self.tasks.session(id.as_str()).await?.and_then(decode_session);
        if let Some(session) = &session {
            self.last_used.lock().record(session.client.as_str());
        }
        Ok(session)
    }

    /// Checks whether a client is registered with a workspace, and marks it as used.
    pub async fn has_client(&self, workspace: &str, client: &ClientId) -> Result<bool, StateError> {
        let is_known = self.tasks.has_client(workspace, client.as_str()).await?;
        if is_known {
            self.last_used.lock().record(client.as_str());
        }
        Ok(is_known)
    }

    /// Returns the stream of a session; `None` if there is no such session, or its workspace is not
    /// open. Starts a watch on the workspace's folders, so that external edits are published.
    pub async fn events(&self, id: &SessionId) -> Result<Option<Arc<EventBus>>, SubscribeError> {
        let (workspace, bus) = {
            // Without this lock, a session that ends in between would leave its stream open.
            let _unchanged = self.counts.lock().await;
            let Some(session) = self.session(id).await? else { return Ok(None) };
            let bus = self.feeds.session(&session.workspace, id.as_str());
            (session.workspace, bus)
        };
        if bus.is_some() {
            self.feeds.prepare(&workspace).await?;
        }
        Ok(bus)
    }
}

fn new_client_id() -> ClientId {
    format!("client-{}", Uuid::new_v4()).parse().expect("a UUID is short and plain")
}

fn session_row(session: &Session) -> SessionRow {
    SessionRow {
        id: session.id.to_string(),
        workspace: session.workspace.clone(),
        client: session.client.to_string(),
        created_at: session.created_at,
    }
}

/// Decodes a row, or returns `None` if an id in it is invalid.
fn decode_session(row: SessionRow) -> Option<Session> {
    Some(Session {
        id: row.id.parse().ok()?,
        workspace: row.workspace,
        client: row.client.parse().ok()?,
        created_at: row.created_at,
    })
}
