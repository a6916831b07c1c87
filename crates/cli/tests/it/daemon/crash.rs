//! Tests that kill a daemon at random moments under load, again and again.
//!
//! Acknowledged writes must exist, accepted tasks must be done once, no file may be half-written, and the numbers of
//! events must be unique.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Random, delay_fault};

use super::{Daemon, EventStreamReader, HttpResponse, TOKEN};
use crate::sandbox::Sandbox;

/// The number of kills; `LUKASA_TEST_KILLS` overrides it.
const KILLS: usize = 20;

/// The names of the concurrent callers.
const CALLERS: usize = 4;

/// The requests of a caller to one daemon process, with the answers before the kill.
#[derive(Default)]
pub(super) struct CallLog {
    /// Memories that were sent, each with whether the write was acknowledged.
    written: Vec<(String, bool)>,
    /// Facts to remember, each with the task if it was accepted.
    requested: Vec<(String, Option<String>)>,
}

fn text(name: &str) -> String {
    format!("- head of {name}\n{}", format!("- body of {name}\n").repeat(40))
}

/// Sends a request and returns the answer if it is complete.
pub(crate) fn try_request(
    address: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Option<HttpResponse> {
    let mut stream = TcpStream::connect(address).ok()?;
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all((head + &body).as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let length = String::from_utf8_lossy(&bytes).lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok()
    })?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    (bytes.len() == end + length).then(|| HttpResponse::parse(&bytes))
}

/// Writes memories and starts tasks until the daemon does not answer, at most `times` times.
pub(super) fn call(address: &str, name: &str, times: usize) -> CallLog {
    call_with_progress(address, name, times, || {})
}

/// Works like [`call`], and calls `tell` after each acknowledged write.
fn call_with_progress(address: &str, name: &str, times: usize, tell: impl Fn()) -> CallLog {
    let mut told = CallLog::default();
    for number in 0..times {
        let name = format!("{name}-{number}");
        let path = format!("/v1/memories/project/{name}.md");
        let put = try_request(address, "PUT", &path, &json!({ "text": text(&name) }));
        let lives = put.is_some();
        let is_acknowledged = put.is_some_and(|answer| answer.status == 201);
        if is_acknowledged {
            tell();
        }
        told.written.push((name.clone(), is_acknowledged));
        if number % 3 == 0 {
            let fact =
                format!("The berth of boat zq{} is number {number}.", name.replace('-', "x"));
            let body = json!({ "content": fact, "scope": "user" });
            let post = try_request(address, "POST", "/workspace/memory/remember", &body);
            let task = post.and_then(|answer| {
                assert!(matches!(answer.status, 202 | 429 | 503), "{}", answer.text());
                (answer.status == 202).then(|| answer.json()["taskId"].as_str().unwrap().to_owned())
            });
            told.requested.push((fact, task));
        }
        if !lives {
            break;
        }
    }
    told
}

/// Reads a stream to its end; returns its epoch and the last number.
fn read_to_end(stream: &EventStreamReader) -> (String, u64) {
    let epoch = stream.head.header("X-Qwen-Event-Epoch").unwrap().to_owned();
    let mut last: u64 = stream.head.header("X-Lukasa-Event-Cursor").unwrap().parse().unwrap();
    while let Some(envelope) = stream.next() {
        if let Some(id) = envelope.id {
            assert_eq!(id, last + 1, "in epoch {epoch}");
            last = id;
        }
    }
    (epoch, last)
}

#[test]
fn kills_under_load_lose_nothing_and_do_nothing_twice() {
    let given = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let seed = given("LUKASA_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one("daemon"));
    println!("the same moments again: LUKASA_TEST_SEED={seed}");
    let kills = given("LUKASA_TEST_KILLS").map_or(KILLS, |kills| usize::try_from(kills).unwrap());
    let mut random = Random::new(seed);
    let place = Sandbox::new();
    std::fs::write(place.home().join("config.toml"), "files_max = 10000\n").unwrap();
    let (mut tolds, mut epochs) = (Vec::new(), BTreeSet::new());
    for round in 0..kills {
        let daemon = Daemon::start(&place);
        let stream = daemon.stream("/v1/events", &[]);
        let address = daemon.address().to_owned();
        let (acknowledged, first) = channel();
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (address, acknowledged) = (address.clone(), acknowledged.clone());
                let name = format!("r{round}-c{caller}");
                let tell = move || acknowledged.send(()).unwrap_or_default();
                thread::spawn(move || call_with_progress(&address, &name, usize::MAX, tell))
            })
            .collect();
        // Every other kill waits for an acknowledged write, so that slow machines test something too.
        if round % 2 == 1 {
            first.recv().unwrap();
        }
        delay_fault(Duration::from_micros(2_000 + u64::try_from(random.below(150_000)).unwrap()));
        daemon.kill();
        tolds.extend(callers.into_iter().map(|caller| caller.join().unwrap()));
        let (epoch, _) = read_to_end(&stream);
        assert!(epochs.insert(epoch), "an epoch came twice");
    }
    let daemon = Daemon::start(&place);
    let acknowledged = examine_memories(&daemon, &tolds);
    assert!(acknowledged >= kills / 2, "only {acknowledged} writes were acknowledged");
    examine_tasks(&place, &daemon, &tolds);
    drop(daemon);
    place.check_healthy();
}

/// Checks every memory that was sent; returns the number of acknowledged ones.
pub(super) fn examine_memories(daemon: &Daemon, tolds: &[CallLog]) -> usize {
    let mut acknowledged = 0;
    for (name, is_acknowledged) in tolds.iter().flat_map(|told| &told.written) {
        let answer = daemon.get(&format!("/v1/memories/project/{name}.md"));
        match answer.status {
            200 => assert_eq!(answer.json()["text"], text(name), "{name} is not whole"),
            404 => assert!(!is_acknowledged, "{name} was acknowledged and is gone"),
            other => panic!("{name}: {other} {}", answer.text()),
        }
        acknowledged += usize::from(*is_acknowledged);
    }
    acknowledged
}

pub(super) fn examine_tasks(place: &Sandbox, daemon: &Daemon, tolds: &[CallLog]) {
    let asked = || tolds.iter().flat_map(|told| &told.requested);
    let ended: Vec<Option<Value>> = asked()
        .map(|(_, task)| task.as_ref().map(|id| daemon.finished("remember", id, None)))
        .collect();
    let kept = place.run_ok(&["grep", "The berth of boat", "global"]);
    let mut completed = 0;
    for ((fact, _), task) in asked().zip(&ended) {
        // Only entries count, because the description of a memory may contain the text too.
        let times = kept.matches(&format!("- {fact}")).count();
        match task {
            // The answer is missing, so the task may have been accepted or not.
            None => assert!(times <= 1, "{times} times: {fact}"),
            Some(task) if task["status"] == "completed" => {
                assert_eq!(times, 1, "{fact}: {task}");
                completed += 1;
            }
            // After two kills a task is given up, without effect.
            Some(task) => {
                let details = "all attempts at it were lost before they ended";
                assert_eq!(task["error"]["details"], details, "{task}");
                assert_eq!(times, 0, "{fact}: {task}");
            }
        }
    }
    assert!(completed > 0, "no task was completed");
}
