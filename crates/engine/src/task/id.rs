//! Ids of tasks and clients, parsed from untrusted text.

use std::fmt;
use std::str::FromStr;

use memory::limits::CLIENT_ID_CHARS_MAX;
use uuid::Uuid;

use super::TaskKind;

/// The id of a task: its kind and a random UUID, `remember-<uuid>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    text: String,
    kind: TaskKind,
}

impl TaskId {
    /// Returns a new, unique id.
    pub fn new(kind: TaskKind) -> Self {
        Self { text: format!("{kind}-{}", Uuid::new_v4()), kind }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the kind that it starts with.
    pub const fn kind(&self) -> TaskKind {
        self.kind
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// A text that is not a task id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a task id must be a kind of task, `-` and a UUID")]
pub struct BadTaskId;

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        let (word, uuid_text) = text.split_once('-').ok_or(BadTaskId)?;
        let kind: TaskKind = word.parse().map_err(|_| BadTaskId)?;
        let uuid = Uuid::try_parse(uuid_text).map_err(|_| BadTaskId)?;
        // Only the canonical spelling is accepted, because ids are compared as text.
        let is_spelled = uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == uuid_text;
        if is_spelled && word == kind.as_str() {
            Ok(Self { text: text.to_owned(), kind })
        } else {
            Err(BadTaskId)
        }
    }
}

/// The name that a client gives itself: letters, digits, `.`, `_`, `:` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(String);

impl ClientId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A text that is not a client id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a client id must be 1 to {CLIENT_ID_CHARS_MAX} letters, digits, `.`, `_`, `:` or `-`")]
pub struct BadClientId;

impl FromStr for ClientId {
    type Err = BadClientId;

    fn from_str(text: &str) -> Result<Self, BadClientId> {
        let well_formed = (1..=CLIENT_ID_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte));
        if well_formed { Ok(Self(text.to_owned())) } else { Err(BadClientId) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_id_is_a_kind_and_a_uuid() {
        let id = TaskId::new(TaskKind::Forget);
        assert_eq!(id.as_str().parse(), Ok(id));
        for text in [
            "",
            "remember",
            "remember-",
            "harvest-67e55044-10b1-426f-9247-bb680e5fe0c8",
            "remember-67e5504410b1426f9247bb680e5fe0c8",
            "remember-67E55044-10B1-426F-9247-BB680E5FE0C8",
            "remember-{67e55044-10b1-426f-9247-bb680e5fe0c8}",
            " remember-67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert_eq!(text.parse::<TaskId>(), Err(BadTaskId), "{text}");
        }
    }

    #[test]
    fn a_client_id_is_short_and_plain() {
        for text in ["a", "ide:window-1", "A.b_c:d-9", &"x".repeat(128)] {
            assert_eq!(text.parse::<ClientId>().map(|id| id.to_string()), Ok(text.to_owned()));
        }
        for text in ["", " ", "a b", "a/b", "ä", "a\n", &"x".repeat(129)] {
            assert_eq!(text.parse::<ClientId>(), Err(BadClientId), "{text:?}");
        }
    }
}
