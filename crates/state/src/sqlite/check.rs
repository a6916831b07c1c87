//! Looking at every page, row and kept byte of the database.
//!
//! Slow on purpose: asked for by a person, or by healing when SQLite stumbled.

use std::path::Path;

use futures_util::TryStreamExt;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::sqlite::file;
use crate::sqlite::open::{self, Mode, Schema};
use crate::sqlite::table::{From, TABLES, Table};

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Whether SQLite can read and trust every page.
    Pages,
    /// Pages, rows, digests, and what must agree with what.
    Everything,
}

/// Returns what is wrong with the database at `path`; nothing is wrong with one that is not there.
/// Changes nothing, heals nothing.
pub(super) async fn check(path: &Path, depth: Depth) -> Result<Vec<String>, Fault> {
    if file::identity(path)?.is_none() {
        return Ok(Vec::new());
    }
    let mut connection = match open::connect(path, Mode::Read).await {
        Ok(connection) => connection,
        Err(fault) => return damage(fault),
    };
    let found = problems(&mut connection, depth).await;
    open::close(connection).await;
    found.or_else(damage)
}

/// Turns a fault that is damage into a finding.
fn damage(fault: Fault) -> Result<Vec<String>, Fault> {
    if fault.asks_for_healing() {
        Ok(vec![format!("the database cannot be read: {fault}")])
    } else {
        Err(fault)
    }
}

async fn problems(connection: &mut SqliteConnection, depth: Depth) -> Result<Vec<String>, Fault> {
    let schema = open::schema(connection).await?;
    if schema == Schema::Empty {
        return Ok(Vec::new());
    }
    // A damaged page makes hundreds of lines; these are enough.
    let pages: Vec<String> =
        sqlx::query_scalar("PRAGMA integrity_check(20)").fetch_all(&mut *connection).await?;
    let mut problems: Vec<String> = pages
        .into_iter()
        .filter(|line| line != "ok")
        .map(|line| format!("a page is damaged: {}", line.replace('\n', "; ")))
        .collect();
    if schema == Schema::Latest && problems.is_empty() {
        problems.extend(wrong_names(connection).await?);
    }
    // The rows of an earlier schema are looked at when a migration has brought them up to date.
    if depth == Depth::Everything && schema == Schema::Latest && problems.is_empty() {
        for table in &TABLES {
            problems.extend(impossible_rows(connection, table).await?);
        }
        for (question, sentence) in AGREEMENTS {
            let count: i64 = sqlx::query_scalar(question).fetch_one(&mut *connection).await?;
            if count > 0 {
                problems.push(format!("{count} {sentence}"));
            }
        }
    }
    Ok(problems)
}

/// Finds a name in the schema that is not as it was made, in a table or in a trigger: SQLite looks at names only
/// when it prepares a statement.
async fn wrong_names(connection: &mut SqliteConnection) -> Result<Option<String>, Fault> {
    let of_table = |table: &Table| {
        [table.select(From::Start), table.insert(), format!("DELETE FROM {}", table.name)]
    };
    let totals = "SELECT id, changes, content_bytes, last_change FROM totals".to_owned();
    for statement in TABLES.iter().flat_map(of_table).chain([totals]) {
        let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {statement}"));
        match sqlx::query(explain).execute(&mut *connection).await.map_err(Fault::from) {
            Ok(_) => {}
            Err(fault) if fault.asks_for_healing() => {
                return Ok(Some(format!("the schema is damaged: {fault}")));
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(None)
}

async fn impossible_rows(
    connection: &mut SqliteConnection,
    table: &Table,
) -> Result<Option<String>, Fault> {
    let select = table.select(From::Start);
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(select)).fetch(connection);
    let mut impossible = 0_u64;
    while let Some(row) = rows.try_next().await? {
        impossible += u64::from(table.read(&row).is_none());
    }
    let name = table.name;
    Ok((impossible > 0).then(|| format!("{impossible} rows of `{name}` hold what cannot be")))
}

/// What must agree with what: a count of disagreements, and what they are.
const AGREEMENTS: [(&str, &str); 5] = [
    (
        "SELECT count(*) FROM change_files WHERE change_id NOT IN (SELECT id FROM changes)",
        "files belong to a change that is not there",
    ),
    (
        "SELECT count(*) FROM heads h JOIN change_files f ON f.change_id = h.change_id
            AND f.place = h.place AND f.after = h.revision
            AND (f.path = h.path OR f.moved_to = h.path) AND f.wrote = 1
        WHERE NOT EXISTS (SELECT 1 FROM contents k WHERE k.revision = h.revision)",
        "memories' latest bytes are not kept",
    ),
    (
        "SELECT count(*) FROM totals WHERE changes <> (SELECT count(*) FROM changes)
            OR last_change < (SELECT coalesce(max(id), 0) FROM changes)
            OR content_bytes <> (SELECT coalesce(sum(length(bytes)), 0) FROM contents)",
        "sums are wrong",
    ),
    (
        "SELECT count(*) FROM open_changes o WHERE change_id NOT IN (SELECT id FROM changes)
            OR NOT EXISTS (SELECT 1 FROM open_changes c
                WHERE c.change_id = o.change_id AND c.what = 'change')",
        "replaced values belong to no open change",
    ),
    (
        "SELECT count(*) FROM runs WHERE task NOT IN (SELECT id FROM tasks)",
        "runs belong to a task that is not there",
    ),
];
