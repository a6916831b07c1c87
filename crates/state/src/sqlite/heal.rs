//! Putting a new database in place of a damaged one, with all that can still be read.
//!
//! The new one is built beside the damaged one and moved in when it is complete; the damaged one is
//! kept under another name. Whoever heals holds the gate alone, so no write can go to the file that
//! is set aside, and only one process heals.

use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use sqlx::SqliteConnection;

use crate::error::Fault;
use crate::sqlite::content;
use crate::sqlite::file;
use crate::sqlite::open::{self, Mode};
use crate::sqlite::script::{Repeats, Script};
use crate::sqlite::table::{From, TABLES, Table, Value};

/// Rows copied in one transaction.
const ROWS_AT_ONCE: usize = 128;

/// How far the numbers of changes jump over those that were known: numbers that were lost with the
/// damaged pages are not given again.
pub(super) const NUMBERS_SKIPPED: i64 = 1_000;

/// A damaged database was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// Where the damaged one was put.
    pub set_aside: PathBuf,
    /// What was wrong with it.
    pub reason: String,
    /// Rows that could be kept: marks, changes, their files, contents, heads, tasks, sessions, proposals,
    /// runs.
    pub rows_kept: u64,
}

/// Replaces the damaged database at `path`. The gate must be held alone.
pub(super) async fn heal(path: &Path, reason: String) -> Result<Healed, Fault> {
    file::discard_replacement(path)?;
    let rows_kept = match build(path).await {
        Ok(rows_kept) => rows_kept,
        Err(fault) => {
            // Most likely the disk is full: do not keep any more of it.
            file::discard_replacement(path)?;
            return Err(fault);
        }
    };
    let set_aside = file::replace_damaged(path)?;
    tracing::warn!(
        damaged = %set_aside.display(),
        reason,
        rows_kept,
        "the state was damaged; what could be read was kept"
    );
    Ok(Healed { set_aside, reason, rows_kept })
}

/// Builds the replacement, and returns how many rows it could take over.
async fn build(path: &Path) -> Result<u64, Fault> {
    let replacement = file::replacement(path);
    let mut fresh = open::connect(&replacement, Mode::Write).await?;
    file::make_private(&replacement)?;
    open::prepare(&mut fresh).await?;
    let rows_kept = match open::connect(path, Mode::Salvage).await {
        Ok(mut damaged) => {
            let kept = salvage(&mut damaged, &mut fresh).await;
            open::close(damaged).await;
            kept?
        }
        Err(_not_even_a_database) => 0,
    };
    // Everything has to be in the one file that is moved.
    sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut fresh).await?;
    open::close(fresh).await;
    Ok(rows_kept)
}

async fn salvage(
    damaged: &mut SqliteConnection,
    fresh: &mut SqliteConnection,
) -> Result<u64, Fault> {
    let mut kept = 0;
    for table in &TABLES {
        // A damaged page ends a walk; the walk from the other end saves what lies behind it.
        let (copied, walked) = copy(damaged, fresh, table, From::Start).await?;
        kept += copied;
        if walked == Walked::Partly {
            kept += copy(damaged, fresh, table, From::End).await?.0;
        }
    }
    let known = known_number(damaged, "SELECT last_change FROM totals").await;
    let proposals = "SELECT seq FROM sqlite_sequence WHERE name = 'proposals'";
    let proposal_known = known_number(damaged, proposals).await;
    settle_leftovers(fresh, known, proposal_known).await?;
    Ok(kept)
}

/// How far a walk through a table came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walked {
    Wholly,
    Partly,
}

async fn copy(
    damaged: &mut SqliteConnection,
    fresh: &mut SqliteConnection,
    table: &Table,
    from: From,
) -> Result<(u64, Walked), Fault> {
    let select = table.select(from);
    let mut rows = sqlx::query(sqlx::AssertSqlSafe(select)).persistent(false).fetch(damaged);
    let mut copied = 0;
    let mut batch = Vec::new();
    let walked = loop {
        match rows.next().await {
            Some(Ok(row)) => batch.extend(table.read(&row)),
            Some(Err(_damaged_page)) => break Walked::Partly,
            None => break Walked::Wholly,
        }
        if batch.len() == ROWS_AT_ONCE {
            copied += insert(fresh, table, std::mem::take(&mut batch)).await?;
        }
    };
    copied += insert(fresh, table, batch).await?;
    Ok((copied, walked))
}

async fn insert(
    fresh: &mut SqliteConnection,
    table: &Table,
    rows: Vec<Vec<Value>>,
) -> Result<u64, Fault> {
    if rows.is_empty() {
        return Ok(0);
    }
    let insert = table.insert();
    let mut script = Script::of("BEGIN IMMEDIATE;");
    for row in rows {
        script.add(&insert);
        for value in row {
            value.bind(&mut script);
        }
    }
    Ok(script.then("COMMIT;").run(fresh, Repeats::Hardly).await?)
}

/// Returns the highest number that the damaged database still knows to have given.
async fn known_number(damaged: &mut SqliteConnection, question: &'static str) -> i64 {
    sqlx::query_scalar(question).fetch_optional(damaged).await.ok().flatten().unwrap_or_default()
}

/// Drops what belongs to rows that were lost, no longer promises bytes that were lost, and sees to it that no number is given twice.
async fn settle_leftovers(
    fresh: &mut SqliteConnection,
    known: i64,
    proposal_known: i64,
) -> Result<(), Fault> {
    Script::of(&format!(
        "BEGIN IMMEDIATE;
        DELETE FROM change_files WHERE change_id NOT IN (SELECT id FROM changes);
        DELETE FROM open_changes WHERE change_id NOT IN (SELECT id FROM changes);
        INSERT INTO open_changes (change_id, what, root, path)
            SELECT DISTINCT change_id, 'change', '', '' FROM open_changes WHERE true
            ON CONFLICT DO NOTHING;
        UPDATE change_files SET wrote = 0 WHERE wrote = 1
            AND NOT EXISTS (SELECT 1 FROM contents WHERE revision = after);
        DELETE FROM contents WHERE revision NOT IN ({});
        DELETE FROM runs WHERE task NOT IN (SELECT id FROM tasks);
        UPDATE totals SET last_change = $2 + max($1, last_change,
            (SELECT coalesce(max(change_id), 0) FROM heads));
        DELETE FROM sqlite_sequence WHERE name = 'proposals';
        INSERT INTO sqlite_sequence (name, seq) SELECT 'proposals',
            $2 + max($3, (SELECT coalesce(max(id), 0) FROM proposals));
        COMMIT;",
        content::WANTED
    ))
    .bind(known.clamp(0, i64::MAX / 2))
    .bind(NUMBERS_SKIPPED)
    .bind(proposal_known.clamp(0, i64::MAX / 2))
    .run(fresh, Repeats::Hardly)
    .await?;
    Ok(())
}
