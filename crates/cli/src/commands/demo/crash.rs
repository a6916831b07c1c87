//! The crash chapter of the demo.
//!
//! A server is killed while it writes, until the kill hits the middle of a commit. Then the next process recovers,
//! and the demo checks that every acknowledged write is in the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};

use super::client::DemoClient;
use super::narrator::Narrator;
use super::sandbox::{DemoSandbox, names_in, text_of};
use crate::app;
use crate::exit::Failure;
use crate::render::counted;

/// The number of calls that are sent at once.
const CALLS: usize = 200;

/// The maximum number of kills that miss a commit. Most hit, since the server does little else than commit.
const KILL_ATTEMPTS_MAX: usize = 40;

const JOURNAL: &str = "/memories/global/journal.md";

/// The entries of the journal that were sent, and those that were acknowledged.
#[derive(Default)]
struct CrashRun {
    sent: BTreeSet<String>,
    acknowledged: BTreeSet<String>,
}

/// Runs the chapter.
pub(super) fn run(teller: &Narrator, stage: &DemoSandbox) -> Result<(), Failure> {
    teller.chapter("5. A crash in the middle of a commit")?;
    let mut storm = CrashRun::default();
    let mut client = DemoClient::start(stage)?;
    client.initialize()?;
    let created = client.call(&json!({ "command": "create", "path": JOURNAL, "file_text": "" }))?;
    teller.check(created.ok, "an empty journal is created")?;
    for attempt in 1..=KILL_ATTEMPTS_MAX {
        let before = storm.acknowledged.len();
        kill_repeatedly(&mut storm, client, attempt)?;
        teller.narrate(&format!(
            "Attempt {attempt}: {CALLS} writes are sent at once; kill -9 after {} answers.",
            storm.acknowledged.len() - before
        ))?;
        if interrupted(stage)? {
            return recover(teller, stage, &storm);
        }
        teller.narrate("  The kill fell between two commits; try again.")?;
        client = DemoClient::start(stage)?;
        client.initialize()?;
    }
    teller.check(false, "a kill hits the middle of a commit")
}

/// Sends many writes at once and kills the server at a random moment.
fn kill_repeatedly(
    storm: &mut CrashRun,
    mut client: DemoClient<'_>,
    attempt: usize,
) -> Result<(), Failure> {
    let mut sent = BTreeMap::new();
    for number in 0..CALLS {
        let entry = format!("- entry {attempt}-{number}");
        sent.insert(client.send_call(&insert(&entry))?, entry.clone());
        storm.sent.insert(entry);
    }
    let answers = 20 + usize::try_from(app::now().as_nanosecond() % 100).unwrap_or(0);
    let mut answered = Vec::new();
    while answered.len() < answers {
        answered.push(client.next_call()?);
    }
    answered.extend(client.kill()?);
    let done = answered.into_iter().filter(|(_, answer)| answer.ok);
    storm.acknowledged.extend(done.filter_map(|(id, _)| sent.remove(&id)));
    Ok(())
}

fn insert(entry: &str) -> Value {
    json!({ "command": "insert", "path": JOURNAL, "insert_line": 0, "insert_text": entry })
}

/// Checks whether the lock file of a root shows that its last holder died while writing.
fn interrupted(stage: &DemoSandbox) -> Result<bool, Failure> {
    for lock in names_in(&stage.home().join("state/locks"))? {
        if text_of(&lock)?.is_some_and(|text| text.contains(" writing ")) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn recover(teller: &Narrator, stage: &DemoSandbox, storm: &CrashRun) -> Result<(), Failure> {
    teller
        .check(true, "the lock file holds `writing`: the server died in the middle of a commit")?;
    let acknowledged = counted(storm.acknowledged.len(), "write was", "writes were");
    teller.narrate(&format!("  {acknowledged} acknowledged before the kill."))?;
    teller.sent("$ lukasa doctor")?;
    let doctor = stage.run_lukasa(&["doctor"])?;
    teller.received(&doctor.stdout)?;
    teller.check(
        doctor.status == 1 && doctor.stdout.contains("interrupted-commit"),
        "`doctor` reports the interrupted commit",
    )?;
    teller.narrate(
        "Another server starts and writes once; the next process that locks a root recovers it.",
    )?;
    let mut client = DemoClient::start(stage)?;
    client.initialize()?;
    let last = "- after the crash";
    let arguments = insert(last);
    teller.sent(&format!("memory {arguments}"))?;
    let answer = client.call(&arguments)?;
    teller.received(&answer.text)?;
    teller.check(answer.ok, "the next write succeeds")?;
    teller.check(
        client.shut_down()? && !interrupted(stage)?,
        "the lock file holds `resting` again",
    )?;
    examine(teller, stage, storm, last)
}

/// Checks that the journal holds all acknowledged entries and no others, and that no temporary file remains.
fn examine(
    teller: &Narrator,
    stage: &DemoSandbox,
    storm: &CrashRun,
    last: &str,
) -> Result<(), Failure> {
    let journal = text_of(&stage.home().join("memory/journal.md"))?.unwrap_or_default();
    let lines: Vec<&str> = journal.lines().collect();
    let unique: BTreeSet<&str> = lines.iter().copied().collect();
    let count = storm.acknowledged.len();
    let is_complete = storm.acknowledged.iter().all(|entry| unique.contains(entry.as_str()));
    teller.check(is_complete, &format!("all {count} acknowledged writes exist, byte for byte"))?;
    let is_known = |line: &&str| *line == last || storm.sent.contains(*line);
    teller.check(
        unique.len() == lines.len() && lines.iter().all(is_known),
        "no line of the journal is incomplete, and none occurs twice",
    )?;
    let names = names_in(&stage.home().join("memory"))?;
    let is_temporary = |file: &PathBuf| file.extension().is_none_or(|extension| extension != "md");
    teller.check(!names.iter().any(is_temporary), "no temporary file remains")?;
    let log = stage.run_lukasa(&["log", "global/journal.md", "--json", "-n", "100000"])?;
    teller.check(
        log.stdout.lines().count() == lines.len() + 1,
        &format!("history has each of the journal's {} changes", lines.len() + 1),
    )
}
