//! Which features are on: for everything, and for each workspace.

use std::collections::BTreeMap;
use std::sync::Arc;

use memory::feature::Features;
use store::BindingRequest;

use crate::workspace::Workspace;

/// The switches of an engine. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Switches {
    everywhere: Features,
    /// What single workspaces still have of it, by their ids.
    in_workspaces: Arc<BTreeMap<String, Features>>,
}

impl Switches {
    /// Returns switches of which single workspaces, by their ids, may only take away.
    pub fn new(everywhere: Features, in_workspaces: BTreeMap<String, Features>) -> Self {
        Self { everywhere, in_workspaces: Arc::new(in_workspaces) }
    }

    /// Returns what is on where no workspace is known.
    pub const fn everywhere(&self) -> Features {
        self.everywhere
    }

    /// Returns what is on in a workspace.
    pub fn of(&self, workspace: &Workspace) -> Features {
        let taken = self.in_workspaces.get(&workspace.id).copied();
        taken.map_or(self.everywhere, |left| self.everywhere.and(left))
    }

    /// Returns what is on for the memories that a host's request leads to.
    pub fn of_request(&self, request: &BindingRequest) -> Features {
        if self.in_workspaces.is_empty() {
            return self.everywhere;
        }
        let folder = request.project_dir.clone().unwrap_or_default();
        self.of(&Workspace::new(folder, request.clone()))
    }
}
