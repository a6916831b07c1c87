//! The memory workspaces of this host: listing them with their checkouts, and removing them.

use std::io;
use std::path::{Path, PathBuf};

use memory::change::{ChangeId, ChangeKind};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::path::{MemoryPath, Mount, Scope};
use state::StateError;
use store::{
    BindingRequest, CallContext, Caller, ProjectRoot, StoreError, WorkspaceChoice, WorkspaceId,
};

use crate::engine::Engine;
use crate::workspace::Workspace;

/// A workspace whose memories are stored on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The worktree that it belongs to; `None` for a named workspace.
    pub checkout: Option<PathBuf>,
    /// Whether that worktree still exists.
    pub checkout_exists: bool,
    /// Number of its memories.
    pub memories: usize,
    /// Total size of its memories in bytes.
    pub bytes: u64,
}

impl HostWorkspace {
    /// Checks whether its worktree was removed. A worktree on an unmounted disk does not count: the
    /// folder above it must exist.
    pub fn checkout_was_removed(&self) -> bool {
        let is_missing = |path: &Path| matches!(path.try_exists(), Ok(false));
        self.checkout.as_deref().is_some_and(|checkout| {
            is_missing(checkout) && checkout.parent().is_some_and(|above| !is_missing(above))
        })
    }
}

/// The removal of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceRemoval {
    /// The memories that were deleted.
    pub memories: Vec<MemoryPath>,
    /// The change that deleted them; its undo brings them back. `None` if there were none.
    pub change: Option<ChangeId>,
    /// The folder of the workspace, if files that are not memories remain in it.
    pub remaining_folder: Option<PathBuf>,
}

/// The reason why a workspace was not removed.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceRemovalError {
    /// This host has no workspace of this id.
    #[error("there is no workspace `{0}` on this host")]
    NotFound(WorkspaceId),
    /// Tasks of the workspace are not finished.
    #[error("tasks of the workspace `{0}` wait or run; let them end or cancel them first")]
    Busy(WorkspaceId),
    /// The workspace has more memories than one listing contains.
    #[error(
        "the workspace `{0}` holds more memories than can be listed; delete some of them first"
    )]
    TooMany(WorkspaceId),
    /// Its memories cannot be deleted.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// Its folder cannot be removed.
    #[error("the memories were deleted, but the folder of the workspace cannot be removed")]
    Folder(#[source] io::Error),
}

const ROOT: MemoryPath = MemoryPath::Root(Mount::Scope(Scope::Workspace));

impl Engine {
    /// Returns the workspaces of this host, or those with memories in the database, in order of their ids.
    pub async fn workspaces(&self) -> Result<Vec<HostWorkspace>, StoreError> {
        let mut found = Vec::new();
        for id in self.workspace_ids().await? {
            let memories = self.memories(&binding_of(&id), Caller::person("workspaces"));
            let listing = memories.list(Some(&ROOT)).await?;
            let checkout = self.folders.checkout_of(&id);
            found.push(HostWorkspace {
                checkout_exists: checkout.as_deref().is_some_and(Path::is_dir),
                memories: listing.memories.len() + listing.omitted,
                bytes: listing.memories.iter().map(|memory| memory.bytes).sum(),
                checkout,
                id,
            });
        }
        if self.storage.roots.is_some() {
            // The row of a root stays when its memories were deleted.
            found.retain(|workspace: &HostWorkspace| workspace.memories > 0);
        }
        Ok(found)
    }

    async fn workspace_ids(&self) -> Result<Vec<WorkspaceId>, StoreError> {
        let hosted = self.store.hosted_workspaces().await?;
        Ok(hosted.unwrap_or_else(|| self.folders.workspaces()))
    }

    /// Deletes the memories of a workspace in one change by `caller`, and removes its folder.
    ///
    /// Refuses while tasks wait or run in its worktree, or in a workspace of `served` that has
    /// these memories. A task that is queued after this check creates the workspace again if it
    /// writes there.
    ///
    /// History keeps the deleted texts as for any deletion, so undoing the change restores them.
    /// Files that are not memories stay, and the folder with them.
    pub async fn remove_workspace(
        &self,
        id: &WorkspaceId,
        caller: Caller,
        served: &[Workspace],
    ) -> Result<WorkspaceRemoval, WorkspaceRemovalError> {
        if !self.workspace_ids().await?.contains(id) {
            return Err(WorkspaceRemovalError::NotFound(id.clone()));
        }
        if self.has_unfinished_tasks(id, served).await? {
            return Err(WorkspaceRemovalError::Busy(id.clone()));
        }
        let memories = self.memories(&binding_of(id), caller);
        let listing = memories.list(Some(&ROOT)).await?;
        if listing.omitted > 0 {
            return Err(WorkspaceRemovalError::TooMany(id.clone()));
        }
        let mut draft = memories.draft(ChangeKind::Delete, CallContext::default());
        for memory in &listing.memories {
            match draft.apply(MemoryCommand::Delete { path: memory.path.clone() }).await? {
                Reply::Done { .. } | Reply::Refused(CommandError::NotFound { .. }) => {}
                Reply::Refused(refusal) => return Err(StoreError::from(refusal).into()),
            }
        }
        let deleted = draft.changed_paths();
        let change = draft.commit().await?;
        // The checkpoint may still write files such as the generated index, so it must precede the
        // removal of the folder.
        self.store.checkpoint().await;
        let is_gone = self.folders.remove_workspace_folder(id);
        let is_gone = is_gone.map_err(WorkspaceRemovalError::Folder)?;
        let remaining_folder = (!is_gone).then(|| self.folders.workspace(id));
        Ok(WorkspaceRemoval { memories: deleted, change, remaining_folder })
    }

    /// Checks whether tasks wait or run in the worktree of a workspace, or in one of `served`.
    async fn has_unfinished_tasks(
        &self,
        id: &WorkspaceId,
        served: &[Workspace],
    ) -> Result<bool, StateError> {
        let served =
            served.iter().filter(|workspace| workspace.memory_workspace().as_ref() == Some(id));
        let mut ids: Vec<String> = served.map(|workspace| workspace.id.clone()).collect();
        if let Some(checkout) = self.folders.checkout_of(id) {
            ids.extend([ProjectRoot::Repo, ProjectRoot::Host].map(|project_root| {
                let binding = BindingRequest {
                    project: Some(checkout.clone().into()),
                    project_root,
                    workspace: WorkspaceChoice::Checkout,
                    ..BindingRequest::default()
                };
                Workspace::new(checkout.clone(), binding).id
            }));
        }
        let with_work = self.storage.state.workspaces_with_work().await?;
        Ok(ids.iter().any(|id| with_work.contains(id)))
    }
}

fn binding_of(id: &WorkspaceId) -> BindingRequest {
    BindingRequest { workspace: WorkspaceChoice::Id(id.clone()), ..BindingRequest::default() }
}
