//! The setup of a command: builds the engine from flags, settings, environment and current folder.
//!
//! Only this module reads settings and environment variables. Nothing is opened before a command needs it, so
//! that `lukasa --help` and completions are fast.

use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{
    BaseFolders, BindingRequest, CallContext, Caller, Config, ContextFiles, Engine, EngineError,
    Memories, ProjectFolder, ProjectRoot, Workspace, WorkspaceChoice, WorkspaceId,
};
#[cfg(feature = "cluster")]
use engine::{ContextSettings, Storage};
use etcetera::BaseStrategy;
use memory::access::AgentClass;
use memory::change::Provenance;
use memory::clock::{Clock, Timestamp};
#[cfg(feature = "cluster")]
use memory::document::Revision;
use memory::feature::Feature;
use memory::path::{Layout, MemoryPath};
use memory::screen::UnknownRule;
use store::clock::SystemClock;

use crate::args::{AgentFolder, AllowRules, Globals, ProjectPlace};
use crate::exit::Failure;
use crate::files;
use crate::install::agents::AgentDirs;
use crate::interrupt::Interrupts;
use crate::os;
use crate::render::Output;
use crate::render::pager::Pager;
use crate::render::progress;

mod features;
mod quipu;
mod runner;
mod settings;

pub(crate) use features::FeatureSource as FeatureOrigin;
pub(crate) use quipu::{quipu_homes, settings_file};
pub(crate) use runner::{RunnerConfig, SelectedRunner};
pub(crate) use settings::{
    ParsedSettings, SettingsFile, help as settings_help, schema as settings_schema,
};

use self::features::FeatureConfig;

/// The name of Lukasa's folder inside the folders of the system.
const NAME: &str = "lukasa";

/// The context of a command.
pub(crate) struct App {
    /// The printer of results and notes.
    pub(crate) output: Output,
    /// The global flags.
    pub(crate) globals: Globals,
    /// The folders of memories and state.
    pub(crate) folders: BaseFolders,
    /// The handling of signals.
    pub(crate) interrupts: Interrupts,
    /// The engine, built from the settings.
    pub(crate) engine: Engine,
    /// The features in settings and environment.
    pub(crate) features: FeatureConfig,
    /// The settings of task runners.
    pub(crate) runners: RunnerConfig,
    /// The settings file.
    pub(crate) settings: ParsedSettings,
    /// The roots that the flags select.
    pub(crate) binding: BindingRequest,
}

/// The context of completions and hooks: no output, no signals, and read-only unless opened for writing.
pub(crate) struct ReadOnlyApp {
    /// The memories that the flags select.
    pub(crate) memories: Memories,
    /// The engine, built from the settings.
    pub(crate) engine: Engine,
    /// The folders of memories and state.
    pub(crate) folders: BaseFolders,
    binding: BindingRequest,
}

/// The longest wait of a hook for another machine, and of a completion. There is time left for the other scopes.
const REMOTE_WAIT: Duration = Duration::from_millis(400);

impl ReadOnlyApp {
    /// Reads settings and environment like a command, and opens the engine for reading.
    pub(crate) fn new(globals: &Globals) -> Result<Self, Failure> {
        Self::with(globals, Engine::open_read_only)
    }

    fn with(
        globals: &Globals,
        open: impl FnOnce(Config) -> Result<Engine, EngineError>,
    ) -> Result<Self, Failure> {
        // The process ends before an endpoint could answer, so no request is sent. The same holds for a slow machine.
        let open = |mut config: Config| {
            config.ssh.wait_max = Some(REMOTE_WAIT);
            open(Config { embeddings: None, ..config })
        };
        let AppParts { engine, binding, folders, .. } = AppParts::with(globals, open)?;
        let memories = engine.memories(&binding, Caller::person("cli"));
        Ok(Self { memories, engine, folders, binding })
    }

    /// Reads settings and environment like a command, and opens the engine for writing.
    pub(crate) fn for_writing(globals: &Globals) -> Result<Self, Failure> {
        Self::with(globals, Engine::open)
    }

    /// Checks whether any of these features is on.
    pub(crate) fn has_any_feature(&self, features: &[Feature]) -> bool {
        let on = self.memories.features();
        features.iter().any(|feature| on.has(*feature))
    }

    /// Returns the workspace that the flags and the current folder select.
    pub(crate) fn workspace(&self) -> Workspace {
        workspace(&self.binding)
    }

    /// Returns the context files of the workspace's folder.
    pub(crate) fn context_files(&self) -> ContextFiles {
        self.engine.context_files(&self.workspace(), Caller::person("cli"))
    }

    /// Parses a path like [`App::path`].
    pub(crate) fn path(&self, text: &str) -> Result<MemoryPath, Failure> {
        parse_path(text, layout(&self.binding))
    }

    /// Closes the state, if it was opened.
    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }
}

/// The values built from settings, environment and flags.
struct AppParts {
    folders: BaseFolders,
    binding: BindingRequest,
    engine: Engine,
    features: FeatureConfig,
    runners: RunnerConfig,
    settings: ParsedSettings,
    pager: Option<Pager>,
}

impl App {
    /// Reads settings and environment, and opens the engine. A failure is returned with the output,
    /// through which the caller prints it.
    pub(crate) fn compose(globals: Globals, output: Output) -> Result<Self, (Output, Failure)> {
        match AppParts::with(&globals, Engine::open) {
            Ok(AppParts { folders, binding, engine, features, runners, settings, pager }) => {
                if binding.project.is_none() && binding.flat.is_none() {
                    output.warning("the current folder no longer exists, so there is no project");
                }
                Ok(Self {
                    output: output.with_pager(pager),
                    globals,
                    folders,
                    interrupts: Interrupts::default(),
                    engine,
                    features,
                    runners,
                    settings,
                    binding,
                })
            }
            Err(failure) => Err((output, failure)),
        }
    }

    /// Returns the memories of the user at the command line: full access to this binding.
    pub(crate) fn memories(&self) -> Memories {
        self.memories_of(Provenance::person("cli"))
    }

    /// Returns the memories with the allowed rules reduced to warnings.
    pub(crate) fn memories_with(&self, allowed: &AllowRules) -> Result<Memories, Failure> {
        with_allowed_rules(self.memories(), allowed)
    }

    /// Returns the memories with this provenance of changes.
    pub(crate) fn memories_of(&self, provenance: Provenance) -> Memories {
        let caller = Caller::new(AgentClass::Exec, provenance);
        self.engine.memories(&self.binding, caller)
    }

    /// Returns the context files of the current folder, with the allowed rules reduced to warnings.
    pub(crate) fn context_files_with(&self, allowed: &AllowRules) -> Result<ContextFiles, Failure> {
        let files = self.engine.context_files(&self.workspace(), Caller::person("cli"));
        files.with_allowed_rules(&allowed.rules).map_err(|error| unknown_rule(&error))
    }

    /// Returns the workspace that the flags and the current folder select.
    pub(crate) fn workspace(&self) -> Workspace {
        workspace(&self.binding)
    }

    /// Synchronizes files and closes the state. Without this no data is lost; the next process completes it.
    pub(crate) async fn close(&self) {
        self.engine.close().await;
    }

    /// Parses a path argument: virtual (`/memories/global/a.md`) or short (`global/a.md`).
    pub(crate) fn path(&self, text: &str) -> Result<MemoryPath, Failure> {
        parse_path(text, layout(&self.binding))
    }

    /// Awaits a future, with a spinner if it takes long.
    pub(crate) async fn wait_with_progress<T>(
        &self,
        doing: &str,
        future: impl Future<Output = T>,
    ) -> T {
        progress::with_spinner(doing, self.shows_progress(), future).await
    }

    /// Awaits a write. Ctrl-C waits for its end; a second Ctrl-C does not.
    pub(crate) async fn finish_write<T>(&self, doing: &str, future: impl Future<Output = T>) -> T {
        let _finishing = self.interrupts.defer_for_write();
        self.wait_with_progress(doing, future).await
    }

    /// Checks whether progress is shown: on a terminal, and not with `--quiet` or `--json`.
    pub(crate) fn shows_progress(&self) -> bool {
        self.output.note_style.terminal && !self.globals.quiet && !self.globals.json
    }
}

impl AppParts {
    fn with(
        globals: &Globals,
        open: impl FnOnce(Config) -> Result<Engine, EngineError>,
    ) -> Result<Self, Failure> {
        let current = current_folder();
        let (folders, settings_file) = folders(current.as_deref().unwrap_or(Path::new("")))?;
        let settings = ParsedSettings::read(&settings_file)?;
        let binding = binding(globals, &settings, current.as_deref())?;
        let mut config = Config::new(folders.clone());
        if let Some(folder) = settings_file.parent() {
            folder.clone_into(&mut config.context.folder);
        }
        config.context.home = system_folders().ok().map(|(home, _)| home);
        let of_environment = |name: &str| variable(name)?.into_string().ok();
        settings.apply(&mut config, of_environment);
        let named = of_environment(features::VARIABLE);
        let features = FeatureConfig::new(settings_file.clone(), settings.features(), named)?;
        features.apply(&mut config);
        let engine = open(config).map_err(|error| {
            Failure::from(error).help(format!("the settings are in {}", settings_file.display()))
        })?;
        let pager = if globals.no_pager { None } else { pager() };
        let runners = settings.runners();
        Ok(Self { folders, binding, engine, features, runners, settings, pager })
    }
}

/// The folder in the state folder with the caches of each owner in a database.
#[cfg(feature = "cluster")]
const OWNERS_FOLDER: &str = "owners";

/// Opens an engine for an owner in a database that several daemons share, with the settings of this machine, which are read
/// again. Context files are off: they would be those of this machine, and another daemon would show others.
#[cfg(feature = "cluster")]
pub(crate) fn open_shared(
    globals: &Globals,
    storage: Storage,
    owner: &str,
) -> Result<(Engine, RunnerConfig), Failure> {
    let open = |mut config: Config| {
        let owner = Revision::digest(owner.as_bytes()).to_string();
        let folder = config.folders.state.join(OWNERS_FOLDER).join(owner);
        config.folders = BaseFolders { data: folder.join("data"), state: folder };
        config.context = ContextSettings::new(config.folders.data.clone());
        for feature in [Feature::ContextFiles, Feature::SaveMemory] {
            config.features = config.features.without(feature);
        }
        Engine::open_shared(config, storage)
    };
    let parts = AppParts::with(globals, open)?;
    Ok((parts.engine, parts.runners))
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Returns the context of a call from the command line, which is empty.
pub(crate) fn call() -> CallContext {
    CallContext::default()
}

/// Returns memories with the allowed rules reduced to warnings.
pub(crate) fn with_allowed_rules(
    memories: Memories,
    allowed: &AllowRules,
) -> Result<Memories, Failure> {
    memories.with_allowed_rules(&allowed.rules).map_err(|error| unknown_rule(&error))
}

fn unknown_rule(error: &UnknownRule) -> Failure {
    Failure::usage(format!("--allow: {error}"))
        .help("use the name of a rule from a refusal, or a family of rules")
}

fn workspace(binding: &BindingRequest) -> Workspace {
    Workspace::new(binding.project.clone().unwrap_or_default(), binding.clone())
}

/// Returns the workspace of a folder. A local one is named by its real path.
pub(crate) fn workspace_of(
    folder: impl Into<ProjectFolder>,
    project_root: ProjectRoot,
) -> Workspace {
    let folder = folder.into();
    let binding = BindingRequest {
        project: Some(folder.clone()),
        project_root,
        workspace: WorkspaceChoice::Checkout,
        ..BindingRequest::default()
    };
    Workspace::new(folder, binding)
}

const fn layout(binding: &BindingRequest) -> Layout {
    if binding.flat.is_some() { Layout::Flat } else { Layout::Scoped }
}

fn parse_path(text: &str, layout: Layout) -> Result<MemoryPath, Failure> {
    let text = text.trim();
    let whole = if text.starts_with('/') { text.to_owned() } else { format!("/memories/{text}") };
    MemoryPath::parse(&whole, layout)
        .map_err(|error| Failure::from(memory::command::CommandError::from(error)))
}

/// Returns an environment variable, if it is set and not empty.
#[expect(clippy::disallowed_methods, reason = "this is the module that reads the environment")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Returns the daemon's token, if the environment has it.
pub(crate) fn token() -> Option<String> {
    variable("LUKASA_TOKEN").and_then(|token| token.into_string().ok())
}

/// Returns the environment variables that set the folders of memories, state and settings, with absolute paths.
pub(crate) fn folder_variables() -> Vec<(&'static str, PathBuf)> {
    let names = ["LUKASA_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];
    let current = current_folder().unwrap_or_default();
    let set = |name: &'static str| variable(name).map(|value| (name, absolute(&current, value)));
    names.into_iter().filter_map(set).collect()
}

/// Returns the home folder of the user, and the configuration folder.
pub(crate) fn system_folders() -> Result<(PathBuf, PathBuf), Failure> {
    let system = etcetera::choose_base_strategy()
        .map_err(|_| Failure::usage("cannot find the home folder"))?;
    let config = below_home("XDG_CONFIG_HOME").unwrap_or_else(|| system.config_dir());
    Ok((system.home_dir().to_owned(), config))
}

/// Returns the state folder, without reading settings.
pub(crate) fn state_folder() -> Result<PathBuf, Failure> {
    let (folders, _) = folders(&current_folder().unwrap_or_default())?;
    Ok(folders.state)
}

/// Returns the folders of agents and their settings.
pub(crate) fn agent_homes() -> Result<AgentDirs, Failure> {
    let (home, config) = system_folders()?;
    let current = current_folder().unwrap_or_default();
    let set = |name: &str| variable(name).map(|value| absolute(&current, value));
    Ok(AgentDirs {
        claude: set("CLAUDE_CONFIG_DIR"),
        codex: set("CODEX_HOME"),
        copilot: set("COPILOT_HOME"),
        cline: set("CLINE_DATA_DIR"),
        cline_servers: set("CLINE_MCP_SETTINGS_PATH"),
        gemini: set("GEMINI_CLI_HOME"),
        qwen: set("QWEN_HOME"),
        desktop: os::desktop_settings(&home, &config),
        programs: variable("PATH").iter().flat_map(std::env::split_paths).collect(),
        home,
        config,
    })
}

/// Returns the absolute path of this program.
pub(crate) fn this_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::file("find the program to start", Path::new(NAME), &error))
}

/// Returns the path of the program that agents and services start: that of this program, or of a copy in the data folder if
/// this one is in a cache.
pub(crate) fn lasting_program(folders: &BaseFolders) -> Result<PathBuf, Failure> {
    let program = this_program()?;
    Ok(if is_in_cache(&program) { folders.data.join("bin").join(NAME) } else { program })
}

/// Makes that copy if it is needed, and returns its path then. Called before settings name it.
pub(crate) fn keep_program(folders: &BaseFolders) -> Result<Option<PathBuf>, Failure> {
    let (program, kept) = (this_program()?, lasting_program(folders)?);
    if kept == program {
        return Ok(None);
    }
    files::copy_program(&program, &kept)
        .map_err(|error| Failure::file("copy the program to", &kept, &error))?;
    Ok(Some(kept))
}

/// Returns whether a program is in the cache of a tool that runs packages without installing them, such as `npx` and
/// `uvx`. Such a cache may be emptied at any time.
fn is_in_cache(program: &Path) -> bool {
    let home = variable("HOME").map(PathBuf::from);
    let set = variable("XDG_CACHE_HOME").map(|cache| expand(cache.into()));
    let caches = [set, home.map(|home| home.join(".cache"))];
    let in_cache = caches.iter().flatten().any(|cache| program.starts_with(cache));
    in_cache || program.components().any(|part| part.as_os_str() == "_npx")
}

/// Returns the arguments of the program, its own name first.
pub(crate) fn raw_args() -> impl Iterator<Item = std::ffi::OsString> {
    std::env::args_os()
}

/// Returns the current folder; `None` if it was removed. Global memories are usable without one.
#[expect(clippy::disallowed_methods, reason = "this is the module that reads the current folder")]
pub(crate) fn current_folder() -> Option<PathBuf> {
    std::env::current_dir().ok()
}

/// Returns the folders of memories and state, and the path of the settings file.
fn folders(current: &Path) -> Result<(BaseFolders, PathBuf), Failure> {
    if let Some(home) = variable("LUKASA_HOME") {
        let home = absolute(current, home);
        let folders = BaseFolders { state: home.join("state"), data: home.clone() };
        return Ok((folders, home.join("config.toml")));
    }
    let system = etcetera::choose_base_strategy().map_err(|_| {
        Failure::usage("cannot find the home folder").help("set LUKASA_HOME to a folder")
    })?;
    let data = below_home("XDG_DATA_HOME").unwrap_or_else(|| system.data_dir()).join(NAME);
    let state = below_home("XDG_STATE_HOME").or_else(|| system.state_dir());
    let state = state.map_or_else(|| data.join("state"), |state| state.join(NAME));
    let config = below_home("XDG_CONFIG_HOME").unwrap_or_else(|| system.config_dir());
    Ok((BaseFolders { data, state }, config.join(NAME).join("config.toml")))
}

/// Returns the folder of a variable whose value starts with `~/`. The library for system folders ignores such a
/// value, since it expects that a shell has expanded it.
fn below_home(name: &str) -> Option<PathBuf> {
    let value = PathBuf::from(variable(name)?);
    value.starts_with("~").then(|| expand(value))
}

/// Returns an absolute path, with `~` expanded.
fn absolute(current: &Path, path: impl Into<PathBuf>) -> PathBuf {
    current.join(expand(path.into()))
}

/// Expands a leading `~` of a path to the home folder. A client that starts this program from its settings uses no
/// shell that would do so.
pub(crate) fn expand(path: PathBuf) -> PathBuf {
    match (path.strip_prefix("~"), etcetera::home_dir()) {
        (Ok(below), Ok(home)) if below.as_os_str().is_empty() => home,
        (Ok(below), Ok(home)) => home.join(below),
        _ => path,
    }
}

fn binding(
    globals: &Globals,
    settings: &ParsedSettings,
    current: Option<&Path>,
) -> Result<BindingRequest, Failure> {
    let absolute = |path: &PathBuf| absolute(current.unwrap_or(Path::new("")), path);
    let workspace = match globals.workspace_id.as_deref().map(str::parse::<WorkspaceId>) {
        Some(Err(error)) => return Err(Failure::usage(format!("--workspace-id: {error}"))),
        Some(Ok(id)) => WorkspaceChoice::Id(id),
        None => WorkspaceChoice::Checkout,
    };
    let project = match &globals.project {
        _ if globals.agent_folder == AgentFolder::NoProject => None,
        Some(folder) => Some(if let Some(remote) = settings.remote_folder(folder)? {
            remote.into()
        } else {
            let real = files::real_path(&absolute(folder));
            real.map_err(|error| Failure::file("use the project folder", folder, &error))?.into()
        }),
        None => current.map(|current| current.to_owned().into()),
    };
    let project_root = match globals.project_root.or(settings.project_root()) {
        None | Some(ProjectPlace::Repo) => ProjectRoot::Repo,
        Some(ProjectPlace::Host) => ProjectRoot::Host,
    };
    let flat = globals.flat.as_ref().map(absolute);
    if let Some(folder) = flat.as_ref().filter(|path| files::is_not_folder(path)) {
        return Err(Failure::usage(format!("--flat: `{}` is not a folder", folder.display())));
    }
    Ok(BindingRequest { project, project_root, workspace, flat, ..BindingRequest::default() })
}

/// Returns the user's editor as a shell command, if one is set.
pub(crate) fn editor() -> Option<String> {
    let set = variable("VISUAL").or_else(|| variable("EDITOR"));
    set.and_then(|editor| editor.into_string().ok())
}

/// Returns the user's pager; `None` for `cat`.
fn pager() -> Option<Pager> {
    let set = variable("LUKASA_PAGER").or_else(|| variable("PAGER"));
    match set.and_then(|pager| pager.into_string().ok()) {
        Some(pager) if pager == "cat" => None,
        Some(pager) if pager == "less" => Some(less()),
        Some(pager) => Some(Pager::Configured(pager)),
        None => Some(less()),
    }
}

fn less() -> Pager {
    Pager::Less { with_flags: variable("LESS").is_none() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_and_short_paths_are_parsed() {
        fn check(text: &str, layout: Layout, expected: Result<&str, &str>) {
            let read = match parse_path(text, layout) {
                Ok(path) => Ok(path.to_string()),
                Err(Failure::Message(error)) => Err(error.message),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
        }
        let (scoped, flat) = (Layout::Scoped, Layout::Flat);
        check("global/a.md", scoped, Ok("/memories/global/a.md"));
        check("/memories/global/a.md", scoped, Ok("/memories/global/a.md"));
        check(" project/ ", scoped, Ok("/memories/project"));
        check("/memories", scoped, Ok("/memories"));
        check("a.md", flat, Ok("/memories/a.md"));
        check("/memories/a.md", flat, Ok("/memories/a.md"));
        check(
            "prefs.md",
            scoped,
            Err("Invalid memory path /memories/prefs.md: the first folder must be one of the \
                 scopes /memories/global, /memories/project, /memories/workspace"),
        );
        check("/etc/passwd", scoped, Err("Path must start with /memories, got: /etc/passwd"));
        check(
            "global/../x",
            scoped,
            Err("Path /memories/global/../x would escape /memories directory"),
        );
    }
}
