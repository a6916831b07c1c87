//! Bindings: the roots that a host works with, for its folder and settings.
//!
//! Resolving a binding reads what git says about a checkout. It creates nothing and never fails: a
//! scope without a root carries the reason, and the other scopes work. Claims of a checkout are
//! verified: a worktree shares the identity of a repository only if the repository lists that
//! worktree.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use async_trait::async_trait;
use memory::change::RootKey;
use memory::document::Revision;
use memory::path::{Layout, Mount, Scope};
use state::private_files::create_private_folder;
use state::{FileLock, HeldLock, LockError, LockMode, Locks};

use crate::backend::local::{Privacy, RootDir};
use crate::checkout_record::CheckoutRecord;
use crate::host_fs;
use crate::remote_folder::RemoteFolder;

/// The base folders of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseFolders {
    /// Folder of the person's memories: global ones, and projects kept outside their checkouts.
    pub data: PathBuf,
    /// Folder of the state database, the lock files, and the memories of workspaces.
    pub state: PathBuf,
}

impl BaseFolders {
    /// Creates the state folder, accessible to the person alone; the state database does not create it. A failure
    /// is only logged: the write that needs the folder reports its own error.
    pub fn create_state_folder(&self) {
        if let Err(error) = create_private_folder(&self.state) {
            // A read-only home is a choice of the person, so this is no warning.
            tracing::debug!(%error, "creating the state folder failed");
        }
    }

    /// Returns the lock of this name, for work that one process of this host may do at a time. The name consists of letters,
    /// digits, `.`, `_` and `-`.
    pub fn lock(&self, name: &str) -> FileLock {
        FileLock::with_folder(self.lock_path(name))
    }

    pub(crate) fn lock_path(&self, name: &str) -> PathBuf {
        self.locks_folder().join(format!("{name}.lock"))
    }

    pub(crate) fn locks_folder(&self) -> PathBuf {
        self.state.join("locks")
    }
}

#[async_trait]
impl Locks for BaseFolders {
    async fn acquire(&self, name: &str) -> Result<Box<dyn HeldLock>, LockError> {
        Ok(Box::new(self.lock(name).acquire(LockMode::Exclusive).await?))
    }
}

/// Folder of a checkout's memories, below its top folder.
pub(crate) const PROJECT_FOLDER: [&str; 2] = [".lukasa", "memory"];

/// Location of a project's memories.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectRoot {
    /// In the checkout, at `.lukasa/memory`. They travel with the repository.
    #[default]
    Repo,
    /// On this host, beside the global memories. All worktrees of a repository share them.
    Host,
}

/// Maximum length of the name of a workspace or a project, in characters. It is a folder name.
const WORKSPACE_ID_CHARS_MAX: usize = 64;

/// Id of a workspace: letters, digits, `.`, `_` and `-`; the first is not a dot.
///
/// `NAME@PROJECT` is a workspace of a project that has a name and no folder. All workspaces of such a project share its
/// memories, which lie beside the global ones. Both parts have the same form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkspaceId(String);

/// The error for a text that is not a valid workspace id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a workspace id is 1 to {WORKSPACE_ID_CHARS_MAX} letters, digits, `.`, `_` or `-`, and does \
     not begin with a dot; `@` and the name of a project may follow"
)]
pub struct InvalidWorkspaceId;

impl FromStr for WorkspaceId {
    type Err = InvalidWorkspaceId;

    fn from_str(text: &str) -> Result<Self, InvalidWorkspaceId> {
        let well_formed = match text.split_once('@') {
            Some((name, project)) => is_name(name) && is_name(project),
            None => is_name(text),
        };
        if well_formed { Ok(Self(text.to_owned())) } else { Err(InvalidWorkspaceId) }
    }
}

fn is_name(text: &str) -> bool {
    (1..=WORKSPACE_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && !text.starts_with('.')
}

impl WorkspaceId {
    /// Returns the name of the project that the id names.
    pub fn project(&self) -> Option<&str> {
        self.0.split_once('@').map(|(_, project)| project)
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The choice of the workspace that a binding has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceChoice {
    /// No workspace.
    #[default]
    None,
    /// The workspace of the checkout that contains the project: each worktree has its own. Outside of a checkout
    /// there is none.
    Checkout,
    /// The workspace with this id.
    Id(WorkspaceId),
}

/// The folder of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProjectFolder {
    /// A folder of this machine.
    Local(PathBuf),
    /// A folder of another machine.
    Remote(RemoteFolder),
}

impl ProjectFolder {
    /// Returns the folder, if it is on this machine.
    pub fn local(&self) -> Option<&Path> {
        match self {
            Self::Local(folder) => Some(folder),
            Self::Remote(_) => None,
        }
    }

    /// Checks whether a path or an address names this folder.
    pub fn is_named(&self, text: &str) -> bool {
        match self {
            Self::Local(folder) => folder == Path::new(text),
            Self::Remote(folder) => text.parse().is_ok_and(|named: RemoteFolder| named == *folder),
        }
    }
}

impl From<PathBuf> for ProjectFolder {
    fn from(folder: PathBuf) -> Self {
        Self::Local(folder)
    }
}

impl From<RemoteFolder> for ProjectFolder {
    fn from(folder: RemoteFolder) -> Self {
        Self::Remote(folder)
    }
}

/// The empty path, which names no folder.
impl Default for ProjectFolder {
    fn default() -> Self {
        Self::Local(PathBuf::new())
    }
}

impl fmt::Display for ProjectFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(folder) => folder.display().fmt(f),
            Self::Remote(folder) => folder.fmt(f),
        }
    }
}

/// A host's description of the folder and scopes that it works with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingRequest {
    /// The checkout, or any folder in it.
    pub project: Option<ProjectFolder>,
    /// Reason why there is no project, as the end of a sentence, if more is known than that none was named.
    pub no_project: Option<String>,
    /// Location of the project's memories.
    pub project_root: ProjectRoot,
    /// The workspace.
    pub workspace: WorkspaceChoice,
    /// One folder to mount instead of the scopes.
    pub flat: Option<PathBuf>,
    /// Whether the binding is read-only.
    pub read_only: bool,
}

impl BindingRequest {
    /// Returns the folder of the project, if it is on this machine.
    pub fn local_project(&self) -> Option<&Path> {
        self.project.as_ref()?.local()
    }

    /// Returns the name of the project that the id of the workspace names. It goes before the project's folder.
    fn named_project(&self) -> Option<&str> {
        match &self.workspace {
            WorkspaceChoice::Id(id) => id.project(),
            WorkspaceChoice::None | WorkspaceChoice::Checkout => None,
        }
    }

    /// Returns the checkout of the project, if it is on this machine.
    pub fn checkout(&self) -> Option<Checkout> {
        Checkout::find(self.local_project()?)
    }

    /// Returns the id of the workspace that belongs to the checkout.
    pub fn checkout_workspace(&self) -> Option<WorkspaceId> {
        match self.project.as_ref()? {
            ProjectFolder::Local(folder) => Some(Checkout::find(folder)?.workspace()),
            ProjectFolder::Remote(folder) => Some(WorkspaceId(folder.key())),
        }
    }
}

/// A checkout of a project on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// Its top folder, with links resolved.
    pub root: PathBuf,
    /// Identity of the project: a readable name and a digest, the same for all worktrees.
    pub identity: String,
}

impl Checkout {
    /// Finds the checkout that contains `start`, by walking up to a `.git` folder or file.
    pub fn find(start: &Path) -> Option<Self> {
        let start = host_fs::real_path(start).ok()?;
        let root = start
            .ancestors()
            .find(|folder| host_fs::symlink_metadata(&folder.join(".git")).is_some())?;
        let main = main_checkout(root).unwrap_or_else(|| root.to_owned());
        Some(Self { root: root.to_owned(), identity: project_key(&main) })
    }

    /// Returns the workspace id of this checkout: a readable name and a digest of its real path. Every process that
    /// runs in the checkout computes the same id.
    pub fn workspace(&self) -> WorkspaceId {
        WorkspaceId(project_key(&self.root))
    }
}

/// Returns the main checkout, or the bare repository, of a linked worktree, if that repository lists `root` as a
/// worktree. A folder that only claims to be a worktree is a project of its own.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    let git_file = root.join(".git");
    let git_pointer = host_fs::read_small_file(&git_file)?;
    let git_dir =
        host_fs::real_path(&root.join(git_pointer.strip_prefix("gitdir:")?.trim())).ok()?;
    let listed_pointer = host_fs::read_small_file(git_dir.join("gitdir"))?;
    let listed_file = host_fs::real_path(&git_dir.join(listed_pointer.trim())).ok()?;
    if listed_file != host_fs::real_path(&git_file).ok()? {
        return None;
    }
    let common_dir = host_fs::read_small_file(git_dir.join("commondir"))?;
    let common_dir = host_fs::real_path(&git_dir.join(common_dir.trim())).ok()?;
    // The repository lists its worktrees in its own folder. A list in another folder is an unverified claim.
    if git_dir.parent() != Some(&common_dir.join("worktrees")) {
        return None;
    }
    if common_dir.file_name().is_some_and(|name| name == ".git") {
        return common_dir.parent().map(Path::to_owned);
    }
    Some(common_dir)
}

/// Returns the other checkouts of the same repository: the main one, and the linked worktrees that the repository
/// lists.
pub(crate) fn other_checkouts(root: &Path) -> Vec<PathBuf> {
    let main = main_checkout(root).unwrap_or_else(|| root.to_owned());
    let in_main = main.join(".git");
    // A bare repository has the list at its top, not in `.git`.
    let git_dir =
        if host_fs::symlink_metadata(&in_main).is_some() { in_main } else { main.clone() };
    let linked = host_fs::list_names(&git_dir.join("worktrees")).into_iter().filter_map(|name| {
        let entry = git_dir.join("worktrees").join(name);
        let git_file = entry.join(host_fs::read_small_file(entry.join("gitdir"))?.trim());
        host_fs::real_path(git_file.parent()?).ok()
    });
    let mut others: Vec<_> = linked.chain([main]).filter(|other| other != root).collect();
    others.sort();
    others.dedup();
    others
}

/// Maximum number of characters of the folder name in a key.
const SLUG_CHARS_MAX: usize = 40;

/// Returns a readable name for a folder, with twelve hex digits that make it unique.
fn project_key(folder: &Path) -> String {
    format!("{}-{}", folder_slug(folder, "project"), digest(folder))
}

/// Returns the name of a folder for use in file names and ids: at most 40 ASCII letters, digits, `.`, `_` and `-`,
/// the first neither `.` nor `-`. Returns `otherwise` if no character is left.
pub fn folder_slug(folder: &Path, otherwise: &str) -> String {
    let name = folder.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    let slug: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .take(SLUG_CHARS_MAX)
        .collect();
    let slug = slug.trim_start_matches(['.', '-']);
    if slug.is_empty() { otherwise.to_owned() } else { slug.to_owned() }
}

/// Begins the identity of the memories of a workspace; its id follows.
const WORKSPACE_IDENTITY: &str = "workspace:";

/// Returns the workspace whose memories have an identity, if it is one of a workspace.
pub(crate) fn workspace_of_identity(identity: &str) -> Option<WorkspaceId> {
    identity.strip_prefix(WORKSPACE_IDENTITY)?.parse().ok()
}

/// Returns twelve hex digits of the digest of a path.
pub(crate) fn digest(path: &Path) -> String {
    Revision::digest(path.as_os_str().as_encoded_bytes()).to_string().chars().take(12).collect()
}

/// The description of a root that is not opened yet.
#[derive(Debug)]
pub(crate) struct RootSpec {
    pub(crate) key: RootKey,
    pub(crate) files: RootFiles,
    /// Whether it belongs to this host and not to a checkout, so that a database may keep its files. As a folder it
    /// carries a generated `MEMORY.md`.
    pub(crate) is_hosted: bool,
    /// The record of the checkout that a workspace belongs to.
    pub(crate) checkout: Option<CheckoutRecord>,
}

/// The place of a root's files.
#[derive(Debug)]
pub(crate) enum RootFiles {
    Local(RootDir),
    /// In the checkout of another machine.
    Remote(RemoteFolder),
}

/// One mount of a binding.
#[derive(Debug)]
pub(crate) struct MountSpec {
    pub(crate) mount: Mount,
    /// The root, or the reason why there is none.
    pub(crate) root: Result<RootSpec, String>,
}

/// The roots that a caller has.
#[derive(Debug)]
pub struct Binding {
    pub(crate) layout: Layout,
    pub(crate) mounts: Vec<MountSpec>,
    pub(crate) read_only: bool,
}

impl Binding {
    /// Resolves the roots. Reads what git says about a checkout, and creates nothing.
    pub fn resolve(request: &BindingRequest, folders: &BaseFolders) -> Self {
        let (layout, mounts) = if let Some(folder) = &request.flat {
            (Layout::Flat, vec![flat(folder)])
        } else {
            let checkout = request.checkout();
            let workspace = workspace(request, checkout.as_ref(), folders);
            let project = match (request.named_project(), &request.project) {
                (Some(name), _) => MountSpec {
                    mount: Mount::Scope(Scope::Project),
                    root: Ok(project_on_host(name, folders)),
                },
                (None, Some(ProjectFolder::Remote(folder))) => {
                    remote_project(request.project_root, folder, folders)
                }
                (None, _) => {
                    let reason = request.no_project.as_deref();
                    project(request.project_root, checkout, reason, folders)
                }
            };
            (Layout::Scoped, vec![global(folders), project, workspace])
        };
        let mounts = dedup_roots(mounts);
        Self { layout, mounts, read_only: request.read_only }
    }
}

/// Makes a mount unavailable if an earlier mount has the same root, since its lock would wait for itself.
fn dedup_roots(mounts: Vec<MountSpec>) -> Vec<MountSpec> {
    let mut places = HashSet::new();
    let check = |mut spec: MountSpec| {
        if spec.root.as_ref().is_ok_and(|root| !places.insert(root.key.place.clone())) {
            spec.root = Err("another scope has the same folder".to_owned());
        }
        spec
    };
    mounts.into_iter().map(check).collect()
}

pub(crate) fn root_spec(identity: String, root_dir: RootDir, is_hosted: bool) -> RootSpec {
    // A root that does not exist yet already has its final key. The existing part of its parent folders is
    // resolved, so that two paths to one folder have one key.
    // Folder names that a checkout controls are not resolved: a link to another root must not lead to that root's
    // history.
    let place = digest(&root_dir.resolved_base(resolve_links));
    RootSpec {
        key: RootKey { identity, place },
        files: RootFiles::Local(root_dir),
        is_hosted,
        checkout: None,
    }
}

/// Resolves the links in `path`, as far as the path exists.
pub fn resolve_links(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = host_fs::real_path(ancestor) {
            return match path.strip_prefix(ancestor) {
                Ok(rest) if rest.as_os_str().is_empty() => real,
                Ok(rest) => real.join(rest),
                Err(_) => path.to_owned(),
            };
        }
    }
    path.to_owned()
}

pub(crate) fn global(folders: &BaseFolders) -> MountSpec {
    let root_dir = RootDir::new(folders.data.clone(), &["memory"], Privacy::Private);
    MountSpec {
        mount: Mount::Scope(Scope::Global),
        root: Ok(root_spec("global".to_owned(), root_dir, true)),
    }
}

fn project(
    project_root: ProjectRoot,
    checkout: Option<Checkout>,
    reason: Option<&str>,
    folders: &BaseFolders,
) -> MountSpec {
    let mount = Mount::Scope(Scope::Project);
    let Some(checkout) = checkout else {
        let reason = reason.unwrap_or("no project is associated with this session").to_owned();
        return MountSpec { mount, root: Err(reason) };
    };
    let root = match project_root {
        ProjectRoot::Repo => {
            let root_dir = RootDir::new(checkout.root, &PROJECT_FOLDER, Privacy::Shared);
            root_spec(format!("project:{}", checkout.identity), root_dir, false)
        }
        ProjectRoot::Host => project_on_host(&checkout.identity, folders),
    };
    MountSpec { mount, root: Ok(root) }
}

/// Returns the root of a project whose memories are beside the global ones.
pub(crate) fn project_on_host(identity: &str, folders: &BaseFolders) -> RootSpec {
    let root_dir =
        RootDir::new(folders.data.clone(), &["projects", identity, "memory"], Privacy::Private);
    root_spec(format!("project:{identity}"), root_dir, true)
}

/// Returns the place of a folder on another machine, which its address decides.
pub(crate) fn remote_place(folder: &RemoteFolder) -> String {
    digest(Path::new(&folder.to_string()))
}

fn remote_project(
    project_root: ProjectRoot,
    folder: &RemoteFolder,
    folders: &BaseFolders,
) -> MountSpec {
    let identity = folder.key();
    let root = match project_root {
        ProjectRoot::Host => project_on_host(&identity, folders),
        ProjectRoot::Repo => RootSpec {
            key: RootKey { identity: format!("project:{identity}"), place: remote_place(folder) },
            files: RootFiles::Remote(folder.clone()),
            is_hosted: false,
            checkout: None,
        },
    };
    MountSpec { mount: Mount::Scope(Scope::Project), root: Ok(root) }
}

/// Returns the root in the checkout that contains a folder, for a client on another machine.
pub(crate) fn project_root_spec(folder: &Path, folders: &BaseFolders) -> Option<RootSpec> {
    project(ProjectRoot::Repo, Some(Checkout::find(folder)?), None, folders).root.ok()
}

fn workspace(
    request: &BindingRequest,
    checkout: Option<&Checkout>,
    folders: &BaseFolders,
) -> MountSpec {
    let mount = Mount::Scope(Scope::Workspace);
    let (id, recorded_checkout) = match &request.workspace {
        WorkspaceChoice::Id(id) => (Some(id.clone()), None),
        WorkspaceChoice::Checkout => match checkout {
            Some(checkout) => (Some(checkout.workspace()), Some(checkout)),
            None => (request.checkout_workspace(), None),
        },
        WorkspaceChoice::None => (None, None),
    };
    let Some(id) = id else {
        let reason = request.no_project.as_deref();
        let reason = reason.filter(|_| request.workspace == WorkspaceChoice::Checkout);
        let reason = reason.unwrap_or("no workspace is associated with this session").to_owned();
        return MountSpec { mount, root: Err(reason) };
    };
    let names = ["workspaces", &id.0, "memory"];
    let root_dir = RootDir::new(folders.state.clone(), &names, Privacy::Private);
    let checkout = recorded_checkout
        .map(|checkout| CheckoutRecord::new(folders.workspace(&id), checkout.root.clone()));
    let root = root_spec(format!("{WORKSPACE_IDENTITY}{id}"), root_dir, true);
    MountSpec { mount, root: Ok(RootSpec { checkout, ..root }) }
}

fn flat(folder: &Path) -> MountSpec {
    let mount = Mount::Flat;
    let path = resolve_parent_links(folder);
    let (Some(base), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    else {
        let reason = "the folder to mount has no usable name".to_owned();
        return MountSpec { mount, root: Err(reason) };
    };
    let root_dir = RootDir::new(base.to_owned(), &[name], Privacy::Shared);
    let identity = format!("flat:{}", project_key(&path));
    MountSpec { mount, root: Ok(root_spec(identity, root_dir, false)) }
}

/// Resolves the parent of a folder, but not the folder itself, which may not be a link.
fn resolve_parent_links(folder: &Path) -> PathBuf {
    match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        // A path such as `.` or `..`: the folder exists under another name.
        _ => resolve_links(folder),
    }
}

#[cfg(test)]
mod tests;
