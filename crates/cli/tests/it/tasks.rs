//! Tests of `lukasa remember`, `forget`, `dream` and `tasks`.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::Value;
use testkit::delay_fault;

use crate::processes::{Locks, hold_locks};
use crate::sandbox::Sandbox;

/// Replaces the part of task ids that differs from run to run.
fn stable(text: &str) -> String {
    let id = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    id.replace_all(text, "<id>").into_owned()
}

#[test]
fn a_text_goes_to_its_place_and_is_undone_as_one_change() {
    let place = Sandbox::new();
    let ended = place.run(&["remember", "I keep bees"]);
    insta::assert_snapshot!(stable(&ended.shown()), @r"
    status 0
    --- stderr
    Saved to the global memories: 1 new, 0 updated, 0 known already.
      added global/user/keep-bees.md: I keep bees
    `lukasa undo --task remember-<id>` undoes it
    ");
    assert_eq!(place.run_ok(&["ls"]).lines().count(), 1);
    let task = ended.stderr.split('`').nth(1).unwrap().rsplit_once(' ').unwrap().1.to_owned();
    place.run_ok(&["undo", "-y", "--task", &task]);
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn json_has_the_result_of_a_task() {
    let place = Sandbox::new();
    let told = |args: &[&str]| stable(&place.run_ok(&[args, &["--json"]].concat()));
    insta::assert_snapshot!(told(&["remember", "--scope", "project", "The pier gate opens at six"]), @r#"{"summary":"Saved to the project memories: 1 new, 0 updated, 0 known already.","scopes":["project"],"changes":[{"path":"/memories/project/project/pier-gate-opens-six.md","action":"added","summary":"The pier gate opens at six"}],"proposals":0,"paths":["/memories/project/project/pier-gate-opens-six.md"],"task":"remember-<id>"}"#);
    insta::assert_snapshot!(told(&["remember", "The pier gate opens at six"]), @r#"{"summary":"Nothing to save: it is known already.","scopes":[],"changes":[{"path":"/memories/project/project/pier-gate-opens-six.md","action":"known","summary":"The pier gate opens at six"}],"proposals":0,"paths":[],"task":"remember-<id>"}"#);
    insta::assert_snapshot!(told(&["forget", "--dry-run", "pier gate"]), @r#"{"summary":"Forgot 1 memory entry.","scopes":["project"],"changes":[{"path":"/memories/project/project/pier-gate-opens-six.md","action":"removed","summary":"The pier gate opens at six"}],"proposals":0,"candidates":[],"removed":[{"path":"/memories/project/project/pier-gate-opens-six.md","topic":"project","summary":"The pier gate opens at six"}],"topics":["project"],"diffs":[{"path":"/memories/project/project/pier-gate-opens-six.md","moved_to":null,"diff":"--- /memories/project/project/pier-gate-opens-six.md\n+++ /memories/project/project/pier-gate-opens-six.md\n@@ -1,7 +0,0 @@\n----\n-type: project\n-description: The pier gate opens at six\n-name: pier gate opens six\n----\n-\n-- The pier gate opens at six\n","kept":true}]}"#);
    insta::assert_snapshot!(told(&["forget", "-y", "pier", "gate"]), @r#"{"summary":"Forgot 1 memory entry.","scopes":["project"],"changes":[{"path":"/memories/project/project/pier-gate-opens-six.md","action":"removed","summary":"The pier gate opens at six"}],"proposals":0,"candidates":[],"removed":[{"path":"/memories/project/project/pier-gate-opens-six.md","topic":"project","summary":"The pier gate opens at six"}],"topics":["project"],"task":"forget-<id>"}"#);
    insta::assert_snapshot!(told(&["dream", "-y"]), @r#"{"summary":"Managed auto-memory dream completed. Nothing to tidy up.","scopes":[],"changes":[],"proposals":0,"topics":[],"deduped":0,"task":"dream-<id>","pending":0}"#);
    insta::assert_snapshot!(place.stable(&told(&["tasks", "-n", "1"])), @r#"{"tasks":[{"task":"dream-<id>","kind":"dream","status":"completed","client":null,"created_at":"<time>","updated_at":"<time>","result":{"summary":"Managed auto-memory dream completed. Nothing to tidy up.","scopes":[],"changes":[],"proposals":0,"topics":[],"deduped":0}}]}"#);
}

#[test]
fn a_text_may_be_piped_and_may_not_be_blank() {
    let place = Sandbox::new();
    for args in [&["remember"][..], &["remember", "-"]] {
        assert_eq!(place.run_with(args, "I keep bees\n").status, 0, "{args:?}");
        assert_eq!(place.run_with(args, " \n").status, 2, "{args:?}");
    }
    assert_eq!(place.run(&["remember", " "]).status, 2);
    assert_eq!(place.run(&["forget", "-y", " "]).status, 2);
    assert_eq!(place.run(&["forget", "-y"]).status, 2);
    for args in [&["remember"][..], &["remember", "--dry-run", "-"]] {
        let long = place.run_with(args, &"bees ".repeat(13_108));
        assert_eq!(long.status, 5, "{args:?}");
        assert!(long.stderr.contains("has 65540 bytes"), "{}", long.stderr);
    }
    assert_eq!(place.run_ok(&["tasks"]).lines().count(), 2);
}

#[test]
fn a_dry_run_shows_the_difference_and_changes_nothing() {
    let place = Sandbox::new();
    place.create("project/a.md", "- The pier gate opens at six\n- Gates are green\n");
    place.create("project/a-2.md", "- the pier gate opens at six.\n");
    let before = place.run_ok(&["log"]);
    insta::assert_snapshot!(place.run(&["dream", "--dry-run"]).shown(), @r"
    status 0
    --- stdout
    --- /memories/project/a-2.md
    +++ /memories/project/a-2.md
    @@ -1 +0,0 @@
    -- the pier gate opens at six.
    --- stderr
    dry run: Managed auto-memory dream completed. Changed 1 memory. Repeated entries merged: 1.
      merged project/a-2.md: the pier gate opens at six
    ");
    insta::assert_snapshot!(place.run(&["forget", "--dry-run", "the green of the gates"]).shown(), @r"
    status 0
    --- stdout
    --- /memories/project/a.md
    +++ /memories/project/a.md
    @@ -1,2 +1 @@
     - The pier gate opens at six
    -- Gates are green
    --- stderr
    dry run: Forgot 1 memory entry.
      project/a.md: Gates are green
    ");
    insta::assert_snapshot!(place.run(&["remember", "--dry-run", "I keep bees"]).shown(), @r"
    status 0
    --- stdout
    --- /memories/global/user/keep-bees.md
    +++ /memories/global/user/keep-bees.md
    @@ -0,0 +1,7 @@
    +---
    +type: user
    +description: I keep bees
    +name: keep bees
    +---
    +
    +- I keep bees
    --- stderr
    dry run: Saved to the global memories: 1 new, 0 updated, 0 known already.
      added global/user/keep-bees.md: I keep bees
    ");
    assert_eq!(place.run_ok(&["log"]), before);
    assert_eq!(place.run_ok(&["tasks"]), "");
    place.run_ok(&["dream", "-y"]);
    assert_eq!(place.run_ok(&["ls"]).lines().count(), 1);
}

#[test]
fn a_failed_task_has_its_exit_status() {
    let place = Sandbox::new();
    let secret = "the key is ghp_Zz0123456789abcdefghijABCDEFGHIJ0123";
    let check = |args: &[&str], status: i32, expected: &str| {
        let ended = place.run(args);
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""), "{args:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("ghp_"), "{args:?}: {}", ended.stderr);
    };
    check(&["remember", secret], 4, "secrets.github-token");
    check(&["remember", "--dry-run", secret], 4, "secrets.github-token");
    check(&["remember", secret, "--json"], 4, r#""code":"screened""#);
    let nowhere = ["remember", "--scope", "workspace", "x is y", "--project", "/"];
    check(&nowhere, 4, "--workspace-id ID");
    check(&["remember", "--scope", "everywhere", "x is y"], 2, "possible values");
    check(&["forget", "-y", "what nobody said"], 1, "No managed auto-memory entries matched.");
    check(&["tasks", "--cancel", "remember-1"], 1, "there is no task");
    assert_eq!(place.run_ok(&["ls"]), "");
}

#[test]
fn an_ended_task_cannot_be_cancelled() {
    let place = Sandbox::new();
    let done = place.json(&["remember", "I keep bees"]);
    let task = done["task"].as_str().unwrap();
    let ended = place.run(&["tasks", "--cancel", task]);
    assert_eq!(ended.status, 1);
    assert!(ended.stderr.contains("Saved to the global memories"), "{}", ended.stderr);
    assert_eq!(place.run_ok(&["ls"]).lines().count(), 1);
}

/// Returns the tasks of a sandbox, latest first.
fn tasks(place: &Sandbox) -> Vec<Value> {
    place.json(&["tasks"])["tasks"].as_array().unwrap().clone()
}

/// Returns the task of each change in history that has one.
fn changed(place: &Sandbox) -> Vec<String> {
    let log = place.run_ok(&["log", "--json", "-n", "1000"]);
    let changes = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    changes.filter_map(|change| Some(change["task"].as_str()?.to_owned())).collect()
}

#[test]
fn many_at_once_are_done_one_after_the_other() {
    let place = Sandbox::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let place = &place;
            scope.spawn(move || {
                let text = format!("Berth {number} belongs to boat {number}{number}");
                place.run_ok(&["remember", "--scope", "project", &text]);
            });
        }
    });
    let tasks = tasks(&place);
    assert_eq!(tasks.len(), 8);
    assert!(tasks.iter().all(|task| task["status"] == "completed"), "{tasks:?}");
    for number in 0..8 {
        let found = place.run_ok(&["grep", &format!("boat {number}{number}")]);
        assert_eq!(found.lines().filter(|line| line.contains(":- ")).count(), 1, "{found}");
    }
    let changed = changed(&place);
    let once: BTreeSet<_> = changed.iter().collect();
    assert_eq!((changed.len(), once.len()), (8, 8));
}

#[test]
fn a_task_waits_for_another_process_and_a_signal_cancels_it() {
    let place = Sandbox::new();
    place.run_ok(&["remember", "I keep bees"]);
    let held = hold_locks(&place, Locks::Lanes);
    let waiting = |text: &str| {
        let mut command = place.command(&["remember", text]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while !place.run_ok(&["tasks", "-n", "1"]).contains("\tqueued\t") {
            assert!(Instant::now() < deadline, "{}", place.run_ok(&["tasks"]));
        }
        child
    };
    let mut one = waiting("I keep goats");
    let pid = one.id().to_string();
    assert!(place.program("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    assert_eq!(one.wait().unwrap().code(), Some(130));
    assert_eq!(tasks(&place)[0]["error"]["code"], "cancelled");
    // Another task is cancelled with the command.
    let mut two = waiting("I keep hens");
    let id = tasks(&place)[0]["task"].as_str().unwrap().to_owned();
    assert!(place.run_ok(&["tasks", "--cancel", &id, "--json"]).contains(r#""code":"cancelled""#));
    assert_eq!(two.wait().unwrap().code(), Some(3));
    let mut three = waiting("I keep sheep");
    drop(held);
    assert!(three.wait().unwrap().success());
    let found = |animal: &str| place.run(&["grep", animal, "global"]).status == 0;
    assert_eq!(["bees", "goats", "hens", "sheep"].map(found), [true, false, false, true]);
}

#[test]
fn a_kill_at_any_moment_leaves_a_task_that_is_done_once() {
    let place = Sandbox::new();
    // The duration without a kill.
    let started = Instant::now();
    place.run_ok(&["remember", "--scope", "project", "The slipway is north of the pier"]);
    let whole = started.elapsed();
    let kills = 24;
    for kill in 0..kills {
        let text = format!("Berth {kill} belongs to boat {kill}{kill}");
        let mut child = place
            .program(env!("CARGO_BIN_EXE_lukasa"))
            .args(["remember", "--scope", "project", &text])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        delay_fault(whole * kill / kills + Duration::from_millis(1));
        // The task may be done already.
        drop(child.kill());
        child.wait().unwrap();
    }
    // The next command finishes the remaining work.
    place.run_ok(&["remember", "--scope", "project", "The crane is south of the pier"]);
    let deadline = Instant::now() + Duration::from_mins(1);
    while tasks(&place)
        .iter()
        .any(|task| ["queued", "running"].iter().any(|s| task["status"] == *s))
    {
        assert!(Instant::now() < deadline, "{:?}", tasks(&place));
        place.run_ok(&["dream", "-y"]);
    }
    let changed = changed(&place);
    let once: BTreeSet<_> = changed.iter().cloned().collect();
    assert_eq!(changed.len(), once.len(), "no task has two changes");
    for task in tasks(&place) {
        let id = task["task"].as_str().unwrap();
        let touched = !task["result"]["paths"].as_array().is_none_or(Vec::is_empty);
        assert_eq!(touched, once.contains(id), "{task}");
    }
    place.check_healthy();
}

#[test]
fn a_full_scope_has_its_own_code() {
    let place = Sandbox::new();
    std::fs::write(place.home().join("config.toml"), "files_max = 1\n").unwrap();
    assert_eq!(place.run_with(&["create", "global/a.md"], "- x\n").status, 0);
    let told = place.run(&["remember", "I keep bees"]);
    assert_eq!(told.status, 5, "{}", told.stderr);
    assert!(told.stderr.contains("files_max"), "{}", told.stderr);
    assert!(!told.stderr.contains("WARN"), "{}", told.stderr);
    let told = place.run(&["remember", "I keep bees", "--json"]);
    assert!(told.stderr.contains(r#""code":"scope_full""#), "{}", told.stderr);
    let tasks = place.json(&["tasks", "-n", "1"]);
    let error = &tasks["tasks"][0]["error"];
    assert_eq!(
        (&error["code"], &error["cause"]),
        (&"remember_failed".into(), &"scope_full".into())
    );
}
