//! Capabilities and liveness of a daemon: `GET /capabilities` and `GET /health`.
//!
//! A client reads them to learn the features, limits and workspaces of the daemon instead of trying them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the task API that this crate speaks.
pub const PROTOCOL_VERSION: &str = "v1";

/// The capabilities of a daemon: versions, features, limits and workspaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// The version of this response: 1.
    pub v: u32,
    /// The supported versions of the API.
    pub protocol_versions: ProtocolVersions,
    /// The mode in which the daemon works.
    pub mode: String,
    /// The available features, one word each; features that are switched off are not listed.
    pub features: Vec<String>,
    /// Options of some features, by feature name.
    pub feature_options: BTreeMap<String, Value>,
    /// Services that run models; always empty.
    pub model_services: Vec<String>,
    /// The supported transports.
    pub transports: Vec<String>,
    /// The limits of the daemon.
    pub limits: Limits,
    /// The folder of the primary workspace.
    pub workspace_cwd: String,
    /// All workspaces that the daemon serves.
    pub workspaces: Vec<WorkspaceCapability>,
    /// The version of the program.
    pub lukasa_version: String,
}

/// The supported versions of the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProtocolVersions {
    /// The newest version.
    pub current: String,
    /// All supported versions.
    pub supported: Vec<String>,
}

/// The limits of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// The largest request body, in bytes.
    pub max_body_bytes: u64,
    /// The longest text of a task, in bytes.
    pub max_task_text_bytes: u64,
    /// The largest memory, in bytes.
    pub max_memory_bytes: u64,
    /// The most tasks of one workspace that wait or run.
    pub max_unfinished_tasks: u64,
    /// The most forget and dream tasks among those.
    pub max_unfinished_minor_tasks: u64,
    /// The most streams that read one session.
    pub max_subscribers_per_session: u64,
    /// The most frames that wait for a slow reader.
    pub max_queued_frames: u64,
}

/// A workspace that the daemon serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkspaceCapability {
    /// The workspace's id, as it is used in paths.
    pub id: String,
    /// The workspace's folder.
    pub cwd: String,
    /// Whether requests without a workspace id use this workspace.
    pub primary: bool,
    /// Whether tasks may be requested in this workspace.
    pub trusted: bool,
}

/// The answer of `GET /health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// The state of each usable workspace; only present if it was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<WorkspaceHealth>>,
}

/// The state of one workspace's memories.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceHealth {
    /// The workspace's id.
    pub id: String,
    /// The number of memories in all of its scopes.
    pub memories: u64,
    /// The number of tasks that wait or run.
    pub unfinished_tasks: u64,
    /// The number of findings that `lukasa doctor` would report.
    pub findings: u64,
}
