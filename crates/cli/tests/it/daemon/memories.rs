//! Tests of `/v1`: memories with preconditions, the tool, search, history, archives, metrics, API description.

use std::fs;
use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::{Daemon, HttpResponse};
use crate::sandbox::Sandbox;

fn put(daemon: &Daemon, path: &str, text: &str, precondition: (&str, &str)) -> HttpResponse {
    let (name, value) = precondition;
    let ask = daemon.ask("PUT", &format!("/v1/memories/{path}"));
    ask.json(&json!({ "text": text })).header(name, value).send()
}

fn make(daemon: &Daemon, path: &str, text: &str) -> String {
    let made = put(daemon, path, text, ("If-None-Match", "*"));
    assert_eq!(made.status, 201, "{}", made.text());
    made.header("ETag").unwrap().to_owned()
}

/// Writes into a memory's file without changing its time of modification.
fn edit_quietly(file: &Path, text: &str) {
    let long_ago = SystemTime::now() - Duration::from_hours(1);
    fs::write(file, text).unwrap();
    fs::File::options().write(true).open(file).unwrap().set_modified(long_ago).unwrap();
}

#[test]
fn an_edit_of_a_file_is_read_at_once_although_it_changes_neither_size_nor_date() {
    let (place, daemon) = Daemon::in_new_sandbox();
    make(&daemon, "global/a.md", "one\n");
    let file = place.home().join("memory/a.md");
    let read = || {
        let read = daemon.get("/v1/memories/global/a.md");
        (read.status, read.header("ETag").map(str::to_owned), read.json()["text"].clone())
    };
    let mut before = None;
    for text in ["one\n", "two\n", "six\n"] {
        // The same length and time as before.
        edit_quietly(&file, text);
        let first = read();
        assert_eq!((first.0, &first.2), (200, &json!(text)));
        assert_eq!(read(), first);
        assert_ne!(before.replace(first.1.clone()), Some(first.1));
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(daemon.get("/v1/memories/global/a.md").status, 404);
}

#[test]
fn a_read_is_answered_the_same_by_each_of_its_routes() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let tag = make(&daemon, "global/a.md", "one\n");
    let task = daemon.task("remember", &json!({ "content": "The pier gate opens at six." }));
    let task = task["taskId"].as_str().unwrap();
    let told = |answer: &HttpResponse| {
        let mut head: Vec<String> = answer.headers().map(str::to_lowercase).collect();
        // These headers differ in each answer.
        head.retain(|line| !line.starts_with("x-request-id:") && !line.starts_with("date:"));
        head.sort();
        (answer.status, head, answer.text())
    };
    let memory = "/v1/memories/global/a.md";
    let first = told(&daemon.get(memory));
    assert_eq!(first.0, 200);
    assert_eq!(told(&daemon.get(memory)), first);
    assert_eq!(told(&daemon.get("/v1/memories/global/%61.md")), first);
    let looked_at = format!("/workspace/memory/remember/{task}");
    let by_route = format!("/workspaces/{}/memory/remember/{task}", daemon.workspace(0));
    assert_eq!(told(&daemon.get(&looked_at)), told(&daemon.get(&by_route)));
    for wrong in ["forget/TASK", "remember/none", "nothing/TASK"] {
        let wrong = wrong.replace("TASK", task);
        let plain = told(&daemon.get(&format!("/workspace/memory/{wrong}")));
        assert_eq!(plain.0, 404, "{wrong}");
        let by_route = format!("/workspaces/{}/memory/{wrong}", daemon.workspace(0));
        assert_eq!(plain, told(&daemon.get(&by_route)), "{wrong}");
    }
    for path in [memory, &looked_at] {
        let ask = |name: &str, value: &str| daemon.ask("GET", path).header(name, value).send();
        assert_eq!(ask("Authorization", "Bearer x").status, 401, "{path}");
        assert_eq!(ask("Host", "example.com").status, 403, "{path}");
        assert_eq!(ask("Origin", "http://example.com").status, 403, "{path}");
        assert_eq!(ask("X-Qwen-Client-Id", "nobody").json()["code"], "invalid_client_id");
        assert_eq!(ask("X-Request-Id", "mine").header("X-Request-Id"), Some("mine"));
    }
    let known = daemon.ask("GET", memory).header("If-None-Match", &tag).send();
    assert_eq!((known.status, known.text().as_str()), (304, ""));
    let metrics = daemon.get("/metrics").text();
    for (route, status, count) in [
        ("/v1/memories/{*path}", 200, 4),
        ("/v1/memories/{*path}", 401, 1),
        ("/workspace/memory/{kind}/{task}", 401, 1),
    ] {
        let labels = format!("{{method=\"GET\",route=\"{route}\",status=\"{status}\"}}");
        let line = format!("lukasa_http_answers_total{labels} {count}\n");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }
}

#[test]
fn a_write_names_what_it_replaces() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let first = make(&daemon, "global/a.md", "one\n");
    assert_eq!(place.view("global/a.md"), "one\n");
    let read = daemon.get("/v1/memories/global/a.md");
    assert_eq!((read.status, read.header("ETag")), (200, Some(first.as_str())));
    assert_eq!(
        (&read.json()["text"], &read.json()["path"]),
        (&json!("one\n"), &json!("/memories/global/a.md"))
    );
    let same = daemon.ask("GET", "/v1/memories/global/a.md").header("If-None-Match", &first).send();
    assert_eq!((same.status, same.text()), (304, String::new()));

    let second = put(&daemon, "global/a.md", "two\n", ("If-Match", &first));
    assert_eq!(second.status, 200, "{}", second.text());
    let current = second.json()["revision"].clone();
    for precondition in [("If-Match", first.as_str()), ("If-None-Match", "*")] {
        let late = put(&daemon, "global/a.md", "three\n", precondition);
        let body = late.json();
        assert_eq!((late.status, &body["code"]), (412, &json!("conflict")), "{precondition:?}");
        assert_eq!(body["revision"], current);
    }
    let unnamed = |path: &str, text: &str| {
        let ask = daemon.ask("PUT", &format!("/v1/memories/{path}"));
        ask.json(&json!({ "text": text })).code()
    };
    assert_eq!(unnamed("global/a.md", "x"), (428, "precondition_required".to_owned()));
    assert_eq!(unnamed("global/a.md", "two\n").0, 428, "even if it would change nothing");
    assert_eq!(unnamed("global/made.md", "new\n").0, 201, "nothing is there to be replaced");
    assert_eq!(place.view("global/made.md"), "new\n");
    assert_eq!(unnamed("global/made.md", "newer\n").0, 428);
    assert_eq!(place.view("global/made.md"), "new\n");
    for bad in ["two", "\"two", "*, \"x\"", ""] {
        let answer = put(&daemon, "global/a.md", "x", ("If-Match", bad));
        let code = (answer.status, answer.json()["code"].clone());
        assert_eq!(code, (400, json!("invalid_precondition")), "{bad}");
    }
    assert_eq!(place.view("global/a.md"), "two\n");

    let ask = |precondition: &str| {
        daemon.ask("DELETE", "/v1/memories/global/a.md").header("If-Match", precondition).send()
    };
    assert_eq!(ask(&first).status, 412);
    let gone = ask(second.header("ETag").unwrap());
    assert_eq!(gone.status, 200, "{}", gone.text());
    assert_eq!(daemon.get("/v1/memories/global/a.md").status, 404);
    assert_eq!(daemon.ask("DELETE", "/v1/memories/global/a.md").send().status, 404);
}

#[test]
fn a_write_names_what_it_replaces_in_any_way_that_http_knows() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let path = "global/a.md";
    let first = make(&daemon, path, "one\n");
    let refused = |answer: &HttpResponse, revision: Value| {
        let body = answer.json();
        let told = (answer.status, body["code"].clone(), body["revision"].clone());
        assert_eq!(told, (412, json!("conflict"), revision), "{body}");
    };
    let current = |tag: &str| json!(tag.trim_matches('"'));
    for none in [format!("W/{first}"), "\"5f2a\"".to_owned(), format!("W/{first}, \"a,b\"")] {
        refused(&put(&daemon, path, "x", ("If-Match", &none)), current(&first));
        let delete = daemon.ask("DELETE", "/v1/memories/global/a.md");
        refused(&delete.header("If-Match", &none).send(), current(&first));
    }
    for (number, these) in [format!("\"5f2a\", {first}"), "*".to_owned()].into_iter().enumerate() {
        let put = put(&daemon, path, &format!("{number}\n"), ("If-Match", &these));
        assert_eq!(put.status, 200, "{these}: {}", put.text());
    }
    let ask = daemon.ask("PUT", "/v1/memories/global/a.md").json(&json!({ "text": "two\n" }));
    let both = ask.header("If-Match", &first).header("If-Match", "\"5f2a\"").send();
    let now = daemon.get("/v1/memories/global/a.md").header("ETag").unwrap().to_owned();
    refused(&both, current(&now));
    refused(&put(&daemon, path, "x", ("If-None-Match", &format!("W/{now}"))), current(&now));
    let other = put(&daemon, path, "two\n", ("If-None-Match", &first));
    assert_eq!(other.status, 200, "{}", other.text());
    let tag = other.header("ETag").unwrap();

    let read = |header: (&str, &str)| {
        daemon.ask("GET", "/v1/memories/global/a.md").header(header.0, header.1).send()
    };
    for known in ["*", tag, &format!("W/{tag}"), &format!("{first}, {tag}")] {
        let answer = read(("If-None-Match", known));
        let told = (answer.status, answer.header("ETag"), answer.text());
        assert_eq!(told, (304, Some(tag), String::new()), "{known}");
    }
    assert_eq!(read(("If-None-Match", &first)).json()["text"], "two\n");
    assert_eq!(read(("If-Match", tag)).status, 200);
    refused(&read(("If-Match", &first)), current(tag));
    for name in ["If-Match", "If-None-Match"] {
        let answer = read((name, "two"));
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_precondition")));
    }

    let gone = daemon.ask("DELETE", "/v1/memories/global/a.md");
    assert_eq!(gone.header("If-Match", "*").send().status, 200);
    for any in ["*", tag] {
        refused(&put(&daemon, path, "x", ("If-Match", any)), Value::Null);
        let gone = daemon.ask("DELETE", "/v1/memories/global/a.md");
        refused(&gone.header("If-Match", any).send(), Value::Null);
        assert_eq!(read(("If-Match", any)).status, 404);
    }
    assert_eq!(put(&daemon, path, "new\n", ("If-None-Match", tag)).status, 201);
    assert_eq!(place.view(path), "new\n");
}

#[test]
fn of_writers_that_name_the_same_revision_at_once_one_wins() {
    const WRITERS: usize = 8;
    let (_place, daemon) = Daemon::in_new_sandbox();
    let first = make(&daemon, "global/a.md", "zero\n");
    // Sends all writes at once, and counts their answers.
    let race = |header: &'static str, value: &str, name: &str| {
        let at_once = Barrier::new(WRITERS);
        let write = |number: usize| {
            at_once.wait();
            put(&daemon, name, &format!("{number}\n"), (header, value)).status
        };
        let mut statuses = std::thread::scope(|scope| {
            let write = &write;
            let all: Vec<_> = (0..WRITERS).map(|n| scope.spawn(move || write(n))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        statuses.sort_unstable();
        statuses
    };
    let one_wins = |winner: u16| {
        let mut expected = vec![412; WRITERS];
        expected[0] = winner;
        expected
    };
    assert_eq!(race("If-Match", &format!("\"x\", {first}"), "global/a.md"), one_wins(200));
    assert_eq!(race("If-None-Match", "*", "global/b.md"), one_wins(201));
    assert_eq!(race("If-Match", "*", "global/b.md"), vec![200; WRITERS]);
    let changes = daemon.get("/v1/changes?max=100").json()["changes"].as_array().unwrap().len();
    assert!((1 + 2..=1 + 2 + WRITERS).contains(&changes), "{changes}");
}

#[test]
fn a_forbidden_write_is_refused_with_its_code() {
    let place = Sandbox::new();
    // Without a checkout there is neither a project nor a workspace.
    let daemon = Daemon::start_with(&place, &["--project", &place.home().display().to_string()]);
    let check = |path: &str, text: &str, expected: (u16, &str)| {
        let answer = put(&daemon, path, text, ("If-None-Match", "*"));
        let code = answer.json()["code"].as_str().unwrap().to_owned();
        assert_eq!((answer.status, code.as_str()), expected, "{path}");
    };
    check("global/../../etc/passwd", "x", (400, "invalid_path"));
    check("global/%2e%2e/x.md", "x", (400, "invalid_path"));
    check("nowhere/x.md", "x", (400, "invalid_path"));
    check("workspace/x.md", "x", (409, "scope_unavailable"));
    check("global/big.md", &"x".repeat(102_401), (413, "too_large"));
    let secret = "key: sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKl\n";
    check("global/key.md", secret, (422, "screened"));
    let ask = daemon.ask("PUT", "/v1/memories/global/a.md").header("If-None-Match", "*");
    let wrong = ask.json(&json!({ "text": 1 })).send();
    assert_eq!((wrong.status, &wrong.json()["code"]), (400, &json!("invalid_arguments")));
    assert!(wrong.json()["error"].as_str().unwrap().starts_with("`text`: "), "{}", wrong.text());
    assert_eq!(daemon.get("/v1/memories").json()["memories"], json!([]));
}

#[test]
fn memories_are_listed_page_by_page() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    for (path, text) in [
        ("global/a.md", "---\ndescription: About tea\n---\nx\n"),
        ("global/b.md", "This one is longer than any of the others.\n"),
        ("project/c.md", "---\ntype: project\n---\n"),
    ] {
        make(&daemon, path, text);
    }
    assert_eq!(daemon.ask("PUT", "/v1/pins/global/b.md").send().json()["changed"], true);
    assert_eq!(daemon.ask("PUT", "/v1/pins/global/b.md").send().json()["changed"], false);
    let names = |query: &str| {
        let page = daemon.get(&format!("/v1/memories{query}"));
        assert_eq!(page.status, 200, "{query} {}", page.text());
        let memories = page.json()["memories"].as_array().unwrap().clone();
        let name = |memory: &Value| {
            memory["path"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        memories.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(""), "a.md b.md c.md");
    assert_eq!(names("?scope=project"), "c.md");
    assert_eq!(names("?q=TEA"), "a.md");
    assert_eq!(names("?pinned=true"), "b.md");
    assert_eq!(names("?sort=bytes&max=1"), "b.md");
    let first = daemon.get("/v1/memories?max=2").json();
    assert_eq!(first["total"], 3);
    let cursor = first["nextCursor"].as_str().unwrap();
    assert_eq!(names(&format!("?max=2&cursor={cursor}")), "c.md");
    for query in ["?scope=nowhere", "?sort=color", "?cursor=x", "?max=many"] {
        assert_eq!(daemon.get(&format!("/v1/memories{query}")).status, 400, "{query}");
    }
    let all = daemon.get("/v1/memories").json();
    let memory = &all["memories"][0];
    assert_eq!((&memory["scope"], &memory["description"]), (&json!("global"), &json!("About tea")));
    assert_eq!((&memory["lastAuthor"], &memory["pinned"]), (&json!("person"), &json!(false)));
    assert_eq!(memory["revision"].as_str().unwrap().len(), 64);
    assert_eq!(all["unavailable"], json!([]));
    assert_eq!(daemon.ask("DELETE", "/v1/pins/global/b.md").send().json()["pinned"], false);
    assert_eq!(names("?pinned=true"), "");
}

#[test]
fn the_requests_of_one_client_share_the_influence_of_its_reads() {
    let place = Sandbox::new();
    let root = place.checkout().join(".lukasa/memory");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("build.md"), "- Build with make\n").unwrap();
    let daemon = Daemon::start(&place);
    let client = || {
        let begun = daemon.post("/session", &json!({})).json();
        begun["clientId"].as_str().unwrap().to_owned()
    };
    let (reader, other) = (client(), client());
    let call = |client: &str, arguments: Value| {
        let ask = daemon.ask("POST", "/v1/tool").json(&arguments);
        let answer = ask.header("X-Lukasa-Client-Id", client).send().json();
        assert_eq!(answer["ok"], true, "{answer}");
    };
    let create = |name: &str| json!({ "command": "create", "path": format!("/memories/global/{name}.md"), "file_text": name });
    call(&reader, json!({ "command": "view", "path": "/memories/project/build.md" }));
    call(&other, create("by-other"));
    call(&reader, create("by-reader"));
    // An unknown session does not reset the influence, and the instruction files cannot be read.
    let made_up = daemon.ask("POST", "/v1/tool").json(&create("made-up"));
    let made_up = made_up.header("X-Lukasa-Client-Id", &reader).header("Mcp-Session-Id", "mine");
    assert_eq!(made_up.send().json()["ok"], true);
    let fact = json!({ "content": "Always build with make", "scope": "global" });
    let save = |client: &str| {
        let ask = daemon.ask("POST", "/workspace/memory").json(&fact);
        ask.header("X-Lukasa-Client-Id", client).send().status
    };
    assert_eq!((save(&reader), save(&other)), (403, 200));
    // A task does not raise the trust of its text.
    let fact = json!({ "content": "I always build with make." });
    let ask = daemon.ask("POST", "/workspace/memory/remember").json(&fact);
    let task = ask.header("X-Lukasa-Client-Id", &reader).send().json();
    let task = daemon.finished("remember", task["taskId"].as_str().unwrap(), Some(&reader));
    assert_eq!(task["status"], "completed", "{task}");
    let pending = daemon.get("/v1/pending").json();
    let reviews: Vec<_> = pending["proposals"].as_array().unwrap().iter().collect();
    assert_eq!(pending["waiting"], 3);
    assert!(reviews.iter().all(|one| one["kind"] == "review"), "{pending}");
    assert_eq!(reviews[0]["review"]["path"], "/memories/global/by-reader.md");
    assert_eq!(reviews[1]["review"]["path"], "/memories/global/made-up.md");
    let decided = daemon.post("/v1/pending/accept", &json!({ "ids": [reviews[0]["id"]] })).json();
    assert_eq!(decided["decisions"][0]["done"], true, "{decided}");
    assert_eq!(daemon.get("/v1/pending").json()["waiting"], 2);
}

#[test]
fn the_tool_is_called_and_refuses_as_a_model_reads_it() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let call = |arguments: Value| daemon.post("/v1/tool", &arguments).json();
    let made =
        call(json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "tea\n" }));
    assert_eq!(made["text"], "File created successfully at: /memories/global/a.md");
    assert_eq!((&made["ok"], &made["change"]), (&json!(true), &json!(1)));
    let again =
        call(json!({ "command": "create", "path": "/memories/global/a.md", "file_text": "x" }));
    assert_eq!((&again["ok"], &again["code"]), (&json!(false), &json!("already_exists")));
    let unknown = call(json!({ "command": "shout" }));
    assert_eq!((&unknown["ok"], &unknown["code"]), (&json!(false), &json!("invalid_arguments")));
    let looking = daemon
        .ask("POST", "/v1/tool")
        .header("X-Lukasa-Agent-Class", "explore")
        .json(&json!({ "command": "delete", "path": "/memories/global/a.md" }))
        .send();
    assert_eq!(looking.json()["code"], "read_only");
    let found = daemon.get("/v1/search?q=TEA").json();
    assert_eq!(
        found["matches"],
        json!([{ "path": "/memories/global/a.md", "line": 1, "text": "tea" }])
    );
    assert_eq!(daemon.get("/v1/search?q=rockets").json()["matches"], json!([]));
    assert_eq!(daemon.get("/v1/search?q=").status, 400);
    assert_eq!(daemon.get("/v1/search").status, 400);
}

#[test]
fn a_change_is_shown_with_its_difference_and_undone() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let first = make(&daemon, "global/a.md", "one\n");
    assert_eq!(put(&daemon, "global/a.md", "two\n", ("If-Match", &first)).status, 200);
    let page = daemon.get("/v1/changes?max=1").json();
    assert_eq!((&page["changes"][0]["id"], &page["nextCursor"]), (&json!(2), &json!("2")));
    let older = daemon.get("/v1/changes?max=1&cursor=2").json();
    assert_eq!(older["changes"][0]["id"], 1);
    let shown = daemon.get("/v1/changes/2").json();
    assert_eq!(
        (&shown["kind"], &shown["actor"], &shown["origin"]),
        (&json!("save"), &json!("person"), &json!("http"))
    );
    assert!(shown["diffs"][0]["diff"].as_str().unwrap().contains("-one\n+two\n"), "{shown}");

    let would = daemon.post("/v1/changes/2/undo?dryRun=true", &json!({})).json();
    assert_eq!((&would["undone"], would.get("change")), (&json!([2]), None));
    assert_eq!(place.view("global/a.md"), "two\n");
    let undone = daemon.post("/v1/changes/2/undo", &json!({})).json();
    assert_eq!(
        (&undone["change"], &undone["paths"]),
        (&json!(3), &json!(["/memories/global/a.md"]))
    );
    assert_eq!(place.view("global/a.md"), "one\n");
    let blocked = daemon.post("/v1/changes/2/undo", &json!({}));
    assert!([404, 409].contains(&blocked.status), "{}", blocked.text());
    assert_eq!(daemon.get("/v1/changes/99").status, 404);
    assert_eq!(daemon.get("/v1/changes/x").status, 400);

    let task = daemon.task("remember", &json!({ "content": "I like tea." }));
    let id = task["taskId"].as_str().unwrap();
    let of_task = daemon.get(&format!("/v1/changes?task={id}")).json();
    assert_eq!(of_task["changes"].as_array().unwrap().len(), 1, "{of_task}");
    assert_eq!(of_task["changes"][0]["actor"], "task");
}

#[test]
fn an_exported_archive_can_be_imported_elsewhere() {
    let (here, there) = (Sandbox::new(), Sandbox::new());
    let daemon = Daemon::start(&here);
    make(&daemon, "global/a.md", "one\n");
    make(&daemon, "project/deep/b.md", "two\n");
    let archive = daemon.get("/v1/export");
    assert_eq!(archive.header("Content-Type"), Some("application/x-tar"));
    let other = Daemon::start(&there);
    let import = || other.ask("POST", "/v1/import").bytes(archive.bytes()).send();
    let first = import();
    assert_eq!(first.status, 200, "{}", first.text());
    assert_eq!(first.json()["memories"].as_array().unwrap().len(), 2, "{}", first.text());
    assert_eq!(there.view("project/deep/b.md"), "two\n");
    let again = import().json();
    assert_eq!((again["memories"].as_array().unwrap().len(), again.get("change")), (0, None));
    let below =
        other.ask("POST", "/v1/import?to=/memories/project/old").bytes(archive.bytes()).send();
    assert_eq!(below.status, 200, "{}", below.text());
    assert_eq!(there.view("project/old/global/a.md"), "one\n");
    let nonsense = other.ask("POST", "/v1/import").bytes(&[7; 2_000]);
    assert_eq!(nonsense.code(), (400, "invalid_archive".to_owned()));
}

#[test]
fn an_archive_with_too_many_entries_is_refused_as_a_whole() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let archive = |folders: usize| {
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_entry_type(tar::EntryType::Directory);
        for number in 0..folders {
            archive.append_data(&mut header, format!("global/{number}/"), &b""[..]).unwrap();
        }
        header.set_size(4);
        header.set_entry_type(tar::EntryType::Regular);
        archive.append_data(&mut header, "global/last.md", &b"tea\n"[..]).unwrap();
        archive.into_inner().unwrap()
    };
    let import = |bytes: &[u8]| daemon.ask("POST", "/v1/import").bytes(bytes).send();
    let refused = import(&archive(20_000));
    let body = refused.json();
    assert_eq!((refused.status, &body["code"]), (400, &json!("invalid_archive")));
    assert_eq!(
        (&body["error"], &body["maxEntries"]),
        (&json!("the archive has more than 20000 entries"), &json!(20_000))
    );
    assert_eq!(daemon.get("/v1/memories").json()["total"], 0);
    let taken = import(&archive(19_999));
    assert_eq!(taken.status, 200, "{}", taken.text());
    assert_eq!(place.view("global/last.md"), "tea\n");
}

#[test]
fn an_export_is_created_while_it_is_sent() {
    use std::io::Read as _;
    let (place, daemon) = Daemon::in_new_sandbox();
    // Files without Lukasa's record, many times larger than the daemon's buffers for sending.
    let root = place.home().join("memory");
    std::fs::create_dir_all(&root).unwrap();
    let text = "- All of it is to come out again.\n".repeat(2_900);
    for number in 0..400 {
        std::fs::write(root.join(format!("{number}.md")), &text).unwrap();
    }
    assert_eq!(daemon.get("/v1/memories?max=1").json()["total"], 400);
    let before = daemon.memory_peak();
    let archive = daemon.get("/v1/export");
    assert!(archive.bytes().len() > 400 * text.len());
    let grown = daemon.memory_peak() - before;
    assert!(grown < 20 * 1024 * 1024, "{grown} bytes for an archive of {}", archive.bytes().len());
    let mut entries = 0;
    for entry in tar::Archive::new(archive.bytes()).entries().unwrap() {
        let mut read = String::new();
        entry.unwrap().read_to_string(&mut read).unwrap();
        assert_eq!(read, text);
        entries += 1;
    }
    assert_eq!(entries, 400);
}

#[test]
fn a_deep_health_check_reports_whether_memories_are_usable() {
    let (place, daemon) = Daemon::in_new_sandbox();
    make(&daemon, "global/a.md", "one\n");
    let health = daemon.get("/health").json();
    assert_eq!(health, json!({ "status": "ok" }));
    assert_eq!(daemon.get("/health?deep=0").json(), json!({ "status": "ok" }));
    let deep = daemon.ask("GET", "/health?deep=1");
    assert_eq!(deep.without_header("Authorization").send().status, 401);
    let workspace = json!({
        "id": daemon.workspace(0), "memories": 1, "unfinishedTasks": 0, "findings": 0,
    });
    let told = daemon.get("/health?deep=1").json();
    assert_eq!(told, json!({ "status": "ok", "workspaces": [workspace] }));

    let (state, aside) = (place.home().join("state"), place.home().join("aside"));
    std::fs::rename(&state, &aside).unwrap();
    std::fs::write(&state, "no folder").unwrap();
    let refused = daemon.get("/health?deep=1");
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("degraded")));
    let finding = &refused.json()["findings"][0];
    assert_eq!(finding["kind"], "unwritable", "{finding}");
    assert_eq!(daemon.get("/health").json(), json!({ "status": "ok" }), "it lives all the same");
    std::fs::remove_file(&state).unwrap();
    std::fs::rename(&aside, &state).unwrap();
    assert_eq!(daemon.get("/health?deep=1").status, 200);
}

#[test]
fn the_daemon_counts_and_describes_itself() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    make(&daemon, "global/a.md", "one\n");
    let stats = daemon.get("/v1/stats").json();
    assert_eq!(stats["scopes"][0]["memories"], 1, "{stats}");
    assert_eq!(stats["history"]["changes"], 1, "{stats}");
    daemon.task("dream", &json!({}));
    let metrics = daemon.get("/metrics");
    assert_eq!(metrics.status, 200, "{}", metrics.text());
    let text = metrics.text();
    for line in [
        "lukasa_http_answers_total{method=\"PUT\",route=\"/v1/memories/{*path}\",status=\"201\"} 1",
        "lukasa_memories{workspace=\"WORKSPACE\",scope=\"global\"} 1",
        "lukasa_tasks{workspace=\"WORKSPACE\",status=\"completed\"} 1",
        "# EOF",
    ] {
        let line = line.replace("WORKSPACE", daemon.workspace(0));
        assert!(text.contains(&line), "{line}\n{text}");
    }
    let description = daemon.get("/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    let page = daemon.get("/docs");
    assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert!(!page.text().contains("<script"));
}

#[test]
fn a_memory_has_a_trust_and_a_time_of_writing() {
    let place = Sandbox::new();
    let root = place.checkout().join(".lukasa/memory");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("cloned.md"), "came with the repository\n").unwrap();
    let daemon = Daemon::start(&place);
    let create = |path: &str| json!({ "command": "create", "path": format!("/memories/{path}"), "file_text": "a\n" });
    assert_eq!(daemon.post("/v1/tool", &create("global/agents.md")).json()["ok"], true);
    let text = json!({ "text": "b\n" });
    let put = daemon.ask("PUT", "/v1/memories/global/persons.md").json(&text).send();
    assert_eq!(put.status, 201);
    let listed = daemon.get("/v1/memories").json()["memories"].as_array().unwrap().clone();
    let check = |path: &str, trust: &str, is_recorded: bool| {
        let item = listed.iter().find(|one| one["path"] == format!("/memories/{path}")).unwrap();
        let read = daemon.get(&format!("/v1/memories/{path}")).json();
        for one in [item, &read] {
            assert_eq!(one["trust"], trust, "{one}");
            assert_eq!(one["lastWrittenAt"].is_string(), is_recorded, "{one}");
            assert!(one["model"].is_null(), "no model said that it wrote this: {one}");
        }
    };
    check("global/agents.md", "agent", true);
    check("global/persons.md", "person", true);
    check("project/cloned.md", "outside", false);

    // A new path is no new text, and an edit by a person does not raise the trust of the other text.
    let written = |path: &str| daemon.get(&format!("/v1/memories/{path}")).json();
    let before = written("global/agents.md");
    let renaming =
        json!({ "from": "/memories/global/agents.md", "to": "/memories/global/moved.md" });
    assert_eq!(daemon.post("/v1/memories/move", &renaming).status, 200);
    assert_eq!(written("global/moved.md")["trust"], before["trust"]);
    let replace = daemon.ask("PUT", "/v1/memories/global/moved.md").header("If-Match", "*");
    assert_eq!(replace.json(&json!({ "text": "c\n" })).send().status, 200);
    let after = written("global/moved.md");
    assert!(after["lastWrittenAt"].as_str().unwrap() > before["lastWrittenAt"].as_str().unwrap());

    // A text that was written without Lukasa has trust `outside`, whatever it had before.
    std::fs::write(place.home().join("memory/persons.md"), "edited\n").unwrap();
    assert_eq!(written("global/persons.md")["trust"], "outside");
}

#[test]
fn a_memory_that_was_moved_to_another_scope_keeps_its_trust() {
    let place = Sandbox::new();
    for (from, to) in [("project/a.md", "global/"), ("global/b.md", "project/")] {
        place.create(from, "text\n");
        place.run_ok(&["mv", from, to]);
    }
    let daemon = Daemon::start(&place);
    for path in ["global/a.md", "project/b.md"] {
        let memory = daemon.get(&format!("/v1/memories/{path}")).json();
        assert_eq!(memory["trust"], "person", "{memory}");
        assert!(memory["lastWrittenAt"].is_string(), "{memory}");
    }
}
