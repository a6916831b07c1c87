//! Adds and replaces entries of a memory; every other byte is kept.
//!
//! Each edit is parsed again before it is returned. It is refused if it would change the number of entries in another
//! way than intended, or if the memory would exceed its size limit.

use crate::document::{Entry, entries};
use crate::limits::MEMORY_BYTES_MAX;
use crate::text::slice;

/// Appends a list item as the last entry; `None` if it would not be a separate entry, or if the memory would be too
/// large.
pub fn append_entry(text: &str, entry: &str) -> Option<String> {
    let line_end = line_end(text);
    let item = format!("- {}", indent(entry, 2)).replace('\n', line_end);
    let end = if text.is_empty() || text.ends_with(['\n', '\r']) { "" } else { line_end };
    let before = entries(text).len();
    // After a list the bullet continues the list; after anything else a blank line must separate the two.
    ["", line_end].into_iter().find_map(|gap| {
        let text = format!("{text}{end}{gap}{item}{line_end}");
        (text.len() <= MEMORY_BYTES_MAX && entries(&text).len() == before + 1).then_some(text)
    })
}

/// Replaces the text of an entry after its bullet. `None` if that would change the number of entries, or if the memory
/// would be too large.
pub fn replace_entry(text: &str, entry: &Entry, new: &str) -> Option<String> {
    let all = slice(text, entry.range.clone());
    let old = entry.full_text(text);
    let bullet = slice(all, ..all.trim_end().len() - old.len());
    let tail = slice(all, all.trim_end().len()..);
    let new = indent(new.trim_end(), bullet.chars().count()).replace('\n', line_end(text));
    let before = slice(text, ..entry.range.start);
    let after = slice(text, entry.range.end..);
    let replaced = [before, bullet, &new, tail, after].concat();
    let has_room = replaced.len() <= MEMORY_BYTES_MAX;
    (has_room && entries(&replaced).len() == entries(text).len()).then_some(replaced)
}

/// Returns the line ending that a text uses.
pub fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Indents all lines but the first to the width of a bullet, in columns.
fn indent(text: &str, by: usize) -> String {
    let indent = " ".repeat(by);
    let mut lines = text.lines();
    let mut indented = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        indented.push('\n');
        if !line.trim().is_empty() {
            indented.push_str(&indent);
            indented.push_str(line);
        }
    }
    indented
}
