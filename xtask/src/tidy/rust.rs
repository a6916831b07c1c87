//! Rust sources, line by line, with code and comments told apart.
//!
//! Not a parser: it knows strings, characters and comments, so that a word inside a string is not
//! taken for code. Contents of strings are left out of the code.

use crate::tidy::tree::Tree;

/// One source file.
#[derive(Debug)]
pub(super) struct Source<'a> {
    /// Its path, from the root.
    pub(super) path: &'a str,
    pub(super) lines: Vec<Line>,
}

/// One line of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// The line without comments and without what its strings hold.
    pub(super) code: String,
    /// What its comments say.
    pub(super) comment: String,
}

/// Returns all Rust sources of the tree.
pub(super) fn sources(tree: &Tree) -> Vec<Source<'_>> {
    tree.with_extension("rs").map(|(path, text)| Source { path, lines: lines(text) }).collect()
}

/// Returns the identifiers, keywords and punctuation marks of a line of code.
pub(super) fn tokens(code: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

/// What the reader is inside of.
#[derive(Clone, Copy)]
enum Inside {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    /// A string, which ends with a quote and so many number signs; a raw one has no escapes.
    Text {
        raw: bool,
        signs: usize,
    },
}

/// Splits a source into lines of code and comment.
fn lines(text: &str) -> Vec<Line> {
    let mut reader = Reader { rest: text, before: '\n', inside: Inside::Code, lines: Vec::new() };
    reader.lines.push(Line::default());
    while reader.step() {}
    if text.ends_with('\n') {
        reader.lines.pop();
    }
    reader.lines
}

struct Reader<'a> {
    rest: &'a str,
    /// The character before `rest`.
    before: char,
    inside: Inside,
    lines: Vec<Line>,
}

impl Reader<'_> {
    /// Reads on, and tells whether there was anything left.
    fn step(&mut self) -> bool {
        let Some(c) = self.rest.chars().next() else { return false };
        if c == '\n' {
            if matches!(self.inside, Inside::LineComment) {
                self.inside = Inside::Code;
            }
            self.skip(1);
            self.lines.push(Line::default());
            return true;
        }
        match self.inside {
            Inside::Code => self.code(c),
            Inside::LineComment => self.comment(c),
            Inside::BlockComment(depth) => self.block_comment(c, depth),
            Inside::Text { raw, signs } => self.text(c, raw, signs),
        }
        true
    }

    fn code(&mut self, c: char) {
        if self.rest.starts_with("//") {
            self.inside = Inside::LineComment;
            self.skip(2);
        } else if self.rest.starts_with("/*") {
            self.inside = Inside::BlockComment(1);
            self.skip(2);
        } else if let Some((prefix, signs)) = raw_string(self.rest).filter(|_| !self.in_word()) {
            self.inside = Inside::Text { raw: true, signs };
            self.keep(prefix);
        } else if c == '"' {
            self.inside = Inside::Text { raw: false, signs: 0 };
            self.keep(1);
        } else if let Some(length) = character(self.rest) {
            self.skip(length);
            self.push_code("''");
        } else {
            self.keep(c.len_utf8());
        }
    }

    fn comment(&mut self, c: char) {
        if let Some(line) = self.lines.last_mut() {
            line.comment.push(c);
        }
        self.skip(c.len_utf8());
    }

    fn block_comment(&mut self, c: char, depth: usize) {
        if self.rest.starts_with("/*") {
            self.inside = Inside::BlockComment(depth + 1);
            self.skip(2);
        } else if self.rest.starts_with("*/") {
            self.inside = if depth == 1 { Inside::Code } else { Inside::BlockComment(depth - 1) };
            self.skip(2);
        } else {
            self.comment(c);
        }
    }

    fn text(&mut self, c: char, raw: bool, signs: usize) {
        let closes = |rest: &str| {
            rest.strip_prefix('"')
                .is_some_and(|after| after.bytes().take_while(|b| *b == b'#').count() >= signs)
        };
        if c == '\\' && !raw {
            // An escaped line end still ends the line.
            let escaped = self.rest.chars().nth(1).filter(|c| *c != '\n');
            self.skip(1 + escaped.map_or(0, char::len_utf8));
        } else if closes(self.rest) {
            self.inside = Inside::Code;
            self.keep(1 + signs);
        } else {
            self.skip(c.len_utf8());
        }
    }

    /// Tells whether an identifier goes on here.
    fn in_word(&self) -> bool {
        self.before.is_alphanumeric() || self.before == '_'
    }

    fn keep(&mut self, length: usize) {
        let (kept, _) = self.rest.split_at(length);
        self.push_code(kept);
        self.skip(length);
    }

    fn push_code(&mut self, code: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.code.push_str(code);
        }
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.rest.split_at(length);
        self.before = skipped.chars().next_back().unwrap_or(self.before);
        self.rest = rest;
    }
}

/// Returns how long the opening of a raw string is, and how many number signs it has.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let letter = ["r", "br", "cr"].into_iter().find(|letter| {
        rest.strip_prefix(letter).is_some_and(|after| after.starts_with(['#', '"']))
    })?;
    let after = rest.strip_prefix(letter)?;
    let signs = after.bytes().take_while(|byte| *byte == b'#').count();
    let is_string = after.chars().nth(signs) == Some('"');
    is_string.then_some((letter.len() + signs + 1, signs))
}

/// Returns how long the character literal is that begins here; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\'')?;
    let mut chars = after.chars();
    let first = chars.next()?;
    if first == '\\' {
        // The quote that closes is not the one that is escaped.
        let body = 1 + chars.next()?.len_utf8();
        let (_, end) = after.split_at_checked(body)?;
        return Some(1 + body + end.find('\'')? + 1);
    }
    (chars.next() == Some('\'')).then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found = lines(text);
        let found: Vec<_> = found.iter().map(|l| (l.code.as_str(), l.comment.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn comments_are_no_code() {
        check("a // b\nc", &[("a ", " b"), ("c", "")]);
        check("a /* b\nc */ d", &[("a ", " b"), (" d", "c ")]);
        check("/* a /* b */ c */ d", &[(" d", " a  b  c ")]);
        check("//! x\n", &[("", "! x")]);
    }

    #[test]
    fn what_strings_hold_is_neither() {
        check(r#"f("a // b") // c"#, &[(r#"f("") "#, " c")]);
        check(r#"f("\" /* ") g"#, &[(r#"f("") g"#, "")]);
        check(r##"r#"a " // b"# c"##, &[("r#\"\"# c", "")]);
        check(r#"br"\" c"#, &[(r#"br"" c"#, "")]);
        check("\"a\nb\" c", &[("\"", ""), ("\" c", "")]);
        check("\"a\\\nb\" c", &[("\"", ""), ("\" c", "")]);
    }

    #[test]
    fn characters_are_told_from_lifetimes() {
        check("'\"' // a", &[("'' ", " a")]);
        check(r"'\'' // a", &[("'' ", " a")]);
        check(r"'\u{7f}' 'é' x", &[("'' '' x", "")]);
        check("&'a str // b", &[("&'a str ", " b")]);
        check("b'\"' c", &[("b'' c", "")]);
    }

    #[test]
    fn raw_names_are_no_strings() {
        check("r#type + bar\"x\"", &[("r#type + bar\"\"", "")]);
    }

    #[test]
    fn tokens_are_words_and_marks() {
        assert_eq!(
            tokens("pub struct A<'a>(b_1);"),
            ["pub", "struct", "A", "<", "'", "a", ">", "(", "b_1", ")", ";"]
        );
    }
}
