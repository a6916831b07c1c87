//! Finds and reads the block of YAML in front of a memory.
//!
//! Reading is bounded, because a cloned repository may hold anything. Values of any type are accepted; only texts, numbers and booleans have a text. Reasons
//! name a line and never quote one.

use std::ops::Range;

use crate::document::single_line::description_line;
use crate::document::yaml::{self, YamlError, is_null};
use crate::limits::HEAD_BYTES_MAX;
use crate::text::slice;

/// Where a block stands in its text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontmatterBlock {
    /// What is between the `---` lines.
    pub(super) yaml: Range<usize>,
    /// The first byte after the closing line.
    pub(super) end: usize,
}

/// What stands in front of a text.
#[derive(Debug)]
pub(super) enum Frontmatter {
    /// No block: all of the text is body.
    Absent,
    /// A mapping, perhaps an empty one.
    Fields(FrontmatterBlock, Vec<Field>),
    /// A block that begins like a mapping and cannot be read, with the reason.
    Broken(FrontmatterBlock, String),
}

/// One key of the block with its value, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) value: FieldValue,
    /// Where the key begins, in bytes of the YAML.
    pub(super) key_start: usize,
    /// Where the value is written, in bytes of the YAML.
    pub(super) value_range: Range<usize>,
}

/// A value as far as Lukasa looks into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// A number or a boolean has its text as in the file, so that `1.10` stays `1.10`.
    Text(String),
    Mapping(Vec<(String, Self)>),
    List(Vec<Self>),
    Null,
}

impl Frontmatter {
    pub(super) const fn block(&self) -> Option<&FrontmatterBlock> {
        match self {
            Self::Absent => None,
            Self::Fields(block, _) | Self::Broken(block, _) => Some(block),
        }
    }
}

impl FieldValue {
    /// The text of a scalar on one line; `None` for anything else and for an empty text.
    pub(super) fn single_line(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(description_line(text)).filter(|line| !line.is_empty()),
            Self::Mapping(_) | Self::List(_) | Self::Null => None,
        }
    }
}

/// Returns the byte order mark that the text begins with, or nothing.
pub(super) fn byte_order_mark(text: &str) -> &str {
    if text.starts_with('\u{FEFF}') { "\u{FEFF}" } else { "" }
}

/// The value of a key; the last one wins when a merge has left two.
pub(super) fn last_value<'a>(fields: &'a [Field], key: &str) -> Option<&'a FieldValue> {
    fields.iter().rev().find(|field| field.key == key).map(|field| &field.value)
}

/// The text of a key of a mapping, on one line.
pub(super) fn nested_text(fields: &[Field], outer: &str, inner: &str) -> Option<String> {
    match last_value(fields, outer)? {
        FieldValue::Mapping(pairs) => {
            pairs.iter().rev().find(|(key, _)| key == inner)?.1.single_line()
        }
        FieldValue::Text(_) | FieldValue::List(_) | FieldValue::Null => None,
    }
}

/// Reads the frontmatter of a whole text.
pub(super) fn read(text: &str) -> Frontmatter {
    match find_fences(text) {
        FenceSearch::Closed(block) => read_block(text, block),
        FenceSearch::Open { .. } | FenceSearch::NoFence => Frontmatter::Absent,
    }
}

fn read_block(text: &str, block: FrontmatterBlock) -> Frontmatter {
    let yaml = slice(text, block.yaml.clone());
    match parse(yaml) {
        Ok(Some(fields)) => Frontmatter::Fields(block, fields),
        Err(reason) if begins_like_fields(yaml) => Frontmatter::Broken(block, reason),
        Ok(None) | Err(_) => Frontmatter::Absent,
    }
}

/// The beginning of a text.
#[derive(Debug, Default)]
pub(super) struct FrontmatterStart {
    pub(super) fields: Vec<Field>,
    /// Why the fields cannot be relied on.
    pub(super) malformed: Option<String>,
    /// Where the body begins, in bytes; the end of the text where that is not known.
    pub(super) body: usize,
}

/// Reads the beginning of a text.
///
/// When the text was `cut` inside the block, the keys before the last one are read: that one may
/// lack its end.
pub(super) fn start(text: &str, cut: bool) -> FrontmatterStart {
    let all_body =
        FrontmatterStart { body: byte_order_mark(text).len(), ..FrontmatterStart::default() };
    let yaml = match find_fences(text) {
        FenceSearch::NoFence => return all_body,
        FenceSearch::Closed(block) => {
            let body = block.end;
            return match read_block(text, block) {
                Frontmatter::Absent => all_body,
                Frontmatter::Fields(_, fields) => {
                    FrontmatterStart { fields, malformed: None, body }
                }
                Frontmatter::Broken(_, reason) => {
                    FrontmatterStart { fields: Vec::new(), malformed: Some(reason), body }
                }
            };
        }
        FenceSearch::Open { yaml } => slice(text, yaml..),
    };
    if !begins_like_fields(yaml) {
        return all_body;
    }
    let body = text.len();
    if !cut {
        let reason = "frontmatter has no closing `---` line".to_owned();
        return FrontmatterStart { fields: Vec::new(), malformed: Some(reason), body };
    }
    let whole = slice(yaml, ..last_field_at(yaml));
    let reason = format!("frontmatter goes on beyond {HEAD_BYTES_MAX} bytes");
    let fields = parse(whole).ok().flatten().unwrap_or_default();
    FrontmatterStart { fields, malformed: Some(reason), body }
}

/// Whether a line begins a field at the outermost level: a word, a colon, then space or the end.
pub(super) fn begins_field(line: &str) -> bool {
    let Some((key, rest)) = line.split_once(':') else { return false };
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !key.is_empty()
        && !key.starts_with(['-', '.'])
        && key.chars().all(is_word)
        && (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Whether the first line that says something begins a field.
fn begins_like_fields(yaml: &str) -> bool {
    yaml.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .is_some_and(begins_field)
}

/// Where the last line that begins a field starts.
fn last_field_at(yaml: &str) -> usize {
    let mut at = 0;
    let mut last = 0;
    for line in yaml.split_inclusive('\n') {
        if begins_field(line) {
            last = at;
        }
        at += line.len();
    }
    last
}

/// A block found by its lines alone.
enum FenceSearch {
    NoFence,
    Closed(FrontmatterBlock),
    Open { yaml: usize },
}

fn find_fences(text: &str) -> FenceSearch {
    let mut at = byte_order_mark(text).len();
    let mut lines = slice(text, at..).split_inclusive('\n');
    match lines.next() {
        Some(line) if without_line_end(line) == "---" => at += line.len(),
        _ => return FenceSearch::NoFence,
    }
    let yaml = at;
    for line in lines {
        if matches!(without_line_end(line), "---" | "...") {
            return FenceSearch::Closed(FrontmatterBlock { yaml: yaml..at, end: at + line.len() });
        }
        at += line.len();
    }
    FenceSearch::Open { yaml }
}

fn without_line_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r', ' ', '\t'])
}

/// Reads YAML: `Some` fields when it is a mapping or empty, `None` when it is anything else.
pub(super) fn parse(yaml: &str) -> Result<Option<Vec<Field>>, String> {
    match parse_plain(yaml) {
        Some(fields) => Ok(Some(fields)),
        None => parse_yaml(yaml),
    }
}

/// Reads what nearly every block is, a word and a text on each line that mean nothing else. `None` leaves it
/// to the parser, which would find the same and takes much longer.
fn parse_plain(yaml: &str) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut at = 0;
    for line in yaml.split_inclusive('\n') {
        let (key, value) = line.strip_suffix('\n').unwrap_or(line).split_once(": ")?;
        if fields.len() >= PLAIN_FIELDS_MAX || !is_plain_key(key) || !is_plain_value(value) {
            return None;
        }
        let value_at = at + key.len() + ": ".len();
        fields.push(Field {
            key: key.to_owned(),
            value: FieldValue::Text(value.to_owned()),
            key_start: at,
            value_range: value_at..value_at + value.len(),
        });
        at += line.len();
    }
    Some(fields)
}

/// More fields, and longer keys, have limits that the parser knows.
const PLAIN_FIELDS_MAX: usize = 16;
const PLAIN_KEY_BYTES_MAX: usize = 64;

fn is_plain_key(key: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    key.starts_with(|c: char| c.is_ascii_alphabetic())
        && key.len() <= PLAIN_KEY_BYTES_MAX
        && key.chars().all(is_word)
        && !is_null(key)
}

fn is_plain_value(value: &str) -> bool {
    let is_visible = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    value.starts_with(char::is_alphanumeric)
        && value.chars().all(is_visible)
        && !value.ends_with([' ', ':'])
        && !value.contains(": ")
        && !value.contains(" #")
        && !is_null(value)
}

fn parse_yaml(yaml: &str) -> Result<Option<Vec<Field>>, String> {
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Some(Vec::new()));
    }
    yaml::fields(yaml).map_err(|YamlError(line)| {
        // The line of the file: the YAML begins below the opening line.
        format!("frontmatter is not valid YAML at line {}", line + 1)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_here_is_plain() {
        for yaml in [
            "",
            "name: note 1\ndescription: what was learned, and when (2026-05-04)\ntype: project\n",
            "name: über 1.10\nport: 8080\nis-new: true\nurl: http://localhost:80/a#b",
        ] {
            assert!(parse_plain(yaml).is_some(), "{yaml:?}");
        }
        for yaml in
            ["a: [b]\n", "a: b: c\n", "a: b #c\n", "a:\n  b: c\n", "a: |\n  b\n", "a: 'b'\n"]
        {
            assert_eq!(parse_plain(yaml), None, "{yaml:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn what_is_plain_is_what_the_parser_reads(
            yaml in prop::collection::vec(
                prop::sample::select(vec![
                    "name", "description", "Null", "null", "true", "no", "1", "-1", "0x1f", "1e3", ".5", "1_000",
                    "12:30:00", "2026-05-04", "nan", "Infinity", "y", "a", "ü", "漢字", "e\u{301}", "²", "٣", ": ", ":",
                    ": ", ": ", " ", "\n", "\n", "\n", "\r\n", "#", " #", "-", "- ", "---", "...", "?", "? ", "!", "!!str ",
                    "&a ", "*a", "|", ">", "'", "\"", "[", "]", "{", "}", ",", "%", "@", "`", "\\", "=", "<<", "\t", "\u{85}",
                    "\u{2028}", "\u{feff}", "~", "\u{7f}", "\u{0}",
                ]),
                0..24,
            )
        ) {
            let yaml = yaml.concat();
            if let Some(fields) = parse_plain(&yaml) {
                prop_assert_eq!(parse_yaml(&yaml), Ok(Some(fields)), "{:?}", yaml);
            }
        }

        #[test]
        fn lines_that_look_plain_are_what_the_parser_reads(
            lines in prop::collection::vec(("[a-zA-Z][a-z0-9_-]{0,8}", "[a-zA-Z0-9é漢][ -~é漢]{0,20}"), 0..5)
        ) {
            let lines: Vec<_> = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
            let yaml = lines.concat();
            if let Some(fields) = parse_plain(&yaml) {
                prop_assert_eq!(parse_yaml(&yaml), Ok(Some(fields)), "{:?}", yaml);
            }
        }
    }
}
