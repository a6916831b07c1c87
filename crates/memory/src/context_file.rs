//! Context files: instruction files such as `AGENTS.md`. This module adds text to them and finds their imports.
//!
//! An added fact becomes the last line of the section of added memories; every other byte is kept. A Markdown parser
//! finds the section, so a `## ` in a code block is not a heading, and nothing is added inside of a code block. The
//! store finds, reads and writes the files.

use std::ops::Range;

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::document::body;
use crate::text::slice;

mod import;

pub use self::import::{
    ImportCandidate, ImportRef, ImportResolution, ImportStyle, LoadedText, ResolvedImport,
    find_imports,
};

/// The default file names of context files, in the order of the search.
pub const NAMES_DEFAULT: [&str; 2] = ["QWEN.md", "AGENTS.md"];

/// The names of instruction files that hosts load by themselves. The order decides which one is written.
pub const HOST_NAMES: [&str; 4] = ["CLAUDE.md", "AGENTS.md", "GEMINI.md", "QWEN.md"];

/// The name of a new file if there is none and the host is unknown.
pub const SHARED_NAME: &str = "AGENTS.md";

/// Returns the name of the instruction file that a client with this name loads by itself.
pub fn name_for(client: &str) -> &'static str {
    let client = client.to_ascii_lowercase();
    let own = [("claude", "CLAUDE.md"), ("gemini", "GEMINI.md"), ("qwen", "QWEN.md")];
    let found = own.into_iter().find(|(word, _)| client.contains(word));
    found.map_or(SHARED_NAME, |(_, name)| name)
}

/// The end of the heading of a section of added memories, of Lukasa or another product.
const HEADING_END: &str = " Added Memories";

/// The heading of a new section.
const HEADING: &str = "## Lukasa Added Memories";

/// A byte order mark.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The characters that end a line, in Markdown or for other readers.
const LINE_ENDS: [char; 7] = ['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Converts a text to a fact: one line, without leading dashes or spaces; `None` if nothing is left.
pub fn fact(text: &str) -> Option<String> {
    let lines = text.split(LINE_ENDS).map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join(" ");
    let fact = line.trim_start_matches(|c: char| c == '-' || c.is_whitespace());
    (!fact.is_empty()).then(|| fact.to_owned())
}

/// Returns the text of a context file with an addition at the end of its section of added memories.
///
/// Returns `None` if there is nothing to add, or if the section already has that fact.
///
/// A single line is a [`fact`] and becomes a list item; several lines are added unchanged. A missing section, and a
/// missing line break at the end of the file, are added. The addition gets the line endings of the file.
pub fn with_added(text: &str, addition: &str) -> Option<String> {
    let several = addition.trim().contains(['\n', '\r']);
    let (block, is_item) = if several {
        let first = addition.lines().find(|line| !line.trim().is_empty())?;
        (lines_of(addition), first.starts_with("- "))
    } else {
        (format!("- {}", fact(addition)?), true)
    };
    let (mark, rest) = text.split_at(if text.starts_with(BYTE_ORDER_MARK) {
        BYTE_ORDER_MARK.len_utf8()
    } else {
        0
    });
    let line_break = if is_crlf(text) { "\r\n" } else { "\n" };
    let block = block.replace('\n', line_break);
    if !several && has_line(rest, &block) {
        return None;
    }
    let writing = Insertion { text: rest, block: &block, is_item, line_break };
    Some(format!("{mark}{}", writing.render()))
}

/// An error: an edited text lacks lines of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinesMissing;

/// Returns the text of a context file after a person edited an addition to it; `None` if it does not change.
///
/// Hosts let the person edit either the addition or the whole file with it. A text with a section of added memories is
/// the whole file. It replaces the file if every line of the file is still in it, because this operation may only add
/// text. Any other text is added like in [`with_added`].
pub fn with_edited(text: &str, edited: &str) -> Result<Option<String>, LinesMissing> {
    if section(edited).is_none() {
        return Ok(with_added(text, edited));
    }
    let mut lines = edited.lines().map(str::trim_end);
    let before = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).lines().map(str::trim_end);
    let is_whole = before.filter(|line| !line.is_empty()).all(|line| lines.any(|it| it == line));
    if !is_whole {
        return Err(LinesMissing);
    }
    let mut after = edited.replace("\r\n", "\n");
    if is_crlf(text) {
        after = after.replace('\n', "\r\n");
    }
    if text.starts_with(BYTE_ORDER_MARK) && !after.starts_with(BYTE_ORDER_MARK) {
        after.insert(0, BYTE_ORDER_MARK);
    }
    Ok((after != text).then_some(after))
}

/// Checks whether the section of added memories has this line.
fn has_line(text: &str, line: &str) -> bool {
    let section = section(text).map_or("", |section| slice(text, section));
    section.lines().any(|it| it.trim_end() == line)
}

/// Returns the lines of a text, joined by `\n`, without surrounding blank lines.
fn lines_of(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let start = text.find(|c: char| !c.is_whitespace()).unwrap_or_default();
    let start = slice(&text, ..start).rfind('\n').map_or(0, |offset| offset + 1);
    slice(&text, start..).trim_end().to_owned()
}

/// Checks whether the first line of a text ends with `\r\n`.
fn is_crlf(text: &str) -> bool {
    text.split_once('\n').is_some_and(|(line, _)| line.ends_with('\r'))
}

/// The separator before an added block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSeparator {
    /// No separator: the block follows the line above.
    Nothing,
    /// A blank line.
    BlankLine,
    /// A blank line and the heading of a new section.
    Heading,
}

/// A block and the text that it is to be inserted into.
struct Insertion<'a> {
    text: &'a str,
    block: &'a str,
    is_item: bool,
    line_break: &'a str,
}

impl Insertion<'_> {
    /// Returns the text with the block at the first position where Markdown parses it as intended. After an unclosed
    /// code block everything is code, so the block is then inserted above it.
    fn render(&self) -> String {
        let candidates = match section(self.text) {
            Some(section) => {
                let end = last_line(self.text, &section);
                let heading = last_line(self.text, &(section.start..section.start));
                let gap =
                    if self.is_item { BlockSeparator::Nothing } else { BlockSeparator::BlankLine };
                vec![
                    self.insert_after(end, gap),
                    self.insert_after(end, BlockSeparator::BlankLine),
                    self.insert_after(heading, gap),
                ]
            }
            None => vec![
                self.insert_after(self.text.len(), BlockSeparator::Heading),
                self.insert_at_top(),
            ],
        };
        let chosen =
            candidates.iter().find(|placed| is_parsed_as_block(placed)).or(candidates.last());
        chosen.map(|placed| placed.text.clone()).unwrap_or_default()
    }

    /// Inserts the block, with a separator, after the line that ends at `offset`.
    fn insert_after(&self, offset: usize, before: BlockSeparator) -> InsertedBlock {
        let (above, below) = self.text.split_at_checked(offset).unwrap_or((self.text, ""));
        let mut text = above.to_owned();
        let break_line = |text: &mut String| {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push_str(self.line_break);
            }
        };
        break_line(&mut text);
        let is_apart = text.is_empty() || text.ends_with("\n\n") || text.ends_with("\n\r\n");
        if !is_apart && before != BlockSeparator::Nothing {
            text.push_str(self.line_break);
        }
        if before == BlockSeparator::Heading {
            text.push_str(HEADING);
            text.push_str(self.line_break);
        }
        let start = text.len();
        text.push_str(self.block);
        text.push_str(self.line_break);
        let below = below.strip_prefix("\r\n").or(below.strip_prefix('\n')).unwrap_or(below);
        if below.lines().next().is_some_and(|line| !line.trim().is_empty()) {
            text.push_str(self.line_break);
        }
        text.push_str(below);
        break_line(&mut text);
        InsertedBlock { text, start }
    }

    fn insert_at_top(&self) -> InsertedBlock {
        let start = self.text.len() - body(self.text).len();
        let front = slice(self.text, ..start);
        let rest = slice(self.text, start..);
        let top =
            Insertion { text: front, ..*self }.insert_after(front.len(), BlockSeparator::Heading);
        let end = if rest.is_empty() || rest.ends_with('\n') { "" } else { self.line_break };
        let text = format!("{}{}{rest}{end}", top.text, self.line_break);
        InsertedBlock { text, start: top.start }
    }
}

/// A text with an inserted block, and the offset of the block.
struct InsertedBlock {
    text: String,
    start: usize,
}

/// Checks whether Markdown parses a block at this offset, which it does not within code.
fn is_parsed_as_block(placed: &InsertedBlock) -> bool {
    events(&placed.text).any(|(event, range)| {
        range.start == placed.start && matches!(event, Event::Start(_) | Event::Rule)
    })
}

fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::empty()).into_offset_iter()
}

/// Returns the range of the first section of added memories: from the end of its heading to the next heading of its
/// level or above, or to the end.
fn section(text: &str) -> Option<Range<usize>> {
    let mut headings = headings(text).into_iter();
    let heading = headings.find(|heading| {
        heading.level == HeadingLevel::H2
            && heading.title.strip_suffix(HEADING_END).is_some_and(|name| !name.trim().is_empty())
    })?;
    let next = headings.find(|heading| heading.level <= HeadingLevel::H2);
    Some(heading.range.end..next.map_or(text.len(), |next| next.range.start))
}

struct Heading {
    level: HeadingLevel,
    title: String,
    range: Range<usize>,
}

/// Returns the top-level headings: not those in a quote or list.
fn headings(text: &str) -> Vec<Heading> {
    let (mut found, mut depth): (Vec<Heading>, usize) = (Vec::new(), 0);
    let mut title: Option<String> = None;
    for (event, range) in events(text) {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                title = Some(String::new());
                depth += 1;
                found.push(Heading { level, title: String::new(), range });
            }
            Event::End(TagEnd::Heading(_)) => {
                depth -= 1;
                if let (Some(title), Some(heading)) = (title.take(), found.last_mut()) {
                    title.trim().clone_into(&mut heading.title);
                }
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(words) | Event::Code(words) => {
                if let Some(title) = &mut title {
                    title.push_str(&words);
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the end of the last line of the section that is not blank, without its line break; at least that of the
/// heading.
fn last_line(text: &str, section: &Range<usize>) -> usize {
    let before = slice(text, ..section.end).trim_end();
    let heading = slice(text, ..section.start).trim_end();
    let end = before.len().max(heading.len());
    let rest = slice(text, end..);
    end + rest.find(['\n', '\r']).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
