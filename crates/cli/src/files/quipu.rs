//! The layout of a Quipu home or checkout, for the import. Quipu is the earlier name of this product.
//!
//! Only a home that the environment names is accepted: `QUIPU_HOME`, or a default folder of Quipu. A cloned repository
//! could contain a folder of the same layout, with a forged database that calls its texts trusted and pinned.

use std::fs;
use std::path::{Path, PathBuf};

use store::Checkout;

/// The folder of the product in a checkout, and in a person's home folder.
const FOLDER: &str = ".quipu";

/// The name of the database.
const DATABASE: &str = "quipu.db";

/// The folder of memories in a root.
const MEMORY: &str = "memory";

/// The longest path of a checkout that a workspace names, in bytes.
const CHECKOUT_PATH_BYTES_MAX: u64 = 4_096;

/// A Quipu home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuipuHome {
    /// The global memories, and projects that were kept outside of their checkouts.
    pub(crate) data: PathBuf,
    /// The database, and the memories of workspaces.
    pub(crate) state: PathBuf,
    /// The settings, and the person's own context files.
    pub(crate) config: PathBuf,
}

impl QuipuHome {
    /// Returns the home that has everything in one folder.
    pub(crate) fn in_one(folder: PathBuf) -> Self {
        Self { state: folder.join("state"), config: folder.clone(), data: folder }
    }

    /// Returns its database.
    pub(crate) fn database(&self) -> PathBuf {
        self.state.join(DATABASE)
    }
}

/// The scope that the memories of a folder belonged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QuipuScope {
    /// The global one.
    Global,
    /// A project that was kept in the home, by its key.
    Project(String),
    /// The project of a checkout.
    Checkout(PathBuf),
    /// A workspace, by its id, and the checkout that it belonged to.
    Workspace(String, Option<PathBuf>),
}

impl QuipuScope {
    /// Returns the name that the database has for it; `None` for a folder that is no checkout of git.
    pub(crate) fn identity(&self) -> Option<String> {
        match self {
            Self::Global => Some("global".to_owned()),
            Self::Project(key) => Some(format!("project:{key}")),
            Self::Checkout(folder) => {
                Checkout::find(folder).map(|found| format!("project:{}", found.identity))
            }
            Self::Workspace(id, _) => Some(format!("workspace:{id}")),
        }
    }
}

/// A folder of memories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuipuRoot {
    /// The folder.
    pub(crate) folder: PathBuf,
    /// Prefix of its file names in messages.
    pub(crate) shown: String,
    /// Whose memories these are.
    pub(crate) scope: QuipuScope,
}

/// The kind and content of an import path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuipuSource {
    /// The home that recorded pins, usage and trust, if there is one.
    pub(crate) home: Option<QuipuHome>,
    /// Whether the path is the home, with all that is in it.
    pub(crate) is_home: bool,
    /// The folders of memories, the main one first.
    pub(crate) roots: Vec<QuipuRoot>,
}

/// Finds the Quipu home or checkout of a path: the path itself, one of its memory folders, or a folder that contains
/// `.quipu`. `known` are the homes that the environment names, most likely first.
pub(crate) fn find(path: &Path, known: &[QuipuHome]) -> Option<QuipuSource> {
    let real = fs::canonicalize(path).ok()?;
    let known: Vec<_> = known.iter().map(with_real_paths).collect();
    if let Some(home) = home_at(&real, &known) {
        return Some(whole(home));
    }
    let inner = real.join(FOLDER);
    if let Some(home) = home_at(&inner, &known) {
        return Some(whole(home));
    }
    if let Some(part) = part_of_home(&real, &known) {
        return Some(part);
    }
    let checkout = checkout_at(&real)?;
    let root = QuipuRoot {
        folder: checkout.join(FOLDER).join(MEMORY),
        shown: format!("{FOLDER}/{MEMORY}"),
        scope: QuipuScope::Checkout(checkout),
    };
    let home = known.into_iter().find(|home| home.database().is_file());
    Some(QuipuSource { home, is_home: false, roots: vec![root] })
}

/// Returns the checkout that a path is, or whose `.quipu` or `.quipu/memory` it is. A folder that only contains `.quipu`
/// has to be a git checkout: else it may be any folder of notes.
fn checkout_at(path: &Path) -> Option<PathBuf> {
    let inner = path.join(FOLDER);
    let found = if path.ends_with(FOLDER) {
        path
    } else if path.ends_with(Path::new(FOLDER).join(MEMORY)) {
        path.parent()?
    } else {
        fs::symlink_metadata(path.join(".git")).ok()?;
        &inner
    };
    let has_memories = is_folder(found) && is_folder(&found.join(MEMORY));
    found.parent().filter(|_| has_memories).map(Path::to_owned)
}

/// Checks whether a path belongs to Quipu by its name or content: it is in or below a folder `.quipu`, or has Quipu's
/// database. Such a path is never imported as a plain folder, which would bypass the reviews.
pub(crate) fn belongs_to_quipu(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let is_below = |path: &Path| path.components().any(|part| part.as_os_str() == FOLDER);
    let databases = [real.join(DATABASE), real.join("state").join(DATABASE)];
    is_below(path) || is_below(&real) || databases.iter().any(|file| file.is_file())
}

/// Returns the folder of Quipu in the checkout that a folder lies in, if memories are in it.
pub(crate) fn folder_in_checkout(folder: &Path) -> Option<PathBuf> {
    let found = Checkout::find(folder)?.root.join(FOLDER);
    is_folder(&found.join(MEMORY)).then_some(found)
}

/// Checks whether a path is a folder. A link to a folder is not: Quipu followed none there either, and a clone could
/// lead an import to files elsewhere.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir())
}

fn with_real_paths(home: &QuipuHome) -> QuipuHome {
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    QuipuHome { data: real(&home.data), state: real(&home.state), config: real(&home.config) }
}

/// Returns the known home whose memories, or whose state, are directly in a folder.
fn home_at(folder: &Path, known: &[QuipuHome]) -> Option<QuipuHome> {
    let is_it = |home: &&QuipuHome| home.data == folder || home.state == folder;
    let has_any = |home: &&QuipuHome| home.database().is_file() || home.data.join(MEMORY).is_dir();
    known.iter().filter(is_it).find(has_any).cloned()
}

/// Returns the single root of a home that a path is, with or without its last part `memory`.
fn part_of_home(path: &Path, known: &[QuipuHome]) -> Option<QuipuSource> {
    let above = path.parent().filter(|_| path.ends_with(MEMORY));
    if let Some(home) = above.and_then(|above| home_at(above, known)) {
        return Some(part(home.clone(), global(&home)));
    }
    let root = above.unwrap_or(path);
    let (name, kind) = (root.file_name()?.to_str()?, root.parent()?);
    let (base, is_workspace) = match kind.file_name()?.to_str()? {
        "workspaces" => (kind.parent()?, true),
        "projects" => (kind.parent()?, false),
        _ => return None,
    };
    let home = home_at(base, known)?;
    let found = if is_workspace { workspace(&home, name) } else { project(&home, name) };
    is_folder(&found.folder).then(|| part(home, found))
}

fn part(home: QuipuHome, root: QuipuRoot) -> QuipuSource {
    QuipuSource { home: Some(home), is_home: false, roots: vec![root] }
}

fn whole(home: QuipuHome) -> QuipuSource {
    let projects = names_of(&home.data.join("projects"));
    let workspaces = names_of(&home.state.join("workspaces"));
    let projects = projects.iter().map(|key| project(&home, key));
    let workspaces = workspaces.iter().map(|id| workspace(&home, id));
    let all = std::iter::once(global(&home)).chain(projects).chain(workspaces);
    let roots = all.filter(|root| is_folder(&root.folder)).collect();
    QuipuSource { home: Some(home), is_home: true, roots }
}

fn global(home: &QuipuHome) -> QuipuRoot {
    let folder = home.data.join(MEMORY);
    QuipuRoot { folder, shown: MEMORY.to_owned(), scope: QuipuScope::Global }
}

fn project(home: &QuipuHome, key: &str) -> QuipuRoot {
    QuipuRoot {
        folder: home.data.join("projects").join(key).join(MEMORY),
        shown: format!("projects/{key}/{MEMORY}"),
        scope: QuipuScope::Project(key.to_owned()),
    }
}

fn workspace(home: &QuipuHome, id: &str) -> QuipuRoot {
    let folder = home.state.join("workspaces").join(id);
    let checkout = read_path(&folder.join("checkout"));
    QuipuRoot {
        folder: folder.join(MEMORY),
        shown: format!("state/workspaces/{id}/{MEMORY}"),
        scope: QuipuScope::Workspace(id.to_owned(), checkout),
    }
}

/// Returns the names in a folder, in order; none if it cannot be read.
fn names_of(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

fn read_path(file: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt as _;
    let facts = fs::symlink_metadata(file).ok()?;
    if !facts.is_file() || facts.len() > CHECKOUT_PATH_BYTES_MAX {
        return None;
    }
    let bytes = fs::read(file).ok().filter(|bytes| !bytes.is_empty())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Returns the folders that the person trusted in a home.
pub(crate) fn trusted_folders(home: &QuipuHome) -> Vec<String> {
    let list = home.state.join("trust").join("folders.txt");
    let Ok(text) = fs::read_to_string(list) else { return Vec::new() };
    text.lines().filter(|line| line.starts_with('/')).map(str::to_owned).collect()
}
