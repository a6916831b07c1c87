//! Statistics of a daemon, over `/v1/stats`.
//!
//! They cover the sizes of scopes and history, the next scheduled dream, and open streams and connections.

use serde::{Deserialize, Serialize};

/// Counts and sizes of a workspace and its daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The id of the workspace.
    pub workspace_id: String,
    /// The scopes of the workspace.
    pub scopes: Vec<ScopeStats>,
    /// The history of this host.
    pub history: HistoryStats,
    /// The conditions of the next scheduled dream; none if dreams are not scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_dream: Option<NextDream>,
    /// The number of open event streams; for the token of an owner, of those of the owner.
    pub event_streams: u64,
    /// The number of open connections; for the token of an owner, of those of the owner.
    pub connections: u64,
}

/// A scheduled dream. It starts when the lane has no other task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextDream {
    /// The earliest time; none if there was no dream yet, so that it need not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// The number of further sessions that must happen before.
    pub sessions_missing: u64,
}

/// Counts and sizes of one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScopeStats {
    /// The scope.
    pub scope: String,
    /// The reason why the scope has no root here; none if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// The number of memories.
    pub memories: u64,
    /// The limit for memories.
    pub memories_max: u64,
    /// The size of all memories in bytes.
    pub bytes: u64,
}

/// Counts and sizes of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryStats {
    /// The number of changes.
    pub changes: u64,
    /// The number of changes whose files may not be on the disk yet.
    pub open: u64,
    /// The compressed size of all stored contents in bytes.
    pub content_bytes: u64,
    /// The size of the database in bytes; none for the token of an owner, because the database has other owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
}
