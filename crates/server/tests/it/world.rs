//! A throw-away place with memories, and hosts that serve them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::{BindingRequest, Caller, Engine};
use memory::access::AgentClass;
use memory::change::Provenance;
use server::mcp::{Host, ProjectFrom};

/// A throw-away home.
pub(crate) struct World {
    pub(crate) engine: Arc<Engine>,
    folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { engine: Arc::new(Engine::stub()), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Makes a project and returns its folder.
    pub(crate) fn project(&self, name: &str) -> PathBuf {
        let folder = self.folder().join(name);
        std::fs::create_dir_all(folder.join(".git")).unwrap();
        folder
    }

    /// An agent that carries work out, without a project.
    pub(crate) fn host(&self) -> Host {
        Host {
            engine: Arc::clone(&self.engine),
            binding: BindingRequest::default(),
            caller: Caller { class: AgentClass::Exec, provenance: Provenance::agent("mcp") },
            project: ProjectFrom::ClientRoots,
        }
    }
}
