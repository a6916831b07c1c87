//! The table of our MCP server in a file of TOML.
//!
//! It is added as lines at the end and removed as lines, so that every other byte stays. Whoever wrote it in
//! another form, as an inline table or with dotted keys, is told so: the result is read again, and has to mean
//! what was meant.

use toml::{Table, Value};

use crate::install::{Misread, SERVER};

/// The table that holds servers.
const SERVERS: &str = "mcp_servers";

/// Adds the server; one that is there and calls us is only brought up to date. `None` when another program stands
/// there.
pub(super) fn add(
    text: &str,
    program: &str,
    variables: &[&'static str],
) -> Result<Option<String>, Misread> {
    let before = read(text)?;
    if let Some(there) = server(&before) {
        let command = there.get("command").and_then(Value::as_str).unwrap_or_default();
        if !calls_us(there) {
            return Ok(None);
        }
        if command == program || command == SERVER {
            return Ok(Some(text.to_owned()));
        }
        let after = replace_command(text, program);
        let mut meant = before.clone();
        if let Some(Value::Table(server)) = server_mut(&mut meant) {
            server.insert("command".to_owned(), program.into());
        }
        return checked(after, &meant).map(Some);
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let names: Value = variables.iter().map(|name| Value::from(*name)).collect::<Vec<_>>().into();
    let mut said = vec![("command", Value::from(program)), ("args", vec!["mcp"].into())];
    if !variables.is_empty() {
        said.push(("env_vars", names));
    }
    let lines = said.iter().map(|(key, value)| format!("{key} = {value}{end}"));
    let lead = match text {
        "" => String::new(),
        text if text.ends_with('\n') => end.to_owned(),
        _ => format!("{end}{end}"),
    };
    let lines = lines.collect::<String>();
    let after = format!("{text}{lead}[{SERVERS}.{SERVER}]{end}{lines}");
    let table: Table = said.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut meant = before;
    let servers = meant.entry(SERVERS).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(servers) = servers else { return Err(Misread::Shape(SERVERS.to_owned())) };
    servers.insert(SERVER.to_owned(), Value::Table(table));
    checked(after, &meant).map(Some)
}

/// Removes the server, if it calls us.
pub(super) fn remove(text: &str) -> Result<String, Misread> {
    let mut meant = read(text)?;
    if !server(&meant).is_some_and(calls_us) {
        return Ok(text.to_owned());
    }
    if let Some(Value::Table(servers)) = meant.get_mut(SERVERS) {
        servers.remove(SERVER);
    }
    checked(without_tables(text), &meant)
}

fn read(text: &str) -> Result<Table, Misread> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Misread::Syntax { line, what: error.message().to_owned() }
    })
}

fn server(table: &Table) -> Option<&Value> {
    table.get(SERVERS)?.get(SERVER)
}

fn server_mut(table: &mut Table) -> Option<&mut Value> {
    table.get_mut(SERVERS)?.get_mut(SERVER)
}

fn calls_us(server: &Value) -> bool {
    let program = server.get("command").and_then(Value::as_str).unwrap_or_default();
    let first = server.get("args").and_then(|args| args.get(0)).and_then(Value::as_str);
    super::is_our_program(program) && first == Some("mcp")
}

/// Lets only a text out that means what it should. A table that holds nothing means nothing.
fn checked(text: String, meant: &Table) -> Result<String, Misread> {
    let empty = |table: &Table| table.get(SERVERS) == Some(&Value::Table(Table::new()));
    let mut meant = meant.clone();
    let mut read = read(&text).map_err(|_| form())?;
    for table in [&mut meant, &mut read] {
        if empty(table) {
            table.remove(SERVERS);
        }
    }
    if read == meant { Ok(text) } else { Err(form()) }
}

fn form() -> Misread {
    Misread::Form(format!("{SERVERS}.{SERVER}"))
}

/// Returns the parts of a table's header, such as `["mcp_servers", "quipu"]`.
fn header(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('[')?;
    let (inside, _) = inside.split_once(']')?;
    Some(inside.split('.').map(|part| part.trim().trim_matches(['"', '\''])).collect())
}

fn is_ours(line: &str) -> bool {
    header(line).is_some_and(|parts| parts.starts_with(&[SERVERS, SERVER]))
}

/// Leaves the lines of our tables out. Notes before the table that follows belong to that.
fn without_tables(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut rest = lines.as_slice();
    while let Some((line, after)) = rest.split_first() {
        if !is_ours(line) {
            kept.push(line);
            rest = after;
            continue;
        }
        let next = after.iter().position(|line| line.trim_start().starts_with('['));
        let (body, others) = after.split_at(next.unwrap_or(after.len()));
        let said = body.iter().rposition(|line| !is_blank_or_note(line)).map_or(0, |last| last + 1);
        if kept.last().is_some_and(|line| line.trim().is_empty()) {
            kept.pop();
        }
        kept.extend(body.iter().skip(said));
        rest = others;
    }
    kept.concat()
}

fn is_blank_or_note(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Writes another program into the line of our table that names it.
fn replace_command(text: &str, program: &str) -> String {
    let mut within = false;
    let lines = text.split_inclusive('\n').map(|line| {
        if line.trim_start().starts_with('[') {
            within = header(line).is_some_and(|parts| parts == [SERVERS, SERVER]);
        }
        let key = line.split_once('=').map(|(key, _)| key.trim());
        if within && key == Some("command") {
            let end = line.strip_prefix(line.trim_end()).unwrap_or_default();
            format!("command = {}{end}", Value::from(program))
        } else {
            line.to_owned()
        }
    });
    lines.collect()
}
