//! Changes the frontmatter of a memory and leaves every other byte as it is.
//!
//! A YAML writer would lose comments, order and spacing, so a change is a splice of the text. Each
//! splice is read back before it is handed out: it must give the value, keep the other fields and
//! keep the body. Where none does, a block of its own in front is always right, and nothing is
//! lost.

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
/// Comments, order, line ends, unknown keys and the body stay byte for byte. The value is written
/// as a YAML scalar that reads back as this very text. A text without frontmatter gets a block. A
/// broken block is repaired first ([`with_frontmatter_repaired`]); one that cannot be repaired becomes body below the new
/// block.
pub fn set_field(text: &str, key: &str, value: &str) -> String {
    let edited = match read(text) {
        Frontmatter::Absent => None,
        Frontmatter::Fields(..) => set_in_block(text, key, value),
        Frontmatter::Broken(block, _) => set_in_broken(text, &block, key, value),
    };
    edited.unwrap_or_else(|| set_in_front(text, key, value))
}

/// Returns the text with the values quoted that keep its frontmatter from being read.
///
/// Mends what agents get wrong: `description: note: this`. `None` when the frontmatter can be read,
/// when there is none, or when quoting does not help.
pub fn with_frontmatter_repaired(text: &str) -> Option<String> {
    with_values_quoted(text, |_| true)
}

/// Returns the text with the values quoted that are no YAML and can mean nothing but their own letters:
/// `description: build: use make`. `None` as for [`mended`].
///
/// A value that begins as a quotation, a list, a mapping, an alias or a tag may have been meant as one.
pub(super) fn with_plain_values_quoted(text: &str) -> Option<String> {
    with_values_quoted(text, |value| !value.starts_with(INDICATORS))
}

/// The characters by which a value of YAML says that it is more than a text. The backtick, `@` and `%` are not
/// among them: YAML gives them no meaning, and Markdown does.
const INDICATORS: [char; 15] =
    ['"', '\'', '[', ']', '{', '}', '|', '>', '&', '*', '!', '#', '?', '-', ','];

fn with_values_quoted(text: &str, may_quote: impl Fn(&str) -> bool) -> Option<String> {
    let Frontmatter::Broken(block, _) = read(text) else { return None };
    let yaml = text.get(block.yaml.clone())?;
    if yaml.len() > HEAD_BYTES_MAX {
        return None;
    }
    let mut mended = text.get(..block.yaml.start)?.to_owned();
    for chunk in chunks(yaml) {
        match quoted_if_broken(chunk, &may_quote) {
            Some(quoted) => mended.push_str(&quoted),
            None => mended.push_str(chunk),
        }
    }
    mended.push_str(text.get(block.yaml.end..)?);
    matches!(read(&mended), Frontmatter::Fields(..)).then_some(mended)
}

/// Sets a field of a block that can be read.
fn set_in_block(text: &str, key: &str, value: &str) -> Option<String> {
    let Frontmatter::Fields(block, fields) = read(text) else { return None };
    let yaml = text.get(block.yaml.clone())?;
    let line = format!("{}: {}{}", scalar(key), scalar(value), line_end(text));
    let holds = |edited: &String| {
        let Frontmatter::Fields(new_block, new_fields) = read(edited) else { return false };
        edited.get(new_block.end..) == text.get(block.end..)
            && last_value(&new_fields, key) == Some(&FieldValue::Text(value.to_owned()))
            && other_fields(&new_fields, key).eq(other_fields(&fields, key))
    };
    let splice = |at: Range<usize>, with: &str| {
        splice(text, block.yaml.start + at.start..block.yaml.start + at.end, with).filter(holds)
    };
    let Some(at) = fields.iter().rposition(|field| field.key == key) else {
        // What is beyond the head is not seen, so a long block gets its new field at the top.
        let end = if block.end > HEAD_BYTES_MAX { 0 } else { yaml.len() };
        return splice(end..end, &line);
    };
    let value_at = fields.get(at)?.value_range.clone();
    let on_one_line =
        yaml.get(value_at.clone()).is_some_and(|v| !v.is_empty() && !v.contains('\n'));
    on_one_line
        .then(|| splice(value_at, &scalar(value)))
        .flatten()
        .or_else(|| splice(lines_of(yaml, &fields, at)?, &line))
}

/// Sets a field of a block that cannot be read: mended, or with the field's own lines replaced.
fn set_in_broken(text: &str, block: &FrontmatterBlock, key: &str, value: &str) -> Option<String> {
    if let Some(edited) =
        with_frontmatter_repaired(text).and_then(|mended| set_in_block(&mended, key, value))
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
            let holds = last_value(&fields, key) == Some(&FieldValue::Text(value.to_owned()))
                && edited.get(new_block.end..) == text.get(block.end..);
            return holds.then_some(edited);
        }
        start += chunk.len();
    }
    None
}

/// Puts a block of its own in front, below a byte order mark.
fn set_in_front(text: &str, key: &str, value: &str) -> String {
    let mark = byte_order_mark(text);
    let rest = text.strip_prefix(mark).unwrap_or(text);
    let end = line_end(text);
    format!("{mark}---{end}{}: {}{end}---{end}{rest}", scalar(key), scalar(value))
}

fn splice(text: &str, at: Range<usize>, with: &str) -> Option<String> {
    Some([text.get(..at.start)?, with, text.get(at.end..)?].concat())
}

/// The fields that a change of `key` must leave as they are.
fn other_fields<'a>(
    fields: &'a [Field],
    key: &'a str,
) -> impl Iterator<Item = (&'a str, &'a FieldValue)> {
    fields.iter().filter(move |field| field.key != key).map(|field| (&*field.key, &field.value))
}

/// The lines of a field, without the blank lines and comments that stand before the next one.
fn lines_of(yaml: &str, fields: &[Field], at: usize) -> Option<Range<usize>> {
    let line_start = |byte: usize| Some(yaml.get(..byte)?.rfind('\n').map_or(0, |end| end + 1));
    let start = line_start(fields.get(at)?.key_start)?;
    let mut end = match fields.get(at + 1) {
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

/// The block cut before each line that begins a field, a comment or nothing at the outermost level.
fn chunks(yaml: &str) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in yaml.split_inclusive('\n') {
        if at > start && (begins_field(line) || line.starts_with('#')) {
            chunks.push(slice(yaml, start..at));
            start = at;
        }
        at += line.len();
    }
    chunks.push(slice(yaml, start..at));
    chunks
}

/// A field on one line that is no YAML by itself, with its value quoted.
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

/// The line end that the text uses, from its first line.
fn line_end(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((line, _)) if line.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Writes a text as a YAML scalar on one line: plain where no reader can take it for anything else,
/// in double quotes otherwise.
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

/// Whether every reader takes the bare text for a text: it begins with a letter, is none of the
/// words that mean something, and holds no character that could.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let is_safe = |c: char| c.is_alphanumeric() || " _-./,;()'+=@".contains(c);
    text.starts_with(char::is_alphabetic)
        && !text.ends_with(' ')
        && text.chars().all(|c| is_safe(c) && is_printable(c))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether YAML allows the character as it is and an editor shows it.
fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}')
}
