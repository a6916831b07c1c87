//! Context files: the instruction files of a person and of a project, such as `AGENTS.md`.
//!
//! Says which there are for a folder that somebody works in, and writes two of them: the person's own and
//! that of the project. They belong to the person and to the repository, not to Lukasa: they are in no root,
//! and not in history. Yet they are read and written with the same care as memories: through open folders,
//! following no link out, one writer at a time, in one step, screened. What a write replaced last is kept
//! in the state folder.

mod find;

mod load;

mod read;

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

pub use self::load::{ContextFileSet, LoadScope, SkippedContextSource, SourceOrigin};
pub use self::read::{ContextCache, LoadSkipReason};
pub use self::trust::{TrustError, TrustedFolders};
use crate::backend::BackendError;
use crate::binding::{BaseFolders, Checkout};
use crate::caller::Caller;

/// Where context files are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextSettings {
    /// Their names, in the order in which they are looked for; one segment each. Without any, the default
    /// ones.
    pub names: Vec<RelativePath>,
    /// The folder of the person's own.
    pub folder: PathBuf,
    /// Further folders of the person's own, that other products have.
    pub other_product_folders: Vec<PathBuf>,
    /// The names of folders at the top of a project that other products have, and that are looked into too.
    pub project_folders: Vec<String>,
    /// Folders that a person listed: their context files are loaded everywhere, and may be imported from.
    pub included: Vec<PathBuf>,
    /// Files that are loaded everywhere, after all others.
    pub files: Vec<PathBuf>,
    /// What `~/` means in an import.
    pub home: Option<PathBuf>,
}

impl ContextSettings {
    /// Returns the default names, with the person's own files in this folder.
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

/// What one load, or the loads of one session, are given beside the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Further folders whose context files are loaded, and that may be imported from.
    pub included: Vec<PathBuf>,
    /// Further files, after all others.
    pub files: Vec<PathBuf>,
    /// Whether the project is trusted; `None` leaves it to the person's list. Nothing is added to that list.
    pub trusted: Option<bool>,
    /// How imports are shown; `None` leaves it to the settings.
    pub imports: Option<ImportStyle>,
}

/// Whose a context file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextScope {
    /// The person's own, in all projects.
    Global,
    /// The project's.
    Project,
}

impl ContextScope {
    /// Returns the public word.
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

/// A context file that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextFile {
    /// Where it is.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: ContextScope,
    /// Its size.
    pub bytes: u64,
    /// The digest of its bytes.
    pub revision: Revision,
}

/// A context file that cannot be used.
#[derive(Debug)]
pub struct SkippedContextFile {
    /// Where it is.
    pub path: PathBuf,
    /// Why.
    pub error: ContextFileError,
}

/// The context files for a folder.
#[derive(Debug, Default)]
pub struct ContextListing {
    /// The files, in the order in which they are loaded. One that was there before by another name, or
    /// with the same text, is left out.
    pub files: Vec<ContextFile>,
    /// Those that are there and cannot be used.
    pub skipped: Vec<SkippedContextFile>,
}

/// What a write left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedContextFile {
    /// The file.
    pub path: PathBuf,
    /// Whether its bytes are others than before.
    pub changed: bool,
    /// How many bytes were added, or how many the new text has; 0 if nothing was written.
    pub bytes_written: usize,
    /// What screening warned of.
    pub warnings: Vec<Warning>,
}

/// Why a context file cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContextFileError {
    /// The text is not to be written.
    #[error(transparent)]
    Screened(CommandError),
    /// A person switched it off.
    #[error(transparent)]
    Disabled(CommandError),
    /// The session has read memories that nobody here reviewed, and the person did not agree.
    #[error(
        "this session has read memories that nobody reviewed, and an instruction file is added to only with the person's \
         agreement then; the person can add to it with `lukasa save`"
    )]
    NotAgreed,
    /// The caller may not write it.
    #[error("the {} context file is read-only for this caller", .0.as_str())]
    ReadOnly(ContextScope),
    /// The bytes are no text.
    #[error("`{}` is not UTF-8 text; its bytes are left as they are", .0.display())]
    NotText(PathBuf),
    /// The text to write holds a NUL.
    #[error("the text holds a NUL character")]
    NoText,
    /// It is, or would become, larger than a context file may be.
    #[error("`{}` is or would become larger than {CONTEXT_FILE_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// A link leads out of where it may lead, or to what is no Markdown file.
    #[error("`{}` is a link that is not followed: only to a Markdown file beside or below it", .0.display())]
    Escapes(PathBuf),
    /// It is not what the caller wanted to replace.
    #[error("`{}` is not what was to be replaced", path.display())]
    Conflict {
        /// The file.
        path: PathBuf,
        /// What it is; `None` when there is none.
        current: Option<Revision>,
    },
    /// The machine failed.
    #[error("cannot use `{}`", path.display())]
    Backend {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: BackendError,
    },
}

impl ContextFileError {
    /// Returns the stable public code.
    pub fn code(&self) -> MemoryErrorCode {
        match self {
            Self::Screened(refusal) | Self::Disabled(refusal) => refusal.code(),
            Self::ReadOnly(_) | Self::NotAgreed => MemoryErrorCode::ReadOnly,
            Self::NotText(_) | Self::NoText => MemoryErrorCode::NotText,
            Self::TooLarge(_) => MemoryErrorCode::TooLarge,
            Self::Escapes(_) => MemoryErrorCode::EscapesRoot,
            Self::Conflict { .. } => MemoryErrorCode::Conflict,
            Self::Backend { source, .. } => source.code(),
        }
    }

    /// Says which file a backend failed for.
    fn backend_error(path: PathBuf) -> impl Fn(BackendError) -> Self {
        move |source| match source {
            BackendError::Escapes(_) => Self::Escapes(path.clone()),
            source => Self::Backend { path: path.clone(), source },
        }
    }
}

/// The context files for one folder, as one caller may touch them.
#[derive(Clone, Debug)]
pub struct ContextFiles {
    screen: Screen,
    folders: BaseFolders,
    settings: Arc<ContextSettings>,
    cwd: PathBuf,
    /// The top of the checkout, else the folder itself.
    project: PathBuf,
    caller: Caller,
    cache: Arc<ContextCache>,
    /// Names of files that the host loads itself.
    host_loaded: Vec<String>,
    options: LoadOptions,
    is_read_only: bool,
    features: Features,
    /// Whether the person was asked and agreed to what is written.
    has_consent: bool,
    /// Whether the file to write is chosen by the files that are there and by the client.
    selects_for_client: bool,
    /// Rules and families that only warn this person.
    allowed_rules: Vec<&'static str>,
}

impl ContextFiles {
    /// Returns those for somebody who works in `cwd`, a folder without links.
    pub fn new(
        folders: BaseFolders,
        settings: Arc<ContextSettings>,
        screen: Screen,
        cwd: PathBuf,
        caller: Caller,
    ) -> Self {
        let project = Checkout::find(&cwd).map_or_else(|| cwd.clone(), |checkout| checkout.root);
        Self {
            screen,
            folders,
            settings,
            cwd,
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

    /// Returns the same files, which remember what was loaded in this cache.
    #[must_use]
    pub fn with_cache(self, cache: Arc<ContextCache>) -> Self {
        Self { cache, ..self }
    }

    /// Returns the same files without those of these names, which the host shows its model itself.
    #[must_use]
    pub fn without_host_loaded(self, names: &[&str]) -> Self {
        Self { host_loaded: names.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// Returns the same files with options for what is loaded. What is written does not depend on them.
    #[must_use]
    pub fn with_options(self, options: LoadOptions) -> Self {
        Self { options, ..self }
    }

    /// Returns how imports are shown, if that was said for these files.
    pub fn import_style(&self) -> Option<ImportStyle> {
        self.options.imports
    }

    /// Returns the same files. Unless a person set their names, the one that is written is that which the client
    /// loads by itself, if it is there, else another one that is there.
    #[must_use]
    pub fn select_for_client(self) -> Self {
        let chooses = self.names() == default_names();
        Self { selects_for_client: chooses, ..self }
    }

    /// Returns the same files for a write that the person was asked about and agreed to.
    #[must_use]
    pub fn with_consent(self) -> Self {
        Self { has_consent: true, ..self }
    }

    /// Returns the same files with only these features: what is off is not loaded, or not written.
    #[must_use]
    pub fn with_features(self, features: Features) -> Self {
        Self { features: self.features.and(features), ..self }
    }

    /// Returns the same files for somebody who may write none of them.
    #[must_use]
    pub fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// Returns the same files with screening rules, or families of them, that warn where they would refuse:
    /// the person has looked at the text and answers for it. Means nothing for an agent.
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

    /// Returns the names from which the file of a scope is chosen that is written, and the name of one that is made.
    fn names_to_write(&self, scope: ContextScope) -> (Vec<RelativePath>, Option<RelativePath>) {
        if !self.selects_for_client {
            let names = self.names();
            let first = names.first().cloned();
            return (names, first);
        }
        let parsed = |name: &str| RelativePath::parse(name).ok();
        match scope {
            // Only files of these names are loaded from a person's folder: no host looks into it.
            ContextScope::Global => (self.names(), parsed(SHARED_NAME)),
            ContextScope::Project => {
                let own = name_for(self.caller.provenance.client.as_deref().unwrap_or_default());
                let others = HOST_NAMES.into_iter().filter(|name| *name != own);
                let names = std::iter::once(own).chain(others);
                (names.filter_map(parsed).collect(), parsed(own))
            }
        }
    }

    fn check_writable(&self, scope: ContextScope) -> Result<(), ContextFileError> {
        let feature = Feature::SaveMemory;
        if !self.features.has(feature) {
            return Err(ContextFileError::Disabled(CommandError::FeatureDisabled { feature }));
        }
        // What stands there, models take for an instruction.
        if self.caller.outside_read.is_set() && !self.has_consent {
            return Err(ContextFileError::NotAgreed);
        }
        let may = access(self.caller.class, scope.mount()) == Access::ReadWrite;
        if may && !self.is_read_only { Ok(()) } else { Err(ContextFileError::ReadOnly(scope)) }
    }

    fn writer(&self) -> TextAuthor {
        match self.caller.provenance.actor {
            Actor::Person => TextAuthor::Person,
            _ => TextAuthor::Agent,
        }
    }
}
