//! Texts put together line by line.

use std::fmt::{self, Write};

/// A text that grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(String);

impl Text {
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
