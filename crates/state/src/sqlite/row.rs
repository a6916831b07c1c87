//! Rows of SQLite as values of the domain, and back.
//!
//! What is in the database is outside data: a row whose words, paths, digests or counts are
//! impossible is skipped by its reader, never fatal. Times are nanoseconds in 64 bits, which is exact
//! from the year 1678 to 2261; times beyond are kept as the nearest of these.

use std::str::FromStr;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};

/// Returns what a time is stored as.
pub(super) fn stored_time(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the time that is stored so.
pub(super) fn time(stored: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(stored)).ok()
}

/// Returns a digest as it is stored.
pub(super) fn stored_revision(revision: &Revision) -> Vec<u8> {
    revision.as_bytes().to_vec()
}

/// Returns the digest that is stored so.
pub(super) fn revision(stored: &[u8]) -> Option<Revision> {
    Some(Revision::from_bytes(stored.try_into().ok()?))
}

/// A row that is read column by column; anything impossible is `None`.
#[derive(Clone, Copy)]
pub(super) struct Columns<'row>(pub(super) &'row SqliteRow);

impl<'row> Columns<'row> {
    /// Returns a value that must be there.
    pub(super) fn get<T: Decode<'row, Sqlite> + Type<Sqlite>>(self, column: &str) -> Option<T> {
        self.0.try_get(column).ok()
    }

    /// Returns a value that may be missing: `Some(None)` where it is.
    fn maybe<T: Decode<'row, Sqlite> + Type<Sqlite>>(self, column: &str) -> Option<Option<T>> {
        self.0.try_get(column).ok()
    }

    pub(super) fn text(self, column: &str) -> Option<String> {
        self.get(column)
    }

    pub(super) fn maybe_text(self, column: &str) -> Option<Option<String>> {
        self.maybe(column)
    }

    pub(super) fn flag(self, column: &str) -> Option<bool> {
        match self.get(column)? {
            0_i64 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub(super) fn count(self, column: &str) -> Option<u64> {
        u64::try_from(self.get::<i64>(column)?).ok()
    }

    pub(super) fn id(self, column: &str) -> Option<ChangeId> {
        self.get(column).map(ChangeId)
    }

    pub(super) fn maybe_id(self, column: &str) -> Option<Option<ChangeId>> {
        Some(self.maybe(column)?.map(ChangeId))
    }

    pub(super) fn time(self, column: &str) -> Option<Timestamp> {
        time(self.get(column)?)
    }

    pub(super) fn maybe_time(self, column: &str) -> Option<Option<Timestamp>> {
        self.maybe(column)?.map_or(Some(None), |stored| time(stored).map(Some))
    }

    pub(super) fn word<T: FromStr>(self, column: &str) -> Option<T> {
        self.get::<&str>(column)?.parse().ok()
    }

    pub(super) fn path(self, column: &str) -> Option<RelativePath> {
        RelativePath::parse(self.get(column)?).ok()
    }

    pub(super) fn maybe_path(self, column: &str) -> Option<Option<RelativePath>> {
        match self.maybe(column)? {
            None => Some(None),
            Some(text) => RelativePath::parse(text).ok().map(Some),
        }
    }

    pub(super) fn maybe_revision(self, column: &str) -> Option<Option<Revision>> {
        self.maybe::<&[u8]>(column)?.map_or(Some(None), |stored| revision(stored).map(Some))
    }
}

/// Keeps the rows that could be read, and says how many could not.
pub(super) fn readable<T>(what: &'static str, rows: impl IntoIterator<Item = Option<T>>) -> Vec<T> {
    let mut skipped = 0_usize;
    let kept = rows.into_iter().inspect(|row| skipped += usize::from(row.is_none())).flatten();
    let kept: Vec<T> = kept.collect();
    if skipped > 0 {
        tracing::warn!(what, skipped, "rows of the state cannot be read; see `quipu doctor`");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: i64) {
        assert_eq!(time(stored).map(stored_time), Some(stored));
    }

    #[test]
    fn a_time_comes_back_to_the_nanosecond() {
        for stored in [i64::MIN, -1, 0, 1, 1_795_000_000_123_456_789, i64::MAX] {
            check(stored);
        }
    }

    #[test]
    fn a_time_beyond_the_centuries_is_kept_as_the_nearest() {
        assert_eq!(stored_time(Timestamp::MAX), i64::MAX);
        assert_eq!(stored_time(Timestamp::MIN), i64::MIN);
    }
}
