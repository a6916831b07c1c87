//! Loading the context files for a folder, with everything that they import.
//!
//! Two things decide what is read. Trust: of a folder that nobody trusts nothing is, whatever asks for it.
//! Containment: an import may lead, by its real path, below the folders that its file may import from, and
//! nowhere else. What is not loaded is reported with its reason; it never fails the rest.

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

/// Why a context file is among those that are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadScope {
    /// It is the person's own, in all projects.
    Global,
    /// It is the project's.
    Project,
    /// It is in a folder that a person listed.
    Included,
    /// A person, or an extension, named the file itself.
    Extension,
}

impl LoadScope {
    /// Returns the public word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
            Self::Included => "included",
            Self::Extension => "extension",
        }
    }
}

/// Where a source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOrigin {
    /// Where it is.
    pub path: PathBuf,
    /// Why it is loaded; of an import, why the file that imports it is.
    pub scope: LoadScope,
    /// The source that imports it first; `None` for a context file itself.
    pub parent: Option<usize>,
}

/// What is there, or asked for, and is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedContextSource {
    /// Where it is, as far as that is known; of an import, also how it is written.
    pub path: PathBuf,
    /// The file that asks for it; `None` for a context file itself.
    pub parent: Option<PathBuf>,
    /// Why.
    pub reason: LoadSkipReason,
}

/// The context files for a folder, loaded.
#[derive(Debug, Default)]
pub struct ContextFileSet {
    /// All texts: context files and what they import.
    pub sources: Vec<LoadedText>,
    /// Where each of them comes from.
    pub origins: Vec<SourceOrigin>,
    /// Which of them are context files, in the order in which they are shown.
    pub files: Vec<usize>,
    /// What is not loaded.
    pub skipped: Vec<SkippedContextSource>,
}

impl ContextFiles {
    /// Loads the context files for the folder, with their imports. Never fails: what cannot be loaded is
    /// among what was skipped. If nothing changed since it was loaded before, this is one look at each file.
    pub async fn load(&self) -> Arc<ContextFileSet> {
        if !self.features.has(Feature::ContextFiles) {
            return Arc::default();
        }
        let trusted = TrustedFolders::new(&self.folders).list().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "the list of trusted folders cannot be read; none is trusted");
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
            Err(died) => match died.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The program is shutting down.
                Err(_) => Arc::default(),
            },
        }
    }

    fn load_now(&self, trusted: &[PathBuf]) -> Arc<ContextFileSet> {
        let wanted = self.load_requests();
        let question = LoadCacheKey {
            project: self.project.clone(),
            cwd: self.cwd.clone(),
            locations: wanted.iter().map(|wanted| wanted.location.path()).collect(),
            trusted: trusted.to_vec(),
            host_loaded: self.host_loaded.clone(),
        };
        if let Some(loaded) = self.cache.get_load(&question) {
            return loaded;
        }
        let mut loading = Loader {
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
        let files = loading.files(wanted);
        loading.imports();
        let Loader { stats: probes, slots, skipped, .. } = loading;
        let loaded = Arc::new(assemble(&self.cwd, slots, files, skipped));
        self.cache.insert_load(question, probes, &loaded);
        loaded
    }

    /// Returns the folders that were listed, for all loads or for this one.
    fn included(&self) -> impl Iterator<Item = &PathBuf> {
        self.settings.included.iter().chain(&self.options.included)
    }

    /// Returns where context files are looked for, in the order of their load.
    fn load_requests(&self) -> Vec<LoadRequest> {
        let names = self.names();
        let spot = |base: &Path, file| ContextFileLocation {
            scope: ContextScope::Global,
            base: base.to_owned(),
            folders: Arc::default(),
            file,
        };
        let in_folder = |scope, folder: &PathBuf| {
            let base = resolve_links(folder);
            let wanted = |name| LoadRequest { scope, location: spot(&base, name) };
            names.iter().cloned().map(wanted).collect::<Vec<_>>()
        };
        let settings = &self.settings;
        let own = |folder| in_folder(LoadScope::Global, folder);
        let mut wanted = own(&settings.folder);
        wanted.extend(settings.other_product_folders.iter().flat_map(own));
        let of_project = self
            .candidate_locations()
            .into_iter()
            .filter(|spot| spot.scope == ContextScope::Project);
        wanted.extend(
            of_project.map(|spot| LoadRequest { scope: LoadScope::Project, location: spot }),
        );
        let included = self.included();
        wanted.extend(included.flat_map(|folder| in_folder(LoadScope::Included, folder)));
        for file in settings.files.iter().chain(&self.options.files) {
            let name = file.file_name().and_then(|name| name.to_str());
            let name = name.and_then(|name| memory::path::RelativePath::parse(name).ok());
            if let (Some(folder), Some(name)) = (file.parent(), name) {
                let spot = spot(&resolve_links(folder), name);
                wanted.push(LoadRequest { scope: LoadScope::Extension, location: spot });
            }
        }
        wanted
    }
}

/// A place where a context file may be.
struct LoadRequest {
    scope: LoadScope,
    location: ContextFileLocation,
}

/// A file that is loaded, or will be.
struct Slot {
    file: ResolvedFile,
    origin: SourceOrigin,
    /// The folder that it may import from.
    base: Arc<Path>,
    depth: usize,
    text: Result<Arc<ParsedFile>, LoadSkipReason>,
    imports: Vec<ResolvedImport>,
}

/// A load under way.
struct Loader<'a> {
    files: &'a ContextFiles,
    trusted: &'a [PathBuf],
    included: Vec<PathBuf>,
    stats: StatSnapshot,
    slots_by_path: HashMap<PathBuf, usize>,
    /// Folders that were imported from, and where they really are.
    real_folders: HashMap<PathBuf, PathBuf>,
    slots: Vec<Slot>,
    bytes_left: usize,
    skipped: Vec<SkippedContextSource>,
}

impl Loader<'_> {
    /// Finds and reads the context files; returns which they are.
    fn files(&mut self, wanted: Vec<LoadRequest>) -> Vec<usize> {
        let mut files = Vec::new();
        for LoadRequest { scope, location: spot } in wanted {
            let path = spot.path();
            let Some(found) = self.stats.stat(&path) else { continue };
            match self.file(scope, spot, &path, found) {
                Ok(slot) => files.push(slot),
                Err(why) => {
                    self.skipped.push(SkippedContextSource { path, parent: None, reason: why });
                }
            }
        }
        self.read_from(0);
        let mut texts = HashSet::new();
        files.retain(|&at| {
            let Some(slot) = self.slots.get(at) else { return false };
            let why = match &slot.text {
                Ok(text) if texts.insert(text.revision) => return true,
                Ok(_) => LoadSkipReason::SameText,
                Err(why) => *why,
            };
            let path = slot.origin.path.clone();
            self.skipped.push(SkippedContextSource { path, parent: None, reason: why });
            false
        });
        files
    }

    fn file(
        &mut self,
        scope: LoadScope,
        spot: ContextFileLocation,
        path: &Path,
        found: PathStat,
    ) -> Result<usize, LoadSkipReason> {
        let by_host = &self.files.host_loaded;
        if by_host.iter().any(|name| name == spot.file.as_str()) {
            return Err(LoadSkipReason::LoadedByHost);
        }
        if scope == LoadScope::Project && !is_trusted(self.trusted, &spot.folder()) {
            return Err(LoadSkipReason::Untrusted);
        }
        let base = Arc::from(spot.base.as_path());
        let (spot, path) = if found.is_link {
            let spot = spot.follow_link().map_err(|_| LoadSkipReason::Link)?;
            let path = spot.path();
            (spot, path)
        } else {
            (spot, path.to_owned())
        };
        if self.slots_by_path.contains_key(&path) {
            return Err(LoadSkipReason::SameFile);
        }
        if scope == LoadScope::Project && !is_trusted(self.trusted, &path) {
            return Err(LoadSkipReason::Untrusted);
        }
        let (folder, file) = (spot.root_dir(Privacy::Shared), spot.file.as_str().to_owned());
        let place = ResolvedFile { folder, file, path: path.clone(), stamp: found.stat.stamp };
        let origin = SourceOrigin { path, scope, parent: None };
        self.admit(found, (place, origin, base), 0)
    }

    /// Takes a file in, to be read, if there is room for it.
    fn admit(
        &mut self,
        PathStat { kind, stat, .. }: PathStat,
        (place, origin, base): (ResolvedFile, SourceOrigin, Arc<Path>),
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
        self.slots_by_path.insert(place.path.clone(), slot);
        let text = Err(LoadSkipReason::Unreadable);
        self.slots.push(Slot { file: place, origin, base, depth, text, imports: Vec::new() });
        Ok(slot)
    }

    /// Reads the files that were taken in from this one on.
    fn read_from(&mut self, first: usize) {
        let waiting = self.slots.get_mut(first..).unwrap_or_default();
        let places: Vec<_> = waiting.iter().map(|slot| &slot.file).collect();
        let texts = read_all(&places, &self.files.cache);
        for (slot, text) in waiting.iter_mut().zip(texts) {
            slot.text = text;
        }
    }

    /// Follows imports, from the files that are there to those that they lead to, and so on.
    fn imports(&mut self) {
        let mut first = 0;
        while first < self.slots.len() {
            let end = self.slots.len();
            for at in first..end {
                self.imports_of(at);
            }
            self.read_from(end);
            first = end;
        }
    }

    fn imports_of(&mut self, at: usize) {
        let Some(slot) = self.slots.get(at) else { return };
        let Ok(text) = &slot.text else { return };
        let (text, importer) =
            (Arc::clone(text), (at, slot.origin.clone(), Arc::clone(&slot.base)));
        let path = &importer.1.path;
        let mut skip = |path: PathBuf, parent: &Path, why| {
            self.skipped.push(SkippedContextSource {
                path,
                parent: Some(parent.to_owned()),
                reason: why,
            });
        };
        if text.has_more_imports {
            skip(path.clone(), path, LoadSkipReason::TooManyImports);
        }
        if slot.depth == IMPORT_DEPTH_MAX {
            if let Some(reading) = text.imports.iter().find_map(|asked| asked.candidates.first()) {
                skip(PathBuf::from(&reading.path), path, LoadSkipReason::TooDeep);
            }
            return;
        }
        let imports =
            text.imports.iter().filter_map(|asked| self.import(&importer, asked)).collect();
        if let Some(slot) = self.slots.get_mut(at) {
            slot.imports = imports;
        }
    }

    /// Finds what an import leads to; `None` if there is no such file, so that it may be any word.
    fn import(
        &mut self,
        (at, importer, base): &(usize, SourceOrigin, Arc<Path>),
        asked: &ImportRef,
    ) -> Option<ResolvedImport> {
        for reading in &asked.candidates {
            let import = |target| {
                Some(ResolvedImport {
                    range: reading.range.clone(),
                    path: reading.path.clone(),
                    resolution: target,
                })
            };
            if reading.path.contains("://") {
                self.skip_import(importer, &reading.path, LoadSkipReason::Url);
                return import(ImportResolution::Failed(LoadSkipReason::Url.to_string()));
            }
            let Some(path) = self.path_of(importer, &reading.path) else { continue };
            let Some(found) = self.stats.stat(&path).filter(|found| found.kind != FileKind::Folder)
            else {
                continue;
            };
            return import(match self.admit_import(*at, &path, base, found) {
                Ok(slot) => ImportResolution::Replaced(slot),
                Err(why) => {
                    self.skip_import(importer, &reading.path, why);
                    ImportResolution::Failed(why.to_string())
                }
            });
        }
        let last = asked.candidates.last()?;
        // A lone word after an at sign is most often somebody's name.
        if asked.is_explicit || last.path.contains(['/', '.']) {
            self.skip_import(importer, &last.path, LoadSkipReason::Missing);
        }
        None
    }

    fn skip_import(&mut self, importer: &SourceOrigin, path: &str, why: LoadSkipReason) {
        let parent = Some(importer.path.clone());
        self.skipped.push(SkippedContextSource { path: PathBuf::from(path), parent, reason: why });
    }

    fn path_of(&self, importer: &SourceOrigin, path: &str) -> Option<PathBuf> {
        match path.strip_prefix("~/") {
            Some(below) => Some(self.files.settings.home.as_ref()?.join(below)),
            None => Some(importer.path.parent()?.join(path)),
        }
    }

    /// Returns the real path of what was found. Imports lie in few folders, so each of these is resolved once: should
    /// one become a link meanwhile, its files are not read.
    fn real_path(&mut self, path: &Path, found: PathStat) -> io::Result<PathBuf> {
        let (Some(folder), Some(name), false) = (path.parent(), path.file_name(), found.is_link)
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

    /// Takes an imported file in, if it is where it may be.
    fn admit_import(
        &mut self,
        importer: usize,
        path: &Path,
        base: &Arc<Path>,
        found: PathStat,
    ) -> Result<usize, LoadSkipReason> {
        let real = self.real_path(path, found).map_err(|_| LoadSkipReason::Unreadable)?;
        let Some(slot) = self.slots.get(importer) else { return Err(LoadSkipReason::Unreadable) };
        let (scope, depth) = (slot.origin.scope, slot.depth + 1);
        let roots = std::iter::once(&**base).chain(self.included.iter().map(PathBuf::as_path));
        let mut roots = roots.filter(|root| real.starts_with(root));
        let root = roots.next().ok_or(LoadSkipReason::Outside)?;
        let is_listed = self.included.iter().any(|folder| folder == root);
        if scope == LoadScope::Project && !is_listed && !is_trusted(self.trusted, &real) {
            return Err(LoadSkipReason::Untrusted);
        }
        let by = slot.origin.path.parent().and_then(|folder| folder.strip_prefix(root).ok());
        let place = locate(root, &real, by, found.stat)?;
        if let Some(&slot) = self.slots_by_path.get(&real) {
            return Ok(slot);
        }
        let origin = SourceOrigin { path: real, scope, parent: Some(importer) };
        self.admit(found, (place, origin, Arc::clone(base)), depth)
    }
}

/// Returns the way from a folder to a file below it. What is hidden, by its own name or by that of a folder on the way,
/// and what git keeps, are no texts for a model: keys lie there. A file that lies in such a folder itself, such as
/// `.qwen/QWEN.md`, may import what lies beside it; `by` is its folder, below `root`.
fn locate(
    root: &Path,
    real: &Path,
    by: Option<&Path>,
    stat: Stat,
) -> Result<ResolvedFile, LoadSkipReason> {
    let below = real.strip_prefix(root).map_err(|_| LoadSkipReason::Outside)?;
    let names: Option<Vec<&str>> = below.iter().map(|name| name.to_str()).collect();
    let mut folders = names.ok_or(LoadSkipReason::NotText)?;
    let file = folders.pop().ok_or(LoadSkipReason::NotAFile)?;
    let shared = by.map_or(0, |by| {
        let pairs = by.iter().zip(&folders);
        pairs.take_while(|(own, other)| own.to_str() == Some(**other)).count()
    });
    let is_hidden = |name: &&str| name.starts_with('.');
    if is_hidden(&file) || folders.contains(&".git") || folders.iter().skip(shared).any(is_hidden) {
        return Err(LoadSkipReason::Hidden);
    }
    let folder = RootDir::new(root.to_owned(), &folders, Privacy::Shared);
    Ok(ResolvedFile { folder, file: file.to_owned(), path: real.to_owned(), stamp: stat.stamp })
}

/// Puts together what was loaded. An import whose file could not be read in the end has failed.
fn assemble(
    cwd: &Path,
    slots: Vec<Slot>,
    files: Vec<usize>,
    mut skipped: Vec<SkippedContextSource>,
) -> ContextFileSet {
    let failed: HashMap<usize, LoadSkipReason> = slots
        .iter()
        .enumerate()
        .filter_map(|(at, slot)| Some((at, *slot.text.as_ref().err()?)))
        .collect();
    let mut loaded = ContextFileSet { files, ..ContextFileSet::default() };
    for Slot { origin, text, mut imports, .. } in slots {
        for import in &mut imports {
            let ImportResolution::Replaced(target) = import.resolution else { continue };
            if let Some(why) = failed.get(&target) {
                let (path, parent) = (PathBuf::from(&import.path), Some(origin.path.clone()));
                skipped.push(SkippedContextSource { path, parent, reason: *why });
                import.resolution = ImportResolution::Failed(why.to_string());
            }
        }
        let text = text.map_or_else(|_| Arc::from(""), |text| Arc::clone(&text.text));
        let shown = relative_path(cwd, &origin.path).display().to_string();
        loaded.sources.push(LoadedText { display_path: shown, text, imports });
        loaded.origins.push(origin);
    }
    ContextFileSet { skipped, ..loaded }
}

/// Returns the way from one folder to a path, both without links.
fn relative_path(from: &Path, to: &Path) -> PathBuf {
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| Component::ParentDir.as_os_str());
    up.chain(to.iter().skip(shared)).collect()
}
