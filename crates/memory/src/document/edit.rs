//! Edits of a memory's frontmatter that keep every other byte.
//!
//! A YAML writer would lose comments, order and spacing, so an edit is a splice of the text. Each splice is parsed
//! again before it is returned: it must give the value and keep the other fields and the body. If no splice does, a new
//! block is put in front of the text, which always works and loses nothing.

use std::fmt::Write;
use std::ops::Range;

use crate::document::frontmatter::{
    Field, FieldValue, Frontmatter, FrontmatterBlock, begins_field, byte_order_mark, last_value,
    parse, read,
};
use crate::limits::HEAD_BYTES_MAX;
use crate::text::slice;

/// Returns the text with one field of its frontmatter set, replaced or added.
///
/// Comments, order, line endings, unknown keys and the body are kept byte for byte. The value is written as a YAML
/// scalar that parses to the same text. A text without frontmatter gets a block. A broken block is repaired first
/// ([`with_frontmatter_repaired`]); one that cannot be repaired becomes body below the new block.
pub fn set_field(text: &str, key: &str, value: &str) -> String {
    let edited = match read(text) {
        Frontmatter::Absent => None,
        Frontmatter::Fields(..) => set_in_block(text, key, value),
        Frontmatter::Broken(block, _) => set_in_broken(text, &block, key, value),
    };
    edited.unwrap_or_else(|| set_in_front(text, key, value))
}

/// Returns the text with quotation marks around the values that make its frontmatter invalid.
///
/// Repairs a common mistake of agents: `description: note: this`. `None` if the frontmatter is valid, if there is none,
/// or if quoting does not help.
pub fn with_frontmatter_repaired(text: &str) -> Option<String> {
    with_values_quoted(text, |_| true)
}

/// Returns the text with quotation marks around the invalid values that can only mean plain text, as in
/// `description: build: use make`. `None` as for [`with_frontmatter_repaired`].
///
/// A value that begins like a quotation, a list, a mapping, an alias or a tag may be meant as one, so it is not quoted.
pub(super) fn with_plain_values_quoted(text: &str) -> Option<String> {
    with_values_quoted(text, |value| !value.starts_with(INDICATORS))
}

/// The characters that begin a YAML value other than plain text. The backtick, `@` and `%` are not included: they have
/// a meaning in Markdown, but none in YAML.
const INDICATORS: [char; 15] =
    ['"', '\'', '[', ']', '{', '}', '|', '>', '&', '*', '!', '#', '?', '-', ','];

fn with_values_quoted(text: &str, may_quote: impl Fn(&str) -> bool) -> Option<String> {
    let Frontmatter::Broken(block, _) = read(text) else { return None };
    let yaml = text.get(block.yaml.clone())?;
    if yaml.len() > HEAD_BYTES_MAX {
        return None;
    }
    let mut repaired = text.get(..block.yaml.start)?.to_owned();
    for chunk in chunks(yaml) {
        match quoted_if_broken(chunk, &may_quote) {
            Some(quoted) => repaired.push_str(&quoted),
            None => repaired.push_str(chunk),
        }
    }
    repaired.push_str(text.get(block.yaml.end..)?);
    matches!(read(&repaired), Frontmatter::Fields(..)).then_some(repaired)
}

/// Sets a field of a valid block.
fn set_in_block(text: &str, key: &str, value: &str) -> Option<String> {
    let Frontmatter::Fields(block, fields) = read(text) else { return None };
    let yaml = text.get(block.yaml.clone())?;
    let line = format!("{}: {}{}", scalar(key), scalar(value), line_end(text));
    let is_valid = |edited: &String| {
        let Frontmatter::Fields(new_block, new_fields) = read(edited) else { return false };
        edited.get(new_block.end..) == text.get(block.end..)
            && last_value(&new_fields, key) == Some(&FieldValue::Text(value.to_owned()))
            && other_fields(&new_fields, key).eq(other_fields(&fields, key))
    };
    let splice = |range: Range<usize>, with: &str| {
        let range = block.yaml.start + range.start..block.yaml.start + range.end;
        splice(text, range, with).filter(is_valid)
    };
    let Some(index) = fields.iter().rposition(|field| field.key == key) else {
        // Only the first `HEAD_BYTES_MAX` bytes are parsed later, so a long block gets its new field at the top.
        let end = if block.end > HEAD_BYTES_MAX { 0 } else { yaml.len() };
        return splice(end..end, &line);
    };
    let value_range = fields.get(index)?.value_range.clone();
    let on_one_line =
        yaml.get(value_range.clone()).is_some_and(|v| !v.is_empty() && !v.contains('\n'));
    on_one_line
        .then(|| splice(value_range, &scalar(value)))
        .flatten()
        .or_else(|| splice(lines_of(yaml, &fields, index)?, &line))
}

/// Sets a field of a broken block: repairs it, or replaces the field's own lines.
fn set_in_broken(text: &str, block: &FrontmatterBlock, key: &str, value: &str) -> Option<String> {
    if let Some(edited) =
        with_frontmatter_repaired(text).and_then(|repaired| set_in_block(&repaired, key, value))
    {
        return Some(edited);
    }
    let yaml = text.get(block.yaml.clone())?;
    let mut start = block.yaml.start;
    for chunk in chunks(yaml) {
        if begins_field(chunk) && chunk.split_once(':').is_some_and(|(word, _)| word == key) {
            let line = format!("{}: {}{}", scalar(key), scalar(value), line_end(text));
            let edited = splice(text, start..start + chunk.len(), &line)?;
            let Frontmatter::Fields(new_block, fields) = read(&edited) else { return None };
            let is_valid = last_value(&fields, key) == Some(&FieldValue::Text(value.to_owned()))
                && edited.get(new_block.end..) == text.get(block.end..);
            return is_valid.then_some(edited);
        }
        start += chunk.len();
    }
    None
}

/// Puts a new block in front of the text, after a byte order mark.
fn set_in_front(text: &str, key: &str, value: &str) -> String {
    let mark = byte_order_mark(text);
    let rest = text.strip_prefix(mark).unwrap_or(text);
    let end = line_end(text);
    format!("{mark}---{end}{}: {}{end}---{end}{rest}", scalar(key), scalar(value))
}

fn splice(text: &str, range: Range<usize>, with: &str) -> Option<String> {
    Some([text.get(..range.start)?, with, text.get(range.end..)?].concat())
}

/// Returns the fields other than `key`, which an edit must not change.
fn other_fields<'a>(
    fields: &'a [Field],
    key: &'a str,
) -> impl Iterator<Item = (&'a str, &'a FieldValue)> {
    fields.iter().filter(move |field| field.key != key).map(|field| (&*field.key, &field.value))
}

/// Returns the lines of a field, without the blank lines and comments before the next one.
fn lines_of(yaml: &str, fields: &[Field], index: usize) -> Option<Range<usize>> {
    let line_start = |byte: usize| Some(yaml.get(..byte)?.rfind('\n').map_or(0, |end| end + 1));
    let start = line_start(fields.get(index)?.key_start)?;
    let mut end = match fields.get(index + 1) {
        Some(next) => line_start(next.key_start)?,
        None => yaml.len(),
    };
    for line in yaml.get(start..end)?.split_inclusive('\n').rev() {
        if !line.trim().is_empty() && !line.starts_with('#') {
            break;
        }
        end -= line.len();
    }
    Some(start..end)
}

/// Splits a block before each line that begins a top-level field or a comment.
pub(super) fn chunks(yaml: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in yaml.split_inclusive('\n') {
        if offset > start && (begins_field(line) || line.starts_with('#')) {
            chunks.push(slice(yaml, start..offset));
            start = offset;
        }
        offset += line.len();
    }
    chunks.push(slice(yaml, start..offset));
    chunks
}

/// Returns a field on one line with its value quoted, if it is not valid YAML by itself.
fn quoted_if_broken(chunk: &str, may_quote: impl Fn(&str) -> bool) -> Option<String> {
    if !begins_field(chunk) || parse(chunk).is_ok_and(|fields| fields.is_some()) {
        return None;
    }
    let (key, rest) = chunk.split_once(':')?;
    let value = rest.trim();
    let tail = rest.get(rest.trim_end().len()..)?;
    (!chunk.trim_end().contains('\n') && may_quote(value))
        .then(|| format!("{key}: {}{tail}", scalar(value)))
}

/// Returns the line ending of the text's first line.
fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((line, _)) if line.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Formats a text as a YAML scalar on one line: plain if every parser reads it as text, else in double quotes.
fn scalar(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_printable(c) => quoted.push(c),
            c => {
                // Writing to a `String` cannot fail.
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Checks whether every YAML parser reads the plain text as text: it begins with a letter, is no keyword, and has only
/// safe characters.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_safe = |c: char| c.is_alphanumeric() || " _-./,;()'+=@".contains(c);
    text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(|c| is_safe(c) && is_printable(c))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Checks whether YAML allows the character unescaped and editors show it.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}
