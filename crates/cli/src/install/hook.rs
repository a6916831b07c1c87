//! The entries of hooks in a JSON file: adding, updating and removing them, in the forms of the agents.

use serde_json::Value;

use crate::install::entry::ConfigValue;
use crate::install::jsonc::{self, PathStep};
use crate::install::{ConfigError, ConfigPart, GUARD, HookForm, SERVER, is_our_program};

/// The members that hold the command of a hook.
const COMMANDS: [&str; 2] = ["command", "bash"];

/// The location of one of our hooks in a file.
struct HookLocation<'a> {
    at: Vec<PathStep<'a>>,
    /// The member that holds the command.
    member: &'static str,
    command: String,
    /// Whether it is the only hook of its group.
    is_only_member: bool,
}

/// Adds a hook; if ours exists, only its program is updated.
pub(super) fn add(
    text: &str,
    event: &str,
    part: &ConfigPart,
) -> Result<Option<String>, ConfigError> {
    let ConfigPart::Hook { command, timeout, form, .. } = part else { return Ok(None) };
    let value = jsonc::read(text)?;
    let Some(hook) = our_hooks(&value, event).into_iter().next() else {
        let at = [PathStep::Member("hooks"), PathStep::Member(event), PathStep::New];
        return jsonc::insert(text, &at, &entry(command, *timeout, *form)).map(Some);
    };
    let Some(new) = program_of(command) else { return Ok(None) };
    let old = program_of(&hook.command).unwrap_or(new);
    if old == new || old == SERVER {
        return Ok(Some(text.to_owned()));
    }
    let mut at = hook.at;
    at.push(PathStep::Member(hook.member));
    jsonc::insert(text, &at, &ConfigValue::text(&hook.command.replacen(old, new, 1))).map(Some)
}

/// Removes our hooks of an event.
pub(super) fn remove(mut text: String, event: &str) -> Result<String, ConfigError> {
    while let Some(hook) = our_hooks(&jsonc::read(&text)?, event).pop() {
        // A group without handlers has no effect, even if it has other members, such as a matcher.
        let at = if hook.is_only_member { hook.at.get(..3) } else { None };
        text = jsonc::remove(&text, at.unwrap_or(&hook.at))?;
    }
    Ok(text)
}

fn entry(command: &str, timeout: u64, form: HookForm) -> ConfigValue {
    let (member, limit) = match form {
        HookForm::Grouped | HookForm::Named | HookForm::Bare => ("command", "timeout"),
        HookForm::Flat => ("bash", "timeoutSec"),
    };
    let mut handler = vec![
        ("type", ConfigValue::text("command")),
        (member, ConfigValue::text(command)),
        (limit, ConfigValue::Number(timeout)),
    ];
    match form {
        HookForm::Flat => return ConfigValue::Object(handler),
        HookForm::Bare => return ConfigValue::Object(handler.split_off(1)),
        HookForm::Named => handler.insert(0, ("name", ConfigValue::text(SERVER))),
        HookForm::Grouped => {}
    }
    ConfigValue::Object(vec![("hooks", ConfigValue::List(vec![ConfigValue::Object(handler)]))])
}

/// Returns our hooks of an event, in the order of the file.
fn our_hooks<'a>(value: &Value, event: &'a str) -> Vec<HookLocation<'a>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (index, group) in list(&value["hooks"][event]).iter().enumerate() {
        let at = vec![PathStep::Member("hooks"), PathStep::Member(event), PathStep::Element(index)];
        if let Some((member, command)) = our_command(group) {
            found.push(HookLocation { at, member, command, is_only_member: false });
            continue;
        }
        let handlers = list(&group["hooks"]);
        for (index, handler) in handlers.iter().enumerate() {
            if let Some((member, command)) = our_command(handler) {
                let at = [&at[..], &[PathStep::Member("hooks"), PathStep::Element(index)]].concat();
                found.push(HookLocation {
                    at,
                    member,
                    command,
                    is_only_member: handlers.len() == 1,
                });
            }
        }
    }
    found
}

fn our_command(handler: &Value) -> Option<(&'static str, String)> {
    let command = |member: &'static str| Some((member, handler[member].as_str()?.to_owned()));
    COMMANDS.into_iter().filter_map(command).find(|(_, command)| is_ours(command))
}

/// Checks whether the command of a hook is `lukasa hook …`, with any path of the program.
pub(super) fn is_ours(command: &str) -> bool {
    program_of(command).is_some()
}

/// Returns the word for our program in the command of a hook, with its quotes. Assignments of variables and the guard
/// of a project may precede it.
pub(super) fn program_of(command: &str) -> Option<&str> {
    let command = command.strip_prefix(GUARD).unwrap_or(command);
    let (before, _) = command.split_once(" hook ")?;
    let mut program = before.trim();
    while let Some((word, rest)) = program.split_once(' ')
        && (word == "env" || is_assignment(word))
    {
        program = rest.trim_start();
    }
    is_our_program(program.trim_matches(['\'', '"'])).then_some(program)
}

fn is_assignment(word: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=').is_some_and(|(left, _)| !left.is_empty() && left.chars().all(name))
}
