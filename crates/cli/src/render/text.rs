//! Texts put together line by line.

use std::fmt::{self, Write};

/// Returns a text as one word of a shell, in quotes.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a text as one word of a shell, in quotes where it needs them.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { quoted(text) }
}

/// A text that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TextBuffer(String);

impl TextBuffer {
    /// Adds a line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        // Writing to a string cannot fail.
        let _always = writeln!(self.0, "{line}");
    }

    /// Adds text as it is.
    pub(crate) fn add(&mut self, text: &str) {
        self.0.push_str(text);
    }

    /// Tells whether nothing was added.
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
    fn a_word_is_quoted_for_a_shell_where_it_needs_to_be() {
        assert_eq!(shell_word("global/a-b.md"), "global/a-b.md");
        assert_eq!(shell_word("global/my notes.md"), "'global/my notes.md'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
