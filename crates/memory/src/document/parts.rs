//! Splits a whole memory into the units that a merge compares, without losing a byte.
//!
//! A unit is a field or a comment of the frontmatter, an entry, a heading, a thematic break or an empty bullet. The
//! blank lines before a unit belong to it as its gap. Fences, byte order mark and the end of the text are kept apart.
//! This module does not decide what becomes of a unit.

use std::ops::Range;

use crate::document::edit;
use crate::document::entries::{after_bullet, body_parts};
use crate::document::entry_edit::line_end;
use crate::document::frontmatter::{
    Field, Frontmatter, FrontmatterBlock, begins_field, byte_order_mark, read,
};
use crate::text::slice;

/// A memory as a list of units.
#[derive(Debug)]
pub(crate) struct DocumentParts<'a> {
    /// The byte order mark, or nothing.
    pub(crate) byte_order_mark: &'a str,
    pub(crate) front: Option<FrontParts<'a>>,
    pub(crate) body: Vec<Unit<'a>>,
    /// The rest after the last line that is not blank: its line ending, and blank lines.
    pub(crate) tail: &'a str,
    /// The line ending that the text uses.
    pub(crate) line_end: &'static str,
    /// The fields of the frontmatter, if it is valid.
    fields: Option<Vec<Field>>,
}

/// The block of frontmatter.
#[derive(Debug)]
pub(crate) struct FrontParts<'a> {
    /// The opening line, and its line ending.
    pub(crate) open: (&'a str, &'a str),
    pub(crate) units: Vec<Unit<'a>>,
    /// The blank lines before the closing line.
    pub(crate) tail: &'a str,
    /// The closing line, and its line ending.
    pub(crate) close: (&'a str, &'a str),
}

/// A unit: whole lines of a memory.
#[derive(Debug)]
pub(crate) struct Unit<'a> {
    /// The blank lines before it.
    pub(crate) gap: &'a str,
    /// Its text without the last line ending.
    pub(crate) text: &'a str,
    /// The last line ending; empty at the end of a text without one.
    pub(crate) end: &'a str,
    pub(crate) kind: UnitKind,
    /// The text for comparisons: with any bullet as `-`, and without white space at the ends of lines.
    pub(crate) plain: String,
    /// The key of a field.
    pub(crate) key: Option<&'a str>,
    /// The index of the heading above.
    pub(crate) parent: Option<usize>,
}

/// The kind of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnitKind {
    /// A heading of this level; with `true` if it is written with `#`.
    Heading(u8, bool),
    /// A thematic break.
    Rule,
    /// An item of a list.
    Item,
    /// Any other block.
    Text,
    /// A field of the frontmatter, or a comment.
    Field,
}

impl<'a> DocumentParts<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let frontmatter = read(text);
        let mark = byte_order_mark(text);
        let block = frontmatter.block();
        let front = block.map(|block| FrontParts::new(text, block));
        let (body, mut end) = body_units(text, block.map_or(mark.len(), |block| block.end));
        if body.is_empty()
            && let Some(block) = block
        {
            // The line ending of the closing line belongs to the rest.
            end = block.end - without_line_end(slice(text, ..block.end)).1.len();
        }
        let tail = slice(text, end..);
        let fields = match frontmatter {
            Frontmatter::Fields(_, fields) => Some(fields),
            Frontmatter::Absent | Frontmatter::Broken(..) => None,
        };
        Self { byte_order_mark: mark, front, body, tail, line_end: line_end(text), fields }
    }

    pub(crate) fn front_units(&self) -> &[Unit<'a>] {
        self.front.as_ref().map_or(&[], |front| &front.units)
    }

    /// Checks whether the frontmatter is absent or valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.front.is_none() || self.fields.is_some()
    }

    /// Checks whether each field has its value from one of these memories.
    pub(crate) fn has_values_of(&self, sources: &[&Self]) -> bool {
        let is_value_of = |field: &Field, source: &Self| {
            let mut fields = source.fields.iter().flatten();
            fields.any(|other| (&other.key, &other.value) == (&field.key, &field.value))
        };
        let mut fields = self.fields.iter().flatten();
        fields.all(|field| sources.iter().any(|source| is_value_of(field, source)))
    }
}

impl<'a> FrontParts<'a> {
    fn new(text: &'a str, block: &FrontmatterBlock) -> Self {
        let fence = |range: Range<usize>| without_line_end(slice(text, range));
        let mut units = Vec::new();
        let (mut offset, mut gap) = (block.yaml.start, block.yaml.start);
        for chunk in edit::chunks(slice(text, block.yaml.clone())) {
            let blank: usize = chunk.split_inclusive('\n').take_while(is_blank).map(str::len).sum();
            let start = offset + blank;
            offset += chunk.len();
            let trailing = chunk.split_inclusive('\n').rev().take_while(is_blank);
            let end = offset - trailing.map(str::len).sum::<usize>();
            if start < end {
                let key = begins_field(chunk).then(|| chunk.split_once(':')).flatten();
                let unit = Unit::new(text, gap, start..end, UnitKind::Field);
                units.push(Unit { key: key.map(|(key, _)| key), ..unit });
                gap = end;
            }
        }
        Self {
            open: fence(byte_order_mark(text).len()..block.yaml.start),
            units,
            tail: slice(text, gap..block.yaml.end),
            close: fence(block.yaml.end..block.end),
        }
    }
}

impl<'a> Unit<'a> {
    fn new(text: &'a str, gap: usize, range: Range<usize>, kind: UnitKind) -> Self {
        let gap = slice(text, gap..range.start);
        let (text, end) = without_line_end(slice(text, range));
        Self { gap, text, end, kind, plain: plain(text, kind), key: None, parent: None }
    }

    /// Returns the level of a heading; of any other unit a level below all headings.
    pub(crate) const fn level(&self) -> u8 {
        match self.kind {
            UnitKind::Heading(level, _) => level,
            UnitKind::Rule | UnitKind::Item | UnitKind::Text | UnitKind::Field => u8::MAX,
        }
    }

    pub(crate) const fn is_heading(&self) -> bool {
        matches!(self.kind, UnitKind::Heading(..))
    }
}

/// Returns the units of a body, and the offset after the last one, before its line ending.
fn body_units(text: &str, start: usize) -> (Vec<Unit<'_>>, usize) {
    let mut units: Vec<Unit<'_>> = Vec::new();
    let (mut gap, mut end) = (start, start);
    // The headings above, outermost first.
    let mut headings: Vec<usize> = Vec::new();
    for part in body_parts(text) {
        let lines = slice(text, part.range.clone());
        let kind = match (part.is_divider, part.is_item) {
            (true, _) => heading_kind(lines),
            (false, true) => UnitKind::Item,
            (false, false) => UnitKind::Text,
        };
        let mut unit = Unit::new(text, gap, part.range.clone(), kind);
        if unit.is_heading() {
            headings.retain(|&above| units[above].level() < unit.level());
        }
        unit.parent = headings.last().copied();
        if unit.is_heading() {
            headings.push(units.len());
        }
        gap = part.range.end;
        end = part.range.end - unit.end.len();
        units.push(unit);
    }
    (units, end)
}

fn heading_kind(lines: &str) -> UnitKind {
    let text = lines.trim();
    let hashes = text.bytes().take_while(|&byte| byte == b'#').count();
    if let Ok(level @ 1..) = u8::try_from(hashes) {
        return UnitKind::Heading(level, true);
    }
    match text.lines().last() {
        Some(line) if text.contains(['\n', '\r']) => {
            UnitKind::Heading(if line.trim().starts_with('=') { 1 } else { 2 }, false)
        }
        _ => UnitKind::Rule,
    }
}

/// Returns a unit in the form in which units are compared.
fn plain(text: &str, kind: UnitKind) -> String {
    let (bullet, text) = match kind {
        UnitKind::Item => ("- ", without_bullet(text)),
        _ => ("", text),
    };
    let lines: Vec<_> = text.trim().lines().map(str::trim_end).collect();
    format!("{bullet}{}", lines.join("\n"))
}

/// Returns a line without white space and bullet at its start.
pub(crate) fn without_bullet(line: &str) -> &str {
    after_bullet(line.trim_start())
}

/// Splits lines before the last line ending.
fn without_line_end(lines: &str) -> (&str, &str) {
    let text = lines.strip_suffix('\n').unwrap_or(lines);
    let text = text.strip_suffix('\r').unwrap_or(text);
    lines.split_at(text.len())
}

fn is_blank(line: &&str) -> bool {
    line.trim().is_empty()
}
