//! Several statements as one message to SQLite's thread.
//!
//! A message costs about as much as a statement, so a transaction is sent as one text. Each piece
//! numbers its own parameters from `$1`; the script renumbers them. Texts that repeat stay prepared.

use std::fmt::Write;

use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type};

/// Statements and the values that they need.
#[derive(Debug, Default)]
pub(super) struct Batch {
    sql: String,
    arguments: SqliteArguments,
}

/// Whether the text will be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementReuse {
    /// Often: SQLite keeps it prepared.
    Persistent,
    /// Hardly: it is forgotten at once.
    OneShot,
}

impl Batch {
    /// Returns a script that begins with a piece.
    pub(super) fn new(piece: &str) -> Self {
        Self::default().with(piece)
    }

    /// Adds a piece, which may be several statements. Its `$1` is the next value that is bound.
    pub(super) fn with(mut self, piece: &str) -> Self {
        self.add(piece);
        self
    }

    /// Adds a piece to a script that is built in a loop.
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

    /// Adds a value for a loop.
    pub(super) fn value<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(
        &mut self,
        value: T,
    ) -> &mut Self {
        self.arguments.add(value).expect("numbers, texts and bytes encode");
        self
    }

    /// Adds a value.
    pub(super) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        self.value(value);
        self
    }

    /// Runs everything and returns the rows of all its statements.
    pub(super) async fn rows(
        self,
        connection: &mut SqliteConnection,
        repeats: StatementReuse,
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        sqlx::query_with(AssertSqlSafe(self.sql), self.arguments)
            .persistent(repeats == StatementReuse::Persistent)
            .fetch_all(connection)
            .await
    }

    /// Runs everything and returns how many rows were changed.
    pub(super) async fn run(
        self,
        connection: &mut SqliteConnection,
        repeats: StatementReuse,
    ) -> Result<u64, sqlx::Error> {
        let done = sqlx::query_with(AssertSqlSafe(self.sql), self.arguments)
            .persistent(repeats == StatementReuse::Persistent)
            .execute(connection)
            .await?;
        Ok(done.rows_affected())
    }
}

/// Returns numbers as the JSON array that `json_each` takes.
pub(super) fn json_numbers(numbers: impl IntoIterator<Item = i64>) -> String {
    let numbers: Vec<_> = numbers.into_iter().map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_counts_its_parameters_from_one() {
        let script = Batch::new("a($1, $2, $1);").bind(1_i64).bind("x").with("b($2 || $1)").bind(2);
        assert_eq!(script.sql, "a($1, $2, $1);b($4 || $3)");
        assert_eq!(script.arguments.len(), 3);
    }

    #[test]
    fn lists_are_json() {
        assert_eq!(json_numbers([1, -2]), "[1,-2]");
        assert_eq!(json_numbers([]), "[]");
    }
}
