//! A text buffer that is filled line by line, and quoting for shells.

use std::fmt::{self, Write};

/// Returns a text as one shell word, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a text as one shell word, in quotes if it needs them.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

/// A text that is appended to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextBuffer(String);

impl TextBuffer {
    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        // Writing to a string cannot fail.
        let _always = writeln!(self.0, "{line}");
    }

    /// Adds text without a line end.
    pub(crate) fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Checks whether the text is empty.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the text.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_word_is_quoted_only_if_needed() {
        assert_eq!(shell_word("global/a-b.md"), "global/a-b.md");
        assert_eq!(shell_word("global/my notes.md"), "'global/my notes.md'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
