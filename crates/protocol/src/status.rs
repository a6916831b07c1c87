//! How a daemon is doing.

use serde::{Deserialize, Serialize};

/// Counts and sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// The workspace that is told of.
    pub workspace_id: String,
    /// Its scopes.
    pub scopes: Vec<ScopeStats>,
    /// The history of this host.
    pub history: HistoryStats,
    /// What the next dream by schedule waits for; none where nobody dreams by schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_dream: Option<NextDream>,
    /// Streams that read events at this moment.
    pub event_streams: u64,
    /// Connections at this moment.
    pub connections: u64,
}

/// A dream that comes by itself, in a lane that has nothing to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct NextDream {
    /// It comes no sooner; none if there never was one, and it need not wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<String>,
    /// How many more sessions there have to be first.
    pub sessions_missing: u64,
}

/// How much one scope holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ScopeStats {
    /// Which.
    pub scope: String,
    /// Why it has no root here; none when it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<String>,
    /// Memories.
    pub memories: u64,
    /// How many it may hold.
    pub memories_max: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

/// How much history holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HistoryStats {
    /// Changes.
    pub changes: u64,
    /// Changes whose files may not be safe on the disk yet.
    pub open: u64,
    /// Bytes of contents, compressed.
    pub content_bytes: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
}
