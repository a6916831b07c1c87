//! Tests of access to the page: tickets, tokens of browsers and allowed origins; and of the API that the page needs.

use serde_json::{Value, json};

use super::Daemon;
use crate::sandbox::Sandbox;

const POLICY: &str = "require-trusted-types-for 'script'";

/// Prepares a request without the daemon's token.
fn ask<'d>(daemon: &'d Daemon, method: &str, path: &str) -> super::HttpRequest<'d> {
    daemon.ask(method, path).without_header("Authorization")
}

fn log_in(daemon: &Daemon) -> String {
    let ticket = daemon.post("/ui/tickets", &json!({})).json()["ticket"].clone();
    let traded = ask(daemon, "POST", "/ui/session").json(&json!({ "ticket": ticket })).send();
    assert_eq!(traded.status, 200, "{}", traded.text());
    traded.json()["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_ticket_gives_a_browser_one_token() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let ticket = daemon.post("/ui/tickets", &json!({})).json()["ticket"].clone();
    let trade = |ticket: &Value| {
        ask(&daemon, "POST", "/ui/session").json(&json!({ "ticket": ticket })).send()
    };
    let token = trade(&ticket).json()["token"].as_str().unwrap().to_owned();
    assert_ne!(token, super::TOKEN);
    for wrong in [&ticket, &json!("made up"), &json!(7), &Value::Null] {
        assert_eq!(trade(wrong).status, 401, "{wrong}");
    }
    let with = |token: &str, method: &str, path: &str| {
        ask(&daemon, method, path).header("Authorization", &format!("Bearer {token}")).send().status
    };
    assert_eq!(with(&token, "GET", "/v1/memories"), 200);
    assert_eq!(with("made-up-token-of-some-length", "GET", "/v1/memories"), 401);
    assert_eq!(with(&token, "POST", "/ui/tickets"), 401, "a browser lets no other in");
    assert_eq!(ask(&daemon, "POST", "/ui/tickets").send().status, 401);
}

#[test]
fn only_the_files_of_the_page_need_no_token() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let page = ask(&daemon, "GET", "/ui/").send();
    assert_eq!(page.status, 200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").unwrap().contains(POLICY));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    let tag = page.header("etag").unwrap().to_owned();
    let again = ask(&daemon, "GET", "/ui/").header("If-None-Match", &tag).send();
    assert_eq!((again.status, again.bytes().len()), (304, 0));
    assert_eq!(ask(&daemon, "GET", "/ui").send().header("location"), Some("/ui/"));
    for path in ["/ui/none.js", "/ui/%2e%2e%2fCargo.toml"] {
        assert_eq!(ask(&daemon, "GET", path).send().status, 404, "{path}");
    }
    for path in ["/ui/a/b", "/ui/../token", "/ui/tickets", "/v1/memories", "/capabilities"] {
        assert_eq!(ask(&daemon, "GET", path).send().status, 401, "{path}");
    }
}

#[test]
fn only_the_own_page_may_call_the_api() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let token = log_in(&daemon);
    let own = format!("http://{}", daemon.address());
    let from = |origin: &str| {
        let ask = ask(&daemon, "GET", "/v1/memories").header("Origin", origin);
        let ask = ask.header("Host", daemon.address());
        ask.header("Authorization", &format!("Bearer {token}")).send().status
    };
    assert_eq!(from(&own), 200);
    let port = daemon.address().rsplit(':').next().unwrap().to_owned();
    for origin in [
        "null",
        "http://evil.example",
        &format!("https://{}", daemon.address()),
        &format!("http://localhost:{port}"),
        &format!("{own}0"),
        "http://127.0.0.1",
    ] {
        assert_eq!(from(origin), 403, "{origin}");
    }
    // A foreign host name that resolves to this machine (DNS rebinding) is not accepted.
    let host = format!("evil.example:{port}");
    let rebound = ask(&daemon, "GET", "/ui/").without_header("Host").header("Host", &host);
    assert_eq!(rebound.header("Origin", &format!("http://{host}")).send().status, 403);
}

#[test]
fn a_disabled_page_is_not_found() {
    let place = Sandbox::new();
    let mut command = Daemon::command(&place, &[]);
    command.env("LUKASA_TOKEN", super::TOKEN).env("LUKASA_FEATURES", "-page");
    let daemon = Daemon::start_by(command);
    assert_eq!(ask(&daemon, "GET", "/ui/").send().status, 401);
    let off = daemon.post("/ui/tickets", &json!({}));
    assert_eq!((off.status, off.json()["feature"].clone()), (403, json!("page")));
    let own = format!("http://{}", daemon.address());
    let from_page = daemon.ask("GET", "/v1/memories").header("Origin", &own);
    assert_eq!(from_page.header("Host", daemon.address()).send().status, 403);
    let refused =
        place.lukasa(&["ui", "--print"]).env("LUKASA_FEATURES", "-page").output().unwrap();
    assert_eq!(refused.status.code(), Some(4));
}

#[test]
fn several_memories_are_deleted_as_one_change_or_not_at_all() {
    let place = Sandbox::new();
    for name in ["a", "b", "c"] {
        place.create(&format!("global/{name}.md"), &format!("- {name}\n"));
    }
    let daemon = Daemon::start(&place);
    let revision = daemon.get("/v1/memories/global/a.md").json()["revision"].clone();
    let path = |name: &str| format!("/memories/global/{name}.md");
    let steps = |revision: &Value| {
        json!({ "steps": [
            { "do": "delete", "path": path("a"), "revision": revision },
            { "do": "move", "from": path("b"), "to": path("x/b") },
        ] })
    };
    let stale = daemon.post("/v1/batch", &steps(&json!("0".repeat(64))));
    assert_eq!((stale.status, stale.json()["code"].clone()), (412, json!("conflict")));
    assert_eq!(daemon.get("/v1/memories").json()["memories"].as_array().unwrap().len(), 3);
    let done = daemon.post("/v1/batch", &steps(&revision)).json();
    let names = || {
        place
            .run_ok(&["ls"])
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), ["global/c.md", "global/x/b.md"]);
    let undo = format!("/v1/changes/{}/undo", done["change"]);
    assert_eq!(daemon.post(&undo, &json!({})).status, 200);
    assert_eq!(names(), ["global/a.md", "global/b.md", "global/c.md"]);
    for wrong in [json!({ "steps": [{ "do": "shout" }] }), json!({ "steps": 7 })] {
        assert_eq!(daemon.post("/v1/batch", &wrong).status, 400, "{wrong}");
    }
    assert_eq!(daemon.post("/v1/batch", &json!({ "steps": [] })).json(), json!({}));
}

#[test]
fn an_earlier_text_is_read_by_its_revision_where_it_was() {
    let place = Sandbox::with(&[("project/a.md", "- one\n")]);
    let elsewhere = place.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let folder = elsewhere.display().to_string();
    let here = place.checkout().display().to_string();
    let daemon = Daemon::start_with(&place, &["--workspace", &here, "--workspace", &folder]);
    let revision =
        daemon.get("/v1/memories/project/a.md").json()["revision"].as_str().unwrap().to_owned();
    place.run_ok(&["replace", "project/a.md", "one", "two"]);
    let path = format!("/v1/revisions/{revision}");
    assert_eq!(daemon.get(&path).json(), json!({ "revision": revision, "text": "- one\n" }));
    let other = format!("{path}?workspace={}", daemon.workspace(1));
    assert_eq!(daemon.get(&other).status, 404, "another project's");
    assert_eq!(daemon.get(&format!("/v1/revisions/{}", "0".repeat(64))).status, 404);
    assert_eq!(daemon.get("/v1/revisions/none").status, 404);
}
