//! Tests of two daemons on one state folder, an MCP server and the command line, all on the same roots at once.
//!
//! A state folder normally has one daemon. These tests remove its lock file, so that two run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use protocol::event::{Envelope, Event, MemoryChanged};
use serde_json::{Value, json};
use state::{SqliteState, TaskQuery, TaskStore as _};
use testkit::{Random, delay_fault, eventually};

use super::crash::{CallLog, call, examine_memories, examine_tasks};
use super::{Daemon, EventStreamReader};
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;
use crate::storm::texts;

/// Rounds of each of the four writers.
const ROUNDS: usize = 24;

/// Kills of one of the two daemons.
const KILLS: usize = 4;

/// Writes that a caller of the other daemon sends meanwhile.
const CALLS: usize = 60;

/// Starts a second daemon beside a running one.
fn start_second_daemon(place: &Sandbox) -> Daemon {
    fs::remove_file(place.home().join("state/daemon.lock")).unwrap();
    Daemon::start(place)
}

fn fact(who: &str, number: usize) -> String {
    format!("The berth of boat zq{who}{number} is number {number}.")
}

/// The acknowledged writes of one writer, which must exist afterwards.
#[derive(Default)]
struct CompletedWrites {
    files: BTreeMap<String, String>,
    /// Lines of the ledger, which is saved completely each time.
    saved: BTreeSet<String>,
    /// Lines of the journal, which lines are inserted into.
    inserted: BTreeSet<String>,
    remembered: BTreeSet<String>,
    forgotten: BTreeSet<String>,
    conflicts: usize,
}

/// Adds a line to the ledger: reads it and saves it with a precondition, and starts again after a conflict.
fn save(daemon: &Daemon, line: &str, both_have_read: Option<&Barrier>, done: &mut CompletedWrites) {
    let mut wait = both_have_read;
    loop {
        let read = daemon.get("/v1/memories/project/ledger.md");
        let text = format!("{}{line}\n", read.json()["text"].as_str().unwrap());
        if let Some(barrier) = wait.take() {
            barrier.wait();
        }
        let ask =
            daemon.ask("PUT", "/v1/memories/project/ledger.md").json(&json!({ "text": text }));
        let saved = ask.header("If-Match", read.header("ETag").unwrap()).send();
        match saved.status {
            200 => break assert!(done.saved.insert(line.to_owned())),
            412 => done.conflicts += 1,
            other => panic!("{other}: {}", saved.text()),
        }
    }
}

/// Writes as a program does at a daemon.
fn write_at_daemon(daemon: &Daemon, who: &str, both_have_read: &Barrier) -> CompletedWrites {
    let mut done = CompletedWrites::default();
    for number in 0..ROUNDS {
        let name = format!("{who}/{number}.md");
        let path = format!("/v1/memories/project/{name}");
        let text = format!("- written by {who}, {number}\n").repeat(30);
        let made = daemon.ask("PUT", &path).json(&json!({ "text": text }));
        let made = made.header("If-None-Match", "*").send();
        assert_eq!(made.status, 201, "{}", made.text());
        save(daemon, &name, (number == 0).then_some(both_have_read), &mut done);
        match number % 4 {
            0 => {
                let gone = daemon.ask("DELETE", &path);
                let gone = gone.header("If-Match", made.header("ETag").unwrap()).send();
                assert_eq!(gone.status, 200, "{}", gone.text());
            }
            _ => drop(done.files.insert(name, text)),
        }
        let said = fact(who, number / 4);
        match number % 4 {
            1 => {
                let body = json!({ "content": said, "scope": "user" });
                let task = daemon.task("remember", &body);
                assert_eq!(task["result"]["filesTouched"].as_array().unwrap().len(), 1, "{task}");
                done.remembered.insert(said);
            }
            3 if number % 8 == 3 => {
                let task = daemon.task("forget", &json!({ "query": said, "scope": "user" }));
                assert_eq!(task["result"]["removedEntries"][0]["summary"], said, "{task}");
                done.remembered.remove(&said);
                done.forgotten.insert(said);
            }
            _ => {}
        }
    }
    done
}

/// Writes as an agent does at an MCP server.
fn write_at_mcp_server(place: &Sandbox) -> CompletedWrites {
    let mut done = CompletedWrites::default();
    let mut served = McpServerProcess::start(place);
    for number in 0..4 * ROUNDS {
        let path = |name: &str| format!("/memories/project/{name}");
        let (name, moved) = (format!("agent/{number}.md"), format!("agent/moved-{number}.md"));
        served.create(&path(&name), &format!("- draft {number}\n"));
        let line = format!("agent {number}");
        served.done(&json!({
            "command": "insert", "path": path("journal.md"), "insert_line": 0, "insert_text": line,
        }));
        done.inserted.insert(line);
        served.done(&json!({
            "command": "str_replace", "path": path(&name), "old_str": "draft", "new_str": "fact",
        }));
        served.done(&json!({
            "command": "rename", "old_path": path(&name), "new_path": path(&moved),
        }));
        if number % 3 == 0 {
            served.done(&json!({ "command": "delete", "path": path(&moved) }));
        } else {
            done.files.insert(moved, format!("- fact {number}\n"));
        }
    }
    served.close_input();
    done
}

/// Writes as a person does at the command line.
fn write_at_command_line(place: &Sandbox) -> CompletedWrites {
    let mut done = CompletedWrites::default();
    for number in 0..ROUNDS / 2 {
        let name = format!("person/{number}.md");
        place.create(&format!("project/{name}"), "- noted\n");
        let line = format!("person {number}");
        place.run_ok(&["insert", "project/journal.md", "0", &line]);
        done.inserted.insert(line);
        let said = fact("person", number);
        place.run_ok(&["remember", "--scope", "global", &said]);
        if number % 2 == 0 {
            place.run_ok(&["rm", "-y", &format!("project/{name}")]);
            place.run_ok(&["forget", "-y", "--scope", "global", &said]);
            done.forgotten.insert(said);
        } else {
            done.files.insert(name, "- noted\n".to_owned());
            done.remembered.insert(said);
        }
    }
    done
}

/// Returns the lines of a memory, each of which must be there once.
fn lines(text: &str) -> BTreeSet<String> {
    let lines: BTreeSet<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), text.lines().count(), "a line is there twice");
    lines
}

fn examine_files(place: &Sandbox, dones: Vec<CompletedWrites>) {
    let mut all = CompletedWrites::default();
    for done in dones {
        all.files.extend(done.files);
        all.saved.extend(done.saved);
        all.inserted.extend(done.inserted);
        all.remembered.extend(done.remembered);
        all.forgotten.extend(done.forgotten);
        all.conflicts += done.conflicts;
    }
    assert!(all.conflicts > 0, "two saved over the same revision");
    let mut found = texts(&place.checkout().join(".lukasa/memory"));
    assert_eq!(lines(&found.remove("ledger.md").unwrap()), all.saved);
    assert_eq!(lines(&found.remove("journal.md").unwrap()), all.inserted);
    found.remove("MEMORY.md");
    assert!(found == all.files, "missing, torn or left over: {:?}", found.keys());
    let kept = place.run_ok(&["grep", "The berth of boat", "global"]);
    for said in &all.remembered {
        assert_eq!(kept.matches(&format!("- {said}")).count(), 1, "{said}");
    }
    for said in &all.forgotten {
        assert_eq!(kept.matches(said.as_str()).count(), 0, "{said}");
    }
}

/// Returns the expected events of all changes in history: one for each task, else one for each memory.
fn expected_events(place: &Sandbox) -> BTreeSet<String> {
    let log = place.run_ok(&["log", "--json", "-n", "1000000"]);
    let changes = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut all = BTreeSet::new();
    for change in changes {
        // All writes went through Lukasa, so history agrees with the files.
        assert_ne!(change["actor"], "outside", "{change}");
        match change["task"].as_str() {
            Some(task) => drop(all.insert(task.to_owned())),
            None => all.extend(
                change["files"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|file| format!("{} {}", change["id"], file["path"].as_str().unwrap())),
            ),
        }
    }
    all
}

/// Returns a line that describes an event; `None` for others.
fn event_line(envelope: &Envelope) -> Option<String> {
    match &envelope.event {
        Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) => Some(task_id.clone()),
        Event::MemoryChanged(MemoryChanged::File { path, change: Some(change), .. }) => {
            Some(format!("{change} {path}"))
        }
        Event::SlowClientWarning(_) | Event::Proposal(_) => None,
        other => panic!("{other:?}"),
    }
}

/// The events that a reader has received.
struct ReceivedEvents {
    lines: BTreeSet<String>,
    last: u64,
}

impl ReceivedEvents {
    /// Reads until all expected events were received, each once and with consecutive numbers.
    fn receive(&mut self, stream: &EventStreamReader, expected: &BTreeSet<String>) {
        while !self.lines.is_superset(expected) {
            let Some(envelope) = stream.next_if_any() else {
                let missing: Vec<_> = expected.difference(&self.lines).collect();
                panic!("never told: {missing:?}");
            };
            // Proposals have numbers, too.
            if envelope.id.is_some() {
                assert_eq!(envelope.id, Some(self.last + 1), "{envelope:?}");
                self.last += 1;
            }
            let Some(told) = event_line(&envelope) else { continue };
            assert!(self.lines.insert(told.clone()), "told twice: {told}");
        }
    }
}

/// Checks that each stream has exactly one event for each change in history.
fn check_received_once<const N: usize>(
    place: &Sandbox,
    streams: [&EventStreamReader; N],
    end: &str,
) {
    let mut heard = [const { ReceivedEvents { lines: BTreeSet::new(), last: 0 } }; N];
    let expected = expected_events(place);
    for (heard, stream) in heard.iter_mut().zip(streams) {
        heard.receive(stream, &expected);
    }
    // A duplicate event would be published before this one.
    place.create(end, "- the end\n");
    let expected = expected_events(place);
    for (mut heard, stream) in heard.into_iter().zip(streams) {
        heard.receive(stream, &expected);
        assert_eq!(heard.lines, expected, "told and not in history");
    }
}

/// Checks that each task of a workspace ended before the next started.
fn check_tasks_serial(place: &Sandbox) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runs = runtime.block_on(async {
        let state = SqliteState::new(place.home().join("state/lukasa.db"));
        let query = TaskQuery { max: 10_000, ..TaskQuery::default() };
        let mut runs = Vec::new();
        for task in state.tasks(&query).await.unwrap() {
            runs.extend(state.runs(&task.id).await.unwrap());
        }
        runs.sort_by_key(|run| run.started_at);
        runs
    });
    assert!(!runs.is_empty());
    for two in runs.windows(2) {
        // A task whose process was killed has no end.
        assert!(two[0].ended_at.is_none_or(|end| end <= two[1].started_at), "{two:?}");
    }
}

#[test]
fn concurrent_writers_lose_nothing_and_publish_each_event_once() {
    let place = Sandbox::new();
    let one = Daemon::start(&place);
    let two = start_second_daemon(&place);
    let streams = [&one, &two].map(|daemon| daemon.stream("/v1/events", &[]));
    place.create("project/ledger.md", "");
    place.create("project/journal.md", "");
    let both_have_read = Barrier::new(2);
    let dones = thread::scope(|scope| {
        let (place, read) = (&place, &both_have_read);
        let (one, two) = (&one, &two);
        let all = [
            scope.spawn(move || write_at_daemon(one, "one", read)),
            scope.spawn(move || write_at_daemon(two, "two", read)),
            scope.spawn(move || write_at_mcp_server(place)),
            scope.spawn(move || write_at_command_line(place)),
        ];
        all.map(|done| done.join().unwrap())
    });
    examine_files(&place, dones.into());
    check_received_once(&place, streams.each_ref(), "project/end.md");
    check_tasks_serial(&place);
    place.check_healthy();
}

/// Sends a task, and retries while the lane is full.
fn remember_until_accepted(daemon: &Daemon, content: &str) {
    eventually(|| {
        let asked = daemon
            .post("/workspace/memory/remember", &json!({ "content": content, "scope": "user" }));
        if asked.status == 202 {
            return Ok(());
        }
        assert_eq!(asked.status, 429, "{}", asked.text());
        Err("the lane is full")
    });
}

#[test]
fn queued_tasks_of_a_killed_daemon_are_done_by_the_other() {
    let given = std::env::var("LUKASA_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one("together"));
    println!("the same moments again: LUKASA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), "files_max = 10000\n").unwrap();
    let one = Daemon::start(&place);
    let stream = one.stream("/v1/events", &[]);
    let mut tolds = Vec::new();
    for round in 0..KILLS {
        let two = start_second_daemon(&place);
        let calling = |daemon: &Daemon, name: &'static str, times: usize| {
            let address = daemon.address().to_owned();
            (0..2).map(move |caller| {
                let address = address.clone();
                thread::spawn(move || call(&address, &format!("{name}-r{round}-c{caller}"), times))
            })
        };
        let at_one: Vec<_> = calling(&one, "one", CALLS).collect();
        let at_two: Vec<_> = calling(&two, "two", usize::MAX).collect();
        delay_fault(Duration::from_millis(50 + u64::try_from(random.below(250)).unwrap()));
        two.kill();
        let told: Vec<CallLog> =
            at_one.into_iter().chain(at_two).map(|caller| caller.join().unwrap()).collect();
        tolds.extend(told);
        remember_until_accepted(&one, &format!("Round {round} is over."));
    }
    assert!(examine_memories(&one, &tolds) >= KILLS, "too few writes were acknowledged");
    examine_tasks(&place, &one, &tolds);
    check_received_once(&place, [&stream], "project/end.md");
    check_tasks_serial(&place);
    drop(one);
    place.check_healthy();
}
