//! Several SQL statements as one message to SQLite's thread.
//!
//! A message costs about as much as a statement, so a transaction is sent as one text. Each piece numbers its
//! parameters from `$1`; the batch renumbers them. Texts that repeat stay prepared.

use std::fmt::Write;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Row as _, Sqlite, SqliteConnection, Type};

use crate::rows::{ColumnResult, InvalidValue, StoredRow};

impl StoredRow for SqliteRow {
    fn integer(&self, column: &str) -> ColumnResult<Option<i64>> {
        self.try_get(column).map_err(|_| InvalidValue)
    }

    fn text(&self, column: &str) -> ColumnResult<Option<&str>> {
        self.try_get(column).map_err(|_| InvalidValue)
    }

    fn bytes(&self, column: &str) -> ColumnResult<Option<&[u8]>> {
        self.try_get(column).map_err(|_| InvalidValue)
    }
}

/// SQL statements with their bound values.
#[derive(Debug, Default)]
pub(super) struct Batch {
    sql: String,
    arguments: SqliteArguments,
}

/// The expected reuse of a batch's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementReuse {
    /// Sent often: SQLite keeps it prepared.
    Persistent,
    /// Sent rarely: SQLite does not keep it prepared.
    OneShot,
}

impl Batch {
    /// Returns a batch that begins with a piece.
    pub(super) fn new(piece: &str) -> Self {
        Self::default().with(piece)
    }

    /// Adds a piece of one or several statements. Its `$1` is the next value that is bound.
    pub(super) fn with(mut self, piece: &str) -> Self {
        self.add(piece);
        self
    }

    /// Adds a piece by reference, for batches that are built in a loop.
    pub(super) fn add(&mut self, piece: &str) -> &mut Self {
        let base = self.arguments.len();
        let mut parts = piece.split('$');
        self.sql.push_str(parts.next().expect("a split has a first part"));
        for part in parts {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (digits, rest) = part.split_at(end);
            let number = base + digits.parse::<usize>().expect("`$` is followed by a number");
            let written = write!(self.sql, "${number}{rest}");
            debug_assert!(written.is_ok(), "writing to a string cannot fail");
        }
        self
    }

    /// Binds a value by reference.
    pub(super) fn value<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(
        &mut self,
        value: T,
    ) -> &mut Self {
        self.arguments.add(value).expect("numbers, texts and bytes encode");
        self
    }

    /// Binds a value.
    pub(super) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        self.value(value);
        self
    }

    /// Runs all statements and returns their rows.
    pub(super) async fn rows(
        self,
        connection: &mut SqliteConnection,
        reuse: StatementReuse,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        sqlx::query_with(AssertSqlSafe(self.sql), self.arguments)
            .persistent(reuse == StatementReuse::Persistent)
            .fetch_all(connection)
            .await
    }

    /// Runs all statements and returns the number of changed rows.
    pub(super) async fn run(
        self,
        connection: &mut SqliteConnection,
        reuse: StatementReuse,
    ) -> Result<u64, sqlx::Error> {
        let done = sqlx::query_with(AssertSqlSafe(self.sql), self.arguments)
            .persistent(reuse == StatementReuse::Persistent)
            .execute(connection)
            .await?;
        Ok(done.rows_affected())
    }
}

/// Returns numbers as a JSON array for `json_each`.
pub(super) fn json_numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: Vec<_> = numbers.into_iter().map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_counts_its_parameters_from_one() {
        let batch = Batch::new("a($1, $2, $1);").bind(1_i64).bind("x").with("b($2 || $1)").bind(2);
        assert_eq!(batch.sql, "a($1, $2, $1);b($4 || $3)");
        assert_eq!(batch.arguments.len(), 3);
    }

    #[test]
    fn numbers_become_a_json_array() {
        assert_eq!(json_numbers([1, -2]), "[1,-2]");
        assert_eq!(json_numbers([]), "[]");
    }
}
