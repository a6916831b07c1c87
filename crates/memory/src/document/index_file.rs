//! The generated `MEMORY.md`: a listing of a root, for tools and people that expect such a file.
//!
//! It is generated from the memories and never edited; nothing reads facts from it. Its first line says so, and
//! distinguishes it from a memory with the same name.

use crate::document::single_line::description_line;
use crate::limits::{MEMORY_LIST_CHARS_MAX, MEMORY_LIST_LINES_MAX};
use crate::path::RelativePath;

/// The first line of a generated `MEMORY.md`.
pub const MEMORY_LIST_MARK: &str =
    "<!-- Written by Lukasa from the memories in this folder. Changes made here are lost. -->";

/// One memory of the listing.
#[derive(Clone, Copy, Debug)]
pub struct ListItem<'a> {
    /// The path of the memory below the root.
    pub path: &'a RelativePath,
    /// The name; without one the path is shown.
    pub name: Option<&'a str>,
    /// The description; may be empty.
    pub description: &'a str,
}

/// Returns the text of a `MEMORY.md` that lists these items in their order.
///
/// It has at most [`MEMORY_LIST_LINES_MAX`] lines and [`MEMORY_LIST_CHARS_MAX`] characters. If items are left out, the
/// last line has their number.
pub fn memory_list(items: &[ListItem<'_>]) -> String {
    let line_of = |item: &ListItem<'_>| list_line(item.path.as_str(), item.name, item.description);
    with_mark(&items.iter().map(line_of).collect::<Vec<_>>())
}

/// Checks whether a text is a generated listing, and not a memory with the name `MEMORY.md`.
pub fn is_generated_list(text: &str) -> bool {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    text.lines().next() == Some(MEMORY_LIST_MARK)
}

/// Joins the mark and as many lines as fit.
fn with_mark(lines: &[String]) -> String {
    let sizes: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    let room = ListBudget {
        lines: MEMORY_LIST_LINES_MAX - 1,
        chars: MEMORY_LIST_CHARS_MAX - MEMORY_LIST_MARK.chars().count() - 1,
    };
    let mut listed = room.lines_that_fit(&sizes);
    if listed < lines.len() {
        let last_line = omission_line(lines.len()).chars().count();
        listed = ListBudget { lines: room.lines - 1, chars: room.chars - last_line }
            .lines_that_fit(&sizes);
    }
    let mut text = format!("{MEMORY_LIST_MARK}\n");
    text.extend(lines.iter().take(listed).map(String::as_str));
    if listed < lines.len() {
        text.push_str(&omission_line(lines.len() - listed));
    }
    text
}

/// The space that is left in a listing.
#[derive(Clone, Copy)]
struct ListBudget {
    lines: usize,
    chars: usize,
}

impl ListBudget {
    /// Returns the number of lines of these sizes that fit, from the first on.
    fn lines_that_fit(self, sizes: &[usize]) -> usize {
        let totals = sizes.iter().scan(0, |total, size| {
            *total += size;
            Some(*total)
        });
        totals.take(self.lines).take_while(|total| *total <= self.chars).count()
    }
}

fn list_line(path: &str, name: Option<&str>, description: &str) -> String {
    let name = name.map(description_line).filter(|name| !name.is_empty());
    let name = escaped(name.as_deref().unwrap_or(path));
    // Paths contain no `<` and `>`, so the form in angle brackets fits every path.
    let target = if path.contains([' ', '(', ')']) { format!("<{path}>") } else { path.to_owned() };
    let description = escaped(&description_line(description));
    let dash = if description.is_empty() { "" } else { " — " };
    format!("- [{name}]({target}){dash}{description}\n")
}

fn omission_line(count: usize) -> String {
    format!("({count} more not listed)\n")
}

/// Escapes the characters that could begin or end a link, or begin code or HTML.
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

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;
    use crate::limits::DESCRIPTION_CHARS_MAX;

    fn list(items: &[(&str, Option<&str>, &str)]) -> String {
        let line_of = |&(path, name, description): &(&str, Option<&str>, &str)| {
            list_line(path, name, description)
        };
        with_mark(&items.iter().map(line_of).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_holds_one_link_and_an_escaped_description() {
        assert_snapshot!(list(&[
            ("a.md", Some("A"), "First."),
            ("deep/b c (1).md", None, ""),
            ("c.md", Some("x](evil) `"), "see [here](https://e.example)\n- <b>second</b> \\ `line`"),
            ("d.md", Some("\u{200B}"), "zero"),
        ]), @r"
        <!-- Written by Lukasa from the memories in this folder. Changes made here are lost. -->
        - [A](a.md) — First.
        - [deep/b c (1).md](<deep/b c (1).md>)
        - [x\](evil) \`](c.md) — see \[here\](https://e.example) - \<b>second\</b> \\ \`line\`
        - [d.md](d.md) — zero
        ");
    }

    #[test]
    fn a_long_list_is_cut_and_says_so() {
        let check = |count: usize, width: usize, expected: usize| {
            let description = "é".repeat(width);
            let text = list(&vec![("a.md", None, description.as_str()); count]);
            assert!(text.lines().count() <= MEMORY_LIST_LINES_MAX);
            assert!(text.chars().count() <= MEMORY_LIST_CHARS_MAX);
            assert!(is_generated_list(&text));
            let listed = text.lines().filter(|line| line.starts_with("- [")).count();
            assert_eq!(listed, expected);
            let last =
                (expected < count).then(|| format!("({} more not listed)", count - expected));
            assert_eq!(text.lines().last().filter(|line| line.starts_with('(')), last.as_deref());
        };
        check(0, 0, 0);
        check(199, 10, 199);
        check(200, 10, 198);
        check(5_000, 10, 198);
        // A line of the longest description is 18 + 200 characters.
        check(114, DESCRIPTION_CHARS_MAX, 114);
        check(115, DESCRIPTION_CHARS_MAX, 114);
    }

    #[test]
    fn only_a_text_with_the_mark_is_a_listing() {
        let check =
            |text: &str, expected: bool| assert_eq!(is_generated_list(text), expected, "{text:?}");
        check(&list(&[]), true);
        check(&list(&[("a.md", None, "")]).replace('\n', "\r\n"), true);
        check(&format!("\u{FEFF}{MEMORY_LIST_MARK}"), true);
        check(&format!("# Mine\n{MEMORY_LIST_MARK}\n"), false);
        check(&format!("{MEMORY_LIST_MARK} and more"), false);
        check("- [a](a.md) — b\n", false);
        check("", false);
    }
}
