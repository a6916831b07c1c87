//! Conversions between SQLite rows and values of the domain.
//!
//! The database is outside data: a row with impossible words, paths, digests or counts is skipped and is never fatal.
//! Times are nanoseconds in 64 bits, exact from the year 1678 to 2261; times beyond are stored as the nearest of these.

use std::str::FromStr;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use sqlx::sqlite::SqliteRow;
use sqlx::{Decode, Row, Sqlite, Type};

use crate::error::Fault;

/// Returns the stored form of a time.
pub(super) fn stored_time(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the time of a stored number.
pub(super) fn time(stored: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(stored)).ok()
}

/// Returns the stored form of a count or a limit. Counts beyond SQLite's largest number are capped there, which no real
/// count reaches.
pub(super) fn stored_count<N>(count: N) -> i64
where
    i64: TryFrom<N>,
{
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the stored form of a digest.
pub(super) fn stored_revision(revision: &Revision) -> Vec<u8> {
    revision.as_bytes().to_vec()
}

/// Returns the digest of stored bytes.
pub(super) fn revision(stored: &[u8]) -> Option<Revision> {
    Some(Revision::from_bytes(stored.try_into().ok()?))
}

/// A stored value that this program never writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidValue;

impl From<InvalidValue> for Fault {
    fn from(InvalidValue: InvalidValue) -> Self {
        Self::Damaged("a row holds an invalid value".to_owned())
    }
}

/// Decodes the row of a query that always returns one.
pub(super) fn single<T>(
    rows: &[SqliteRow],
    read: impl FnOnce(Columns<'_>) -> ColumnResult<T>,
) -> Result<T, Fault> {
    Ok(read(Columns(rows.first().ok_or(InvalidValue)?))?)
}

/// The result of decoding a column or a row.
pub(super) type ColumnResult<T> = Result<T, InvalidValue>;

/// A row, decoded column by column.
#[derive(Clone, Copy)]
pub(super) struct Columns<'row>(pub(super) &'row SqliteRow);

impl<'row> Columns<'row> {
    /// Returns a value; `Option` for a nullable column.
    pub(super) fn get<T: Decode<'row, Sqlite> + Type<Sqlite>>(
        self,
        column: &str,
    ) -> ColumnResult<T> {
        self.0.try_get(column).map_err(|_| InvalidValue)
    }

    pub(super) fn flag(self, column: &str) -> ColumnResult<bool> {
        match self.get(column)? {
            0_i64 => Ok(false),
            1 => Ok(true),
            _ => Err(InvalidValue),
        }
    }

    pub(super) fn count(self, column: &str) -> ColumnResult<u64> {
        u64::try_from(self.get::<i64>(column)?).map_err(|_| InvalidValue)
    }

    pub(super) fn small_count(self, column: &str) -> ColumnResult<u32> {
        u32::try_from(self.get::<i64>(column)?).map_err(|_| InvalidValue)
    }

    pub(super) fn id(self, column: &str) -> ColumnResult<ChangeId> {
        self.get(column).map(ChangeId)
    }

    pub(super) fn maybe_id(self, column: &str) -> ColumnResult<Option<ChangeId>> {
        Ok(self.get::<Option<i64>>(column)?.map(ChangeId))
    }

    pub(super) fn time(self, column: &str) -> ColumnResult<Timestamp> {
        time(self.get(column)?).ok_or(InvalidValue)
    }

    pub(super) fn maybe_time(self, column: &str) -> ColumnResult<Option<Timestamp>> {
        let stored: Option<i64> = self.get(column)?;
        stored.map(|stored| time(stored).ok_or(InvalidValue)).transpose()
    }

    pub(super) fn word<T: FromStr>(self, column: &str) -> ColumnResult<T> {
        self.get::<&str>(column)?.parse().map_err(|_| InvalidValue)
    }

    pub(super) fn path(self, column: &str) -> ColumnResult<RelativePath> {
        RelativePath::parse(self.get(column)?).map_err(|_| InvalidValue)
    }

    pub(super) fn maybe_path(self, column: &str) -> ColumnResult<Option<RelativePath>> {
        let stored: Option<&str> = self.get(column)?;
        stored.map(|text| RelativePath::parse(text).map_err(|_| InvalidValue)).transpose()
    }

    pub(super) fn maybe_revision(self, column: &str) -> ColumnResult<Option<Revision>> {
        let stored: Option<&[u8]> = self.get(column)?;
        stored.map(|digest| revision(digest).ok_or(InvalidValue)).transpose()
    }
}

/// Returns the rows that could be decoded, and logs how many could not.
pub(super) fn collect_readable<T>(
    what: &'static str,
    rows: impl IntoIterator<Item = ColumnResult<T>>,
) -> Vec<T> {
    let (mut readable, mut skipped) = (Vec::new(), 0_usize);
    for row in rows {
        match row {
            Ok(row) => readable.push(row),
            Err(InvalidValue) => skipped += 1,
        }
    }
    if skipped > 0 {
        tracing::warn!(what, skipped, "rows of the state cannot be decoded and are skipped");
    }
    readable
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stored: i64) {
        assert_eq!(time(stored).map(stored_time), Some(stored));
    }

    #[test]
    fn a_stored_time_is_exact_to_the_nanosecond() {
        for stored in [i64::MIN, -1, 0, 1, 1_795_000_000_123_456_789, i64::MAX] {
            check(stored);
        }
    }

    #[test]
    fn a_time_out_of_range_is_stored_as_the_nearest() {
        assert_eq!(stored_time(Timestamp::MAX), i64::MAX);
        assert_eq!(stored_time(Timestamp::MIN), i64::MIN);
    }
}
