//! Finds and reads the block of YAML in front of a memory.
//!
//! Reading is bounded in depth, size, nodes and aliases, because a cloned repository may hold
//! anything. Values of any type are accepted; only texts, numbers and booleans have a text. Reasons
//! name a line and never quote one.

use std::fmt;
use std::ops::Range;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Spanned, from_str_with_options};

use crate::document::one_line::description_line;
use crate::limits::{FRONTMATTER_DEPTH_MAX, FRONTMATTER_NODES_MAX, HEAD_BYTES_MAX};

/// Where a block stands in its text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
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
    Fields(Block, Vec<Field>),
    /// A block that begins like a mapping and cannot be read, with the reason.
    Broken(Block, String),
}

/// One key of the block with its value, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) key: String,
    pub(super) value: Value,
    /// Where the key begins, in bytes of the YAML.
    pub(super) key_at: usize,
    /// Where the value is written, in bytes of the YAML.
    pub(super) value_at: Range<usize>,
}

/// A value as far as Quipu looks into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    /// A number or a boolean; its text is taken from the file, so that `1.10` stays `1.10`.
    Plain,
    Mapping(Vec<(String, Self)>),
    List(Vec<Self>),
    Nothing,
}

impl Frontmatter {
    pub(super) const fn block(&self) -> Option<&Block> {
        match self {
            Self::Absent => None,
            Self::Fields(block, _) | Self::Broken(block, _) => Some(block),
        }
    }
}

impl Value {
    /// The text of a scalar on one line; `None` for anything else and for an empty text.
    pub(super) fn line(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(description_line(text)).filter(|line| !line.is_empty()),
            Self::Plain | Self::Mapping(_) | Self::List(_) | Self::Nothing => None,
        }
    }
}

/// Returns the byte order mark that the text begins with, or nothing.
pub(super) fn byte_order_mark(text: &str) -> &str {
    if text.starts_with('\u{FEFF}') { "\u{FEFF}" } else { "" }
}

/// The value of a key; the last one wins when a merge has left two.
pub(super) fn last<'a>(fields: &'a [Field], key: &str) -> Option<&'a Value> {
    fields.iter().rev().find(|field| field.key == key).map(|field| &field.value)
}

/// The text of a key of a mapping, on one line.
pub(super) fn nested(fields: &[Field], outer: &str, inner: &str) -> Option<String> {
    match last(fields, outer)? {
        Value::Mapping(pairs) => pairs.iter().rev().find(|(key, _)| key == inner)?.1.line(),
        Value::Text(_) | Value::Plain | Value::List(_) | Value::Nothing => None,
    }
}

/// Reads the frontmatter of a whole text.
pub(super) fn read(text: &str) -> Frontmatter {
    match find(text) {
        Found::Closed(block) => read_block(text, block),
        Found::Open { .. } | Found::Nothing => Frontmatter::Absent,
    }
}

fn read_block(text: &str, block: Block) -> Frontmatter {
    let yaml = text.get(block.yaml.clone()).unwrap_or_default();
    match parse(yaml) {
        Ok(Some(fields)) => Frontmatter::Fields(block, fields),
        Err(reason) if begins_like_fields(yaml) => Frontmatter::Broken(block, reason),
        Ok(None) | Err(_) => Frontmatter::Absent,
    }
}

/// Reads the fields from the beginning of a text, and why they cannot be relied on.
///
/// When the text was `cut` inside the block, the keys before the last one are read: that one may
/// lack its end.
pub(super) fn fields_at_start(text: &str, cut: bool) -> (Vec<Field>, Option<String>) {
    let yaml = match find(text) {
        Found::Nothing => return (Vec::new(), None),
        Found::Closed(block) => {
            return match read_block(text, block) {
                Frontmatter::Absent => (Vec::new(), None),
                Frontmatter::Fields(_, fields) => (fields, None),
                Frontmatter::Broken(_, reason) => (Vec::new(), Some(reason)),
            };
        }
        Found::Open { yaml } => text.get(yaml..).unwrap_or_default(),
    };
    if !begins_like_fields(yaml) {
        return (Vec::new(), None);
    }
    if !cut {
        return (Vec::new(), Some("frontmatter has no closing `---` line".to_owned()));
    }
    let whole = yaml.get(..last_field_at(yaml)).unwrap_or_default();
    let reason = format!("frontmatter goes on beyond {HEAD_BYTES_MAX} bytes");
    (parse(whole).ok().flatten().unwrap_or_default(), Some(reason))
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
enum Found {
    Nothing,
    Closed(Block),
    Open { yaml: usize },
}

fn find(text: &str) -> Found {
    let mut at = byte_order_mark(text).len();
    let mut lines = text.get(at..).unwrap_or_default().split_inclusive('\n');
    match lines.next() {
        Some(line) if without_line_end(line) == "---" => at += line.len(),
        _ => return Found::Nothing,
    }
    let yaml = at;
    for line in lines {
        if matches!(without_line_end(line), "---" | "...") {
            return Found::Closed(Block { yaml: yaml..at, end: at + line.len() });
        }
        at += line.len();
    }
    Found::Open { yaml }
}

fn without_line_end(line: &str) -> &str {
    line.trim_end_matches(['\n', '\r', ' ', '\t'])
}

/// Reads YAML: `Some` fields when it is a mapping or empty, `None` when it is anything else.
pub(super) fn parse(yaml: &str) -> Result<Option<Vec<Field>>, String> {
    match plain(yaml) {
        Some(fields) => Ok(Some(fields)),
        None => parse_any(yaml),
    }
}

/// Reads what nearly every block is, a word and a text on each line that mean nothing else. `None` leaves it
/// to the parser, which would find the same and takes much longer.
fn plain(yaml: &str) -> Option<Vec<Field>> {
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
            value: Value::Text(value.to_owned()),
            key_at: at,
            value_at: value_at..value_at + value.len(),
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

fn is_null(text: &str) -> bool {
    text.eq_ignore_ascii_case("null")
}

fn parse_any(yaml: &str) -> Result<Option<Vec<Field>>, String> {
    if yaml.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Some(Vec::new()));
    }
    let top: Top = from_str_with_options(yaml, options()).map_err(|error| {
        // The line of the file: the YAML begins below the opening line.
        let line = error.location().map_or(0, |location| location.line()) + 1;
        format!("frontmatter is not valid YAML at line {line}")
    })?;
    let Top(Some(mut fields)) = top else { return Ok(None) };
    for field in &mut fields {
        if field.value == Value::Plain {
            let text = yaml.get(field.value_at.clone()).unwrap_or_default().trim();
            field.value = Value::Text(text.to_owned());
        }
    }
    Ok(Some(fields))
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: FRONTMATTER_DEPTH_MAX,
            flow_nesting_limit: FRONTMATTER_DEPTH_MAX,
            max_nodes: FRONTMATTER_NODES_MAX,
            max_events: 2 * FRONTMATTER_NODES_MAX,
            max_aliases: FRONTMATTER_NODES_MAX,
            max_anchors: FRONTMATTER_NODES_MAX,
            max_recorded_anchor_events: 2 * FRONTMATTER_NODES_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: FRONTMATTER_NODES_MAX,
            max_replay_stack_depth: FRONTMATTER_DEPTH_MAX,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::AsOrdinary,
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
        ignore_binary_tag_for_string: true,
        with_snippet: false,
    }
}

/// The whole block: the fields of a mapping, or `None` for anything else.
struct Top(Option<Vec<Field>>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TopVisitor)
    }
}

struct TopVisitor;

impl<'de> Visitor<'de> for TopVisitor {
    type Value = Top;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML document")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Top, A::Error> {
        let mut fields = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let value = map.next_value::<Spanned<Value>>()?;
            fields.push(Field {
                key_at: range_of(key.referenced).start,
                value_at: range_of(value.referenced),
                key: key.value,
                value: value.value,
            });
        }
        Ok(Top(Some(fields)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Top, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Top(None))
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Top, E> {
        Ok(Top(None))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Top, E> {
        Ok(Top(None))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Top, E> {
        Ok(Top(None))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Top, E> {
        Ok(Top(None))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Top, E> {
        Ok(Top(None))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Top, E> {
        Ok(Top(Some(Vec::new())))
    }
}

fn range_of(location: serde_saphyr::Location) -> Range<usize> {
    let byte = |at: Option<u64>| at.and_then(|at| usize::try_from(at).ok()).unwrap_or_default();
    let start = byte(location.span().byte_offset());
    start..start + byte(location.span().byte_len())
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_i128<E: de::Error>(self, _: i128) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_u128<E: de::Error>(self, _: u128) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Plain)
    }

    fn visit_bytes<E: de::Error>(self, _: &[u8]) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        Value::deserialize(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = seq.next_element()? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Value::Mapping(pairs))
    }
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
            assert!(plain(yaml).is_some(), "{yaml:?}");
        }
        for yaml in
            ["a: [b]\n", "a: b: c\n", "a: b #c\n", "a:\n  b: c\n", "a: |\n  b\n", "a: 'b'\n"]
        {
            assert_eq!(plain(yaml), None, "{yaml:?}");
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
            if let Some(fields) = plain(&yaml) {
                prop_assert_eq!(parse_any(&yaml), Ok(Some(fields)), "{:?}", yaml);
            }
        }

        #[test]
        fn lines_that_look_plain_are_what_the_parser_reads(
            lines in prop::collection::vec(("[a-zA-Z][a-z0-9_-]{0,8}", "[a-zA-Z0-9é漢][ -~é漢]{0,20}"), 0..5)
        ) {
            let lines: Vec<_> = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
            let yaml = lines.concat();
            if let Some(fields) = plain(&yaml) {
                prop_assert_eq!(parse_any(&yaml), Ok(Some(fields)), "{:?}", yaml);
            }
        }
    }
}
