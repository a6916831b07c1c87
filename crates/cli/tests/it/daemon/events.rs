//! Tests of event streams: their events, their subscribers, cursors, and the end of a stream.

use std::fs;
use std::path::PathBuf;

use protocol::event::{Envelope, Event, ManagedSource, MemoryChanged};
use protocol::task::TargetScope;
use serde_json::{Value, json};

use super::Daemon;
use crate::sandbox::Sandbox;

fn remember(content: &str) -> serde_json::Value {
    json!({ "content": content })
}

/// Returns the number, source and task id of an event of a task.
fn managed(envelope: &Envelope) -> (u64, ManagedSource, String) {
    match &envelope.event {
        Event::MemoryChanged(MemoryChanged::Managed { source, task_id, .. }) => {
            (envelope.id.unwrap(), *source, task_id.clone())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_receives_one_event_for_each_task_with_changes() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (session, client) = daemon.session();
    let stream = daemon.stream(&format!("/session/{session}/events"), &[]);
    assert_eq!(stream.head.header("Content-Type"), Some("text/event-stream"));
    assert_eq!(stream.head.header("Cache-Control"), Some("no-cache, no-transform"));
    assert_eq!(stream.head.header("X-Accel-Buffering"), Some("no"));
    assert_eq!(stream.head.header("X-Lukasa-Event-Cursor"), Some("0"));

    let ask = daemon.ask("POST", "/workspace/memory/remember").json(&remember("I like tea."));
    let task = ask.header("X-Qwen-Client-Id", &client).send().json();
    let id = task["taskId"].as_str().unwrap();
    let told = stream.next().unwrap();
    assert_eq!(managed(&told), (1, ManagedSource::Remember, id.to_owned()));
    assert_eq!(told.originator_client_id.as_deref(), Some(client.as_str()));
    assert_eq!(told.v, 1);
    assert!(told.meta.server_timestamp > 0);
    let Event::MemoryChanged(MemoryChanged::Managed { touched_scopes, .. }) = &told.event else {
        panic!("{told:?}")
    };
    assert_eq!(touched_scopes, &[TargetScope::User]);
    // A subscriber of the event can read the result.
    let done = daemon.finished("remember", id, Some(&client));
    assert_eq!(done["status"], "completed");

    // A task without changes has no event.
    daemon.task("remember", &remember("I like tea."));
    daemon.task("forget", &json!({ "query": "rockets" }));
    daemon.task("dream", &json!({}));
    let forgotten = daemon.task("forget", &json!({ "query": "tea" }));
    let told = stream.next().unwrap();
    let id = forgotten["taskId"].as_str().unwrap();
    assert_eq!(managed(&told), (2, ManagedSource::Forget, id.to_owned()));
    assert_eq!(told.originator_client_id, None);
}

#[test]
fn a_reader_continues_at_its_cursor() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (session, _) = daemon.session();
    let path = format!("/session/{session}/events");
    let first = daemon.stream(&path, &[]);
    let epoch = first.head.header("X-Qwen-Event-Epoch").unwrap().to_owned();
    for content in ["I like tea.", "I drive a bus.", "My dog is called Rex."] {
        daemon.task("remember", &remember(content));
    }
    let told: Vec<u64> = (0..3).map(|_| first.next().unwrap().id.unwrap()).collect();
    assert_eq!(told, [1, 2, 3]);
    first.cut();

    let again = daemon.stream(&path, &[("Last-Event-ID", "1"), ("X-Qwen-Event-Epoch", &epoch)]);
    assert_eq!(again.head.header("X-Lukasa-Event-Cursor"), Some("1"));
    let fresh = daemon.stream(&path, &[]);
    assert_eq!(fresh.head.header("X-Lukasa-Event-Cursor"), Some("3"));
    assert_eq!(again.next().unwrap().id, Some(2));
    assert_eq!(again.next().unwrap().id, Some(3));
    let Event::ReplayComplete(complete) = again.next().unwrap().event else { panic!("no end") };
    assert_eq!((complete.replayed_count, complete.last_event_id), (2, 3));
    daemon.task("remember", &remember("I play the cello."));
    assert_eq!(again.next().unwrap().id, Some(4));

    // A cursor of an earlier daemon process, or from the future, is answered with a resync event.
    for (last, epoch, detail) in [("2", "another", Some("epoch_mismatch")), ("99", &epoch, None)] {
        let headers = [("Last-Event-ID", last), ("X-Qwen-Event-Epoch", epoch)];
        let lost = daemon.stream(&path, &headers);
        let Event::StateResyncRequired(resync) = lost.next().unwrap().event else {
            panic!("{last}")
        };
        assert_eq!((resync.reason.as_str(), resync.detail.as_deref()), ("epoch_reset", detail));
        assert_eq!(resync.last_delivered_id.to_string(), last);
        assert_eq!(lost.head.header("X-Lukasa-Event-Cursor"), Some("0"));
        assert_eq!(lost.next().unwrap().id, Some(1), "all that is kept follows");
    }
    // An invalid cursor is ignored, and so is an epoch without a cursor.
    for headers in [[("Last-Event-ID", "one")], [("X-Qwen-Event-Epoch", "another")]] {
        let fresh = daemon.stream(&path, &headers);
        let next = daemon.task("forget", &json!({ "query": "cello" }));
        if next["result"]["removedEntries"].as_array().unwrap().is_empty() {
            daemon.task("remember", &remember("I play the cello."));
        }
        assert!(fresh.next().unwrap().id.unwrap() > 4);
    }
}

/// Returns the data of an event of a file, as it is on the wire.
fn data(envelope: &Envelope) -> Value {
    serde_json::to_value(&envelope.event).unwrap()["data"].clone()
}

#[test]
fn an_event_of_a_file_names_its_author_and_trust() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let (_, client) = daemon.session();
    let stream = daemon.stream("/v1/events", &[]);
    let call = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "a\n" });
    let ask = daemon.ask("POST", "/v1/tool").json(&call).header("X-Lukasa-Client-Id", &client);
    assert_eq!(ask.send().status, 200);
    let told = data(&stream.next().unwrap());
    assert_eq!((&told["trust"], &told["client"]), (&json!("agent"), &json!(client)), "{told}");
    assert_eq!(told["workspaceId"], daemon.workspace(0), "{told}");

    let text = json!({ "text": "b\n" });
    assert_eq!(daemon.ask("PUT", "/v1/memories/global/b.md").json(&text).send().status, 201);
    let told = data(&stream.next().unwrap());
    assert_eq!((&told["trust"], &told["workspaceId"]), (&json!("person"), &Value::Null), "{told}");

    let mcp = place.run(&["mcp", "--session", "s-1"]);
    assert_eq!(mcp.status, 0, "{}", mcp.stderr);
    let mut served =
        crate::served::McpServerProcess::start_as(place.command(&["mcp", "--session", "s-1"]));
    served.create("/memories/global/c.md", "c\n");
    served.close_input();
    let told = data(&stream.next().unwrap());
    assert_eq!((&told["path"], &told["session"]), (&json!("/memories/global/c.md"), &json!("s-1")));
}

#[test]
fn an_event_of_a_pin_names_its_author() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let daemon = Daemon::start(&place);
    let (_, client) = daemon.session();
    let stream = daemon.stream("/v1/events", &[]);
    for (method, kind) in [("PUT", "pin"), ("DELETE", "unpin")] {
        // A change to the same value has no event.
        for _ in 0..2 {
            let ask = daemon.ask(method, "/v1/pins/global/a.md");
            assert_eq!(ask.header("X-Lukasa-Client-Id", &client).send().status, 200);
        }
        let told = data(&stream.next().unwrap());
        let expected = json!({
            "scope": "file", "path": "/memories/global/a.md", "kind": kind, "actor": "person",
            "client": client,
        });
        assert_eq!(told, expected);
    }
}

/// Adds a worktree of the project.
fn second_worktree(place: &Sandbox) -> PathBuf {
    let git = |args: &[&str]| {
        let mut git = place.program("git");
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let done = git.args(identity).args(args).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    git(&["commit", "--quiet", "--allow-empty", "-m", "first"]);
    let other = place.path().join("other");
    git(&["worktree", "add", "--quiet", other.to_str().unwrap()]);
    other
}

#[test]
fn changes_in_an_untrusted_worktree_are_not_published_in_another() {
    let place = Sandbox::new();
    let other = second_worktree(&place);
    let daemon = Daemon::start_with(&place, &["--untrusted", other.to_str().unwrap()]);
    let stream = daemon.stream("/v1/events", &[]);
    for (folder, path) in [(&other, "project/secret.md"), (&place.checkout(), "global/g.md")] {
        let mut lukasa = place.program(env!("CARGO_BIN_EXE_lukasa"));
        lukasa.current_dir(folder).args(["create", path, "text"]);
        assert!(lukasa.output().unwrap().status.success());
    }
    assert_eq!(data(&stream.next().unwrap())["path"], "/memories/global/g.md");
}

#[test]
fn a_change_in_another_worktree_is_published_with_its_location() {
    let place = Sandbox::new();
    let other = second_worktree(&place);
    let (here, there) = (place.checkout(), other.to_str().unwrap().to_owned());
    let args = ["--workspace", here.to_str().unwrap(), "--workspace", &there];
    let daemon = Daemon::start_with(&place, &args);
    let (mine, theirs) = (daemon.workspace(0).to_owned(), daemon.workspace(1).to_owned());
    let stream = daemon.stream("/v1/events", &[]);
    let tool = format!("/v1/tool?workspace={theirs}");
    let call = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "a\n" });
    assert_eq!(daemon.post(&tool, &call).json()["ok"], true);
    let told = data(&stream.next().unwrap());
    assert_eq!(
        (&told["path"], &told["kind"]),
        (&json!("/memories/project/a.md"), &json!("create"))
    );
    assert_eq!(told["workspaceId"], theirs, "{told}");
    // The memory does not exist in this worktree.
    assert_eq!(daemon.get("/v1/memories/project/a.md").status, 404);

    // Events of another process in that worktree arrive too, and events of this worktree are marked as such.
    let mut lukasa = place.program(env!("CARGO_BIN_EXE_lukasa"));
    lukasa.current_dir(&other).args(["create", "project/b.md", "b"]);
    assert!(lukasa.output().unwrap().status.success());
    let told = data(&stream.next().unwrap());
    assert_eq!(
        (&told["path"], &told["workspaceId"]),
        (&json!("/memories/project/b.md"), &json!(theirs))
    );
    let call = json!({ "command": "create", "path": "/memories/project/c.md", "file_text": "c\n" });
    assert_eq!(daemon.post("/v1/tool", &call).json()["ok"], true);
    assert_eq!(data(&stream.next().unwrap())["workspaceId"], mine);
    // The workspace scope belongs to one worktree, so its changes have no event in the other.
    let call =
        json!({ "command": "create", "path": "/memories/workspace/w.md", "file_text": "w\n" });
    assert_eq!(daemon.post(&tool, &call).json()["ok"], true);
    let call = json!({ "command": "create", "path": "/memories/global/g.md", "file_text": "g\n" });
    assert_eq!(daemon.post(&tool, &call).json()["ok"], true);
    assert_eq!(data(&stream.next().unwrap())["path"], "/memories/global/g.md");
}

#[test]
fn a_workspace_receives_every_change_of_any_writer() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let stream = daemon.stream("/v1/events", &[]);
    let file = |envelope: Envelope| match envelope.event {
        Event::MemoryChanged(MemoryChanged::File { path, kind, actor, moved_to, .. }) => {
            format!(
                "{} {kind} {actor} {path} {}",
                envelope.id.unwrap(),
                moved_to.unwrap_or_default()
            )
        }
        other => panic!("{other:?}"),
    };
    let call = json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "a\n" });
    assert_eq!(daemon.post("/v1/tool", &call).status, 200);
    assert_eq!(file(stream.next().unwrap()), "1 create agent /memories/global/a.md ");
    let renaming = json!({ "from": "/memories/global/a.md", "to": "/memories/global/b.md" });
    assert_eq!(daemon.post("/v1/memories/move", &renaming).status, 200);
    assert_eq!(
        file(stream.next().unwrap()),
        "2 rename person /memories/global/a.md /memories/global/b.md"
    );
    // Another process, and an editor.
    place.run_ok(&["create", "project/c.md", "c"]);
    assert_eq!(file(stream.next().unwrap()), "3 create person /memories/project/c.md ");
    fs::write(place.home().join("memory/b.md"), "edited\n").unwrap();
    assert_eq!(file(stream.next().unwrap()), "4 outside outside /memories/global/b.md ");
    let task = daemon.task("remember", &remember("I like tea."));
    let told = stream.next().unwrap();
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(managed(&told), (5, ManagedSource::Remember, id.to_owned()));

    let missed = daemon.stream("/v1/events", &[("Last-Event-ID", "0")]);
    let ids: Vec<_> = (0..5).map(|_| missed.next().unwrap().id.unwrap()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
}

#[test]
fn the_end_of_a_session_ends_only_its_streams() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (first, second) = (daemon.session(), daemon.session());
    let [ours, theirs] = [&first, &second]
        .map(|(session, _)| daemon.stream(&format!("/session/{session}/events"), &[]));
    let ended = daemon.ask("DELETE", &format!("/session/{}", first.0)).send();
    assert_eq!(ended.status, 204);
    assert_eq!(ours.next(), None);
    daemon.task("remember", &remember("I like tea."));
    assert_eq!(theirs.next().unwrap().id, Some(1));
    let gone = daemon.ask("GET", &format!("/session/{}/events", first.0));
    assert_eq!(gone.code(), (404, "session_not_found".to_owned()));
    let beat = daemon.ask("POST", &format!("/session/{}/heartbeat", second.0)).send();
    assert_eq!((beat.status, &beat.json()["clientId"]), (200, &json!(second.1)));
}

#[test]
fn the_stream_of_a_session_is_for_its_client_in_a_trusted_workspace() {
    let place = Sandbox::new();
    fs::create_dir(place.path().join("other")).unwrap();
    let daemon = Daemon::start_with(&place, &["--workspace", ".", "--untrusted", "../other"]);
    let (first, second) = (daemon.session(), daemon.session());
    let path = format!("/session/{}/events", first.0);
    let as_client =
        |client: &str| daemon.ask("GET", &path).header("X-Qwen-Client-Id", client).code();
    assert_eq!(as_client("not one").1, "invalid_client_id");
    assert_eq!(as_client("client-unknown").1, "invalid_client_id");
    assert_eq!(as_client(&second.1), (404, "session_not_found".to_owned()));
    let stream = daemon.stream(&path, &[("X-Qwen-Client-Id", &first.1)]);
    daemon.task("remember", &remember("I like tea."));
    assert_eq!(stream.next().unwrap().id, Some(1));

    let cwd = fs::canonicalize(place.path().join("other")).unwrap();
    let untrusted = daemon.post("/session", &json!({ "cwd": cwd })).json();
    let path = format!("/session/{}/events", untrusted["sessionId"].as_str().unwrap());
    assert_eq!(daemon.ask("GET", &path).code(), (403, "untrusted_workspace".to_owned()));
}

#[test]
fn a_session_receives_tasks_of_another_process() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let (session, _) = daemon.session();
    let stream = daemon.stream(&format!("/session/{session}/events"), &[]);
    place.run_ok(&["remember", "I like tea."]);
    assert_eq!(managed(&stream.next().unwrap()).1, ManagedSource::Remember);
}

#[test]
fn a_removed_folder_is_published_completely() {
    const FILES: u64 = 700;
    let (place, daemon) = Daemon::in_new_sandbox();
    let folder = place.home().join("memory/many");
    fs::create_dir_all(&folder).unwrap();
    for number in 0..FILES {
        fs::write(folder.join(format!("{number:04}.md")), "- a fact\n").unwrap();
    }
    let stream = daemon.stream("/v1/events", &[]);
    let call = json!({ "command": "delete", "path": "/memories/global/many" });
    assert_eq!(daemon.post("/v1/tool", &call).status, 200);
    let mut told = Vec::new();
    while told.len() < usize::try_from(FILES).unwrap() {
        match stream.next().unwrap() {
            Envelope { event: Event::SlowClientWarning(_), .. } => {}
            Envelope {
                id,
                event: Event::MemoryChanged(MemoryChanged::File { path, kind, .. }),
                ..
            } if kind == "delete" => {
                told.push((id.unwrap(), path));
            }
            // The existing memories are recorded for the first time.
            Envelope { event: Event::MemoryChanged(MemoryChanged::File { kind, .. }), .. } => {
                assert_eq!(kind, "outside");
            }
            other => panic!("{other:?}"),
        }
    }
    let first = told[0].0;
    let path = |number| format!("/memories/global/many/{number:04}.md");
    let expected: Vec<_> = (0..FILES).map(|number| (first + number, path(number))).collect();
    assert_eq!(told, expected);
}

#[test]
fn a_session_has_a_limited_number_of_streams() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (session, _) = daemon.session();
    let path = format!("/session/{session}/events");
    let streams: Vec<_> = (0..64).map(|_| daemon.stream(&path, &[])).collect();
    assert_eq!(daemon.ask("GET", &path).code(), (429, "too_many_subscribers".to_owned()));
    daemon.task("remember", &remember("I like tea."));
    for stream in &streams {
        assert_eq!(stream.next().unwrap().id, Some(1));
    }
}

#[test]
fn the_command_line_shows_the_events_of_the_daemon() {
    let place = Sandbox::new();
    assert_eq!(place.run(&["events"]).status, 1, "nobody is there");
    let daemon = Daemon::start(&place);
    daemon.post(
        "/v1/tool",
        &json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "a\n" }),
    );
    let task = daemon.task("remember", &remember("I like tea."));
    let shown = place.lukasa(&["events"]).env("LUKASA_TOKEN", super::TOKEN).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let shown = String::from_utf8(shown.stdout).unwrap();
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(shown, format!("1 create by agent /memories/global/a.md\n2 task {id} (user)\n"));
}

#[test]
fn a_daemon_that_ends_ends_its_streams() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (session, _) = daemon.session();
    let streams = [format!("/session/{session}/events"), "/v1/events".to_owned()]
        .map(|path| daemon.stream(&path, &[]));
    daemon.signal("TERM");
    for stream in streams {
        assert_eq!(stream.next(), None);
    }
    assert_eq!(daemon.end().0, Some(0));
}
