//! Loading of the context files for a folder, with all their imports.
//!
//! Two rules decide what is read. Trust: no file in an untrusted folder is read, whatever asks for
//! it. Containment: the real path of an import must be below the folders that its file may import
//! from. A file that is not loaded is reported with its reason, and never fails the rest.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
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
use super::{ContextFiles, ContextProject, ContextScope};
use crate::backend::local::{Privacy, RootDir};
use crate::backend::{BackendError, FileKind, Stat};
use crate::binding::resolve_links;
use crate::host_fs;
use crate::remote_folder::RemoteFolder;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextFileSet {
    /// All texts: context files and what they import.
    pub sources: Vec<LoadedText>,
    /// Origin of each source, in the same order.
    pub origins: Vec<SourceOrigin>,
    /// Indexes of the sources that are context files, in the order in which they are shown.
    pub files: Vec<usize>,
    /// Files that are not loaded.
    pub skipped: Vec<SkippedContextSource>,
    /// Whether the files of the project are missing because its machine is out of reach.
    pub is_incomplete: bool,
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
        let project = self.project.local().map(|project| project.top.clone());
        let trusted = match self.options.trusted {
            None => trusted,
            Some(true) => trusted.into_iter().chain(project).collect(),
            Some(false) => Vec::new(),
        };
        let files = self.clone();
        let loaded = match tokio::task::spawn_blocking(move || files.load_now(&trusted)).await {
            Ok(loaded) => loaded,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is shutting down.
                Err(_) => Arc::default(),
            },
        };
        match &self.project {
            ContextProject::Remote(remote) => {
                Arc::new(self.with_remote_files(&loaded, &**remote).await)
            }
            ContextProject::None | ContextProject::Local(_) => loaded,
        }
    }

    /// Returns the loaded files together with those of the project on another machine.
    async fn with_remote_files(
        &self,
        loaded: &ContextFileSet,
        remote: &dyn RemoteProjectFiles,
    ) -> ContextFileSet {
        let request = ProjectLoad {
            names: self.names().iter().map(ToString::to_string).collect(),
            project_folders: self.settings.project_folders.clone(),
            host_loaded: self.host_loaded.clone(),
            trusted: self.trusted_at(remote).await,
            files_max: CONTEXT_FILES_MAX - loaded.sources.len(),
            bytes_max: loaded.text_bytes_left(),
        };
        match remote.load(&request).await {
            Ok(of_project) => loaded.with_project(of_project),
            Err(error) => {
                tracing::debug!(%error, "the context files of a remote project are missing");
                ContextFileSet { is_incomplete: true, ..loaded.clone() }
            }
        }
    }

    /// Returns the folders that the person trusts on the machine of a project.
    async fn trusted_at(&self, remote: &dyn RemoteProjectFiles) -> Vec<RemoteFolder> {
        let folder = remote.folder();
        match self.options.trusted {
            Some(true) => return vec![folder.clone()],
            Some(false) => return Vec::new(),
            None => {}
        }
        let trusted = TrustedFolders::new(&self.folders).remotes().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "reading the list of trusted folders failed; no folder is trusted");
            Vec::new()
        });
        trusted.into_iter().filter(|trusted| trusted.host() == folder.host()).collect()
    }

    /// Loads the files of the project alone, for a client on another machine.
    pub(crate) fn load_project(&self, trusted: &[PathBuf], limits: LoadLimits) -> ContextFileSet {
        let requests = self.project_requests();
        self.loader(trusted, limits).load(requests).0
    }

    fn load_now(&self, trusted: &[PathBuf]) -> Arc<ContextFileSet> {
        let requests = self.load_requests();
        let key = LoadCacheKey {
            project: self.project.local().map(|project| (project.top.clone(), project.cwd.clone())),
            locations: requests.iter().map(|request| request.location.path()).collect(),
            trusted: trusted.to_vec(),
            host_loaded: self.host_loaded.clone(),
        };
        if let Some(file_set) = self.cache.get_load(&key) {
            return file_set;
        }
        let (file_set, stats) = self.loader(trusted, LoadLimits::ALL).load(requests);
        let file_set = Arc::new(file_set);
        self.cache.insert_load(key, stats, &file_set);
        file_set
    }

    fn loader<'a>(&'a self, trusted: &'a [PathBuf], limits: LoadLimits) -> Loader<'a> {
        Loader {
            files: self,
            trusted,
            included: self.included().map(|folder| resolve_links(folder)).collect(),
            stats: StatSnapshot::default(),
            slots_by_path: HashMap::new(),
            real_folders: HashMap::new(),
            slots: Vec::new(),
            limits,
            skipped: Vec::new(),
        }
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
        requests.extend(self.project_requests());
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

    /// Returns the locations of possible context files in the project.
    fn project_requests(&self) -> Vec<LoadRequest> {
        let locations = self.candidate_locations().into_iter();
        let of_project = locations.filter(|location| location.scope == ContextScope::Project);
        of_project.map(|location| LoadRequest { scope: LoadScope::Project, location }).collect()
    }
}

impl ContextFileSet {
    /// Returns the number of bytes that other texts may have.
    fn text_bytes_left(&self) -> usize {
        let bytes = self.sources.iter().map(|source| source.text.len()).sum();
        CONTEXT_BYTES_MAX.saturating_sub(bytes)
    }

    /// Returns these files together with those of a project, which follow the person's own.
    fn with_project(&self, project: Self) -> Self {
        let mut all = self.clone();
        let offset = all.sources.len();
        let move_index = |index: &mut usize| *index += offset;
        all.sources.extend(project.sources.into_iter().map(|mut source| {
            for import in &mut source.imports {
                if let ImportResolution::Replaced(index) = &mut import.resolution {
                    move_index(index);
                }
            }
            source
        }));
        all.origins.extend(project.origins.into_iter().map(|mut origin| {
            origin.parent.iter_mut().for_each(move_index);
            origin
        }));
        let scope_of = |index: usize| all.origins.get(index).map(|origin| origin.scope);
        let (mut files, after): (Vec<_>, Vec<_>) =
            all.files.iter().partition(|&&index| scope_of(index) == Some(LoadScope::Global));
        files.extend(project.files.into_iter().map(|index| index + offset));
        files.extend(after);
        all.skipped.extend(project.skipped);
        let mut texts = HashSet::new();
        files.retain(|&index| {
            let is_new = all.sources.get(index).is_some_and(|source| texts.insert(&source.text));
            if !is_new && let Some(origin) = all.origins.get(index) {
                let (path, reason) = (origin.path.clone(), LoadSkipReason::SameText);
                all.skipped.push(SkippedContextSource { path, parent: None, reason });
            }
            is_new
        });
        Self { files, ..all }
    }
}

/// Loads the context files of a project on another machine.
#[async_trait]
pub trait RemoteProjectFiles: Debug + Send + Sync {
    /// Returns the folder of the project.
    fn folder(&self) -> &RemoteFolder;

    /// Loads the files of the project there.
    async fn load(&self, load: &ProjectLoad) -> Result<ContextFileSet, BackendError>;
}

/// The files of a project to be loaded on its machine.
#[derive(Clone, Debug)]
pub struct ProjectLoad {
    /// The file names.
    pub(crate) names: Vec<String>,
    /// Names of folders of other products.
    pub(crate) project_folders: Vec<String>,
    /// Names of files that the host itself loads.
    pub(crate) host_loaded: Vec<String>,
    /// The trusted folders on that machine.
    pub(crate) trusted: Vec<RemoteFolder>,
    /// Limits of the load.
    pub(crate) files_max: usize,
    pub(crate) bytes_max: usize,
}

/// The most that a load may read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadLimits {
    /// Maximum number of files.
    pub(crate) files: usize,
    /// Maximum number of bytes.
    pub(crate) bytes: usize,
}

impl LoadLimits {
    pub(crate) const ALL: Self = Self { files: CONTEXT_FILES_MAX, bytes: CONTEXT_BYTES_MAX };
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
    /// The number of files, and the number of bytes that are left.
    limits: LoadLimits,
    skipped: Vec<SkippedContextSource>,
}

impl Loader<'_> {
    /// Loads the files and their imports. Returns also which paths were looked at.
    fn load(mut self, requests: Vec<LoadRequest>) -> (ContextFileSet, StatSnapshot) {
        let files = self.files(requests);
        self.imports();
        let Loader { files: context, stats, slots, skipped, .. } = self;
        (assemble(context, slots, files, skipped), stats)
    }

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
        if self.slots.len() >= self.limits.files {
            return Err(LoadSkipReason::TooMany);
        }
        self.limits.bytes = self.limits.bytes.checked_sub(bytes).ok_or(LoadSkipReason::TooMuch)?;
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
    context: &ContextFiles,
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
        let shown = shown_path(context, &origin.path).display().to_string();
        loaded.sources.push(LoadedText { display_path: shown, text, imports });
        loaded.origins.push(origin);
    }
    ContextFileSet { skipped, ..loaded }
}

/// Returns the path of a file as it is shown to a model: relative to the folder that the model works in, or to the home
/// folder.
fn shown_path(context: &ContextFiles, path: &Path) -> PathBuf {
    if let Some(project) = context.project.local() {
        return relative_path(&project.cwd, path);
    }
    let home = context.settings.home.as_deref();
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) => Path::new("~").join(below),
        None => path.to_owned(),
    }
}

/// Returns the relative path from a folder to a file, both without links.
pub(crate) fn relative_path(from: &Path, to: &Path) -> PathBuf {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| Component::ParentDir.as_os_str());
    up.chain(to.iter().skip(shared)).collect()
}
