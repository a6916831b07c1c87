//! The path from a trusted base folder to a root, and from a root to the folder of a memory. Every
//! step below the base is opened without following links.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use cap_fs_ext::DirExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder};
use memory::path::RelativePath;

use crate::backend::BackendError;
use crate::os;

/// Access rights of the files that Lukasa creates in a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privacy {
    /// Only for the person: folders 0700, files 0600.
    Private,
    /// For all that the checkout is for: the umask of the process decides.
    Shared,
}

/// The location of a root: a base folder that a person chose, and the names below it. The base may be reached
/// through links; the names may not be links.
#[derive(Debug)]
pub struct RootDir {
    base: PathBuf,
    names: Vec<String>,
    privacy: Privacy,
}

impl RootDir {
    /// Returns the location `names` below `base`.
    pub fn new(base: PathBuf, names: &[&str], privacy: Privacy) -> Self {
        Self { base, names: names.iter().map(|&name| name.to_owned()).collect(), privacy }
    }

    /// Returns the path of the root, for people.
    pub fn path(&self) -> PathBuf {
        join_names(&self.base, self.names.iter().map(String::as_str))
    }

    /// Returns the path of the root with its base resolved by `resolve`. The names below the base are unchanged.
    pub(crate) fn resolved_base(&self, resolve: impl Fn(&Path) -> PathBuf) -> PathBuf {
        join_names(&resolve(&self.base), self.names.iter().map(String::as_str))
    }

    /// Returns the access rights of new files.
    pub(super) const fn privacy(&self) -> Privacy {
        self.privacy
    }

    /// Opens the root; `None` if it does not exist.
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

    /// Opens the folders from the base to the parent of the root, outermost first, as far as they exist.
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

    /// Opens the root, and creates it if it does not exist.
    pub(super) fn open_or_create(&self) -> Result<Dir, BackendError> {
        if let Some(root) = self.open()? {
            return Ok(root);
        }
        self.create_base()?;
        // A missing base is a fault of the setup, not a missing memory.
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
        // The base of a shared root is a checkout, or a folder that a person named: it must exist.
        if self.privacy == Privacy::Shared {
            return Ok(());
        }
        state::private_files::create_private_folder(&self.base)
            .map_err(|error| BackendError::from_write("make the folder of a root", error))
    }

    /// Opens the parent folder of `path`; `None` if it does not exist.
    pub(super) fn open_parent(&self, path: &RelativePath) -> Result<Option<Dir>, BackendError> {
        let Some(root) = self.open()? else { return Ok(None) };
        descend(root, path.parent().as_ref())
    }

    /// Opens the folder at `path`, or the root for `None`. Returns `None` if it does not exist.
    pub(super) fn open_folder(
        &self,
        path: Option<&RelativePath>,
    ) -> Result<Option<Dir>, BackendError> {
        let Some(root) = self.open()? else { return Ok(None) };
        descend(root, path)
    }

    /// Opens the parent folder of `path`, and creates missing folders. Returns the created ones, outermost first.
    pub(super) fn create_parent(
        &self,
        path: &RelativePath,
    ) -> Result<(Dir, Vec<(Dir, String)>), BackendError> {
        let mut folder = self.open_or_create()?;
        let mut created = Vec::new();
        let Some(parent) = path.parent() else { return Ok((folder, created)) };
        for name in parent.segments() {
            let (next, is_new) = open_or_create_child(&folder, name, self.privacy)?;
            if is_new {
                created.push((folder, name.to_owned()));
            }
            folder = next;
        }
        Ok((folder, created))
    }
}

/// Joins names to the path of a folder.
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

/// Opens a folder below an open one; `None` if it does not exist.
pub(super) fn descend(root: Dir, path: Option<&RelativePath>) -> Result<Option<Dir>, BackendError> {
    let mut folder = root;
    for name in path.iter().flat_map(|path| path.segments()) {
        match open_child(&folder, name)? {
            Some(next) => folder = next,
            None => return Ok(None),
        }
    }
    Ok(Some(folder))
}

/// Opens a folder in another one. Refuses a link, whatever its target.
pub(super) fn open_child(folder: &Dir, name: &str) -> Result<Option<Dir>, BackendError> {
    match folder.open_dir_nofollow(name) {
        Ok(next) => Ok(Some(next)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => match folder.symlink_metadata(name) {
            Ok(metadata) if metadata.is_symlink() => Err(BackendError::Escapes(name.to_owned())),
            Ok(metadata) if !metadata.is_dir() => Err(BackendError::WrongKind),
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
        os::private_folder(&mut builder);
    }
    match folder.create_dir_with(OsStr::new(name), &builder) {
        Ok(()) => {}
        // Another process created it in the meantime; it is used if it is a folder.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(BackendError::from_write("make a folder", error)),
    }
    let next = open_child(folder, name)?.ok_or(BackendError::NotFound)?;
    Ok((next, true))
}
