//! Workspaces of the host over `/v1`: the memories of the scope `workspace` of each, and their removal.
//!
//! They include workspaces that this daemon does not serve. A removal deletes the memories as one change, which can be
//! undone.

use serde::{Deserialize, Serialize};

/// The workspaces whose memories lie on the host of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostWorkspaces {
    /// The workspaces, ordered by id.
    pub workspaces: Vec<HostWorkspace>,
}

/// A workspace of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostWorkspace {
    /// The id for `--workspace-id` and `DELETE /v1/workspaces/{id}`. It differs from the id by which other requests
    /// name a workspace of the daemon.
    pub id: String,
    /// The folder of the git worktree; none for a workspace that was created with `--workspace-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<String>,
    /// Whether that folder still exists.
    pub checkout_exists: bool,
    /// The number of memories.
    pub memories: usize,
    /// The size of the memories in bytes.
    pub bytes: u64,
    /// The ids of the workspaces that this daemon serves with these memories.
    pub served_as: Vec<String>,
}

/// The result of removing a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RemovedWorkspace {
    /// The memories that were deleted.
    pub memories: Vec<String>,
    /// The change that deleted them, which can be undone; none if there were no memories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<i64>,
    /// The folder of the workspace, if it still holds files that are not memories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_folder: Option<String>,
}
