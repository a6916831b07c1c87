//! What an edit does to a text, and what it answers: text in, text out.
//!
//! Every byte outside the edit stays: line endings, a byte order mark, a missing final newline
//! (which only an insert adds). A view shows no line endings, so `\r\n` and `\n` are one line break here:
//! either finds the other, and new lines end as the first line of the file does, also in a file that mixes
//! both. An edit that cannot be made says why. Reading and writing the file, access and screening are
//! the store's.

use std::borrow::Cow;

use super::{CommandError, decode_text, view};
use crate::limits::{MEMORY_BYTES_MAX, SNIPPET_CONTEXT_LINES};
use crate::path::MemoryPath;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditResult {
    /// All of the memory's text.
    pub text: String,
    /// What the caller is told.
    pub reply: String,
}

/// Replaces the one occurrence of `old` by `new`, letter for letter but for how lines end.
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
    let at = match occurrences(&plain, &pattern).as_slice() {
        [] => {
            return Err(CommandError::TextNotFound { path: path.clone(), old_str: old.to_owned() });
        }
        [at] => *at,
        many => {
            return Err(CommandError::TextNotUnique {
                old_str: old.to_owned(),
                lines: line_numbers(&plain, many),
            });
        }
    };
    let (before, rest) = text.split_at(position_in(text, at));
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

/// Adds `insert_text` as lines of its own after line `line`; 0 is the top, behind a byte order mark.
///
/// The new lines end as the first line of the file does. The file ends with a newline afterwards.
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
    let found = line_break(text);
    let breaks = found.unwrap_or("\n");
    let mut edited = head.to_owned();
    if above > 0 {
        end_line(&mut edited, breaks);
    }
    edited.push_str(&with_line_break(insert_text, found));
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

/// Returns how many lines a text has; a last one without newline counts.
pub fn line_count(text: &str) -> usize {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text).split_inclusive('\n').count()
}

/// Checks that a memory as it was found may be edited at all.
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

/// Returns how the first line of a text ends; `None` in a text of one line without an end.
fn line_break(text: &str) -> Option<&'static str> {
    let (first, _) = text.split_once('\n')?;
    Some(if first.ends_with('\r') { "\r\n" } else { "\n" })
}

/// Returns a text whose lines end so; as it is where a file has no line ends that it could follow.
fn with_line_break<'a>(text: &'a str, line_break: Option<&str>) -> Cow<'a, str> {
    match line_break {
        Some("\r\n") => Cow::Owned(without_returns(text).replace('\n', "\r\n")),
        Some(_) => without_returns(text),
        None => Cow::Borrowed(text),
    }
}

/// Returns a text with `\n` for each `\r\n`.
fn without_returns(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// Returns where a position of the text without returns is in the text itself.
fn position_in(text: &str, position: usize) -> usize {
    let mut left = position;
    let mut at = 0;
    while left > 0 {
        let is_pair = text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(b"\r\n"));
        at += if is_pair { 2 } else { 1 };
        left -= 1;
    }
    at
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// Returns the line on which each of these ascending positions lies, counted from 1.
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

/// Returns where `pattern` begins in `text`, overlapping occurrences included.
///
/// Knuth, Morris and Pratt: searching anew behind each hit takes quadratic time on a text like
/// `aaaa…`, and both texts come from outside. UTF-8 never matches in the middle of a character.
fn occurrences(text: &str, pattern: &str) -> Vec<usize> {
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    let mut found = Vec::new();
    if pattern.is_empty() || pattern.len() > text.len() {
        return found;
    }
    // For each prefix of the pattern, the length of its longest border.
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
            found.push(end + 1 - matched);
            matched = borders[matched - 1];
        }
    }
    found
}

/// Returns how much of the pattern is matched after one more byte, with `matched` before it.
fn extend(mut matched: usize, byte: u8, pattern: &[u8], borders: &[usize]) -> usize {
    while matched > 0 && pattern[matched] != byte {
        matched = borders[matched - 1];
    }
    if pattern[matched] == byte { matched + 1 } else { 0 }
}

#[cfg(test)]
mod tests;
