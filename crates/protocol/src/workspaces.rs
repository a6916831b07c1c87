//! Workspaces of the host over `/v1`: the memories of the scope `workspace` of each, and their removal.

use serde::{Deserialize, Serialize};

/// The workspaces whose memories lie on the host of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostWorkspaces {
    /// In order of their ids.
    pub workspaces: Vec<HostWorkspace>,
}

/// A workspace of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostWorkspace {
    /// The id of its memories, as `--workspace-id` and `DELETE /v1/workspaces/{id}` take it. It is not the id by
    /// which a request names a workspace that the daemon serves.
    pub id: String,
    /// The folder of the git worktree that it belongs to; none for a workspace that was named with `--workspace-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
    /// Whether that folder still exists.
    pub checkout_exists: bool,
    /// The number of its memories.
    pub memories: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// The ids of the workspaces that this daemon serves with these memories.
    pub served_as: Vec<String>,
}

/// The removal of a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemovedWorkspace {
    /// The memories that were deleted.
    pub memories: Vec<String>,
    /// The change that deleted them; none if there were none. Its undo brings them back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The folder of the workspace, if files that are not memories are left in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_folder: Option<String>,
}
