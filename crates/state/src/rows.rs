//! Conversions between database rows and values, shared by the adapters of the ports.
//!
//! A database is outside data: a row with impossible words, paths, digests or counts is skipped and is never fatal.
//! Times are nanoseconds in 64 bits, exact from the year 1678 to 2261; times beyond are stored as the nearest of these.

mod content;
mod history;
mod tasks;

pub use content::PackedContent;
pub use history::{changes, check_bytes, head, marks_follow_folder, path_change, stats, usage_row};
pub use tasks::{
    conversation, last_dream, model_work, new_task_row, proposal, run, segment, session,
    stored_roots, task, task_count,
};

use std::collections::BTreeMap;
use std::str::FromStr;

use memory::change::ChangeId;
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;

use crate::error::Fault;
use crate::record::UseEvent;

/// Returns the stored form of a time.
pub fn stored_time(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the time of a stored number.
pub fn time(stored: i64) -> Option<Timestamp> {
    Timestamp::from_nanosecond(i128::from(stored)).ok()
}

/// Returns the stored form of a count or a limit. Counts beyond the largest number of a column are capped there, which
/// no real count reaches.
pub fn stored_count<N>(count: N) -> i64
where
    i64: TryFrom<N>,
{
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the stored form of a digest.
pub fn stored_revision(revision: &Revision) -> Vec<u8> {
    revision.as_bytes().to_vec()
}

/// Returns the digest of stored bytes.
pub fn revision(stored: &[u8]) -> Option<Revision> {
    Some(Revision::from_bytes(stored.try_into().ok()?))
}

/// Returns the first path below a folder, and the first path after all of them: `0` follows the slash. So neither a
/// folder with a longer name nor a wildcard in a name is matched by mistake.
pub fn path_range(folder: &RelativePath) -> (String, String) {
    (format!("{folder}/"), format!("{folder}0"))
}

/// The identity and the path of a memory.
pub type UsageKey<'a> = (&'a str, &'a RelativePath);

/// Several uses of one memory.
#[derive(Clone, Copy, Debug)]
pub struct UsageSum {
    /// Number of uses.
    pub uses: i64,
    /// Time of the last one.
    pub last_used_at: Timestamp,
    /// Time of the last write among them.
    pub last_written_at: Option<Timestamp>,
}

/// Sums uses by memory.
pub fn sum_uses(uses: &[UseEvent]) -> BTreeMap<UsageKey<'_>, UsageSum> {
    let mut sums = BTreeMap::new();
    for event in uses {
        let sum = sums.entry((event.identity.as_str(), &event.path)).or_insert(UsageSum {
            uses: 0,
            last_used_at: event.at,
            last_written_at: None,
        });
        sum.uses += 1;
        sum.last_used_at = sum.last_used_at.max(event.at);
        sum.last_written_at = sum.last_written_at.max(event.is_write.then_some(event.at));
    }
    sums
}

/// A stored value that this program never writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue;

impl From<InvalidValue> for Fault {
    fn from(InvalidValue: InvalidValue) -> Self {
        Self::Damaged("a row holds an invalid value".to_owned())
    }
}

/// The result of decoding a column or a row.
pub type ColumnResult<T> = Result<T, InvalidValue>;

/// A row of any database. A column is found by its name; a missing one and one of another type are invalid.
pub trait StoredRow {
    /// Returns a 64-bit integer; `None` if it is NULL.
    fn integer(&self, column: &str) -> ColumnResult<Option<i64>>;

    /// Returns a text; `None` if it is NULL.
    fn text(&self, column: &str) -> ColumnResult<Option<&str>>;

    /// Returns bytes; `None` if it is NULL.
    fn bytes(&self, column: &str) -> ColumnResult<Option<&[u8]>>;

    /// Returns a truth value. Databases without such a type store 0 and 1.
    fn flag(&self, column: &str) -> ColumnResult<bool> {
        match self.integer(column)? {
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            _ => Err(InvalidValue),
        }
    }
}

/// A type that a column can be decoded to; `Option` for a nullable column.
pub trait FromColumn<'row>: Sized {
    /// Decodes a column.
    fn from_column(row: &'row dyn StoredRow, column: &str) -> ColumnResult<Self>;
}

/// Implements [`FromColumn`] for a type and its `Option`, by a method of [`StoredRow`] and a conversion.
macro_rules! from_column {
    ($type:ty, $method:ident, $convert:expr) => {
        impl<'row> FromColumn<'row> for Option<$type> {
            fn from_column(row: &'row dyn StoredRow, column: &str) -> ColumnResult<Self> {
                Ok(row.$method(column)?.map($convert))
            }
        }

        impl<'row> FromColumn<'row> for $type {
            fn from_column(row: &'row dyn StoredRow, column: &str) -> ColumnResult<Self> {
                row.$method(column)?.map($convert).ok_or(InvalidValue)
            }
        }
    };
}

from_column!(i64, integer, i64::from);
from_column!(&'row str, text, |text| text);
from_column!(String, text, str::to_owned);
from_column!(&'row [u8], bytes, |bytes| bytes);
from_column!(Vec<u8>, bytes, <[u8]>::to_vec);

/// A row, decoded column by column.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "rows of databases cannot be shown")]
pub struct Columns<'row>(pub &'row dyn StoredRow);

impl<'row> Columns<'row> {
    /// Returns a value; `Option` for a nullable column.
    pub fn get<T: FromColumn<'row>>(self, column: &str) -> ColumnResult<T> {
        T::from_column(self.0, column)
    }

    /// Returns a truth value.
    pub fn flag(self, column: &str) -> ColumnResult<bool> {
        self.0.flag(column)
    }

    /// Returns a number that is not negative.
    pub fn count(self, column: &str) -> ColumnResult<u64> {
        u64::try_from(self.get::<i64>(column)?).map_err(|_| InvalidValue)
    }

    /// Returns a number of 32 bits that is not negative.
    pub fn small_count(self, column: &str) -> ColumnResult<u32> {
        u32::try_from(self.get::<i64>(column)?).map_err(|_| InvalidValue)
    }

    /// Returns the number of a change.
    pub fn id(self, column: &str) -> ColumnResult<ChangeId> {
        self.get(column).map(ChangeId)
    }

    /// Returns the number of a change, if there is one.
    pub fn maybe_id(self, column: &str) -> ColumnResult<Option<ChangeId>> {
        Ok(self.get::<Option<i64>>(column)?.map(ChangeId))
    }

    /// Returns a time.
    pub fn time(self, column: &str) -> ColumnResult<Timestamp> {
        time(self.get(column)?).ok_or(InvalidValue)
    }

    /// Returns a time, if there is one.
    pub fn maybe_time(self, column: &str) -> ColumnResult<Option<Timestamp>> {
        let stored: Option<i64> = self.get(column)?;
        stored.map(|stored| time(stored).ok_or(InvalidValue)).transpose()
    }

    /// Returns the value of a public word.
    pub fn word<T: FromStr>(self, column: &str) -> ColumnResult<T> {
        self.get::<&str>(column)?.parse().map_err(|_| InvalidValue)
    }

    /// Returns a path.
    pub fn path(self, column: &str) -> ColumnResult<RelativePath> {
        RelativePath::parse(self.get(column)?).map_err(|_| InvalidValue)
    }

    /// Returns a path, if there is one.
    pub fn maybe_path(self, column: &str) -> ColumnResult<Option<RelativePath>> {
        let stored: Option<&str> = self.get(column)?;
        stored.map(|text| RelativePath::parse(text).map_err(|_| InvalidValue)).transpose()
    }

    /// Returns a digest, if there is one.
    pub fn maybe_revision(self, column: &str) -> ColumnResult<Option<Revision>> {
        let stored: Option<&[u8]> = self.get(column)?;
        stored.map(|digest| revision(digest).ok_or(InvalidValue)).transpose()
    }
}

/// Decodes the row of a query that always returns one.
pub fn single<R: StoredRow, T>(
    rows: &[R],
    read: impl FnOnce(Columns<'_>) -> ColumnResult<T>,
) -> Result<T, Fault> {
    Ok(read(Columns(rows.first().ok_or(InvalidValue)?))?)
}

/// Decodes rows of `table`. Leaves out those that cannot be decoded, and logs their number.
pub fn decode_rows<'row, R: StoredRow, T>(
    table: &'static str,
    rows: &'row [R],
    read: impl Fn(Columns<'row>) -> ColumnResult<T>,
) -> Vec<T> {
    collect_readable(table, rows.iter().map(|row| read(Columns(row))))
}

/// Returns the rows that could be decoded, and logs how many could not.
pub fn collect_readable<T>(
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
