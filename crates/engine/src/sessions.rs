//! Who calls a daemon: sessions, and the client ids that were given out with them.
//!
//! A session belongs to a workspace, outlives a restart, and gives its client two things: a name under
//! which it asks for tasks that nobody else sees, and a stream of what its workspace's tasks did. No
//! conversation comes with it.

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

use crate::feed::{EventBus, Feeds};
use crate::task::ClientId;

/// The name of a session: a UUID.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

/// A text that is no session's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a session id is a UUID")]
pub struct BadSessionId;

impl SessionId {
    /// Returns the name as text.
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
        // One spelling alone: a name is compared as text.
        let id = Self(Uuid::try_parse(text).map_err(|_| BadSessionId)?.to_string());
        if id.0 == text { Ok(id) } else { Err(BadSessionId) }
    }
}

/// A client that is registered with a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The id of the workspace.
    pub workspace: String,
    /// The name that its client asks under.
    pub client: ClientId,
    /// When it was registered.
    pub created_at: Timestamp,
}

/// Why no session was begun.
#[derive(Debug, thiserror::Error)]
pub enum BeginSessionError {
    /// As many sessions as a workspace may have are listened to.
    #[error("the workspace has as many sessions as it may, and somebody listens to each")]
    Full,
    /// The state cannot keep it.
    #[error("the session cannot be kept")]
    State(#[from] StateError),
}

/// Keeps sessions and tells who is known.
#[derive(Debug)]
pub struct SessionRegistry {
    tasks: Arc<dyn TaskStore>,
    feeds: Arc<Feeds>,
    clock: Arc<dyn Clock>,
    folders: BaseFolders,
    sessions_max: usize,
    /// How many sessions a workspace has, once somebody looked. Held while that changes.
    counts: tokio::sync::Mutex<HashMap<String, usize>>,
    last_used: Mutex<LastUsed>,
}

/// When clients were last heard of, each time with a higher number. Not kept beyond this process: after a
/// restart a client is known to be in use when it asks again.
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

    /// Returns the number of the last time; 0 if this process has not heard of the client.
    fn last_used(&self, client: &str) -> u64 {
        self.by_client.get(client).copied().unwrap_or_default()
    }
}

impl SessionRegistry {
    /// Returns the callers whose sessions are kept in `tasks`, below these folders, and listen to
    /// `feeds`.
    pub fn new(
        tasks: Arc<dyn TaskStore>,
        feeds: Arc<Feeds>,
        clock: Arc<dyn Clock>,
        folders: BaseFolders,
    ) -> Self {
        let counts = tokio::sync::Mutex::default();
        let uses = Mutex::default();
        Self { tasks, feeds, clock, folders, sessions_max: SESSIONS_MAX, counts, last_used: uses }
    }

    /// Returns the same with another number of sessions that a workspace may have.
    #[must_use]
    pub fn with_sessions_max(mut self, sessions_max: usize) -> Self {
        self.sessions_max = sessions_max;
        self
    }

    /// Begins a session of a workspace, with a client id that nobody else has. If there are as many as
    /// there may be, the one ends that was not heard of for the longest time and that nobody listens to.
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
        // Its events are those of tasks that it can have asked for.
        self.feeds.begin_session(workspace, session.id.as_str());
        if let Err(error) = self.tasks.add_session(session_row(&session)).await {
            self.feeds.end_session(workspace, session.id.as_str());
            return Err(error.into());
        }
        counts.insert(workspace.to_owned(), count + 1);
        self.last_used.lock().record(session.client.as_str());
        Ok(session)
    }

    /// Ends sessions that nobody listens to, the longest unused first, until there is room for one more.
    /// Returns how many there are then.
    async fn evict_oldest(&self, workspace: &str) -> Result<usize, BeginSessionError> {
        let mut sessions = self.tasks.sessions(workspace).await?;
        let mut count = sessions.len();
        {
            // Those that this process has not heard of stay in the order in which they came.
            let uses = self.last_used.lock();
            sessions.sort_by_key(|session| uses.last_used(&session.client));
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

    /// Ends a session: its streams end, and its client is known no more. Returns whether it was there.
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

    /// Returns a session, if there is one of this name.
    pub async fn session(&self, id: &SessionId) -> Result<Option<Session>, StateError> {
        let session = self.tasks.session(id.as_str()).await?.and_then(decode_session);
        if let Some(session) = &session {
            self.last_used.lock().record(session.client.as_str());
        }
        Ok(session)
    }

    /// Tells whether a client is registered with a workspace. Then it is in use.
    pub async fn has_client(&self, workspace: &str, client: &ClientId) -> Result<bool, StateError> {
        let is_known = self.tasks.has_client(workspace, client.as_str()).await?;
        if is_known {
            self.last_used.lock().record(client.as_str());
        }
        Ok(is_known)
    }

    /// Returns the stream of a session; `None` if there is no such session, or its workspace is not
    /// open. From then on its folders are watched, so that what other processes do is told.
    pub async fn events(&self, id: &SessionId) -> Result<Option<Arc<EventBus>>, StateError> {
        let (workspace, bus) = {
            // A session that ends meanwhile must not leave its stream behind.
            let _unchanged = self.counts.lock().await;
            let Some(session) = self.session(id).await? else { return Ok(None) };
            let bus = self.feeds.session(&session.workspace, id.as_str());
            (session.workspace, bus)
        };
        if bus.is_some() {
            self.feeds.ensure_watching(&workspace).await;
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

/// Reads a session; one whose names are impossible is none.
fn decode_session(row: SessionRow) -> Option<Session> {
    Some(Session {
        id: row.id.parse().ok()?,
        workspace: row.workspace,
        client: row.client.parse().ok()?,
        created_at: row.created_at,
    })
}
