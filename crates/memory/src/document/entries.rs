//! Splits the body of a memory into entries, the units that tasks add, merge and remove.
//!
//! Every line of the body belongs to one entry, to a heading or to a thematic break, or is blank, so no text is lost.
//! An item of a top-level list, bulleted or numbered, is an entry, including everything nested in it. So is any other
//! top-level block: a paragraph, code, a quote, HTML, link definitions. A paragraph that begins with `Why:` or
//! `How to apply:` belongs to the entry above it; if it is only that label, so does the list below it. A heading of
//! several lines that is underlined with dashes counts as a paragraph, because a thematic break was meant.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::document::{Revision, body_start};
use crate::path::MemoryPath;
use crate::text::{fold, slice};

/// An entry of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The range in the file, in bytes: whole lines, with the last line ending.
    pub range: Range<usize>,
    /// The first line that is not blank, without the bullet or number.
    pub first_line: String,
}

impl Entry {
    /// Returns the whole entry from its text, without the bullet or number and without trailing white space.
    pub fn full_text<'a>(&self, text: &'a str) -> &'a str {
        let all = slice(text, self.range.clone());
        let start = all.find(self.first_line.as_str()).unwrap_or(0);
        slice(all, start..).trim_end()
    }

    /// Returns the form in which entries are compared: without the bullet, letter case and repeated white space.
    pub fn key(&self, text: &str) -> String {
        fold(self.full_text(text)).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Returns the first 64 bits of a digest of the entry in its file, the same for any white space: the mark of an entry
    /// that a conversation was shown. The file counts, because two may say the same of different things.
    pub fn digest(&self, path: &MemoryPath, text: &str) -> u64 {
        let words: Vec<&str> = self.full_text(text).split_whitespace().collect();
        Revision::digest(format!("{path}\0{}", words.join(" ")).as_bytes()).first_bits()
    }
}

/// A heading between the entries of a memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The range in the file, in bytes, without white space at both ends.
    pub range: Range<usize>,
    /// Its level, from 1 for the highest.
    pub level: usize,
}

/// Returns the headings of a memory in order.
pub fn headings(text: &str) -> Vec<Heading> {
    let start = body_start(text);
    let lines = BodyLines::new(slice(text, start..));
    let dividers = pieces(&lines).into_iter().filter(|piece| piece.kind == BlockKind::Divider);
    let heading = |piece: MarkdownBlock| {
        let bytes = lines.bytes(&piece.lines);
        let heading = lines.text(&piece.lines);
        // A thematic break is a divider, too.
        heading.chars().any(char::is_alphanumeric).then_some(())?;
        let begin = bytes.start + start + heading.len() - heading.trim_start().len();
        let heading = heading.trim();
        let marks = heading.len() - heading.trim_start_matches('#').len();
        let underline = if heading.ends_with('-') { 2 } else { 1 };
        let level = if marks > 0 { marks } else { underline };
        Some(Heading { range: begin..begin + heading.len(), level })
    };
    dividers.filter_map(heading).collect()
}

/// Returns the entries of a memory in order. They do not overlap.
pub fn entries(text: &str) -> Vec<Entry> {
    let start = body_start(text);
    let body = slice(text, start..);
    let lines = BodyLines::new(body);
    let pieces = pieces(&lines).into_iter().filter(|piece| piece.kind != BlockKind::Divider);
    pieces.filter_map(|piece| entry(&lines, &piece, start)).collect()
}

/// A part of the body: an entry, an empty bullet, a heading, or a thematic break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BodyPart {
    /// The range in the file, in bytes: whole lines, with the last line ending.
    pub(super) range: Range<usize>,
    /// Whether it is a heading or a thematic break.
    pub(super) is_divider: bool,
    /// Whether it is an item of a list.
    pub(super) is_item: bool,
}

/// Returns the parts of the body in order. Every line that is not blank is in exactly one of them.
pub(super) fn body_parts(text: &str) -> Vec<BodyPart> {
    let start = body_start(text);
    let lines = BodyLines::new(slice(text, start..));
    let parts = pieces(&lines).into_iter().filter(|piece| !piece.lines.is_empty());
    parts
        .map(|piece| {
            let bytes = lines.bytes(&piece.lines);
            BodyPart {
                range: bytes.start + start..bytes.end + start,
                is_divider: piece.kind == BlockKind::Divider,
                is_item: matches!(piece.kind, BlockKind::Item(_)),
            }
        })
        .collect()
}

/// Removes an entry from its text; every other byte is kept.
///
/// # Panics
///
/// Panics if the entry is from another text and does not fit this one.
pub fn without_entry(text: &str, entry: &Entry) -> String {
    [slice(text, ..entry.range.start), slice(text, entry.range.end..)].concat()
}

/// The lines of a body. A lone carriage return ends a line, as in Markdown.
struct BodyLines<'a> {
    body: &'a str,
    /// The offset of each line, and the end of the body.
    starts: Vec<usize>,
}

impl<'a> BodyLines<'a> {
    fn new(body: &'a str) -> Self {
        let bytes = body.as_bytes();
        let ends = (0..bytes.len()).filter(|&offset| {
            bytes[offset] == b'\n'
                || (bytes[offset] == b'\r' && bytes.get(offset + 1) != Some(&b'\n'))
        });
        let mut starts: Vec<usize> =
            std::iter::once(0).chain(ends.map(|offset| offset + 1)).collect();
        if starts.last() != Some(&body.len()) {
            starts.push(body.len());
        }
        Self { body, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn bytes(&self, lines: &Range<usize>) -> Range<usize> {
        self.starts[lines.start]..self.starts[lines.end]
    }

    fn text(&self, lines: &Range<usize>) -> &'a str {
        slice(self.body, self.bytes(lines))
    }

    fn is_blank(&self, line: usize) -> bool {
        self.text(&(line..line + 1)).trim().is_empty()
    }

    /// Returns the lines that these bytes touch, from `first` on, without trailing blank lines.
    fn lines_touching(&self, bytes: &Range<usize>, first: usize) -> Range<usize> {
        let line_of = |byte| self.starts.partition_point(|&start| start <= byte) - 1;
        let start = line_of(bytes.start).max(first);
        let mut end = (line_of(bytes.end.saturating_sub(1).max(bytes.start)) + 1).min(self.count());
        while end > start && self.is_blank(end - 1) {
            end -= 1;
        }
        start.min(end)..end
    }
}

/// A block of the body, in lines.
struct MarkdownBlock {
    lines: Range<usize>,
    kind: BlockKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    /// A heading or a thematic break: not an entry, and nothing is joined across it.
    Divider,
    Paragraph,
    /// An item of the list with this number.
    Item(usize),
    Other,
}

/// Returns the top-level blocks, with the items of top-level lists instead of the lists.
fn blocks(lines: &BodyLines<'_>) -> Vec<MarkdownBlock> {
    let mut blocks: Vec<MarkdownBlock> = Vec::new();
    let mut depth = 0_usize;
    let mut list = None;
    let mut lists = 0;
    for (event, bytes) in Parser::new_ext(lines.body, Options::empty()).into_offset_iter() {
        let kind = match &event {
            Event::Start(Tag::List(_)) if depth == 0 => {
                lists += 1;
                list = Some(lists);
                None
            }
            Event::Start(Tag::Item) if depth == 1 => list.map(BlockKind::Item),
            Event::Start(Tag::Heading { .. }) | Event::Rule if depth == 0 => {
                Some(BlockKind::Divider)
            }
            Event::Start(Tag::Paragraph) if depth == 0 => Some(BlockKind::Paragraph),
            Event::Start(_) if depth == 0 => Some(BlockKind::Other),
            _ => None,
        };
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            list = None;
        }
        if let Some(kind) = kind {
            let first = blocks.last().map_or(0, |block| block.lines.end);
            let touched = lines.lines_touching(&bytes, first);
            if !touched.is_empty() {
                blocks.push(without_underline(lines, MarkdownBlock { lines: touched, kind }));
            }
        }
    }
    blocks
}

/// Converts a heading of several underlined lines to the paragraph above a thematic break.
fn without_underline(lines: &BodyLines<'_>, block: MarkdownBlock) -> MarkdownBlock {
    let count = block.lines.len();
    let underlined = lines.text(&(block.lines.end - 1..block.lines.end)).trim().starts_with('-');
    if block.kind == BlockKind::Divider && count > 2 && underlined {
        return MarkdownBlock {
            lines: block.lines.start..block.lines.end - 1,
            kind: BlockKind::Paragraph,
        };
    }
    block
}

/// Adds the lines that belong to no block, such as link definitions, as blocks of their own.
fn with_unparsed_lines(lines: &BodyLines<'_>, blocks: Vec<MarkdownBlock>) -> Vec<MarkdownBlock> {
    let mut all: Vec<MarkdownBlock> = Vec::new();
    let end = MarkdownBlock { lines: lines.count()..lines.count(), kind: BlockKind::Divider };
    let mut next = 0;
    for block in blocks.into_iter().chain([end]) {
        while next < block.lines.start {
            let run = (next..block.lines.start).take_while(|&line| !lines.is_blank(line)).count();
            // The underline that counts as a thematic break is no entry.
            let line = lines.text(&(next..next + 1)).trim();
            let is_break = run == 1 && line.len() > 1 && line.bytes().all(|byte| byte == b'-');
            if run > 0 {
                let kind = if is_break { BlockKind::Divider } else { BlockKind::Other };
                all.push(MarkdownBlock { lines: next..next + run, kind });
            }
            next += run.max(1);
        }
        next = block.lines.end;
        all.push(block);
    }
    all
}

/// Returns the entries of a body, with the headings and thematic breaks between them.
fn pieces(lines: &BodyLines<'_>) -> Vec<MarkdownBlock> {
    join_explanations(lines, with_unparsed_lines(lines, blocks(lines)))
}

/// Joins each entry with the paragraphs that explain it. Headings and thematic breaks stay as they are.
fn join_explanations(lines: &BodyLines<'_>, blocks: Vec<MarkdownBlock>) -> Vec<MarkdownBlock> {
    let mut pieces: Vec<MarkdownBlock> = Vec::new();
    let mut above = false;
    let mut label_alone = false;
    let mut taken_list = None;
    for block in blocks {
        let explains = match block.kind {
            BlockKind::Divider => {
                above = false;
                label_alone = false;
                pieces.push(block);
                continue;
            }
            BlockKind::Paragraph => after_label(lines.text(&block.lines)).is_some(),
            BlockKind::Item(list) => {
                if label_alone {
                    taken_list = Some(list);
                }
                taken_list == Some(list)
            }
            BlockKind::Other => false,
        };
        let is_label = block.kind == BlockKind::Paragraph;
        label_alone = above
            && is_label
            && after_label(lines.text(&block.lines)).is_some_and(|rest| rest.trim().is_empty());
        match pieces.last_mut() {
            Some(piece) if above && explains => piece.lines.end = block.lines.end,
            _ => pieces.push(block),
        }
        above = true;
    }
    pieces
}

/// Returns the text after a label that explains the entry above, in a form that agents write, bold or not.
fn after_label(paragraph: &str) -> Option<&str> {
    let text = paragraph.trim_start().trim_start_matches(['*', '_']);
    let label = ["why", "how to apply", "how_to_apply"]
        .into_iter()
        .find(|label| text.get(..label.len()).is_some_and(|t| t.eq_ignore_ascii_case(label)))?;
    let rest = text.get(label.len()..)?.trim_start_matches(['*', '_']);
    Some(rest.strip_prefix(':')?.trim_start_matches(['*', '_']))
}

/// Converts a block to an entry; `None` for an empty bullet.
fn entry(lines: &BodyLines<'_>, piece: &MarkdownBlock, start: usize) -> Option<Entry> {
    let bytes = lines.bytes(&piece.lines);
    let text = lines.text(&piece.lines).trim_start();
    let text = if matches!(piece.kind, BlockKind::Item(_)) { after_bullet(text) } else { text };
    let first_line = text.split(['\n', '\r']).map(str::trim).find(|line| !line.is_empty())?;
    Some(Entry { range: bytes.start + start..bytes.end + start, first_line: first_line.to_owned() })
}

/// Returns an item without its bullet or number.
pub(super) fn after_bullet(item: &str) -> &str {
    let rest = item.trim_start_matches(|c: char| c.is_ascii_digit());
    let markers: &[char] = if rest.len() == item.len() { &['-', '*', '+'] } else { &['.', ')'] };
    rest.strip_prefix(markers).unwrap_or(rest)
}
