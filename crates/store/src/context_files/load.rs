//! Loading of the context files for a folder, with all their imports.
//!
//! Two rules decide what is read. Trust: no file in an untrusted folder is read, whatever asks for
//! it. Containment: the real path of an import must be below the folders that its file may import
//! from. A file that is not loaded is reported with its reason, and never fails the rest.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use memory::context_file::{ImportRef, ImportResolution, LoadedText, ResolvedImport};
use memory::feature::Feature;
use memory::limits::{
    CONTEXT_BYTES_MAX, CONTEXT_FILE_BYTES_MAX, CONTEXT_FILES_MAX, IMPORT_DEPTH_MAX,
};

use super::find::ContextFileLocation;
use super::read::{
    LoadCacheKey, LoadSkipReason, ParsedFile, PathStat, ResolvedFile, StatSnapshot, read_all,
};
use super::trust::{TrustedFolders, is_trusted};
use super::{ContextFiles, ContextScope};
use crate::backend::local::{Privacy, RootDir};
use crate::backend::{FileKind, Stat};
use crate::binding::resolve_links;
use crate::host_fs;

/// The reason why a context file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadScope {
    /// It is the person's own file, for all projects.
    Global,
    /// It is a file of the project.
    Project,
    /// It is in a folder that a person listed.
    Included,
    /// A person, or an extension, named this file.
    Extension,
}

impl LoadScope {
    /// Returns the stable public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Included => "included",
            Self::Extension => "extension",
        }
    }
}

/// The origin of a loaded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOrigin {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason why it is loaded; for an import, the reason of the file that imports it.
    pub scope: LoadScope,
    /// Index of the first source that imports it; `None` for a context file itself.
    pub parent: Option<usize>,
}

/// A file that exists or is imported, and is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedContextSource {
    /// Its path, as far as known. For an import it may be the text as written.
    pub path: PathBuf,
    /// The file that imports it; `None` for a context file itself.
    pub parent: Option<PathBuf>,
    /// Reason why it is not loaded.
    pub reason: LoadSkipReason,
}

/// The context files for a folder, loaded.
#[derive(Debug, Default)]
pub struct ContextFileSet {
    /// All texts: context files and what they import.
    pub sources: Vec<LoadedText>,
    /// Origin of each source, in the same order.
    pub origins: Vec<SourceOrigin>,
    /// Indexes of the sources that are context files, in the order in which they are shown.
    pub files: Vec<usize>,
    /// Files that are not loaded.
    pub skipped: Vec<SkippedContextSource>,
}

impl ContextFiles {
    /// Loads the context files for the folder, with their imports. Never fails: a file that cannot be loaded is in
    /// `skipped`. If nothing changed since the last load, this costs one `stat` of each path.
    pub async fn load(&self) -> Arc<ContextFileSet> {
        if !self.features.has(Feature::ContextFiles) {
            return Arc::default();
        }
        let trusted = TrustedFolders::new(&self.folders).list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "reading the list of trusted folders failed; no folder is trusted");
            Vec::new()
        });
        let trusted = match self.options.trusted {
            None => trusted,
            Some(true) => trusted.into_iter().chain([self.project.clone()]).collect(),
            Some(false) => Vec::new(),
        };
        let files = self.clone();
        match tokio::task::spawn_blocking(move || files.load_now(&trusted)).await {
            Ok(loaded) => loaded,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is shutting down.
                Err(_) => Arc::default(),
            },
        }
    }

    fn load_now(&self, trusted: &[PathBuf]) -> Arc<ContextFileSet> {
        let requests = self.load_requests();
        let key = LoadCacheKey {
            project: self.project.clone(),
            cwd: self.cwd.clone(),
            locations: requests.iter().map(|request| request.location.path()).collect(),
            trusted: trusted.to_vec(),
            host_loaded: self.host_loaded.clone(),
        };
        if let Some(file_set) = self.cache.get_load(&key) {
            return file_set;
        }
        let mut loader = Loader {
            files: self,
            trusted,
            included: self.included().map(|folder| resolve_links(folder)).collect(),
            stats: StatSnapshot::default(),
            slots_by_path: HashMap::new(),
            real_folders: HashMap::new(),
            slots: Vec::new(),
            bytes_left: CONTEXT_BYTES_MAX,
            skipped: Vec::new(),
        };
        let files = loader.files(requests);
        loader.imports();
        let Loader { stats, slots, skipped, .. } = loader;
        let file_set = Arc::new(assemble(&self.cwd, slots, files, skipped));
        self.cache.insert_load(key, stats, &file_set);
        file_set
    }

    /// Returns the listed folders, of the settings and of this load.
    fn included(&self) -> impl Iterator<Item = &PathBuf> {
        self.settings.included.iter().chain(&self.options.included)
    }

    /// Returns the locations of possible context files, in load order.
    fn load_requests(&self) -> Vec<LoadRequest> {
        let names = self.names();
        let location = |base: &Path, file| ContextFileLocation {
            scope: ContextScope::Global,
            base: base.to_owned(),
            folders: Arc::default(),
            file,
        };
        let in_folder = |scope, folder: &PathBuf| {
            let base = resolve_links(folder);
            let request = |name| LoadRequest { scope, location: location(&base, name) };
            names.iter().cloned().map(request).collect::<Vec<_>>()
        };
        let settings = &self.settings;
        let global_requests = |folder| in_folder(LoadScope::Global, folder);
        let mut requests = global_requests(&settings.folder);
        requests.extend(settings.other_product_folders.iter().flat_map(global_requests));
        let project_locations = self
            .candidate_locations()
            .into_iter()
            .filter(|location| location.scope == ContextScope::Project);
        requests.extend(
            project_locations.map(|location| LoadRequest { scope: LoadScope::Project, location }),
        );
        let included = self.included();
        requests.extend(included.flat_map(|folder| in_folder(LoadScope::Included, folder)));
        for file in settings.files.iter().chain(&self.options.files) {
            let name = file.file_name().and_then(|name| name.to_str());
            let name = name.and_then(|name| memory::path::RelativePath::parse(name).ok());
            if let (Some(folder), Some(name)) = (file.parent(), name) {
                let location = location(&resolve_links(folder), name);
                requests.push(LoadRequest { scope: LoadScope::Extension, location });
            }
        }
        requests
    }
}

/// A possible context file, with the reason to load it.
struct LoadRequest {
    scope: LoadScope,
    location: ContextFileLocation,
}

/// A file that is loaded, or will be loaded.
struct Slot {
    file: ResolvedFile,
    origin: SourceOrigin,
    /// Folder that it may import from.
    base: Arc<Path>,
    depth: usize,
    text: Result<Arc<ParsedFile>, LoadSkipReason>,
    imports: Vec<ResolvedImport>,
}

/// A load in progress.
struct Loader<'a> {
    files: &'a ContextFiles,
    trusted: &'a [PathBuf],
    included: Vec<PathBuf>,
    stats: StatSnapshot,
    slots_by_path: HashMap<PathBuf, usize>,
    /// Real paths of folders that were imported from.
    real_folders: HashMap<PathBuf, PathBuf>,
    slots: Vec<Slot>,
    bytes_left: usize,
    skipped: Vec<SkippedContextSource>,
}

impl Loader<'_> {
    /// Finds and reads the context files. Returns their slots.
    fn files(&mut self, requests: Vec<LoadRequest>) -> Vec<usize> {
        let mut files = Vec::new();
        for LoadRequest { scope, location } in requests {
            let path = location.path();
            let Some(stat) = self.stats.stat(&path) else { continue };
            match self.file(scope, location, &path, stat) {
                Ok(slot) => files.push(slot),
                Err(reason) => {
                    self.skipped.push(SkippedContextSource { path, parent: None, reason });
                }
            }
        }
        self.read_from(0);
        let mut texts = HashSet::new();
        files.retain(|&index| {
            let Some(slot) = self.slots.get(index) else { return false };
            let reason = match &slot.text {
                Ok(text) if texts.insert(text.revision) => return true,
                Ok(_) => LoadSkipReason::SameText,
                Err(reason) => *reason,
            };
            let path = slot.origin.path.clone();
            self.skipped.push(SkippedContextSource { path, parent: None, reason });
            false
        });
        files
    }

    fn file(
        &mut self,
        scope: LoadScope,
        location: ContextFileLocation,
        path: &Path,
        stat: PathStat,
    ) -> Result<usize, LoadSkipReason> {
        let by_host = &self.files.host_loaded;
        if by_host.iter().any(|name| name == location.file.as_str()) {
            return Err(LoadSkipReason::LoadedByHost);
        }
        if scope == LoadScope::Project && !is_trusted(self.trusted, &location.folder()) {
            return Err(LoadSkipReason::Untrusted);
        }
        let base = Arc::from(location.base.as_path());
        let (location, path) = if stat.is_link {
            let location = location.follow_link().map_err(|_| LoadSkipReason::Link)?;
            let path = location.path();
            (location, path)
        } else {
            (location, path.to_owned())
        };
        if self.slots_by_path.contains_key(&path) {
            return Err(LoadSkipReason::SameFile);
        }
        if scope == LoadScope::Project && !is_trusted(self.trusted, &path) {
            return Err(LoadSkipReason::Untrusted);
        }
        let (folder, file) =
            (location.root_dir(Privacy::Shared), location.file.as_str().to_owned());
        let file = ResolvedFile { folder, file, path: path.clone(), stamp: stat.stat.stamp };
        let origin = SourceOrigin { path, scope, parent: None };
        self.admit(stat, (file, origin, base), 0)
    }

    /// Adds a file to the load, if the limits allow it. It is read later.
    fn admit(
        &mut self,
        PathStat { kind, stat, .. }: PathStat,
        (file, origin, base): (ResolvedFile, SourceOrigin, Arc<Path>),
        depth: usize,
    ) -> Result<usize, LoadSkipReason> {
        if kind != FileKind::File {
            return Err(LoadSkipReason::NotAFile);
        }
        let bytes = usize::try_from(stat.bytes).unwrap_or(usize::MAX);
        if bytes > CONTEXT_FILE_BYTES_MAX {
            return Err(LoadSkipReason::TooLarge);
        }
        if self.slots.len() == CONTEXT_FILES_MAX {
            return Err(LoadSkipReason::TooMany);
        }
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(LoadSkipReason::TooMuch)?;
        let slot = self.slots.len();
        self.slots_by_path.insert(file.path.clone(), slot);
        let text = Err(LoadSkipReason::Unreadable);
        self.slots.push(Slot { file, origin, base, depth, text, imports: Vec::new() });
        Ok(slot)
    }

    /// Reads the files from this slot on.
    fn read_from(&mut self, first: usize) {
        let unread = self.slots.get_mut(first..).unwrap_or_default();
        let files: Vec<_> = unread.iter().map(|slot| &slot.file).collect();
        let texts = read_all(&files, &self.files.cache);
        for (slot, text) in unread.iter_mut().zip(texts) {
            slot.text = text;
        }
    }

    /// Follows imports, breadth first.
    fn imports(&mut self) {
        let mut first = 0;
        while first < self.slots.len() {
            let end = self.slots.len();
            for slot in first..end {
                self.imports_of(slot);
            }
            self.read_from(end);
            first = end;
        }
    }

    fn imports_of(&mut self, index: usize) {
        let Some(slot) = self.slots.get(index) else { return };
        let Ok(text) = &slot.text else { return };
        let (text, importer) =
            (Arc::clone(text), (index, slot.origin.clone(), Arc::clone(&slot.base)));
        let path = &importer.1.path;
        let mut skip = |path: PathBuf, parent: &Path, reason| {
            self.skipped.push(SkippedContextSource {
                path,
                parent: Some(parent.to_owned()),
                reason,
            });
        };
        if text.has_more_imports {
            skip(path.clone(), path, LoadSkipReason::TooManyImports);
        }
        if slot.depth == IMPORT_DEPTH_MAX {
            if let Some(candidate) =
                text.imports.iter().find_map(|import| import.candidates.first())
            {
                skip(PathBuf::from(&candidate.path), path, LoadSkipReason::TooDeep);
            }
            return;
        }
        let imports =
            text.imports.iter().filter_map(|import| self.import(&importer, import)).collect();
        if let Some(slot) = self.slots.get_mut(index) {
            slot.imports = imports;
        }
    }

    /// Resolves an import. Returns `None` if there is no such file, since it may be an ordinary word.
    fn import(
        &mut self,
        (importer_index, importer, base): &(usize, SourceOrigin, Arc<Path>),
        import_ref: &ImportRef,
    ) -> Option<ResolvedImport> {
        for candidate in &import_ref.candidates {
            let import = |target| {
                Some(ResolvedImport {
                    range: candidate.range.clone(),
                    path: candidate.path.clone(),
                    resolution: target,
                })
            };
            if candidate.path.contains("://") {
                self.skip_import(importer, &candidate.path, LoadSkipReason::Url);
                return import(ImportResolution::Failed(LoadSkipReason::Url.to_string()));
            }
            let Some(path) = self.path_of(importer, &candidate.path) else { continue };
            let Some(stat) = self.stats.stat(&path).filter(|stat| stat.kind != FileKind::Folder)
            else {
                continue;
            };
            return import(match self.admit_import(*importer_index, &path, base, stat) {
                Ok(slot) => ImportResolution::Replaced(slot),
                Err(reason) => {
                    self.skip_import(importer, &candidate.path, reason);
                    ImportResolution::Failed(reason.to_string())
                }
            });
        }
        let last = import_ref.candidates.last()?;
        // A single word after an at sign is most often a person's name.
        if import_ref.is_explicit || last.path.contains(['/', '.']) {
            self.skip_import(importer, &last.path, LoadSkipReason::Missing);
        }
        None
    }

    fn skip_import(&mut self, importer: &SourceOrigin, path: &str, reason: LoadSkipReason) {
        let parent = Some(importer.path.clone());
        self.skipped.push(SkippedContextSource { path: PathBuf::from(path), parent, reason });
    }

    fn path_of(&self, importer: &SourceOrigin, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(below) => Some(self.files.settings.home.as_ref()?.join(below)),
            None => Some(importer.path.parent()?.join(path)),
        }
    }

    /// Returns the real path of a file. Imports lie in few folders, so each folder is resolved once. If a folder
    /// becomes a link after that, its files are not read.
    fn real_path(&mut self, path: &Path, stat: PathStat) -> io::Result<PathBuf> {
        let (Some(folder), Some(name), false) = (path.parent(), path.file_name(), stat.is_link)
        else {
            return host_fs::real_path(path);
        };
        if let Some(real) = self.real_folders.get(folder) {
            return Ok(real.join(name));
        }
        let real = host_fs::real_path(folder)?;
        let path = real.join(name);
        self.real_folders.insert(folder.to_owned(), real);
        Ok(path)
    }

    /// Adds an imported file to the load, if trust and containment allow it.
    fn admit_import(
        &mut self,
        importer: usize,
        path: &Path,
        base: &Arc<Path>,
        stat: PathStat,
    ) -> Result<usize, LoadSkipReason> {
        let real = self.real_path(path, stat).map_err(|_| LoadSkipReason::Unreadable)?;
        let Some(slot) = self.slots.get(importer) else { return Err(LoadSkipReason::Unreadable) };
        let (scope, depth) = (slot.origin.scope, slot.depth + 1);
        let roots = std::iter::once(&**base).chain(self.included.iter().map(PathBuf::as_path));
        let mut roots = roots.filter(|root| real.starts_with(root));
        let root = roots.next().ok_or(LoadSkipReason::Outside)?;
        let is_listed = self.included.iter().any(|folder| folder == root);
        if scope == LoadScope::Project && !is_listed && !is_trusted(self.trusted, &real) {
            return Err(LoadSkipReason::Untrusted);
        }
        let importer_folder =
            slot.origin.path.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let file = locate(root, &real, importer_folder, stat.stat)?;
        if let Some(&slot) = self.slots_by_path.get(&real) {
            return Ok(slot);
        }
        let origin = SourceOrigin { path: real, scope, parent: Some(importer) };
        self.admit(stat, (file, origin, Arc::clone(base)), depth)
    }
}

/// Splits the path of a file below `root` into folders and name. Refuses hidden files, files in hidden folders, and
/// git's own: they may hold keys. A file in a hidden folder, such as `.qwen/QWEN.md`, may import files beside it;
/// `importer_folder` is its folder below `root`.
fn locate(
    root: &Path,
    real: &Path,
    importer_folder: Option<&Path>,
    stat: Stat,
) -> Result<ResolvedFile, LoadSkipReason> {
    let below = real.strip_prefix(root).map_err(|_| LoadSkipReason::Outside)?;
    let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
    let mut folders = names.ok_or(LoadSkipReason::NotText)?;
    let file = folders.pop().ok_or(LoadSkipReason::NotAFile)?;
    let shared = importer_folder.map_or(0, |importer_folder| {
        let pairs = importer_folder.iter().zip(&folders);
        pairs.take_while(|(own, other)| own.to_str() == Some(**other)).count()
    });
    let is_hidden = |name: &&str| name.starts_with('.');
    if is_hidden(&file) || folders.contains(&".git") || folders.iter().skip(shared).any(is_hidden) {
        return Err(LoadSkipReason::Hidden);
    }
    let folder = RootDir::new(root.to_owned(), &folders, Privacy::Shared);
    Ok(ResolvedFile { folder, file: file.to_owned(), path: real.to_owned(), stamp: stat.stamp })
}

/// Assembles the result. An import whose file could not be read has failed.
fn assemble(
    cwd: &Path,
    slots: Vec<Slot>,
    files: Vec<usize>,
    mut skipped: Vec<SkippedContextSource>,
) -> ContextFileSet {
    let failures: HashMap<usize, LoadSkipReason> = slots
        .iter()
        .enumerate()
        .filter_map(|(index, slot)| Some((index, *slot.text.as_ref().err()?)))
        .collect();
    let mut loaded = ContextFileSet { files, ..ContextFileSet::default() };
    for Slot { origin, text, mut imports, .. } in slots {
        for import in &mut imports {
            let ImportResolution::Replaced(target) = import.resolution else { continue };
            if let Some(reason) = failures.get(&target) {
                let (path, parent) = (PathBuf::from(&import.path), Some(origin.path.clone()));
                skipped.push(SkippedContextSource { path, parent, reason: *reason });
                import.resolution = ImportResolution::Failed(reason.to_string());
            }
        }
        let text = text.map_or_else(|_| Arc::from(""), |text| Arc::clone(&text.text));
        let shown = relative_path(cwd, &origin.path).display().to_string();
        loaded.sources.push(LoadedText { display_path: shown, text, imports });
        loaded.origins.push(origin);
    }
    ContextFileSet { skipped, ..loaded }
}

/// Returns the relative path from a folder to a file, both without links.
fn relative_path(from: &Path, to: &Path) -> PathBuf {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| Component::ParentDir.as_os_str());
    up.chain(to.iter().skip(shared)).collect()
}
