//! Where a context file asks for another file.
//!
//! `@path` does at the beginning of a line, after white space, or after a parenthesis or a mark that opens
//! something; so do `@"a path"` and `<!-- @import: path -->`. What a Markdown parser takes for code does not, and
//! neither does anything else in a comment. Whether there is such a file is not known here: a word after an
//! at sign may be anything, so all readings of it are told, and who knows the files picks one.

use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Tag};

use super::events;
use crate::limits::IMPORTS_A_FILE_MAX;

/// A place in a text that may be an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRef {
    /// What it may mean, the longest first. A sentence may go on with a full stop right after the path.
    pub candidates: Vec<ImportCandidate>,
    /// Whether it can be nothing else: it is in a comment that says so.
    pub is_explicit: bool,
}

/// How imports are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportStyle {
    /// What is imported takes the place of what asked for it.
    #[default]
    Tree,
    /// Texts stay as they are; imported files follow, each once.
    Flat,
}

/// What an import would take the place of, and the file that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportCandidate {
    /// The bytes of the text that it takes the place of.
    pub range: Range<usize>,
    /// The path, as it stands there; without a fragment such as `#part`, which names a place in the file.
    pub path: String,
}

/// A text that was loaded, with its imports found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedText {
    /// Its path, as a model is shown it.
    pub display_path: String,
    /// Its text.
    pub text: Arc<str>,
    /// Its imports, in the order in which they stand there; no two of them overlap.
    pub imports: Vec<ResolvedImport>,
}

/// An import that is carried out, or visibly not. One whose file does not exist is none: its text stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImport {
    /// What it takes the place of.
    pub range: Range<usize>,
    /// The path, as it stands there.
    pub path: String,
    /// What comes of it.
    pub resolution: ImportResolution,
}

/// What comes of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportResolution {
    /// It is replaced by the source at this place among all.
    Replaced(usize),
    /// It failed, and this is why.
    Failed(String),
}

/// What a comment that asks for a file begins and ends with.
const COMMENT: (&str, &str) = ("<!--", "-->");

/// What such a comment says before the path.
const IMPORT: &str = "@import:";

/// Marks at the end of a word that belong to the sentence around it, unless there is a file of that name.
const SENTENCE_MARKS: [char; 28] = [
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '_', '。', '，', '、', '；',
    '：', '！', '？', '）', '」', '》', '』', '】', '”', '’',
];

/// Marks at which a path ends unless there is a file of the longer name: no white space follows them.
const ENDS: [char; 14] =
    [')', '。', '，', '、', '；', '：', '！', '？', '）', '」', '》', '』', '】', '”'];

/// Marks after which an at sign may ask for a file, as after white space.
const OPENERS: [char; 14] =
    ['(', '（', '「', '『', '《', '【', '“', '。', '，', '、', '；', '：', '！', '？'];

/// Marks that a path with spaces may stand between.
const QUOTES: [char; 2] = ['"', '\''];

/// How many of those marks are tried to be left out.
const MARKS_MAX: usize = 4;

/// The longest path that a comment may ask for, in bytes.
const IMPORT_PATH_BYTES_MAX: usize = 4096;

/// Returns the places that may be imports, the first [`IMPORTS_A_FILE_MAX`] of them, and whether there are
/// more.
pub fn find_imports(text: &str) -> (Vec<ImportRef>, bool) {
    // Most at signs ask for nothing, and then it does not matter what is code or comment.
    let not_text = LazyCell::new(|| NonTextRanges::find(text));
    let mut found: Vec<ImportRef> = Vec::new();
    let mut end = 0;
    for (at, _) in text.match_indices('@') {
        if at < end {
            continue;
        }
        let explicit = comment_import(text, at);
        let Some(asked) =
            explicit.or_else(|| quoted_import(text, at)).or_else(|| unquoted_import(text, at))
        else {
            continue;
        };
        // A comment that asks for a file must not be in another one.
        let begins = asked.candidates.first().map_or(at, |reading| reading.range.start);
        let is_in_comment = if asked.is_explicit {
            covers(&not_text.comments, begins) && !not_text.begins_comment(begins)
        } else {
            covers(&not_text.comments, at)
        };
        if is_in_comment || covers(&not_text.code, at) {
            continue;
        }
        if found.len() == IMPORTS_A_FILE_MAX {
            return (found, true);
        }
        end = asked.candidates.first().map_or(end, |reading| reading.range.end);
        found.push(asked);
    }
    (found, false)
}

/// The parts of a text that a reader of the rendered document does not read as text, in order.
#[derive(Default)]
struct NonTextRanges {
    code: Vec<Range<usize>>,
    comments: Vec<Range<usize>>,
}

impl NonTextRanges {
    fn find(text: &str) -> Self {
        let mut not_text = Self::default();
        let closings: Vec<usize> =
            text.match_indices(COMMENT.1).map(|(at, _)| at + COMMENT.1.len()).collect();
        for (event, range) in events(text) {
            match event {
                Event::Code(_) | Event::Start(Tag::CodeBlock(_)) => not_text.code.push(range),
                Event::Html(_) | Event::InlineHtml(_) => {
                    not_text.add_comments(text, range, &closings);
                }
                _ => {}
            }
        }
        not_text
    }

    /// Adds the comments that begin in a piece of HTML. One may end behind that piece: a blank line ends some
    /// blocks of HTML and no comment.
    fn add_comments(&mut self, text: &str, html: Range<usize>, closings: &[usize]) {
        let mut from = self.comments.last().map_or(html.start, |last| last.end.max(html.start));
        while let Some(ahead) = text.get(from..html.end).and_then(|rest| rest.find(COMMENT.0)) {
            let start = from + ahead;
            let behind = start + COMMENT.0.len();
            let next = closings.partition_point(|&end| end < behind + COMMENT.1.len());
            let end = closings.get(next).copied().unwrap_or(text.len());
            self.comments.push(start..end);
            from = end;
        }
    }

    fn begins_comment(&self, at: usize) -> bool {
        self.comments.binary_search_by_key(&at, |range| range.start).is_ok()
    }
}

/// Tells whether one of these ranges, which are in order, covers a position.
fn covers(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= at);
    ranges.get(next).is_some_and(|range| range.start <= at)
}

fn comment_import(text: &str, at: usize) -> Option<ImportRef> {
    let start = text.get(..at)?.trim_end_matches([' ', '\t']).strip_suffix(COMMENT.0)?.len();
    let rest = text.get(at..)?.strip_prefix(IMPORT)?;
    // No further: comments that nothing closes would be read to the end of the text, each of them.
    let near = rest.get(..rest.floor_char_boundary(IMPORT_PATH_BYTES_MAX))?;
    let (path, _) = near.split_once(COMMENT.1)?;
    if path.contains(['\n', '\r']) || path.trim().is_empty() {
        return None;
    }
    let end = at + IMPORT.len() + path.len() + COMMENT.1.len();
    let mut readings = vec![ImportCandidate { range: start..end, path: path.trim().to_owned() }];
    readings.extend(without_fragment(&readings));
    Some(ImportRef { candidates: readings, is_explicit: true })
}

/// Tells whether an at sign there may ask for a file, by what stands before it.
fn may_start_import(text: &str, at: usize) -> Option<bool> {
    let before = text.get(..at)?.chars().next_back();
    Some(before.is_none_or(|c| c.is_whitespace() || OPENERS.contains(&c)))
}

/// Returns the last reading without its fragment, if it has one.
fn without_fragment(readings: &[ImportCandidate]) -> Option<ImportCandidate> {
    let ImportCandidate { range, path } = readings.last()?;
    let (path, _) = path.split_once('#').filter(|(path, _)| !path.is_empty())?;
    Some(ImportCandidate { range: range.clone(), path: path.trim_end().to_owned() })
}

fn quoted_import(text: &str, at: usize) -> Option<ImportRef> {
    if !may_start_import(text, at)? {
        return None;
    }
    let rest = text.get(at..)?.strip_prefix('@')?;
    let quote = rest.chars().next().filter(|c| QUOTES.contains(c))?;
    let line = rest.strip_prefix(quote)?.split(['\n', '\r']).next()?;
    let near = line.get(..line.floor_char_boundary(IMPORT_PATH_BYTES_MAX))?;
    let (path, _) = near.split_once(quote)?;
    if path.trim().is_empty() {
        return None;
    }
    let end = at + '@'.len_utf8() + quote.len_utf8() + path.len() + quote.len_utf8();
    let mut readings = vec![ImportCandidate { range: at..end, path: path.trim().to_owned() }];
    readings.extend(without_fragment(&readings));
    Some(ImportRef { candidates: readings, is_explicit: false })
}

fn unquoted_import(text: &str, at: usize) -> Option<ImportRef> {
    if !may_start_import(text, at)? {
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
    let reading =
        |path: &str| ImportCandidate { range: at..at + 1 + path.len(), path: path.to_owned() };
    let mut readings = vec![reading(path)];
    while let Some(shorter) = path.strip_suffix(SENTENCE_MARKS)
        && readings.len() <= MARKS_MAX
        && !shorter.is_empty()
    {
        path = shorter;
        readings.push(reading(path));
    }
    if let Some((shorter, _)) = path.split_once(ENDS).filter(|(shorter, _)| !shorter.is_empty()) {
        readings.push(reading(shorter));
    }
    readings.extend(without_fragment(&readings));
    Some(ImportRef { candidates: readings, is_explicit: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let (found, _) = find_imports(text);
        let longest = |asked: &ImportRef| {
            let reading = &asked.candidates[0];
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
        let near = format!("<!-- @import: {} -->", "a".repeat(IMPORT_PATH_BYTES_MAX - 20));
        assert_eq!(paths(&near).len(), 1);
        check(&format!("<!-- @import: {} -->", "é".repeat(IMPORT_PATH_BYTES_MAX)), &[]);
        check(&"<!-- @import: ".repeat(70_000), &[]);
    }

    #[test]
    fn other_at_signs_are_nothing() {
        check("me@example.org @ x \\@./x.md \"@b\" @1 @~x @- @\"\" @\"open\n\" 邮@a.md", &[]);
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
        let (found, _) = find_imports("(see @./a.md).");
        let readings: Vec<_> = found[0].candidates.iter().map(|each| each.path.as_str()).collect();
        assert_eq!(readings, ["./a.md).", "./a.md)", "./a.md"]);
        assert_eq!(found[0].candidates[2].range, 5..12);
    }

    fn readings(text: &str) -> Vec<String> {
        let (found, _) = find_imports(text);
        found[0].candidates.iter().map(|each| each.path.clone()).collect()
    }

    #[test]
    fn a_path_ends_at_a_mark_that_no_white_space_follows() {
        assert_eq!(readings("见 @docs/a.md。然后"), ["docs/a.md。然后", "docs/a.md"]);
        assert_eq!(readings("（@docs/a.md），再看"), ["docs/a.md），再看", "docs/a.md"]);
        assert_eq!(readings("先读：@a.md。"), ["a.md。", "a.md"]);
        assert_eq!(readings("(@a.md)s"), ["a.md)s", "a.md"]);
        assert_eq!(readings("(@a.md)"), ["a.md)", "a.md"]);
    }

    #[test]
    fn a_fragment_is_left_out_last_and_replaced_with_its_path() {
        assert_eq!(readings("@a.md#part"), ["a.md#part", "a.md"]);
        assert_eq!(
            readings("see (@./a.md#a-part)."),
            ["./a.md#a-part).", "./a.md#a-part)", "./a.md#a-part", "./a.md"]
        );
        assert_eq!(readings("<!-- @import: my a.md#part -->"), ["my a.md#part", "my a.md"]);
        let (found, _) = find_imports("x @a.md#part y");
        assert_eq!(found[0].candidates[1].range, 2..12);
    }

    #[test]
    fn a_path_between_quotes_may_have_spaces() {
        assert_eq!(readings("see @\"my notes.md\", please"), ["my notes.md"]);
        assert_eq!(readings("(@'./my notes.md#part')"), ["./my notes.md#part", "./my notes.md"]);
        let (found, _) = find_imports("x @\"my notes.md\" y");
        assert_eq!(found[0].candidates[0].range, 2..16);
    }

    #[test]
    fn a_comment_asks_for_nothing_but_by_its_own_form() {
        check("<!-- @a.md -->\n@b.md", &["b.md"]);
        check("<!--\n@a.md\n\n@c.md\n-->\n\n@b.md", &["b.md"]);
        check("text <!-- @a.md --> @b.md", &["b.md"]);
        check("<div>\n<!-- @a.md\n\n@c.md -->\n\n@b.md\n</div>", &["b.md"]);
        check("<!-- off: <!-- @import: a.md --> @b.md", &["b.md"]);
        check("<!-- @import: a.md --> <!-- @c.md --> @b.md", &["a.md", "b.md"]);
        check("<!-- never closed\n@a.md", &[]);
        check("no comment: <!- @a.md -> `<!--` @b.md", &["a.md", "b.md"]);
        check(&"<div>\n<!-- @a.md\n\n".repeat(10_000), &[]);
    }

    #[test]
    fn there_is_an_end_to_what_is_looked_at() {
        let text = "@a.md ".repeat(IMPORTS_A_FILE_MAX + 1);
        let (found, more) = find_imports(&text);
        assert_eq!((found.len(), more), (IMPORTS_A_FILE_MAX, true));
    }
}
