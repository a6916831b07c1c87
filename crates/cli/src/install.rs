//! Edits of the configuration files of agents, which make an agent use Lukasa.
//!
//! This module maps text to text; [`commands::install`](crate::commands) reads files, asks the user and writes. Our
//! entries are recognized by the program they call, so that they are found after a user has edited the file. Each
//! edited text is parsed again before it is used: it must hold the earlier values and our entry, and nothing else.

use serde_json::Value;

pub(crate) use self::git::selects_driver;
use crate::install::entry::ConfigValue;
use crate::install::jsonc::PathStep;
use crate::install::record::{PriorSetting, Replacement};

pub(crate) mod agents;
pub(crate) mod entry;
mod git;
mod hook;
mod jsonc;
mod plugin;
pub(crate) mod record;
mod server;
mod toml;

/// The name of the MCP server in the settings of agents.
const SERVER: &str = "lukasa";

/// The shell words before the command of a project's hook: a machine without the program runs nothing.
pub(crate) const GUARD: &str = "! command -v lukasa >/dev/null 2>&1 || ";

/// A part of a configuration file that belongs to Lukasa.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigPart {
    /// The MCP server, as a member of the JSON object under this name.
    Server {
        /// The name of the object that holds servers.
        servers: &'static str,
        /// The path or name of the program.
        program: String,
        /// The arguments of the program.
        args: Vec<String>,
        /// The form of a server entry.
        form: ServerForm,
        /// Further members of the server.
        members: Vec<(&'static str, ConfigValue)>,
    },
    /// A hook, in the JSON object `hooks`.
    Hook {
        /// The agent's name of the event.
        event: &'static str,
        /// The shell command.
        command: String,
        /// The timeout, in the agent's unit.
        timeout: u64,
        /// The form of a hook entry.
        form: HookForm,
    },
    /// The MCP server, as a table of TOML.
    TomlServer {
        /// The path or name of the program.
        program: String,
        /// Environment variables that the agent does not pass on by itself.
        variables: Vec<&'static str>,
        /// Whether the agent runs the tools without asking.
        approved: bool,
    },
    /// A setting of the agent's own.
    Setting {
        /// The names of the members that lead to it.
        at: &'static [&'static str],
        /// The new value.
        value: SettingEdit,
    },
    /// The version of a file that holds only our hooks.
    Version,
    /// A plugin, which is a whole file.
    Plugin {
        /// The path or name of the program that it calls.
        program: String,
    },
    /// The merge driver, as a line of git's attributes.
    GitAttributes,
    /// The merge driver, as a section of git's configuration.
    GitDriver {
        /// The path or name of the program that git calls.
        program: String,
    },
}

/// The form in which an agent writes an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerForm {
    /// `command` and `args`.
    Plain,
    /// `command`, `args` and `"type": "stdio"`.
    Typed,
    /// Program and arguments in one list, as opencode has it.
    OneList,
    /// With a list of the allowed tools, as Copilot CLI has it.
    Tools,
    /// Inside `transport`, as Cline has it.
    Transport,
}

/// The form in which an agent writes a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HookForm {
    /// In a group of handlers.
    Grouped,
    /// In a group of handlers that have names.
    Named,
    /// Without a group, with `bash` and `timeoutSec`, as Copilot CLI has it.
    Flat,
    /// Without a group, with `command` and `timeout`, as Cursor has it.
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

/// The reason why a file is not edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigError {
    /// The file cannot be parsed.
    Syntax {
        /// The line, counted from 1.
        line: usize,
        /// The error of the parser.
        what: String,
    },
    /// The parent of our entry has another type; with its name.
    Shape(String),
    /// The edited text would have another meaning than intended; with the name of our entry.
    Form(String),
}

impl ConfigError {
    /// Returns the reason as text.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Syntax { line, what } => format!("line {line}: {what}"),
            Self::Shape(at) => format!("`{at}` has a type that the agent does not read"),
            Self::Form(at) => format!("`{at}` is written in a form that cannot be edited"),
        }
    }
}

/// The result of an edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct EditedText {
    /// The text; `None` if nothing remains.
    pub(crate) text: Option<String>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
    /// The numbers of changed entries.
    pub(crate) counts: Counts,
    /// The bytes that were replaced, last edit first.
    pub(crate) replaced: Vec<Replacement>,
    /// The changed settings of the agent's own, with their earlier values.
    pub(crate) settings: Vec<PriorSetting>,
}

/// Numbers of changed entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Changed hooks.
    pub(crate) hooks: usize,
    /// Changed plugins.
    pub(crate) plugins: usize,
    /// Changed MCP servers.
    pub(crate) servers: usize,
    /// Changed settings of the agent's own.
    pub(crate) settings: usize,
}

impl Counts {
    fn add(&mut self, part: &ConfigPart) {
        match part {
            ConfigPart::Server { .. } | ConfigPart::TomlServer { .. } => self.servers += 1,
            ConfigPart::Hook { .. } => self.hooks += 1,
            ConfigPart::Plugin { .. } => self.plugins += 1,
            ConfigPart::Setting { .. }
            | ConfigPart::GitAttributes
            | ConfigPart::GitDriver { .. } => self.settings += 1,
            ConfigPart::Version => {}
        }
    }
}

/// Returns the text of a file with our entries added; as few bytes as possible change.
///
/// Entries of ours that exist keep the form that a user gave them; only the program is updated.
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
            ConfigPart::GitAttributes => Some(git::add_attributes(&before)),
            ConfigPart::GitDriver { program } => git::add_driver(&before, program),
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

/// Returns the text of a file without our entries and without the containers that held nothing else. Settings of the
/// agent's own get the values back that they had before `install`.
pub(crate) fn uninstall(
    text: &str,
    parts: &[ConfigPart],
    priors: &[PriorSetting],
) -> Result<EditedText, ConfigError> {
    let mut edited = EditedText::default();
    let mut rest = text.to_owned();
    for part in parts {
        let without = match part {
            ConfigPart::Server { .. } => server::remove(&rest, part)?,
            ConfigPart::Hook { event, .. } => Some(hook::remove(rest.clone(), event)?),
            ConfigPart::TomlServer { .. } => Some(toml::remove(&rest)?),
            ConfigPart::Setting { at, value } => Some(restore_setting(&rest, at, *value, priors)?),
            ConfigPart::Version => Some(remove_version(&rest)?),
            ConfigPart::Plugin { .. } => plugin::remove(&rest),
            ConfigPart::GitAttributes => Some(git::remove_attributes(&rest)),
            ConfigPart::GitDriver { .. } => git::remove_driver(&rest),
        };
        match without {
            Some(without) if without != rest => {
                edited.counts.add(part);
                rest = without;
            }
            Some(_) => {}
            None => edited.notes.extend(foreign_entry(part)),
        }
    }
    let empty = rest != text && matches!(rest.trim(), "" | "{}");
    edited.text = (!empty).then_some(rest);
    Ok(edited)
}

/// Returns the text of a file that existed before `install` and is empty without these parts; `None` if the file is
/// deleted.
pub(crate) fn emptied_text(parts: &[ConfigPart]) -> Option<String> {
    match parts.first() {
        Some(ConfigPart::Plugin { .. }) => None,
        Some(
            ConfigPart::TomlServer { .. }
            | ConfigPart::GitAttributes
            | ConfigPart::GitDriver { .. },
        ) => Some(String::new()),
        _ => Some("{}\n".to_owned()),
    }
}

fn foreign_entry(part: &ConfigPart) -> Option<String> {
    let servers = match part {
        ConfigPart::Server { servers, .. } => servers,
        ConfigPart::TomlServer { .. } => toml::SERVERS,
        ConfigPart::Plugin { .. } => {
            return Some("`lukasa.js` is another plugin; it was not changed".to_owned());
        }
        ConfigPart::GitDriver { .. } => {
            return Some(
                "the merge driver `lukasa` runs another program; it was not changed".to_owned(),
            );
        }
        ConfigPart::Hook { .. }
        | ConfigPart::Setting { .. }
        | ConfigPart::Version
        | ConfigPart::GitAttributes => return None,
    };
    Some(format!("`{servers}.{SERVER}` calls another program; it was not changed"))
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

/// Changes a setting, and returns its earlier value if it was different.
fn put_setting(
    text: &str,
    at: &'static [&'static str],
    setting: SettingEdit,
) -> Result<(String, Option<PriorSetting>), ConfigError> {
    let value = jsonc::read(text)?;
    let current = value_at(&value, at);
    let mut steps = member_steps(at);
    let entry = match setting {
        SettingEdit::Off if current == Some(&Value::Bool(false)) => {
            return Ok((text.to_owned(), None));
        }
        SettingEdit::Off => ConfigValue::Bool(false),
        SettingEdit::InList(item) => {
            let items = current.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if items.iter().any(|existing| existing == item) {
                return Ok((text.to_owned(), None));
            }
            steps.push(PathStep::New);
            ConfigValue::text(item)
        }
    };
    let prior = PriorSetting::new(
        at,
        match setting {
            SettingEdit::Off => current.and_then(Value::as_bool),
            SettingEdit::InList(_) => None,
        },
    );
    Ok((jsonc::insert(text, &steps, &entry)?, Some(prior)))
}

/// Restores a setting that `install` changed, unless a user changed it since.
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
    let current = value_at(&value, at);
    let mut steps = member_steps(at);
    match setting {
        SettingEdit::Off if current == Some(&Value::Bool(false)) => match prior.value {
            Some(before) => jsonc::insert(text, &steps, &ConfigValue::Bool(before)),
            None => jsonc::remove(text, &steps),
        },
        SettingEdit::Off => Ok(text.to_owned()),
        SettingEdit::InList(item) => {
            let items = current.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let Some(index) = items.iter().rposition(|existing| existing == item) else {
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

/// Removes the version if the file holds nothing else.
fn remove_version(text: &str) -> Result<String, ConfigError> {
    if jsonc::read(text)? == serde_json::json!({ "version": 1 }) {
        return jsonc::remove(text, &[PathStep::Member("version")]);
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
