//! Imports: the places in a context file that include another file.
//!
//! An import is `@path` or `@"a path"` at the beginning of a line, after white space, a parenthesis or an opening mark.
//! `<!-- @import: path -->` is one, too. Code, as a Markdown parser finds it, has no imports, nor have other comments.
//! This module does not know which files exist, and any word may follow an at sign. So it returns all possible
//! readings, and the caller picks the one with an existing file.

use std::cell::LazyCell;
use std::ops::Range;
use std::sync::Arc;

use pulldown_cmark::{Event, Tag};

use super::events;
use crate::limits::IMPORTS_A_FILE_MAX;

/// A possible import in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRef {
    /// The possible readings, longest first: punctuation right after a path may belong to the sentence.
    pub candidates: Vec<ImportCandidate>,
    /// Whether this is certainly an import: it is in an import comment.
    pub is_explicit: bool,
}

/// The form in which imports are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportStyle {
    /// The imported text replaces the import.
    #[default]
    Tree,
    /// Texts are unchanged; imported files follow, each once.
    Flat,
}

/// A reading of an import: the range that it replaces, and the path of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportCandidate {
    /// The range of the text that the import replaces, in bytes.
    pub range: Range<usize>,
    /// The path as written; one reading omits a fragment such as `#part`, which names a part of the file.
    pub path: String,
}

/// A loaded text with its resolved imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedText {
    /// The path that is shown to a model.
    pub display_path: String,
    /// The text of the file.
    pub text: Arc<str>,
    /// The imports in the order of the text; they do not overlap.
    pub imports: Vec<ResolvedImport>,
}

/// An import that was loaded or failed. A possible import without an existing file is not one: its text is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedImport {
    /// The range of the text that the import replaces, in bytes.
    pub range: Range<usize>,
    /// The path as written.
    pub path: String,
    /// The outcome.
    pub resolution: ImportResolution,
}

/// The outcome of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportResolution {
    /// The import is replaced by the loaded text with this index.
    Replaced(usize),
    /// The import failed for this reason.
    Failed(String),
}

/// The beginning and the end of a comment.
const COMMENT: (&str, &str) = ("<!--", "-->");

/// The text before the path in an import comment.
const IMPORT: &str = "@import:";

/// Marks at the end of a word that belong to the sentence, unless a file has that name.
const SENTENCE_MARKS: [char; 28] = [
    '.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '*', '_', '。', '，', '、', '；',
    '：', '！', '？', '）', '」', '》', '』', '】', '”', '’',
];

/// Marks at which a path ends although no white space follows, unless a file has the longer name.
const ENDS: [char; 14] =
    [')', '。', '，', '、', '；', '：', '！', '？', '）', '」', '》', '』', '】', '”'];

/// Marks after which an at sign may begin an import, as after white space.
const OPENERS: [char; 14] =
    ['(', '（', '「', '『', '《', '【', '“', '。', '，', '、', '；', '：', '！', '？'];

/// Quotation marks around a path with spaces.
const QUOTES: [char; 2] = ['"', '\''];

/// The most sentence marks that are stripped from a path.
const MARKS_MAX: usize = 4;

/// The longest path in quotation marks or a comment, in bytes.
const IMPORT_PATH_BYTES_MAX: usize = 4096;

/// Returns the first [`IMPORTS_A_FILE_MAX`] possible imports of a text, and whether there are more.
pub fn find_imports(text: &str) -> (Vec<ImportRef>, bool) {
    // Lazy: most at signs are no imports, and then the Markdown need not be parsed.
    let not_text = LazyCell::new(|| NonTextRanges::find(text));
    let mut found: Vec<ImportRef> = Vec::new();
    let mut end = 0;
    for (offset, _) in text.match_indices('@') {
        if offset < end {
            continue;
        }
        let explicit = comment_import(text, offset);
        let Some(import) = explicit
            .or_else(|| quoted_import(text, offset))
            .or_else(|| unquoted_import(text, offset))
        else {
            continue;
        };
        // An import comment must not be inside of another comment.
        let start = import.candidates.first().map_or(offset, |reading| reading.range.start);
        let is_in_comment = if import.is_explicit {
            covers(&not_text.comments, start) && !not_text.begins_comment(start)
        } else {
            covers(&not_text.comments, offset)
        };
        if is_in_comment || covers(&not_text.code, offset) {
            continue;
        }
        if found.len() == IMPORTS_A_FILE_MAX {
            return (found, true);
        }
        end = import.candidates.first().map_or(end, |reading| reading.range.end);
        found.push(import);
    }
    (found, false)
}

/// The ranges of code and comments in a text, in order.
#[derive(Default)]
struct NonTextRanges {
    code: Vec<Range<usize>>,
    comments: Vec<Range<usize>>,
}

impl NonTextRanges {
    fn find(text: &str) -> Self {
        let mut not_text = Self::default();
        let closings: Vec<usize> =
            text.match_indices(COMMENT.1).map(|(offset, _)| offset + COMMENT.1.len()).collect();
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

    /// Adds the comments that begin in a range of HTML. A comment may end after that range: a blank line ends some
    /// blocks of HTML, but no comment.
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

    fn begins_comment(&self, offset: usize) -> bool {
        self.comments.binary_search_by_key(&offset, |range| range.start).is_ok()
    }
}

/// Checks whether one of these ordered ranges covers an offset.
fn covers(ranges: &[Range<usize>], offset: usize) -> bool {
    let next = ranges.partition_point(|range| range.end <= offset);
    ranges.get(next).is_some_and(|range| range.start <= offset)
}

fn comment_import(text: &str, offset: usize) -> Option<ImportRef> {
    let start = text.get(..offset)?.trim_end_matches([' ', '\t']).strip_suffix(COMMENT.0)?.len();
    let rest = text.get(offset..)?.strip_prefix(IMPORT)?;
    // Bounded: otherwise each unclosed comment would be scanned to the end of the text, in quadratic time.
    let near = rest.get(..rest.floor_char_boundary(IMPORT_PATH_BYTES_MAX))?;
    let (path, _) = near.split_once(COMMENT.1)?;
    if path.contains(['\n', '\r']) || path.trim().is_empty() {
        return None;
    }
    let end = offset + IMPORT.len() + path.len() + COMMENT.1.len();
    let mut readings = vec![ImportCandidate { range: start..end, path: path.trim().to_owned() }];
    readings.extend(without_fragment(&readings));
    Some(ImportRef { candidates: readings, is_explicit: true })
}

/// Checks the character before an at sign: whether it allows an import.
fn may_start_import(text: &str, offset: usize) -> Option<bool> {
    let before = text.get(..offset)?.chars().next_back();
    Some(before.is_none_or(|c| c.is_whitespace() || OPENERS.contains(&c)))
}

/// Returns the last reading without its fragment, if it has any.
fn without_fragment(readings: &[ImportCandidate]) -> Option<ImportCandidate> {
    let ImportCandidate { range, path } = readings.last()?;
    let (path, _) = path.split_once('#').filter(|(path, _)| !path.is_empty())?;
    Some(ImportCandidate { range: range.clone(), path: path.trim_end().to_owned() })
}

fn quoted_import(text: &str, offset: usize) -> Option<ImportRef> {
    if !may_start_import(text, offset)? {
        return None;
    }
    let rest = text.get(offset..)?.strip_prefix('@')?;
    let quote = rest.chars().next().filter(|c| QUOTES.contains(c))?;
    let line = rest.strip_prefix(quote)?.split(['\n', '\r']).next()?;
    let near = line.get(..line.floor_char_boundary(IMPORT_PATH_BYTES_MAX))?;
    let (path, _) = near.split_once(quote)?;
    if path.trim().is_empty() {
        return None;
    }
    let end = offset + '@'.len_utf8() + quote.len_utf8() + path.len() + quote.len_utf8();
    let mut readings = vec![ImportCandidate { range: offset..end, path: path.trim().to_owned() }];
    readings.extend(without_fragment(&readings));
    Some(ImportRef { candidates: readings, is_explicit: false })
}

fn unquoted_import(text: &str, offset: usize) -> Option<ImportRef> {
    if !may_start_import(text, offset)? {
        return None;
    }
    let rest = text.get(offset..)?;
    // An import comment without a path is no unquoted import either.
    if rest.starts_with(IMPORT) {
        return None;
    }
    let rest = rest.strip_prefix('@')?;
    let mut path = rest.split(char::is_whitespace).next().unwrap_or_default();
    // A comment may follow directly, with an import of its own.
    path = path.split(COMMENT.0).next().unwrap_or_default();
    let is_rooted = path.starts_with(['.', '/']) || path.starts_with("~/");
    if !is_rooted && !path.starts_with(char::is_alphabetic) {
        return None;
    }
    let reading = |path: &str| ImportCandidate {
        range: offset..offset + 1 + path.len(),
        path: path.to_owned(),
    };
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
        let longest = |import: &ImportRef| {
            let reading = &import.candidates[0];
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
    fn a_path_after_an_at_sign_is_an_import() {
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
    fn a_comment_after_a_path_is_not_part_of_it() {
        check("@a.md<!-- @import: b.md -->", &["a.md", "b.md"]);
        check("@<!-- @import: b.md -->", &["b.md"]);
    }

    #[test]
    fn an_unclosed_comment_is_no_import() {
        let near = format!("<!-- @import: {} -->", "a".repeat(IMPORT_PATH_BYTES_MAX - 20));
        assert_eq!(paths(&near).len(), 1);
        check(&format!("<!-- @import: {} -->", "é".repeat(IMPORT_PATH_BYTES_MAX)), &[]);
        check(&"<!-- @import: ".repeat(70_000), &[]);
    }

    #[test]
    fn other_at_signs_are_no_imports() {
        check("me@example.org @ x \\@./x.md \"@b\" @1 @~x @- @\"\" @\"open\n\" 邮@a.md", &[]);
        check("<!-- @import:  -->", &[]);
    }

    #[test]
    fn code_has_no_imports() {
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
    fn a_path_may_end_at_a_mark_without_white_space() {
        assert_eq!(readings("见 @docs/a.md。然后"), ["docs/a.md。然后", "docs/a.md"]);
        assert_eq!(readings("（@docs/a.md），再看"), ["docs/a.md），再看", "docs/a.md"]);
        assert_eq!(readings("先读：@a.md。"), ["a.md。", "a.md"]);
        assert_eq!(readings("(@a.md)s"), ["a.md)s", "a.md"]);
        assert_eq!(readings("(@a.md)"), ["a.md)", "a.md"]);
    }

    #[test]
    fn a_reading_without_the_fragment_comes_last() {
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
    fn only_import_comments_have_imports() {
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
    fn the_number_of_imports_is_bounded() {
        let text = "@a.md ".repeat(IMPORTS_A_FILE_MAX + 1);
        let (found, more) = find_imports(&text);
        assert_eq!((found.len(), more), (IMPORTS_A_FILE_MAX, true));
    }
}
