//! Tests of background reviews: turns over HTTP with a daemon that is killed at any moment, and hooks.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{ModelReply, ModelServer, Random, delay_fault, eventually};

use crate::daemon::{Daemon, PATIENCE};
use crate::hooks::{fixture, hook, prompted};
use crate::sandbox::Sandbox;

/// Number of turns of the conversation during the kills, and of turns between two reviews.
const TURNS: u64 = 100;
const INTERVAL: u64 = 3;

fn settings(place: &Sandbox, text: &str, server: Option<&ModelServer>) {
    let models = server.map(|server| {
        let url = server.url();
        format!("[models]\nreview = 'local/small'\n[models.providers.local]\nurl = \"{url}\"\n")
    });
    let text = format!("{text}\n{}", models.unwrap_or_default());
    fs::write(place.home().join("config.toml"), text).unwrap();
}

fn reviews(daemon: &Daemon) -> Vec<Value> {
    let listed = daemon.get("/v1/tasks?kind=review&max=100").json();
    listed["tasks"].as_array().unwrap().clone()
}

pub(crate) fn ended(daemon: &Daemon) -> Vec<Value> {
    // A hook queues a task itself if the daemon is too busy to answer; the daemon finds the task at its next poll.
    eventually(|| {
        let reviews = reviews(daemon);
        let has_ended = |one: &Value| one["status"] == "completed" || one["status"] == "failed";
        if reviews.iter().all(has_ended) { Ok(reviews) } else { Err(reviews) }
    })
}

#[test]
fn kills_between_any_two_steps_leave_every_third_turn_its_one_review() {
    let seed = std::env::var("LUKASA_TEST_SEED").ok().map(|seed| seed.parse().unwrap());
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one("reviews"));
    println!("the same moments again: LUKASA_TEST_SEED={seed}");
    let mut random = Random::new(seed);
    let server = ModelServer::scripted(vec![ModelReply::text("Nothing to save.")]).unwrap();
    let place = Sandbox::new();
    settings(&place, &format!("memory_review_interval = {INTERVAL}"), Some(&server));
    let mut daemon = Daemon::start(&place);
    daemon.post("/v1/sessions", &json!({ "sessionId": "talk" }));
    for number in 1..=TURNS {
        let messages = json!([
            { "role": "user", "text": format!("do step {number}") },
            { "role": "assistant", "text": "Done." },
        ]);
        let turn = json!({ "eventId": format!("turn {number}"), "messages": messages });
        if random.below(4) == 0 {
            let address = daemon.address().to_owned();
            let body = turn.clone();
            let asked = thread::spawn(move || {
                crate::daemon::crash::try_request(
                    &address,
                    "POST",
                    "/v1/sessions/talk/turns",
                    &body,
                )
            });
            delay_fault(Duration::from_micros(u64::try_from(random.below(12_000)).unwrap()));
            daemon.kill();
            asked.join().unwrap();
            daemon = Daemon::start(&place);
            // Like a host that resumes a conversation, because its first row may not have been written yet.
            daemon.post("/v1/sessions", &json!({ "sessionId": "talk" }));
        }
        // A request without an answer is sent again.
        let answer = daemon.post("/v1/sessions/talk/turns", &turn);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json()["turns"], number);
        ended(&daemon);
    }
    let reviews = ended(&daemon);
    assert_eq!(u64::try_from(reviews.len()).unwrap(), TURNS / INTERVAL, "{reviews:#?}");
    assert!(reviews.iter().all(|one| one["status"] == "completed"), "{reviews:#?}");
    // Each step was read by one review, and none by two.
    let read = |number: u64| {
        let said = format!("do step {number}\\\"");
        let asked = server.requests().into_iter().filter(|asked| asked.text().contains(&said));
        asked.map(|asked| asked.text()).collect::<std::collections::BTreeSet<_>>().len()
    };
    for number in 1..TURNS {
        assert_eq!(read(number), 1, "step {number}");
    }
}

#[test]
fn the_result_of_a_review_is_shown_in_every_interface() {
    let add = |text: &str| {
        let arguments = json!({ "target": "user", "text": text, "evidence": ["m1"] });
        ModelReply::call("add_memory", arguments)
    };
    let script = vec![add("I prefer tabs everywhere"), ModelReply::text("Saved one.")];
    let server = ModelServer::scripted(script).unwrap();
    let place = Sandbox::new();
    settings(&place, "memory_review_interval = 1\nmemory_review_verbose = true", Some(&server));
    let daemon = Daemon::start(&place);
    let stream = daemon.stream("/v1/events", &[]);
    daemon.post("/v1/sessions", &json!({ "sessionId": "talk" }));
    let messages = json!([{ "role": "user", "text": "I prefer tabs everywhere" }]);
    daemon.post("/v1/sessions/talk/turns", &json!({ "messages": messages }));
    let told = loop {
        let envelope = serde_json::to_value(stream.next().unwrap()).unwrap();
        if envelope["type"] == "memory_reviewed" {
            break envelope["data"].clone();
        }
    };
    assert_eq!(told["saved"], 1);
    assert_eq!(told["message"], "Saved 1 memory from your last conversation.");
    let [review] = ended(&daemon).try_into().unwrap();
    assert_eq!(review["kind"], "review");
    assert_eq!(review["result"]["summary"], "Saved 1 memory.");
    assert_eq!(review["result"]["leftOut"], json!({}));
    // It is only in the list, because no caller can request a review.
    let id = review["taskId"].as_str().unwrap();
    assert_eq!(daemon.get(&format!("/workspace/memory/review/{id}")).status, 404);
    assert_eq!(daemon.post("/workspace/memory/review", &json!({})).status, 404);
    let change = place.json(&["log", "-n", "1"]);
    assert_eq!(change["note"], "Said in turn 1: “I prefer tabs everywhere”");
    let waiting = place.run_ok(&["pending"]);
    assert!(waiting.contains("A background review"), "{waiting}");
    let runs = place.run_ok(&["runs"]);
    assert!(runs.contains("review\tlocal/small"), "{runs}");
    assert!(place.run_ok(&["accept"]).contains("background_review"));
    place.run_ok(&["undo", "--task", id, "-y"]);
    assert!(!place.run_ok(&["ls"]).contains("tabs"));
}

#[test]
fn invalid_settings_are_reported_with_their_line() {
    let place = Sandbox::new();
    for (text, what) in [
        ("memory_review_interval = -1", "config.toml:1: invalid value: integer `-1`"),
        ("memory_review_interval = 20000", "config.toml:1: memory_review_interval must be at most"),
        ("memory_review_timeout = 0", "config.toml:1: memory_review_timeout must be from 1 to"),
        (
            "memory_review_model = 'x'",
            "config.toml:1: memory_review_model: expected a model such as",
        ),
    ] {
        settings(&place, text, None);
        let ended = place.run(&["ls"]);
        assert_ne!(ended.status, 0, "{text}");
        assert!(ended.stderr.contains(what), "{text}: {}", ended.stderr);
    }
}

/// Sends the hook events of one turn of an agent.
fn turn(place: &Sandbox, agent: &str, prompt: &str) {
    let said = hook(place, &["user-prompt", "--agent", agent], &prompted(place, agent, prompt));
    assert_eq!((said.status, said.stderr.as_str()), (0, ""));
    for _ in 0..2 {
        // Some agents send the end of a turn twice.
        let ended = hook(place, &["stop", "--agent", agent], &fixture(place, agent, "stop"));
        assert_eq!((ended.status, ended.stdout.as_str()), (0, ""), "{agent}");
    }
}

#[test]
fn hooks_alone_are_enough_for_a_review_by_the_rules() {
    for agent in ["claude-code", "codex", "gemini", "qwen", "copilot", "cursor"] {
        let place = Sandbox::new();
        settings(&place, "memory_review_interval = 2", None);
        turn(&place, agent, "From now on always answer me in German.");
        assert_eq!(place.run_ok(&["ls"]), "", "{agent}: one turn is not enough");
        turn(&place, agent, "Now list the files.");
        let begun = Instant::now();
        let mut listed = place.run_ok(&["ls"]);
        while listed.is_empty() && begun.elapsed() < PATIENCE {
            // On a busy machine a hook may end before the review, and the next hook continues it.
            hook(&place, &["stop", "--agent", agent], &fixture(&place, agent, "stop"));
            listed = place.run_ok(&["ls"]);
        }
        assert!(listed.contains("global/"), "{agent}: {listed}");
        let found = place.run_ok(&["search", "German"]);
        assert!(found.contains("German"), "{agent}: {found}");
    }
}

#[test]
fn hooks_send_turns_to_a_daemon_and_a_transcript_fills_gaps() {
    let server = ModelServer::scripted(vec![ModelReply::text("Nothing to save.")]).unwrap();
    let place = Sandbox::new();
    settings(&place, "memory_review_interval = 1", Some(&server));
    let transcript = place.home().join("transcript.jsonl");
    let line = json!({ "type": "assistant.message", "data": { "content": "I ran the parser." } });
    fs::write(&transcript, format!("{line}\n")).unwrap();
    let daemon = Daemon::start(&place);
    let mut told: Value = serde_json::from_str(&fixture(&place, "copilot", "stop")).unwrap();
    told["transcriptPath"] = transcript.to_str().unwrap().into();
    hook(&place, &["user-prompt", "--agent", "copilot"], &prompted(&place, "copilot", "go on"));
    hook(&place, &["stop", "--agent", "copilot"], &told.to_string());
    assert_eq!(ended(&daemon).len(), 1);
    let sent = server.requests()[0].text();
    assert!(sent.contains("I ran the parser.") && sent.contains("go on"), "{sent}");
}
