//! All rows of an owner, read in one transaction.

use std::io::ErrorKind;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Transaction};
use state::StateError;
use state::rows::{Columns, single};
use state::transfer::{Counters, Row, RowSource, Table, Value, rows_in_page};
use tokio::time::timeout;

use crate::call_error::CallError;
use crate::database::Database;
use crate::owner::OwnerState;
use crate::row::rows;

const OPERATION: &str = "read all rows of an owner";

/// Longest wait for one page.
const PAGE_WAIT: Duration = Duration::from_mins(2);

/// Lifts the limits of the server for this transaction: the other side may be slow.
const NO_LIMITS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";

/// A read transaction on the rows of an owner.
#[derive(Debug)]
pub struct OwnerSnapshot {
    transaction: Transaction<'static, Postgres>,
    database: Database,
    owner: i64,
}

impl OwnerState {
    /// Begins to read all rows. Writers go on meanwhile, and are not seen.
    pub async fn snapshot(&self) -> Result<OwnerSnapshot, StateError> {
        OwnerSnapshot::begin(self.database.clone(), self.owner).await
    }
}

impl OwnerSnapshot {
    pub(super) async fn begin(database: Database, owner: i64) -> Result<Self, StateError> {
        let begin = begin(&database).await;
        let transaction = begin.map_err(|error| database.error(OPERATION, error))?;
        Ok(Self { transaction, database, owner })
    }
}

async fn begin(database: &Database) -> Result<Transaction<'static, Postgres>, CallError> {
    let mut transaction = database.begin_reading().await.map_err(CallError::NotBegun)?;
    sqlx::raw_sql(NO_LIMITS).execute(&mut *transaction).await?;
    Ok(transaction)
}

#[async_trait]
impl RowSource for OwnerSnapshot {
    async fn count(&mut self, table: &Table) -> Result<u64, StateError> {
        let counted = count(&mut self.transaction, self.owner, table.name, "").await;
        counted.map_err(|error| self.database.error(OPERATION, error))
    }

    async fn page(
        &mut self,
        table: &Table,
        cursor: &mut Option<Row>,
    ) -> Result<Vec<Row>, StateError> {
        let page = page(&mut self.transaction, self.owner, (table, cursor));
        let page = timeout(PAGE_WAIT, page)
            .await
            .unwrap_or_else(|_| Err(CallError::Sql(sqlx::Error::Io(ErrorKind::TimedOut.into()))));
        page.map_err(|error| self.database.error(OPERATION, error))
    }

    async fn counters(&mut self) -> Result<Counters, StateError> {
        let read = counters(&mut self.transaction, self.owner).await;
        read.map_err(|error| self.database.error(OPERATION, error))
    }

    async fn unfinished_tasks(&mut self) -> Result<u64, StateError> {
        let (connection, owner) = (&mut *self.transaction, self.owner);
        let counted = count(connection, owner, "tasks", "status IN ('queued', 'running') AND");
        counted.await.map_err(|error| self.database.error(OPERATION, error))
    }

    async fn other_identities(&mut self) -> Result<Vec<String>, StateError> {
        let found = other_identities(&mut self.transaction, self.owner).await;
        found.map_err(|error| self.database.error(OPERATION, error))
    }
}

async fn other_identities(
    connection: &mut PgConnection,
    owner: i64,
) -> Result<Vec<String>, CallError> {
    let find = sqlx::query(
        "SELECT DISTINCT identity FROM heads WHERE owner = $1 AND place <> identity ORDER BY identity",
    );
    let found = rows(connection, find.bind(owner)).await?;
    Ok(found.iter().map(|row| Columns(row).get("identity")).collect::<Result<_, _>>()?)
}

async fn count(
    connection: &mut PgConnection,
    owner: i64,
    table: &str,
    condition: &str,
) -> Result<u64, CallError> {
    let count = format!("SELECT count(*) AS found FROM {table} WHERE {condition} owner = $1");
    let found = rows(connection, sqlx::query(AssertSqlSafe(count)).bind(owner)).await?;
    Ok(single(&found, |row| row.count("found"))?)
}

async fn page(
    connection: &mut PgConnection,
    owner: i64,
    (table, cursor): (&Table, &mut Option<Row>),
) -> Result<Vec<Row>, CallError> {
    const SCOPE: &str = "owner = $1 AND";
    let after = cursor.as_deref().unwrap_or_default();
    let query = table.sizes_query(SCOPE, 2, cursor.is_some());
    let query = bind(sqlx::query(AssertSqlSafe(query)).bind(owner), after);
    let sizes = rows(&mut *connection, query).await?;
    let bytes = sizes.iter().map(|row| Columns(row).get("row_bytes"));
    let count = rows_in_page(bytes.collect::<Result<Vec<i64>, _>>()?);
    let Some(last) = count.checked_sub(1).and_then(|last| sizes.get(last)) else {
        return Ok(Vec::new());
    };
    let last = table.decode_key(last)?;
    let query = table.rows_query(SCOPE, 2, cursor.is_some());
    let query = bind(sqlx::query(AssertSqlSafe(query)).bind(owner), &last);
    let found = rows(connection, bind(query, after)).await?;
    let page = found.iter().map(|row| table.decode(row)).collect::<Result<_, _>>()?;
    *cursor = Some(last);
    Ok(page)
}

async fn counters(connection: &mut PgConnection, owner: i64) -> Result<Counters, CallError> {
    let read =
        sqlx::query("SELECT last_change, last_proposal, last_work FROM counters WHERE owner = $1");
    let found = rows(connection, read.bind(owner)).await?;
    Ok(single(&found, |row| {
        Ok(Counters {
            change: row.get("last_change")?,
            proposal: row.get("last_proposal")?,
            work: row.get("last_work")?,
        })
    })?)
}

/// Binds the values of a key.
fn bind<'q>(
    mut query: Query<'q, Postgres, PgArguments>,
    key: &'q [Value],
) -> Query<'q, Postgres, PgArguments> {
    for value in key {
        query = match value {
            Value::Null => query.bind(None::<i64>),
            Value::Integer(number) => query.bind(*number),
            Value::Flag(flag) => query.bind(*flag),
            Value::Text(text) => query.bind(text.as_str()),
            Value::Bytes(bytes) => query.bind(bytes.as_slice()),
        };
    }
    query
}
