//! Repair of a damaged database.
//!
//! Damaged indexes and contradicting rows are repaired in place. After other damage, the database is set aside under
//! another name and an empty one is started; `sqlite3 FILE .recover` reads what is left of the old one.
//!
//! The caller holds the lock file exclusively, so that no write goes to the set-aside file and only one process
//! repairs.

use std::fmt;
use std::path::{Path, PathBuf};

use memory::change::ChangeId;

use crate::error::Fault;
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::sqlite::check::{self, CheckDepth, Findings, REPAIR_SQL};
use crate::sqlite::file;
use crate::sqlite::open::{self, Mode};
use crate::sqlite::record;

/// The largest change number that is accepted from a damaged database: all JSON parsers read it exactly.
const BELIEVED_NUMBER_MAX: i64 = 1 << 53;

/// A repair of the state database. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRepair {
    /// The damage.
    pub reason: String,
    /// Path of the damaged database; `None` if it was repaired in place.
    pub set_aside: Option<PathBuf>,
}

impl fmt::Display for StateRepair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, set_aside } = self;
        match set_aside {
            None => write!(f, "the state database was damaged and repaired in place: {reason}"),
            Some(old) => write!(
                f,
                "the state database was damaged and a new one was started; no memory is lost, but undo \
                 history, pins, usage, queued tasks and proposals are; the old one is {old}, and \
                 `sqlite3 {old} .recover` reads what is left: {reason}",
                old = old.display()
            ),
        }
    }
}

/// Checks the database at `path`, and repairs it or sets it aside. `None` if it is sound.
pub(super) async fn repair(path: &Path, depth: CheckDepth) -> Result<Option<StateRepair>, Fault> {
    let mut findings = check::check(path, depth).await?;
    if findings.is_empty() {
        return Ok(None);
    }
    let reason = findings.sentences().join("; ");
    // Repairing an index may reveal a damaged row.
    for _ in 0..2 {
        if findings.are_repairable()
            && !findings.is_empty()
            && repair_in_place(path, &findings).await?
        {
            findings = check::check(path, depth).await?;
        }
    }
    let set_aside = if findings.is_empty() { None } else { Some(replace_database(path).await?) };
    let repair = StateRepair { reason, set_aside };
    tracing::warn!("{repair}");
    Ok(Some(repair))
}

/// Rebuilds indexes and removes contradicting rows. Returns whether SQLite could.
async fn repair_in_place(path: &Path, findings: &Findings) -> Result<bool, Fault> {
    let corrupt = json_numbers(findings.corrupt_contents.iter().copied());
    let script = format!(
        "BEGIN IMMEDIATE; REINDEX; DELETE FROM contents WHERE id IN (SELECT value FROM json_each($1)); \
         {REPAIR_SQL} COMMIT;"
    );
    let mut connection = open::connect(path, Mode::Write).await?;
    let done =
        Batch::new(&script).bind(corrupt).run(&mut connection, StatementReuse::OneShot).await;
    open::close(connection).await;
    match done.map_err(Fault::from) {
        Ok(_) => Ok(true),
        Err(fault) if fault.is_damage() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Sets the database aside and creates an empty one, which does not reuse change numbers.
async fn replace_database(path: &Path) -> Result<PathBuf, Fault> {
    let last = last_number(path).await;
    let set_aside = file::set_aside(path)?;
    let mut fresh = open::writer(path).await?;
    if let Some(last) = last {
        record::raise_change_number(&mut fresh.connection, last).await?;
    }
    open::close(fresh.connection).await;
    Ok(set_aside)
}

/// Returns the last change number of the damaged database, if it can be read.
async fn last_number(path: &Path) -> Option<ChangeId> {
    let mut damaged = open::connect(path, Mode::Read).await.ok()?;
    let query = sqlx::query_scalar("SELECT last_change FROM totals WHERE id = 1");
    let last: Option<i64> = query.fetch_optional(&mut damaged).await.ok().flatten();
    open::close(damaged).await;
    last.filter(|last| (1..=BELIEVED_NUMBER_MAX).contains(last)).map(ChangeId)
}
