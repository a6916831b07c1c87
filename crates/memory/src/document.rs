//! The document of a memory: revision, frontmatter and entries.
//!
//! A memory is Markdown with an optional block of YAML between `---` lines at its beginning. This module parses the
//! block and never fails; it sets one field without changing another byte. It finds the entries of the body, on which
//! forget tasks and dreams work, and formats the generated `MEMORY.md`. It does not check what may be written, and it
//! does not find or write files.
//!
//! A block counts as frontmatter if it is a YAML mapping, or if it is broken but begins like one. Prose or bullets
//! between two thematic breaks are body, so that no fact is lost.

mod check;
mod edit;
mod entries;
mod entry_edit;
mod first_line;
mod frontmatter;
mod index_file;
mod parts;
mod revision;
mod single_line;
mod yaml;

#[cfg(test)]
mod tests;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::clock::Timestamp;
use crate::limits::HEAD_BYTES_MAX;
use crate::text::slice;

use self::frontmatter::FrontmatterStart;

pub use self::check::{Statement, conflict_line, second_frontmatter_line, statements};
pub use self::edit::{set_field, with_frontmatter_repaired};
pub use self::entries::{Entry, Heading, entries, headings, without_entry};
pub use self::entry_edit::{append_entry, line_end, replace_entry};
pub use self::index_file::{ListItem, MEMORY_LIST_MARK, is_generated_list, memory_list};
pub(crate) use self::parts::{DocumentParts, FrontParts, Unit, UnitKind, without_bullet};
pub use self::revision::{ParseRevisionError, Revision};
pub use self::single_line::description_line;

/// The metadata of a memory, from its frontmatter and first line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryHeader {
    /// The field `name`, on one line.
    pub name: Option<String>,
    /// The field `description`, on one line; empty if there is none or it cannot be parsed.
    pub description: String,
    /// The first heading or line of the body, on one line. Empty unless the frontmatter can be parsed and has no
    /// description.
    pub first_line: String,
    /// The field `type`, or `type` below `metadata`, where some agents put it.
    pub kind: Option<String>,
    /// Whether it holds rules for agents: by its type, or else by a heading.
    pub rules: Rules,
    /// The reason why the frontmatter is invalid, for the health check. Never quotes the memory.
    pub malformed: Option<String>,
    /// The reason why other YAML parsers refuse the frontmatter, although its values were unambiguous. Never quotes the
    /// memory.
    pub lenient_parse_reason: Option<String>,
}

/// The part of a memory that holds rules for agents, which apply to every task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// None.
    #[default]
    None,
    /// The entries below a heading that names rules.
    BelowHeadings,
    /// All of it.
    All,
}

/// Words in the name of a file or in a heading that announce rules for agents.
const RULE_WORDS: [&str; 7] =
    ["rule", "rules", "convention", "conventions", "style", "preference", "preferences"];

/// Checks whether a heading or the name of a file announces rules for agents.
pub fn names_rules(name: &str) -> bool {
    let mut words = name.split(|c: char| !c.is_alphanumeric());
    words.any(|word| RULE_WORDS.iter().any(|rule| rule.eq_ignore_ascii_case(word)))
}

impl Rules {
    /// Returns the rules of a memory with this type and text. A type that is given decides alone.
    fn of(kind: Option<&str>, body: &str) -> Self {
        match kind {
            Some("feedback") => Self::All,
            Some(_) => Self::None,
            None => {
                let is_heading = |line: &str| line.starts_with('#') && names_rules(line);
                if body.lines().any(is_heading) { Self::BelowHeadings } else { Self::None }
            }
        }
    }

    /// Returns the rules of a memory with this file name, if it has no type.
    #[must_use]
    pub fn in_file(self, name: &str, kind: Option<&str>) -> Self {
        if kind.is_none() && names_rules(name.trim_end_matches(".md")) { Self::All } else { self }
    }
}

impl MemoryHeader {
    /// Returns the line for a listing: the description, or else the first line.
    pub fn shown_description(&self) -> &str {
        if self.description.is_empty() { &self.first_line } else { &self.description }
    }
}

/// Parses the metadata of a memory from the first [`HEAD_BYTES_MAX`] bytes of its file.
///
/// Never fails: bytes that are not text give empty metadata; frontmatter that is broken or longer than the limit gives
/// the fields that can be parsed, and the reason.
pub fn parse_header(prefix: &[u8]) -> MemoryHeader {
    let cut = prefix.len() >= HEAD_BYTES_MAX;
    let Some(text) = decode_prefix(&prefix[..prefix.len().min(HEAD_BYTES_MAX)], cut) else {
        return MemoryHeader {
            malformed: Some("not UTF-8 text".to_owned()),
            ..MemoryHeader::default()
        };
    };
    let FrontmatterStart { fields, malformed, body } = frontmatter::start(text, cut);
    let (mut read_leniently, mut malformed, mut fields) = (None, malformed, fields);
    if malformed.is_some()
        && let Some(quoted) = edit::with_plain_values_quoted(text)
    {
        read_leniently = malformed.take();
        fields = frontmatter::start(&quoted, cut).fields;
    }
    let line =
        |key| frontmatter::last_value(&fields, key).and_then(frontmatter::FieldValue::single_line);
    let name = line("name");
    let description = line("description").unwrap_or_default();
    let kind = line("type").or_else(|| frontmatter::nested_text(&fields, "metadata", "type"));
    let first_line = if description.is_empty() && malformed.is_none() {
        first_line::first_line(slice(text, body..))
    } else {
        String::new()
    };
    MemoryHeader {
        name,
        description,
        first_line,
        rules: Rules::of(kind.as_deref(), slice(text, body..)),
        kind,
        malformed,
        lenient_parse_reason: read_leniently,
    }
}

/// Returns the day that the field `date` of the frontmatter names, at its beginning in UTC. The line is read even if
/// the rest of the frontmatter is invalid.
pub fn written_date(text: &str) -> Option<Timestamp> {
    let front = slice(text, ..body_start(text));
    let value = front.lines().find_map(|line| line.strip_prefix("date:"))?;
    let date: Date =
        value.trim().trim_start_matches(['"', '\'']).get(..DATE_BYTES)?.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Returns a title for display: the description, else the heading that the body begins with; empty if there is none. If
/// the frontmatter is invalid, the lines `name:` and `description:` are read as they stand.
pub fn display_title(text: &str) -> String {
    let head = parse_header(text.as_bytes());
    let heading = || {
        let body = body(text).trim_start();
        if body.starts_with('#') { first_line::first_line(body) } else { String::new() }
    };
    if head.malformed.is_none() {
        return Some(head.description).filter(|line| !line.is_empty()).unwrap_or_else(heading);
    }
    let is_end = |line: &&str| line.trim().is_empty() || matches!(line.trim_end(), "---" | "...");
    let front = || text.lines().skip(1).take_while(|line| !is_end(line));
    let raw = |key: &str| {
        let value = front().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        let value = description_line(value.trim().trim_matches(['"', '\'']));
        Some(value).filter(|value| !value.is_empty())
    };
    let title = raw("name").or_else(|| raw("description"));
    title.unwrap_or_else(heading)
}

/// Length of a date such as `2031-04-05`.
const DATE_BYTES: usize = 10;

/// Checks whether the frontmatter has more than a [`MemoryHeader`]: fields for purposes of the user, or text that
/// cannot be parsed.
pub fn has_other_fields(text: &str) -> bool {
    match frontmatter::read(text) {
        frontmatter::Frontmatter::Absent => false,
        frontmatter::Frontmatter::Broken(..) => true,
        frontmatter::Frontmatter::Fields(_, fields) => fields
            .iter()
            .any(|field| !["name", "description", "type", "metadata"].contains(&&*field.key)),
    }
}

/// Returns the text after the frontmatter; the whole text if there is none.
pub fn body(text: &str) -> &str {
    slice(text, body_start(text)..)
}

/// Returns the offset of the body; that after a byte order mark if there is no frontmatter.
fn body_start(text: &str) -> usize {
    frontmatter::read(text)
        .block()
        .map_or_else(|| frontmatter::byte_order_mark(text).len(), |block| block.end)
}

/// Decodes the bytes, without a partial character that a cut may have left at the end.
fn decode_prefix(bytes: &[u8], cut: bool) -> Option<&str> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if cut && error.error_len().is_none() => {
            str::from_utf8(bytes.get(..error.valid_up_to())?).ok()?
        }
        Err(_) => return None,
    };
    (!text.contains('\0')).then_some(text)
}
