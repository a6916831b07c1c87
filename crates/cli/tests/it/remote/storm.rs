//! Tests of several machines on one checkout, which write at once.

use serde_json::Value;

use super::setup::{RemoteSetup, serve};
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

/// Fails if a database takes a change of its own processes for somebody else's, or the other way round.
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
    check_authors(&of_one, &[0, 1]);
    check_authors(&of_two, &[2, 3]);
    check_authors(&there, &[4]);
    assert_eq!(own(&of_one), STORM.changes(2));
    assert_eq!((own(&of_two), own(&there)), (2 * STORM.writes, STORM.writes));
}
