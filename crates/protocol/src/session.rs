//! Sessions: clients registered with a workspace, each with a stream of events.
//!
//! A session gives its client an id, by which tasks belong to that client. It is not a conversation of a model: those
//! are in [`crate::conversation`].

use serde::{Deserialize, Serialize};

/// A request to begin a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionRequest {
    /// The folder of the workspace; by default, that of the primary workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A registered client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session's id.
    pub session_id: String,
    /// The folder of the workspace.
    pub workspace_cwd: String,
    /// Whether an existing session was joined; each request begins a new one.
    pub attached: bool,
    /// The id of the registered client.
    pub client_id: String,
    /// The start of the session: ISO 8601, UTC, milliseconds.
    pub created_at: String,
    /// The epoch of the session's events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_epoch: Option<String>,
}

/// The response to a heartbeat of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The session's id.
    pub session_id: String,
    /// The client's id.
    pub client_id: String,
    /// The time of the heartbeat, in milliseconds since 1970.
    pub last_seen_at: i64,
}
