//! A client of the daemon: tasks, events, memories and their history, as typed calls.
//!
//! It sends the types of the other modules over HTTP/1.1, to an address or to the socket of the daemon. It keeps one
//! idle connection. Only calls without side effects are retried; only [`Client::wait_for`] and [`EventStream`]
//! reconnect by themselves after a restart of the daemon. The caller supplies the address and the token.
//!
//! Every call has a deadline. Dropping a call ends it at once, but a write that has already reached the daemon is
//! still carried out completely.
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
mod tokens;
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

/// The default deadline of a call: far more than any needs, except a large import. [`Client::with_deadline`] changes
/// it.
pub const CALL_DEADLINE: Duration = Duration::from_secs(30);

/// The default limit for the size of a response, in bytes: more than any has, except a very large export.
/// [`Client::with_answer_max`] changes it.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A client with the address and the token of a daemon. Clones share the idle connection.
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
            .field("endpoint", &self.endpoint)
            .field("caller", &self.caller)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with a token, as `lukasa token` prints it. Sends nothing yet.
    pub fn new(endpoint: Endpoint, token: &str) -> Result<Self, ClientError> {
        let mut authorization = header("the token", &format!("Bearer {}", token.trim()))?;
        authorization.set_sensitive(true);
        Ok(Self {
            endpoint,
            authorization,
            caller: None,
            workspace: None,
            deadline: CALL_DEADLINE,
            answer_max: ANSWER_BYTES_MAX,
            idle: Arc::default(),
        })
    }

    /// Uses the id of a registered client, which [`Client::begin_session`] returns: only that client sees its tasks.
    pub fn with_client_id(mut self, id: &str) -> Result<Self, ClientError> {
        if !is_client_id(id) {
            return Err(ClientError::Unsendable("the client id"));
        }
        self.caller = Some(header("the client id", id)?);
        Ok(self)
    }

    /// Uses the workspace with this id from [`Capabilities::workspaces`] instead of the primary one.
    #[must_use]
    pub fn in_workspace(mut self, id: &str) -> Self {
        self.workspace = Some(id.into());
        self
    }

    /// Sets the deadline of each call.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Limits the size of a response: a call with a larger one fails with [`ClientError::TooLarge`].
    #[must_use]
    pub fn with_answer_max(mut self, bytes: usize) -> Self {
        self.answer_max = bytes;
        self
    }

    /// Checks that the daemon responds.
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.value(ApiCall::get("/health")).await
    }

    /// Returns the daemon's capabilities and workspaces.
    pub async fn capabilities(&self) -> Result<Capabilities, ClientError> {
        self.value(ApiCall::get("/capabilities")).await
    }

    /// Returns counts and sizes of the workspace.
    pub async fn stats(&self) -> Result<Stats, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/stats"))).await
    }

    /// Adds the selected workspace to a call.
    fn workspace_call(&self, call: ApiCall) -> ApiCall {
        call.query("workspace", self.workspace.as_deref())
    }
}

fn header(what: &'static str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::try_from(text).map_err(|_| ClientError::Unsendable(what))
}
