//! The way from a folder that is trusted to a root, and from a root to a memory's folder.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt as _};
use memory::path::RelativePath;

use crate::backend::BackendError;

/// Who may read what Lukasa makes in a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// The person alone: folders 0700, files 0600.
    Private,
    /// Whoever the checkout lets in: the process's umask decides.
    Shared,
}

/// Where a root is: a folder whose path a person chose, and the names below it that lead to the
/// root. The folder may be reached through links, the names below it may not be links.
#[derive(Debug)]
pub struct RootDir {
    base: PathBuf,
    names: Vec<String>,
    privacy: Privacy,
}

impl RootDir {
    /// Returns the root at `names` below `base`.
    pub fn new(base: PathBuf, names: &[&str], privacy: Privacy) -> Self {
        Self { base, names: names.iter().map(|&name| name.to_owned()).collect(), privacy }
    }

    /// Returns the root's path, for people.
    pub fn path(&self) -> PathBuf {
        join_names(&self.base, self.names.iter().map(String::as_str))
    }

    /// Returns the root's path with the folder that a person chose resolved by `resolve`, and the
    /// names below it as they are.
    pub(crate) fn resolved_base(&self, resolve: impl Fn(&Path) -> PathBuf) -> PathBuf {
        join_names(&resolve(&self.base), self.names.iter().map(String::as_str))
    }

    /// Returns who may read what is made here.
    pub(super) const fn privacy(&self) -> Privacy {
        self.privacy
    }

    /// Opens the root; `None` when it does not exist.
    pub(super) fn open(&self) -> Result<Option<Dir>, BackendError> {
        let base = match Dir::open_ambient_dir(&self.base, ambient_authority()) {
            Ok(base) => base,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BackendError::from_io("open the folder of a root", error)),
        };
        let mut folder = base;
        for name in &self.names {
            match open_child(&folder, name)? {
                Some(next) => folder = next,
                None => return Ok(None),
            }
        }
        Ok(Some(folder))
    }

    /// Opens every folder that holds a name on the way to the root, outermost first, as far as they
    /// exist.
    pub(super) fn open_ancestors(&self) -> Result<Vec<Dir>, BackendError> {
        let mut chain = Vec::with_capacity(self.names.len());
        let Ok(mut folder) = Dir::open_ambient_dir(&self.base, ambient_authority()) else {
            return Ok(chain);
        };
        for name in &self.names {
            let Some(next) = open_child(&folder, name)? else {
                chain.push(folder);
                break;
            };
            chain.push(std::mem::replace(&mut folder, next));
        }
        Ok(chain)
    }

    /// Opens the root and makes it first where it does not exist.
    pub(super) fn open_or_create(&self) -> Result<Dir, BackendError> {
        if let Some(root) = self.open()? {
            return Ok(root);
        }
        self.create_base()?;
        // Not finding this folder is a fault of the set-up, not an answer to a caller.
        let mut folder =
            Dir::open_ambient_dir(&self.base, ambient_authority()).map_err(|source| {
                BackendError::Io { doing: "open the folder that the root lies in", source }
            })?;
        for name in &self.names {
            folder = open_or_create_child(&folder, name, self.privacy)?.0;
        }
        Ok(folder)
    }

    fn create_base(&self) -> Result<(), BackendError> {
        // A shared root lies in a checkout or a folder that somebody named: that one must exist.
        if self.privacy == Privacy::Shared {
            return Ok(());
        }
        state::private_files::create_private_folder(&self.base)
            .map_err(|error| BackendError::from_write("make the folder of a root", error))
    }

    /// Opens the folder that `path` lies in; `None` when it does not exist.
    pub(super) fn open_parent(&self, path: &RelativePath) -> Result<Option<Dir>, BackendError> {
        let Some(root) = self.open()? else { return Ok(None) };
        descend(root, path.parent().as_ref())
    }

    /// Opens the folder at `path` (the root when `None`); `None` when it does not exist.
    pub(super) fn open_folder(
        &self,
        path: Option<&RelativePath>,
    ) -> Result<Option<Dir>, BackendError> {
        let Some(root) = self.open()? else { return Ok(None) };
        descend(root, path)
    }

    /// Opens the folder that `path` lies in, making what is missing, and returns the names of the
    /// folders that it made, outermost first.
    pub(super) fn create_parent(
        &self,
        path: &RelativePath,
    ) -> Result<(Dir, Vec<(Dir, String)>), BackendError> {
        let mut folder = self.open_or_create()?;
        let mut made = Vec::new();
        let Some(parent) = path.parent() else { return Ok((folder, made)) };
        for name in parent.segments() {
            let (next, new) = open_or_create_child(&folder, name, self.privacy)?;
            if new {
                made.push((folder, name.to_owned()));
            }
            folder = next;
        }
        Ok((folder, made))
    }
}

/// Returns the path that these names lead to from a folder.
pub(crate) fn join_names<'a>(
    folder: &Path,
    names: impl Iterator<Item = &'a str> + Clone,
) -> PathBuf {
    let bytes: usize = names.clone().map(|name| name.len() + 1).sum();
    let mut path = PathBuf::with_capacity(folder.as_os_str().len() + bytes);
    path.push(folder);
    path.extend(names);
    path
}

fn descend(root: Dir, path: Option<&RelativePath>) -> Result<Option<Dir>, BackendError> {
    let mut folder = root;
    for name in path.iter().flat_map(|path| path.segments()) {
        match open_child(&folder, name)? {
            Some(next) => folder = next,
            None => return Ok(None),
        }
    }
    Ok(Some(folder))
}

/// Opens one folder below another; a link is refused, whatever it leads to.
pub(super) fn open_child(folder: &Dir, name: &str) -> Result<Option<Dir>, BackendError> {
    match folder.open_dir_nofollow(name) {
        Ok(next) => Ok(Some(next)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => match folder.symlink_metadata(name) {
            Ok(facts) if facts.is_symlink() => Err(BackendError::Escapes(name.to_owned())),
            Ok(facts) if !facts.is_dir() => Err(BackendError::WrongKind),
            _ => Err(BackendError::from_io("open a folder", error)),
        },
    }
}

fn open_or_create_child(
    folder: &Dir,
    name: &str,
    privacy: Privacy,
) -> Result<(Dir, bool), BackendError> {
    if let Some(next) = open_child(folder, name)? {
        return Ok((next, false));
    }
    let mut builder = DirBuilder::new();
    if privacy == Privacy::Private {
        builder.mode(0o700);
    }
    match folder.create_dir_with(OsStr::new(name), &builder) {
        Ok(()) => {}
        // Somebody made it in the meantime: that one will do, if it is a folder.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(BackendError::from_write("make a folder", error)),
    }
    let next = open_child(folder, name)?.ok_or(BackendError::NotFound)?;
    Ok((next, true))
}
