//! Where a reader goes on, and in which numbering that is meant.

use std::fmt;

use uuid::Uuid;

/// The numbering that ids of events belong to: one start of a daemon. Numbers begin anew with the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch(String);

impl Epoch {
    /// Returns a numbering that nobody has seen before.
    #[expect(clippy::new_without_default, reason = "each one is another, which no default is")]
    pub fn new() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a reader has seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The id of the event; 0 is before the first.
    pub last_seen: u64,
    /// The numbering that it says it means; `None` believes the current one.
    pub epoch: Option<String>,
}
