//! Adds and replaces entries of a memory, every other byte as it is.

use crate::document::{Entry, entries};
use crate::limits::MEMORY_BYTES_MAX;
use crate::text::slice;

/// Returns the text with a list item as its last entry; `None` where that would not be one entry of its own, or where
/// the memory would be too large.
pub fn append_entry(text: &str, entry: &str) -> Option<String> {
    let line_end = line_end(text);
    let item = format!("- {}", indent(entry, 2)).replace('\n', line_end);
    let end = if text.is_empty() || text.ends_with(['\n', '\r']) { "" } else { line_end };
    let before = entries(text).len();
    // After a list the next bullet follows on; after anything else a blank line keeps the two apart.
    ["", line_end].into_iter().find_map(|gap| {
        let text = format!("{text}{end}{gap}{item}{line_end}");
        (text.len() <= MEMORY_BYTES_MAX && entries(&text).len() == before + 1).then_some(text)
    })
}

/// Returns the text with another text in place of an entry, behind the same bullet; `None` where that would change the
/// number of entries, or where the memory would be too large.
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

/// Returns the line end that a text uses.
pub fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns a text whose further lines begin as far in as the text behind a bullet of this width, in columns.
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
