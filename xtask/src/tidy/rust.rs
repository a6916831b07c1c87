//! A lexer that splits Rust sources into lines of code, comments and string literals.
//!
//! It is no parser: it recognizes strings, characters and comments, so that a word in a string does not count as code.
//! The code is without the contents of strings.

use crate::tidy::tree::SourceTree;

/// One source file.
#[derive(Debug)]
pub(super) struct RustSource<'a> {
    /// Its path, from the root.
    pub(super) path: &'a str,
    pub(super) lines: Vec<SourceLine>,
    pub(super) literals: Vec<Literal>,
}

/// One string literal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    /// The index of the line on which it begins.
    pub(super) line: usize,
    /// The text between the quotes. Escapes are resolved only as far as word boundaries need it.
    pub(super) text: String,
}

impl RustSource<'_> {
    /// Returns the index of the first line of test code, or the number of lines if there is none.
    ///
    /// Tests are whole files, or the last module of a file.
    pub(super) fn tests_start(&self) -> usize {
        let is_test = self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.starts_with("crates/testkit/");
        let module = || self.lines.iter().position(|line| line.code.starts_with("mod tests {"));
        if is_test { 0 } else { module().unwrap_or(self.lines.len()) }
    }
}

/// One line of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SourceLine {
    /// The line without comments and without the contents of strings.
    pub(super) code: String,
    /// The text of its comments.
    pub(super) comment: String,
}

/// Returns all Rust sources of the tree.
pub(super) fn sources(tree: &SourceTree) -> Vec<RustSource<'_>> {
    let sources = tree.with_extension("rs").map(|(path, text)| {
        let (lines, literals) = read(text);
        RustSource { path, lines, literals }
    });
    sources.collect()
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

/// The construct at the position of the reader.
#[derive(Clone, Copy)]
enum LexState {
    Code,
    LineComment,
    /// Block comments nest.
    BlockComment(usize),
    /// A string, which ends with a quote and `signs` number signs; a raw one has no escapes.
    Text {
        raw: bool,
        signs: usize,
    },
}

/// Splits a source into its lines and its string literals.
fn read(text: &str) -> (Vec<SourceLine>, Vec<Literal>) {
    let mut reader = Lexer {
        remaining: text,
        before: '\n',
        state: LexState::Code,
        lines: vec![SourceLine::default()],
        literals: Vec::new(),
    };
    while reader.step() {}
    if text.ends_with('\n') {
        reader.lines.pop();
    }
    (reader.lines, reader.literals)
}

struct Lexer<'a> {
    remaining: &'a str,
    /// The character before `rest`.
    before: char,
    state: LexState,
    lines: Vec<SourceLine>,
    literals: Vec<Literal>,
}

impl Lexer<'_> {
    /// Reads the next character; returns false at the end of the text.
    fn step(&mut self) -> bool {
        let Some(c) = self.remaining.chars().next() else { return false };
        if c == '\n' {
            if matches!(self.state, LexState::LineComment) {
                self.state = LexState::Code;
            }
            if matches!(self.state, LexState::Text { .. }) {
                self.push_literal('\n');
            }
            self.skip(1);
            self.lines.push(SourceLine::default());
            return true;
        }
        match self.state {
            LexState::Code => self.code(c),
            LexState::LineComment => self.comment(c),
            LexState::BlockComment(depth) => self.block_comment(c, depth),
            LexState::Text { raw, signs } => self.text(c, raw, signs),
        }
        true
    }

    fn code(&mut self, c: char) {
        if self.remaining.starts_with("//") {
            self.state = LexState::LineComment;
            self.skip(2);
        } else if self.remaining.starts_with("/*") {
            self.state = LexState::BlockComment(1);
            self.skip(2);
        } else if let Some((prefix, signs)) = raw_string(self.remaining).filter(|_| !self.in_word())
        {
            self.open_literal(true, signs);
            self.push_kept(prefix);
        } else if c == '"' {
            self.open_literal(false, 0);
            self.push_kept(1);
        } else if let Some(length) = character(self.remaining) {
            self.skip(length);
            self.push_code("''");
        } else {
            self.push_kept(c.len_utf8());
        }
    }

    fn comment(&mut self, c: char) {
        if let Some(line) = self.lines.last_mut() {
            line.comment.push(c);
        }
        self.skip(c.len_utf8());
    }

    fn block_comment(&mut self, c: char, depth: usize) {
        if self.remaining.starts_with("/*") {
            self.state = LexState::BlockComment(depth + 1);
            self.skip(2);
        } else if self.remaining.starts_with("*/") {
            self.state =
                if depth == 1 { LexState::Code } else { LexState::BlockComment(depth - 1) };
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
            let escaped = self.remaining.chars().nth(1).filter(|c| *c != '\n');
            if let Some(escaped) = escaped {
                let is_space = matches!(escaped, 'n' | 'r' | 't');
                self.push_literal(if is_space { ' ' } else { escaped });
            }
            self.skip(1 + escaped.map_or(0, char::len_utf8));
        } else if closes(self.remaining) {
            self.state = LexState::Code;
            self.push_kept(1 + signs);
        } else {
            self.push_literal(c);
            self.skip(c.len_utf8());
        }
    }

    fn open_literal(&mut self, raw: bool, signs: usize) {
        self.state = LexState::Text { raw, signs };
        let line = self.lines.len() - 1;
        self.literals.push(Literal { line, text: String::new() });
    }

    fn push_literal(&mut self, c: char) {
        if let Some(literal) = self.literals.last_mut() {
            literal.text.push(c);
        }
    }

    /// Returns whether an identifier continues at this position.
    fn in_word(&self) -> bool {
        self.before.is_alphanumeric() || self.before == '_'
    }

    fn push_kept(&mut self, length: usize) {
        let (kept, _) = self.remaining.split_at(length);
        self.push_code(kept);
        self.skip(length);
    }

    fn push_code(&mut self, code: &str) {
        if let Some(line) = self.lines.last_mut() {
            line.code.push_str(code);
        }
    }

    fn skip(&mut self, length: usize) {
        let (skipped, rest) = self.remaining.split_at(length);
        self.before = skipped.chars().next_back().unwrap_or(self.before);
        self.remaining = rest;
    }
}

/// Returns the length of the opening of a raw string, and its number of number signs.
fn raw_string(rest: &str) -> Option<(usize, usize)> {
    let letter = ["r", "br", "cr"].into_iter().find(|letter| {
        rest.strip_prefix(letter).is_some_and(|after| after.starts_with(['#', '"']))
    })?;
    let after = rest.strip_prefix(letter)?;
    let signs = after.bytes().take_while(|byte| *byte == b'#').count();
    let is_string = after.chars().nth(signs) == Some('"');
    is_string.then_some((letter.len() + signs + 1, signs))
}

/// Returns the length of the character literal at the start of `rest`; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('\'')?;
    let mut chars = after.chars();
    let first = chars.next()?;
    if first == '\\' {
        // An escaped quote does not close the literal.
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
        let (found, _) = read(text);
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
    fn contents_of_strings_are_neither_code_nor_comments() {
        check(r#"f("a // b") // c"#, &[(r#"f("") "#, " c")]);
        check(r#"f("\" /* ") g"#, &[(r#"f("") g"#, "")]);
        check(r##"r#"a " // b"# c"##, &[("r#\"\"# c", "")]);
        check(r#"br"\" c"#, &[(r#"br"" c"#, "")]);
        check("\"a\nb\" c", &[("\"", ""), ("\" c", "")]);
        check("\"a\\\nb\" c", &[("\"", ""), ("\" c", "")]);
    }

    #[test]
    fn characters_are_distinguished_from_lifetimes() {
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
    fn literals_are_kept_with_the_line_they_begin_on() {
        let text = "f(\"a\\tb \\\"c\\\"\",\n  r#\"d \"e\"\n f\"#, 'g', \"h\\\n  i\"); // \"j\"";
        let (_, literals) = read(text);
        let found: Vec<_> = literals.iter().map(|each| (each.line, each.text.as_str())).collect();
        assert_eq!(found, [(0, "a b \"c\""), (1, "d \"e\"\n f"), (2, "h\n  i")]);
    }

    #[test]
    fn tests_are_whole_files_or_the_last_module() {
        let check = |path: &str, expected: usize| {
            let tree = SourceTree::from([(path, "fn f() {}\n#[cfg(test)]\nmod tests {\n}\n")]);
            assert_eq!(sources(&tree)[0].tests_start(), expected, "{path}");
        };
        check("crates/a/src/lib.rs", 2);
        check("crates/a/src/a/tests.rs", 0);
        check("crates/a/tests/it/b.rs", 0);
        check("crates/testkit/src/c.rs", 0);
        let tree = SourceTree::from([("a.rs", "mod tests;\n")]);
        assert_eq!(sources(&tree)[0].tests_start(), 1);
    }

    #[test]
    fn tokens_are_words_and_marks() {
        assert_eq!(
            tokens("pub struct A<'a>(b_1);"),
            ["pub", "struct", "A", "<", "'", "a", ">", "(", "b_1", ")", ";"]
        );
    }
}
