//! Tokens of owners: their roles, and that no route shows or changes what is another owner's.

mod shares;

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::client::Client;
use protocol::tokens::CreateToken;
use serde_json::{Value, json};
use testkit::postgres::PostgresVersion;
use testkit::{delay_fault, eventually};

use super::Database;
use crate::daemon::{Daemon, EventStreamReader, HttpRequest, HttpResponse, PATIENCE};
use crate::sandbox::Sandbox;

/// A text that occurs only in what belongs to the first owner, and in no request of another one.
const MARKER: &str = "zqmarkerzq";

impl Database {
    /// Runs `lukasa token`, and returns what it printed.
    fn token(&self, place: &Sandbox, args: &[&str]) -> Value {
        let mut command = place.lukasa(&[&["--json", "token"], args].concat());
        let ended = place.run_command(command.env("LUKASA_DATABASE", &self.address));
        assert_eq!(ended.status, 0, "{args:?}: {}", ended.shown());
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// Creates a token, and returns its text.
    pub(super) fn new_token(&self, place: &Sandbox, owner: &str, role: &str) -> String {
        let token = self.token(place, &["create", "--owner", owner, "--role", role]);
        token["token"].as_str().unwrap().to_owned()
    }
}

/// A caller of a daemon with a token.
#[derive(Clone, Copy)]
pub(super) struct TokenCaller<'a> {
    pub(super) daemon: &'a Daemon,
    pub(super) token: &'a str,
}

impl<'a> TokenCaller<'a> {
    pub(super) fn ask(self, method: &str, path: &str) -> HttpRequest<'a> {
        self.daemon.ask(method, path).header("Authorization", &format!("Bearer {}", self.token))
    }

    pub(super) fn get(self, path: &str) -> HttpResponse {
        self.ask("GET", path).send()
    }

    pub(super) fn post(self, path: &str, body: &Value) -> HttpResponse {
        self.ask("POST", path).json(body).send()
    }

    pub(super) fn put(self, path: &str, text: &str) -> HttpResponse {
        self.ask("PUT", path).json(&json!({ "text": text })).send()
    }

    /// Runs a task to its end, and returns it.
    fn task(self, kind: &str, body: &Value) -> Value {
        let asked = self.post(&format!("/workspace/memory/{kind}"), body);
        assert_eq!(asked.status, 202, "{}", asked.text());
        let id = asked.json()["taskId"].as_str().unwrap().to_owned();
        eventually(|| {
            let task = self.get(&format!("/workspace/memory/{kind}/{id}")).json();
            if task["status"] == "completed" { Ok(task) } else { Err(task) }
        })
    }
}

/// Returns the path of the next changed memory.
fn changed_path(stream: &EventStreamReader) -> String {
    let event = serde_json::to_value(stream.next().unwrap().event).unwrap();
    event["data"]["path"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn any_daemon_serves_the_owner_and_the_workspace_of_a_request() {
    let database = Database::start(PostgresVersion::Newest);
    let places = [Sandbox::new(), Sandbox::new()];
    let daemons = [database.daemon(&places[0]), database.daemon(&places[1])];
    let [ann, ben] =
        ["ann", "ben@example.org"].map(|owner| database.new_token(&places[0], owner, "write"));
    let [ann, ben] =
        [&ann, &ben].map(|token| daemons.each_ref().map(|daemon| TokenCaller { daemon, token }));

    let path = "/v1/memories/global/own.md";
    assert_eq!(ann[0].put(path, "Of Ann.\n").status, 201);
    assert_eq!(ben[1].put(path, "Of Ben.\n").status, 201);
    for index in [0, 1] {
        assert_eq!(ann[index].get(path).json()["text"], "Of Ann.\n");
        assert_eq!(ben[index].get(path).json()["text"], "Of Ben.\n");
        assert_eq!(daemons[index].get(path).status, 404, "the daemon's own owner has none");
    }

    let path = "/v1/memories/workspace/plan.md";
    for workspace in ["alpha", "beta"] {
        let made = ann[0].put(&format!("{path}?workspace={workspace}"), workspace);
        assert_eq!(made.status, 201, "{}", made.text());
    }
    for workspace in ["alpha", "beta"] {
        let read = ann[1].get(&format!("{path}?workspace={workspace}"));
        assert_eq!(read.json()["text"], workspace);
        assert_eq!(ben[0].get(&format!("{path}?workspace={workspace}")).status, 404);
    }
    assert_eq!(ann[0].get(path).status, 404, "the default workspace is another one");
    assert_eq!(ann[0].get(&format!("{path}?workspace=.hidden")).status, 404);

    let fact = json!({ "content": "The berth of boat zq is number 7." });
    let task = ann[0].post("/workspaces/alpha/memory/remember", &fact).json();
    let task = format!("/workspaces/alpha/memory/remember/{}", task["taskId"].as_str().unwrap());
    eventually(|| match ann[1].get(&task).json() {
        done if done["status"] == "completed" => Ok(()),
        other => Err(other),
    });
    assert_eq!(ben[1].get(&task).status, 404);

    let stream = daemons[1].stream(
        "/v1/events?workspace=alpha",
        &[("Authorization", &format!("Bearer {}", ann[1].token))],
    );
    assert_eq!(ann[0].put("/v1/memories/global/news.md", "News.\n").status, 201);
    assert_eq!(changed_path(&stream), "/memories/global/news.md");
}

#[test]
fn workspaces_of_a_project_share_its_memories_and_others_see_none_of_them() {
    let database = Database::start(PostgresVersion::Debian);
    let places = [Sandbox::new(), Sandbox::new()];
    let daemons = [database.daemon(&places[0]), database.daemon(&places[1])];
    let [ann, ben] = ["ann", "ben"].map(|owner| database.new_token(&places[0], owner, "write"));
    let [here, there] = daemons.each_ref().map(|daemon| TokenCaller { daemon, token: &ann });
    let ben = TokenCaller { daemon: &daemons[0], token: &ben };

    let stream = daemons[1]
        .stream("/v1/events?workspace=beta@shop", &[("Authorization", &format!("Bearer {ann}"))]);
    let path = "/v1/memories/project/stack.md";
    let made = here.put(&format!("{path}?workspace=alpha@shop"), "The shop is built with make.\n");
    assert_eq!(made.status, 201, "{}", made.text());
    let event = serde_json::to_value(stream.next().unwrap().event).unwrap();
    assert_eq!(event["data"]["path"], "/memories/project/stack.md");
    assert_eq!(event["data"].get("workspaceId"), None, "all workspaces of the project have it");
    assert_eq!(there.get(&format!("{path}?workspace=beta%40shop")).status, 200);
    // A workspace without a project has no memories of this scope.
    for (other, status) in [("alpha@mill", 404), ("alpha", 409), ("shop", 409)] {
        assert_eq!(there.get(&format!("{path}?workspace={other}")).status, status, "{other}");
    }
    assert_eq!(ben.get(&format!("{path}?workspace=alpha@shop")).status, 404);
    for bad in ["alpha@", "@shop", "a@b@c", "a@../b"] {
        let refused = here.put(&format!("{path}?workspace={bad}"), "text");
        assert_eq!(refused.status, 404, "{bad}: {}", refused.text());
    }

    // Its own memories belong to the workspace alone, and a task of one workspace writes for the others.
    let own = "/v1/memories/workspace/own.md";
    assert_eq!(here.put(&format!("{own}?workspace=alpha@shop"), "Own.\n").status, 201);
    for other in ["beta@shop", "alpha", "alpha@mill"] {
        assert_eq!(there.get(&format!("{own}?workspace={other}")).status, 404, "{other}");
    }
    let fact = json!({ "content": "Tests of the shop run with make check.", "scope": "project" });
    let asked = here.post("/workspaces/alpha@shop/memory/remember", &fact);
    assert_eq!(asked.status, 202, "{}", asked.text());
    let found = eventually(|| {
        let found = there.get("/v1/recall?workspace=beta@shop&q=make%20check").text();
        if found.contains("make check") { Ok(found) } else { Err(found) }
    });
    assert!(found.contains("/memories/project/"), "{found}");

    let listed = there.get("/v1/workspaces").json();
    let ids: Vec<_> = listed["workspaces"].as_array().unwrap().iter().map(|w| &w["id"]).collect();
    assert_eq!(ids, ["alpha@shop"]);
    assert_eq!(here.ask("DELETE", "/v1/workspaces/alpha@shop").send().status, 200);
    assert_eq!(there.get(&format!("{path}?workspace=beta@shop")).status, 200, "the project stays");
}

#[test]
fn each_request_of_an_mcp_client_may_reach_another_daemon() {
    let database = Database::start(PostgresVersion::Debian);
    let places = [Sandbox::new(), Sandbox::new()];
    let daemons = [database.daemon(&places[0]), database.daemon(&places[1])];
    let token = database.new_token(&places[0], "ann", "write");
    for revision in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut next = 0;
        let mut ask = |method: &str, params: Value| {
            next += 1;
            let caller = TokenCaller { daemon: &daemons[next % 2], token: &token };
            let message =
                json!({ "jsonrpc": "2.0", "id": next, "method": method, "params": params });
            let asked = caller
                .ask("POST", "/mcp")
                .header("Accept", "application/json, text/event-stream")
                .header("MCP-Protocol-Version", revision)
                .json(&message)
                .send();
            assert_eq!(
                (asked.status, asked.header("Mcp-Session-Id")),
                (200, None),
                "{}",
                asked.text()
            );
            let text = asked.text();
            let data = text.lines().find_map(|line| line.strip_prefix("data: "));
            let answer: Value = serde_json::from_str(data.unwrap_or(&text)).unwrap();
            assert!(answer["error"].is_null(), "{method}: {answer}");
            answer["result"].clone()
        };
        let client = json!({ "name": "test", "version": "1" });
        let opened = ask(
            "initialize",
            json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": client }),
        );
        assert_eq!(opened["protocolVersion"], revision);
        assert!(ask("tools/list", json!({}))["tools"].as_array().unwrap().len() > 2);
        let path = format!("/memories/global/{revision}.md");
        let create = json!({ "command": "create", "path": path, "file_text": "From MCP." });
        ask("tools/call", json!({ "name": "memory", "arguments": create }));
        let view = json!({ "command": "view", "path": path });
        let shown = ask("tools/call", json!({ "name": "memory", "arguments": view }));
        assert!(shown.to_string().contains("From MCP."), "{shown}");
    }
}

#[test]
fn tasks_of_a_killed_daemon_are_continued_although_no_other_one_knows_their_owner() {
    let database = Database::start(PostgresVersion::Debian);
    let places = [Sandbox::new(), Sandbox::new()];
    let first = database.daemon(&places[0]);
    let other = database.daemon(&places[1]);
    let token = database.new_token(&places[0], "ann", "write");
    let ann = TokenCaller { daemon: &first, token: &token };
    assert_eq!(ann.get("/v1/memories").status, 200);
    // More tasks than are done before the daemon is dead.
    let mut tasks = Vec::new();
    for number in 0..25 {
        let path = format!("/workspaces/harbor{}/memory/remember", number % 5);
        let fact = format!("The berth of boat zq{number} is number {number}.");
        let task = ann.post(&path, &json!({ "content": fact }));
        assert!([202, 429].contains(&task.status), "{}", task.text());
        if task.status == 202 {
            tasks.push(format!("{path}/{}", task.json()["taskId"].as_str().unwrap()));
        }
    }
    first.kill();
    let left = "SELECT count(*) FROM tasks WHERE status IN ('queued', 'running')";
    assert_ne!(database.server.query("lukasa", left).unwrap().trim(), "0");
    // Without a request of their owner.
    eventually(|| {
        let left = database.server.query("lukasa", left).unwrap();
        if left.trim() == "0" { Ok(()) } else { Err(left) }
    });
    let ann = TokenCaller { daemon: &other, token: &token };
    for task in tasks {
        let task = ann.get(&task).json();
        assert_eq!(task["status"], "completed", "{task}");
    }
}

#[test]
fn a_role_allows_what_it_says_and_a_revoked_token_nothing() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let write = database.new_token(&place, "ann", "write");
    let read = database.new_token(&place, "ann", "read");
    let [write, read] = [&write, &read].map(|token| TokenCaller { daemon: &daemon, token });
    let path = "/v1/memories/global/own.md";
    assert_eq!(write.put(path, "The text.\n").status, 201);

    let view = json!({ "command": "view", "path": "/memories/global/own.md" });
    let create =
        json!({ "command": "create", "path": "/memories/global/new.md", "file_text": "x" });
    assert_eq!(read.get(path).json()["text"], "The text.\n");
    assert!(read.post("/v1/tool", &view).text().contains("The text."));
    let refused = read.post("/v1/tool", &create);
    assert_eq!(refused.json()["code"], "read_only", "{}", refused.text());
    let exec = read.ask("POST", "/v1/tool").header("X-Lukasa-Agent-Class", "exec");
    assert_eq!(exec.json(&create).send().json()["code"], "read_only");
    for (method, path) in [
        ("PUT", path),
        ("DELETE", path),
        ("PUT", "/v1/pins/global/own.md"),
        ("POST", "/v1/undo"),
        ("POST", "/v1/batch"),
        ("POST", "/v1/import"),
        ("POST", "/workspace/memory/remember"),
        ("POST", "/session"),
    ] {
        let refused = read.ask(method, path).json(&json!({ "text": "x" })).send();
        assert_eq!(refused.status, 403, "{method} {path}: {}", refused.text());
        let error = refused.json();
        assert_eq!(
            (&error["code"], &error["requiredRole"]),
            (&json!("insufficient_role"), &json!("write"))
        );
    }
    for (method, path) in [
        ("GET", "/metrics"),
        ("GET", "/v1/settings"),
        ("PUT", "/v1/settings/review.interval"),
        ("GET", "/v1/trust"),
        ("PUT", "/v1/trust"),
        ("POST", "/ui/tickets"),
    ] {
        let refused = write.ask(method, path).json(&json!({})).send();
        assert_eq!(refused.json()["requiredRole"], "operator", "{path}: {}", refused.text());
        assert_ne!(daemon.ask(method, path).json(&json!({})).send().status, 403, "{path}");
    }

    let tokens = database.token(&place, &["list", "--owner", "ann"]);
    let tokens = tokens["tokens"].as_array().unwrap();
    let roles: Vec<_> = tokens.iter().map(|token| token["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["write", "read"]);
    assert!(!tokens.iter().any(|token| token.to_string().contains(write.token)));
    let id = tokens[0]["id"].as_str().unwrap();
    assert_eq!(database.token(&place, &["revoke", id])["revoked"], id);
    eventually(|| match write.get(path).status {
        401 => Ok(()),
        other => Err(other),
    });
    assert_eq!(read.get(path).status, 200);
    database.server.query("lukasa", "UPDATE tokens SET ends_at = now()").unwrap();
    eventually(|| match read.get(path).status {
        401 => Ok(()),
        other => Err(other),
    });
    for unknown in ["lukasa_0", "x", ""] {
        assert_eq!(TokenCaller { daemon: &daemon, token: unknown }.get(path).status, 401);
    }
}

#[test]
fn an_admin_manages_the_tokens_of_the_owner_and_of_no_other_one() {
    let database = Database::start(PostgresVersion::Newest);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let write = database.new_token(&place, "ann", "write");
    let write = TokenCaller { daemon: &daemon, token: &write };
    let admin = database.new_token(&place, "ann", "admin");
    let admin = TokenCaller { daemon: &daemon, token: &admin };
    for (method, path) in
        [("GET", "/v1/tokens"), ("POST", "/v1/tokens"), ("DELETE", "/v1/tokens/0")]
    {
        let refused = write.ask(method, path).json(&json!({ "role": "read" })).send();
        assert_eq!(refused.json()["requiredRole"], "admin", "{method} {path}");
    }
    for (wrong, field) in [
        (json!({ "role": "owner" }), "role"),
        (json!({}), "role"),
        (json!({ "role": "read", "days": 0 }), "days"),
        (json!({ "role": "read", "note": "x".repeat(201) }), "note"),
    ] {
        let refused = admin.post("/v1/tokens", &wrong);
        assert!(refused.status == 400 && refused.text().contains(field), "{}", refused.text());
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = |of: TokenCaller<'_>| {
        let url = of.daemon.log_lines["url"].as_str().unwrap().parse().unwrap();
        Client::new(url, of.token).unwrap().with_deadline(PATIENCE)
    };
    let note = Some("of a test".to_owned());
    let new = CreateToken { role: "read".to_owned(), note: note.clone(), days: Some(1) };
    let made = runtime.block_on(client(admin).create_token(&new)).unwrap();
    let created = TokenCaller { daemon: &daemon, token: &made.token };
    assert_eq!(created.get("/v1/memories").status, 200);
    let listed = runtime.block_on(client(admin).tokens()).unwrap().tokens;
    let listed = listed.iter().find(|token| token.id == made.id).unwrap();
    assert_eq!((listed.role.as_str(), &listed.note), ("read", &note));
    assert!(listed.ends_at.as_ref() > Some(&listed.created_at), "{listed:?}");
    let foreign = database.new_token(&place, "ben", "admin");
    let foreign = TokenCaller { daemon: &daemon, token: &foreign };
    runtime.block_on(client(foreign).revoke_token(&made.id)).unwrap_err();
    runtime.block_on(client(admin).revoke_token(&made.id)).unwrap();
    runtime.block_on(client(admin).revoke_token(&made.id)).unwrap_err();
    eventually(|| match created.get("/v1/memories").status {
        401 => Ok(()),
        other => Err(other),
    });
    assert_eq!(
        daemon.get("/v1/tokens").json()["tokens"],
        json!([]),
        "the operator's owner has none"
    );
}

#[test]
fn an_owner_with_the_most_tokens_gets_another_one_when_one_has_ended() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let admin = database.new_token(&place, "ann", "admin");
    let admin = TokenCaller { daemon: &daemon, token: &admin };
    let fill = "INSERT INTO tokens (owner, id, digest, role, created_at)
        SELECT owners.id, 'id' || n, sha256(n::text::bytea), 'read', now()
        FROM owners, generate_series(1, 998) n WHERE owners.name = 'ann'";
    database.server.query("lukasa", fill).unwrap();
    let new = json!({ "role": "read" });
    let create = || (0..8).map(|_| admin.post("/v1/tokens", &new).status).collect::<Vec<_>>();
    let created: Vec<_> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    assert_eq!(created.iter().filter(|&&status| status == 201).count(), 1, "{created:?}");
    assert_eq!(admin.post("/v1/tokens", &new).json()["code"], "too_many_tokens");

    let by_command = |args: &[&str]| {
        let mut command = place.lukasa(&[&["token", "create"], args].concat());
        place.run_command(command.env("LUKASA_DATABASE", &database.address))
    };
    let refused = by_command(&["--owner", "ann"]);
    assert_eq!(refused.status, 5, "{}", refused.shown());
    assert!(refused.stderr.contains("ann has 1000 tokens"), "{}", refused.shown());
    let refused = by_command(&["--owner", "ben", "--note", &"é".repeat(201)]);
    assert_eq!(refused.status, 2, "{}", refused.shown());
    assert_eq!(by_command(&["--owner", "ben", "--note", &"é".repeat(200)]).status, 0);

    let end = "UPDATE tokens SET ends_at = now() WHERE id = 'id7'";
    database.server.query("lukasa", end).unwrap();
    assert_eq!(admin.post("/v1/tokens", &new).status, 201);
    let listed = admin.get("/v1/tokens").json()["tokens"].as_array().unwrap().clone();
    assert_eq!(listed.len(), 1_000);
    assert!(!listed.iter().any(|token| token["id"] == "id7"), "it was deleted");
    assert_eq!(admin.post("/v1/tokens", &new).status, 409);
}

#[test]
fn a_workspace_with_memories_is_listed_and_removed_and_one_that_was_only_named_is_not() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let token = database.new_token(&place, "ann", "write");
    let ann = TokenCaller { daemon: &daemon, token: &token };
    assert_eq!(ann.put("/v1/memories/workspace/plan.md?workspace=alpha", "Plan.\n").status, 201);
    assert_eq!(ann.get("/v1/memories?workspace=invented").status, 200);
    let listed = || {
        let listed = ann.get("/v1/workspaces").json();
        let ids = listed["workspaces"].as_array().unwrap().iter();
        ids.map(|one| one["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(), ["alpha"]);
    let removed = ann.ask("DELETE", "/v1/workspaces/alpha").send();
    assert_eq!(removed.json()["memories"], json!(["/memories/workspace/plan.md"]));
    assert_eq!(listed(), [""; 0]);
}

#[test]
fn the_page_behind_a_tls_proxy_may_write() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let direct = database.daemon(&place);
    let other = Sandbox::new();
    let proxied = database.command(&other, &["--allow-remote", "--behind-proxy"]);
    let proxied = Daemon::start_by(proxied);
    let put = |daemon: &Daemon, origin: &str| {
        let put = daemon.ask("PUT", "/v1/memories/global/own.md").header("Origin", origin);
        put.json(&json!({ "text": "x\n" })).send().status
    };
    assert_eq!(put(&direct, "https://localhost"), 403);
    assert_eq!(put(&proxied, "https://evil.example"), 403);
    assert_eq!(put(&proxied, "https://localhost"), 201);
}

#[test]
fn a_daemon_stops_while_it_looks_for_tasks_and_the_server_is_away() {
    let mut database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let token = database.new_token(&place, "ann", "write");
    let ann = TokenCaller { daemon: &daemon, token: &token };
    assert_eq!(ann.get("/v1/memories").status, 200);
    // Tasks of many owners that no daemon has open.
    let tasks = "INSERT INTO owners SELECT n, 'o' || n FROM generate_series(1, 200) n;
        INSERT INTO counters (owner) SELECT generate_series(1, 200);
        INSERT INTO tasks (owner, seq, id, workspace, kind, status, attempts, created_at, updated_at, request)
        SELECT n, 1, 'remember-' || n, 'w', 'remember', 'queued', 0, 0, 0, '{}' FROM generate_series(1, 200) n";
    database.server.query("lukasa", tasks).unwrap();
    delay_fault(Duration::from_secs(6));
    database.server.kill().unwrap();
    delay_fault(Duration::from_secs(5));
    let begun = std::time::Instant::now();
    daemon.signal("TERM");
    let (status, _) = daemon.end();
    assert_eq!(status, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn an_owner_at_a_limit_is_refused_and_others_are_not() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let limits = ["--max-owner-bytes", "3000", "--max-owner-tasks", "0"];
    let daemon = Daemon::start_by(database.command(&place, &limits));
    let [first, other] = ["first", "other"].map(|owner| database.new_token(&place, owner, "write"));
    let [first, other] = [&first, &other].map(|token| TokenCaller { daemon: &daemon, token });
    let text = "x".repeat(999) + "\n";
    // In two workspaces, because the limit is the owner's.
    let path = |name: &str, workspace| format!("/v1/memories/{name}.md?workspace={workspace}");
    for (name, workspace) in [("global/a", "w"), ("workspace/b", "w"), ("workspace/b", "v")] {
        assert_eq!(first.put(&path(name, workspace), &text).status, 201, "{name} {workspace}");
    }
    let refused = first.put(&path("workspace/c", "w"), &text);
    assert_eq!((refused.status, &refused.json()["code"]), (507, &json!("storage_full")));
    let view = json!({ "command": "view", "path": "/memories/global/a.md" });
    assert_eq!(first.post("/v1/tool", &view).status, 200);
    assert_eq!(other.put(&path("global/a", "w"), &text).status, 201);
    // A smaller text needs no room, and a deleted memory makes room.
    let revision =
        first.get(&path("global/a", "w")).json()["revision"].as_str().unwrap().to_owned();
    let smaller = first.ask("PUT", &path("global/a", "w")).json(&json!({ "text": "x\n" }));
    assert_eq!(smaller.header("If-Match", &format!("\"{revision}\"")).send().status, 200);
    let deleted = first.ask("DELETE", &path("workspace/b", "v")).send();
    assert_eq!(deleted.status / 100, 2, "{}", deleted.text());
    assert_eq!(first.put(&path("workspace/c", "w"), &text).status, 201);

    let task = first.post("/workspace/memory/remember", &json!({ "content": "Ships on Mondays." }));
    assert_eq!((task.status, &task.json()["code"]), (429, &json!("remember_queue_full")));
    let metrics = daemon.get("/metrics").text();
    for line in [
        "lukasa_owner_memories{owner=\"first\"} 3",
        "lukasa_owner_memory_size_bytes{owner=\"other\"} 1000",
        "lukasa_owner_unfinished_tasks{owner=\"first\"} 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// The things of the first owner, by the parameter that names them.
struct Belongings {
    parameters: Vec<(&'static str, Vec<String>)>,
}

impl Belongings {
    /// Fills an owner with one of everything.
    fn create(of: TokenCaller<'_>) -> Self {
        let text = format!(
            "- The {MARKER} server is restarted every night at two\n- The {MARKER} server is restarted each night at two\n"
        );
        assert_eq!(of.put("/v1/memories/global/secret.md", &text).status, 201);
        assert_eq!(of.put("/v1/memories/global/pinned.md", &format!("{MARKER}\n")).status, 201);
        let path = "/v1/memories/workspace/secret.md?workspace=hidden";
        assert_eq!(of.put(path, &format!("{MARKER}\n")).status, 201);
        assert_eq!(of.ask("PUT", "/v1/pins/global/pinned.md").send().status / 100, 2);
        let fact = format!("{MARKER}: the staging database runs on heron");
        let task = of.task("remember", &json!({ "content": fact }));
        // It proposes to remove one of the two entries.
        of.task("dream", &json!({}));
        let session = of.post("/session", &json!({})).json();
        let conversation = of.post("/v1/sessions", &json!({}));
        assert_eq!(conversation.status / 100, 2, "{}", conversation.text());
        let conversation = conversation.json();
        let conversation = conversation["id"].as_str().or(conversation["sessionId"].as_str());
        let conversation = conversation.unwrap().to_owned();
        let prompt = json!({ "text": format!("Where is {MARKER}?") });
        let prompted = of.post(&format!("/v1/sessions/{conversation}/prompts"), &prompt);
        assert_eq!(prompted.status / 100, 2, "{}", prompted.text());
        let changes = of.get("/v1/changes").json();
        let changes = changes["changes"].as_array().unwrap();
        let ids = changes.iter().map(|change| change["id"].to_string());
        let session = session["sessionId"].as_str().unwrap().to_owned();
        let revision = of.get("/v1/memories/global/secret.md").json();
        let revision = revision["revision"].as_str().unwrap().to_owned();
        let ids = ids.chain(["1".to_owned(), session, conversation, "hidden".to_owned()]).collect();
        Self {
            parameters: vec![
                ("{path}", vec!["global/secret.md".into(), "workspace/secret.md".into()]),
                ("{id}", ids),
                ("{revision}", vec![revision]),
                ("{kind}", vec!["remember".into()]),
                ("{task}", vec![task["taskId"].as_str().unwrap().to_owned()]),
                ("{workspace}", vec!["hidden".into(), "default".into()]),
                ("{key}", vec!["review.interval".into()]),
                ("{file}", vec!["app.js".into()]),
            ],
        }
    }

    /// Returns the paths of a route, with each combination of what the owner has.
    fn paths(&self, route: &str) -> Vec<String> {
        let mut paths = vec![route.to_owned()];
        for (name, values) in &self.parameters {
            let fill = |path: String| {
                if !path.contains(name) {
                    return vec![path];
                }
                values.iter().map(|value| path.replacen(name, value, 1)).collect()
            };
            paths = paths.into_iter().flat_map(fill).collect();
        }
        assert!(paths.iter().all(|path| !path.contains('{')), "{route} has an unknown parameter");
        paths
    }
}

/// All that an owner can see of itself.
fn visible(of: TokenCaller<'_>) -> String {
    let routes =
        ["/v1/export", "/v1/changes", "/v1/pending", "/v1/tasks", "/v1/runs", "/v1/memories"];
    let mut all = String::new();
    for workspace in ["default", "hidden"] {
        for route in routes {
            let shown = of.get(&format!("{route}?workspace={workspace}"));
            assert_eq!(shown.status, 200, "{route}: {}", shown.text());
            all += &shown.text();
        }
    }
    all
}

#[test]
fn no_route_shows_or_changes_what_belongs_to_another_owner() {
    let database = Database::start(PostgresVersion::Newest);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let [first, other] = ["first", "other"].map(|owner| database.new_token(&place, owner, "admin"));
    let first = TokenCaller { daemon: &daemon, token: &first };
    let other = TokenCaller { daemon: &daemon, token: &other };
    let belongings = Belongings::create(first);
    delay_fault(Duration::from_millis(700)); // Uses are counted after half a second.
    let before = visible(first);
    assert!(before.matches(MARKER).count() > 5, "{before}");
    assert_ne!(first.get("/v1/pending").json()["waiting"], 0, "{before}");

    let described = daemon.get("/openapi.json").json();
    let body = json!({
        "path": "/memories/global/secret.md", "command": "view", "from": "global/secret.md",
        "to": "global/stolen.md", "content": "x", "text": "x", "prompt": "staging database",
        "query": "staging database", "ids": [1, 2, 3], "changes": [1, 2], "change": 1, "steps": [],
        "mode": "append", "scope": "global", "ticket": "x", "messages": [], "decision": "accept",
    });
    let mut asked = BTreeSet::new();
    for (route, methods) in described["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            // Streams do not end; the events of owners have a test of their own.
            if method == "get" && (route.ends_with("/events") || route == "/mcp") {
                continue;
            }
            for path in belongings.paths(route) {
                for query in ["", "?workspace=hidden", "?q=staging&prompt=staging&query=staging"] {
                    let method = method.to_uppercase();
                    let answer = other.ask(&method, &format!("{path}{query}")).json(&body).send();
                    let text = answer.text();
                    assert!(!text.contains(MARKER), "{method} {path}{query}: {text}");
                    asked.insert((method, route.clone()));
                }
            }
        }
    }
    assert!(asked.len() > 60, "{}", asked.len());
    assert_eq!(visible(first), before);
    let listed = other.get("/v1/workspaces").text();
    assert!(!listed.contains(MARKER), "{listed}");
}

#[test]
fn events_of_an_owner_reach_no_other_one() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let [first, other] = ["first", "other"].map(|owner| database.new_token(&place, owner, "write"));
    let bearer = format!("Bearer {other}");
    let stream = daemon.stream("/v1/events", &[("Authorization", &bearer)]);
    let [first, other] = [&first, &other].map(|token| TokenCaller { daemon: &daemon, token });
    assert_eq!(first.put("/v1/memories/global/secret.md", "x\n").status, 201);
    first.task("remember", &json!({ "content": "The berth of boat zq is number 7." }));
    assert_eq!(other.put("/v1/memories/global/mine.md", "y\n").status, 201);
    assert_eq!(changed_path(&stream), "/memories/global/mine.md");
}
