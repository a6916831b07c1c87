//! Tests of many processes that write to one root at once, to shared memories and to their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

const PROCESSES: usize = 8;
const WRITES: usize = 1_000;

/// Calls in flight of each process.
const IN_FLIGHT: usize = 4;

/// Number of processes that are stopped now and then, and of memories that each creates.
const STOPPED: usize = 3;
const STOPPED_WRITES: usize = 100;

/// Number of memories that all processes insert into.
const SHARED: usize = 4;

/// Returns a write of a process. Of ten writes, one creates a memory, three edit an own memory, and six insert into
/// shared ones.
fn write(process: usize, number: usize) -> Value {
    let name = format!("{process}-{number}");
    match number % 10 {
        0 => json!({
            "command": "create",
            "path": format!("/memories/global/{process}/{number}.md"),
            "file_text": create_call(&name),
        }),
        1..=3 => json!({
            "command": "str_replace",
            "path": format!("/memories/global/own-{process}.md"),
            "old_str": format!("slot {number} is free\n"),
            "new_str": format!("slot {number} is taken\n"),
        }),
        _ => json!({
            "command": "insert",
            "path": format!("/memories/global/shared-{}.md", number % SHARED),
            "insert_line": 0,
            "insert_text": name,
        }),
    }
}

fn create_call(name: &str) -> String {
    format!("- written by {name}\n").repeat(30)
}

fn slots(word: &str) -> String {
    let numbers = (0..WRITES).filter(|number| (1..=3).contains(&(number % 10)));
    numbers.map(|number| ["slot ", &number.to_string(), " is ", word, "\n"].concat()).collect()
}

/// Runs all writes of one process; each must succeed.
fn run_writer(place: &Sandbox, process: usize) {
    let mut served = McpServerProcess::start(place);
    for number in 0..WRITES + IN_FLIGHT {
        if number >= IN_FLIGHT {
            let answer = served.answer();
            assert_eq!(answer.code, "ok", "process {process}: {}", answer.text);
        }
        if number < WRITES {
            served.ask(&write(process, number));
        }
    }
    served.close_input();
}

/// Returns the texts of all files below a folder by their paths.
pub(crate) fn texts(root: &Path) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                texts.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    texts
}

/// The longest wait of a reader while a writer of the root is stopped.
const READ_WAIT_MAX: Duration = Duration::from_secs(5);

#[test]
fn writers_that_are_stopped_now_and_then_lose_nothing_and_keep_no_reader_waiting() {
    // All start at once without a root, so that its creation is tested too.
    let place = Sandbox::new();
    let each = |process: usize| {
        let mut served = McpServerProcess::start(&place);
        for number in 0..STOPPED_WRITES {
            served.ask(&json!({
                "command": "create",
                "path": format!("/memories/global/{process}/{number}.md"),
                "file_text": create_call(&format!("{process}-{number}")),
            }));
            if number % 25 == 7 {
                served.signal("STOP");
                // A reader sees complete files, whichever lock the stopped process holds.
                for args in [&["context"][..], &["ls"], &["recall", "what was written by whom?"]] {
                    let begun = Instant::now();
                    let ended = place.run(args);
                    assert!(begun.elapsed() < READ_WAIT_MAX, "{args:?} took {:?}", begun.elapsed());
                    assert!(ended.status < 2, "{args:?}: {}", ended.stderr);
                }
                served.signal("CONT");
            }
            let answer = served.answer();
            assert_eq!(answer.code, "ok", "process {process}: {}", answer.text);
        }
        served.close_input();
    };
    std::thread::scope(|scope| {
        for process in 0..STOPPED {
            scope.spawn(move || each(process));
        }
    });
    let mut found = texts(&place.home().join("memory"));
    found.remove("MEMORY.md");
    let all = (0..STOPPED).flat_map(|p| (0..STOPPED_WRITES).map(move |number| (p, number)));
    let expected: BTreeMap<_, _> = all
        .map(|(p, number)| (format!("{p}/{number}.md"), create_call(&format!("{p}-{number}"))))
        .collect();
    assert!(found == expected, "a file is missing, torn or left over: {:?}", found.keys());
    let log = place.run_ok(&["log", "--json", "-n", "100000"]);
    assert_eq!(log.lines().count(), STOPPED * STOPPED_WRITES);
    place.check_healthy();
}

#[test]
fn eight_processes_write_a_thousand_times_each_and_nothing_is_lost_or_torn() {
    let place = Sandbox::new();
    let mut first = McpServerProcess::start(&place);
    for shared in 0..SHARED {
        first.create(&format!("/memories/global/shared-{shared}.md"), "");
    }
    for process in 0..PROCESSES {
        first.create(&format!("/memories/global/own-{process}.md"), &slots("free"));
    }
    first.close_input();
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let place = &place;
            scope.spawn(move || run_writer(place, process));
        }
    });
    let mut found = texts(&place.home().join("memory"));
    found.remove("MEMORY.md");
    let mut lines = BTreeSet::new();
    for shared in 0..SHARED {
        let text = found.remove(&format!("shared-{shared}.md")).unwrap();
        assert!(text.lines().all(|line| lines.insert(line.to_owned())), "a line is there twice");
    }
    let each = |wanted: fn(usize) -> bool| {
        let all = (0..PROCESSES).flat_map(|p| (0..WRITES).map(move |number| (p, number)));
        all.filter(move |(_, number)| wanted(number % 10))
    };
    let inserted: BTreeSet<_> =
        each(|n| n > 3).map(|(p, number)| format!("{p}-{number}")).collect();
    assert_eq!(lines, inserted);
    let mut expected: BTreeMap<_, _> = each(|n| n == 0)
        .map(|(p, number)| (format!("{p}/{number}.md"), create_call(&format!("{p}-{number}"))))
        .collect();
    expected.extend((0..PROCESSES).map(|p| (format!("own-{p}.md"), slots("taken"))));
    assert!(found == expected, "a file is missing, torn or left over: {:?}", found.keys());
    // `log` would record files that history does not have as an external edit.
    let log = place.run_ok(&["log", "--json", "-n", "100000"]);
    assert_eq!(log.lines().count(), SHARED + PROCESSES + PROCESSES * WRITES);
    place.check_healthy();
}
