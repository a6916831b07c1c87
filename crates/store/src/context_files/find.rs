//! Finds context files (`AGENTS.md` and the like): the candidate locations, the files that exist, and the file that a
//! write changes. It reads files and follows at most one link; it never writes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::document::Revision;
use memory::limits::{CONTEXT_FILE_BYTES_MAX, CONTEXT_FILES_MAX};
use memory::path::RelativePath;

use super::{
    ContextFile, ContextFileError, ContextFiles, ContextListing, ContextProject, ContextScope,
    LocalProject, SkippedContextFile,
};
use crate::backend::local::{LocalBackend, Privacy, RootDir, join_names};
use crate::backend::{Backend as _, BackendError, Stamp};
use crate::binding::{BaseFolders, digest, resolve_links};
use crate::host_fs;

/// Lukasa's folder in a project.
const LUKASA_FOLDER: &str = ".lukasa";

/// The location of a context file: `base`, `folders`, file name. After [`follow_link`], the real one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContextFileLocation {
    pub(super) scope: ContextScope,
    pub(super) base: PathBuf,
    pub(super) folders: Arc<[String]>,
    pub(super) file: RelativePath,
}

/// The text of a context file, with its stamp.
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

    /// Returns the folder as a root directory.
    pub(super) fn root_dir(&self, privacy: Privacy) -> RootDir {
        let names: Vec<_> = self.folders.iter().map(String::as_str).collect();
        RootDir::new(self.base.clone(), &names, privacy)
    }

    /// Returns a backend for the folder. It has a lock of its own, so no root is locked.
    pub(super) fn backend(&self, folders: &BaseFolders) -> LocalBackend {
        let privacy = match self.scope {
            ContextScope::Global => Privacy::Private,
            ContextScope::Project => Privacy::Shared,
        };
        let root_dir = self.root_dir(privacy);
        let lock = folders.lock_path(&format!("context-{}", digest(&self.folder())));
        LocalBackend::new(root_dir, lock)
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

    /// Follows the file if it is a link. The target must be a Markdown file below `base` that is not hidden, so
    /// that a checkout cannot redirect writes elsewhere.
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
    /// Lists the existing context files in load order. First the person's, then those at the top of the project, in
    /// its `.lukasa` folder and in its folders of other products. Last those of each folder down to the working
    /// folder. No other folder is searched.
    pub async fn list(&self) -> ContextListing {
        let mut listing = ContextListing::default();
        let (mut paths, mut texts) = (HashSet::new(), HashSet::new());
        for location in self.candidate_locations() {
            let link_path = location.path();
            let location = match location.follow_link() {
                Ok(location) => location,
                Err(reason) => {
                    listing.skipped.push(SkippedContextFile { path: link_path, error: reason });
                    continue;
                }
            };
            let path = location.path();
            if !paths.insert(path.clone()) {
                continue;
            }
            match location.read(&location.backend(&self.folders)).await {
                Ok(None) => {}
                Ok(Some(ContextFileSnapshot { text, .. })) => {
                    let revision = Revision::digest(text.as_bytes());
                    if text.is_empty() || texts.insert(revision) {
                        let bytes = u64::try_from(text.len()).expect("a length fits 64 bits");
                        listing.files.push(ContextFile {
                            path,
                            scope: location.scope,
                            bytes,
                            revision,
                        });
                    }
                }
                Err(reason) => listing.skipped.push(SkippedContextFile { path, error: reason }),
            }
        }
        listing
    }

    /// Returns the file that a write changes in a scope: the first existing one of the names, else the new file.
    pub fn target(&self, scope: ContextScope) -> Result<PathBuf, ContextFileError> {
        self.target_location(scope).map(|location| location.path())
    }

    pub(super) fn target_location(
        &self,
        scope: ContextScope,
    ) -> Result<ContextFileLocation, ContextFileError> {
        let base = match scope {
            ContextScope::Global => resolve_links(&self.settings.folder),
            ContextScope::Project => match &self.project {
                ContextProject::Local(project) => project.top.clone(),
                ContextProject::None => {
                    return Err(ContextFileError::NoProject("there is no project here"));
                }
                ContextProject::Remote(_) => {
                    return Err(ContextFileError::NoProject(
                        "the instruction files of a project on another machine are not written from here; edit them there",
                    ));
                }
            },
        };
        let (names, new_name) = self.names_to_write(scope);
        let exists =
            |name: &RelativePath| host_fs::symlink_metadata(&base.join(name.as_str())).is_some();
        let file = names.into_iter().find(exists).or(new_name);
        let file = file.ok_or(ContextFileError::ReadOnly(scope))?;
        ContextFileLocation { scope, base, folders: Arc::default(), file }.follow_link()
    }

    pub(super) fn candidate_locations(&self) -> Vec<ContextFileLocation> {
        let names = self.names();
        let in_folder = |scope, base: PathBuf, folders: &[String]| {
            let folders: Arc<[String]> = folders.into();
            let location = move |file: &RelativePath| ContextFileLocation {
                scope,
                base: base.clone(),
                folders: Arc::clone(&folders),
                file: file.clone(),
            };
            names.iter().map(location).collect::<Vec<_>>()
        };
        let mut locations =
            in_folder(ContextScope::Global, resolve_links(&self.settings.folder), &[]);
        let Some(LocalProject { cwd, top }) = self.project.local() else { return locations };
        let project = |folders: &[String]| in_folder(ContextScope::Project, top.clone(), folders);
        locations.extend(project(&[]));
        locations.extend(project(&[LUKASA_FOLDER.to_owned()]));
        for folder in &self.settings.project_folders {
            locations.extend(project(std::slice::from_ref(folder)));
        }
        let mut folders = Vec::new();
        for name in cwd.strip_prefix(top).into_iter().flat_map(Path::iter) {
            // Folders below a name that is not UTF-8 have no valid name either.
            let Some(name) = name.to_str() else { break };
            folders.push(name.to_owned());
            locations.extend(project(&folders));
        }
        locations.truncate(CONTEXT_FILES_MAX);
        locations
    }
}
