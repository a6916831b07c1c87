//! Tests of many tasks, in sequence and at once: no process is left behind, and the daemon's memory does not grow.

use std::fs;
use std::time::Duration;

use serde_json::json;
use testkit::{delay_fault, eventually};

use crate::daemon::Daemon;
use crate::processes::children_of;
use crate::sandbox::Sandbox;

/// Returns the number of tasks of a test; `LUKASA_TEST_CHILDREN=1000` runs the promised number.
fn tasks() -> usize {
    let set = std::env::var("LUKASA_TEST_CHILDREN").ok();
    set.map_or(60, |count| count.parse().unwrap())
}

/// Returns the resident memory of a process in bytes.
fn memory(id: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// Waits until a process has at most `count` children.
fn wait_until_memory_settles(id: u32, count: usize) {
    eventually(|| {
        let children = children_of(id);
        if children.len() > count { Err(children) } else { Ok(()) }
    });
}

#[test]
fn a_fresh_child_for_each_task_leaves_nothing_behind() {
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), "child_idle_seconds = 0\n").unwrap();
    let daemon = Daemon::start_with(&place, &["--runner", "child"]);
    let count = tasks();
    let mut at_first = 0;
    for number in 0..count {
        // Most facts repeat, so that only the runner could make memory grow.
        let content = format!("I keep bees in garden {}.", number % 5);
        let task = daemon.task("remember", &json!({ "content": content }));
        assert_eq!(task["status"], "completed", "{task}");
        if number == count / 2 {
            at_first = memory(daemon.id());
        }
    }
    wait_until_memory_settles(daemon.id(), 0);
    let grown = memory(daemon.id()).saturating_sub(at_first);
    assert!(grown < 8 * 1024 * 1024, "{count} tasks: the daemon grew by {grown} bytes");
    drop(daemon);
    place.check_healthy();
}

#[test]
fn a_child_is_kept_for_the_next_task_and_stopped_when_none_comes() {
    let place = Sandbox::new();
    fs::write(place.home().join("config.toml"), "runner = 'child'\nchild_idle_seconds = 1\n")
        .unwrap();
    let daemon = Daemon::start(&place);
    assert_eq!(daemon.children(), Vec::<u32>::new(), "none is started before there is work");
    daemon.task("remember", &json!({ "content": "I keep bees." }));
    let first = daemon.children();
    daemon.task("forget", &json!({ "query": "that I keep bees" }));
    daemon.task("dream", &json!({}));
    assert_eq!((daemon.children(), first.len()), (first, 1));
    wait_until_memory_settles(daemon.id(), 0);
    daemon.task("remember", &json!({ "content": "I keep goats." }));
    let (child, id) = (daemon.children()[0], daemon.id());
    // The child of a killed daemon ends too.
    daemon.kill();
    eventually(|| {
        let goes_on = fs::metadata(format!("/proc/{child}")).is_ok();
        if goes_on { Err(format!("the child of {id} goes on")) } else { Ok(()) }
    });
    place.check_healthy();
}

#[test]
fn a_daemon_and_commands_with_children_share_a_home() {
    let place = Sandbox::new();
    let settings = "runner = 'child'\n";
    fs::write(place.home().join("config.toml"), settings).unwrap();
    let daemon = Daemon::start(&place);
    // The daemon holds the lock of the state, so the other process must be a command.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..8 {
                place.run_ok(&["remember", &format!("The daemon {number} is served by others.")]);
            }
        });
        for number in 0..8 {
            let content = format!("The bee hive {number} stands in the garden.");
            let task = daemon.task("remember", &json!({ "content": content }));
            assert_eq!(task["status"], "completed", "{task}");
        }
    });
    let log = place.run_ok(&["log", "--json", "-n", "100"]);
    assert_eq!(log.lines().count(), 16, "{log}");
    drop(daemon);
    place.check_healthy();
}

#[test]
fn a_child_that_is_killed_at_any_moment_loses_and_repeats_nothing() {
    let place = Sandbox::new();
    let daemon = Daemon::start_with(&place, &["--runner", "child"]);
    let id = daemon.id();
    let mut wait = 1;
    for number in 0..12 {
        let content = format!("The bee hive {number} stands in the garden.");
        let asked = daemon.post("/workspace/memory/remember", &json!({ "content": content }));
        assert_eq!(asked.status, 202, "{}", asked.text());
        // The kills come from the start of a child until after the end of the task.
        wait = wait * 7 % 101;
        delay_fault(Duration::from_millis(wait / 2));
        for child in children_of(id) {
            let child = child.to_string();
            let kill = std::process::Command::new("kill").args(["-9", &child]).output();
            drop(kill.unwrap());
        }
        let task = asked.json();
        let task = daemon.finished("remember", task["taskId"].as_str().unwrap(), None);
        assert_eq!(
            task["status"], "completed",
            "one that is killed once is followed by another: {task}"
        );
        let found = place.run_ok(&["grep", "-l", content.trim_end_matches('.')]);
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let log = place.run_ok(&["log", "--json", "-n", "100"]);
    assert_eq!(log.lines().count(), 12, "{log}");
    wait_until_memory_settles(id, 1);
    drop(daemon);
    place.check_healthy();
}
