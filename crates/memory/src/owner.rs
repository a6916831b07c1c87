//! Owners in a database that daemons share: their tokens and sizes.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::limits::{TOKEN_DAYS_MAX, TOKEN_NOTE_CHARS_MAX};

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
    role: Role,
    note: Option<&'a str>,
    valid_for: Option<Duration>,
}

/// An error of the properties of a new token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTokenOptions {
    /// The note is too long.
    #[error("`note` must have at most {TOKEN_NOTE_CHARS_MAX} characters")]
    Note,
    /// The number of days is zero or too large.
    #[error("`days` must be 1 to {TOKEN_DAYS_MAX}")]
    Days,
}

/// The hours of a day of a token, whatever the clocks of a place do.
const HOURS_A_DAY: u64 = 24;

impl<'a> TokenOptions<'a> {
    /// Checks the properties of a token. Without days, it is valid until it is revoked.
    pub fn new(
        role: Role,
        note: Option<&'a str>,
        days: Option<u32>,
    ) -> Result<Self, InvalidTokenOptions> {
        if note.is_some_and(|note| note.chars().count() > TOKEN_NOTE_CHARS_MAX) {
            return Err(InvalidTokenOptions::Note);
        }
        if days.is_some_and(|days| !(1..=TOKEN_DAYS_MAX).contains(&days)) {
            return Err(InvalidTokenOptions::Days);
        }
        let valid_for = days.map(|days| Duration::from_hours(HOURS_A_DAY) * days);
        Ok(Self { role, note, valid_for })
    }

    /// Returns the rights that the token gives.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Returns its purpose, in the words of the person who creates it.
    pub const fn note(&self) -> Option<&'a str> {
        self.note
    }

    /// Returns the time for which it is valid; `None` until it is revoked.
    pub const fn valid_for(&self) -> Option<Duration> {
        self.valid_for
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_short_note_and_ends_within_a_century() {
        fn check(
            note: &str,
            days: Option<u32>,
            expected: Result<Option<u64>, InvalidTokenOptions>,
        ) {
            let checked = TokenOptions::new(Role::Read, Some(note), days);
            let hours = |options: TokenOptions<'_>| {
                assert_eq!((options.role(), options.note()), (Role::Read, Some(note)));
                options.valid_for().map(|time| time.as_secs() / 3_600)
            };
            assert_eq!(checked.map(hours), expected, "{note} {days:?}");
        }
        check("", None, Ok(None));
        check(&"é".repeat(TOKEN_NOTE_CHARS_MAX), Some(1), Ok(Some(24)));
        check(&"é".repeat(TOKEN_NOTE_CHARS_MAX + 1), Some(1), Err(InvalidTokenOptions::Note));
        check("", Some(TOKEN_DAYS_MAX), Ok(Some(876_000)));
        check("", Some(0), Err(InvalidTokenOptions::Days));
        check("", Some(TOKEN_DAYS_MAX + 1), Err(InvalidTokenOptions::Days));
    }
}
