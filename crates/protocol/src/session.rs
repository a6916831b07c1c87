//! Sessions: a client that is registered with a workspace, and its stream of events.

use serde::{Deserialize, Serialize};

/// What a session is begun with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SessionRequest {
    /// The folder of the workspace; left out, the daemon's first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// Its id.
    pub session_id: String,
    /// The folder of its workspace.
    pub workspace_cwd: String,
    /// Whether it was there before; every request begins one of its own.
    pub attached: bool,
    /// The id under which its client is registered.
    pub client_id: String,
    /// When it began: ISO 8601, UTC, milliseconds.
    pub created_at: String,
    /// The epoch of its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_epoch: Option<String>,
}

/// What a sign of life is answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Heartbeat {
    /// The session.
    pub session_id: String,
    /// Its client.
    pub client_id: String,
    /// When, in milliseconds since 1970.
    pub last_seen_at: i64,
}
