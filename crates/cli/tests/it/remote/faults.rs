//! Tests of slow, cut and silent networks, with a proxy between the machines.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::sshd::SshServer;
use testkit::tcp_proxy::TcpProxy;
use testkit::{Random, delay_fault, eventually};

use super::setup::{ADDRESS, RemoteSetup};
use crate::crash::seed;
use crate::hooks::fixture;
use crate::sandbox::CommandOutput;
use crate::served::McpServerProcess;

/// The one-way delay of a slow network.
const DELAY: Duration = Duration::from_millis(50);

/// The time after which an answer that needs no network counts as late. A hook promises one second.
const PROMPT: Duration = Duration::from_secs(3);

/// The time after which the silence of the other side has ended a connection, with some reserve.
const SILENCE: Duration = Duration::from_secs(26);

/// The time until a project is back, with the longest pause between two attempts.
const COMEBACK: Duration = Duration::from_secs(45);

fn view(path: &str) -> Value {
    json!({ "command": "view", "path": path })
}

fn create(number: usize) -> Value {
    let path = format!("/memories/project/cut/{number}.md");
    json!({ "command": "create", "path": path, "file_text": text(number) })
}

fn text(number: usize) -> String {
    format!("- a line of memory {number}\n").repeat(500)
}

/// Fails unless a file is complete or absent. Returns whether it is there.
fn is_whole(setup: &RemoteSetup, number: usize) -> bool {
    let found = fs::read_to_string(setup.memory(&format!("cut/{number}.md"))).ok();
    assert!(found.is_none() || found == Some(text(number)), "memory {number} is torn");
    found.is_some()
}

/// Waits until the same server reaches the project again.
fn wait_for_comeback(served: &mut McpServerProcess) {
    let begun = Instant::now();
    eventually(|| {
        let answer = served.call(&view("/memories/project/deploy.md"));
        assert!(begun.elapsed() < COMEBACK, "{}", answer.text);
        if answer.code == "ok" { Ok(()) } else { Err(answer) }
    });
}

/// Fails if a server that has no connection does not say so, or does not serve the other scopes.
fn check_cut_off(served: &mut McpServerProcess) {
    let begun = Instant::now();
    let answer = served.call(&view("/memories/global/tea.md"));
    assert_eq!(answer.code, "ok", "{}", answer.text);
    served.create(&format!("/memories/global/{}.md", begun.elapsed().as_nanos()), "- here\n");
    assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    let answer = served.call(&view("/memories/project/deploy.md"));
    assert_eq!(answer.code, "scope_unavailable", "{}", answer.text);
    assert!(answer.text.contains("the host `far` cannot be reached"), "{}", answer.text);
}

#[test]
fn all_commands_work_over_a_slow_network() {
    let setup = RemoteSetup::installed();
    let proxy = setup.proxy();
    proxy.set_delay(DELAY);
    let mut served = setup.serve();
    served.create("/memories/project/a.md", "- one\n");
    let path = "/memories/project/a.md";
    let begun = Instant::now();
    let calls = [
        view("/memories"),
        view(path),
        json!({ "command": "str_replace", "path": path, "old_str": "one", "new_str": "two" }),
        json!({ "command": "insert", "path": path, "insert_line": 1, "insert_text": "- three\n" }),
        json!({ "command": "rename", "old_path": path, "new_path": "/memories/project/b/a.md" }),
        json!({ "command": "delete", "path": "/memories/project/deploy.md" }),
    ];
    for call in &calls {
        served.done(call);
    }
    // Each takes a few round trips of twice the delay, and none waits for a time limit.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    served.close_input();
    assert_eq!(fs::read_to_string(setup.memory("b/a.md")).unwrap(), "- two\n- three\n");
    setup.run_ok(&["undo", "-y"]);
    setup.place.run_ok(&["trust", "--yes", ADDRESS]);
    assert!(setup.run_ok(&["recall", "when do deploys run"]).contains("Deploys run at noon"));
}

#[test]
fn a_lost_connection_is_reported_and_the_project_comes_back_by_itself() {
    let seed = seed();
    println!("the same moment again: LUKASA_TEST_SEED={seed}");
    let mut dice = Random::new(seed);
    let setup = RemoteSetup::installed();
    let proxy = setup.proxy();
    let mut served = setup.serve();
    served.done(&view("/memories/project/deploy.md"));
    proxy.set_delay(DELAY);
    let count = 12;
    let ids: Vec<u64> = (0..count).map(|number| served.ask(&create(number))).collect();
    let mut answers = vec![served.answer()];
    // A command is cut off, too.
    let write = ["--project", ADDRESS, "create", "project/cut/100.md", &text(100)];
    let mut command = setup.place.command(&write);
    let mut command = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    delay_fault(Duration::from_millis(dice.below(900) as u64));
    proxy.cut();
    answers.extend((1..count).map(|_| served.answer()));
    for answer in answers.iter().filter(|answer| answer.code != "ok") {
        assert_eq!(answer.code, "scope_unavailable", "{}", answer.text);
        let says_why = ["the connection to the remote machine was lost", "cannot be reached"];
        assert!(says_why.iter().any(|why| answer.text.contains(why)), "{}", answer.text);
    }
    // All writes together take several seconds, so the cut comes before the last one.
    assert!(answers.iter().any(|answer| answer.code != "ok"), "nothing was cut off");
    let is_done = command.wait().unwrap().success();
    check_cut_off(&mut served);
    proxy.set_delay(Duration::ZERO);
    proxy.mend();
    wait_for_comeback(&mut served);
    // This write completes what was recorded.
    served.create("/memories/project/after.md", "- after\n");
    setup.run_ok(&["create", "project/later.md", "- later\n"]);
    for (number, id) in ids.iter().enumerate() {
        let answer = answers.iter().find(|answer| answer.id == *id).unwrap();
        assert!(is_whole(&setup, number) || answer.code != "ok", "memory {number} is lost");
    }
    assert!(is_whole(&setup, 100) || !is_done);
    served.close_input();
    let changes = setup.check_coherent(&setup.place);
    let outside: Vec<_> = changes.iter().filter(|change| change["kind"] == "outside").collect();
    // Only what the checkout had at the start.
    assert_eq!(outside.len(), 1, "{outside:?}");
}

/// Runs a hook for the remote project; it has to be quick and must never fail.
fn hook(setup: &RemoteSetup, event: &str) -> CommandOutput {
    let input = fixture(&setup.place, "claude-code", event);
    let args = ["--project", ADDRESS, "hook", event, "--agent", "claude-code"];
    let begun = Instant::now();
    let ended = setup.place.run_with(&args, &input);
    assert!(begun.elapsed() < PROMPT, "{event} took {:?}", begun.elapsed());
    assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{event}: {}", ended.stdout);
    ended
}

#[test]
fn a_silent_network_delays_neither_hooks_nor_other_scopes() {
    let setup = RemoteSetup::installed();
    let proxy = setup.proxy();
    let mut served = setup.serve();
    served.done(&view("/memories/project/deploy.md"));
    eventually(|| {
        let shown = hook(&setup, "session-start").stdout;
        // The memory of the other machine waits for a review here.
        if shown.contains("(1 more waits for") { Ok(()) } else { Err(shown) }
    });
    proxy.freeze();
    let waiting = served.ask(&view("/memories/project/deploy.md"));
    for number in 0..3 {
        let begun = Instant::now();
        let asked = served.ask(&view("/memories/global/tea.md"));
        let answer = served.answer();
        assert_eq!((answer.id, answer.code.as_str()), (asked, "ok"), "{}", answer.text);
        served.create(&format!("/memories/global/{number}.md"), "- here\n");
        assert!(begun.elapsed() < PROMPT, "{:?}", begun.elapsed());
    }
    for event in ["session-start", "user-prompt", "stop"] {
        hook(&setup, event);
    }
    proxy.mend();
    // What was sent meanwhile arrives now.
    let answer = served.answer();
    assert_eq!((answer.id, answer.code.as_str()), (waiting, "ok"), "{}", answer.text);
    served.create("/memories/project/after.md", "- after\n");
    served.close_input();
    setup.wait_until_unused();
    setup.check_coherent(&setup.place);
}

/// Waits until a process here is in the middle of a write there.
fn freeze_within_a_write(setup: &RemoteSetup, proxy: &TcpProxy) {
    eventually(|| {
        let lock = setup.lock_file();
        if lock.contains(" writing ") { Ok(()) } else { Err(lock) }
    });
    proxy.freeze();
}

#[test]
fn a_network_that_vanishes_within_a_write_releases_the_lock_there() {
    let setup = RemoteSetup::installed();
    let proxy = setup.proxy();
    let mut served = setup.serve();
    served.done(&view("/memories/project/deploy.md"));
    proxy.set_delay(DELAY);
    let count = 8;
    for number in 0..count {
        served.ask(&create(number));
    }
    freeze_within_a_write(&setup, &proxy);
    let begun = Instant::now();
    // A process there gets the lock, although no word of the loss arrives.
    eventually(|| {
        let args = ["create", "project/there.md", "- there\n"];
        let ended = setup.command_there(&args).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(begun.elapsed() < SILENCE, "{errors}");
        if ended.status.success() { Ok(()) } else { Err(errors) }
    });
    let answers: Vec<_> = (0..count).map(|_| served.answer()).collect();
    assert!(begun.elapsed() < SILENCE + PROMPT, "{:?}", begun.elapsed());
    let lost = answers.iter().filter(|answer| answer.code == "scope_unavailable").count();
    let done = answers.iter().filter(|answer| answer.code == "ok").count();
    assert!(lost > 0 && lost + done == count, "{answers:?}");
    proxy.set_delay(Duration::ZERO);
    proxy.mend();
    wait_for_comeback(&mut served);
    served.create("/memories/project/after.md", "- after\n");
    for number in 0..count {
        is_whole(&setup, number);
    }
    served.close_input();
    setup.wait_until_unused();
    setup.check_coherent(&setup.place);
    setup.check_coherent_there();
}

#[test]
fn a_machine_that_restarts_is_used_again_without_a_restart_here() {
    let mut setup = RemoteSetup::installed();
    let mut served = setup.serve();
    served.create("/memories/project/a.md", "- one\n");
    SshServer::stop(&mut setup.server);
    check_cut_off(&mut served);
    setup.server.restart().unwrap();
    wait_for_comeback(&mut served);
    served.create("/memories/project/b.md", "- two\n");
    served.close_input();
    setup.check_coherent(&setup.place);
}
