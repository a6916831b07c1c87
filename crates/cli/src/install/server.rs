//! The MCP server in a file of JSON.

use serde_json::Value;

use crate::install::entry::Entry;
use crate::install::jsonc::{self, Step};
use crate::install::{Misread, Part, SERVER, ServerForm, is_our_program};

/// A server as a file has it.
struct Call<'v> {
    program: &'v str,
    first_arg: Option<&'v str>,
    /// The steps from the server to the program.
    program_at: &'static [Step<'static>],
}

/// Returns the entry of a server, as the agent writes it.
pub(super) fn entry(
    program: &str,
    args: &[String],
    form: ServerForm,
    members: &[(&'static str, Entry)],
) -> Entry {
    let list =
        |words: &mut dyn Iterator<Item = &str>| Entry::List(words.map(Entry::text).collect());
    let mut call = vec![
        ("command", Entry::text(program)),
        ("args", list(&mut args.iter().map(String::as_str))),
    ];
    let stdio = ("type", Entry::text("stdio"));
    let local = ("type", Entry::text("local"));
    let mut written = match form {
        ServerForm::Plain => call,
        ServerForm::Typed => {
            call.insert(0, stdio);
            call
        }
        ServerForm::OneList => {
            let mut words = std::iter::once(program).chain(args.iter().map(String::as_str));
            vec![local, ("command", list(&mut words)), ("enabled", Entry::Bool(true))]
        }
        ServerForm::Tools => {
            call.insert(0, local);
            call.push(("tools", Entry::List(vec![Entry::text("*")])));
            call
        }
        ServerForm::Transport => {
            call.insert(0, stdio);
            vec![("transport", Entry::Object(call))]
        }
    };
    written.extend(members.iter().cloned());
    Entry::Object(written)
}

/// Adds the server. `None` when another program stands there under our name.
pub(super) fn add(text: &str, part: &Part) -> Result<Option<String>, Misread> {
    let Part::Server { servers, program, args, form, members } = part else { return Ok(None) };
    let value = jsonc::read(text)?;
    let at = [Step::Member(servers), Step::Member(SERVER)];
    let Some(there) = value.get(servers).and_then(|servers| servers.get(SERVER)) else {
        return jsonc::put(text, &at, &entry(program, args, *form, members)).map(Some);
    };
    let call = call_of(there);
    if !call.is_ours() {
        return Ok(None);
    }
    let mut text = text.to_owned();
    if call.program != program && call.program != SERVER {
        let at = [&at[..], call.program_at].concat();
        text = jsonc::put(&text, &at, &Entry::text(program))?;
    }
    for (name, member) in members.iter().filter(|(name, _)| there.get(name).is_none()) {
        text = jsonc::put(&text, &[&at[..], &[Step::Member(name)]].concat(), member)?;
    }
    Ok(Some(text))
}

/// Removes the server. `None` when another program stands there under our name.
pub(super) fn remove(text: &str, part: &Part) -> Result<Option<String>, Misread> {
    let Part::Server { servers, .. } = part else { return Ok(None) };
    let value = jsonc::read(text)?;
    match value.get(servers).and_then(|servers| servers.get(SERVER)) {
        None => Ok(Some(text.to_owned())),
        Some(there) if call_of(there).is_ours() => {
            jsonc::remove(text, &[Step::Member(servers), Step::Member(SERVER)]).map(Some)
        }
        Some(_) => Ok(None),
    }
}

/// Reads what a server calls, in any of the forms that agents have.
fn call_of(server: &Value) -> Call<'_> {
    const DIRECT: &[Step<'_>] = &[Step::Member("command")];
    const LISTED: &[Step<'_>] = &[Step::Member("command"), Step::Element(0)];
    const WITHIN: &[Step<'_>] = &[Step::Member("transport"), Step::Member("command")];
    let (program, first_arg, program_at) = if server["transport"].is_object() {
        let transport = &server["transport"];
        (&transport["command"], &transport["args"][0], WITHIN)
    } else if server["command"].is_array() {
        (&server["command"][0], &server["command"][1], LISTED)
    } else {
        (&server["command"], &server["args"][0], DIRECT)
    };
    Call {
        program: program.as_str().unwrap_or_default(),
        first_arg: first_arg.as_str(),
        program_at,
    }
}

impl Call<'_> {
    /// Tells whether it is `lukasa mcp`, wherever the program lies.
    fn is_ours(&self) -> bool {
        is_our_program(self.program) && self.first_arg == Some("mcp")
    }
}
