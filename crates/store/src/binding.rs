//! From what a host knows about itself to the roots that its agent may use.
//!
//! A binding is worked out once and never fails: a scope that has no root carries the reason, and
//! the others go on working. What a checkout says about itself is not believed: a worktree shares
//! the identity of its repository only if the repository says so too.

use std::collections::HashSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use memory::change::RootKey;
use memory::document::Revision;
use memory::path::{Layout, Mount, Scope};
use state::FileLock;
use state::private_files::create_private_folder;

use crate::backend::local::{Privacy, RootDir};
use crate::checkout_record::CheckoutRecord;
use crate::host_fs;

/// Where this host keeps things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseFolders {
    /// Memories of the person: global, and projects kept outside their checkouts.
    pub data: PathBuf,
    /// The state database, lock files, and the memories of workspaces.
    pub state: PathBuf,
}

impl BaseFolders {
    /// Makes the folder of the state, for the person alone, which the state itself does not. Where that
    /// cannot be, whatever has to be kept says so by itself.
    pub fn create_state_folder(&self) {
        if let Err(error) = create_private_folder(&self.state) {
            // Who may only read has chosen so.
            tracing::debug!(%error, "the folder of the state cannot be made");
        }
    }

    /// Returns the lock of this name, which processes take for work that one of them may do at a time. The name has
    /// letters, digits, `.`, `_` and `-`.
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

/// Where a checkout keeps its memories, below its top folder.
pub(crate) const PROJECT_FOLDER: [&str; 2] = [".lukasa", "memory"];

/// Where a project's memories lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProjectRoot {
    /// In the checkout, at `.lukasa/memory`; they travel with the repository.
    #[default]
    Repo,
    /// On this host, beside the global ones; all worktrees of a repository share them.
    Host,
}

/// The longest workspace id, in characters: it is a folder's name.
const WORKSPACE_ID_CHARS_MAX: usize = 64;

/// The name of a workspace: letters, digits, `.`, `_` and `-`, not beginning with a dot.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WorkspaceId(String);

/// A text that is no workspace id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a workspace id is 1 to {WORKSPACE_ID_CHARS_MAX} letters, digits, `.`, `_` or `-`, and does \
     not begin with a dot"
)]
pub struct InvalidWorkspaceId;

impl FromStr for WorkspaceId {
    type Err = InvalidWorkspaceId;

    fn from_str(text: &str) -> Result<Self, InvalidWorkspaceId> {
        let well_formed = (1..=WORKSPACE_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
            && !text.starts_with('.');
        if well_formed { Ok(Self(text.to_owned())) } else { Err(InvalidWorkspaceId) }
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
    /// The workspace of the checkout that the project lies in: each worktree has one of its own. Outside a
    /// checkout there is none.
    Checkout,
    /// The workspace of this id.
    Id(WorkspaceId),
}

/// What a host says about where it works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingRequest {
    /// The checkout, or any folder in it.
    pub project_dir: Option<PathBuf>,
    /// Why there is no project, as the end of a sentence, where more is known than that none was named.
    pub no_project: Option<String>,
    /// Where the project's memories lie.
    pub project_root: ProjectRoot,
    /// The workspace.
    pub workspace: WorkspaceChoice,
    /// One folder to mount instead of the scopes.
    pub flat: Option<PathBuf>,
    /// Whether nobody may write through this binding.
    pub read_only: bool,
}

/// A project on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// Its top folder, without links.
    pub root: PathBuf,
    /// Whose project it is: a readable name and a digest, the same for all worktrees.
    pub identity: String,
}

impl Checkout {
    /// Finds the checkout that `start` lies in, by walking up to a `.git` folder or file.
    pub fn find(start: &Path) -> Option<Self> {
        let start = host_fs::real_path(start).ok()?;
        let root = start
            .ancestors()
            .find(|folder| host_fs::symlink_metadata(&folder.join(".git")).is_some())?;
        let main = main_checkout(root).unwrap_or_else(|| root.to_owned());
        Some(Self { root: root.to_owned(), identity: project_key(&main) })
    }

    /// Returns the id of the workspace of this checkout: a readable name and a digest of its real path, so
    /// that every process that runs there finds the same one.
    pub fn workspace(&self) -> WorkspaceId {
        WorkspaceId(project_key(&self.root))
    }
}

/// Returns the repository that a linked worktree belongs to, if `root` is one and the repository
/// knows it. A folder that merely claims to be somebody's worktree is a project of its own.
fn main_checkout(root: &Path) -> Option<PathBuf> {
    let git_file = root.join(".git");
    let claim = host_fs::read_small_file(&git_file)?;
    let git_dir = host_fs::real_path(&root.join(claim.strip_prefix("gitdir:")?.trim())).ok()?;
    let back = host_fs::read_small_file(git_dir.join("gitdir"))?;
    let known = host_fs::real_path(&git_dir.join(back.trim())).ok()?;
    if known != host_fs::real_path(&git_file).ok()? {
        return None;
    }
    let common = host_fs::read_small_file(git_dir.join("commondir"))?;
    let common = host_fs::real_path(&git_dir.join(common.trim())).ok()?;
    // The repository keeps what it knows of its worktrees itself; a folder elsewhere that says the
    // same is somebody's claim.
    if git_dir.parent() != Some(&common.join("worktrees")) {
        return None;
    }
    if common.file_name().is_some_and(|name| name == ".git") {
        return common.parent().map(Path::to_owned);
    }
    Some(common)
}

/// Returns the other checkouts of the repository that `root` is a checkout of: the main one and the
/// linked worktrees that the repository names.
pub(crate) fn other_checkouts(root: &Path) -> Vec<PathBuf> {
    let main = main_checkout(root).unwrap_or_else(|| root.to_owned());
    let in_main = main.join(".git");
    // A bare repository keeps its worktrees in itself.
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

/// How many characters of a folder's name its key shows.
const SLUG_CHARS_MAX: usize = 40;

/// Returns a readable name for a folder and twelve hex digits that tell it from all others.
fn project_key(folder: &Path) -> String {
    format!("{}-{}", folder_slug(folder, "project"), digest(folder))
}

/// Returns the name of a folder as a part of file names and ids: ASCII letters, digits, `.`, `_` and `-`,
/// at most 40 of them, the first neither `.` nor `-`; `otherwise` where nothing is left.
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

/// Returns twelve hex digits that tell a path from all others.
pub(crate) fn digest(path: &Path) -> String {
    Revision::digest(path.as_os_str().as_encoded_bytes()).to_string().chars().take(12).collect()
}

/// What is known about one root before it is opened.
#[derive(Debug)]
pub(crate) struct RootSpec {
    pub(crate) key: RootKey,
    pub(crate) root_dir: RootDir,
    /// Whether Lukasa keeps a generated `MEMORY.md` there if it is asked to.
    pub(crate) may_generate_list: bool,
    /// The record of the checkout that a workspace belongs to.
    pub(crate) checkout: Option<CheckoutRecord>,
}

/// One mount of a binding.
#[derive(Debug)]
pub(crate) struct MountSpec {
    pub(crate) mount: Mount,
    /// The root, or why there is none.
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
    /// Works out the roots. Reads what git says about a checkout, and makes nothing.
    pub fn resolve(request: &BindingRequest, folders: &BaseFolders) -> Self {
        let (layout, mounts) = if let Some(folder) = &request.flat {
            (Layout::Flat, vec![flat(folder)])
        } else {
            let checkout = request.project_dir.as_deref().and_then(Checkout::find);
            let why = request.no_project.as_deref();
            let workspace = workspace(&request.workspace, checkout.as_ref(), why, folders);
            let project = project(request.project_root, checkout, why, folders);
            (Layout::Scoped, vec![global(folders), project, workspace])
        };
        let mounts = dedup_roots(mounts);
        Self { layout, mounts, read_only: request.read_only }
    }
}

/// Makes a later mount unavailable whose root is that of an earlier one: it would wait for itself.
fn dedup_roots(mounts: Vec<MountSpec>) -> Vec<MountSpec> {
    let mut places = HashSet::new();
    let check = |mut plan: MountSpec| {
        if plan.root.as_ref().is_ok_and(|root| !places.insert(root.key.place.clone())) {
            plan.root = Err("its folder is that of another scope".to_owned());
        }
        plan
    };
    mounts.into_iter().map(check).collect()
}

fn root_spec(identity: String, anchor: RootDir, may_have_list: bool) -> RootSpec {
    // A root that does not exist yet has the place that it will have; what is above it is resolved
    // as far as it exists, so that two ways to one folder are one place.
    // The names that a checkout could have made links of are left as they are: a link to another
    // root must not lead to that one's history.
    let place = digest(&anchor.resolved_base(resolve_links));
    RootSpec {
        key: RootKey { identity, place },
        root_dir: anchor,
        may_generate_list: may_have_list,
        checkout: None,
    }
}

/// Returns `path` without links as far as it exists.
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

fn global(folders: &BaseFolders) -> MountSpec {
    let anchor = RootDir::new(folders.data.clone(), &["memory"], Privacy::Private);
    MountSpec {
        mount: Mount::Scope(Scope::Global),
        root: Ok(root_spec("global".to_owned(), anchor, true)),
    }
}

fn project(
    place: ProjectRoot,
    checkout: Option<Checkout>,
    why: Option<&str>,
    folders: &BaseFolders,
) -> MountSpec {
    let mount = Mount::Scope(Scope::Project);
    let Some(checkout) = checkout else {
        let why = why.unwrap_or("no project is associated with this session").to_owned();
        return MountSpec { mount, root: Err(why) };
    };
    let identity = format!("project:{}", checkout.identity);
    let (anchor, may_have_list) = match place {
        ProjectRoot::Repo => (RootDir::new(checkout.root, &PROJECT_FOLDER, Privacy::Shared), false),
        ProjectRoot::Host => {
            let names = ["projects", &checkout.identity, "memory"];
            (RootDir::new(folders.data.clone(), &names, Privacy::Private), true)
        }
    };
    MountSpec { mount, root: Ok(root_spec(identity, anchor, may_have_list)) }
}

fn workspace(
    choice: &WorkspaceChoice,
    checkout: Option<&Checkout>,
    no_project: Option<&str>,
    folders: &BaseFolders,
) -> MountSpec {
    let mount = Mount::Scope(Scope::Workspace);
    let (id, of) = match choice {
        WorkspaceChoice::Id(id) => (Some(id.clone()), None),
        WorkspaceChoice::Checkout => (checkout.map(Checkout::workspace), checkout),
        WorkspaceChoice::None => (None, None),
    };
    let Some(id) = id else {
        let why = no_project.filter(|_| *choice == WorkspaceChoice::Checkout);
        let why = why.unwrap_or("no workspace is associated with this session").to_owned();
        return MountSpec { mount, root: Err(why) };
    };
    let names = ["workspaces", &id.0, "memory"];
    let anchor = RootDir::new(folders.state.clone(), &names, Privacy::Private);
    let checkout = of.map(|of| CheckoutRecord::new(folders.workspace(&id), of.root.clone()));
    let root = root_spec(format!("workspace:{id}"), anchor, true);
    MountSpec { mount, root: Ok(RootSpec { checkout, ..root }) }
}

fn flat(folder: &Path) -> MountSpec {
    let mount = Mount::Flat;
    let whole = resolve_parent_links(folder);
    let (Some(base), Some(name)) = (whole.parent(), whole.file_name().and_then(|n| n.to_str()))
    else {
        let why = "the folder to mount has no name that can be used".to_owned();
        return MountSpec { mount, root: Err(why) };
    };
    let anchor = RootDir::new(base.to_owned(), &[name], Privacy::Shared);
    let identity = format!("flat:{}", project_key(&whole));
    MountSpec { mount, root: Ok(root_spec(identity, anchor, false)) }
}

/// Resolves what leads to a folder, but not the folder itself: that one may not be a link.
fn resolve_parent_links(folder: &Path) -> PathBuf {
    match (folder.parent(), folder.file_name()) {
        (Some(parent), Some(name)) => resolve_links(parent).join(name),
        // `.`, `..` and the like: there is a folder, by another name.
        _ => resolve_links(folder),
    }
}

#[cfg(test)]
mod tests;
