//! The settings in `config.toml`: parsing, validation, and application to the configuration of the engine.
//!
//! Every key is optional. An unknown key, a wrong type or a value out of bounds is an error that
//! names the file and the line, so that no setting is silently without effect.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::{
    Address, Config, DreamSchedule, ImportStyle, ModelJob, ParseAddressError, PlaintextReach,
    RemoteFolder, RemoteHost, SshSettings,
};
use memory::feature::feature;
use memory::path::RelativePath;
use memory::screen::Policy;
use serde::Deserialize;
use toml::Spanned;

use self::embeddings::EmbeddingSettings;
use super::features::{FeatureSetting, NamedFeatures};
use super::runner::RunnerConfig;
use crate::args::{ProjectPlace, RunnerKind};
use crate::exit::Failure;
use crate::files;

mod embeddings;
mod file;
mod models;
mod schema;
mod setting_table;

pub(crate) use self::file::SettingsFile;
pub(crate) use self::schema::schema;
pub(crate) use self::setting_table::help;

const DAY: Duration = Duration::from_hours(24);

/// The folder of Qwen Code's context files, in the home of a user and at the top of a project.
const QWEN_FOLDER: &str = ".qwen";

const MINUTE: Duration = Duration::from_mins(1);

const HOUR: Duration = Duration::from_hours(1);

/// Checks whether a text is a valid name of an environment variable in upper case.
fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The error for an invalid name of a variable. The value is not repeated, since it may be the key itself.
const NO_VARIABLE: &str =
    "key_variable must be the name of an environment variable, such as `OPENAI_API_KEY`";

/// Returns the machines that an `http://` address may name.
const fn allowed_hosts(beyond_this_machine: bool) -> PlaintextReach {
    if beyond_this_machine { PlaintextReach::Network } else { PlaintextReach::ThisMachine }
}

/// Returns the error of an invalid address.
fn wrong_url(url: &str, beyond_this_machine: bool) -> Option<String> {
    let error = Address::parse(url, allowed_hosts(beyond_this_machine)).err()?;
    let help = match error {
        ParseAddressError::NotLocal(_) => ", or set `beyond_this_machine = true`",
        ParseAddressError::Malformed => "",
    };
    Some(format!("{error}{help}"))
}

/// The parsed settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ParsedSettings {
    files_max: Option<usize>,
    start_tokens_max: Option<usize>,
    memory_list: Option<bool>,
    memory_review_interval: Option<u64>,
    memory_review_model: Option<Spanned<String>>,
    memory_review_timeout: Option<u64>,
    memory_review_verbose: Option<bool>,
    project_root: Option<ProjectPlace>,
    runner: Option<Spanned<RunnerKind>>,
    child_idle_seconds: Option<u32>,
    retention: RetentionSettings,
    tasks: TaskSettings,
    dream: DreamSettings,
    context: ContextSettings,
    embeddings: Option<EmbeddingSettings>,
    models: models::ModelSettings,
    screening: ScreeningSettings,
    features: BTreeMap<String, Spanned<bool>>,
    workspace: BTreeMap<String, WorkspaceSettings>,
    ssh: SshTable,
    remotes: BTreeMap<String, RemoteSettings>,
    /// The features in the settings, with their lines.
    #[serde(skip)]
    set: NamedFeatures,
}

/// Settings for reaching other machines.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SshTable {
    command: Option<Spanned<Vec<String>>>,
    client_hosts: Option<Spanned<Vec<String>>>,
}

/// A short name for a folder on another machine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoteSettings {
    address: Spanned<String>,
}

/// The beginning of a project that is a short name of the settings.
const REMOTE_NAME: &str = "remote:";

/// The settings of a single workspace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct WorkspaceSettings {
    features: BTreeMap<String, Spanned<bool>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RetentionSettings {
    days: Option<u32>,
    mib: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TaskSettings {
    kept_minutes: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct DreamSettings {
    schedule: bool,
    every_hours: Option<u32>,
    after_sessions: Option<u32>,
}

impl DreamSettings {
    /// Returns the schedule of dreams, if it is on.
    fn read(&self) -> Option<DreamSchedule> {
        let mut schedule = DreamSchedule::default();
        if let Some(hours) = self.every_hours {
            schedule.every = HOUR * hours;
        }
        if let Some(sessions) = self.after_sessions {
            schedule.after_sessions = sessions;
        }
        self.schedule.then_some(schedule)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ContextSettings {
    file_names: Option<Spanned<FileNames>>,
    profile: Option<Profile>,
    include: Option<Spanned<Vec<PathBuf>>>,
    files: Option<Spanned<Vec<PathBuf>>>,
    imports: Option<Imports>,
}

/// The product whose own context files are loaded too.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Profile {
    Qwen,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Imports {
    Tree,
    Flat,
}

impl ContextSettings {
    /// Returns the first setting with a relative path, if there is one.
    fn relative_path(&self) -> Option<(&'static str, Range<usize>)> {
        let settings = [("include", &self.include), ("files", &self.files)];
        let is_fixed = |path: &PathBuf| path.is_absolute() || path.starts_with("~");
        settings.into_iter().find_map(|(name, paths)| {
            let paths = paths.as_ref()?;
            let is_wrong = paths.get_ref().iter().any(|path| !is_fixed(path));
            is_wrong.then(|| (name, paths.span()))
        })
    }

    /// Applies the settings to a configuration.
    fn apply(&self, config: &mut Config) {
        let context = &mut config.context;
        if let Some(names) = self.file_names.as_ref().and_then(|names| names.get_ref().read()) {
            context.names = names;
        }
        let home = context.home.clone();
        let fixed = |path: &PathBuf| match (path.strip_prefix("~"), &home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => path.clone(),
        };
        let all = |paths: &Option<Spanned<Vec<PathBuf>>>| {
            paths.iter().flat_map(Spanned::get_ref).map(fixed).collect::<Vec<_>>()
        };
        context.included = all(&self.include);
        context.files = all(&self.files);
        if let Some(Profile::Qwen) = self.profile {
            context.other_product_folders.extend(home.map(|home| home.join(QWEN_FOLDER)));
            context.project_folders.push(QWEN_FOLDER.to_owned());
        }
        config.imports = match self.imports {
            None | Some(Imports::Tree) => ImportStyle::Tree,
            Some(Imports::Flat) => ImportStyle::Flat,
        };
    }
}

#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "a file name, or a list of them")]
enum FileNames {
    One(String),
    Several(Vec<String>),
}

impl FileNames {
    /// Returns the names without blank ones; `None` if one is not a valid file name.
    fn read(&self) -> Option<Vec<RelativePath>> {
        let names = match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        };
        let names = names.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        let name = |name| RelativePath::parse(name).ok().filter(|name| name.depth() == 1);
        names.map(name).collect()
    }
}

/// The number of hex digits of a SHA-256 digest.
const DIGEST_DIGITS: usize = 64;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScreeningSettings {
    allowed: Option<Spanned<Vec<String>>>,
    policies: BTreeMap<String, Spanned<String>>,
}

impl ParsedSettings {
    /// Reads the settings file; a missing file has no settings.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        match files::read_optional(path) {
            Ok(None) => Ok(Self::default()),
            Ok(Some(text)) => Self::parse(&text, path),
            Err(error) => Err(Failure::file("read the settings", path, &error)),
        }
    }

    /// Parses settings from a text; errors name `path`.
    pub(crate) fn parse(text: &str, path: &Path) -> Result<Self, Failure> {
        // Some editors write a byte order mark at the start of a file.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let wrong = |span: Option<Range<usize>>, what: &str| {
            let location = match span {
                Some(span) => format!("{}:{}", path.display(), line_of(text, span.start)),
                None => path.display().to_string(),
            };
            Failure::usage(format!("{location}: {what}")).help("`lukasa --help` lists the settings")
        };
        let mut settings: Self =
            toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
        settings.set = settings.named_features(text, &wrong)?;
        if let Some(names) = &settings.context.file_names
            && names.get_ref().read().is_none()
        {
            let what = "context.file_names must be file names, without folders and not hidden";
            return Err(wrong(Some(names.span()), what));
        }
        if let Some((name, span)) = settings.context.relative_path() {
            let what = format!("context.{name} must be paths that start with `/` or `~/`");
            return Err(wrong(Some(span), &what));
        }
        let mistakes = [
            setting_table::out_of_bounds(text),
            settings.embeddings.as_ref().and_then(EmbeddingSettings::validation_error),
            settings.models.validation_error(),
            settings.wrong_review_model(),
            settings.wrong_runner(),
            settings.wrong_remote(),
        ];
        if let Some((span, what)) = mistakes.into_iter().flatten().next() {
            return Err(wrong(Some(span), &what));
        }
        let is_digest = |text: &String| {
            text.len() == DIGEST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if let Some(allowed) = &settings.screening.allowed
            && !allowed.get_ref().iter().all(is_digest)
        {
            let what =
                format!("screening.allowed must be SHA-256 digests of {DIGEST_DIGITS} hex digits");
            return Err(wrong(Some(allowed.span()), &what));
        }
        for policy in settings.screening.policies.values() {
            if policy.get_ref().parse::<Policy>().is_err() {
                let what = "a screening policy must be `off`, `warn` or `refuse`";
                return Err(wrong(Some(policy.span()), what));
            }
        }
        Ok(settings)
    }

    /// Returns the error of an unsupported runner, with its range.
    fn wrong_runner(&self) -> Option<(Range<usize>, String)> {
        let kind = self.runner.as_ref().filter(|kind| *kind.get_ref() == RunnerKind::Child)?;
        let what = "this program was built without child processes".to_owned();
        (!cfg!(feature = "child")).then(|| (kind.span(), what))
    }

    /// Returns the error of the first invalid remote setting, with its range.
    fn wrong_remote(&self) -> Option<(Range<usize>, String)> {
        if let Some(command) =
            self.ssh.command.as_ref().filter(|command| command.get_ref().is_empty())
        {
            return Some((command.span(), "ssh.command must begin with a program".to_owned()));
        }
        if let Some(hosts) = &self.ssh.client_hosts
            && let Some(error) =
                hosts.get_ref().iter().find_map(|host| host.parse::<RemoteHost>().err())
        {
            return Some((hosts.span(), format!("ssh.client_hosts: {error}")));
        }
        self.remotes.iter().find_map(|(name, RemoteSettings { address })| {
            let error = address.get_ref().parse::<RemoteFolder>().err()?;
            Some((address.span(), format!("remotes.{name}.address: {error}")))
        })
    }

    /// Returns the settings for reaching other machines.
    pub(crate) fn ssh(&self) -> SshSettings {
        match &self.ssh.command {
            Some(command) => {
                let command = command.get_ref().iter().map(Into::into).collect();
                SshSettings { command, wait_max: None }
            }
            None => SshSettings::default(),
        }
    }

    /// Returns the machines whose folders an MCP client may name as its roots.
    pub(crate) fn remote_hosts(&self) -> Vec<RemoteHost> {
        let hosts = self.ssh.client_hosts.iter().flat_map(Spanned::get_ref);
        let host =
            |host: &String| host.parse().expect("the settings were checked when they were read");
        hosts.map(host).collect()
    }

    /// Returns the folder of another machine that a project argument names, if it names one: by its address, or by a
    /// name of the settings.
    pub(crate) fn remote_folder(&self, project: &Path) -> Result<Option<RemoteFolder>, Failure> {
        let Some(text) = project.to_str() else { return Ok(None) };
        if let Some(name) = text.strip_prefix(REMOTE_NAME) {
            let named = self.remotes.get(name).ok_or_else(|| {
                Failure::usage(format!("--project: the settings have no remote `{name}`"))
                    .help(format!("add `[remotes.{name}]` with an `address` to the settings"))
            })?;
            let folder = named.address.get_ref().parse();
            return Ok(Some(folder.expect("the settings were checked when they were read")));
        }
        if !RemoteFolder::is_address(text) {
            return Ok(None);
        }
        let folder = text.parse::<RemoteFolder>();
        let folder = folder.map_err(|error| Failure::usage(format!("--project: {error}")))?;
        Ok(Some(folder))
    }

    /// Returns the settings of task runners.
    pub(crate) fn runners(&self) -> RunnerConfig {
        let (key_variables, has_key_command) = self.models.keys();
        RunnerConfig {
            kind: self.runner.as_ref().map(|kind| *kind.get_ref()),
            idle_seconds: self.child_idle_seconds,
            key_variables,
            has_key_command,
        }
    }

    /// Applies the settings to a configuration. `variable` returns an environment variable.
    pub(crate) fn apply(&self, config: &mut Config, variable: impl Fn(&str) -> Option<String>) {
        if let Some(files_max) = self.files_max {
            config.files_max = files_max;
        }
        if let Some(tokens) = self.start_tokens_max {
            config.start_tokens_max = tokens;
        }
        if let Some(memory_list) = self.memory_list {
            config.memory_list = memory_list;
        }
        if let Some(days) = self.retention.days {
            config.retention.age = DAY * days;
        }
        if let Some(mib) = self.retention.mib {
            config.retention.bytes = u64::from(mib) * 1024 * 1024;
        }
        if let Some(minutes) = self.tasks.kept_minutes {
            config.tasks_kept_for = MINUTE * minutes;
        }
        config.dream = self.dream.read();
        config.ssh = self.ssh();
        self.context.apply(config);
        config.embeddings = self.embeddings.as_ref().and_then(|set| set.read(&variable));
        config.models = self.models.read(&variable);
        self.apply_review(config, &variable);
        for (rule, policy) in &self.screening.policies {
            if let Ok(policy) = policy.get_ref().parse() {
                config.screening.insert(rule.clone(), policy);
            }
        }
        if let Some(allowed) = &self.screening.allowed {
            config.screening_allowed.clone_from(allowed.get_ref());
        }
    }

    /// Returns the name of the model of reviews, if it is set.
    fn review_model(&self) -> Option<&Spanned<String>> {
        self.memory_review_model.as_ref().filter(|named| !named.get_ref().is_empty())
    }

    /// Returns the error of an invalid model of reviews, with its range.
    fn wrong_review_model(&self) -> Option<(Range<usize>, String)> {
        let named = self.review_model()?;
        let what = self.models.parse(named.get_ref()).err()?;
        Some((named.span(), format!("memory_review_model: {what}")))
    }

    fn apply_review(&self, config: &mut Config, variable: &impl Fn(&str) -> Option<String>) {
        if let Some(turns) = self.memory_review_interval {
            config.review.interval = turns;
        }
        if let Some(seconds) = self.memory_review_timeout {
            config.review.wait = Duration::from_secs(seconds);
        }
        config.review.verbose = self.memory_review_verbose.unwrap_or_default();
        if let Some(named) = self.review_model() {
            let chat = self.models.chat_by_name(named.get_ref(), variable);
            config.models.set(ModelJob::Review, chat);
        }
    }

    /// Parses the features, for all workspaces and by workspace.
    fn named_features(
        &self,
        text: &str,
        wrong: &dyn Fn(Option<Range<usize>>, &str) -> Failure,
    ) -> Result<NamedFeatures, Failure> {
        let named = |named: &BTreeMap<String, Spanned<bool>>, may_add: bool| {
            let set = |(name, value): (&String, &Spanned<bool>)| {
                let (is_on, span) = (*value.get_ref(), value.span());
                let feature =
                    feature(name).map_err(|error| wrong(Some(span.clone()), &error.to_string()))?;
                if is_on && !may_add {
                    let what = "a workspace can only turn features off that are on everywhere";
                    return Err(wrong(Some(span), what));
                }
                Ok(FeatureSetting { feature, is_on, line: line_of(text, span.start) })
            };
            named.iter().map(set).collect::<Result<Vec<_>, Failure>>()
        };
        let of_workspace =
            |(id, of): (&String, &WorkspaceSettings)| Ok((id.clone(), named(&of.features, false)?));
        let workspaces = self.workspace.iter().map(of_workspace);
        Ok((named(&self.features, true)?, workspaces.collect::<Result<_, Failure>>()?))
    }

    /// Returns the features in the settings, with their lines.
    pub(crate) fn features(&self) -> NamedFeatures {
        self.set.clone()
    }

    /// Returns the place of project memories, if it is set.
    pub(crate) const fn project_root(&self) -> Option<ProjectPlace> {
        self.project_root
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.bytes().take(offset);
    1 + before.filter(|&byte| byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::BaseFolders;
    use memory::limits::{EMBED_BATCH_DEFAULT, EMBED_WAIT_DEFAULT};

    fn config(text: &str) -> Result<Config, String> {
        let folders = BaseFolders { data: "d".into(), state: "s".into() };
        let mut config = Config::new(folders);
        config.context.home = Some("/h".into());
        match ParsedSettings::parse(text, Path::new("config.toml")) {
            Ok(settings) => {
                let variable = |name: &str| (name == "MY_KEY").then(|| "k-123".to_owned());
                settings.apply(&mut config, variable);
                Ok(config)
            }
            Err(Failure::Message(error)) => Err(error.message),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn settings_replace_the_defaults() {
        let text = "\
            files_max = 5000\n\
            memory_list = false\n\
            [retention]\n\
            days = 30\n\
            mib = 64\n\
            [tasks]\n\
            kept_minutes = 5\n\
            [dream]\n\
            schedule = true\n\
            every_hours = 48\n\
            after_sessions = 0\n\
            [context]\n\
            file_names = [\"CLAUDE.md\", \" \", \"a.txt\"]\n\
            profile = \"qwen\"\n\
            include = [\"/rules\", \"~/rules\"]\n\
            files = [\"~/me.md\"]\n\
            imports = \"flat\"\n\
            [screening]\n\
            allowed = [\"0000000000000000000000000000000000000000000000000000000000000000\"]\n\
            [screening.policies]\n\
            \"secrets.jwt\" = \"warn\"\n";
        let marked = config(&format!("\u{feff}{text}")).unwrap();
        assert_eq!(marked.files_max, 5000, "a byte order mark is no part of a setting");
        let config = config(text).unwrap();
        assert_eq!(config.files_max, 5000);
        assert!(!config.memory_list);
        assert_eq!(config.retention.age, 30 * DAY);
        assert_eq!(config.retention.bytes, 64 * 1024 * 1024);
        assert_eq!(config.tasks_kept_for, 5 * MINUTE);
        assert_eq!(config.dream, Some(DreamSchedule { every: 48 * HOUR, after_sessions: 0 }));
        let names: Vec<_> = config.context.names.iter().map(RelativePath::as_str).collect();
        assert_eq!(names, ["CLAUDE.md", "a.txt"]);
        assert_eq!(config.context.other_product_folders, [Path::new("/h/.qwen")]);
        assert_eq!(config.context.project_folders, [".qwen"]);
        assert_eq!(config.context.included, [Path::new("/rules"), Path::new("/h/rules")]);
        assert_eq!(config.context.files, [Path::new("/h/me.md")]);
        assert_eq!(config.imports, ImportStyle::Flat);
        assert_eq!(config.screening_allowed, ["0".repeat(DIGEST_DIGITS)]);
        assert_eq!(config.screening.get("secrets.jwt"), Some(&Policy::Warn));
    }

    #[test]
    fn scheduled_dreams_are_off_by_default() {
        assert_eq!(config("").unwrap().dream, None);
        assert_eq!(config("[dream]\nevery_hours = 24\nafter_sessions = 5\n").unwrap().dream, None);
        let on = config("[dream]\nschedule = true\n").unwrap().dream.unwrap();
        assert_eq!((on.every, on.after_sessions), (24 * HOUR, 5));
    }

    #[test]
    fn an_endpoint_is_used_only_if_it_is_set() {
        assert!(config("").unwrap().embeddings.is_none());
        let named = "[embeddings]\nurl = \"http://127.0.0.1:11434/v1/\"\nmodel = \"small\"\n";
        let set = config(named).unwrap().embeddings.unwrap();
        assert_eq!((set.wait, set.batch), (EMBED_WAIT_DEFAULT, EMBED_BATCH_DEFAULT));
        assert_eq!(set.endpoint.name(), "127.0.0.1:11434/v1 small");
        let all = format!("{named}key_variable = \"MY_KEY\"\ntimeout_ms = 500\nbatch = 8\n");
        let set = config(&all).unwrap().embeddings.unwrap();
        assert_eq!((set.wait, set.batch), (Duration::from_millis(500), 8));
        assert!(!format!("{set:?}").contains("k-123"), "{set:?}");
    }

    #[test]
    fn errors_of_an_endpoint_name_the_setting_and_never_repeat_a_key() {
        let check = |lines: &str, expected: &str| {
            let what = config(&format!("[embeddings]\n{lines}")).unwrap_err();
            assert!(what.starts_with(expected), "{what}");
            assert!(!what.contains("sk-1"), "{what}");
        };
        let set = "url = 'http://localhost:1/v1'\nmodel = 'm'\n";
        let with = |line: &str| format!("{set}{line}\n");
        check("", "config.toml:1: missing field `url`");
        check("url = 'http://localhost:1'\n", "config.toml:1: missing field `model`");
        check(&with("key = 'sk-1'"), "config.toml:4: unknown field `key`");
        check(&with("key_variable = 'sk-1'"), "config.toml:4: embeddings.key_variable must be");
        check(
            &with("timeout_ms = 0"),
            "config.toml:4: embeddings.timeout_ms must be from 1 to 60000",
        );
        check(&with("batch = 257"), "config.toml:4: embeddings.batch must be from 1 to 256");
        check("url = 'http://localhost:1'\nmodel = ' '\n", "config.toml:3: embeddings.model must");
        let of = |url: &str| format!("model = 'm'\nurl = '{url}'\n");
        check(
            &of("http://models.internal/v1"),
            "config.toml:3: embeddings.url: `models.internal` is another machine",
        );
        check(&of("127.0.0.1:11434"), "config.toml:3: embeddings.url: a server address looks like");
        let far = of("http://models.internal/v1") + "beyond_this_machine = true\n";
        assert!(config(&format!("[embeddings]\n{far}")).unwrap().embeddings.is_some());
        let encrypted = of("https://api.example.com/v1");
        let set = config(&format!("[embeddings]\n{encrypted}")).unwrap().embeddings.unwrap();
        assert_eq!(set.endpoint.name(), "api.example.com/v1 m");
    }

    #[test]
    fn errors_name_file_and_line() {
        fn check(text: &str, expected: &str) {
            let what = config(text).unwrap_err();
            assert!(what.starts_with(expected), "{what}");
        }
        check("memory_list = true\nfile_max = 3\n", "config.toml:2: unknown field `file_max`");
        check("[retention]\nday = 3\n", "config.toml:2: unknown field `day`");
        check("files_max = 'x'\n", "config.toml:1: invalid type");
        check("\u{feff}files_max = 'x'\n", "config.toml:1: invalid type");
        check("\n\nfiles_max = 0\n", "config.toml:3: files_max must be from 1 to 100000");
        check("files_max = 1000000\n", "config.toml:1: files_max must be from 1 to 100000");
        check("[retention]\ndays = 40000\n", "config.toml:2: retention.days must be at most 36500");
        check("[retention]\ndays = -1\n", "config.toml:2: invalid value");
        check(
            "[tasks]\nkept_minutes = 0\n",
            "config.toml:2: tasks.kept_minutes must be from 1 to 43200",
        );
        check(
            "[screening]\nallowed = ['00']\n",
            "config.toml:2: screening.allowed must be SHA-256",
        );
        check("[dream]\nevery_hours = 0\n", "config.toml:2: dream.every_hours must be from 1 to");
        check("[dream]\nschedule = 'daily'\n", "config.toml:2: invalid type");
        check("[tasks]\nkept_hours = 1\n", "config.toml:2: unknown field `kept_hours`");
        check("[context]\nfile_names = 3\n", "config.toml:2: a file name, or a list of them");
        for name in ["a/b.md", ".hidden.md", "..", "a\\nb"] {
            let text = format!("[context]\nfile_names = [\"AGENTS.md\", \"{name}\"]\n");
            check(&text, "config.toml:2: context.file_names must be file names, without folders");
        }
        check("[context]\nprofile = 'other'\n", "config.toml:2: unknown variant `other`");
        check(
            "[context]\n\nfiles = ['me.md']\n",
            "config.toml:3: context.files must be paths that start with `/` or `~/`",
        );
        check("project_root = 'cloud'\n", "config.toml:1: unknown variant `cloud`");
        check("runner = 'thread'\n", "config.toml:1: unknown variant `thread`");
        check(
            "child_idle_seconds = 86401\n",
            "config.toml:1: child_idle_seconds must be at most 86400",
        );
        check(
            "[screening.policies]\nsecrets = 'never'\n",
            "config.toml:2: a screening policy must be `off`, `warn` or `refuse`",
        );
        check("files_max = = 2", "config.toml:1: ");
    }
}
