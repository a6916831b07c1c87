//! The duplicate rule: one of two entries may be removed without a question if they say the same, word for word, in
//! the same place.
//!
//! The rule needs no word list, so it holds in every language. Any other similarity is only proposed to a person.

use memory::path::{MemoryPath, Mount};
use unicode_normalization::UnicodeNormalization;

use super::snapshot::{ParsedEntry, StoredMemory};

/// Maximum number of words of a fragment: its meaning depends on the memory around it.
const FRAGMENT_WORDS_MAX: usize = 2;

/// Maximum number of words of a label and of the value after it: `Owner: Ada`.
const VALUE_WORDS_MAX: usize = 3;

/// Normal form of an entry; entries that say the same word for word are equal.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NormalizedText(Box<str>);

impl NormalizedText {
    /// Normalizes an entry or a statement, without its bullet.
    pub(crate) fn new(whole: &str) -> Self {
        let text = whole.trim().replace("\r\n", "\n");
        let text: String = if text.is_ascii() { text } else { text.nfc().collect() };
        // The layout of lists, tables and code is part of their meaning.
        let text = if has_blocks(&text) { trim_line_ends(&text) } else { normalize_line(&text) };
        Self(text.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks whether the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Checks whether two entries say the same in the same place, so that one of them may be removed.
///
/// Numbered steps, headings and introductions give a line its meaning, and so does the file: `Owner: Ada` in two
/// files is two facts. Lines of dialogue, paragraphs, labeled values and list steps below a heading may be repeated
/// on purpose.
pub(crate) fn is_duplicate(
    (a_file, a): (&StoredMemory, &ParsedEntry),
    (b_file, b): (&StoredMemory, &ParsedEntry),
) -> bool {
    a.normalized == b.normalized
        && !a.normalized.is_empty()
        && [a, b]
            .into_iter()
            .all(|entry| entry.is_item() && !entry.is_step && !entry.has_introduction)
        && !is_fragment(a.statement())
        && a.context == b.context
        && (a.context.is_empty() || a_file.path != b_file.path)
        && is_same_subject(&a_file.path, &b_file.path)
}

/// Checks whether two files have the same subject: the same path, or one that differs in a number at the end.
pub(crate) fn is_same_subject(a: &MemoryPath, b: &MemoryPath) -> bool {
    a == b || subject_of(a) == subject_of(b)
}

/// Returns the subject of a file: its mount, and its path without the extension and the number.
pub(crate) fn subject_of(path: &MemoryPath) -> (Option<Mount>, Option<&str>) {
    (path.mount(), subject(path))
}

/// Returns the path of a file without its extension and its number.
fn subject(path: &MemoryPath) -> Option<&str> {
    let path = path.relative()?.as_str();
    let stem = path.strip_suffix(".md").unwrap_or(path);
    let base = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    Some(base.strip_suffix('-').filter(|_| base.len() < stem.len()).unwrap_or(stem))
}

/// Normalizes differences without meaning: white space, Unicode form, curly apostrophes, an initial capital, and
/// final punctuation. Code is unchanged.
pub(crate) fn normalize_line(text: &str) -> String {
    let text = text.trim_end_matches(|c: char| c.is_whitespace() || ".;,!。．！、；،".contains(c));
    // Text between backticks is code.
    let pieces = text.split('`').enumerate().map(|(index, piece)| {
        if index % 2 == 1 { piece.to_owned() } else { collapse_whitespace(piece) }
    });
    let text = pieces.collect::<Vec<_>>().join("`").trim().to_owned();
    match text.split_once(' ') {
        Some((first, rest)) => format!("{} {rest}", lowercase_first_word(first)),
        None => lowercase_first_word(&text),
    }
}

/// Collapses runs of white space and straightens apostrophes.
fn collapse_whitespace(piece: &str) -> String {
    let mut spaced = String::with_capacity(piece.len());
    for c in piece.chars() {
        match c {
            c if c.is_whitespace() && spaced.ends_with(' ') => {}
            c if c.is_whitespace() => spaced.push(' '),
            '\u{2018}' | '\u{2019}' => spaced.push('\''),
            c => spaced.push(c),
        }
    }
    spaced
}

/// Lowercases the first word if only its first letter is a capital. Other capitals distinguish words: `US` and
/// `us`, `FOO` and `foo`.
fn lowercase_first_word(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().is_some_and(char::is_uppercase);
    let rest = letters.as_str().trim_end_matches([',', ':']);
    let is_capitalized = first
        && rest.chars().any(char::is_alphabetic)
        && rest.chars().all(|c| !c.is_uppercase() && (c.is_alphabetic() || c == '\''));
    if is_capitalized { word.to_lowercase() } else { word.to_owned() }
}

/// Checks whether a statement is too short to identify its subject: a few words, or a labeled value.
pub(crate) fn is_fragment(fact: &str) -> bool {
    let mut words = fact.split_whitespace();
    let count = |text: &str| text.split_whitespace().count();
    let label = fact.split_once([':', '：']).is_some_and(|(label, value)| {
        count(label) <= VALUE_WORDS_MAX
            && count(value) <= VALUE_WORDS_MAX
            && !value.starts_with("//")
    });
    let has_spaces = fact.is_ascii() || fact.contains(' ');
    label || (has_spaces && words.by_ref().nth(FRAGMENT_WORDS_MAX).is_none())
}

/// Checks whether a text has more than one Markdown block: a list, a table, code, a quotation.
pub(crate) fn has_blocks(text: &str) -> bool {
    let mut lines = text.lines();
    let begins_block = |line: &str| {
        let bare = line.trim_start();
        bare.is_empty()
            || line.len() - bare.len() >= 4
            || line.contains('\t')
            || bare.starts_with(['#', '>', '|', '`', '~', '<', '-', '*', '+', '='])
            || is_numbered(bare)
            || line.ends_with("  ")
    };
    let first = lines.next().unwrap_or_default();
    let begins_alone = first.starts_with(['|', '>', '#', '<', '~']) || first.starts_with("```");
    begins_alone || lines.any(begins_block)
}

/// Checks whether a line begins like a numbered step: `1.` or `1)`.
pub(crate) fn is_numbered(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(['.', ')'])
}

fn trim_line_ends(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_without_meaning_are_normalized() {
        for (a, b) in [
            ("Run the unit tests", "run the  unit tests."),
            ("Prefers tea;", "prefers\ntea"),
            ("朝は会議を入れない", "朝は会議を入れない。"),
            ("Caf\u{e9} at noon", "cafe\u{301} at noon"),
            ("Run `just X`.", "run `just X`"),
            ("It's the pier\u{2019}s", "it\u{2019}s the pier's"),
            ("We ship on Fridays", "we  ship on Fridays"),
        ] {
            assert_eq!(NormalizedText::new(a), NormalizedText::new(b), "{a} | {b}");
        }
        for (a, b) in [
            ("Alice reports to Bob", "Bob reports to Alice"),
            ("Support for US users", "Support for us users"),
            ("Option -C is safe", "Option -c is safe"),
            ("Run `just X`", "Run `just x`"),
            ("The door is open?", "The door is open"),
            ("Reads .env first", "Reads env first"),
            ("Uses C# there", "Uses C there"),
            ("10\u{b2} rows", "102 rows"),
            ("Steps\n- one\n  - two", "Steps\n- one\n- two"),
            ("[ ] call Ada", "[x] call Ada"),
            ("`a  b`", "`a b`"),
            ("Set MODE", "Set mode"),
            ("Die Arme heben", "Die arme heben"),
        ] {
            assert_ne!(NormalizedText::new(a), NormalizedText::new(b), "{a} | {b}");
        }
    }
}
