//! A workspace as the daemon knows it: a folder that a caller works in, what it gives access to, and which features
//! are on there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::document::Revision;
use memory::feature::Features;
use store::{
    BindingRequest, Checkout, ProjectRoot, WorkspaceChoice, WorkspaceId, folder_slug, real_path,
};

/// How many hex digits of a digest an id has.
const ID_DIGEST_CHARS: usize = 12;

/// A folder that somebody works in. Tasks of one workspace are done one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its name, the same in every process: a readable word and a digest of what is bound.
    pub id: String,
    /// The folder.
    pub cwd: PathBuf,
    /// The memories that it gives access to.
    pub binding: BindingRequest,
    /// Whether it is the one that a daemon was started for.
    pub primary: bool,
    /// Whether a person said that what lies there may be read and run.
    pub trusted: bool,
    /// Whether tasks may be asked for here: a person may switch memory off.
    pub memory_enabled: bool,
}

impl Workspace {
    /// Returns the workspace of a folder, given without links, with memory on. A person works in it, so
    /// it is trusted.
    ///
    /// Every folder of a checkout is the same workspace, as long as the same memories are bound.
    pub fn new(cwd: PathBuf, binding: BindingRequest) -> Self {
        let id = id(&cwd, &binding);
        Self { id, cwd, binding, primary: false, trusted: true, memory_enabled: true }
    }

    /// Returns the workspace of what a request binds, links in its folder resolved. Without a folder nothing lies
    /// in it but the person's own.
    pub fn from_binding(binding: BindingRequest) -> Self {
        let folder = binding.project_dir.as_deref().map(real_path).unwrap_or_default();
        Self::new(folder, binding)
    }

    /// Returns the id of the workspace whose memories it gives access to as the scope `workspace`. `None` where
    /// that scope is unavailable.
    pub fn memory_workspace(&self) -> Option<WorkspaceId> {
        match &self.binding.workspace {
            WorkspaceChoice::Id(id) => Some(id.clone()),
            WorkspaceChoice::Checkout if self.binding.flat.is_none() => {
                Some(Checkout::find(self.binding.project_dir.as_deref()?)?.workspace())
            }
            WorkspaceChoice::Checkout | WorkspaceChoice::None => None,
        }
    }
}

/// Returns a readable name and what tells the workspace from all others: two with one id have the same
/// memories, so either may do the tasks of the other.
fn id(cwd: &Path, binding: &BindingRequest) -> String {
    let BindingRequest { project_dir, project_root, workspace, flat, read_only, no_project: _ } =
        binding;
    let start = flat.as_deref().or(project_dir.as_deref()).unwrap_or(cwd);
    let checkout = if flat.is_none() { Checkout::find(start) } else { None };
    let folder = checkout.map_or_else(|| start.to_owned(), |checkout| checkout.root);
    let mut told = folder.as_os_str().as_encoded_bytes().to_vec();
    let mut tell = |what: &[u8]| {
        told.push(0);
        told.extend_from_slice(what);
    };
    tell(match project_root {
        ProjectRoot::Repo => b"repo",
        ProjectRoot::Host => b"host",
    });
    tell(
        match workspace {
            // That of the folder, which is part of the digest already.
            WorkspaceChoice::Checkout => String::new(),
            WorkspaceChoice::Id(id) => id.to_string(),
            // No id has a slash.
            WorkspaceChoice::None => "/".to_owned(),
        }
        .as_bytes(),
    );
    tell(if flat.is_some() { b"flat" } else { b"" });
    tell(if *read_only { b"read-only" } else { b"" });
    let digest: String =
        Revision::digest(&told).to_string().chars().take(ID_DIGEST_CHARS).collect();
    format!("{}-{digest}", folder_slug(&folder, "workspace"))
}

/// The switches of an engine. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FeatureSwitches {
    global: Features,
    /// What single workspaces still have of it, by their ids.
    per_workspace: Arc<BTreeMap<String, Features>>,
}

impl FeatureSwitches {
    /// Returns switches of which single workspaces, by their ids, may only take away.
    pub fn new(everywhere: Features, in_workspaces: BTreeMap<String, Features>) -> Self {
        Self { global: everywhere, per_workspace: Arc::new(in_workspaces) }
    }

    /// Returns what is on where no workspace is known.
    pub const fn global(&self) -> Features {
        self.global
    }

    /// Returns what is on in a workspace.
    pub fn for_workspace(&self, workspace: &Workspace) -> Features {
        let taken = self.per_workspace.get(&workspace.id).copied();
        taken.map_or(self.global, |left| self.global.and(left))
    }

    /// Returns what is on for the memories that a host's request leads to.
    pub fn for_request(&self, request: &BindingRequest) -> Features {
        if self.per_workspace.is_empty() {
            return self.global;
        }
        let folder = request.project_dir.clone().unwrap_or_default();
        self.for_workspace(&Workspace::new(folder, request.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding_of(folder: &Path) -> BindingRequest {
        BindingRequest { project_dir: Some(folder.to_owned()), ..BindingRequest::default() }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test makes a checkout")]
    fn folders_of_a_checkout_are_one_workspace_and_others_are_not() {
        let home = tempfile::tempdir().unwrap();
        let top = std::fs::canonicalize(home.path()).unwrap().join("my shop");
        std::fs::create_dir_all(top.join(".git")).unwrap();
        std::fs::create_dir_all(top.join("src")).unwrap();
        let whole = Workspace::new(top.clone(), binding_of(&top));
        let part = Workspace::new(top.join("src"), binding_of(&top.join("src")));
        assert_eq!(whole.id, part.id);
        let (slug, digest) = whole.id.rsplit_once('-').unwrap();
        assert_eq!((slug, digest.len()), ("my-shop", ID_DIGEST_CHARS));
        let others = [
            binding_of(home.path()),
            BindingRequest { project_root: ProjectRoot::Host, ..binding_of(&top) },
            BindingRequest {
                workspace: WorkspaceChoice::Id("a".parse().unwrap()),
                ..binding_of(&top)
            },
            BindingRequest { workspace: WorkspaceChoice::Checkout, ..binding_of(&top) },
            BindingRequest { flat: Some(top.clone()), ..binding_of(&top) },
            BindingRequest { read_only: true, ..binding_of(&top) },
        ];
        for other in others {
            assert_ne!(Workspace::new(top.clone(), other.clone()).id, whole.id, "{other:?}");
        }
    }

    #[test]
    fn a_name_without_letters_is_still_a_name() {
        assert_eq!(folder_slug(Path::new("/"), "workspace"), "workspace");
        assert_eq!(folder_slug(Path::new("/..-"), "workspace"), "workspace");
        assert_eq!(folder_slug(Path::new("/.café"), "workspace"), "caf-");
    }
}
