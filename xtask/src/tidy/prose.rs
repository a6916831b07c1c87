//! The prose of the repository, as passages without markup: comments, docs, documents and messages.
//!
//! A passage is a paragraph, a heading, a list item, a table cell, a code block or a string literal.
//! Code spans become one opaque word, and links become their text. Text for models and generated
//! text is left out: the first is behavior, the second is written elsewhere.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::tidy::markdown;
use crate::tidy::rust::{RustSource, SourceLine};
use crate::tidy::tree::{SourceTree, has_extension};

/// Folders and files that are generated from other text of the repository.
const GENERATED: [&str; 2] = ["docs/reference/", "sdks/typescript/src/openapi.ts"];

/// Extensions of scripts, of which comments are read.
const SCRIPTS: [&str; 3] = ["js", "mjs", "ts"];

/// Stands for a code span.
const CODE_SPAN: char = '`';

/// Abbreviations that end with a dot in the middle of a sentence.
const ABBREVIATIONS: [&str; 4] = ["e.g.", "i.e.", "cf.", "vs."];

/// A stretch of text that is read as one.
#[derive(Debug)]
pub(super) struct Passage<'a> {
    /// The file, from the root.
    pub(super) path: &'a str,
    /// The index of its first line in the file.
    first_line: usize,
    /// The text without markup, with the line ends of the file.
    text: String,
    /// Whether sentences are measured: true for paragraphs and list items of docs and documents.
    pub(super) has_sentences: bool,
}

impl Passage<'_> {
    /// Returns the index of the line of each place where the phrase stands as whole words. The
    /// phrase is in lower case.
    pub(super) fn lines_with(&self, phrase: &str) -> Vec<usize> {
        let flat = self.text.replace('\n', " ").to_ascii_lowercase();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut lines = Vec::new();
        for (start, _) in flat.match_indices(phrase) {
            let (before, rest) = flat.split_at(start);
            let (_, after) = rest.split_at(phrase.len());
            if !before.ends_with(is_word) && !after.starts_with(is_word) {
                // Lower case ASCII and spaces for line ends keep every offset.
                let (before, _) = self.text.split_at(start);
                lines.push(self.first_line + before.matches('\n').count());
            }
        }
        lines
    }

    /// Splits the passage into sentences. The end of the passage ends a sentence too.
    pub(super) fn sentences(&self) -> Vec<Sentence<'_>> {
        let mut sentences = Vec::new();
        let mut open: Option<Sentence<'_>> = None;
        for (index, line) in self.text.split('\n').enumerate() {
            for token in line.split_whitespace() {
                let line = self.first_line + index;
                let sentence = open.get_or_insert(Sentence { line, tokens: Vec::new() });
                sentence.tokens.push(token);
                if ends_sentence(token) {
                    sentences.extend(open.take());
                }
            }
        }
        sentences.extend(open);
        sentences
    }
}

/// One sentence of a passage.
#[derive(Debug)]
pub(super) struct Sentence<'a> {
    /// The index of the line on which it begins.
    pub(super) line: usize,
    /// Its words with their punctuation, and dashes that stand alone.
    pub(super) tokens: Vec<&'a str>,
}

impl Sentence<'_> {
    /// Returns the number of words. A code span is one word.
    pub(super) fn words(&self) -> usize {
        let is_word = |c: char| c.is_alphanumeric() || c == CODE_SPAN;
        self.tokens.iter().filter(|token| token.contains(is_word)).count()
    }
}

fn ends_sentence(token: &str) -> bool {
    let end = token.trim_end_matches([')', ']', '"', '\'', '”', '’']);
    end.ends_with(['.', '!', '?']) && !ABBREVIATIONS.contains(&end)
}

/// Consecutive lines of comments of one kind.
#[derive(Debug)]
pub(super) struct CommentBlock<'a> {
    /// The index of its first line.
    pub(super) first_line: usize,
    /// Whether it is documentation.
    pub(super) is_doc: bool,
    /// The lines without comment marks.
    pub(super) lines: Vec<&'a str>,
}

impl<'a> CommentBlock<'a> {
    /// Appends a line to the last block if it continues it, otherwise begins a new block.
    fn append(blocks: &mut Vec<Self>, index: usize, is_doc: bool, line: &'a str) {
        if let Some(last) = blocks.last_mut()
            && last.is_doc == is_doc
            && last.first_line + last.lines.len() == index
        {
            last.lines.push(line);
        } else {
            blocks.push(Self { first_line: index, is_doc, lines: vec![line] });
        }
    }

    fn passages<'p>(&self, path: &'p str) -> Vec<Passage<'p>> {
        passages(path, self.first_line, &self.lines.join("\n"), self.is_doc)
    }
}

/// Returns all passages: of Rust sources, of documents and of scripts.
pub(super) fn read<'a>(tree: &'a SourceTree, sources: &[RustSource<'a>]) -> Vec<Passage<'a>> {
    let mut passages: Vec<_> = sources.iter().flat_map(of_source).collect();
    for (path, text) in tree.texts().filter(|(path, _)| !is_generated(path)) {
        if has_extension(path, "md") && markdown::is_document(path) {
            passages.extend(self::passages(path, 0, text, true));
        } else if SCRIPTS.iter().any(|extension| has_extension(path, extension)) {
            passages.extend(script_comments(text).iter().flat_map(|block| block.passages(path)));
        }
    }
    passages
}

fn is_generated(path: &str) -> bool {
    GENERATED.iter().any(|generated| path.starts_with(generated))
}

/// Returns the comments of a source, and its string literals outside tests.
fn of_source<'a>(source: &RustSource<'a>) -> Vec<Passage<'a>> {
    let comments = comments(source);
    let mut passages: Vec<_> =
        comments.iter().flat_map(|block| block.passages(source.path)).collect();
    // Literals of tests are messages and inputs, and nothing distinguishes them.
    let tests_start = source.tests_start();
    for literal in source.literals.iter().filter(|literal| literal.line < tests_start) {
        let lines: Vec<_> = literal.text.split('\n').map(str::trim).collect();
        passages.push(Passage {
            path: source.path,
            first_line: literal.line,
            text: lines.join("\n"),
            has_sentences: false,
        });
    }
    passages
}

/// Returns the comments of a Rust source.
pub(super) fn comments<'a>(source: &'a RustSource<'_>) -> Vec<CommentBlock<'a>> {
    let mut blocks = Vec::new();
    for (index, line) in source.lines.iter().enumerate() {
        match doc(line) {
            Some(doc) => CommentBlock::append(&mut blocks, index, true, doc),
            None if line.comment.is_empty() => {}
            None => CommentBlock::append(&mut blocks, index, false, unindented(&line.comment)),
        }
    }
    blocks
}

/// Returns the text of a line that is a doc comment.
fn doc(line: &SourceLine) -> Option<&str> {
    let text = line.comment.strip_prefix(['/', '!'])?;
    let is_doc = line.code.trim().is_empty() && !text.starts_with('/');
    is_doc.then(|| unindented(text))
}

fn unindented(comment: &str) -> &str {
    comment.strip_prefix(' ').unwrap_or(comment)
}

/// Returns the comments of a JavaScript or TypeScript source. Blocks that begin with `/**` are docs.
///
/// A mark counts at the start of a line or after a space, so that it is not found in an address or
/// a glob.
fn script_comments(text: &str) -> Vec<CommentBlock<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<bool> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let begins = |mark: &str| {
            let stripped = line.strip_prefix(mark);
            stripped.or_else(|| line.split_once(&format!(" {mark}")).map(|(_, rest)| rest))
        };
        let comment = match open {
            Some(is_doc) => Some((is_doc, line.strip_prefix('*').unwrap_or(line))),
            None => begins("/**").map(|rest| (true, rest)).or_else(|| Some((false, begins("/*")?))),
        };
        if let Some((is_doc, rest)) = comment {
            // In the last line of a block, the mark that closes it may be what is left of `*/`.
            let end = if open.is_some() && line.starts_with("*/") { Some("") } else { None };
            let end = end.or_else(|| rest.split_once("*/").map(|(inside, _)| inside));
            open = if end.is_some() { None } else { Some(is_doc) };
            CommentBlock::append(&mut blocks, index, is_doc, unindented(end.unwrap_or(rest)));
        } else if let Some(rest) = begins("//") {
            CommentBlock::append(&mut blocks, index, false, unindented(rest));
        }
    }
    blocks
}

/// Splits Markdown into passages.
fn passages<'a>(
    path: &'a str,
    first_line: usize,
    markdown: &str,
    is_doc: bool,
) -> Vec<Passage<'a>> {
    let mut line_starts = vec![0];
    line_starts.extend(markdown.match_indices('\n').map(|(end, _)| end + 1));
    let mut splitter = Splitter { path, first_line, line_starts, open: None, passages: Vec::new() };
    let mut is_measured = is_doc;
    for (event, range) in Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(tag) if is_block(tag.to_end()) => {
                splitter.close();
                is_measured = is_doc && matches!(tag, Tag::Paragraph | Tag::Item);
            }
            Event::End(tag) if is_block(tag) => splitter.close(),
            Event::Text(text) => splitter.push(&range, &text, is_measured),
            Event::Code(_) => splitter.push(&range, &CODE_SPAN.to_string(), is_measured),
            _ => {}
        }
    }
    splitter.close();
    splitter.passages
}

/// Checks whether text before and after the tag belongs to different passages.
fn is_block(tag: TagEnd) -> bool {
    !matches!(
        tag,
        TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Link
            | TagEnd::Image
            | TagEnd::Superscript
            | TagEnd::Subscript
    )
}

/// The passages of one piece of Markdown, while it is parsed.
struct Splitter<'a> {
    path: &'a str,
    first_line: usize,
    /// The offset of each line of the Markdown.
    line_starts: Vec<usize>,
    open: Option<Passage<'a>>,
    passages: Vec<Passage<'a>>,
}

impl Splitter<'_> {
    /// Appends text that stands in this range of the Markdown.
    fn push(&mut self, range: &Range<usize>, text: &str, has_sentences: bool) {
        let starts = self.line_starts.partition_point(|start| *start <= range.start);
        let line = self.first_line + starts - 1;
        let passage = self.open.get_or_insert_with(|| Passage {
            path: self.path,
            first_line: line,
            text: String::new(),
            has_sentences,
        });
        // Line ends are no part of text, and may stand within a code span or a link.
        while passage.first_line + passage.text.matches('\n').count() < line {
            passage.text.push('\n');
        }
        passage.text.push_str(text);
    }

    fn close(&mut self) {
        self.passages.extend(self.open.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::rust;

    /// Returns the passages of a file as `line text`, with `+` for those of which sentences count.
    fn found(path: &str, text: &str) -> Vec<String> {
        let tree = SourceTree::from([(path, text)]);
        let passages = read(&tree, &rust::sources(&tree));
        let shown = passages.iter().map(|each| {
            let mark = if each.has_sentences { "+" } else { "" };
            format!("{}{mark} {}", each.first_line + 1, each.text)
        });
        shown.collect()
    }

    #[test]
    fn markdown_is_split_into_passages_without_markup() {
        let text = "# A `b`\n\nOne *two*\n[three `x`](a\n\"c\") four.\n- five\n  six\n- seven\n\n\
                    | a | `b` |\n|---|---|\n| c | d |\n\n```\ne f\n\ng\n```\n> quote\n";
        let expected = [
            "1 A `",
            "3+ One two\nthree `\n four.",
            "6+ five\nsix",
            "8+ seven",
            "10 a",
            "10 `",
            "12 c",
            "12 d",
            "15 e f\n\ng\n",
            "19+ quote",
        ];
        assert_eq!(found("a.md", text), expected);
    }

    #[test]
    fn comments_docs_and_literals_of_rust_are_passages() {
        let text = "//! Module\n//! docs.\n\n/// Type.\n// Why\n// so.\nconst A: &str = \"b\\\n    c\"; // d\n\
                    #[cfg(test)]\nmod tests {\n    /// Doc.\n    const E: &str = \"f\"; // g\n}\n";
        let expected =
            ["1+ Module\ndocs.", "4+ Type.", "5 Why\nso.", "8 d", "11+ Doc.", "12 g", "7 b\nc"];
        assert_eq!(found("crates/a/src/lib.rs", text), expected);
    }

    #[test]
    fn comments_of_scripts_are_passages() {
        let text = "// @ts-check\n/** Doc. */\nconst a = 'https://b'; // why\n/**\n * Long\n * doc.\n */\n\
                    const glob = '**/*.ts';\nf(/* inner */ a);\n";
        let expected = ["1 @ts-check", "2+ Doc.", "3 why", "5+ Long\ndoc."];
        assert_eq!(found("a/b.ts", text), expected);
    }

    #[test]
    fn generated_text_and_text_for_models_are_left_out() {
        assert_eq!(found("docs/reference/cli.md", "text"), [""; 0]);
        assert_eq!(found("sdks/typescript/src/openapi.ts", "// text"), [""; 0]);
        assert_eq!(found("a/prompts/b.md", "text"), [""; 0]);
        assert_eq!(found("a.txt", "text"), [""; 0]);
    }

    #[test]
    fn a_phrase_is_found_as_whole_words_and_across_lines() {
        let passage = Passage {
            path: "a",
            first_line: 3,
            text: "Told at\nHand. É at hand, at handle,\nthat hand; at_hand at hand".to_owned(),
            has_sentences: false,
        };
        assert_eq!(passage.lines_with("at hand"), [3, 4, 5]);
        assert_eq!(passage.lines_with("told"), [3]);
    }

    #[test]
    fn sentences_end_with_marks_or_with_the_passage() {
        let check = |text: &str, expected: &[(usize, usize)]| {
            let passage =
                Passage { path: "a", first_line: 0, text: text.to_owned(), has_sentences: true };
            let sentences = passage.sentences();
            let found: Vec<_> = sentences.iter().map(|each| (each.line, each.words())).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(
            "One two. Three\nfour – five! `\nsix? (Seven.) \"Eight.\" nine",
            &[(0, 2), (0, 3), (1, 2), (2, 1), (2, 1), (2, 1)],
        );
        check("See e.g. `` v1.5 a.rs", &[(0, 5)]);
        check("", &[]);
    }
}
