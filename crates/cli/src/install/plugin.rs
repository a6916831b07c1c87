//! A plugin: a file that is ours as a whole.

use crate::install::SERVER;

/// The plugin for opencode, which calls `lukasa` by its name.
const OPENCODE: &str = include_str!("opencode.js");

/// Returns the plugin, which calls a program; `None` if another file has its name.
pub(super) fn add(text: &str, program: &str) -> Option<String> {
    let line = |program: &str| format!("const PROGRAM = {}\n", serde_json::json!(program));
    let is_free = text.trim().is_empty() || is_ours(text);
    is_free.then(|| OPENCODE.replacen(&line(SERVER), &line(program), 1))
}

/// Returns what is left of a file: nothing if it is our plugin; `None` if it is another one.
pub(super) fn remove(text: &str) -> Option<String> {
    is_ours(text).then(String::new)
}

/// Tells whether a file says what our plugins say in their first line, whatever was edited around it.
fn is_ours(text: &str) -> bool {
    let first = OPENCODE.lines().next();
    text.lines().any(|line| Some(line.trim_start_matches('\u{FEFF}')) == first)
}
