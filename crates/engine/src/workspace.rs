//! Workspaces: a folder that a user or agent works in, with the memories bound there and the
//! features enabled there.
//!
//! The id of a workspace is the same in every process, so that processes agree on lanes and locks.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use memory::document::Revision;
use memory::feature::Features;
use store::{
    BindingRequest, Checkout, ProjectFolder, ProjectRoot, WorkspaceChoice, WorkspaceId,
    folder_slug, real_path,
};

/// Number of hex digits of the digest in an id.
const ID_DIGEST_CHARS: usize = 12;

/// A folder that a user or agent works in. Tasks of one workspace run one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Its id, the same in every process: a readable word and a digest of its binding.
    pub id: String,
    /// The folder.
    pub cwd: ProjectFolder,
    /// The binding of its memories.
    pub binding: BindingRequest,
    /// Whether it is the workspace that a daemon was started for.
    pub primary: bool,
    /// Whether the user trusts the folder, so that its files may be read and run.
    pub trusted: bool,
    /// Whether tasks are accepted here; the user can switch memory off.
    pub memory_enabled: bool,
}

impl Workspace {
    /// Returns the workspace of a folder, with memory on. A local `cwd` must be free of links. The
    /// workspace is trusted because the user works in it.
    ///
    /// All folders of a checkout are the same workspace, as long as the same memories are bound.
    pub fn new(cwd: impl Into<ProjectFolder>, binding: BindingRequest) -> Self {
        let cwd = cwd.into();
        let id = id(&cwd, &binding);
        Self { id, cwd, binding, primary: false, trusted: true, memory_enabled: true }
    }

    /// Returns the workspace of a binding, with links in its folder resolved. Without a folder,
    /// only the user's own memories are bound.
    pub fn from_binding(binding: BindingRequest) -> Self {
        let folder = match &binding.project {
            Some(ProjectFolder::Local(folder)) => ProjectFolder::Local(real_path(folder)),
            Some(remote) => remote.clone(),
            None => ProjectFolder::default(),
        };
        Self::new(folder, binding)
    }

    /// Returns a workspace that is only a name, without a folder, in a database that daemons share. Its id is the name.
    pub fn named(name: WorkspaceId) -> Self {
        let id = name.to_string();
        let workspace = WorkspaceChoice::Id(name);
        let binding = BindingRequest { workspace, ..BindingRequest::default() };
        Self { id, ..Self::from_binding(binding) }
    }

    /// Returns the id of the workspace whose memories are bound as the scope `workspace`. `None` if
    /// that scope is unavailable.
    pub fn memory_workspace(&self) -> Option<WorkspaceId> {
        match &self.binding.workspace {
            WorkspaceChoice::Id(id) => Some(id.clone()),
            WorkspaceChoice::Checkout if self.binding.flat.is_none() => {
                self.binding.checkout_workspace()
            }
            WorkspaceChoice::Checkout | WorkspaceChoice::None => None,
        }
    }
}

/// Returns a readable name with a digest that distinguishes workspaces. Two workspaces with one id
/// have the same memories, so either may run the tasks of the other.
fn id(cwd: &ProjectFolder, binding: &BindingRequest) -> String {
    let BindingRequest { project, project_root, workspace, flat, read_only, no_project: _ } =
        binding;
    let folder = match (flat, project.as_ref().unwrap_or(cwd)) {
        (Some(flat), _) => flat.clone(),
        (None, ProjectFolder::Local(start)) => {
            Checkout::find(start).map_or_else(|| start.clone(), |checkout| checkout.root)
        }
        (None, ProjectFolder::Remote(folder)) => PathBuf::from(folder.to_string()),
    };
    let mut identity = folder.as_os_str().as_encoded_bytes().to_vec();
    let mut append = |part: &[u8]| {
        identity.push(0);
        identity.extend_from_slice(part);
    };
    append(match project_root {
        ProjectRoot::Repo => b"repo",
        ProjectRoot::Host => b"host",
    });
    append(
        match workspace {
            // The workspace of the folder, which the digest contains already.
            WorkspaceChoice::Checkout => String::new(),
            WorkspaceChoice::Id(id) => id.to_string(),
            // A slash cannot occur in an id.
            WorkspaceChoice::None => "/".to_owned(),
        }
        .as_bytes(),
    );
    append(if flat.is_some() { b"flat" } else { b"" });
    append(if *read_only { b"read-only" } else { b"" });
    let digest: String =
        Revision::digest(&identity).to_string().chars().take(ID_DIGEST_CHARS).collect();
    format!("{}-{digest}", folder_slug(&folder, "workspace"))
}

/// The feature switches of an engine. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct FeatureSwitches {
    global: Features,
    /// Features that each workspace keeps, by workspace id.
    per_workspace: Arc<BTreeMap<String, Features>>,
}

impl FeatureSwitches {
    /// Returns switches with restrictions for single workspaces, by their ids.
    pub fn new(global: Features, restrictions: BTreeMap<String, Features>) -> Self {
        Self { global, per_workspace: Arc::new(restrictions) }
    }

    /// Returns the features outside of any workspace.
    pub const fn global(&self) -> Features {
        self.global
    }

    /// Returns the features in a workspace.
    pub fn for_workspace(&self, workspace: &Workspace) -> Features {
        let restriction = self.per_workspace.get(&workspace.id).copied();
        restriction.map_or(self.global, |kept| self.global.and(kept))
    }

    /// Returns the features for the memories of a host's request.
    pub fn for_request(&self, request: &BindingRequest) -> Features {
        if self.per_workspace.is_empty() {
            return self.global;
        }
        let folder = request.project.clone().unwrap_or_default();
        let features = self.for_workspace(&Workspace::new(folder, request.clone()));
        match (&request.project, &request.workspace) {
            (None, WorkspaceChoice::Id(name)) => {
                features.and(self.for_workspace(&Workspace::named(name.clone())))
            }
            _ => features,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn binding_of(folder: &Path) -> BindingRequest {
        BindingRequest { project: Some(folder.to_owned().into()), ..BindingRequest::default() }
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
