//! What an agent has to be told to use Quipu: which of its files say it, and what they say.
//!
//! Everything here is text in, text out; reading, asking and writing is
//! [`commands::install`](crate::commands)'s. What is ours is known by what it calls, so that it is found again
//! however a person edited around it. Each edit is read again before it counts: what comes out must mean what
//! the file meant before, and our entry, and nothing else.

use crate::install::entry::Entry;
use crate::install::jsonc::Step;

pub(crate) mod agents;

mod entry;

mod jsonc;

mod toml;

/// The name under which agents know the MCP server.
const SERVER: &str = "quipu";

/// How a file says things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The MCP server, as a member of the JSON object under this name.
    Server {
        /// The name of the object that holds servers.
        servers: &'static str,
        /// The program.
        program: String,
        /// What it is called with.
        args: Vec<String>,
        /// Whether the kind of server is told too.
        typed: bool,
    },
    /// A hook, in the JSON object `hooks`.
    Hook {
        /// The agent's name of the event.
        event: &'static str,
        /// What the agent's shell runs.
        command: String,
        /// When the agent gives up, in its own unit.
        timeout: u64,
        /// Whether hooks have names.
        named: bool,
    },
    /// The MCP server, as a table of TOML.
    TomlServer {
        /// The program.
        program: String,
        /// Variables that the agent would not hand on by itself.
        variables: Vec<&'static str>,
    },
}

/// Why a file is left as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misread {
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

impl Misread {
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
pub(crate) struct Edited {
    /// The text; `None` when nothing is left of it.
    pub(crate) text: Option<String>,
    /// What a person should know.
    pub(crate) notes: Vec<String>,
}

/// Returns a file's text with our entries, as few bytes changed as that takes.
///
/// What is there already stays as a person left it; only the program it calls is brought up to date.
pub(crate) fn install(text: Option<&str>, parts: &[Part]) -> Result<Edited, Misread> {
    let mut edited = Edited { text: text.map(str::to_owned), notes: Vec::new() };
    for part in parts {
        let before = edited.text.as_deref().unwrap_or_default();
        let after = match part {
            Part::Server { servers, program, args, typed } => {
                add_server(before, servers, &server_entry(program, args, *typed), program)?
            }
            Part::Hook { event, .. } => add_hook(before, event, part)?,
            Part::TomlServer { program, variables } => toml::add(before, program, variables)?,
        };
        match after {
            Some(after) => edited.text = Some(after),
            None => edited.notes.extend(foreign(part)),
        }
    }
    Ok(edited)
}

/// Returns a file's text without our entries, and without what held nothing else.
pub(crate) fn uninstall(text: &str, parts: &[Part]) -> Result<Edited, Misread> {
    let mut left = text.to_owned();
    let mut notes = Vec::new();
    for part in parts {
        left = match part {
            Part::Server { servers, .. } => {
                let without = remove_server(&left, servers)?;
                if without.is_none() {
                    notes.extend(foreign(part));
                }
                without.unwrap_or(left)
            }
            Part::Hook { event, .. } => remove_hook(left, event)?,
            Part::TomlServer { .. } => toml::remove(&left)?,
        };
    }
    let empty = left != text && matches!(left.trim(), "" | "{}");
    Ok(Edited { text: (!empty).then_some(left), notes })
}

fn foreign(part: &Part) -> Option<String> {
    let Part::Server { servers, .. } = part else { return None };
    Some(format!("`{servers}.{SERVER}` calls another program; it stays as it is"))
}

fn server_entry(program: &str, args: &[String], typed: bool) -> Entry {
    let mut members = vec![
        ("command", Entry::text(program)),
        ("args", Entry::List(args.iter().map(|arg| Entry::text(arg)).collect())),
    ];
    if typed {
        members.insert(0, ("type", Entry::text("stdio")));
    }
    Entry::Object(members)
}

fn hook_entry(part: &Part) -> Option<Entry> {
    let Part::Hook { command, timeout, named, .. } = part else { return None };
    let mut handler = vec![
        ("type", Entry::text("command")),
        ("command", Entry::text(command)),
        ("timeout", Entry::Number(*timeout)),
    ];
    if *named {
        handler.insert(0, ("name", Entry::text(SERVER)));
    }
    let group = vec![("hooks", Entry::List(vec![Entry::Object(handler)]))];
    Some(Entry::Object(group))
}

/// Adds the server. `None` when another program stands there under our name.
fn add_server(
    text: &str,
    servers: &str,
    entry: &Entry,
    program: &str,
) -> Result<Option<String>, Misread> {
    let value = jsonc::read(text)?;
    let at = [Step::Member(servers), Step::Member(SERVER)];
    let Some(there) = value.get(servers).and_then(|servers| servers.get(SERVER)) else {
        return jsonc::put(text, &at, entry).map(Some);
    };
    if !calls_us(there) {
        return Ok(None);
    }
    if there["command"] == program || there["command"] == SERVER {
        return Ok(Some(text.to_owned()));
    }
    let [first, second] = at;
    jsonc::put(text, &[first, second, Step::Member("command")], &Entry::text(program)).map(Some)
}

fn remove_server(text: &str, servers: &str) -> Result<Option<String>, Misread> {
    let value = jsonc::read(text)?;
    match value.get(servers).and_then(|servers| servers.get(SERVER)) {
        None => Ok(Some(text.to_owned())),
        Some(there) if calls_us(there) => {
            jsonc::remove(text, &[Step::Member(servers), Step::Member(SERVER)]).map(Some)
        }
        Some(_) => Ok(None),
    }
}

/// Tells whether a server is `quipu mcp`, wherever the program lies.
fn calls_us(server: &serde_json::Value) -> bool {
    let program = server["command"].as_str().unwrap_or_default();
    is_our_program(program) && server["args"][0] == "mcp"
}

fn is_our_program(program: &str) -> bool {
    std::path::Path::new(program).file_name().is_some_and(|name| name == SERVER)
}

/// Tells whether a hook's command is `quipu hook …`, wherever the program lies.
fn is_our_hook(command: &str) -> bool {
    program_of(command).is_some()
}

/// Returns what stands for our program in a hook's command, quotes included. Variables that are set for it may come
/// first.
fn program_of(command: &str) -> Option<&str> {
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

/// Where our handlers of an event are: the group in the event's list, and the handler in the group.
fn our_hooks(value: &serde_json::Value, event: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let groups = value["hooks"][event].as_array().map(Vec::as_slice).unwrap_or_default();
    for (group, there) in groups.iter().enumerate() {
        let handlers = there["hooks"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (handler, there) in handlers.iter().enumerate() {
            if is_our_hook(there["command"].as_str().unwrap_or_default()) {
                found.push((group, handler));
            }
        }
    }
    found
}

fn hook_steps(event: &str, group: usize, handler: usize) -> [Step<'_>; 5] {
    let (hooks, group) = (Step::Member("hooks"), Step::Element(group));
    [hooks, Step::Member(event), group, Step::Member("hooks"), Step::Element(handler)]
}

fn add_hook(text: &str, event: &str, part: &Part) -> Result<Option<String>, Misread> {
    let (Part::Hook { command, .. }, Some(entry)) = (part, hook_entry(part)) else {
        return Ok(None);
    };
    let value = jsonc::read(text)?;
    let Some(&(group, handler)) = our_hooks(&value, event).first() else {
        let at = [Step::Member("hooks"), Step::Member(event), Step::New];
        return jsonc::put(text, &at, &entry).map(Some);
    };
    let there = value["hooks"][event][group]["hooks"][handler]["command"].as_str();
    let (Some(there), Some(new)) = (there, program_of(command)) else { return Ok(None) };
    let old = program_of(there).unwrap_or(new);
    if old == new || old == SERVER {
        return Ok(Some(text.to_owned()));
    }
    let mut at = hook_steps(event, group, handler).to_vec();
    at.push(Step::Member("command"));
    jsonc::put(text, &at, &Entry::text(&there.replacen(old, new, 1))).map(Some)
}

fn remove_hook(mut text: String, event: &str) -> Result<String, Misread> {
    while let Some((group, handler)) = our_hooks(&jsonc::read(&text)?, event).pop() {
        let handlers = jsonc::read(&text)?["hooks"][event][group]["hooks"].as_array().map(Vec::len);
        let whole = hook_steps(event, group, handler);
        // A group without handlers says nothing, whatever else it has, such as a matcher.
        let at = if handlers == Some(1) { whole.get(..3) } else { Some(&whole[..]) };
        text = jsonc::remove(&text, at.unwrap_or(&whole))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
