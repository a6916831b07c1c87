//! The generated `MEMORY.md`: a listing of a root for tools and people that look for one.
//!
//! Derived from the memories, never an entry and never edited; its first line says so and is how a
//! listing is told from a file that somebody wrote.

use crate::document::one_line::description_line;
use crate::limits::{MEMORY_LIST_CHARS_MAX, MEMORY_LIST_LINES_MAX};
use crate::path::RelativePath;

/// The first line of a generated `MEMORY.md`.
pub const MEMORY_LIST_MARK: &str =
    "<!-- Written by Quipu from the memories in this folder. Changes made here are lost. -->";

/// One memory of the listing.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// Where the memory is, below the root.
    pub path: &'a RelativePath,
    /// Its name; the path is shown when it has none.
    pub name: Option<&'a str>,
    /// Its description; nothing is shown when it is empty.
    pub description: &'a str,
}

/// Returns the text of a `MEMORY.md` that lists these items in their order.
///
/// Never more than [`MEMORY_LIST_LINES_MAX`] lines and [`MEMORY_LIST_CHARS_MAX`] characters; when
/// items had to be left out the last line says how many.
pub fn memory_list(items: &[Item<'_>]) -> String {
    let lines: Vec<String> = items.iter().map(line).collect();
    let sizes: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    let room = Room {
        lines: MEMORY_LIST_LINES_MAX - 1,
        chars: MEMORY_LIST_CHARS_MAX - MEMORY_LIST_MARK.chars().count() - 1,
    };
    let mut listed = room.fits(&sizes);
    if listed < lines.len() {
        let last_line = left_out(lines.len()).chars().count();
        listed = Room { lines: room.lines - 1, chars: room.chars - last_line }.fits(&sizes);
    }
    let mut text = format!("{MEMORY_LIST_MARK}\n");
    text.extend(lines.iter().take(listed).map(String::as_str));
    if listed < lines.len() {
        text.push_str(&left_out(lines.len() - listed));
    }
    text
}

/// Tells a generated listing from a memory that happens to be called `MEMORY.md`.
pub fn is_generated_list(text: &str) -> bool {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    text.lines().next() == Some(MEMORY_LIST_MARK)
}

/// How much may still be written.
#[derive(Clone, Copy)]
struct Room {
    lines: usize,
    chars: usize,
}

impl Room {
    /// How many lines of these sizes fit, from the first on.
    fn fits(self, sizes: &[usize]) -> usize {
        let totals = sizes.iter().scan(0, |total, size| {
            *total += size;
            Some(*total)
        });
        totals.take(self.lines).take_while(|total| *total <= self.chars).count()
    }
}

fn line(item: &Item<'_>) -> String {
    let path = item.path.as_str();
    let name = item.name.map(description_line).filter(|name| !name.is_empty());
    let name = escaped(name.as_deref().unwrap_or(path));
    // The grammar of paths leaves `<` and `>` out, so the pointed form holds any of them.
    let target = if path.contains([' ', '(', ')']) { format!("<{path}>") } else { path.to_owned() };
    let description = escaped(&description_line(item.description));
    let dash = if description.is_empty() { "" } else { " — " };
    format!("- [{name}]({target}){dash}{description}\n")
}

fn left_out(count: usize) -> String {
    format!("({count} more not listed)\n")
}

/// Takes the meaning from the characters that could end a link or begin one, or begin code or HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '[' | ']' | '<' | '`') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
