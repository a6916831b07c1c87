//! The edits `str_replace` and `insert` on a text, and their replies: text in, text out.
//!
//! Every byte outside the edit is kept: line endings, a byte order mark, a missing final newline (which only an insert
//! adds). A view shows no line endings, so `\r\n` and `\n` match each other. New lines end like the first line of the
//! file, even if the file mixes both. The store reads and writes the file, and does access checks and screening.

use std::borrow::Cow;

use super::{CommandError, decode_text, view};
use crate::limits::{MEMORY_BYTES_MAX, SNIPPET_CONTEXT_LINES};
use crate::path::MemoryPath;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditResult {
    /// The whole new text of the memory.
    pub text: String,
    /// The reply to the caller.
    pub reply: String,
}

/// Replaces the only occurrence of `old` with `new`. The match is exact, except for line endings.
pub fn str_replace(
    path: &MemoryPath,
    text: &str,
    old: &str,
    new: &str,
) -> Result<EditResult, CommandError> {
    check_editable(path, text)?;
    if old.is_empty() {
        return Err(CommandError::EmptyOldStr);
    }
    let (plain, pattern) = (without_returns(text), without_returns(old));
    let offset = match occurrences(&plain, &pattern).as_slice() {
        [] => {
            return Err(CommandError::TextNotFound { path: path.clone(), old_str: old.to_owned() });
        }
        [offset] => *offset,
        many => {
            return Err(CommandError::TextNotUnique {
                old_str: old.to_owned(),
                lines: line_numbers(&plain, many),
            });
        }
    };
    let (before, rest) = text.split_at(position_in(text, offset));
    let (_, after) = rest.split_at(position_in(rest, pattern.len()));
    let new = with_line_break(new, line_break(text));
    let edited = [before, &new, after].concat();
    check_writable(path, &edited)?;
    let first = newlines(before) + 1;
    let last = first + newlines(new.strip_suffix('\n').unwrap_or(&new));
    let snippet = view::numbered(
        &edited,
        first.saturating_sub(SNIPPET_CONTEXT_LINES).max(1),
        last.saturating_add(SNIPPET_CONTEXT_LINES),
    );
    let reply = format!(
        "The memory file has been edited. Here is the snippet showing the change (with line \
         numbers):\n{snippet}"
    );
    Ok(EditResult { text: edited, reply })
}

/// Inserts `insert_text` as separate lines after line `line`; 0 is the top, after a byte order mark.
///
/// The new lines end like the first line of the file. Afterwards the file ends with a newline.
pub fn insert(
    path: &MemoryPath,
    text: &str,
    line: i64,
    insert_text: &str,
) -> Result<EditResult, CommandError> {
    check_editable(path, text)?;
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let max = line_count(text);
    let Some(lines_above) = usize::try_from(line).ok().filter(|above| *above <= max) else {
        return Err(CommandError::InvalidInsertLine { line, max });
    };
    let above: usize = body.split_inclusive('\n').take(lines_above).map(str::len).sum();
    let (head, tail) = text.split_at(text.len() - body.len() + above);
    let file_ending = line_break(text);
    let breaks = file_ending.unwrap_or("\n");
    let mut edited = head.to_owned();
    if above > 0 {
        end_line(&mut edited, breaks);
    }
    edited.push_str(&with_line_break(insert_text, file_ending));
    if !insert_text.ends_with('\n') {
        edited.push_str(breaks);
    }
    edited.push_str(tail);
    end_line(&mut edited, breaks);
    check_writable(path, &edited)?;
    Ok(EditResult { text: edited, reply: format!("The file {path} has been edited.") })
}

/// Checks that `text` may be the text of a memory: within the cap and without NUL.
pub fn check_writable(path: &MemoryPath, text: &str) -> Result<(), CommandError> {
    if text.len() > MEMORY_BYTES_MAX {
        return Err(CommandError::TooLarge { path: path.clone(), bytes: text.len() });
    }
    if text.contains('\0') {
        return Err(CommandError::NulInText { path: path.clone() });
    }
    Ok(())
}

/// Returns the number of lines of a text; a last line without a newline counts.
pub fn line_count(text: &str) -> usize {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).split_inclusive('\n').count()
}

/// Checks that the current text of a memory may be edited at all.
fn check_editable(path: &MemoryPath, text: &str) -> Result<(), CommandError> {
    if text.len() > MEMORY_BYTES_MAX {
        return Err(CommandError::OutgrewCap { path: path.clone(), bytes: text.len() });
    }
    decode_text(path, text.as_bytes()).map(|_| ())
}

fn end_line(text: &mut String, breaks: &str) {
    if !text.ends_with('\n') {
        text.push_str(breaks);
    }
}

/// Returns the line ending of a text's first line; `None` for a single line without one.
fn line_break(text: &str) -> Option<&'static str> {
    let (first, _) = text.split_once('\n')?;
    Some(if first.ends_with('\r') { "\r\n" } else { "\n" })
}

/// Converts a text to a line ending; `None`, for a file without line endings, leaves it unchanged.
fn with_line_break<'a>(text: &'a str, line_break: Option<&str>) -> Cow<'a, str> {
    match line_break {
        Some("\r\n") => Cow::Owned(without_returns(text).replace('\n', "\r\n")),
        Some(_) => without_returns(text),
        None => Cow::Borrowed(text),
    }
}

/// Replaces each `\r\n` of a text with `\n`.
fn without_returns(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Converts an offset in [`without_returns`] of a text into an offset in the text.
fn position_in(text: &str, position: usize) -> usize {
    let mut remaining = position;
    let mut offset = 0;
    while remaining > 0 {
        let is_pair = text.as_bytes().get(offset..).is_some_and(|rest| rest.starts_with(b"\r\n"));
        offset += if is_pair { 2 } else { 1 };
        remaining -= 1;
    }
    offset
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the line of each of these ascending offsets, counted from 1.
fn line_numbers(text: &str, positions: &[usize]) -> Vec<usize> {
    let mut line = 1;
    let mut rest = text;
    let mut consumed = 0;
    let mut numbers = Vec::with_capacity(positions.len());
    for &position in positions {
        let (passed, ahead) = rest.split_at(position - consumed);
        line += newlines(passed);
        numbers.push(line);
        (rest, consumed) = (ahead, position);
    }
    numbers
}

/// Returns the offsets of `pattern` in `text`, including overlapping occurrences.
///
/// Uses Knuth-Morris-Pratt: a naive search restarts after each match, which takes quadratic time on a text like
/// `aaaa…`, and both texts are untrusted. Bytes suffice, because UTF-8 never matches in the middle of a character.
fn occurrences(text: &str, pattern: &str) -> Vec<usize> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut offsets = Vec::new();
    if pattern.is_empty() || pattern.len() > text.len() {
        return offsets;
    }
    // The length of the longest border of each prefix of the pattern.
    let mut borders = vec![0; pattern.len()];
    let mut matched = 0;
    for end in 1..pattern.len() {
        matched = extend(matched, pattern[end], pattern, &borders);
        borders[end] = matched;
    }
    matched = 0;
    for (end, &byte) in text.iter().enumerate() {
        matched = extend(matched, byte, pattern, &borders);
        if matched == pattern.len() {
            offsets.push(end + 1 - matched);
            matched = borders[matched - 1];
        }
    }
    offsets
}

/// Returns the matched length of the pattern after one more byte; `matched` is the length before it.
fn extend(mut matched: usize, byte: u8, pattern: &[u8], borders: &[usize]) -> usize {
    while matched > 0 && pattern[matched] != byte {
        matched = borders[matched - 1];
    }
    if pattern[matched] == byte { matched + 1 } else { 0 }
}

#[cfg(test)]
mod tests;
