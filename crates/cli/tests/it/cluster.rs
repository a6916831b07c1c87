//! Several daemons on one PostgreSQL database: kills of daemons and of the server, and owners.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::postgres::{PostgresServer, PostgresVersion};
use testkit::{delay_fault, eventually};

use crate::daemon::crash::try_request;
use crate::daemon::{Daemon, TOKEN};
use crate::sandbox::Sandbox;

mod balanced;
mod identity_provider;
mod owners;
mod readers;

/// Daemons on one database.
const DAEMONS: usize = 3;
/// Kills of a daemon under load.
const KILLS: usize = 2;

/// A database server, with a database for daemons.
struct Database {
    server: PostgresServer,
    address: String,
}

impl Database {
    fn start(version: PostgresVersion) -> Self {
        let server = PostgresServer::start(version, &[]).unwrap();
        let address = server.create_database("lukasa").unwrap();
        Self { server, address }
    }

    /// Returns the command of a daemon with a home of its own.
    fn command(&self, place: &Sandbox, args: &[&str]) -> Command {
        let args = [&["--workspace-id", "team"], args].concat();
        let mut command = Daemon::command(place, &args);
        command.env("LUKASA_TOKEN", TOKEN).env("LUKASA_DATABASE", &self.address);
        command
    }

    fn daemon(&self, place: &Sandbox) -> Daemon {
        Daemon::start_by(self.command(place, &[]))
    }
}

/// The text of a memory that a writer makes.
fn text(name: &str) -> String {
    format!("- head of {name}\n{}", format!("- body of {name}\n").repeat(20))
}

/// The acknowledged writes and the accepted tasks of a writer.
#[derive(Default)]
struct Acknowledged {
    written: Vec<String>,
    tasks: Vec<(String, String)>,
}

/// Writes memories and starts tasks at one daemon after the other until `stop`.
fn write(name: &str, addresses: &Mutex<Vec<String>>, stop: &AtomicBool) -> Acknowledged {
    let mut acknowledged = Acknowledged::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let address = addresses.lock().unwrap()[number % DAEMONS].clone();
        let file = format!("{name}-{number}");
        let path = format!("/v1/memories/workspace/{file}.md");
        let put = try_request(&address, "PUT", &path, &json!({ "text": text(&file) }));
        if let Some(answer) = put {
            assert!(matches!(answer.status, 201 | 503), "{}", answer.text());
            if answer.status == 201 {
                acknowledged.written.push(file.clone());
            }
        }
        if number % 5 == 0 {
            let fact = format!("The berth of boat zq{name}{number} is number {number}.");
            let body = json!({ "content": fact, "scope": "user" });
            let post = try_request(&address, "POST", "/workspace/memory/remember", &body);
            if let Some(answer) = post.filter(|answer| answer.status == 202) {
                let id = answer.json()["taskId"].as_str().unwrap().to_owned();
                acknowledged.tasks.push((fact, id));
            }
        }
    }
    acknowledged
}

#[test]
fn killed_daemons_lose_nothing_and_the_others_do_their_work_once() {
    let database = Database::start(PostgresVersion::Debian);
    let places: Vec<_> = (0..DAEMONS).map(|_| Sandbox::new()).collect();
    let mut daemons: Vec<_> = places.iter().map(|place| database.daemon(place)).collect();
    let address = |daemon: &Daemon| daemon.address().to_owned();
    let addresses = Mutex::new(daemons.iter().map(address).collect());
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = ["a", "b", "c"]
            .map(|name| {
                let (addresses, stop) = (&addresses, &stop);
                scope.spawn(move || write(name, addresses, stop))
            })
            .into();
        for kill in 0..KILLS {
            delay_fault(Duration::from_millis(1_500));
            let index = kill % DAEMONS;
            daemons.remove(index).kill();
            daemons.insert(index, database.daemon(&places[index]));
            addresses.lock().unwrap()[index] = address(&daemons[index]);
        }
        delay_fault(Duration::from_millis(1_500));
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });

    let written: Vec<_> = acknowledged.iter().flat_map(|by_one| &by_one.written).collect();
    let tasks: Vec<_> = acknowledged.iter().flat_map(|by_one| &by_one.tasks).collect();
    assert!(written.len() > 20 && tasks.len() > 5, "{} and {}", written.len(), tasks.len());
    for (_, id) in &tasks {
        let task = daemons[0].finished("remember", id, None);
        assert_eq!(task["status"], "completed", "{task}");
    }
    for daemon in &daemons {
        for name in &written {
            let read = daemon.get(&format!("/v1/memories/workspace/{name}.md"));
            assert_eq!(read.status, 200, "{name} was acknowledged: {}", read.text());
            assert_eq!(read.json()["text"].as_str(), Some(text(name).as_str()));
        }
        let mut shown = String::new();
        for memory in daemon.get("/v1/memories?limit=500").json()["memories"].as_array().unwrap() {
            let path = memory["path"].as_str().unwrap();
            if let Some(path) = path.strip_prefix("/memories/global/") {
                let read = daemon.get(&format!("/v1/memories/global/{path}")).json();
                shown += read["text"].as_str().unwrap();
            }
        }
        for (fact, _) in &tasks {
            assert_eq!(shown.matches(&format!("- {fact}")).count(), 1, "{fact}: {shown}");
        }
    }
    let health = daemons[0].get("/health?deep=1").json();
    assert_eq!(health["status"], "ok", "{health}");
}

#[test]
fn requests_are_refused_for_a_while_when_the_server_is_away() {
    let mut database = Database::start(PostgresVersion::Newest);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let put = |name: &str| {
        let path = format!("/v1/memories/global/{name}.md");
        daemon.ask("PUT", &path).json(&json!({ "text": "text\n" })).send()
    };
    assert_eq!(put("before").status, 201);
    database.server.kill().unwrap();
    let view = json!({ "command": "view", "path": "/memories/global/before.md" });
    for answer in [put("away"), daemon.get("/v1/memories"), daemon.post("/v1/tool", &view)] {
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert_eq!(answer.json()["code"], "storage_unavailable", "{}", answer.text());
        assert!(answer.header("Retry-After").is_some(), "{answer:?}");
    }
    database.server.restart().unwrap();
    eventually(|| match put("after").status {
        201 | 428 => Ok(()),
        other => Err(other),
    });
    for name in ["before", "after"] {
        assert_eq!(daemon.get(&format!("/v1/memories/global/{name}.md")).status, 200);
    }
}

#[test]
fn daemons_of_two_owners_share_nothing_but_the_database() {
    let database = Database::start(PostgresVersion::Debian);
    let places = [Sandbox::new(), Sandbox::new()];
    let [one, other] = [("one", &places[0]), ("other", &places[1])]
        .map(|(owner, place)| Daemon::start_by(database.command(place, &["--owner", owner])));
    let path = "/v1/memories/global/own.md";
    let made = one.ask("PUT", path).json(&json!({ "text": "The secret of one.\n" })).send();
    assert_eq!(made.status, 201);
    let task = one.task("remember", &json!({ "content": "The berth of boat zq is number 7." }));
    assert_eq!(task["status"], "completed");
    assert_eq!(other.get(path).status, 404);
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(other.get(&format!("/workspace/memory/remember/{id}")).status, 404);
    for route in ["/v1/memories", "/v1/changes", "/v1/workspaces", "/v1/runs"] {
        let shown = other.get(route).text();
        assert!(!shown.contains("own.md") && !shown.contains("zq"), "{route}: {shown}");
    }
    assert_eq!(other.get("/v1/changes").json()["changes"], Value::Array(Vec::new()));
    let made = other.ask("PUT", path).json(&json!({ "text": "The secret of the other.\n" })).send();
    assert_eq!(made.status, 201);
    assert!(one.get(path).text().contains("The secret of one."));
}

#[test]
fn a_wrong_address_or_owner_is_named_without_the_password() {
    let place = Sandbox::new();
    let address = "postgres://user:pa55word@127.0.0.1:1/none";
    let run = |address: &str, args: &[&str]| {
        let mut command = place.lukasa(&[&["serve"], args].concat());
        let ended = place.run_command(command.env("LUKASA_DATABASE", address));
        assert!(!ended.shown().contains("pa55word"), "{}", ended.shown());
        (ended.status, ended.stderr)
    };
    let (status, error) = run(address, &[]);
    assert!(status == 75 && error.contains("postgres://127.0.0.1:1/none"), "{status}: {error}");
    for (address, args) in [
        ("sqlite://pa55word", &[][..]),
        ("postgres://user:pa55@word/x@127.0.0.1/none", &[]),
        (address, &["--owner", ""]),
        (address, &["--owner", "a\nb"]),
        (address, &["--workspace", "."]),
    ] {
        let (status, error) = run(address, args);
        assert!(status == 2, "{args:?}: {status}: {error}");
    }
}
