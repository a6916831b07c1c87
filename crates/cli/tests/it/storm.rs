//! Tests of many processes that write to one root at once, to shared memories and to their own.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;

/// Calls in flight of each process.
const IN_FLIGHT: usize = 4;

/// Number of processes that are stopped now and then, and of memories that each creates.
const STOPPED: usize = 3;
const STOPPED_WRITES: usize = 100;

/// Number of memories that all processes insert into.
const SHARED: usize = 4;

/// Processes that write to one root at once: to shared memories and to their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Storm {
    pub(crate) scope: &'static str,
    pub(crate) processes: usize,
    /// The number of writes of each process.
    pub(crate) writes: usize,
}

impl Storm {
    fn path(self, name: &str) -> String {
        format!("/memories/{}/{name}", self.scope)
    }

    /// Returns a write of a process. Of ten writes, one creates a memory, three edit an own memory, and six insert into
    /// shared ones.
    fn write(self, process: usize, number: usize) -> Value {
        let name = format!("{process}-{number}");
        match number % 10 {
            0 => json!({
                "command": "create",
                "path": self.path(&format!("{process}/{number}.md")),
                "file_text": create_call(&name),
            }),
            1..=3 => json!({
                "command": "str_replace",
                "path": self.path(&format!("own-{process}.md")),
                "old_str": format!("slot {number} is free\n"),
                "new_str": format!("slot {number} is taken\n"),
            }),
            _ => json!({
                "command": "insert",
                "path": self.path(&format!("shared-{}.md", number % SHARED)),
                "insert_line": 0,
                "insert_text": name,
            }),
        }
    }

    fn slots(self, word: &str) -> String {
        let numbers = (0..self.writes).filter(|number| (1..=3).contains(&(number % 10)));
        numbers.map(|number| ["slot ", &number.to_string(), " is ", word, "\n"].concat()).collect()
    }

    /// Creates the memories that the processes edit.
    pub(crate) fn prepare(self, first: &mut McpServerProcess) {
        for shared in 0..SHARED {
            first.create(&self.path(&format!("shared-{shared}.md")), "");
        }
        for process in 0..self.processes {
            first.create(&self.path(&format!("own-{process}.md")), &self.slots("free"));
        }
    }

    /// Runs all writes of one process; each must succeed.
    pub(crate) fn run_writer(self, mut served: McpServerProcess, process: usize) {
        for number in 0..self.writes + IN_FLIGHT {
            if number >= IN_FLIGHT {
                let answer = served.answer();
                assert_eq!(answer.code, "ok", "process {process}: {}", answer.text);
            }
            if number < self.writes {
                served.ask(&self.write(process, number));
            }
        }
        served.close_input();
    }

    /// Fails if a file of the root is missing, torn or left over.
    pub(crate) fn check_files(self, root: &Path) {
        let mut found = texts(root);
        found.remove("MEMORY.md");
        let mut lines = BTreeSet::new();
        for shared in 0..SHARED {
            let text = found.remove(&format!("shared-{shared}.md")).unwrap();
            let is_new = |line: &str| lines.insert(line.to_owned());
            assert!(text.lines().all(is_new), "a line is there twice");
        }
        let each = |wanted: fn(usize) -> bool| {
            let numbers = move |p| (0..self.writes).map(move |number| (p, number));
            let all = (0..self.processes).flat_map(numbers);
            all.filter(move |(_, number)| wanted(number % 10))
        };
        let inserted: BTreeSet<_> =
            each(|n| n > 3).map(|(p, number)| format!("{p}-{number}")).collect();
        assert_eq!(lines, inserted);
        let mut expected: BTreeMap<_, _> = each(|n| n == 0)
            .map(|(p, number)| (format!("{p}/{number}.md"), create_call(&format!("{p}-{number}"))))
            .collect();
        let own = |process| (format!("own-{process}.md"), self.slots("taken"));
        expected.extend((0..self.processes).map(own));
        assert!(found == expected, "a file is missing, torn or left over: {:?}", found.keys());
    }

    /// Returns the number of changes: those of the preparation, and the writes of `processes` of the processes.
    pub(crate) const fn changes(self, processes: usize) -> usize {
        SHARED + self.processes + processes * self.writes
    }
}

fn create_call(name: &str) -> String {
    format!("- written by {name}\n").repeat(30)
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
    let storm = Storm { scope: "global", processes: 8, writes: 1_000 };
    let place = Sandbox::new();
    let mut first = McpServerProcess::start(&place);
    storm.prepare(&mut first);
    first.close_input();
    std::thread::scope(|scope| {
        for process in 0..storm.processes {
            let place = &place;
            scope.spawn(move || storm.run_writer(McpServerProcess::start(place), process));
        }
    });
    storm.check_files(&place.home().join("memory"));
    // `log` would record files that history does not have as an external edit.
    let log = place.run_ok(&["log", "--json", "-n", "100000"]);
    assert_eq!(log.lines().count(), storm.changes(storm.processes));
    place.check_healthy();
}
