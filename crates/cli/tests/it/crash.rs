//! Tests that kill a server at random moments under load, again and again.
//!
//! After each kill, every acknowledged write must exist, and every other write must be complete or absent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Random, delay_fault};

use crate::sandbox::Sandbox;
use crate::served::{McpServerProcess, ToolAnswer};
use crate::storm::texts;

const KILLS: usize = 200;

/// The number of kills between full checks of history and state.
const EXAMINED_EVERY: usize = 20;

/// The number of new roots whose first writer is killed.
const NEW_ROOTS: usize = 30;

const JOURNALS: usize = 2;

/// A write: the call, and the resulting texts of its files. A line of a journal is checked by itself, because many
/// writes share a journal.
pub(crate) struct Write {
    pub(crate) call: Value,
    effect: Effect,
}

impl Write {
    fn is_of_files(&self) -> bool {
        matches!(self.effect, Effect::Files(_))
    }
}

#[derive(Clone)]
enum Effect {
    Line(usize, String),
    /// Each path with its text afterwards; `None` for a deleted file.
    Files(Vec<(String, Option<String>)>),
}

/// The state that must exist on the disk, in one scope.
pub(crate) struct ExpectedState {
    scope: &'static str,
    files: BTreeMap<String, String>,
    journals: [BTreeSet<String>; JOURNALS],
    /// The number of changes.
    pub(crate) changes: usize,
}

fn text(name: &str) -> String {
    format!("- head of {name}\n{}", format!("- body of {name}\n").repeat(60))
}

impl ExpectedState {
    /// Starts with a scope that has no memories.
    pub(crate) fn new(scope: &'static str) -> Self {
        Self { scope, files: BTreeMap::new(), journals: Default::default(), changes: 0 }
    }

    fn path(&self, name: &str) -> String {
        format!("/memories/{}/{name}", self.scope)
    }

    /// Creates the journals.
    pub(crate) fn begin(&mut self, served: &mut McpServerProcess) {
        for journal in 0..JOURNALS {
            served.create(&self.path(&format!("journal-{journal}.md")), "");
            self.changes += 1;
        }
    }

    /// Makes a write that must succeed.
    pub(crate) fn write_after(&self, served: &mut McpServerProcess, round: usize) -> Write {
        let line = format!("{round}-after");
        let call = json!({
            "command": "insert", "path": self.path("journal-0.md"), "insert_line": 0,
            "insert_text": line,
        });
        served.done(&call);
        Write { call, effect: Effect::Line(0, line) }
    }

    /// Generates the writes of a round; no two touch the same file except a journal.
    pub(crate) fn plan_writes(&self, round: usize, dice: &mut Random) -> Vec<Write> {
        let mut writes = Vec::new();
        for number in 0..12 {
            let (journal, line) = (dice.below(JOURNALS), format!("{round}-{number}"));
            let call = json!({
                "command": "insert", "path": self.path(&format!("journal-{journal}.md")),
                "insert_line": 0, "insert_text": line,
            });
            writes.push(Write { call, effect: Effect::Line(journal, line) });
        }
        for number in 0..6 {
            let name = format!("made/{round}-{number}.md");
            let after = text(&name);
            let call = json!({ "command": "create", "path": self.path(&name), "file_text": after });
            writes.push(Write { call, effect: Effect::Files(vec![(name, Some(after))]) });
        }
        let mut names: Vec<_> = self.files.keys().cloned().collect();
        for number in 0..6.min(names.len()) {
            let name = names.swap_remove(dice.below(names.len()));
            let before = self.files[&name].clone();
            writes.push(match number % 3 {
                0 => self.rename(round, number, name, before),
                1 => self.delete(name),
                _ => self.edit(round, name, &before),
            });
        }
        for at in (1..writes.len()).rev() {
            writes.swap(at, dice.below(at + 1));
        }
        writes
    }

    /// Compares the disk with the known state and the sent writes, and updates the known state.
    pub(crate) fn examine(&mut self, root: &Path, writes: Vec<(Write, bool)>) {
        let mut found = texts(root);
        found.remove("MEMORY.md");
        let mut expected = self.files.clone();
        for (journal, known) in self.journals.iter_mut().enumerate() {
            let text = found.remove(&format!("journal-{journal}.md")).unwrap();
            let lines: BTreeSet<_> = text.lines().map(str::to_owned).collect();
            assert_eq!(lines.len(), text.lines().count(), "a line is there twice");
            assert!(text.is_empty() || text.ends_with('\n'), "the last line is torn");
            for (write, acknowledged) in &writes {
                let Effect::Line(of, line) = &write.effect else { continue };
                if *of == journal && (*acknowledged || lines.contains(line)) {
                    assert!(known.insert(line.clone()));
                    self.changes += 1;
                }
            }
            assert_eq!(lines, *known, "journal {journal}");
        }
        for (write, acknowledged) in writes {
            let Effect::Files(files) = write.effect else { continue };
            let happened = files.iter().all(|(name, after)| found.get(name) == after.as_ref());
            assert!(happened || !acknowledged, "lost: {}", write.call);
            if happened {
                self.changes += 1;
                for (name, after) in files {
                    match after {
                        Some(text) => expected.insert(name, text),
                        None => expected.remove(&name),
                    };
                }
            }
        }
        let differing: Vec<_> = found
            .iter()
            .filter(|(name, text)| expected.get(*name) != Some(text))
            .map(|(name, text)| format!("{name}: {} bytes", text.len()))
            .chain(expected.keys().filter(|name| !found.contains_key(*name)).cloned())
            .collect();
        assert_eq!(differing, [""; 0], "missing, mixed or left over");
        self.files = found;
    }

    fn rename(&self, round: usize, number: usize, name: String, before: String) -> Write {
        let to = format!("moved/{round}-{number}.md");
        let call = json!({ "command": "rename", "old_path": self.path(&name), "new_path": self.path(&to) });
        Write { call, effect: Effect::Files(vec![(name, None), (to, Some(before))]) }
    }

    fn delete(&self, name: String) -> Write {
        let call = json!({ "command": "delete", "path": self.path(&name) });
        Write { call, effect: Effect::Files(vec![(name, None)]) }
    }

    fn edit(&self, round: usize, name: String, before: &str) -> Write {
        let (head, body) = before.split_once('\n').unwrap();
        let after = format!("- edited in {round}\n{body}");
        let call = json!({
            "command": "str_replace", "path": self.path(&name),
            "old_str": format!("{head}\n"), "new_str": format!("- edited in {round}\n"),
        });
        Write { call, effect: Effect::Files(vec![(name, Some(after))]) }
    }
}

/// Sends all writes at once and kills the server; returns which of them were acknowledged.
pub(crate) fn write_and_kill(
    mut served: McpServerProcess,
    writes: Vec<Write>,
    dice: &mut Random,
) -> Vec<(Write, bool)> {
    let ids: Vec<u64> = writes.iter().map(|write| served.ask(&write.call)).collect();
    let read = dice.below(writes.len());
    let mut answers: Vec<_> = (0..read).map(|_| served.answer()).collect();
    delay_fault(Duration::from_micros(dice.below(3_000) as u64));
    answers.extend(served.kill());
    for answer in &answers {
        assert_eq!(answer.code, "ok", "{}", answer.text);
    }
    with_outcomes(writes, &ids, &answers)
}

/// Adds to each write whether it was acknowledged.
pub(crate) fn with_outcomes(
    writes: Vec<Write>,
    ids: &[u64],
    answers: &[ToolAnswer],
) -> Vec<(Write, bool)> {
    let done = answers.iter().filter(|answer| answer.code == "ok").map(|answer| answer.id);
    let done: BTreeSet<u64> = done.collect();
    writes.into_iter().zip(ids).map(|(write, id)| (write, done.contains(id))).collect()
}

/// Returns whether the lock file says that its holder died while it wrote.
fn interrupted(place: &Sandbox) -> bool {
    let locks = fs::read_dir(place.home().join("state/locks")).unwrap();
    let mut locks = locks.map(|lock| fs::read_to_string(lock.unwrap().path()).unwrap());
    locks.any(|text| text.contains(" writing "))
}

pub(crate) fn seed() -> u64 {
    let given = std::env::var("LUKASA_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    given.unwrap_or_else(|| RandomState::new().hash_one("crash"))
}

#[test]
fn kills_in_the_first_moments_of_a_root_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    println!("the same writes again: LUKASA_TEST_SEED={seed}");
    let mut dice = Random::new(seed);
    let mut hits = 0;
    for _ in 0..NEW_ROOTS {
        // At the start there is no root, no lock file and no state.
        let place = Sandbox::new();
        let mut world = ExpectedState::new("global");
        let mut served = McpServerProcess::start(&place);
        let writes: Vec<_> =
            world.plan_writes(0, &mut dice).into_iter().filter(Write::is_of_files).collect();
        let ids: Vec<u64> = writes.iter().map(|write| served.ask(&write.call)).collect();
        let mut answers: Vec<_> = (0..dice.below(3)).map(|_| served.answer()).collect();
        delay_fault(Duration::from_micros(dice.below(8_000) as u64));
        answers.extend(served.kill());
        hits += usize::from(answers.len() < ids.len());
        let writes = with_outcomes(writes, &ids, &answers);
        let mut served = McpServerProcess::start(&place);
        world.begin(&mut served);
        world.examine(&place.home().join("memory"), writes);
        served.close_input();
        let log = place.run_ok(&["log", "--json", "-n", "1000000"]);
        assert_eq!(log.lines().count(), world.changes);
        place.check_healthy();
    }
    assert!(hits > NEW_ROOTS / 4, "only {hits} of {NEW_ROOTS} kills came before the last answer");
}

#[test]
fn two_hundred_kills_lose_nothing_that_was_acknowledged() {
    let seed = seed();
    println!("the same writes again: LUKASA_TEST_SEED={seed}");
    let mut dice = Random::new(seed);
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), "files_max = 5000\n").unwrap();
    let mut world = ExpectedState::new("global");
    let mut served = McpServerProcess::start(&place);
    world.begin(&mut served);
    let mut hits = 0;
    for round in 0..KILLS {
        let writes = world.plan_writes(round, &mut dice);
        let mut writes = write_and_kill(served, writes, &mut dice);
        hits += usize::from(interrupted(&place));
        served = McpServerProcess::start(&place);
        writes.push((world.write_after(&mut served, round), true));
        world.examine(&place.home().join("memory"), writes);
        if round % EXAMINED_EVERY == EXAMINED_EVERY - 1 {
            served.close_input();
            // This would record files that history does not have as one more change.
            let log = place.run_ok(&["log", "--json", "-n", "1000000"]);
            assert_eq!(log.lines().count(), world.changes, "history, after {round} kills");
            place.check_healthy();
            served = McpServerProcess::start(&place);
        }
    }
    served.close_input();
    // Otherwise the test would have tested nothing.
    assert!(hits > KILLS / 10, "only {hits} of {KILLS} kills fell into a commit");
}
