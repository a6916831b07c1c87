//! Finds the first line of a body with text, as a substitute for a missing description.
//!
//! Lines without text of their own (breaks, fences, comments, table rows, conflict markers) are skipped. The result
//! only replaces a description in listings; nothing is written to the memory.

use crate::document::frontmatter::{self, Frontmatter};
use crate::document::single_line::description_line;
use crate::text::slice;

/// Returns the first heading or line of text of a body, without its marks and on one line; empty if there is none.
///
/// Skips thematic breaks, code fences, comments, table rows and markers of a merge conflict.
pub(super) fn first_line(body: &str) -> String {
    let body = below_second_block(body.trim_start());
    let mut in_comment = false;
    for line in body.lines().map(str::trim) {
        if in_comment || line.starts_with("<!--") {
            in_comment = !line.contains("-->");
            continue;
        }
        if is_empty_line(line) {
            continue;
        }
        let shown = description_line(without_marks(line));
        if !shown.is_empty() {
            return shown;
        }
    }
    String::new()
}

/// Skips a second block of frontmatter, which a merge may have left.
fn below_second_block(body: &str) -> &str {
    match frontmatter::read(body) {
        Frontmatter::Absent => body,
        Frontmatter::Fields(block, _) | Frontmatter::Broken(block, _) => slice(body, block.end..),
    }
}

fn is_empty_line(line: &str) -> bool {
    let is_rule = |mark| line.len() >= 3 && line.chars().all(|c| c == mark || c == ' ');
    line.is_empty()
        || ['-', '*', '_', '='].into_iter().any(is_rule)
        || ["```", "~~~", "|", "<<<<<<<", ">>>>>>>"].iter().any(|mark| line.starts_with(mark))
}

/// Removes the marks of a heading, quotation, list and check box from a line.
fn without_marks(line: &str) -> &str {
    let heading = line.trim_start_matches('#');
    let level = line.len() - heading.len();
    if (1..=6).contains(&level) && (heading.is_empty() || heading.starts_with([' ', '\t'])) {
        return heading.trim_end_matches('#').trim();
    }
    let mut rest = line;
    for mark in ["> ", "- ", "* ", "+ "] {
        rest = rest.strip_prefix(mark).unwrap_or(rest).trim_start();
    }
    let after_digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_digits.len() < rest.len() {
        let item = after_digits.strip_prefix(". ").or_else(|| after_digits.strip_prefix(") "));
        rest = item.unwrap_or(rest);
    }
    for mark in ["[ ] ", "[x] ", "[X] "] {
        rest = rest.strip_prefix(mark).unwrap_or(rest);
    }
    rest.trim()
}
