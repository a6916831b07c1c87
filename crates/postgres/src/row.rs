//! Rows of PostgreSQL, as the ports' shared code decodes them.

use std::borrow::Cow;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{PgConnection, Postgres, Row as _};
use state::rows::{ColumnResult, InvalidValue, StoredRow};

/// A row of a result.
pub(crate) struct Row(PgRow);

impl StoredRow for Row {
    fn integer(&self, column: &str) -> ColumnResult<Option<i64>> {
        self.0.try_get(column).map_err(|_| InvalidValue)
    }

    fn text(&self, column: &str) -> ColumnResult<Option<&str>> {
        self.0.try_get(column).map_err(|_| InvalidValue)
    }

    fn bytes(&self, column: &str) -> ColumnResult<Option<&[u8]>> {
        self.0.try_get(column).map_err(|_| InvalidValue)
    }

    fn flag(&self, column: &str) -> ColumnResult<bool> {
        self.0.try_get(column).map_err(|_| InvalidValue)
    }
}

/// Runs a statement and returns its rows.
pub(crate) async fn rows(
    connection: &mut PgConnection,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<Vec<Row>, sqlx::Error> {
    Ok(query.fetch_all(connection).await?.into_iter().map(Row).collect())
}

/// Runs a statement and returns the number of rows that it changed.
pub(crate) async fn run(
    connection: &mut PgConnection,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<u64, sqlx::Error> {
    Ok(query.execute(connection).await?.rows_affected())
}

/// Returns the storable form of a text from outside: a column cannot hold U+0000, which U+FFFD replaces.
pub(crate) fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nul_is_replaced() {
        assert_eq!(storable("a"), "a");
        assert_eq!(storable("a\0b"), "a\u{fffd}b");
    }
}
