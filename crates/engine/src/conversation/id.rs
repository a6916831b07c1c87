//! Names of conversations: the host gives them.

use std::fmt;
use std::str::FromStr;

use memory::limits::CONVERSATION_ID_CHARS_MAX;
use uuid::Uuid;

/// The name of a conversation, as its host has it: letters, digits, `.`, `_`, `:` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConversationId(String);

/// A text that names no conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a conversation's id has 1 to {CONVERSATION_ID_CHARS_MAX} letters, digits, `.`, `_`, `:` or `-`"
)]
pub struct BadConversationId;

impl ConversationId {
    /// Returns a name that nobody else has.
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConversationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for ConversationId {
    type Err = BadConversationId;

    fn from_str(text: &str) -> Result<Self, BadConversationId> {
        let may_be = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
        let is_one = (1..=CONVERSATION_ID_CHARS_MAX).contains(&text.len());
        if is_one && text.chars().all(may_be) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadConversationId)
        }
    }
}
