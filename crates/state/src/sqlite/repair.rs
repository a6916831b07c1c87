//! Repair of a damaged database.
//!
//! Damaged indexes and rows that contradict each other are repaired in place. Anything else sets the database
//! aside whole, under another name, and starts an empty one: `sqlite3 FILE .recover` reads what is left. The
//! caller holds the lock file alone, so that no write goes to the file that is set aside and one process repairs.

use std::fmt;
use std::path::{Path, PathBuf};

use memory::change::ChangeId;

use crate::error::Fault;
use crate::sqlite::batch::{Batch, StatementReuse, json_numbers};
use crate::sqlite::check::{self, CheckDepth, Findings, REPAIR_SQL};
use crate::sqlite::file;
use crate::sqlite::open::{self, Mode};
use crate::sqlite::record;

/// The largest number of a change that a damaged database is believed: all JSON parsers read it exactly.
const BELIEVED_NUMBER_MAX: i64 = 1 << 53;

/// A repair of the state database. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateRepair {
    /// The damage.
    pub reason: String,
    /// Where the damaged database is; `None` if it was repaired in place.
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
    // With its index, a row may turn out to be damaged too.
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

/// Rebuilds indexes and removes rows that contradict others. Returns whether SQLite could.
async fn repair_in_place(path: &Path, findings: &Findings) -> Result<bool, Fault> {
    let rotten = json_numbers(findings.corrupt_contents.iter().copied());
    let script = format!(
        "BEGIN IMMEDIATE; REINDEX; DELETE FROM contents WHERE id IN (SELECT value FROM json_each($1)); \
         {REPAIR_SQL} COMMIT;"
    );
    let mut connection = open::connect(path, Mode::Write).await?;
    let done = Batch::new(&script).bind(rotten).run(&mut connection, StatementReuse::OneShot).await;
    open::close(connection).await;
    match done.map_err(Fault::from) {
        Ok(_) => Ok(true),
        Err(fault) if fault.is_damage() => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Sets the database aside and makes an empty one, which gives no number of a change again.
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

/// Returns the last number of a change that the damaged database gave, if it can still say so.
async fn last_number(path: &Path) -> Option<ChangeId> {
    let mut damaged = open::connect(path, Mode::Read).await.ok()?;
    let query = sqlx::query_scalar("SELECT last_change FROM totals WHERE id = 1");
    let last: Option<i64> = query.fetch_optional(&mut damaged).await.ok().flatten();
    open::close(damaged).await;
    last.filter(|last| (1..=BELIEVED_NUMBER_MAX).contains(last)).map(ChangeId)
}
