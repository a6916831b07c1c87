//! Calls for history: changes with their diffs, runs, undo; and for the workspaces of the host.
//!
//! An undo can be tried as a dry run first; one that is blocked by later changes fails with their diffs.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::changes::{ChangePage, ChangeWithDiffs, UndoResponse, UndoSeveral};
use crate::runs::{ModelRunPage, RunPage};
use crate::workspaces::{HostWorkspaces, RemovedWorkspace};

/// A filter for changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesQuery {
    /// Only changes of this memory or folder.
    pub path: Option<String>,
    /// Only changes of this task.
    pub task: Option<String>,
    /// Only changes of this session of a host.
    pub session: Option<String>,
    /// Only changes by this actor: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: Option<String>,
    /// Only changes at or after this time: ISO 8601, UTC.
    pub since: Option<String>,
    /// Only changes at or before this time.
    pub until: Option<String>,
    /// The [`ChangePage::next_cursor`] of the previous page.
    pub cursor: Option<String>,
    /// The most changes on a page.
    pub max: Option<usize>,
}

/// Whether a call only computes its effects, without changing anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// The call is carried out.
    No,
    /// Nothing is changed.
    Yes,
}

impl Client {
    /// Lists one page of changes, newest first.
    pub async fn changes(&self, query: &ChangesQuery) -> Result<ChangePage, ClientError> {
        let call = ApiCall::get("/v1/changes")
            .query("path", query.path.as_deref())
            .query("task", query.task.as_deref())
            .query("session", query.session.as_deref())
            .query("actor", query.actor.as_deref())
            .query("since", query.since.as_deref())
            .query("until", query.until.as_deref())
            .query("cursor", query.cursor.as_deref())
            .query("max", query.max);
        self.value(self.workspace_call(call)).await
    }

    /// Returns a change with its diffs.
    pub async fn change(&self, id: i64) -> Result<ChangeWithDiffs, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/changes/{id}")))).await
    }

    /// Undoes a change, as a new change.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::Conflict`](crate::error::ErrorCode::Conflict) when any of its memories was changed
    /// since; [`Refusal::blocked`](super::Refusal::blocked) has the diffs.
    pub async fn undo(&self, id: i64, dry: DryRun) -> Result<UndoResponse, ClientError> {
        let call = ApiCall::post(&format!("/v1/changes/{id}/undo"));
        let call = call.query("dryRun", (dry == DryRun::Yes).then_some(true));
        self.value(self.workspace_call(call)).await
    }

    /// Undoes several changes, as one new change.
    ///
    /// # Errors
    ///
    /// As for [`undo`](Self::undo): no change is undone if one cannot be.
    pub async fn undo_several(
        &self,
        request: &UndoSeveral,
        dry: DryRun,
    ) -> Result<UndoResponse, ClientError> {
        let call = ApiCall::post("/v1/undo").query("dryRun", (dry == DryRun::Yes).then_some(true));
        self.value(self.workspace_call(call.json(request)?)).await
    }

    /// Lists one page of runs (the changes of each task or session), latest first. `cursor` is that of the previous
    /// page.
    pub async fn runs(&self, cursor: Option<&str>) -> Result<RunPage, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/runs").query("cursor", cursor))).await
    }

    /// Lists one page of model runs, newest first. `cursor` is that of the previous page.
    pub async fn model_runs(&self, cursor: Option<&str>) -> Result<ModelRunPage, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/runs/models").query("cursor", cursor)))
            .await
    }

    /// Lists the workspaces whose memories lie on the host of the daemon, whether or not it serves them.
    pub async fn host_workspaces(&self) -> Result<HostWorkspaces, ClientError> {
        self.value(ApiCall::get("/v1/workspaces")).await
    }

    /// Deletes the memories of one of [the host's workspaces](Self::host_workspaces), and removes its folder. The
    /// deletion is one change, which [`undo`](Self::undo) reverts.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::WorkspaceBusy`](crate::error::ErrorCode::WorkspaceBusy) while its tasks wait or run.
    pub async fn remove_workspace(&self, id: &str) -> Result<RemovedWorkspace, ClientError> {
        self.value(ApiCall::delete(&format!("/v1/workspaces/{id}"))).await
    }
}
