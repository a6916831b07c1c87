//! History: what was done, line by line, and taking it back.

use super::call::ApiCall;
use super::{Client, ClientError};
use crate::changes::{ChangePage, ChangeWithDiffs, UndoResponse, UndoSeveral};
use crate::runs::{ModelRunPage, RunPage};
use crate::workspaces::{HostWorkspaces, RemovedWorkspace};

/// Which changes to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesQuery {
    /// Only those of this memory or folder.
    pub path: Option<String>,
    /// Only those of this task.
    pub task: Option<String>,
    /// Only those of this session of a host.
    pub session: Option<String>,
    /// Only those by this one: `person`, `agent`, `task`, `review`, `dream`, `outside`.
    pub actor: Option<String>,
    /// Only those at or after this time: ISO 8601, UTC.
    pub since: Option<String>,
    /// Only those at or before this time.
    pub until: Option<String>,
    /// What the page before ended with: [`ChangePage::next_cursor`].
    pub cursor: Option<String>,
    /// At most so many on a page.
    pub max: Option<usize>,
}

/// Whether something is done, or only said what would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRun {
    /// It is done.
    No,
    /// Nothing is changed.
    Yes,
}

impl Client {
    /// Lists changes, the newest first, one page of them.
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

    /// Shows a change, with what it did to each memory.
    pub async fn change(&self, id: i64) -> Result<ChangeWithDiffs, ClientError> {
        self.value(self.workspace_call(ApiCall::get(&format!("/v1/changes/{id}")))).await
    }

    /// Takes a change back, as a new change.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::Conflict`](crate::error::ErrorCode::Conflict) when any of its memories was changed
    /// since; [`Refusal::blocked`](super::Refusal::blocked) has the differences.
    pub async fn undo(&self, id: i64, dry: DryRun) -> Result<UndoResponse, ClientError> {
        let call = ApiCall::post(&format!("/v1/changes/{id}/undo"));
        let call = call.query("dryRun", (dry == DryRun::Yes).then_some(true));
        self.value(self.workspace_call(call)).await
    }

    /// Takes several changes back, as one new change.
    ///
    /// # Errors
    ///
    /// As for [`undo`](Self::undo): all stay when one cannot be taken back.
    pub async fn undo_several(
        &self,
        what: &UndoSeveral,
        dry: DryRun,
    ) -> Result<UndoResponse, ClientError> {
        let call = ApiCall::post("/v1/undo").query("dryRun", (dry == DryRun::Yes).then_some(true));
        self.value(self.workspace_call(call.json(what)?)).await
    }

    /// Lists what tasks and sessions changed, each as one, the latest first: one page, after the page that ended with
    /// this cursor.
    pub async fn runs(&self, cursor: Option<&str>) -> Result<RunPage, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/runs").query("cursor", cursor))).await
    }

    /// Lists what models did for tasks, the newest first: one page, after the page that ended with this cursor.
    pub async fn model_runs(&self, cursor: Option<&str>) -> Result<ModelRunPage, ClientError> {
        self.value(self.workspace_call(ApiCall::get("/v1/runs/models").query("cursor", cursor)))
            .await
    }

    /// Lists the workspaces whose memories lie on the host of the daemon, whether or not it serves them.
    pub async fn host_workspaces(&self) -> Result<HostWorkspaces, ClientError> {
        self.value(ApiCall::get("/v1/workspaces")).await
    }

    /// Deletes the memories of one of [the host's workspaces](Self::host_workspaces) as one change, which
    /// [`undo`](Self::undo) takes back, and removes its folder.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::WorkspaceBusy`](crate::error::ErrorCode::WorkspaceBusy) while its tasks wait or run.
    pub async fn remove_workspace(&self, id: &str) -> Result<RemovedWorkspace, ClientError> {
        self.value(ApiCall::delete(&format!("/v1/workspaces/{id}"))).await
    }
}
