//! Checks of a memory's text for the health report: conflict markers, a second block of frontmatter, and repeated
//! entries. Changes nothing.
//!
//! A repeated entry is found by its normalized text below its heading. Which findings are reported, and their wording,
//! is decided by the caller.

use std::collections::HashMap;

use crate::document::frontmatter::{self, Frontmatter};
use crate::document::single_line::visible_line;
use crate::document::{body_start, entries};
use crate::limits::MARKER_LENGTH_MIN;
use crate::text::slice;

/// The shortest text that counts as a repetition, in characters: `- none` below two headings is two facts.
const REPEATED_CHARS_MIN: usize = 8;

/// An entry in a normalized form: entries with the same text are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The heading above the entry, and its text: lower case, single spaces, without a final mark.
    pub key: (String, String),
    /// The first line of the entry, counted from 1.
    pub line: usize,
}

/// Returns the entries of a memory as statements, except those that are too short to be compared.
pub fn statements(text: &str) -> Vec<Statement> {
    // Linear: each line is visited once, for any number of entries.
    let (mut offset, mut line, mut heading) = (0, 1, String::new());
    let mut statements = Vec::new();
    for entry in entries(text) {
        let between = slice(text, offset..entry.range.start);
        line += between.matches('\n').count();
        if let Some(above) = between.lines().rev().find(|line| line.starts_with('#')) {
            heading = folded(above);
        }
        offset = entry.range.start;
        let folded_text = folded(entry.full_text(text));
        if folded_text.chars().count() >= REPEATED_CHARS_MIN {
            statements.push(Statement { key: (heading.clone(), folded_text), line });
        }
    }
    statements
}

/// Returns the first line of an unresolved merge conflict, counted from 1. One within a code block counts, too: git merges the
/// lines there as well. An example of markers does not count if its lines are indented.
///
/// The three markers of a conflict have the same length, at least that of git's.
pub fn conflict_line(text: &str) -> Option<usize> {
    // By the length of the markers: the offset of the first one, and whether the second one was found.
    let mut open: HashMap<usize, (usize, bool)> = HashMap::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let offset = start;
        start += line.len();
        let Some((mark, length)) = marker(line) else { continue };
        match (mark, open.get(&length).copied()) {
            ('<', None) => {
                open.insert(length, (offset, false));
            }
            ('=', Some((first, false))) => {
                open.insert(length, (first, true));
            }
            ('>', Some((first, true))) => {
                return Some(line_at(text, first));
            }
            _ => {}
        }
    }
    None
}

/// Returns the character and the length of a conflict marker.
fn marker(line: &str) -> Option<(char, usize)> {
    let mark = line.chars().next().filter(|mark| matches!(mark, '<' | '=' | '>'))?;
    let rest = line.trim_start_matches(mark);
    let length = line.len() - rest.len();
    let is_marker =
        length >= MARKER_LENGTH_MIN && (rest.trim_end().is_empty() || rest.starts_with(' '));
    is_marker.then_some((mark, length))
}

/// Returns the first line of a second block of frontmatter, counted from 1. Its fields count as body text.
pub fn second_frontmatter_line(text: &str) -> Option<usize> {
    frontmatter::read(text).block()?;
    let body = text.get(body_start(text)..)?;
    let second = body.trim_start();
    let has_fields = match frontmatter::read(second) {
        Frontmatter::Absent => false,
        Frontmatter::Fields(_, fields) => !fields.is_empty(),
        Frontmatter::Broken(..) => true,
    };
    has_fields.then(|| line_at(text, text.len() - second.len()))
}

fn folded(text: &str) -> String {
    visible_line(text).to_lowercase().trim_end_matches(['.', '!', ';', ',', '。']).to_owned()
}

fn line_at(text: &str, byte: usize) -> usize {
    slice(text, ..byte).matches('\n').count() + 1
}
