//! What a daemon can do, so that a client need not try.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the task API that this crate speaks.
pub const PROTOCOL_VERSION: &str = "v1";

/// What a daemon can do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// The version of this answer: 1.
    pub v: u32,
    /// Which versions of the API are spoken.
    pub protocol_versions: ProtocolVersions,
    /// How the daemon does its work.
    pub mode: String,
    /// What it can do, a word each; what is switched off is not listed.
    pub features: Vec<String>,
    /// More about some of the features, by their word.
    pub feature_options: BTreeMap<String, Value>,
    /// Services that run models; none.
    pub model_services: Vec<String>,
    /// The ways in.
    pub transports: Vec<String>,
    /// How much of everything there may be.
    pub limits: Limits,
    /// The folder of the first workspace.
    pub workspace_cwd: String,
    /// All workspaces.
    pub workspaces: Vec<WorkspaceCapability>,
    /// The version of the program.
    pub lukasa_version: String,
}

/// Which versions of the API are spoken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProtocolVersions {
    /// The newest.
    pub current: String,
    /// All of them.
    pub supported: Vec<String>,
}

/// How much of everything there may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of a request's body.
    pub max_body_bytes: u64,
    /// Bytes of a task's text.
    pub max_task_text_bytes: u64,
    /// Bytes of a memory.
    pub max_memory_bytes: u64,
    /// Tasks of a workspace that wait or run.
    pub max_unfinished_tasks: u64,
    /// How many of those may be forgets and dreams.
    pub max_unfinished_minor_tasks: u64,
    /// Streams that read one session.
    pub max_subscribers_per_session: u64,
    /// Frames that wait for a slow reader.
    pub max_queued_frames: u64,
}

/// A workspace that the daemon serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WorkspaceCapability {
    /// Its id, as paths name it.
    pub id: String,
    /// Its folder.
    pub cwd: String,
    /// Whether it is the one that paths without an id mean.
    pub primary: bool,
    /// Whether tasks may be asked for here.
    pub trusted: bool,
}

/// The answer of `GET /health`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// How the workspaces are whose memories may be used; left out unless it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspaces: Option<Vec<WorkspaceHealth>>,
}

/// How the memories of one workspace are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceHealth {
    /// Its id.
    pub id: String,
    /// Memories in all of its scopes.
    pub memories: u64,
    /// Tasks that wait or run.
    pub unfinished_tasks: u64,
    /// Things that `lukasa doctor` would tell of.
    pub findings: u64,
}
