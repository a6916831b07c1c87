//! The table of our MCP server in a TOML file.
//!
//! It is added as lines at the end and removed as lines, so that every other byte stays. The edited text is parsed again
//! and must have the intended value. So a server that a user wrote in another form, such as dotted keys, is an error
//! and not edited wrongly.

use toml::de::DeTable;
use toml::{Table, Value};

use crate::install::{ConfigError, SERVER};

/// The table that holds servers.
pub(super) const SERVERS: &str = "mcp_servers";

/// The key of a server by which Codex runs its tools without asking.
const APPROVAL: &str = "default_tools_approval_mode";

/// The value of [`APPROVAL`] for all tools.
const APPROVED: &str = "approve";

/// The server to add.
pub(super) struct CodexServer<'a> {
    pub(super) program: &'a str,
    pub(super) variables: &'a [&'static str],
    pub(super) approved: bool,
}

/// Adds the server; if ours exists, its program and approval are updated. Returns `None` if another program has our
/// name.
pub(super) fn add(text: &str, server: &CodexServer<'_>) -> Result<Option<String>, ConfigError> {
    let mut meant = read(text)?;
    let Some(existing) = server_of(&meant) else {
        return append_server(text, meant, server).map(Some);
    };
    if !is_our_server(existing) {
        return Ok(None);
    }
    let command = existing.get("command").and_then(Value::as_str).unwrap_or_default();
    let approves = server.approved && existing.get(APPROVAL).is_none();
    let renames = command != server.program && command != SERVER;
    let mut after = text.to_owned();
    let Some(Value::Table(table)) = server_mut(&mut meant) else { return Err(unexpected_form()) };
    if renames {
        after = replace_command(&after, server.program);
        table.insert("command".to_owned(), server.program.into());
    }
    if approves {
        after = with_line(&after, &format!("{APPROVAL} = {}", Value::from(APPROVED)));
        table.insert(APPROVAL.to_owned(), APPROVED.into());
    }
    check_result(after, &meant).map(Some)
}

/// Adds the table of the server at the end. If the text has no final line end, the result has none either.
fn append_server(
    text: &str,
    mut meant: Table,
    server: &CodexServer<'_>,
) -> Result<String, ConfigError> {
    let end = line_end(text);
    let names = server.variables.iter().map(|name| Value::from(*name)).collect::<Vec<_>>();
    let mut pairs = vec![("command", Value::from(server.program)), ("args", vec!["mcp"].into())];
    if !names.is_empty() {
        pairs.push(("env_vars", names.into()));
    }
    if server.approved {
        pairs.push((APPROVAL, APPROVED.into()));
    }
    let lines = pairs.iter().map(|(key, value)| format!("{end}{key} = {value}"));
    let lines = lines.collect::<String>();
    let (lead, tail) = match text {
        "" => (String::new(), end),
        text if text.ends_with('\n') => (end.to_owned(), end),
        _ => (format!("{end}{end}"), ""),
    };
    let after = format!("{text}{lead}[{SERVERS}.{SERVER}]{lines}{tail}");
    let table: Table = pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let servers = meant.entry(SERVERS).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(servers) = servers else { return Err(ConfigError::Shape(SERVERS.to_owned())) };
    servers.insert(SERVER.to_owned(), Value::Table(table));
    check_result(after, &meant)
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Removes the server, if it is ours.
pub(super) fn remove(text: &str) -> Result<String, ConfigError> {
    let mut meant = read(text)?;
    if !server_of(&meant).is_some_and(is_our_server) {
        return Ok(text.to_owned());
    }
    if let Some(Value::Table(servers)) = meant.get_mut(SERVERS) {
        servers.remove(SERVER);
    }
    let inline = without_member(text).unwrap_or_else(|| text.to_owned());
    check_result(without_tables(text), &meant).or_else(|_| check_result(inline, &meant))
}

/// Removes a server that is written as an inline table, with its comma or its line.
fn without_member(text: &str) -> Option<String> {
    let document = DeTable::parse(text).ok()?;
    let servers = document.get_ref().get(SERVERS)?.get_ref().as_table()?;
    let (key, value) = servers.iter().find(|(key, _)| key.get_ref() == SERVER)?;
    let (head, tail) = (text.get(..key.span().start)?, text.get(value.span().end..)?);
    let line = head.trim_end_matches([' ', '\t']);
    let (rest, next) = tail.split_once('\n').unwrap_or((tail, ""));
    if (line.is_empty() || line.ends_with('\n')) && is_blank_or_note(rest) {
        return Some([line, next].concat());
    }
    if let Some(tail) = tail.trim_start().strip_prefix(',') {
        return Some([head, tail.trim_start_matches([' ', '\t'])].concat());
    }
    let head = head.trim_end().strip_suffix(',').unwrap_or(head);
    Some([head, tail].concat())
}

fn read(text: &str) -> Result<Table, ConfigError> {
    text.parse::<Table>().map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        ConfigError::Syntax { line, what: error.message().to_owned() }
    })
}

fn server_of(table: &Table) -> Option<&Value> {
    table.get(SERVERS)?.get(SERVER)
}

fn server_mut(table: &mut Table) -> Option<&mut Value> {
    table.get_mut(SERVERS)?.get_mut(SERVER)
}

fn is_our_server(server: &Value) -> bool {
    let program = server.get("command").and_then(Value::as_str).unwrap_or_default();
    let first = server.get("args").and_then(|args| args.get(0)).and_then(Value::as_str);
    super::is_our_program(program) && first == Some("mcp")
}

/// Returns the edited text if it parses to the intended table. An empty table of servers counts as none.
fn check_result(text: String, meant: &Table) -> Result<String, ConfigError> {
    let empty = |table: &Table| table.get(SERVERS) == Some(&Value::Table(Table::new()));
    let mut meant = meant.clone();
    let mut read = read(&text).map_err(|_| unexpected_form())?;
    for table in [&mut meant, &mut read] {
        if empty(table) {
            table.remove(SERVERS);
        }
    }
    if read == meant { Ok(text) } else { Err(unexpected_form()) }
}

fn unexpected_form() -> ConfigError {
    ConfigError::Form(format!("{SERVERS}.{SERVER}"))
}

/// Returns the parts of a table's header, such as `["mcp_servers", "lukasa"]`.
fn header(line: &str) -> Option<Vec<&str>> {
    let inside = line.trim().strip_prefix('[')?;
    let (inside, _) = inside.split_once(']')?;
    Some(inside.split('.').map(|part| part.trim().trim_matches(['"', '\''])).collect())
}

fn is_ours(line: &str) -> bool {
    header(line).is_some_and(|parts| parts.starts_with(&[SERVERS, SERVER]))
}

/// Removes the lines of our tables. Comments before the next table belong to that table and stay.
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
        let used = body.iter().rposition(|line| !is_blank_or_note(line)).map_or(0, |last| last + 1);
        if kept.last().is_some_and(|line| line.trim().is_empty()) {
            kept.pop();
        }
        kept.extend(body.iter().skip(used));
        rest = others;
    }
    let result = kept.concat();
    // A text without a final line end keeps that form.
    let cut = !text.ends_with('\n') && result.ends_with('\n');
    let result = if cut { result.trim_end_matches('\n').trim_end_matches('\r') } else { &result };
    result.to_owned()
}

fn is_blank_or_note(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

/// Adds a line to our table, below its header.
fn with_line(text: &str, line: &str) -> String {
    let end = line_end(text);
    let lines = text.split_inclusive('\n').map(|current| match header(current) {
        Some(parts) if parts == [SERVERS, SERVER] && !current.ends_with('\n') => {
            format!("{current}{end}{line}")
        }
        Some(parts) if parts == [SERVERS, SERVER] => format!("{current}{line}{end}"),
        _ => current.to_owned(),
    });
    lines.collect()
}

/// Replaces the program in the `command` line of our table.
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
