//! The messages about context files, with paths relative to the folder of the request.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::context_file::{ImportResolution, LoadedText, ResolvedImport};
use memory::limits::{CONTEXT_FILES_MAX, IMPORTS_A_FILE_MAX};
use serde::{Deserialize, Serialize};
use strum::IntoEnumIterator as _;

use super::{Bounded, Malformed, number};
use crate::context_files::load::{
    ContextFileSet, LoadScope, ProjectLoad, SkippedContextSource, SourceOrigin,
};
use crate::context_files::read::LoadSkipReason;
use crate::remote_folder::RemoteFolder;

/// Maximum number of bytes of a path that the far side reports.
const SHOWN_PATH_BYTES_MAX: usize = 4_096;

/// Maximum number of reported files that are not loaded.
const SKIPPED_FILES_MAX: usize = 4_096;

/// A request for the context files of a project.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct ContextRequest {
    /// The folder that the model works in.
    pub(in super::super) folder: Vec<u8>,
    pub(in super::super) names: Vec<String>,
    pub(in super::super) project_folders: Vec<String>,
    pub(in super::super) host_loaded: Vec<String>,
    pub(in super::super) trusted: Vec<Vec<u8>>,
    pub(in super::super) files_max: u64,
    pub(in super::super) bytes_max: u64,
}

/// The loaded context files of a project, with paths relative to the folder of the request.
#[derive(Debug, Serialize, Deserialize)]
pub(in super::super) struct WireContext {
    sources: Bounded<WireSource, CONTEXT_FILES_MAX>,
    /// The sources that are context files themselves.
    files: Bounded<u64, CONTEXT_FILES_MAX>,
    skipped: Bounded<WireSkipped, SKIPPED_FILES_MAX>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireSource {
    path: String,
    text: String,
    /// The source that imports it.
    parent: Option<u64>,
    imports: Bounded<WireImport, IMPORTS_A_FILE_MAX>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireImport {
    start: u64,
    end: u64,
    path: String,
    /// The source that replaces it, or the reason why none does.
    outcome: Result<u64, LoadSkipReason>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireSkipped {
    path: String,
    parent: Option<String>,
    reason: LoadSkipReason,
}

impl WireContext {
    /// Converts what the far side loaded. `shown` returns a path as it is sent.
    pub(in super::super) fn new(
        set: ContextFileSet,
        shown: impl Fn(&Path) -> String,
    ) -> Result<Self, Malformed> {
        let mut sources = Vec::with_capacity(set.sources.len());
        for (source, origin) in set.sources.into_iter().zip(set.origins) {
            let imports = source.imports.into_iter().map(WireImport::new);
            sources.push(WireSource {
                path: cut_path(shown(&origin.path)),
                text: source.text.as_ref().to_owned(),
                parent: origin.parent.map(number),
                imports: Bounded(imports.collect::<Result<_, _>>()?),
            });
        }
        // A path as it is written may have any length.
        let shown = |path: &Path| cut_path(shown(path));
        let skipped = set.skipped.into_iter().take(SKIPPED_FILES_MAX).map(|skipped| WireSkipped {
            path: shown(&skipped.path),
            parent: skipped.parent.as_deref().map(&shown),
            reason: skipped.reason,
        });
        Ok(Self {
            sources: Bounded(sources),
            files: Bounded(set.files.into_iter().map(number).collect()),
            skipped: Bounded(skipped.collect()),
        })
    }

    /// Checks what the far side sent.
    pub(in super::super) fn check(
        self,
        folder: &RemoteFolder,
        load: &ProjectLoad,
    ) -> Result<ContextFileSet, Malformed> {
        let count = self.sources.0.len();
        let bytes: usize = self.sources.0.iter().map(|source| source.text.len()).sum();
        // Without a trusted folder nothing there may instruct a model.
        let is_allowed = !load.trusted.is_empty() || count == 0;
        if count > load.files_max || bytes > load.bytes_max || !is_allowed {
            return Err(Malformed);
        }
        let index = |number: u64| {
            usize::try_from(number).ok().filter(|index| *index < count).ok_or(Malformed)
        };
        let address = |path: &str| PathBuf::from(format!("{folder}/{path}"));
        let mut set = ContextFileSet::default();
        for source in self.sources.0 {
            let path = check_path(source.path)?;
            let parent = source.parent.map(index).transpose()?;
            let mut end = 0;
            let mut imports = Vec::with_capacity(source.imports.0.len());
            for import in source.imports.0 {
                let import = import.check(&source.text, end, index)?;
                end = import.range.end;
                imports.push(import);
            }
            set.origins.push(SourceOrigin {
                path: address(&path),
                scope: LoadScope::Project,
                parent,
            });
            set.sources.push(LoadedText {
                display_path: path,
                text: Arc::from(source.text),
                imports,
            });
        }
        set.files = self.files.0.into_iter().map(index).collect::<Result<_, _>>()?;
        for skipped in self.skipped.0 {
            let parent = skipped.parent.map(check_path).transpose()?;
            set.skipped.push(SkippedContextSource {
                path: address(&check_path(skipped.path)?),
                parent: parent.as_deref().map(address),
                reason: skipped.reason,
            });
        }
        Ok(set)
    }
}

impl WireImport {
    fn new(import: ResolvedImport) -> Result<Self, Malformed> {
        let outcome = match import.resolution {
            ImportResolution::Replaced(index) => Ok(number(index)),
            ImportResolution::Failed(text) => {
                let is_reason = |reason: &LoadSkipReason| reason.to_string() == text;
                Err(LoadSkipReason::iter().find(is_reason).ok_or(Malformed)?)
            }
        };
        let (start, end) = (number(import.range.start), number(import.range.end));
        Ok(Self { start, end, path: cut_path(import.path), outcome })
    }

    /// Checks an import of a text that begins at `after` or later.
    fn check(
        self,
        text: &str,
        after: usize,
        index: impl Fn(u64) -> Result<usize, Malformed>,
    ) -> Result<ResolvedImport, Malformed> {
        let offset = |number: u64| usize::try_from(number).map_err(|_| Malformed);
        let range = offset(self.start)?..offset(self.end)?;
        if range.start < after || text.get(range.clone()).is_none() {
            return Err(Malformed);
        }
        let resolution = match self.outcome {
            Ok(number) => ImportResolution::Replaced(index(number)?),
            Err(reason) => ImportResolution::Failed(reason.to_string()),
        };
        Ok(ResolvedImport { range, path: check_path(self.path)?, resolution })
    }
}

/// Cuts a path to the length that may be sent.
fn cut_path(mut path: String) -> String {
    path.truncate(path.floor_char_boundary(SHOWN_PATH_BYTES_MAX));
    path
}

/// Checks a path for its length. It is shown, and escaped there, and names no file here.
fn check_path(path: String) -> Result<String, Malformed> {
    if path.len() <= SHOWN_PATH_BYTES_MAX { Ok(path) } else { Err(Malformed) }
}
