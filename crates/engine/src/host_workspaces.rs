//! The workspaces of this host: listed with their checkouts, and removed.

use std::io;
use std::path::{Path, PathBuf};

use memory::change::{ChangeId, ChangeKind};
use memory::command::{CommandError, MemoryCommand, Reply};
use memory::path::{MemoryPath, Mount, Scope};
use state::{StateError, TaskStore as _};
use store::{
    BindingRequest, CallContext, Caller, ProjectRoot, StoreError, WorkspaceChoice, WorkspaceId,
};

use crate::engine::Engine;
use crate::workspace::Workspace;

/// A workspace whose memories lie on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostWorkspace {
    /// Its id.
    pub id: WorkspaceId,
    /// The worktree that it belongs to; `None` for one that a person or a host named.
    pub checkout: Option<PathBuf>,
    /// Whether that worktree still exists.
    pub checkout_exists: bool,
    /// The number of its memories.
    pub memories: usize,
    /// Their size.
    pub bytes: u64,
}

impl HostWorkspace {
    /// Tells whether its worktree was removed, rather than being on a disk that is not mounted: the folder above it
    /// exists.
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
    /// The folder of the workspace, if files that are no memories keep it.
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
    /// The workspace holds more memories than one listing names.
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
    /// Returns the workspaces of this host, in order of their ids.
    pub async fn workspaces(&self) -> Result<Vec<HostWorkspace>, StoreError> {
        let mut found = Vec::new();
        for id in self.folders.workspaces() {
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
        Ok(found)
    }

    /// Deletes the memories of a workspace as one change, and removes its folder. `caller` is who deletes.
    ///
    /// Refuses while tasks wait or run in its worktree, or in one of the `served` workspaces whose memories these
    /// are. A task that is queued after that look makes the workspace again if it has something to write there.
    ///
    /// History keeps the deleted texts as it keeps those of any deletion, so the undo of the change brings them
    /// back. Files that are no memories are left, and the folder with them.
    pub async fn remove_workspace(
        &self,
        id: &WorkspaceId,
        caller: Caller,
        served: &[Workspace],
    ) -> Result<WorkspaceRemoval, WorkspaceRemovalError> {
        if !self.folders.workspaces().contains(id) {
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
        // What is written once the memories are gone, such as their listing, is written before the folder goes.
        self.store.checkpoint().await;
        let is_gone = self.folders.remove_workspace_folder(id);
        let is_gone = is_gone.map_err(WorkspaceRemovalError::Folder)?;
        let remaining_folder = (!is_gone).then(|| self.folders.workspace(id));
        Ok(WorkspaceRemoval { memories: deleted, change, remaining_folder })
    }

    /// Tells whether tasks wait or run in the worktree of a workspace, or in one of the `served` ones.
    async fn has_unfinished_tasks(
        &self,
        id: &WorkspaceId,
        served: &[Workspace],
    ) -> Result<bool, StateError> {
        let served = served.iter().filter(|one| one.memory_workspace().as_ref() == Some(id));
        let mut ids: Vec<String> = served.map(|one| one.id.clone()).collect();
        if let Some(checkout) = self.folders.checkout_of(id) {
            ids.extend([ProjectRoot::Repo, ProjectRoot::Host].map(|project_root| {
                let binding = BindingRequest {
                    project_dir: Some(checkout.clone()),
                    project_root,
                    workspace: WorkspaceChoice::Checkout,
                    ..BindingRequest::default()
                };
                Workspace::new(checkout.clone(), binding).id
            }));
        }
        let with_work = self.state.workspaces_with_work().await?;
        Ok(ids.iter().any(|id| with_work.contains(id)))
    }
}

fn binding_of(id: &WorkspaceId) -> BindingRequest {
    BindingRequest { workspace: WorkspaceChoice::Id(id.clone()), ..BindingRequest::default() }
}
