//! Finds what a person should look at in the text of a memory: conflict markers, a second block of frontmatter, and
//! entries that could repeat others. Nothing is changed here.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::document::frontmatter::{self, Frontmatter};
use crate::document::single_line::visible_line;
use crate::document::{body_start, entries};
use crate::text::slice;

/// The shortest text that counts as repeated, in characters: `- none` below two headings is two facts.
const REPEATED_CHARS_MIN: usize = 8;

/// An entry, in a form in which entries that say the same are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The heading above it, and what it says: without case, white space and the mark at its end.
    pub key: (String, String),
    /// The line where it begins, counted from 1.
    pub line: usize,
}

/// Returns the entries of a memory as statements, without those that are too short to tell.
pub fn statements(text: &str) -> Vec<Statement> {
    // Each line is looked at once, however many entries there are.
    let (mut at, mut line, mut heading) = (0, 1, String::new());
    let mut told = Vec::new();
    for entry in entries(text) {
        let between = slice(text, at..entry.range.start);
        line += between.matches('\n').count();
        if let Some(above) = between.lines().rev().find(|line| line.starts_with('#')) {
            heading = folded(above);
        }
        at = entry.range.start;
        let said = folded(entry.full_text(text));
        if said.chars().count() >= REPEATED_CHARS_MIN {
            told.push(Statement { key: (heading.clone(), said), line });
        }
    }
    told
}

/// Returns the line where an unresolved merge conflict begins, counted from 1. A conflict that lies within one block of
/// code is an example of one.
pub fn conflict_line(text: &str) -> Option<usize> {
    let code = code_blocks(text);
    let mut start = 0;
    let mut lines = text.split_inclusive('\n').map(|line| {
        start += line.len();
        (start - line.len(), line.trim_end())
    });
    while let Some(conflict) = next_conflict(&mut lines) {
        let is_example =
            |block: &Range<usize>| block.contains(&conflict.start) && block.contains(&conflict.end);
        if !code.iter().any(is_example) {
            return Some(line_at(text, conflict.start));
        }
    }
    None
}

/// Returns where the first and the last marker of the next conflict begin, in bytes.
fn next_conflict<'a>(lines: &mut impl Iterator<Item = (usize, &'a str)>) -> Option<Range<usize>> {
    let begins = |line: &str, mark: &str| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let (start, _) = lines.find(|(_, line)| begins(line, "<<<<<<<"))?;
    lines.find(|(_, line)| begins(line, "======="))?;
    let (end, _) = lines.find(|(_, line)| begins(line, ">>>>>>>"))?;
    Some(start..end)
}

/// Returns where the blocks of code of a memory are, in bytes.
fn code_blocks(text: &str) -> Vec<Range<usize>> {
    let start = body_start(text);
    let body = slice(text, start..);
    Parser::new_ext(body, Options::empty())
        .into_offset_iter()
        .filter(|(event, _)| matches!(event, Event::Start(Tag::CodeBlock(_))))
        .map(|(_, range)| range.start + start..range.end + start)
        .collect()
}

/// Returns the line where a second block of frontmatter begins, counted from 1. Its fields are read as text.
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
