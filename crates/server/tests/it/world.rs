//! A temporary home for tests, and configurations of servers for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BaseFolders, BindingRequest, Caller, Config, Engine};
use lukasa_server::mcp::{McpConfig, ProjectSource};
use memory::access::AgentClass;

/// A temporary home with an engine, as one process has it.
pub(crate) struct TestHome {
    pub(crate) engine: Engine,
    folder: Arc<tempfile::TempDir>,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self::open(Arc::new(tempfile::tempdir().unwrap()))
    }

    /// Opens the same home with another engine, as another process would.
    pub(crate) fn reopen(&self) -> Self {
        Self::open(Arc::clone(&self.folder))
    }

    fn open(folder: Arc<tempfile::TempDir>) -> Self {
        let folders =
            BaseFolders { data: folder.path().join("data"), state: folder.path().join("state") };
        Self { engine: Engine::open(Config::new(folders)).unwrap(), folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn data_folder(&self) -> PathBuf {
        self.folder().join("data")
    }

    pub(crate) fn state_folder(&self) -> PathBuf {
        self.folder().join("state")
    }

    /// Creates a project and returns its folder.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        let folder = self.folder().join(name);
        std::fs::create_dir_all(folder.join(".git")).unwrap();
        folder
    }

    /// Returns a server configuration for an `exec` agent without a project.
    pub(crate) fn config(&self) -> McpConfig {
        McpConfig {
            engine: self.engine.clone(),
            binding: BindingRequest::default(),
            caller: Caller::agent(AgentClass::Exec, "mcp"),
            project: ProjectSource::ClientRoots,
            remote_hosts: Vec::new(),
        }
    }
}
