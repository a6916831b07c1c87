//! Tests of several machines on one checkout, which write at once.

use std::fs;

use serde_json::Value;

use super::setup::{ADDRESS, RemoteSetup, run_ok, serve};
use crate::sandbox::Sandbox;
use crate::served::McpServerProcess;
use crate::storm::Storm;

/// Two processes of each of two homes here, and one at the machine of the checkout.
const STORM: Storm = Storm { scope: "project", processes: 5, writes: 60 };

/// Returns the process that alone writes a memory; `None` for a shared one.
fn writer(path: &str) -> Option<usize> {
    let name = path.strip_prefix("/memories/project/").unwrap();
    let own = name.strip_prefix("own-").and_then(|rest| rest.strip_suffix(".md"));
    own.or_else(|| Some(name.split_once('/')?.0)).map(|process| process.parse().unwrap())
}

/// Fails if a database takes a change of its own processes for one from outside, or the other way round.
fn check_authors(changes: &[Value], own: &[usize]) {
    for change in changes {
        let is_outside = change["kind"] == "outside";
        for file in change["files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap();
            // The memories that are edited were created by one process for all.
            let is_prepared = change["kind"] == "create" && path.contains("/own-");
            if let Some(process) = writer(path).filter(|_| !is_prepared) {
                assert_eq!(is_outside, !own.contains(&process), "{path}: {change}");
            }
        }
    }
}

fn own(changes: &[Value]) -> usize {
    changes.iter().filter(|change| change["kind"] != "outside").count()
}

#[test]
fn two_homes_and_a_process_there_write_at_once_and_nothing_is_lost_or_torn() {
    let setup = RemoteSetup::empty();
    let (one, two) = (&setup.place, &setup.another_home());
    let mut first = setup.serve();
    STORM.prepare(&mut first);
    first.close_input();
    std::thread::scope(|scope| {
        for process in 0..STORM.processes {
            let served = match process {
                0 | 1 => serve(one),
                2 | 3 => serve(two),
                _ => McpServerProcess::start_as(setup.command_there(&["mcp"])),
            };
            scope.spawn(move || STORM.run_writer(served, process));
        }
    });
    setup.wait_until_unused();
    STORM.check_files(&setup.root());
    let (of_one, of_two) = (setup.check_coherent(one), setup.check_coherent(two));
    let there = setup.check_coherent_there();
    for changes in [&of_one, &of_two, &there] {
        assert!(own(changes) < changes.len(), "no change of the others was seen");
    }
    check_authors(&of_one, &[0, 1]);
    check_authors(&of_two, &[2, 3]);
    check_authors(&there, &[4]);
    assert_eq!(own(&of_one), STORM.changes(2));
    assert_eq!((own(&of_two), own(&there)), (2 * STORM.writes, STORM.writes));
}

#[test]
fn more_databases_than_a_lock_file_knows_write_in_turn() {
    let setup = RemoteSetup::empty();
    let mut homes: Vec<Sandbox> = (0..5).map(|_| setup.another_home()).collect();
    for round in 0..2 {
        for (number, home) in homes.iter().chain([&setup.place]).enumerate() {
            let path = format!("project/{round}-{number}.md");
            run_ok(home, &["create", &path, &format!("- by {number}\n")]);
        }
    }
    for (number, home) in [(5, &setup.place), (0, &homes.remove(0))] {
        let changes = setup.check_coherent(home);
        assert_eq!(own(&changes), 2, "{changes:?}");
        for change in changes.iter().filter(|change| change["kind"] != "outside") {
            let path = change["files"][0]["path"].as_str().unwrap();
            assert!(path.ends_with(&format!("-{number}.md")), "{change}");
        }
    }
}

#[test]
fn two_addresses_of_one_folder_are_two_projects_that_see_each_other_as_outside() {
    let setup = RemoteSetup::empty();
    let other = format!("ssh://far{}", setup.server.home().join("shop").display());
    let run = |address: &str, args: &[&str]| {
        setup.place.run_ok(&[&["--project", address], args].concat())
    };
    run(ADDRESS, &["create", "project/a.md", "- 0\n"]);
    // Both have the same database, and so the same sequence of numbers.
    for number in 0..4 {
        let address = if number % 2 == 0 { &other } else { ADDRESS };
        let (old, new) = (number.to_string(), (number + 1).to_string());
        run(address, &["replace", "project/a.md", &old, &new]);
    }
    assert_eq!(fs::read_to_string(setup.memory("a.md")).unwrap(), "- 4\n");
    for (address, expected) in [
        (ADDRESS, &["edit", "outside", "edit", "outside", "create"][..]),
        // The text before its first write is that of the other address.
        (&other, &["outside", "edit", "outside", "edit"]),
    ] {
        let log = run(address, &["log", "project", "--json"]);
        let kinds = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kinds: Vec<_> =
            kinds.map(|change| change["kind"].as_str().unwrap().to_owned()).collect();
        assert_eq!(kinds, expected, "{address}: {log}");
    }
}
