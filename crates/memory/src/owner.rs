//! Owners in a database that daemons share: their tokens and sizes.

use std::time::Duration;

use crate::clock::Timestamp;

/// The rights of a token, in ascending order: each has all rights of those before it.
#[derive(strum::AsRefStr, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Sees memories and all else of the owner, and changes nothing.
    Read,
    /// Also changes memories, and starts tasks.
    Write,
    /// Also creates, lists and revokes tokens of the owner.
    Admin,
}

/// The owner and the rights of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRights {
    /// The owner of the memories.
    pub owner: String,
    /// The rights on them.
    pub role: Role,
}

/// The properties of a new token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenOptions<'a> {
    /// The rights that it gives.
    pub role: Role,
    /// Its purpose, in the words of the person who creates it.
    pub note: Option<&'a str>,
    /// The time for which it is valid; `None` until it is revoked.
    pub valid_for: Option<Duration>,
}

/// The hours of a day of a token, whatever the clocks of a place do.
const HOURS_A_DAY: u64 = 24;

impl TokenOptions<'_> {
    /// Returns the time of validity of this many days.
    pub fn days(days: u32) -> Duration {
        Duration::from_hours(HOURS_A_DAY) * days
    }
}

/// A token that was just created. Its text cannot be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The id, which names the token in lists.
    pub id: String,
    /// The token itself.
    pub text: String,
}

/// A stored token, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// The name of the owner.
    pub owner: String,
    /// The id.
    pub id: String,
    /// The rights that it gives.
    pub role: Role,
    /// Its purpose, in the words of the person who created it.
    pub note: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it stops to be valid; `None` if only a revocation ends it.
    pub ends_at: Option<Timestamp>,
}

/// The size of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSize {
    /// The name of the owner.
    pub owner: String,
    /// Number of memories.
    pub memories: u64,
    /// Bytes of memories, without history.
    pub memory_bytes: u64,
    /// Tasks that wait or run.
    pub unfinished_tasks: u64,
}
