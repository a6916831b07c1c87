//! The workspaces that a daemon serves for one owner, with their MCP endpoints.
//!
//! A daemon with folders serves those that it was started with. A daemon with a database serves every workspace that a
//! request names, and opens it when it is named first.

use std::ops::Deref;
use std::sync::Arc;

use engine::{Caller, Engine, Feeds, RunningServices, Workspace, WorkspaceId};
use memory::access::AgentClass;
use parking_lot::{Mutex, RwLock};
use protocol::error::ErrorCode;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::ErrorResponse;
use crate::limits::WORKSPACES_OPEN_MAX;
use crate::mcp::{McpConfig, McpEndpoint, ProjectSource};

/// The origin recorded for changes by MCP clients, the same as over pipes.
pub(super) const MCP_ORIGIN: &str = "mcp";

/// A served workspace.
#[derive(Debug)]
pub(super) struct ServedWorkspace {
    workspace: Workspace,
    pub(super) mcp: McpEndpoint,
    last_used: Mutex<Instant>,
}

impl ServedWorkspace {
    fn new(workspace: Workspace, mcp: McpEndpoint) -> Arc<Self> {
        Arc::new(Self { workspace, mcp, last_used: Mutex::new(Instant::now()) })
    }

    /// Checks whether nothing happens in the workspace: no call, no stream, no task.
    pub(super) fn is_idle(&self, services: &RunningServices) -> bool {
        self.mcp.is_idle()
            && services.feeds.readers_of(&self.id) == 0
            && !services.lanes.is_working(self)
    }
}

impl Deref for ServedWorkspace {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

/// The workspaces that requests may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkspaceSet {
    /// Those that the daemon was started with.
    Fixed,
    /// Any name: memories are in a database.
    Named,
}

/// The served workspaces of one owner.
#[derive(Debug)]
pub(super) struct ServedWorkspaces {
    open: RwLock<Vec<Arc<ServedWorkspace>>>,
    set: WorkspaceSet,
    /// Held while a workspace is opened, so that it is opened once.
    opening: tokio::sync::Mutex<()>,
    /// Cancelled when streams of changes must end.
    ending: CancellationToken,
}

impl ServedWorkspaces {
    /// Returns workspaces that services serve already. Their MCP endpoints end when `ending` is cancelled.
    pub(super) fn new(
        (engine, feeds): (&Engine, &Arc<Feeds>),
        workspaces: Vec<Workspace>,
        set: WorkspaceSet,
        ending: CancellationToken,
    ) -> Self {
        let endpoint =
            |workspace: &Workspace| mcp_endpoint((engine, feeds), workspace, (set, &ending));
        let served = workspaces.into_iter().map(|workspace| {
            let mcp = endpoint(&workspace);
            ServedWorkspace::new(workspace, mcp)
        });
        let open = RwLock::new(served.collect());
        Self { open, set, opening: tokio::sync::Mutex::default(), ending }
    }

    /// Returns one workspace with another endpoint.
    #[cfg(test)]
    pub(super) fn with_endpoint(workspace: Workspace, mcp: McpEndpoint) -> Self {
        let open = RwLock::new(vec![ServedWorkspace::new(workspace, mcp)]);
        let opening = tokio::sync::Mutex::default();
        Self { open, set: WorkspaceSet::Fixed, opening, ending: CancellationToken::new() }
    }

    /// Returns the open workspaces.
    pub(super) fn all(&self) -> Vec<Arc<ServedWorkspace>> {
        self.open.read().clone()
    }

    /// Returns the trusted workspaces that metrics and the deep health check examine. Of named ones only the primary: there may
    /// be many, and a reader may have invented them.
    pub(super) fn examined(&self) -> Vec<Arc<ServedWorkspace>> {
        let mut all = self.all();
        all.retain(|served| served.trusted && (self.set == WorkspaceSet::Fixed || served.primary));
        all
    }

    /// Returns copies of the open workspaces, as the engine takes them.
    pub(super) fn plain(&self) -> Vec<Workspace> {
        self.open.read().iter().map(|served| served.workspace.clone()).collect()
    }

    /// Returns the first open workspace that `is_it` accepts.
    pub(super) fn find(&self, is_it: impl Fn(&Workspace) -> bool) -> Option<Arc<ServedWorkspace>> {
        self.open.read().iter().find(|served| is_it(served)).cloned()
    }

    fn find_by_id(&self, id: Option<&str>) -> Option<Arc<ServedWorkspace>> {
        self.find(|workspace| match id {
            None => workspace.primary,
            // Published clients may name a workspace by its folder.
            Some(id) => workspace.id == id || workspace.cwd.is_named(id),
        })
    }

    /// Returns a workspace without opening it.
    pub(super) fn find_or_name(&self, id: Option<&str>) -> Option<Workspace> {
        let found = self.find_by_id(id).map(|served| served.workspace.clone());
        found.or_else(|| self.named(id))
    }

    fn named(&self, id: Option<&str>) -> Option<Workspace> {
        let name = id.filter(|_| self.set == WorkspaceSet::Named)?.parse::<WorkspaceId>().ok()?;
        let first = self.find_by_id(None);
        let memory_enabled = first.is_none_or(|first| first.memory_enabled);
        Some(Workspace { memory_enabled, ..Workspace::named(name) })
    }

    /// Returns the workspace with this id; without an id, the primary one. Opens it if any name is served.
    pub(super) async fn get_or_open(
        &self,
        id: Option<&str>,
        (engine, services): (&Engine, &RunningServices),
    ) -> Result<Arc<ServedWorkspace>, ErrorResponse> {
        if let Some(found) = self.find_by_id(id) {
            *found.last_used.lock() = Instant::now();
            return Ok(found);
        }
        let workspace = self.named(id).ok_or(ErrorCode::WorkspaceNotFound)?;
        let _opening = self.opening.lock().await;
        if let Some(found) = self.find_by_id(id) {
            return Ok(found);
        }
        if self.open.read().len() >= WORKSPACES_OPEN_MAX && !self.close_idlest(services) {
            let message =
                format!("{WORKSPACES_OPEN_MAX} workspaces are in use, which is the maximum");
            return Err(ErrorResponse::from(ErrorCode::Overloaded).with_message(message));
        }
        engine.serve_workspace(services, &workspace).await?;
        let mcp = mcp_endpoint((engine, &services.feeds), &workspace, (self.set, &self.ending));
        let served = ServedWorkspace::new(workspace, mcp);
        self.open.write().push(Arc::clone(&served));
        Ok(served)
    }

    /// Closes the workspace that was idle longest, except the primary one. Returns whether there was one.
    fn close_idlest(&self, services: &RunningServices) -> bool {
        let mut open = self.open.write();
        let idle = open.iter().enumerate();
        // The list has one reference; a request that uses the workspace has another one.
        let idle = idle.filter(|(_, served)| {
            !served.primary && Arc::strong_count(served) == 1 && served.is_idle(services)
        });
        let Some((index, _)) = idle.min_by_key(|(_, served)| *served.last_used.lock()) else {
            return false;
        };
        let closed = open.swap_remove(index);
        services.feeds.close(&closed.id);
        services.lanes.forget(&closed);
        true
    }

    /// Ends the MCP endpoints.
    pub(super) async fn end(&self) {
        self.ending.cancel();
        let served = self.all();
        futures_util::future::join_all(served.iter().map(|served| served.mcp.end())).await;
    }
}

fn mcp_endpoint(
    (engine, feeds): (&Engine, &Arc<Feeds>),
    workspace: &Workspace,
    (set, ending): (WorkspaceSet, &CancellationToken),
) -> McpEndpoint {
    let feed = (Arc::clone(feeds), workspace.id.clone());
    let create = match set {
        WorkspaceSet::Fixed => McpEndpoint::new,
        // The next request of a client may reach another daemon.
        WorkspaceSet::Named => McpEndpoint::without_sessions,
    };
    create(config_of(engine, workspace), feed, ending.clone())
}

/// Returns the configuration of the endpoint of a workspace.
pub(super) fn config_of(engine: &Engine, workspace: &Workspace) -> McpConfig {
    McpConfig {
        engine: engine.clone(),
        binding: workspace.binding.clone(),
        caller: Caller::agent(AgentClass::Exec, MCP_ORIGIN),
        // The workspace is named by the request: the client's roots must not lead elsewhere.
        project: ProjectSource::Workspace,
        remote_hosts: Vec::new(),
    }
}
