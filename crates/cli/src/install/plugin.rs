//! The plugin for opencode: a file that belongs to Lukasa as a whole.

use crate::install::SERVER;

/// The text of the plugin, which calls `lukasa` by name.
const OPENCODE: &str = include_str!("opencode.js");

/// Returns the text of the plugin for a program; `None` if the file is another plugin.
pub(super) fn add(text: &str, program: &str) -> Option<String> {
    let line = |program: &str| format!("const PROGRAM = {}\n", serde_json::json!(program));
    let is_free = text.trim().is_empty() || is_ours(text);
    is_free.then(|| OPENCODE.replacen(&line(SERVER), &line(program), 1))
}

/// Returns an empty text if the file is our plugin; `None` if it is another plugin.
pub(super) fn remove(text: &str) -> Option<String> {
    is_ours(text).then(String::new)
}

/// Checks whether a file holds the first line of our plugin. That line must not change: it marks installed files.
fn is_ours(text: &str) -> bool {
    let first = OPENCODE.lines().next();
    text.lines().any(|line| Some(line.trim_start_matches('\u{FEFF}')) == first)
}
