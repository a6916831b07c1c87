//! Tests of the task API: every row of its error table, the order of its checks, and the visibility of tasks.

use serde_json::{Value, json};

use super::Daemon;
use crate::processes::{Locks, hold_locks};
use crate::sandbox::Sandbox;

const KINDS: [&str; 3] = ["remember", "forget", "dream"];

fn body_of(kind: &str) -> Value {
    match kind {
        "remember" => json!({ "content": "I prefer tea in the morning." }),
        "forget" => json!({ "query": "tea in the morning" }),
        _ => json!({}),
    }
}

#[test]
fn tasks_remember_forget_and_dream() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let asked = daemon.post("/workspace/memory/remember", &body_of("remember"));
    assert_eq!(asked.status, 202);
    let queued = asked.json();
    assert_eq!(queued["contextMode"], "workspace");
    let ends = [queued.get("result"), queued.get("error")];
    assert_eq!(ends, [Some(&Value::Null), Some(&Value::Null)], "{queued}");
    let id = queued["taskId"].as_str().unwrap();
    assert!(id.starts_with("remember-"), "{id}");

    let done = daemon.finished("remember", id, None);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["createdAt"], queued["createdAt"]);
    assert!(done["updatedAt"].as_str() >= done["createdAt"].as_str(), "{done}");
    assert_eq!(done["result"]["touchedScopes"], json!(["user"]));
    assert!(done.get("error").is_none(), "{done}");
    let files = done["result"]["filesTouched"].as_array().unwrap();
    assert_eq!(files.len(), 1, "{done}");
    assert!(!done["result"]["summary"].as_str().unwrap().contains("tea"), "{done}");
    let path = files[0].as_str().unwrap();
    assert!(place.view(path).contains("I prefer tea in the morning."), "{path}");

    let again = daemon.task("remember", &body_of("remember"));
    assert_eq!(again["result"]["filesTouched"], json!([]), "it is known: {again}");
    let dreamt = daemon.task("dream", &json!({}));
    assert_eq!(dreamt["result"]["dedupedEntries"], 0, "{dreamt}");
    assert!(dreamt.get("contextMode").is_none(), "{dreamt}");
    let forgotten = daemon.task("forget", &body_of("forget"));
    assert_eq!(forgotten["result"]["removedEntries"][0]["filePath"], path, "{forgotten}");
    assert_eq!(forgotten["result"]["touchedScopes"], json!(["user"]), "{forgotten}");
    let nothing = daemon.task("forget", &body_of("forget"));
    assert_eq!(nothing["result"]["removedEntries"], json!([]), "{nothing}");
}

#[test]
fn each_problem_of_a_body_has_its_own_code() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let check = |kind: &str, body: Value, expected: (u16, &str)| {
        let ask = daemon.ask("POST", &format!("/workspace/memory/{kind}"));
        let shown = body.to_string();
        let (status, code) = ask.json(&body).code();
        assert_eq!((status, code.as_str()), expected, "{kind} {shown:.80}");
    };
    let (longest, too_long) = ("x".repeat(65_536), "x".repeat(65_537));
    check("remember", json!({}), (400, "invalid_content"));
    check("remember", json!({ "content": 1 }), (400, "invalid_content"));
    check("remember", json!({ "content": " \n" }), (400, "invalid_content"));
    check("remember", json!({ "content": too_long }), (400, "invalid_content"));
    check(
        "remember",
        json!({ "content": "x", "contextMode": "all" }),
        (400, "invalid_context_mode"),
    );
    check("remember", json!({ "content": "x", "scope": "global" }), (400, "invalid_scope"));
    check("remember", json!({ "content": "x", "scope": null }), (400, "invalid_scope"));
    check("forget", json!({}), (400, "invalid_query"));
    check("forget", json!({ "query": "" }), (400, "invalid_query"));
    check("forget", json!({ "query": too_long }), (400, "invalid_query"));
    check("forget", json!({ "query": "x", "scope": 1 }), (400, "invalid_scope"));
    check("remember", json!([]), (400, "invalid_json"));
    check("dream", json!("dream"), (400, "invalid_json"));
    check("review", json!({}), (404, "route_not_found"));
    // The longest text is accepted, and so are harmless and optional fields.
    check("remember", json!({ "content": longest }), (202, "-"));
    check("remember", json!({ "content": "x", "contextMode": null, "__proto__": {} }), (202, "-"));
    check("dream", json!({ "whatever": true }), (202, "-"));
    let none = daemon.ask("POST", "/workspace/memory/dream").send();
    assert_eq!(none.status, 202, "{}", none.text());
    let twice = br#"{"content": 1, "content": "the last one counts"}"#;
    let twice = daemon.ask("POST", "/workspace/memory/remember").bytes(twice).send();
    assert_eq!(twice.status, 202, "{}", twice.text());
    // A text that was cut within a character: a lone surrogate escape in JSON is replaced.
    let cut = br#"{"content": "I keep bees \ud83d"}"#;
    let cut = daemon.ask("POST", "/workspace/memory/remember").bytes(cut).send();
    assert_eq!(cut.status, 202, "{}", cut.text());
    let cut =
        daemon.ask("POST", "/workspace/memory/remember").bytes(b"{\"content\": \"\xf0\x9f\"}");
    assert_eq!(cut.code(), (400, "invalid_json".to_owned()));
}

#[test]
fn a_folder_named_as_untrusted_is_untrusted_however_else_it_is_served() {
    let place = Sandbox::new();
    for args in [&["--untrusted", "."][..], &["--workspace", ".", "--untrusted", "."]] {
        let daemon = Daemon::start_with(&place, args);
        let ask = daemon.ask("POST", "/workspace/memory/remember").json(&json!({ "content": "x" }));
        assert_eq!(ask.code(), (403, "untrusted_workspace".to_owned()), "{args:?}");
    }
}

#[test]
fn the_checks_come_in_one_order() {
    let place = Sandbox::new();
    std::fs::create_dir(place.path().join("other")).unwrap();
    let daemon = Daemon::start_with(&place, &["--untrusted", "../other"]);
    // Every request also violates all later checks.
    let wrong = || {
        daemon
            .ask("POST", &format!("/workspaces/{}/memory/remember", daemon.workspace(1)))
            .header("Host", "evil.example")
            .header("Origin", "http://evil.example")
            .header("Authorization", "Bearer wrong-wrong-wrong-wrong")
            .header("X-Qwen-Client-Id", "not one")
            .bytes(b"{")
    };
    let check = |ask: super::HttpRequest<'_>, expected: (u16, &str)| {
        let (status, code) = ask.code();
        assert_eq!((status, code.as_str()), expected);
    };
    let good = format!("Bearer {}", super::TOKEN);
    check(wrong(), (403, "host_not_allowed"));
    let ask = || wrong().header("Host", "localhost");
    check(ask(), (403, "origin_not_allowed"));
    let ask = || wrong().header("Host", "localhost").without_header("Origin");
    check(ask(), (401, "unauthorized"));
    let ask = || {
        wrong().header("Host", "localhost").without_header("Origin").header("Authorization", &good)
    };
    check(ask(), (400, "invalid_json"));
    let body = json!({ "contextMode": "x", "scope": "x" });
    check(ask().json(&body), (403, "untrusted_workspace"));
    // From here on the workspace is trusted and known.
    let ask = |body: Value| {
        let path = "/workspace/memory/remember";
        daemon.ask("POST", path).header("X-Qwen-Client-Id", "not one").json(&body)
    };
    check(ask(json!({ "contextMode": "x", "scope": "x" })), (400, "invalid_content"));
    let content = "x";
    let body = json!({ "content": content, "contextMode": "x", "scope": "x" });
    check(ask(body), (400, "invalid_context_mode"));
    check(ask(json!({ "content": content, "scope": "x" })), (400, "invalid_scope"));
    check(ask(json!({ "content": content })), (400, "invalid_client_id"));
}

#[test]
fn the_rate_limit_is_checked_before_the_body() {
    let place = Sandbox::new();
    let daemon = Daemon::start_with(&place, &["--rate-limit", "3"]);
    let ask = || daemon.ask("POST", "/workspace/memory/remember").bytes(b"{");
    let answers: Vec<_> = (0..20).map(|_| ask().send()).collect();
    assert_eq!(answers[0].status, 400);
    let late = answers.iter().find(|answer| answer.status != 400).unwrap();
    assert_eq!((late.status, &late.json()["code"]), (429, &json!("rate_limited")));
    assert_eq!(late.header("Retry-After"), Some("1"));
    assert_eq!(ask().header("Authorization", "Bearer x").send().status, 401);
    assert_eq!(daemon.get("/health").status, 200);
    // Another client id is another client.
    assert_eq!(ask().header("X-Qwen-Client-Id", "another").send().status, 400);
}

#[test]
fn an_untrusted_workspace_is_refused_before_any_lookup() {
    let place = Sandbox::new();
    std::fs::create_dir(place.path().join("other")).unwrap();
    let daemon = Daemon::start_with(&place, &["--untrusted", "../other"]);
    let other = daemon.workspace(1);
    for kind in KINDS {
        let path = format!("/workspaces/{other}/memory/{kind}");
        let expected = (403, "untrusted_workspace".to_owned());
        assert_eq!(daemon.ask("POST", &path).json(&body_of(kind)).code(), expected, "{kind}");
        let task = format!("{path}/{kind}-00000000-0000-4000-8000-000000000000");
        assert_eq!(daemon.ask("GET", &task).code(), expected, "{kind}");
        assert_eq!(daemon.ask("DELETE", &task).code(), expected, "{kind}");
        let nowhere = format!("/workspaces/nowhere/memory/{kind}");
        let unknown = (404, "workspace_not_found".to_owned());
        assert_eq!(daemon.ask("POST", &nowhere).json(&body_of(kind)).code(), unknown);
    }
    for path in ["/v1/memories", "/v1/tasks", "/v1/changes", "/v1/stats", "/v1/events"] {
        let ask = daemon.ask("GET", &format!("{path}?workspace={other}"));
        assert_eq!(ask.code(), (403, "untrusted_workspace".to_owned()), "{path}");
    }
}

#[test]
fn memory_that_is_off_takes_no_tasks_and_is_not_offered() {
    let place = Sandbox::new();
    let daemon = Daemon::start_with(&place, &["--no-tasks"]);
    for kind in KINDS {
        let ask = daemon.ask("POST", &format!("/workspace/memory/{kind}")).json(&body_of(kind));
        assert_eq!(ask.code(), (409, "managed_memory_unavailable".to_owned()), "{kind}");
    }
    let capabilities = daemon.get("/capabilities").json();
    let features = capabilities["features"].as_array().unwrap();
    assert!(features.iter().all(|feature| !feature.as_str().unwrap().contains("remember")));
    assert_eq!(capabilities["featureOptions"], json!({}));
}

#[test]
fn a_task_is_visible_only_to_its_client_and_under_its_kind() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let ((_, ours), (_, theirs)) = (daemon.session(), daemon.session());
    let submit = |client: Option<&str>| {
        let mut ask = daemon.ask("POST", "/workspace/memory/remember").json(&body_of("remember"));
        if let Some(client) = client {
            ask = ask.header("X-Qwen-Client-Id", client);
        }
        ask.send().json()["taskId"].as_str().unwrap().to_owned()
    };
    let look = |kind: &str, id: &str, client: Option<&str>| {
        let mut ask = daemon.ask("GET", &format!("/workspace/memory/{kind}/{id}"));
        if let Some(client) = client {
            ask = ask.header("X-Lukasa-Client-Id", client);
        }
        ask.code()
    };
    let (owned, free) = (submit(Some(&ours)), submit(None));
    let not_found = |kind: &str| (404, format!("{kind}_task_not_found"));
    let seen = (200, "-".to_owned());
    assert_eq!(look("remember", &owned, Some(&ours)), seen);
    assert_eq!(look("remember", &owned, Some(&theirs)), not_found("remember"));
    assert_eq!(look("remember", &owned, None), not_found("remember"));
    assert_eq!(look("remember", &free, None), seen);
    assert_eq!(look("remember", &free, Some(&ours)), not_found("remember"));
    for kind in ["forget", "dream"] {
        assert_eq!(look(kind, &owned, Some(&ours)), not_found(kind));
        assert_eq!(look(kind, "nonsense", None), not_found(kind));
    }
    // An empty client id counts as none.
    assert_eq!(look("remember", &free, Some("")), seen);
    let unknown = daemon
        .ask("GET", &format!("/workspace/memory/remember/{free}"))
        .header("X-Qwen-Client-Id", "who-is-this")
        .send();
    assert_eq!((unknown.status, &unknown.json()["code"]), (400, &json!("invalid_client_id")));
    assert_eq!(unknown.json()["clientId"], "who-is-this");

    let listed = |client: &str| {
        let ask = daemon.ask("GET", "/v1/tasks").header("X-Qwen-Client-Id", client);
        let tasks = ask.send().json()["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["taskId"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&ours), [owned.as_str()]);
    assert_eq!(listed(&theirs), [""; 0]);
    assert_eq!(listed(""), [free.as_str()]);
}

#[test]
fn a_client_without_a_session_cannot_poll() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    for leave in ["DELETE /session/ID", "POST /session/ID/detach"] {
        let (session, client) = daemon.session();
        let ask = daemon.ask("POST", "/workspace/memory/remember").json(&body_of("remember"));
        let task = ask.header("X-Qwen-Client-Id", &client).send().json();
        let id = task["taskId"].as_str().unwrap();
        let done = daemon.finished("remember", id, Some(&client));
        assert_eq!(done["status"], "completed", "{done}");
        let (method, path) = leave.split_once(' ').unwrap();
        let path = path.replace("ID", &session);
        let left = daemon.ask(method, &path).header("X-Qwen-Client-Id", &client).send();
        assert_eq!(left.status, 204, "{}", left.text());
        let poll = daemon.ask("GET", &format!("/workspace/memory/remember/{id}"));
        let poll = poll.header("X-Qwen-Client-Id", &client).code();
        assert_eq!(poll, (400, "invalid_client_id".to_owned()), "{leave}");
        assert_eq!(daemon.ask(method, &path).code(), (404, "session_not_found".to_owned()));
    }
}

#[test]
fn a_lane_is_full_with_sixteen_and_minor_tasks_leave_room() {
    let (place, daemon) = Daemon::in_new_sandbox();
    daemon.task("dream", &json!({}));
    let held = hold_locks(&place, Locks::Lanes);
    let submit = |kind: &str| {
        daemon.ask("POST", &format!("/workspace/memory/{kind}")).json(&body_of(kind)).send()
    };
    for kind in ["forget", "dream"].repeat(4) {
        assert_eq!(submit(kind).status, 202);
    }
    for kind in ["forget", "dream"] {
        let full = submit(kind);
        assert_eq!((full.status, &full.json()["code"]), (429, &json!("remember_queue_full")));
        assert_eq!(full.header("Retry-After"), Some("1"));
    }
    let waiting = submit("remember").json();
    for _ in 0..7 {
        assert_eq!(submit("remember").status, 202);
    }
    assert_eq!(submit("remember").status, 429);

    // A cancelled task makes room at once, and has no effect.
    let id = waiting["taskId"].as_str().unwrap();
    let taken = daemon.ask("DELETE", &format!("/workspace/memory/remember/{id}")).send();
    assert_eq!((taken.status, &taken.json()["status"]), (200, &json!("failed")));
    assert_eq!(taken.json()["error"]["code"], "cancelled");
    let last = submit("remember");
    assert_eq!(last.status, 202, "{}", last.text());
    drop(held);
    let last = daemon.finished("remember", last.json()["taskId"].as_str().unwrap(), None);
    assert_eq!(last["status"], "completed", "{last}");
    let listed = daemon.get("/v1/tasks?status=completed").json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 17, "{listed}");
}

#[test]
fn a_failed_task_has_a_reason_of_one_sentence() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let secret = "The key is sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl";
    let failed = daemon.task("remember", &json!({ "content": secret }));
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"]["code"], "screened");
    assert!(failed.get("result").is_none(), "{failed}");
    assert!(!failed.to_string().contains("AbCdEf"), "{failed}");
}

#[test]
fn queued_tasks_are_done_after_a_kill() {
    let (place, daemon) = Daemon::in_new_sandbox();
    daemon.task("dream", &json!({}));
    let held = hold_locks(&place, Locks::Lanes);
    let queued = daemon.post("/workspace/memory/remember", &body_of("remember")).json();
    let id = queued["taskId"].as_str().unwrap().to_owned();
    daemon.kill();
    drop(held);
    let daemon = Daemon::start(&place);
    let done = daemon.finished("remember", &id, None);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(done["createdAt"], queued["createdAt"]);
}

#[test]
fn a_failed_task_names_the_problem_of_the_memories() {
    let place = Sandbox::new();
    std::fs::write(place.home().join("config.toml"), "files_max = 1\n").unwrap();
    assert_eq!(place.run_with(&["create", "global/a.md"], "- x\n").status, 0);
    let daemon = Daemon::start(&place);
    let task = daemon.task("remember", &json!({ "content": "I keep bees." }));
    let error = &task["error"];
    assert_eq!(
        (&error["code"], &error["cause"]),
        (&json!("remember_failed"), &json!("scope_full"))
    );
}
