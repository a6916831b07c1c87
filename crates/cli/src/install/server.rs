//! The entry of the MCP server in a JSON file: adding, updating and removing it, in the forms of the agents.

use serde_json::Value;

use crate::install::entry::ConfigValue;
use crate::install::jsonc::{self, PathStep};
use crate::install::{ConfigError, ConfigPart, SERVER, ServerForm, is_our_program};

/// The command of a server entry.
struct ServerCommand<'v> {
    program: &'v str,
    first_arg: Option<&'v str>,
    /// The steps from the server to the program.
    program_at: &'static [PathStep<'static>],
}

/// Returns the entry of a server in the form of the agent.
pub(super) fn entry(
    program: &str,
    args: &[String],
    form: ServerForm,
    members: &[(&'static str, ConfigValue)],
) -> ConfigValue {
    let list = |words: &mut dyn Iterator<Item = &str>| {
        ConfigValue::List(words.map(ConfigValue::text).collect())
    };
    let mut call = vec![
        ("command", ConfigValue::text(program)),
        ("args", list(&mut args.iter().map(String::as_str))),
    ];
    let stdio = ("type", ConfigValue::text("stdio"));
    let local = ("type", ConfigValue::text("local"));
    let mut written = match form {
        ServerForm::Plain => call,
        ServerForm::Typed => {
            call.insert(0, stdio);
            call
        }
        ServerForm::OneList => {
            let mut words = std::iter::once(program).chain(args.iter().map(String::as_str));
            vec![local, ("command", list(&mut words)), ("enabled", ConfigValue::Bool(true))]
        }
        ServerForm::Tools => {
            call.insert(0, local);
            call.push(("tools", ConfigValue::List(vec![ConfigValue::text("*")])));
            call
        }
        ServerForm::Transport => {
            call.insert(0, stdio);
            vec![("transport", ConfigValue::Object(call))]
        }
    };
    written.extend(members.iter().cloned());
    ConfigValue::Object(written)
}

/// Adds the server or updates its program. Returns `None` if another program has our name.
pub(super) fn add(text: &str, part: &ConfigPart) -> Result<Option<String>, ConfigError> {
    let ConfigPart::Server { servers, program, args, form, members } = part else {
        return Ok(None);
    };
    let value = jsonc::read(text)?;
    let at = [PathStep::Member(servers), PathStep::Member(SERVER)];
    let Some(existing) = value.get(servers).and_then(|servers| servers.get(SERVER)) else {
        return jsonc::insert(text, &at, &entry(program, args, *form, members)).map(Some);
    };
    let call = call_of(existing);
    if !call.is_ours() {
        return Ok(None);
    }
    let mut text = text.to_owned();
    if call.program != program && call.program != SERVER {
        let at = [&at[..], call.program_at].concat();
        text = jsonc::insert(&text, &at, &ConfigValue::text(program))?;
    }
    for (name, member) in members.iter().filter(|(name, _)| existing.get(name).is_none()) {
        text = jsonc::insert(&text, &[&at[..], &[PathStep::Member(name)]].concat(), member)?;
    }
    Ok(Some(text))
}

/// Removes the server. Returns `None` if another program has our name.
pub(super) fn remove(text: &str, part: &ConfigPart) -> Result<Option<String>, ConfigError> {
    let ConfigPart::Server { servers, .. } = part else { return Ok(None) };
    let value = jsonc::read(text)?;
    match value.get(servers).and_then(|servers| servers.get(SERVER)) {
        None => Ok(Some(text.to_owned())),
        Some(existing) if call_of(existing).is_ours() => {
            jsonc::remove(text, &[PathStep::Member(servers), PathStep::Member(SERVER)]).map(Some)
        }
        Some(_) => Ok(None),
    }
}

/// Returns the command of a server entry in any of the forms of the agents.
fn call_of(server: &Value) -> ServerCommand<'_> {
    const DIRECT: &[PathStep<'_>] = &[PathStep::Member("command")];
    const LISTED: &[PathStep<'_>] = &[PathStep::Member("command"), PathStep::Element(0)];
    const WITHIN: &[PathStep<'_>] = &[PathStep::Member("transport"), PathStep::Member("command")];
    let (program, first_arg, program_at) = if server["transport"].is_object() {
        let transport = &server["transport"];
        (&transport["command"], &transport["args"][0], WITHIN)
    } else if server["command"].is_array() {
        (&server["command"][0], &server["command"][1], LISTED)
    } else {
        (&server["command"], &server["args"][0], DIRECT)
    };
    ServerCommand {
        program: program.as_str().unwrap_or_default(),
        first_arg: first_arg.as_str(),
        program_at,
    }
}

impl ServerCommand<'_> {
    /// Checks whether it is `lukasa mcp`, with any path of the program.
    fn is_ours(&self) -> bool {
        is_our_program(self.program) && self.first_arg == Some("mcp")
    }
}
