//! A client of the daemon: tasks, events, memories and their history, as typed calls.
//!
//! It carries what the other modules say, over HTTP/1.1, to an address or to the socket of the daemon.
//! It keeps nothing but one idle connection, and tries nothing twice that could have had an effect; only
//! [`Client::wait_for`] and [`EventStream`] go on by themselves when the daemon goes away and comes back.
//! It finds no daemon and reads no token: whoever calls brings both.
//!
//! Every call has a deadline. Dropping one ends it at once; a write that had reached the daemon by then
//! is carried out all the same, whole.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../examples/client.rs")]
//! ```

mod call;
mod context_files;
mod conversations;
mod endpoint;
mod error;
mod events;
mod history;
mod memories;
mod pending;
mod tasks;
mod ui;

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderValue;

pub use endpoint::{Endpoint, ParseEndpointError};
pub use error::{Blocked, ClientError, Conflict, Refusal};
pub use events::{Cursor, EventStream, StartFrom};
pub use history::{ChangesQuery, DryRun};
pub use memories::{AgentClass, MemoriesQuery, SearchQuery};
pub use pending::PendingQuery;
pub use tasks::TasksQuery;

use self::call::ApiCall;
use self::endpoint::Connection;
use crate::capabilities::{Capabilities, Health};
use crate::id::is_client_id;
use crate::status::Stats;

/// How long a call may take unless [`Client::with_deadline`] says otherwise: far more than any takes but
/// a large import.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// How many bytes an answer may have: more than any has but an export of very much, which
/// [`Client::with_answer_max`] lets come.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Somebody who may call a daemon. Clones share the idle connection.
#[derive(Clone)]
pub struct Client {
    endpoint: Endpoint,
    authorization: HeaderValue,
    caller: Option<HeaderValue>,
    workspace: Option<Arc<str>>,
    deadline: Duration,
    answer_max: usize,
    idle: Arc<Mutex<Option<Connection>>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("door", &self.endpoint)
            .field("caller", &self.caller)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Returns somebody who brings this token, as `lukasa token` prints it. Nothing is sent yet.
    pub fn new(door: Endpoint, token: &str) -> Result<Self, ClientError> {
        let mut authorization = header("the token", &format!("Bearer {}", token.trim()))?;
        authorization.set_sensitive(true);
        Ok(Self {
            endpoint: door,
            authorization,
            caller: None,
            workspace: None,
            deadline: CALL_DEADLINE,
            answer_max: ANSWER_BYTES_MAX,
            idle: Arc::default(),
        })
    }

    /// Calls as a registered client, which [`Client::begin_session`] returns: it alone sees its tasks.
    pub fn with_client_id(mut self, id: &str) -> Result<Self, ClientError> {
        if !is_client_id(id) {
            return Err(ClientError::Unsendable("the client id"));
        }
        self.caller = Some(header("the client id", id)?);
        Ok(self)
    }

    /// Means this workspace, by its id in [`Capabilities::workspaces`], instead of the first one.
    #[must_use]
    pub fn in_workspace(mut self, id: &str) -> Self {
        self.workspace = Some(id.into());
        self
    }

    /// Gives each call so long.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Reads no answer of more bytes than so many: such a call fails with [`ClientError::TooLarge`].
    #[must_use]
    pub fn with_answer_max(mut self, bytes: usize) -> Self {
        self.answer_max = bytes;
        self
    }

    /// Asks whether the daemon lives.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.value(ApiCall::get("/health")).await
    }

    /// Asks what the daemon can do, and which workspaces it serves.
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.value(ApiCall::get("/capabilities")).await
    }

    /// Asks how much the workspace holds.
    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/stats"))).await
    }

    /// Returns the call, about the workspace that is meant.
    fn workspace_call(&self, call: ApiCall) -> ApiCall {
        call.query("workspace", self.workspace.as_deref())
    }
}

fn header(what: &'static str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::try_from(text).map_err(|_| ClientError::Unsendable(what))
}
