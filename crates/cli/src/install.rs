//! What an agent has to be told to use Lukasa: which of its files say it, and what they say.
//!
//! Everything here is text in, text out; reading, asking and writing is
//! [`commands::install`](crate::commands)'s. What is ours is known by what it calls, so that it is found again
//! however a person edited around it. Each edit is read again before it counts: what comes out must mean what
//! the file meant before, and our entry, and nothing else.

use serde_json::Value;

use crate::install::entry::ConfigValue;
use crate::install::jsonc::PathStep;
use crate::install::record::{PriorSetting, Replacement};

pub(crate) mod agents;
pub(crate) mod entry;
mod hook;
mod jsonc;
mod plugin;
pub(crate) mod record;
mod server;
mod toml;

/// The name under which agents know the MCP server.
const SERVER: &str = "lukasa";

/// The shell words before a hook's command in a project: a machine without the program runs nothing.
pub(crate) const GUARD: &str = "! command -v lukasa >/dev/null 2>&1 || ";

/// How a file says things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigPart {
    /// The MCP server, as a member of the JSON object under this name.
    Server {
        /// The name of the object that holds servers.
        servers: &'static str,
        /// The program.
        program: String,
        /// What it is called with.
        args: Vec<String>,
        /// How the agent writes a server.
        form: ServerForm,
        /// Further members of the server.
        members: Vec<(&'static str, ConfigValue)>,
    },
    /// A hook, in the JSON object `hooks`.
    Hook {
        /// The agent's name of the event.
        event: &'static str,
        /// What the agent's shell runs.
        command: String,
        /// When the agent gives up, in its own unit.
        timeout: u64,
        /// How the agent writes a hook.
        form: HookForm,
    },
    /// The MCP server, as a table of TOML.
    TomlServer {
        /// The program.
        program: String,
        /// Variables that the agent would not hand on by itself.
        variables: Vec<&'static str>,
        /// Whether the agent runs the tools without asking.
        approved: bool,
    },
    /// A setting of the agent's own, by the names on the way to it.
    Setting {
        /// The names.
        at: &'static [&'static str],
        /// The value.
        value: SettingEdit,
    },
    /// The version of a file that holds our hooks alone.
    Version,
    /// A plugin, which is all of its file.
    Plugin {
        /// The program that it calls.
        program: String,
    },
}

/// The form in which an agent writes an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerForm {
    /// `command` and `args`.
    Plain,
    /// The same, and `"type": "stdio"`.
    Typed,
    /// Program and arguments in one list, as opencode has it.
    OneList,
    /// The tools that may be used beside it, as Copilot CLI has it.
    Tools,
    /// Within `transport`, as Cline has it.
    Transport,
}

/// The form in which an agent writes a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookForm {
    /// In a group of handlers.
    Grouped,
    /// In a group of handlers that have names.
    Named,
    /// By itself, as Copilot CLI has it.
    Flat,
    /// By itself, as Cursor has it.
    Bare,
}

/// A value of an agent's setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingEdit {
    /// `false`.
    Off,
    /// A text among others in a list.
    InList(&'static str),
}

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// The file is not what the agent reads.
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// Something else stands where our entry belongs.
    Shape(String),
    /// The edit would not have come out as meant.
    Form(String),
}

impl ConfigError {
    /// Returns what is wrong, for a person.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Syntax { line, what } => format!("line {line}: {what}"),
            Self::Shape(at) => format!("`{at}` is not of the kind that the agent reads there"),
            Self::Form(at) => format!("`{at}` is written in a form that is not edited here"),
        }
    }
}

/// What became of a file's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EditedText {
    /// The text; `None` when nothing is left of it.
    pub(crate) text: Option<String>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
    /// How many of our entries were changed.
    pub(crate) counts: Counts,
    /// The bytes that were replaced, the last ones first.
    pub(crate) replaced: Vec<Replacement>,
    /// Settings of the agent's own that were changed, with the values before.
    pub(crate) settings: Vec<PriorSetting>,
}

/// Numbers of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Hooks.
    pub(crate) hooks: usize,
    /// Plugins.
    pub(crate) plugins: usize,
    /// MCP servers.
    pub(crate) servers: usize,
    /// Settings of the agent's own.
    pub(crate) settings: usize,
}

impl Counts {
    fn add(&mut self, part: &ConfigPart) {
        match part {
            ConfigPart::Server { .. } | ConfigPart::TomlServer { .. } => self.servers += 1,
            ConfigPart::Hook { .. } => self.hooks += 1,
            ConfigPart::Plugin { .. } => self.plugins += 1,
            ConfigPart::Setting { .. } => self.settings += 1,
            ConfigPart::Version => {}
        }
    }
}

/// Returns a file's text with our entries, as few bytes changed as that takes.
///
/// What is there already stays as a person left it; only the program it calls is brought up to date.
pub(crate) fn install(text: Option<&str>, parts: &[ConfigPart]) -> Result<EditedText, ConfigError> {
    let mut edited = EditedText { text: text.map(str::to_owned), ..EditedText::default() };
    for part in parts {
        let before = edited.text.clone().unwrap_or_default();
        let after = match part {
            ConfigPart::Server { .. } => server::add(&before, part)?,
            ConfigPart::Hook { event, .. } => hook::add(&before, event, part)?,
            ConfigPart::TomlServer { program, variables, approved } => {
                let server = toml::CodexServer { program, variables, approved: *approved };
                toml::add(&before, &server)?
            }
            ConfigPart::Setting { at, value } => {
                let (after, prior) = put_setting(&before, at, *value)?;
                edited.settings.extend(prior);
                Some(after)
            }
            ConfigPart::Version => Some(put_version(&before)?),
            ConfigPart::Plugin { program } => plugin::add(&before, program),
        };
        match after {
            Some(after) if after != before || edited.text.is_none() => {
                edited.counts.add(part);
                edited.replaced.insert(0, Replacement::between(&before, &after));
                edited.text = Some(after);
            }
            Some(_) => {}
            None => edited.notes.extend(foreign_entry(part)),
        }
    }
    Ok(edited)
}

/// Returns a file's text without our entries, and without what held nothing else. Settings of the agent's own get
/// the values back that they had before `install`.
pub(crate) fn uninstall(
    text: &str,
    parts: &[ConfigPart],
    priors: &[PriorSetting],
) -> Result<EditedText, ConfigError> {
    let mut edited = EditedText::default();
    let mut left = text.to_owned();
    for part in parts {
        let without = match part {
            ConfigPart::Server { .. } => server::remove(&left, part)?,
            ConfigPart::Hook { event, .. } => Some(hook::remove(left.clone(), event)?),
            ConfigPart::TomlServer { .. } => Some(toml::remove(&left)?),
            ConfigPart::Setting { at, value } => Some(restore_setting(&left, at, *value, priors)?),
            ConfigPart::Version => Some(remove_version(&left)?),
            ConfigPart::Plugin { .. } => plugin::remove(&left),
        };
        match without {
            Some(without) if without != left => {
                edited.counts.add(part);
                left = without;
            }
            Some(_) => {}
            None => edited.notes.extend(foreign_entry(part)),
        }
    }
    let empty = left != text && matches!(left.trim(), "" | "{}");
    edited.text = (!empty).then_some(left);
    Ok(edited)
}

/// Returns what is left of a file that was there before and says nothing without these parts; `None` if it goes.
pub(crate) fn emptied_text(parts: &[ConfigPart]) -> Option<String> {
    match parts.first() {
        Some(ConfigPart::Plugin { .. }) => None,
        Some(ConfigPart::TomlServer { .. }) => Some(String::new()),
        _ => Some("{}\n".to_owned()),
    }
}

fn foreign_entry(part: &ConfigPart) -> Option<String> {
    let servers = match part {
        ConfigPart::Server { servers, .. } => servers,
        ConfigPart::TomlServer { .. } => toml::SERVERS,
        ConfigPart::Plugin { .. } => {
            return Some("`lukasa.js` is another plugin; it stays".to_owned());
        }
        ConfigPart::Hook { .. } | ConfigPart::Setting { .. } | ConfigPart::Version => return None,
    };
    Some(format!("`{servers}.{SERVER}` calls another program; it stays as it is"))
}

fn is_our_program(program: &str) -> bool {
    std::path::Path::new(program).file_name().is_some_and(|name| name == SERVER)
}

fn member_steps<'a>(at: &[&'a str]) -> Vec<PathStep<'a>> {
    at.iter().map(|name| PathStep::Member(name)).collect()
}

fn value_at<'v>(value: &'v Value, at: &[&str]) -> Option<&'v Value> {
    at.iter().try_fold(value, |value, name| value.get(name))
}

/// Sets a setting, and returns its value before if that differs.
fn put_setting(
    text: &str,
    at: &'static [&'static str],
    setting: SettingEdit,
) -> Result<(String, Option<PriorSetting>), ConfigError> {
    let value = jsonc::read(text)?;
    let there = value_at(&value, at);
    let mut steps = member_steps(at);
    let entry = match setting {
        SettingEdit::Off if there == Some(&Value::Bool(false)) => {
            return Ok((text.to_owned(), None));
        }
        SettingEdit::Off => ConfigValue::Bool(false),
        SettingEdit::InList(item) => {
            let items = there.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if items.iter().any(|there| there == item) {
                return Ok((text.to_owned(), None));
            }
            steps.push(PathStep::New);
            ConfigValue::text(item)
        }
    };
    let prior = PriorSetting::new(
        at,
        match setting {
            SettingEdit::Off => there.and_then(Value::as_bool),
            SettingEdit::InList(_) => None,
        },
    );
    Ok((jsonc::insert(text, &steps, &entry)?, Some(prior)))
}

/// Gives a setting that `install` changed its value back, unless a person changed it since.
fn restore_setting(
    text: &str,
    at: &[&str],
    setting: SettingEdit,
    priors: &[PriorSetting],
) -> Result<String, ConfigError> {
    let Some(prior) = priors.iter().find(|prior| prior.at == at) else {
        return Ok(text.to_owned());
    };
    let value = jsonc::read(text)?;
    let there = value_at(&value, at);
    let mut steps = member_steps(at);
    match setting {
        SettingEdit::Off if there == Some(&Value::Bool(false)) => match prior.value {
            Some(before) => jsonc::insert(text, &steps, &ConfigValue::Bool(before)),
            None => jsonc::remove(text, &steps),
        },
        SettingEdit::Off => Ok(text.to_owned()),
        SettingEdit::InList(item) => {
            let items = there.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let Some(index) = items.iter().rposition(|there| there == item) else {
                return Ok(text.to_owned());
            };
            steps.push(PathStep::Element(index));
            jsonc::remove(text, &steps)
        }
    }
}

fn put_version(text: &str) -> Result<String, ConfigError> {
    if jsonc::read(text)?.get("version").is_some() {
        return Ok(text.to_owned());
    }
    jsonc::insert(text, &[PathStep::Member("version")], &ConfigValue::Number(1))
}

/// Removes the version if the file says nothing else.
fn remove_version(text: &str) -> Result<String, ConfigError> {
    if jsonc::read(text)? == serde_json::json!({ "version": 1 }) {
        return jsonc::remove(text, &[PathStep::Member("version")]);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
