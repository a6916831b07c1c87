//! An agent whose requests reach several daemons: what it has read at one of them counts at all.

use serde_json::{Value, json};
use testkit::postgres::PostgresVersion;

use super::Database;
use crate::accept::influenced;
use crate::daemon::Daemon;
use crate::sandbox::Sandbox;

/// Calls the memory tool for a client, and returns the text that its model gets.
fn call(daemon: &Daemon, client: &str, arguments: &Value) -> String {
    let ask = daemon.ask("POST", "/v1/tool").json(arguments);
    let answer = ask.header("X-Lukasa-Client-Id", client).send().json();
    assert_eq!(answer["ok"], true, "{answer}");
    answer.to_string()
}

fn create(daemon: &Daemon, client: &str, name: &str) -> String {
    let path = format!("/memories/global/{name}.md");
    let text = format!("- The fact {name}\n");
    call(daemon, client, &json!({ "command": "create", "path": path, "file_text": text }))
}

/// The path of each memory that waits for a review.
fn waiting(daemon: &Daemon) -> Vec<String> {
    let pending = daemon.get("/v1/pending").json();
    let proposals = pending["proposals"].as_array().unwrap().iter();
    let paths = proposals.map(|one| one["review"]["path"].as_str().unwrap().to_owned());
    paths.collect()
}

#[test]
fn what_an_agent_has_read_at_one_daemon_is_known_at_the_others() {
    let database = Database::start(PostgresVersion::Debian);
    let origin = influenced();
    let copied = origin.run(&["migrate", "--to", &database.address]);
    assert_eq!(copied.status, 0, "{}", copied.shown());
    let places = [Sandbox::new(), Sandbox::new()];
    let [first, second] = places.each_ref().map(|place| database.daemon(place));
    let ((_, reader), (_, other)) = (first.session(), second.session());
    assert_eq!(waiting(&second), ["/memories/global/after.md"]);

    assert!(!create(&second, &reader, "before-reading").contains("waits for the person's review"));
    let view = json!({ "command": "view", "path": "/memories/global/after.md" });
    assert!(call(&first, &reader, &view).contains("not reviewed"));
    assert!(create(&second, &reader, "by-reader").contains("waits for the person's review"));
    assert!(!create(&second, &other, "by-other").contains("waits for the person's review"));
    let fact = json!({ "content": "Each build takes an hour.", "scope": "user" });
    let ask = second.ask("POST", "/workspace/memory/remember").json(&fact);
    let task = ask.header("X-Lukasa-Client-Id", &reader).send().json();
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(first.finished("remember", id, Some(&reader))["status"], "completed");

    let waiting = waiting(&first);
    assert_eq!(waiting[..2], ["/memories/global/after.md", "/memories/global/by-reader.md"]);
    assert_eq!(waiting.len(), 3, "{waiting:?}");
    // A daemon that starts later knows it, too.
    let place = Sandbox::new();
    let third = database.daemon(&place);
    assert!(create(&third, &reader, "later").contains("waits for the person's review"));
}
