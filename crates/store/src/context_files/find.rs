//! Which context files there are, and where each of them really is.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::document::Revision;
use memory::limits::{CONTEXT_FILE_BYTES_MAX, CONTEXT_FILES_MAX};
use memory::path::RelativePath;

use super::{
    ContextFile, ContextFileError, ContextFiles, ContextListing, ContextScope, SkippedContextFile,
};
use crate::backend::local::{LocalBackend, Privacy, RootDir, join_names};
use crate::backend::{Backend as _, BackendError, Stamp};
use crate::binding::{BaseFolders, digest, resolve_links};
use crate::host_fs;

/// The folder in a project that is Lukasa's.
const LUKASA_FOLDER: &str = ".lukasa";

/// Where a context file really is: links are followed to here and no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContextFileLocation {
    pub(super) scope: ContextScope,
    pub(super) base: PathBuf,
    pub(super) folders: Arc<[String]>,
    pub(super) file: RelativePath,
}

/// A context file as read.
#[derive(Debug)]
pub(super) struct ContextFileSnapshot {
    pub(super) text: String,
    pub(super) stamp: Stamp,
}

impl ContextFileLocation {
    pub(super) fn folder(&self) -> PathBuf {
        join_names(&self.base, self.folders.iter().map(String::as_str))
    }

    pub(super) fn path(&self) -> PathBuf {
        let folders = self.folders.iter().map(String::as_str);
        join_names(&self.base, folders.chain([self.file.as_str()]))
    }

    /// Returns the way to the folder.
    pub(super) fn root_dir(&self, privacy: Privacy) -> RootDir {
        let names: Vec<_> = self.folders.iter().map(String::as_str).collect();
        RootDir::new(self.base.clone(), &names, privacy)
    }

    /// Returns what reads and writes in the folder. The lock is its own: no root is held by it.
    pub(super) fn backend(&self, folders: &BaseFolders) -> LocalBackend {
        let privacy = match self.scope {
            ContextScope::Global => Privacy::Private,
            ContextScope::Project => Privacy::Shared,
        };
        let anchor = self.root_dir(privacy);
        let lock = folders.lock_path(&format!("context-{}", digest(&self.folder())));
        LocalBackend::new(anchor, lock)
    }

    /// Reads the file; `None` if there is none.
    pub(super) async fn read(
        &self,
        backend: &LocalBackend,
    ) -> Result<Option<ContextFileSnapshot>, ContextFileError> {
        let path = self.path();
        let read = match backend.read(&self.file, CONTEXT_FILE_BYTES_MAX).await {
            Ok(read) => read,
            Err(BackendError::NotFound) => return Ok(None),
            Err(error) => return Err(ContextFileError::backend_error(path)(error)),
        };
        if !read.is_whole() {
            return Err(ContextFileError::TooLarge(path));
        }
        match String::from_utf8(read.bytes) {
            Ok(text) if !text.contains('\0') => {
                Ok(Some(ContextFileSnapshot { text, stamp: read.stat.stamp }))
            }
            _ => Err(ContextFileError::NotText(path)),
        }
    }

    /// Follows the file if it is a link: to a Markdown file below `base` that is not hidden. A checkout must
    /// not have us write into whatever it likes.
    pub(super) fn follow_link(self) -> Result<Self, ContextFileError> {
        let path = self.path();
        if !host_fs::symlink_metadata(&path).is_some_and(|facts| facts.is_symlink()) {
            return Ok(self);
        }
        let real = host_fs::real_path(&path).ok();
        let inside = real.as_deref().and_then(|real| real.strip_prefix(&self.base).ok());
        let inside = inside.and_then(Path::to_str).and_then(|text| RelativePath::parse(text).ok());
        let is_markdown = |inside: &RelativePath| {
            Path::new(inside.file_name()).extension().is_some_and(|ending| ending == "md")
        };
        let Some(inside) = inside.filter(is_markdown) else {
            return Err(ContextFileError::Escapes(path));
        };
        let folders = inside.parent();
        let folders = folders.iter().flat_map(RelativePath::segments).map(str::to_owned).collect();
        let file = RelativePath::parse(inside.file_name());
        let file = file.map_err(|_| ContextFileError::Escapes(path))?;
        Ok(Self { folders, file, ..self })
    }
}

impl ContextFiles {
    /// Returns the context files that there are: the person's, those at the top of the project and in its
    /// `.lukasa` folder, in the folders there that other products have, then those of each folder down to
    /// where somebody works. Looks into no other folder.
    pub async fn list(&self) -> ContextListing {
        let mut listing = ContextListing::default();
        let (mut places, mut texts) = (HashSet::new(), HashSet::new());
        for spot in self.candidate_locations() {
            let named = spot.path();
            let spot = match spot.follow_link() {
                Ok(spot) => spot,
                Err(why) => {
                    listing.skipped.push(SkippedContextFile { path: named, error: why });
                    continue;
                }
            };
            let path = spot.path();
            if !places.insert(path.clone()) {
                continue;
            }
            match spot.read(&spot.backend(&self.folders)).await {
                Ok(None) => {}
                Ok(Some(ContextFileSnapshot { text, .. })) => {
                    let revision = Revision::digest(text.as_bytes());
                    if text.is_empty() || texts.insert(revision) {
                        let bytes = u64::try_from(text.len()).expect("a length fits 64 bits");
                        listing.files.push(ContextFile {
                            path,
                            scope: spot.scope,
                            bytes,
                            revision,
                        });
                    }
                }
                Err(why) => listing.skipped.push(SkippedContextFile { path, error: why }),
            }
        }
        listing
    }

    /// Returns the file that is written for a scope: the first of the names that is there, else the one that is made.
    pub fn target(&self, scope: ContextScope) -> Result<PathBuf, ContextFileError> {
        self.target_location(scope).map(|spot| spot.path())
    }

    pub(super) fn target_location(
        &self,
        scope: ContextScope,
    ) -> Result<ContextFileLocation, ContextFileError> {
        let base = match scope {
            ContextScope::Global => resolve_links(&self.settings.folder),
            ContextScope::Project => self.project.clone(),
        };
        let (names, made) = self.names_to_write(scope);
        let is_there =
            |name: &RelativePath| host_fs::symlink_metadata(&base.join(name.as_str())).is_some();
        let file = names.into_iter().find(is_there).or(made);
        let file = file.ok_or(ContextFileError::ReadOnly(scope))?;
        ContextFileLocation { scope, base, folders: Arc::default(), file }.follow_link()
    }

    pub(super) fn candidate_locations(&self) -> Vec<ContextFileLocation> {
        let names = self.names();
        let in_folder = |scope, base: PathBuf, folders: &[String]| {
            let folders: Arc<[String]> = folders.into();
            let spot = move |file: &RelativePath| ContextFileLocation {
                scope,
                base: base.clone(),
                folders: Arc::clone(&folders),
                file: file.clone(),
            };
            names.iter().map(spot).collect::<Vec<_>>()
        };
        let mut spots = in_folder(ContextScope::Global, resolve_links(&self.settings.folder), &[]);
        let project =
            |folders: &[String]| in_folder(ContextScope::Project, self.project.clone(), folders);
        spots.extend(project(&[]));
        spots.extend(project(&[LUKASA_FOLDER.to_owned()]));
        for folder in &self.settings.project_folders {
            spots.extend(project(std::slice::from_ref(folder)));
        }
        let mut folders = Vec::new();
        for name in self.cwd.strip_prefix(&self.project).into_iter().flat_map(Path::iter) {
            // What is below a name that is no text is reached by names that are none either.
            let Some(name) = name.to_str() else { break };
            folders.push(name.to_owned());
            spots.extend(project(&folders));
        }
        spots.truncate(CONTEXT_FILES_MAX);
        spots
    }
}
