//! Copying all rows of an owner out of a database, and the rows of a new owner into it.
//!
//! An [`OwnerSnapshot`] reads all rows of an owner in one read transaction. An [`OwnerImport`] writes the rows of a new
//! owner. Until it is finished the owner has a provisional name that no daemon can select. The last transaction gives
//! it its name. An import that was killed leaves rows under the provisional name, which the next one removes.

mod import;
mod snapshot;

use sqlx::{AssertSqlSafe, PgConnection};
use state::StateError;
use state::rows::{Columns, single};

pub use self::import::{ImportError, OwnerImport};
pub use self::snapshot::OwnerSnapshot;
use crate::call_error::CallError;
use crate::database::{Database, call};
use crate::owner::OwnerState;
use crate::row::{rows, storable};

/// Tables whose rows are none of an owner's memories: its numbers, locks and marks of roots.
const BOOKKEEPING: [&str; 6] =
    ["counters", "leases", "roots", "completed_changes", "events", "outside_readers"];
/// The table of tokens. They belong to the name of an owner, also when another owner gets it.
const TOKENS: &str = "tokens";

impl Database {
    /// Returns the state of an owner; `None` if there is no owner of this name.
    pub async fn find_owner(&self, name: &str) -> Result<Option<OwnerState>, StateError> {
        let name = &*storable(name);
        let found = self.read("look for an owner", call!(owner_id, name)).await?;
        Ok(found.map(|id| OwnerState::new(self.clone(), id)))
    }
}

impl OwnerState {
    /// Returns the places of all roots, in byte order.
    pub async fn places(&self) -> Result<Vec<String>, StateError> {
        self.database.read("list roots", call!(places, self.owner)).await
    }

    /// Returns whether the owner has anything that an import would have to replace.
    pub async fn is_empty(&self) -> Result<bool, StateError> {
        self.database.read("look for rows of an owner", call!(is_empty, self.owner)).await
    }
}

async fn owner_id(connection: &mut PgConnection, name: &str) -> Result<Option<i64>, CallError> {
    let find = sqlx::query("SELECT id FROM owners WHERE name = $1").bind(name);
    let found = rows(connection, find).await?;
    Ok(found.first().map(|row| Columns(row).get("id")).transpose()?)
}

async fn places(connection: &mut PgConnection, owner: i64) -> Result<Vec<String>, CallError> {
    let find = sqlx::query(
        "SELECT place FROM roots WHERE owner = $1 UNION SELECT place FROM files WHERE owner = $1 ORDER BY place",
    );
    let found = rows(connection, find.bind(owner)).await?;
    Ok(found.iter().map(|row| Columns(row).get("place")).collect::<Result<_, _>>()?)
}

/// Returns the names of all tables with rows of owners, so that no table of a later schema is forgotten.
async fn owner_tables(connection: &mut PgConnection) -> Result<Vec<String>, CallError> {
    let find = sqlx::query(
        "SELECT c.relname::text AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relkind = 'r' AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'owners'::regclass)
            AND a.attname = 'owner' AND NOT a.attisdropped ORDER BY c.relname",
    );
    let found = rows(connection, find).await?;
    Ok(found.iter().map(|row| Columns(row).get("name")).collect::<Result<_, _>>()?)
}

async fn is_empty(connection: &mut PgConnection, owner: i64) -> Result<bool, CallError> {
    let tables = owner_tables(connection).await?;
    let is_counted = |table: &str| table != TOKENS && !BOOKKEEPING.contains(&table);
    for table in tables.iter().filter(|table| is_counted(table)) {
        let find = format!(r#"SELECT EXISTS (SELECT 1 FROM "{table}" WHERE owner = $1) AS found"#);
        let found = rows(connection, sqlx::query(AssertSqlSafe(find)).bind(owner)).await?;
        if single(&found, |row| row.flag("found"))? {
            return Ok(false);
        }
    }
    Ok(true)
}
