//! Where a context file asks for another file.
//!
//! `@path` at the beginning of a line or after white space does, and `<!-- @import: path -->`. What a
//! Markdown parser takes for code does not. Whether there is such a file is not known here: a word after an
//! at sign may be anything, so all readings of it are told, and who knows the files picks one.

use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Tag};

use super::events;
use crate::limits::IMPORTS_A_FILE_MAX;

/// A place in a text that may be an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What it may mean, the longest first. A sentence may go on with a full stop right after the path.
    pub readings: Vec<Reading>,
    /// Whether it can be nothing else: it is in a comment that says so.
    pub is_explicit: bool,
}

/// What an import would take the place of, and the file that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The bytes of the text that it takes the place of.
    pub range: Range<usize>,
    /// The path, as it stands there.
    pub path: String,
}

/// A text that was loaded, with its imports found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its path, as a model is shown it.
    pub shown: String,
    /// Its text.
    pub text: Arc<str>,
    /// Its imports, in the order in which they stand there; no two of them overlap.
    pub imports: Vec<Import>,
}

/// An import that is carried out, or visibly not. One whose file does not exist is none: its text stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// What it takes the place of.
    pub range: Range<usize>,
    /// The path, as it stands there.
    pub path: String,
    /// What comes of it.
    pub target: Target,
}

/// What comes of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It is replaced by the source at this place among all.
    Source(usize),
    /// It failed, and this is why.
    Failed(String),
}

/// What a comment that asks for a file begins and ends with.
const COMMENT: (&str, &str) = ("<!--", "-->");

/// What such a comment says before the path.
const IMPORT: &str = "@import:";

/// Marks at the end of a word that belong to the sentence around it, unless there is a file of that name.
const SENTENCE_MARKS: [char; 24] = [
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '_', '。', '，', '、', '；',
    '：', '！', '？', '）', '」', '》',
];

/// How many of those marks are tried to be left out.
const MARKS_MAX: usize = 4;

/// The longest path that a comment may ask for, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// Returns the places that may be imports, the first [`IMPORTS_A_FILE_MAX`] of them, and whether there are
/// more.
pub fn imports(text: &str) -> (Vec<Asked>, bool) {
    // Most at signs ask for nothing, and then it does not matter what is code.
    let code = LazyCell::new(|| code(text));
    let mut found: Vec<Asked> = Vec::new();
    let mut end = 0;
    for (at, _) in text.match_indices('@') {
        if at < end {
            continue;
        }
        let Some(asked) = in_comment(text, at).or_else(|| bare(text, at)) else { continue };
        let next_code = code.partition_point(|range| range.end <= at);
        if code.get(next_code).is_some_and(|range| range.start <= at) {
            continue;
        }
        if found.len() == IMPORTS_A_FILE_MAX {
            return (found, true);
        }
        end = asked.readings.first().map_or(end, |reading| reading.range.end);
        found.push(asked);
    }
    (found, false)
}

/// Returns what is code, in order.
fn code(text: &str) -> Vec<Range<usize>> {
    let is_code =
        |event: &Event<'_>| matches!(event, Event::Code(_) | Event::Start(Tag::CodeBlock(_)));
    events(text).filter(|(event, _)| is_code(event)).map(|(_, range)| range).collect()
}

fn in_comment(text: &str, at: usize) -> Option<Asked> {
    let start = text.get(..at)?.trim_end_matches([' ', '\t']).strip_suffix(COMMENT.0)?.len();
    let rest = text.get(at..)?.strip_prefix(IMPORT)?;
    // No further: comments that nothing closes would be read to the end of the text, each of them.
    let near = rest.get(..rest.floor_char_boundary(PATH_BYTES_MAX))?;
    let (path, _) = near.split_once(COMMENT.1)?;
    if path.contains(['\n', '\r']) || path.trim().is_empty() {
        return None;
    }
    let end = at + IMPORT.len() + path.len() + COMMENT.1.len();
    let reading = Reading { range: start..end, path: path.trim().to_owned() };
    Some(Asked { readings: vec![reading], is_explicit: true })
}

fn bare(text: &str, at: usize) -> Option<Asked> {
    let before = text.get(..at)?.chars().next_back();
    if before.is_some_and(|c| !c.is_whitespace()) {
        return None;
    }
    let rest = text.get(at..)?;
    // A comment that asks for nothing is no path either.
    if rest.starts_with(IMPORT) {
        return None;
    }
    let rest = rest.strip_prefix('@')?;
    let mut path = rest.split(char::is_whitespace).next().unwrap_or_default();
    // A comment behind it may ask for another file.
    path = path.split(COMMENT.0).next().unwrap_or_default();
    let begins = path.starts_with(['.', '/']) || path.starts_with("~/");
    if !begins && !path.starts_with(char::is_alphabetic) {
        return None;
    }
    let reading = |path: &str| Reading { range: at..at + 1 + path.len(), path: path.to_owned() };
    let mut readings = vec![reading(path)];
    while let Some(shorter) = path.strip_suffix(SENTENCE_MARKS)
        && readings.len() <= MARKS_MAX
        && !shorter.is_empty()
    {
        path = shorter;
        readings.push(reading(path));
    }
    Some(Asked { readings, is_explicit: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let (found, _) = imports(text);
        let longest = |asked: &Asked| {
            let reading = &asked.readings[0];
            let range = text.get(reading.range.clone()).unwrap();
            assert!(range.contains(&reading.path), "{range:?}");
            reading.path.clone()
        };
        found.iter().map(longest).collect()
    }

    fn check(text: &str, expected: &[&str]) {
        assert_eq!(paths(text), expected, "{text:?}");
    }

    #[test]
    fn a_path_after_an_at_sign_is_asked_for() {
        check("@./x.md", &["./x.md"]);
        check(
            "a @docs/setup.md b @~/x @/etc/hosts\n@../y.txt",
            &["docs/setup.md", "~/x", "/etc/hosts", "../y.txt"],
        );
        check("见 @文档/说明.md 了", &["文档/说明.md"]);
        check("- @./a.md\n> @./b.md", &["./a.md", "./b.md"]);
        check("<!-- @import: my notes.md -->", &["my notes.md"]);
        check("x<!--@import:a.md-->y", &["a.md"]);
    }

    #[test]
    fn a_comment_behind_a_path_is_no_part_of_it() {
        check("@a.md<!-- @import: b.md -->", &["a.md", "b.md"]);
        check("@<!-- @import: b.md -->", &["b.md"]);
    }

    #[test]
    fn a_comment_that_is_not_closed_nearby_asks_for_nothing() {
        let near = format!("<!-- @import: {} -->", "a".repeat(PATH_BYTES_MAX - 20));
        assert_eq!(paths(&near).len(), 1);
        check(&format!("<!-- @import: {} -->", "é".repeat(PATH_BYTES_MAX)), &[]);
        check(&"<!-- @import: ".repeat(70_000), &[]);
    }

    #[test]
    fn other_at_signs_are_nothing() {
        check("me@example.org @ x (@a) \\@./x.md \"@b\" @1 @~x @-", &[]);
        check("<!-- @import:  -->", &[]);
    }

    #[test]
    fn code_asks_for_nothing() {
        check("```\n@./a.md\n```\n@./b.md", &["./b.md"]);
        check("~~~md\n@./a.md\n<!-- @import: x -->\n", &[]);
        check("text\n\n    @./indented.md\n\n@./b.md", &["./b.md"]);
        check("`@./a.md` and ``x ` @./b.md`` @./c.md", &["./c.md"]);
        check("`a` @./x.md `b`\n\n`a @./y.md", &["./x.md", "./y.md"]);
        check("- list\n\n  ```\n  @./a.md\n  ```\n  @./b.md", &["./b.md"]);
    }

    #[test]
    fn a_sentence_may_end_after_a_path() {
        let (found, _) = imports("(see @./a.md).");
        let readings: Vec<_> = found[0].readings.iter().map(|each| each.path.as_str()).collect();
        assert_eq!(readings, ["./a.md).", "./a.md)", "./a.md"]);
        assert_eq!(found[0].readings[2].range, 5..12);
    }

    #[test]
    fn there_is_an_end_to_what_is_looked_at() {
        let text = "@a.md ".repeat(IMPORTS_A_FILE_MAX + 1);
        let (found, more) = imports(&text);
        assert_eq!((found.len(), more), (IMPORTS_A_FILE_MAX, true));
    }
}
