//! What an edit does to a text, and what it answers: text in, text out.
//!
//! Every byte outside the edit stays: line endings, a byte order mark, a missing final newline
//! (which only an insert adds). An edit that cannot be made says why. Reading and writing the file,
//! access and screening are the store's.

use super::{CommandError, text_of, view};
use crate::limits::{MEMORY_BYTES_MAX, SNIPPET_CONTEXT_LINES};
use crate::path::MemoryPath;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// The outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// All of the memory's text.
    pub text: String,
    /// What the caller is told.
    pub reply: String,
}

/// Replaces the one occurrence of `old` by `new`, letter for letter.
pub fn str_replace(
    path: &MemoryPath,
    text: &str,
    old: &str,
    new: &str,
) -> Result<Edited, CommandError> {
    check_editable(path, text)?;
    if old.is_empty() {
        return Err(CommandError::EmptyOldStr);
    }
    let at = match occurrences(text, old).as_slice() {
        [] => {
            return Err(CommandError::TextNotFound { path: path.clone(), old_str: old.to_owned() });
        }
        [at] => *at,
        many => {
            return Err(CommandError::TextNotUnique {
                old_str: old.to_owned(),
                lines: line_numbers(text, many),
            });
        }
    };
    let (before, rest) = text.split_at(at);
    let (_, after) = rest.split_at(old.len());
    let edited = [before, new, after].concat();
    check_writable(path, &edited)?;
    let first = newlines(before) + 1;
    let last = first + newlines(new.strip_suffix('\n').unwrap_or(new));
    let snippet = view::numbered(
        &edited,
        first.saturating_sub(SNIPPET_CONTEXT_LINES).max(1),
        last.saturating_add(SNIPPET_CONTEXT_LINES),
    );
    let reply = format!(
        "The memory file has been edited. Here is the snippet showing the change (with line \
         numbers):\n{snippet}"
    );
    Ok(Edited { text: edited, reply })
}

/// Adds `insert_text` as lines of its own after line `line`; 0 is the top, behind a byte order mark.
///
/// A file that breaks its lines with CRLF gets the new ones so too. The file ends with a newline
/// afterwards.
pub fn insert(
    path: &MemoryPath,
    text: &str,
    line: i64,
    insert_text: &str,
) -> Result<Edited, CommandError> {
    check_editable(path, text)?;
    let body = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let max = line_count(text);
    let Some(lines_above) = usize::try_from(line).ok().filter(|above| *above <= max) else {
        return Err(CommandError::InvalidInsertLine { line, max });
    };
    let above: usize = body.split_inclusive('\n').take(lines_above).map(str::len).sum();
    let (head, tail) = text.split_at(text.len() - body.len() + above);
    let breaks = if body.split_inclusive('\n').next().is_some_and(|first| first.ends_with("\r\n")) {
        "\r\n"
    } else {
        "\n"
    };
    let mut edited = head.to_owned();
    if above > 0 {
        end_line(&mut edited, breaks);
    }
    if breaks == "\r\n" {
        edited.push_str(&insert_text.replace("\r\n", "\n").replace('\n', "\r\n"));
    } else {
        edited.push_str(insert_text);
    }
    if !insert_text.ends_with('\n') {
        edited.push_str(breaks);
    }
    edited.push_str(tail);
    end_line(&mut edited, breaks);
    check_writable(path, &edited)?;
    Ok(Edited { text: edited, reply: format!("The file {path} has been edited.") })
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
    text_of(path, text.as_bytes()).map(|_| ())
}

fn end_line(text: &mut String, breaks: &str) {
    if !text.ends_with('\n') {
        text.push_str(breaks);
    }
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
