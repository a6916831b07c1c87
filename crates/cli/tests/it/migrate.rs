//! Tests of `lukasa migrate`: both directions, kills at each step, refusals, and origins that change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use state::{EnqueueResult, HistoryStore as _, SqliteState, TaskStore as _};
use testkit::conformance::tasks::{new_task, queue_limits};
use testkit::eventually;
use testkit::postgres::{PostgresServer, PostgresVersion};

use crate::daemon::{Daemon, TOKEN};
use crate::pending::propose;
use crate::sandbox::{CommandOutput, Sandbox};

/// The name of the database of these tests.
const DATABASE: &str = "lukasa";

fn server() -> (PostgresServer, String) {
    let server = PostgresServer::start(PostgresVersion::Newest, &[]).unwrap();
    let address = server.create_database(DATABASE).unwrap();
    (server, address)
}

/// Starts a daemon of the workspace `team`, outside of any checkout.
fn daemon(place: &Sandbox, args: &[&str]) -> Daemon {
    let mut command = Daemon::command(place, &[&["--workspace-id", "team"], args].concat());
    command.env("LUKASA_TOKEN", TOKEN).current_dir(place.path());
    Daemon::start_by(command)
}

/// Runs a command line with another home.
fn run_at(place: &Sandbox, home: &Path, args: &[&str]) -> CommandOutput {
    place.run_command(place.lukasa(args).env("LUKASA_HOME", home))
}

fn migrate(place: &Sandbox, args: &[&str]) -> CommandOutput {
    place.run(&[&["migrate", "--json"], args].concat())
}

fn succeed(ended: &CommandOutput) -> Value {
    assert_eq!(ended.status, 0, "{}", ended.shown());
    serde_json::from_str(&ended.stdout).unwrap()
}

/// Returns status and code of a command that failed.
fn refused(ended: &CommandOutput) -> (i32, String) {
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    (ended.status, error["error"]["code"].as_str().unwrap().to_owned())
}

/// Returns the memories below a folder, by path, without the generated indexes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("MEMORY.md") {
                let bytes = fs::read(&path).unwrap();
                found.insert(path.strip_prefix(folder).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

/// Returns all memories of a home that belong to no checkout.
fn memories(home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let folders = ["memory", "projects", "state/workspaces"];
    let all = folders.iter().flat_map(|name| {
        let found = files(&home.join(name)).into_iter();
        found.map(|(path, bytes)| (Path::new(name).join(path), bytes))
    });
    all.filter(|(path, _)| !path.ends_with("checkout")).collect()
}

/// Makes a home with memories in all scopes, history of all kinds, pins, usage, proposals, tasks and an external edit.
async fn full_home() -> Sandbox {
    let place = Sandbox::new();
    let team = ["--workspace-id", "team"];
    let host = ["--project-root", "host"];
    place.create("global/tea.md", "- Likes tea\n- Drinks tea\n- Green tea\n");
    place.create("global/old.md", "- An old fact\n");
    place.create("project/build.md", "- Build with make\n");
    place.run_ok(&["replace", "project/build.md", "make", "just"]);
    for args in [
        &["create", "workspace/plan.md", "- Ship on Friday"][..],
        &["create", "workspace/notes/later.md", "- Later: größer, 日本語, \u{1f980}"],
        &["replace", "workspace/plan.md", "Friday", "Monday"],
        &["mv", "workspace/notes", "workspace/kept"],
        &["pin", "workspace/plan.md"],
    ] {
        place.run_ok(&[args, &team].concat());
    }
    place.run_ok(&[&["create", "project/host.md", "- Kept on the host"][..], &host].concat());
    place.run_ok(&[&["replace", "project/host.md", "host", "machine"][..], &host].concat());
    place.run_ok(&["rm", "-y", "global/old.md"]);
    place.run_ok(&["undo", "-y"]);
    place.run_ok(&["rm", "-y", "global/old.md"]);
    place.run_ok(&["pin", "global/tea.md"]);
    propose(&place, "gone", &[("global", "tea.md", Some("Green tea"), None)]).await;
    let both = [
        ("global", "tea.md", Some("Drinks tea"), None),
        ("project", "build.md", None, Some("Drinks tea")),
    ];
    propose(&place, "said twice", &[("global", "tea.md", Some("Drinks tea"), None)]).await;
    propose(&place, "of the project", &both).await;
    place.run_ok(&["pending", "reject", "1"]);
    let at_home = daemon(&place, &[]);
    let task = at_home.task("remember", &json!({ "content": "The berth of boat zq is number 7." }));
    assert_eq!(task["status"], "completed");
    let view = json!({ "command": "view", "path": "/memories/global/tea.md" });
    assert_eq!(at_home.post("/v1/tool", &view).status, 200);
    at_home.log();
    let edited = place.home().join("memory/tea.md");
    let text = fs::read_to_string(&edited).unwrap();
    fs::write(&edited, format!("{text}- Edited outside\n")).unwrap();
    fs::write(place.home().join("memory/found.md"), "- Found outside\n").unwrap();
    place
}

/// Returns what a daemon shows of memories, history, proposals and usage. The external edits are recorded first, and
/// their times differ.
fn shown(daemon: &Daemon) -> Value {
    let get = |path: &str| {
        let answer = daemon.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()
    };
    let listed = get("/v1/memories?limit=500");
    let mut changes = get("/v1/changes?max=200")["changes"].clone();
    for change in changes.as_array_mut().unwrap() {
        if change["kind"] == "outside" {
            change["at"] = Value::Null;
        }
    }
    let mut texts = BTreeMap::new();
    for memory in listed["memories"].as_array().unwrap() {
        let path = memory["path"].as_str().unwrap().strip_prefix("/memories/").unwrap();
        let mut text = get(&format!("/v1/memories/{path}"));
        if text["trust"] == "outside" {
            text["lastWrittenAt"] = Value::Null;
        }
        texts.insert(path.to_owned(), text);
    }
    json!({
        "memories": listed["memories"], "changes": changes, "texts": texts,
        "pending": get("/v1/pending"),
    })
}

#[tokio::test]
async fn a_home_moves_to_a_database_and_back_with_everything() {
    let place = full_home().await;
    let (server, address) = server();
    let before = memories(&place.home());
    let said = succeed(&migrate(&place, &["--to", &address, "--owner", "ann"]));
    assert_eq!((&said["copied"], &said["compared"]), (&json!(true), &json!(true)), "{said}");
    assert_eq!(said["memories"]["workspace:team"], 3, "{said}");
    assert_eq!(said["left"]["roots_in_checkouts"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(memories(&place.home()), before);

    // Both sides show the same, with the same numbers.
    let other = Sandbox::new();
    let in_database = daemon(&other, &["--database", &address, "--owner", "ann"]);
    let at_home = daemon(&place, &[]);
    let here = shown(&at_home);
    assert_eq!(shown(&in_database), here);
    assert!(here["texts"]["global/tea.md"]["text"].as_str().unwrap().contains("Edited outside"));
    for daemon in [&in_database, &at_home] {
        let recalled = daemon.get("/v1/recall?q=when%20do%20we%20ship%3F").text();
        assert!(recalled.contains("Ship on Monday"), "{recalled}");
    }
    at_home.log();

    // An old change is undone there, with its content from history, and gets a higher number.
    let last = here["changes"][0]["id"].as_i64().unwrap();
    let removal =
        here["changes"].as_array().unwrap().iter().find(|change| change["kind"] == "delete");
    let undone = in_database.post("/v1/undo", &json!({ "changes": [removal.unwrap()["id"]] }));
    assert_eq!(undone.status, 200, "{}", undone.text());
    assert!(undone.json()["change"].as_i64().unwrap() > last, "{}", undone.text());
    assert_eq!(in_database.get("/v1/memories/global/old.md").json()["text"], "- An old fact\n");
    let accepted = in_database.post("/v1/pending/accept", &json!({ "ids": [2] }));
    assert_eq!(accepted.status, 200, "{}", accepted.text());
    let there = shown(&in_database);
    in_database.log();

    // And back to a new home.
    let fresh = place.path().join("fresh");
    let fresh_text = fresh.display().to_string();
    succeed(&migrate(&place, &["--from", &address, "--owner", "ann", "--to", &fresh_text]));
    let home = Sandbox::new();
    fs::remove_dir_all(home.home()).unwrap();
    succeed(&migrate(&home, &["--from", &address, "--owner", "ann"]));
    assert_eq!(memories(&home.home()), memories(&fresh));
    let back = daemon(&home, &[]);
    assert_eq!(shown(&back), there);
    back.log();
    home.check_healthy();
    // The history of the checkout is in use again, since the checkout is where it was.
    let log = run_at(&place, &fresh, &["log", "project/build.md"]);
    assert_eq!(log.stdout.lines().count(), 2, "{}", log.shown());
    let host = ["view", "project/host.md", "--project-root", "host"];
    assert_eq!(run_at(&place, &fresh, &host).stdout, "- Kept on the machine\n");
    let undo = run_at(&place, &fresh, &["undo", "4", "-y"]);
    assert_eq!(undo.status, 0, "{}", undo.shown());
    assert_eq!(place.view("project/build.md"), "- Build with make\n");
    assert_eq!(server.query(DATABASE, "SELECT name FROM owners").unwrap(), "ann\n");
}

#[tokio::test]
async fn a_home_with_unfinished_tasks_is_not_copied() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n")]);
    let (server, address) = server();
    let state = SqliteState::new(place.home().join("state/lukasa.db"));
    let queued = state.enqueue(new_task("remember", 1), queue_limits()).await;
    assert!(matches!(queued.unwrap(), EnqueueResult::Queued(_)));
    state.close().await;
    let refusal = migrate(&place, &["--to", &address]);
    assert_eq!(refused(&refusal), (75, "locked".to_owned()), "{}", refusal.shown());
    assert_eq!(server.query(DATABASE, "SELECT count(*) FROM owners").unwrap(), "0\n");
    assert_eq!(
        succeed(&migrate(&place, &["--to", &address, "--dry-run"]))["left"]["unfinished_tasks"],
        1
    );
}

/// The signal that ends a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Killed,
    /// By Ctrl-C.
    Interrupted,
}

/// Starts a copy and ends it once the server waits at the statement that `hook` delays.
fn end_at(place: &Sandbox, server: &PostgresServer, args: &[&str], how: Ending) {
    let mut command = place.command(&[&["migrate", "--json"], args].concat());
    let mut child: Child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    eventually(|| match server.query(DATABASE, sleeping) {
        Ok(count) if count == "1\n" => Ok(()),
        other => Err((other, child.try_wait())),
    });
    match how {
        Ending::Killed => child.kill().unwrap(),
        Ending::Interrupted => {
            let pid = child.id().to_string();
            let sent = std::process::Command::new("kill").args(["-s", "INT", &pid]).status();
            assert!(sent.unwrap().success());
        }
    }
    let status = child.wait().unwrap().code();
    assert_eq!(status, if how == Ending::Killed { None } else { Some(130) });
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    server.query(DATABASE, end).unwrap();
}

/// Makes each write of this kind to a table run a statement first.
fn hook(server: &PostgresServer, (event, table): (&str, &str), statement: &str) {
    let create = format!(
        "CREATE OR REPLACE FUNCTION hook() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN {statement}; RETURN NEW; END $$;
        CREATE TRIGGER hook BEFORE {event} ON {table} FOR EACH STATEMENT EXECUTE FUNCTION hook()"
    );
    server.query(DATABASE, &create).unwrap();
}

fn unhook(server: &PostgresServer, table: &str) {
    server.query(DATABASE, &format!("DROP TRIGGER hook ON {table}")).unwrap();
}

/// The steps of a copy to a database.
const STEPS: [(&str, &str); 8] = [
    ("INSERT", "changes"),
    ("INSERT", "contents"),
    ("INSERT", "heads"),
    ("INSERT", "proposals"),
    ("UPDATE", "counters"),
    ("INSERT", "files"),
    ("INSERT", "roots"),
    ("UPDATE", "owners"),
];

#[tokio::test]
async fn a_copy_that_is_killed_at_any_step_is_not_served_and_is_begun_again() {
    let place = full_home().await;
    let (server, address) = server();
    // Another owner, whose rows stay as they are.
    let other = Sandbox::with(&[("global/own.md", "- Of another owner\n")]);
    succeed(&migrate(&other, &["--to", &address, "--owner", "other"]));
    let of_other =
        "SELECT md5(string_agg(f::text, '' ORDER BY f.place, f.path)) FROM files f, owners o
        WHERE o.id = f.owner AND o.name = 'other'";
    let untouched = server.query(DATABASE, of_other).unwrap();
    for (event, table) in STEPS {
        hook(&server, (event, table), "PERFORM pg_sleep(60)");
        let how = if table == "heads" { Ending::Interrupted } else { Ending::Killed };
        end_at(&place, &server, &["--to", &address], how);
        unhook(&server, table);
        let names = server.query(DATABASE, "SELECT name FROM owners ORDER BY name").unwrap();
        assert_eq!(names, " incoming default\nother\n", "{table}");
        if table != STEPS[0].1 {
            // As after the time limit of the lock.
            server.query(DATABASE, "UPDATE leases SET holder = NULL").unwrap();
        }
    }
    // A full disk of the server is an error, and leaves nothing.
    hook(&server, ("INSERT", "files"), "RAISE EXCEPTION USING ERRCODE = '53100'");
    let full = migrate(&place, &["--to", &address]);
    assert_eq!(refused(&full), (6, "storage_full".to_owned()), "{}", full.shown());
    unhook(&server, "files");
    assert_eq!(server.query(DATABASE, "SELECT name FROM owners").unwrap(), "other\n");

    succeed(&migrate(&place, &["--to", &address]));
    let names = server.query(DATABASE, "SELECT name FROM owners ORDER BY name").unwrap();
    assert_eq!(names, "default\nother\n");
    let orphans = "SELECT count(*) FROM files WHERE owner NOT IN (SELECT id FROM owners)";
    assert_eq!(server.query(DATABASE, orphans).unwrap(), "0\n");
    assert_eq!(server.query(DATABASE, of_other).unwrap(), untouched);
    let reader = Sandbox::new();
    let (in_database, at_home) = (daemon(&reader, &["--database", &address]), daemon(&place, &[]));
    assert_eq!(shown(&in_database), shown(&at_home));
}

#[tokio::test]
async fn a_copy_to_a_home_that_is_killed_leaves_nothing_in_it() {
    let place = full_home().await;
    let (server, address) = server();
    succeed(&migrate(&place, &["--to", &address]));
    let home = Sandbox::new();
    for table in ["heads", "files"] {
        // The copy waits for this lock when it reads the table the second time.
        let lock =
            format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(60)");
        thread::scope(|scope| {
            let locking = scope.spawn(|| server.query(DATABASE, &lock));
            let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            eventually(|| match server.query(DATABASE, sleeping) {
                Ok(count) if count == "1\n" => Ok(()),
                other => Err(other),
            });
            let mut command = home.command(&["migrate", "--from", &address]);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            eventually(|| match server.query(DATABASE, waiting) {
                Ok(count) if count == "1\n" => Ok(()),
                other => Err((other, child.try_wait())),
            });
            child.kill().unwrap();
            child.wait().unwrap();
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            server.query(DATABASE, end).unwrap();
            locking.join().unwrap().unwrap_err();
        });
        assert_eq!(memories(&home.home()), BTreeMap::new());
        assert!(!home.home().join("state/lukasa.db").exists());
    }
    succeed(&migrate(&home, &["--from", &address]));
    assert_eq!(memories(&home.home()), memories(&place.home()));
    assert!(!home.home().join(".lukasa-incoming").exists());
    assert!(!home.home().join("state/.lukasa-incoming").exists());
}

#[test]
fn what_has_memories_is_not_overwritten_and_other_mistakes_are_named() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n")]);
    let (server, address) = server();
    let empty = Sandbox::new();
    let check = |place: &Sandbox, args: &[&str], status: i32, code: &str, word: &str| {
        let ended = migrate(place, args);
        assert_eq!(refused(&ended), (status, code.to_owned()), "{args:?}: {}", ended.shown());
        assert!(ended.stderr.contains(word), "{args:?}: {}", ended.shown());
    };
    check(&place, &[], 2, "invalid_arguments", "--from");
    check(&place, &["--to", "sqlite://pa55word"], 2, "invalid_arguments", "postgres://");
    check(&place, &["--from", "a", "--to", "b"], 2, "invalid_arguments", "homes");
    check(&place, &["--from", &address, "--to", &address], 2, "invalid_arguments", "pg_dump");
    check(&place, &["--to", "elsewhere"], 2, "invalid_arguments", "LUKASA_DATABASE");
    check(&place, &["--to", &address, "--owner", "a\nb"], 2, "invalid_arguments", "--owner");
    check(&empty, &["--to", &address], 1, "not_found", "no memories");
    check(&place, &["--from", "nowhere", "--to", &address], 1, "not_found", "nowhere");
    check(&empty, &["--from", &address], 1, "not_found", "default");
    let gone = "postgres://user:pa55word@127.0.0.1:1/none";
    check(&place, &["--to", gone], 75, "storage_unavailable", "127.0.0.1:1");
    assert!(!migrate(&place, &["--to", gone]).stderr.contains("pa55word"));

    let dry = succeed(&migrate(&place, &["--to", &address, "--dry-run"]));
    assert_eq!((&dry["copied"], &dry["memories"]["global"]), (&json!(false), &json!(1)));
    assert_eq!(server.query(DATABASE, "SELECT count(*) FROM owners").unwrap(), "0\n");

    // A daemon that runs for the home.
    let running = daemon(&place, &[]);
    check(&place, &["--to", &address], 75, "locked", "daemon");
    running.log();

    // An owner without anything is replaced, one with a memory is not.
    daemon(&empty, &["--database", &address]).log();
    succeed(&migrate(&place, &["--to", &address]));
    check(&place, &["--to", &address], 3, "already_exists", "--owner");
    check(&place, &["--to", &address, "--dry-run"], 3, "already_exists", "--owner");
    let names = server.query(DATABASE, "SELECT name FROM owners").unwrap();
    assert_eq!(names, "default\n");

    // A home with a memory, and one with a state only.
    check(&place, &["--from", &address], 3, "already_exists", "--to HOME");
    check(&place, &["--from", &address, "--dry-run"], 3, "already_exists", "--to HOME");
    fs::remove_dir_all(place.home().join("memory")).unwrap();
    check(&place, &["--from", &address], 3, "already_exists", "--to HOME");
}

#[test]
fn a_home_that_changes_during_the_copy_is_not_put_in_place() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n")]);
    let (server, address) = server();
    // The tables have to exist before they are hooked.
    daemon(&Sandbox::new(), &["--database", &address, "--owner", "nobody-yet"]).log();
    for change in ["history", "file"] {
        hook(&server, ("INSERT", "files"), "PERFORM pg_sleep(2)");
        let ended = thread::scope(|scope| {
            let copying = scope.spawn(|| migrate(&place, &["--to", &address]));
            let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            eventually(|| match server.query(DATABASE, sleeping) {
                Ok(count) if count == "1\n" => Ok(()),
                other => Err(other),
            });
            if change == "history" {
                place.create("global/meanwhile.md", "- Meanwhile\n");
            } else {
                fs::write(place.home().join("memory/tea.md"), "- Likes coffee\n").unwrap();
            }
            copying.join().unwrap()
        });
        unhook(&server, "files");
        assert_eq!(refused(&ended), (3, "conflict".to_owned()), "{}", ended.shown());
        assert!(ended.stderr.contains("memories of global"), "{}", ended.shown());
        let owners = server.query(DATABASE, "SELECT name FROM owners").unwrap();
        assert_eq!(owners, "nobody-yet\n");
    }
    succeed(&migrate(&place, &["--to", &address]));
}

#[test]
fn an_owner_that_changes_during_the_copy_is_not_put_in_place() {
    let (_server, address) = server();
    let writer = Sandbox::new();
    let in_database = daemon(&writer, &["--database", &address]);
    let home = Sandbox::new();
    let stop = AtomicBool::new(false);
    let put = |number: usize| {
        let path = format!("/v1/memories/global/m{number}.md");
        in_database.ask("PUT", &path).json(&json!({ "text": "- text\n" })).send().status
    };
    (0..50).for_each(|number| assert_eq!(put(number), 201));
    let ended = thread::scope(|scope| {
        scope.spawn(|| {
            let numbers = (50..).take_while(|_| !stop.load(Ordering::Relaxed));
            numbers.for_each(|number| assert_eq!(put(number), 201));
        });
        let ended = migrate(&home, &["--from", &address]);
        stop.store(true, Ordering::Relaxed);
        ended
    });
    assert_eq!(refused(&ended), (3, "conflict".to_owned()), "{}", ended.shown());
    assert_eq!(memories(&home.home()), BTreeMap::new());
    succeed(&migrate(&home, &["--from", &address]));
}

#[test]
fn an_interrupted_write_is_completed_before_the_copy() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n")]);
    let (_server, address) = server();
    // As after a kill between the record of a change and its file: the file has its former bytes, the change is open,
    // and the lock file says that a write was in progress.
    let file = place.home().join("memory/tea.md");
    let before = fs::read(&file).unwrap();
    let running = daemon(&place, &[]);
    let path = "/v1/memories/global/tea.md";
    let revision = running.get(path).json()["revision"].as_str().unwrap().to_owned();
    let put = running.ask("PUT", path).header("If-Match", &format!("\"{revision}\""));
    assert_eq!(put.json(&json!({ "text": "- Likes coffee\n" })).send().status, 200);
    running.kill();
    fs::write(&file, before).unwrap();
    for entry in fs::read_dir(place.home().join("state/locks")).unwrap() {
        let lock = entry.unwrap().path();
        let text = fs::read_to_string(&lock).unwrap();
        let text = text.replace("resting", "writing");
        // The number of the last completed change.
        fs::write(&lock, text.replace(&format!("{:020}", 2), &format!("{:020}", 1))).unwrap();
    }
    succeed(&migrate(&place, &["--to", &address]));
    let reader = Sandbox::new();
    let in_database = daemon(&reader, &["--database", &address]);
    assert_eq!(in_database.get(path).json()["text"], "- Likes coffee\n");
    let changes = in_database.get("/v1/changes").json();
    assert!(
        changes["changes"].as_array().unwrap().iter().all(|change| change["kind"] != "outside"),
        "{changes}"
    );
}

#[test]
fn a_damaged_state_is_named_before_its_history_is_left_behind() {
    let place = Sandbox::with(&[("global/tea.md", "- Likes tea\n")]);
    let (server, address) = server();
    fs::write(place.home().join("state/lukasa.db"), vec![b'x'; 8_192]).unwrap();
    let refusal = migrate(&place, &["--to", &address]);
    assert_eq!(refused(&refusal), (6, "storage_failed".to_owned()), "{}", refusal.shown());
    assert!(refusal.stderr.contains("damaged"), "{}", refusal.shown());
    assert_eq!(server.query(DATABASE, "SELECT count(*) FROM owners").unwrap(), "0\n");
    let said = succeed(&migrate(&place, &["--to", &address]));
    assert_eq!(said["memories"]["global"], 1, "{said}");
}
