//! Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
//!
//! [`ContextFiles`] lists and loads the files for a folder, and writes two of them: the person's
//! own and the project's. These files belong to the person and to the repository. They are in no
//! root, and history does not record them. They get the same care as memories: access through open
//! folders, no links out, file locks, atomic writes, and screening. The last replaced text is kept
//! in the state folder.

mod find;

pub(crate) mod load;

pub(crate) mod read;

mod trust;

mod write;

use std::path::PathBuf;
use std::sync::Arc;

use memory::access::{Access, access};
use memory::change::Actor;
use memory::command::{CommandError, Warning};
use memory::context_file::{HOST_NAMES, ImportStyle, NAMES_DEFAULT, SHARED_NAME, name_for};
use memory::document::Revision;
use memory::error_code::MemoryErrorCode;
use memory::feature::{Feature, Features};
use memory::limits::CONTEXT_FILE_BYTES_MAX;
use memory::path::{Mount, RelativePath, Scope};
use memory::screen::{Screen, TextAuthor, UnknownRule, rule_or_family};
use state::StateError;

pub use self::load::{
    ContextFileSet, LoadScope, RemoteProjectFiles, SkippedContextSource, SourceOrigin,
};
pub use self::read::{ContextCache, LoadSkipReason};
pub use self::trust::{TrustError, TrustedFolders};
use crate::backend::BackendError;
use crate::binding::{BaseFolders, Checkout};
use crate::caller::Caller;

/// Settings of where context files are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    /// Their names in search order, one segment each. If empty, the default names.
    pub names: Vec<RelativePath>,
    /// Folder of the person's own files.
    pub folder: PathBuf,
    /// Further folders of the person's own files, of other products.
    pub other_product_folders: Vec<PathBuf>,
    /// Names of folders of other products at the top of a project, which are searched too.
    pub project_folders: Vec<String>,
    /// Folders that a person listed. Their context files are loaded in every project, and may be imported from.
    pub included: Vec<PathBuf>,
    /// Files that are loaded in every project, after all others.
    pub files: Vec<PathBuf>,
    /// Meaning of `~/` in an import.
    pub home: Option<PathBuf>,
}

impl ContextSettings {
    /// Returns settings with the default names, and with the person's own files in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            names: default_names(),
            folder,
            other_product_folders: Vec::new(),
            project_folders: Vec::new(),
            included: Vec::new(),
            files: Vec::new(),
            home: None,
        }
    }
}

fn default_names() -> Vec<RelativePath> {
    NAMES_DEFAULT.iter().filter_map(|name| RelativePath::parse(name).ok()).collect()
}

/// Options of one load, or of the loads of one session, in addition to the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Further folders whose context files are loaded, and that may be imported from.
    pub included: Vec<PathBuf>,
    /// Further files, which are loaded after all others.
    pub files: Vec<PathBuf>,
    /// Whether the project is trusted; `None` for the person's list. The list is not changed.
    pub trusted: Option<bool>,
    /// Style in which imports are shown; `None` for the settings.
    pub imports: Option<ImportStyle>,
}

/// Owner of a context file: the person or the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextScope {
    /// The person's own, in all projects.
    Global,
    /// The project's.
    Project,
}

impl ContextScope {
    /// Returns the stable public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Project => "project",
        }
    }

    const fn mount(self) -> Mount {
        match self {
            Self::Global => Mount::Scope(Scope::Global),
            Self::Project => Mount::Scope(Scope::Project),
        }
    }
}

/// A context file that exists and can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Its owner.
    pub scope: ContextScope,
    /// Its size in bytes.
    pub bytes: u64,
    /// The digest of its bytes.
    pub revision: Revision,
}

/// A context file that cannot be used.
#[derive(Debug)]
pub struct SkippedContextFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Reason why it cannot be used.
    pub error: ContextFileError,
}

/// The context files for a folder.
#[derive(Debug, Default)]
pub struct ContextListing {
    /// The files, in load order. A file that is listed before under another name, or with the same text, is left
    /// out.
    pub files: Vec<ContextFile>,
    /// Files that exist and cannot be used.
    pub skipped: Vec<SkippedContextFile>,
}

/// Result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedContextFile {
    /// The file.
    pub path: PathBuf,
    /// Whether the bytes changed.
    pub changed: bool,
    /// Number of bytes that were appended, or of the new text; 0 if nothing was written.
    pub bytes_written: usize,
    /// Warnings of screening.
    pub warnings: Vec<Warning>,
}

/// Reason why a context file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContextFileError {
    /// Screening refused the text.
    #[error(transparent)]
    Screened(CommandError),
    /// A person disabled the feature.
    #[error(transparent)]
    Disabled(CommandError),
    /// The session has read unreviewed memories, and the person did not agree to the write.
    #[error(
        "this session has read memories that no person reviewed, so an instruction file is written only if the person \
         agrees; the person can add to it with `lukasa save`"
    )]
    NotAgreed,
    /// There is no project, or it is on another machine.
    #[error("{0}")]
    NoProject(&'static str),
    /// The caller may not write this file.
    #[error("the {} context file is read-only for this caller", .0.as_str())]
    ReadOnly(ContextScope),
    /// The bytes are not text.
    #[error("`{}` is not UTF-8 text; it was not changed", .0.display())]
    NotText(PathBuf),
    /// The text to write contains a NUL.
    #[error("the text contains a NUL character; remove it")]
    NoText,
    /// The file is, or would become, larger than a context file may be.
    #[error("`{}` is or would become larger than {CONTEXT_FILE_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// A link that leads out of its base folder, or to a file that is not Markdown.
    #[error("`{}` is a link that is not followed; it must lead to a Markdown file beside or below it", .0.display())]
    Escapes(PathBuf),
    /// The file does not have the revision that the caller wants to replace.
    #[error("`{}` does not have the expected revision", path.display())]
    Conflict {
        /// The file.
        path: PathBuf,
        /// Its current revision; `None` if there is no file.
        current: Option<Revision>,
    },
    /// A fault of the database that knows what the session has read.
    #[error(transparent)]
    State(#[from] StateError),
    /// A fault of the storage.
    #[error("cannot use `{}`", path.display())]
    Backend {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: BackendError,
    },
}

impl ContextFileError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Screened(refusal) | Self::Disabled(refusal) => refusal.code(),
            Self::NoProject(_) => MemoryErrorCode::ScopeUnavailable,
            Self::ReadOnly(_) | Self::NotAgreed => MemoryErrorCode::ReadOnly,
            Self::NotText(_) | Self::NoText => MemoryErrorCode::NotText,
            Self::TooLarge(_) => MemoryErrorCode::TooLarge,
            Self::Escapes(_) => MemoryErrorCode::EscapesRoot,
            Self::Conflict { .. } => MemoryErrorCode::Conflict,
            Self::State(error) => error.code(),
            Self::Backend { source, .. } => source.code(),
        }
    }

    /// Converts a backend error about this file.
    fn backend_error(path: PathBuf) -> impl Fn(BackendError) -> Self {
        move |source| match source {
            BackendError::Escapes(_) => Self::Escapes(path.clone()),
            source => Self::Backend { path: path.clone(), source },
        }
    }
}

/// The context files for one folder, as one caller may use them.
#[derive(Clone, Debug)]
pub struct ContextFiles {
    screen: Screen,
    folders: BaseFolders,
    settings: Arc<ContextSettings>,
    project: ContextProject,
    caller: Caller,
    cache: Arc<ContextCache>,
    /// Names of files that the host itself loads.
    host_loaded: Vec<String>,
    options: LoadOptions,
    is_read_only: bool,
    features: Features,
    /// Whether the person was asked about the write and agreed.
    has_consent: bool,
    /// Whether the file to write is chosen by the existing files and by the client.
    selects_for_client: bool,
    /// Rules and families that only warn this person.
    allowed_rules: Vec<&'static str>,
}

/// The project of context files.
#[derive(Clone, Debug)]
enum ContextProject {
    /// No project: only the person's own files are used.
    None,
    Local(LocalProject),
    /// Its files are loaded on its machine, and not written.
    Remote(Arc<dyn RemoteProjectFiles>),
}

/// A project on this machine.
#[derive(Clone, Debug)]
struct LocalProject {
    /// The folder that the caller works in, without links.
    cwd: PathBuf,
    /// The top of the checkout, or the folder itself.
    top: PathBuf,
}

impl ContextProject {
    const fn local(&self) -> Option<&LocalProject> {
        match self {
            Self::Local(project) => Some(project),
            Self::None | Self::Remote(_) => None,
        }
    }
}

impl ContextFiles {
    /// Returns the context files for a caller that works in `cwd`, a folder without links. The empty path stands for no
    /// folder; then only the person's own files are used.
    pub fn new(
        folders: BaseFolders,
        settings: Arc<ContextSettings>,
        screen: Screen,
        cwd: PathBuf,
        caller: Caller,
    ) -> Self {
        let project = if cwd.as_os_str().is_empty() {
            ContextProject::None
        } else {
            let top = Checkout::find(&cwd).map_or_else(|| cwd.clone(), |checkout| checkout.root);
            ContextProject::Local(LocalProject { cwd, top })
        };
        Self {
            screen,
            folders,
            settings,
            project,
            caller,
            cache: Arc::default(),
            host_loaded: Vec::new(),
            options: LoadOptions::default(),
            is_read_only: false,
            features: Features::default(),
            has_consent: false,
            selects_for_client: false,
            allowed_rules: Vec::new(),
        }
    }

    /// Returns these files with those of a project on another machine.
    #[must_use]
    pub fn with_remote(self, remote: Arc<dyn RemoteProjectFiles>) -> Self {
        Self { project: ContextProject::Remote(remote), ..self }
    }

    /// Returns these files with a cache of loads.
    #[must_use]
    pub fn with_cache(self, cache: Arc<ContextCache>) -> Self {
        Self { cache, ..self }
    }

    /// Returns these files without those of these names, which the host itself shows to its model.
    #[must_use]
    pub fn without_host_loaded(self, names: &[&str]) -> Self {
        Self { host_loaded: names.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// Returns the names of files that the host itself shows to its model.
    pub fn host_loaded(&self) -> &[String] {
        &self.host_loaded
    }

    /// Returns these files with options for loads. Writes do not depend on them.
    #[must_use]
    pub fn with_options(self, options: LoadOptions) -> Self {
        Self { options, ..self }
    }

    /// Returns the import style, if the options set one.
    pub fn import_style(&self) -> Option<ImportStyle> {
        self.options.imports
    }

    /// Returns these files with the file to write chosen for the client, unless a person configured the names. That
    /// is the file that the client loads by itself, if it exists, else another existing one.
    #[must_use]
    pub fn select_for_client(self) -> Self {
        let chooses = self.names() == default_names();
        Self { selects_for_client: chooses, ..self }
    }

    /// Returns these files for a write that the person was asked about and agreed to.
    #[must_use]
    pub fn with_consent(self) -> Self {
        Self { has_consent: true, ..self }
    }

    /// Returns these files with only these features. What is disabled is neither loaded nor written.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Self { features: self.features.and(features), ..self }
    }

    /// Returns these files without permission to write.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// Returns these files with screening rules, or families of rules, that only warn: the person has checked the
    /// text and answers for it. Has no effect for an agent.
    pub fn with_allowed_rules(mut self, rules: &[String]) -> Result<Self, UnknownRule> {
        for rule in rules {
            self.allowed_rules.push(rule_or_family(rule)?);
        }
        Ok(self)
    }

    fn names(&self) -> Vec<RelativePath> {
        let names = &self.settings.names;
        if names.is_empty() { default_names() } else { names.clone() }
    }

    /// Returns the candidate names of the file to write in a scope, and the name of a new file.
    fn names_to_write(&self, scope: ContextScope) -> (Vec<RelativePath>, Option<RelativePath>) {
        if !self.selects_for_client {
            let names = self.names();
            let first = names.first().cloned();
            return (names, first);
        }
        let parsed = |name: &str| RelativePath::parse(name).ok();
        match scope {
            // Only files of these names are loaded from the person's folder, and no host reads that folder.
            ContextScope::Global => (self.names(), parsed(SHARED_NAME)),
            ContextScope::Project => {
                let own = name_for(self.caller.provenance.client.as_deref().unwrap_or_default());
                let others = HOST_NAMES.into_iter().filter(|name| *name != own);
                let names = std::iter::once(own).chain(others);
                (names.filter_map(parsed).collect(), parsed(own))
            }
        }
    }

    async fn check_writable(&self, scope: ContextScope) -> Result<(), ContextFileError> {
        let feature = Feature::SaveMemory;
        if !self.features.has(feature) {
            return Err(ContextFileError::Disabled(CommandError::FeatureDisabled { feature }));
        }
        // Models take the text of a context file for an instruction.
        if !self.has_consent && self.caller.outside_read.is_set().await? {
            return Err(ContextFileError::NotAgreed);
        }
        let is_allowed = access(self.caller.class, scope.mount()) == Access::ReadWrite;
        if is_allowed && !self.is_read_only {
            Ok(())
        } else {
            Err(ContextFileError::ReadOnly(scope))
        }
    }

    fn writer(&self) -> TextAuthor {
        match self.caller.provenance.actor {
            Actor::Person => TextAuthor::Person,
            _ => TextAuthor::Agent,
        }
    }
}
