//! Finds and parses the frontmatter: the block of YAML at the beginning of a memory.
//!
//! Parsing is bounded, because a cloned repository may hold hostile files. Values of any type are accepted, but only
//! texts, numbers and booleans have a text. Error messages name a line and never quote it.

use std::ops::Range;

use crate::document::single_line::description_line;
use crate::document::yaml::{self, YamlError, is_null};
use crate::limits::HEAD_BYTES_MAX;
use crate::text::slice;

/// The position of a block in its text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FrontmatterBlock {
    /// The range between the `---` lines.
    pub(super) yaml: Range<usize>,
    /// The first byte after the closing line.
    pub(super) end: usize,
}

/// The parsed frontmatter of a text.
#[derive(Debug)]
pub(super) enum Frontmatter {
    /// No block: the whole text is body.
    Absent,
    /// A mapping, possibly empty.
    Fields(FrontmatterBlock, Vec<Field>),
    /// A block that begins like a mapping but is invalid, with the reason.
    Broken(FrontmatterBlock, String),
}

/// A key of the block with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) value: FieldValue,
    /// The offset of the key in the YAML, in bytes.
    pub(super) key_start: usize,
    /// The range of the value in the YAML, in bytes.
    pub(super) value_range: Range<usize>,
}

/// A value, as far as Lukasa uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FieldValue {
    /// A scalar. A number or boolean is kept as its text in the file, so that `1.10` stays `1.10`.
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
    /// Returns the text of a scalar on one line; `None` for other values and for an empty text.
    pub(super) fn single_line(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(description_line(text)).filter(|line| !line.is_empty()),
            Self::Mapping(_) | Self::List(_) | Self::Null => None,
        }
    }
}

/// Returns the byte order mark at the beginning of the text, or an empty text.
pub(super) fn byte_order_mark(text: &str) -> &str {
    if text.starts_with('\u{FEFF}') { "\u{FEFF}" } else { "" }
}

/// Returns the value of a key; the last one, if a merge has left two.
pub(super) fn last_value<'a>(fields: &'a [Field], key: &str) -> Option<&'a FieldValue> {
    fields.iter().rev().find(|field| field.key == key).map(|field| &field.value)
}

/// Returns the text of a key in a nested mapping, on one line.
pub(super) fn nested_text(fields: &[Field], outer: &str, inner: &str) -> Option<String> {
    match last_value(fields, outer)? {
        FieldValue::Mapping(pairs) => {
            pairs.iter().rev().find(|(key, _)| key == inner)?.1.single_line()
        }
        FieldValue::Text(_) | FieldValue::List(_) | FieldValue::Null => None,
    }
}

/// Parses the frontmatter of a whole text.
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

/// The frontmatter of a text that may be cut.
#[derive(Debug, Default)]
pub(super) struct FrontmatterStart {
    pub(super) fields: Vec<Field>,
    /// The reason why the fields cannot be relied on.
    pub(super) malformed: Option<String>,
    /// The offset of the body in bytes; the end of the text if it is unknown.
    pub(super) body: usize,
}

/// Parses the beginning of a text.
///
/// If the text was `cut` inside the block, the last key is ignored, because its value may be incomplete.
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

/// Checks whether a line begins a top-level field: a word, a colon, then white space or the end.
pub(super) fn begins_field(line: &str) -> bool {
    let Some((key, rest)) = line.split_once(':') else { return false };
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !key.is_empty()
        && !key.starts_with(['-', '.'])
        && key.chars().all(is_word)
        && (rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']))
}

/// Checks whether the first line that is neither blank nor a comment begins a field.
fn begins_like_fields(yaml: &str) -> bool {
    yaml.lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .is_some_and(begins_field)
}

/// Returns the offset of the last line that begins a field.
fn last_field_at(yaml: &str) -> usize {
    let mut offset = 0;
    let mut last = 0;
    for line in yaml.split_inclusive('\n') {
        if begins_field(line) {
            last = offset;
        }
        offset += line.len();
    }
    last
}

/// The result of a search for the `---` lines.
enum FenceSearch {
    NoFence,
    Closed(FrontmatterBlock),
    Open { yaml: usize },
}

fn find_fences(text: &str) -> FenceSearch {
    let mut offset = byte_order_mark(text).len();
    let mut lines = slice(text, offset..).split_inclusive('\n');
    match lines.next() {
        Some(line) if without_line_end(line) == "---" => offset += line.len(),
        _ => return FenceSearch::NoFence,
    }
    let yaml = offset;
    for line in lines {
        if matches!(without_line_end(line), "---" | "...") {
            return FenceSearch::Closed(FrontmatterBlock {
                yaml: yaml..offset,
                end: offset + line.len(),
            });
        }
        offset += line.len();
    }
    FenceSearch::Open { yaml }
}

fn without_line_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r', ' ', '\t'])
}

/// Parses YAML: `Some` fields if it is a mapping or empty, `None` if it is anything else.
pub(super) fn parse(yaml: &str) -> Result<Option<Vec<Field>>, String> {
    match parse_plain(yaml) {
        Some(fields) => Ok(Some(fields)),
        None => parse_yaml(yaml),
    }
}

/// Parses the form of nearly every block: a word and a plain text on each line. `None` leaves the block to the YAML
/// parser, which gives the same result but takes much longer.
fn parse_plain(yaml: &str) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut offset = 0;
    for line in yaml.split_inclusive('\n') {
        let (key, value) = line.strip_suffix('\n').unwrap_or(line).split_once(": ")?;
        if fields.len() >= PLAIN_FIELDS_MAX || !is_plain_key(key) || !is_plain_value(value) {
            return None;
        }
        let value_start = offset + key.len() + ": ".len();
        fields.push(Field {
            key: key.to_owned(),
            value: FieldValue::Text(value.to_owned()),
            key_start: offset,
            value_range: value_start..value_start + value.len(),
        });
        offset += line.len();
    }
    Some(fields)
}

/// The bounds of the fast path: the limits for more fields and longer keys are in the YAML parser.
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
    fn ordinary_frontmatter_takes_the_fast_path() {
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
        fn the_fast_path_agrees_with_the_parser(
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
        fn the_fast_path_agrees_with_the_parser_on_plain_lines(
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
