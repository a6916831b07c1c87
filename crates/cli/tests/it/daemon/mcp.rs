//! Tests of MCP over HTTP at the daemon's `/mcp`: access, workspaces, sessions and the end of the daemon.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;

use serde_json::{Value, json};
use testkit::eventually;

use super::{Daemon, HttpRequest, HttpResponse};
use crate::processes::hold_root;
use crate::sandbox::Sandbox;

const NEWEST: &str = "2026-07-28";

/// Prepares a message to this path.
fn message<'d>(daemon: &'d Daemon, path: &str, message: &Value) -> HttpRequest<'d> {
    let ask = daemon.ask("POST", path).json(message);
    ask.header("Accept", "application/json, text/event-stream")
}

/// Prepares a request of the newest revision.
fn request<'d>(daemon: &'d Daemon, path: &str, method: &str, mut params: Value) -> HttpRequest<'d> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientInfo": { "name": "tester", "version": "7" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params.get("name").or(params.get("uri")).and_then(Value::as_str).map(str::to_owned);
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let ask = message(daemon, path, &body).header("MCP-Protocol-Version", NEWEST);
    let ask = ask.header("Mcp-Method", method);
    match name {
        Some(name) => ask.header("Mcp-Name", &name),
        None => ask,
    }
}

fn call(arguments: &Value) -> Value {
    json!({ "name": "memory", "arguments": arguments })
}

fn create(path: &str) -> Value {
    call(&json!({ "command": "create", "path": path, "file_text": "text\n" }))
}

/// Returns the code of an answered call, `ok` if it succeeded.
fn outcome(answer: &HttpResponse) -> String {
    let result = answer.json()["result"]["_meta"]["lukasa"].clone();
    if result["ok"] == true { "ok".to_owned() } else { result["code"].as_str().unwrap().to_owned() }
}

fn uris(answer: &HttpResponse) -> Vec<String> {
    let resources = answer.json()["result"]["resources"].as_array().unwrap().clone();
    resources.iter().map(|resource| resource["uri"].as_str().unwrap().to_owned()).collect()
}

/// A session of an older revision.
struct McpSession<'d> {
    daemon: &'d Daemon,
    path: String,
    id: String,
}

impl<'d> McpSession<'d> {
    fn begin(daemon: &'d Daemon, path: &str) -> Self {
        let begun = Self::ask_for(daemon, path).send();
        assert_eq!(begun.status, 200, "{}", begun.text());
        let id = begun.header("Mcp-Session-Id").unwrap().to_owned();
        let session = Self { daemon, path: path.to_owned(), id };
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.send(&ready).status, 202);
        session
    }

    fn ask_for(daemon: &'d Daemon, path: &str) -> HttpRequest<'d> {
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": { "name": "older", "version": "3" },
        });
        let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
        message(daemon, path, &begin)
    }

    fn ask(&self, body: &Value) -> HttpRequest<'d> {
        message(self.daemon, &self.path, body).header("Mcp-Session-Id", &self.id)
    }

    fn send(&self, body: &Value) -> HttpResponse {
        self.ask(body).send()
    }

    /// Sends a request and returns its answer, which comes as a stream.
    fn request(&self, method: &str, params: &Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        let answer = self.send(&body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        serde_json::from_str(data).unwrap()
    }

    /// Returns whether the daemon knows the session.
    fn is_alive(&self) -> bool {
        let ping = json!({ "jsonrpc": "2.0", "id": 9, "method": "ping" });
        match self.send(&ping).status {
            200 => true,
            404 => false,
            other => panic!("{other}"),
        }
    }

    fn listen(&self) -> MessageStream {
        let ask = self.daemon.ask("GET", &self.path).header("Accept", "text/event-stream");
        MessageStream::open(ask.header("Mcp-Session-Id", &self.id))
    }
}

/// A stream of messages.
struct MessageStream(BufReader<TcpStream>);

impl MessageStream {
    fn open(ask: HttpRequest<'_>) -> Self {
        let mut reader = BufReader::new(ask.open());
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        // When the head of the answer has arrived, the stream is open.
        while line.trim_end() != "" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Self(reader)
    }

    /// Waits for the next message; `None` when the stream has ended.
    fn next(&mut self) -> Option<Value> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(serde_json::from_str(data).unwrap());
            }
        }
    }

    /// Waits for a message of this method.
    fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().expect("the stream ended");
            if message["method"] == method {
                return message;
            }
        }
    }
}

#[test]
fn mcp_requires_the_token_and_an_allowed_origin() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let list = || request(&daemon, "/mcp", "tools/list", json!({}));
    let refused = |status: u16, code: &str| (status, code.to_owned());
    let ask = list().without_header("Authorization");
    assert_eq!(ask.code(), refused(401, "unauthorized"));
    assert_eq!(list().header("Authorization", "Bearer x").code(), refused(401, "unauthorized"));
    let foreign = list().header("Origin", "http://evil.example");
    assert_eq!(foreign.code(), refused(403, "origin_not_allowed"));
    let rebound = list().header("Host", "evil.example");
    assert_eq!(rebound.code(), refused(403, "host_not_allowed"));
    let huge = list().bytes(&vec![b'x'; 11 * 1024 * 1024]);
    assert_eq!(huge.code(), refused(413, "body_too_large"));
    assert_eq!(daemon.ask("PUT", "/mcp").code(), refused(405, "method_not_allowed"));
    let listed = list().send();
    assert_eq!((listed.status, listed.header("Content-Type")), (200, Some("application/json")));
    assert_eq!(listed.json()["result"]["tools"][0]["name"], "memory");
}

#[test]
fn an_answer_has_a_form_that_the_client_accepts() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let session = McpSession::begin(&daemon, "/mcp");
    let ping = json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" });
    let check = |accept: Option<&str>, stateless: &str, in_session: &str| {
        let with = |ask: HttpRequest<'_>| match accept {
            Some(accept) => ask.header("Accept", accept).send(),
            None => ask.without_header("Accept").send(),
        };
        let answers = [
            (with(request(&daemon, "/mcp", "tools/list", json!({}))), stateless, "tools"),
            (with(session.ask(&ping)), in_session, "jsonrpc"),
        ];
        for (answer, form, word) in answers {
            let found = (answer.status, answer.header("Content-Type"));
            assert_eq!(found, (200, Some(form)), "{accept:?}: {}", answer.text());
            let text = answer.text();
            let mut events = text.lines().filter_map(|line| line.strip_prefix("data: "));
            let data = events.next_back().unwrap_or(&text);
            let message: Value = serde_json::from_str(data).unwrap();
            assert!(message["result"].is_object() && text.contains(word), "{accept:?}: {text}");
        }
    };
    let (json, events) = ("application/json", "text/event-stream");
    check(Some("application/json, text/event-stream"), json, events);
    check(Some("*/*"), json, events);
    check(None, json, events);
    check(Some("application/json"), json, json);
    check(Some("text/event-stream"), events, events);
    // A session can be started in this form too.
    for accept in ["*/*", json, events] {
        let begun = McpSession::ask_for(&daemon, "/mcp").header("Accept", accept).send();
        assert_eq!(begun.status, 200, "{accept}: {}", begun.text());
        assert!(begun.header("Mcp-Session-Id").is_some(), "{accept}");
    }
    // A stream without end has only the form of a stream.
    let listen = || {
        let params = json!({ "notifications": { "resourcesListChanged": true } });
        request(&daemon, "/mcp", "subscriptions/listen", params)
    };
    assert_eq!(listen().header("Accept", json).send().status, 406);
    MessageStream::open(listen().header("Accept", "*/*"));
    let changes = || daemon.ask("GET", "/mcp").header("Mcp-Session-Id", &session.id);
    assert_eq!(changes().header("Accept", json).send().status, 406);
    MessageStream::open(changes().header("Accept", "*/*"));
}

#[test]
fn half_a_surrogate_pair_is_answered_by_the_id_of_its_request() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let session = McpSession::begin(&daemon, "/mcp");
    let arguments = call(&json!({
        "command": "create", "path": "/memories/global/a.md", "file_text": "cut HERE off\n",
    }));
    let ask = request(&daemon, "/mcp", "tools/call", arguments.clone());
    let body = String::from_utf8(ask.body.clone()).unwrap().replace("HERE", r"\ud83d");
    let made = ask.bytes(body.as_bytes()).send().json();
    assert_eq!((&made["id"], &made["result"]["isError"]), (&json!(1), &json!(false)), "{made}");
    assert_eq!(place.view("global/a.md"), "cut \u{fffd} off\n");
    let ping = br#"{"jsonrpc":"2.0","id":"\ude00","method":"ping"}"#;
    let answer = session.ask(&Value::Null).bytes(ping).header("Accept", "application/json").send();
    assert_eq!(answer.json()["id"], "\u{fffd}", "{}", answer.text());
}

#[test]
fn an_invalid_message_is_answered_as_the_protocol_requires() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let ask = || message(&daemon, "/mcp", &Value::Null);
    let check = |ask: HttpRequest<'_>, expected: (u16, i32)| {
        let answer = ask.send();
        let told = answer.json();
        let code = told["error"]["code"].as_i64().unwrap();
        assert_eq!((answer.status, code), (expected.0, expected.1.into()), "{told}");
        assert_eq!(told["jsonrpc"], "2.0");
    };
    check(ask().bytes(b"{"), (400, -32700));
    check(ask().bytes(b""), (400, -32600));
    check(ask().bytes(b"[]"), (400, -32600));
    check(ask().bytes(br#"{"jsonrpc":"2.0","id":7,"method":5}"#), (400, -32600));
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    check(ask().bytes(format!("[{ping},{ping}]").as_bytes()), (400, -32600));
    check(ask().bytes(ping.as_bytes()).header("Content-Type", "text/plain"), (415, -32600));
    check(ask().bytes(ping.as_bytes()).header("Accept", "text/html"), (406, -32600));
    // Older revisions need a session, and an ended session is not found.
    check(ask().bytes(ping.as_bytes()), (400, -32600));
    check(ask().bytes(ping.as_bytes()).header("Mcp-Session-Id", "nobody"), (404, -32600));
    // Methods that the newest revision dropped are unknown, like methods that never existed.
    for method in ["initialize", "resources/subscribe", "nonsense"] {
        check(request(&daemon, "/mcp", method, json!({})), (404, -32601));
    }
}

#[test]
fn a_caller_reaches_the_workspace_that_it_names_and_no_other() {
    let (place, other) = (Sandbox::new(), Sandbox::new());
    let other_folder = other.checkout();
    let (here, untrusted) = (place.checkout(), place.temporary());
    let args = ["--workspace", here.to_str().unwrap(), "--workspace"];
    let more = ["--untrusted", untrusted.to_str().unwrap()];
    let args = [&args[..], &[other_folder.to_str().unwrap()], &more].concat();
    let daemon = Daemon::start_with(&place, &args);
    let there = format!("/mcp?workspace={}", daemon.workspace(1));
    for path in ["/mcp", &there] {
        let memory = if path == "/mcp" { "here" } else { "there" };
        let made =
            request(&daemon, path, "tools/call", create(&format!("/memories/project/{memory}.md")));
        assert_eq!(outcome(&made.send()), "ok");
    }
    let listed = |path: &str| uris(&request(&daemon, path, "resources/list", json!({})).send());
    assert_eq!(listed("/mcp"), ["lukasa://memories/project/here.md"]);
    assert_eq!(listed(&there), ["lukasa://memories/project/there.md"]);

    // The same holds for a session of another workspace.
    let mut session = McpSession::begin(&daemon, "/mcp");
    assert!(session.is_alive());
    session.path = there;
    assert!(!session.is_alive());
    let path = format!("/mcp?workspace={}", daemon.workspace(2));
    let ask = request(&daemon, &path, "resources/list", json!({}));
    assert_eq!(ask.code(), (403, "untrusted_workspace".to_owned()));
    let ask = request(&daemon, "/mcp?workspace=nowhere", "resources/list", json!({}));
    assert_eq!(ask.code(), (404, "workspace_not_found".to_owned()));
}

#[test]
fn a_session_belongs_to_its_client() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let ((_, mine), (_, theirs)) = (daemon.session(), daemon.session());
    let begun = McpSession::ask_for(&daemon, "/mcp").header("X-Lukasa-Client-Id", &mine).send();
    let id = begun.header("Mcp-Session-Id").unwrap();
    let ping = json!({ "jsonrpc": "2.0", "id": 2, "method": "ping" });
    let ask = || message(&daemon, "/mcp", &ping).header("Mcp-Session-Id", id);
    let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let ready = message(&daemon, "/mcp", &ready).header("Mcp-Session-Id", id);
    assert_eq!(ready.header("X-Lukasa-Client-Id", &mine).send().status, 202);
    assert_eq!(ask().header("X-Lukasa-Client-Id", &mine).send().status, 200);
    assert_eq!(ask().header("X-Lukasa-Client-Id", &theirs).send().status, 404);
    assert_eq!(ask().send().status, 404);
    let end = |client: &str| {
        let ask = daemon.ask("DELETE", "/mcp").header("Mcp-Session-Id", id);
        ask.header("X-Lukasa-Client-Id", client).send().status
    };
    assert_eq!(end(&theirs), 404);
    assert_eq!(ask().header("X-Lukasa-Client-Id", &mine).send().status, 200);
    assert_eq!(end(&mine), 202);
    assert_eq!(ask().header("X-Lukasa-Client-Id", &mine).send().status, 404);
    let stranger = ask().header("X-Lukasa-Client-Id", "stranger");
    assert_eq!(stranger.code(), (400, "invalid_client_id".to_owned()));
}

#[test]
fn a_change_names_its_author_and_a_class_has_limited_access() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let write = |path: &str| request(&daemon, "/mcp", "tools/call", create(path));
    let made = write("/memories/global/newest.md").send();
    assert_eq!(outcome(&made), "ok");
    let session = McpSession::begin(&daemon, "/mcp");
    let made = session.request("tools/call", &create("/memories/global/older.md"));
    assert_eq!(made["result"]["_meta"]["lukasa"]["ok"], true, "{made}");
    let (_, client) = daemon.session();
    let made = write("/memories/global/known.md").header("X-Lukasa-Client-Id", &client).send();
    assert_eq!(outcome(&made), "ok");
    let planned =
        write("/memories/global/plan.md").header("X-Lukasa-Agent-Class", "explore").send();
    assert_eq!(outcome(&planned), "read_only");

    let changes = daemon.get("/v1/changes").json()["changes"].as_array().unwrap().clone();
    let told: Vec<_> = changes
        .iter()
        .map(|change| (&change["origin"], &change["client"], &change["session"]))
        .collect();
    let word = session.id.split('-').next().unwrap();
    let mcp = json!("mcp");
    assert_eq!(
        told,
        [
            (&mcp, &json!(client), &Value::Null),
            (&mcp, &json!("older/3"), &json!(word)),
            (&mcp, &json!("tester/7"), &Value::Null),
        ]
    );
}

#[test]
fn a_subscriber_receives_changes_of_other_processes_until_the_daemon_ends() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let watched = "lukasa://memories/global/watched.md";
    place.run_ok(&["create", "global/watched.md", "one"]);

    let session = McpSession::begin(&daemon, "/mcp");
    let mut older = session.listen();
    let subscribed = session.request("resources/subscribe", &json!({ "uri": watched }));
    assert_eq!(subscribed["result"], json!({}));
    let wanted = json!({ "notifications": { "resourceSubscriptions": [watched] } });
    let mut newest = MessageStream::open(request(&daemon, "/mcp", "subscriptions/listen", wanted));
    newest.next_of("notifications/subscriptions/acknowledged");

    place.run_ok(&["create", "global/other.md", "x"]);
    place.run_ok(&["replace", "global/watched.md", "one", "two"]);
    for stream in [&mut older, &mut newest] {
        let updated = stream.next_of("notifications/resources/updated");
        assert_eq!(updated["params"]["uri"], watched);
    }

    daemon.signal("TERM");
    for stream in [&mut older, &mut newest] {
        while stream.next().is_some() {}
    }
    assert_eq!(daemon.end().0, Some(0));
}

#[test]
fn a_call_under_way_is_answered_before_the_daemon_ends() {
    let (place, daemon) = Daemon::in_new_sandbox();
    place.create("global/a.md", "a\n");
    let session = McpSession::begin(&daemon, "/mcp");
    let mut news = session.listen();
    let mut ending = MessageStream::open(request(
        &daemon,
        "/mcp",
        "subscriptions/listen",
        json!({ "notifications": {} }),
    ));
    ending.next_of("notifications/subscriptions/acknowledged");

    // The call must wait, because another process holds the lock of the root.
    let held = hold_root(&place);
    let params = create("/memories/global/b.md");
    let body = json!({ "jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params });
    let mut called = MessageStream::open(session.ask(&body));

    daemon.signal("TERM");
    while ending.next().is_some() {}
    drop(held);
    let answer = called.next().expect("it was cut");
    assert_eq!(answer["result"]["_meta"]["lukasa"]["ok"], true, "{answer}");
    assert_eq!(called.next(), None);
    assert_eq!(news.next(), None);
    assert_eq!(daemon.end().0, Some(0));
    assert_eq!(place.view("global/b.md"), "text\n");
}

#[test]
fn abandoned_sessions_are_evicted_unless_they_listen() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (heard, unheard) = (McpSession::begin(&daemon, "/mcp"), McpSession::begin(&daemon, "/mcp"));
    let _listening = heard.listen();
    // The maximum number of sessions including those two, and one more.
    let used: Vec<_> = (0..255).map(|_| McpSession::begin(&daemon, "/mcp")).collect();
    assert!(!unheard.is_alive());
    assert!(heard.is_alive());
    assert!(used.iter().all(McpSession::is_alive));
}

#[test]
fn a_handshake_counts_whatever_revision_it_names() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let first = McpSession::begin(&daemon, "/mcp");
    let newest = json!({
        "protocolVersion": NEWEST, "capabilities": {},
        "clientInfo": { "name": "odd", "version": "1" },
    });
    let handshake = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": newest });
    for _ in 0..256 {
        let begun =
            message(&daemon, "/mcp", &handshake).header("MCP-Protocol-Version", NEWEST).send();
        // The request is downgraded to an older revision or refused; the limit of sessions holds in both cases.
        assert!(begun.status == 200 || begun.status == 400, "{}", begun.text());
        if begun.status == 400 {
            return;
        }
    }
    assert!(!first.is_alive(), "256 others have begun since");
}

#[test]
fn the_bodies_of_a_session_are_counted_until_their_calls_are_done() {
    let place = Sandbox::with(&[("global/a.md", "a\n")]);
    let daemon = Daemon::start(&place);
    let session = McpSession::begin(&daemon, "/mcp");
    let held = hold_root(&place);
    let text = "x".repeat(9 * 1024 * 1024);
    let large = json!({ "command": "create", "path": "/memories/global/b.md", "file_text": text });
    // Each call is accepted, and answered when the lock of the root is released.
    let waiting: Vec<_> = (5..9)
        .map(|id| {
            let params = call(&large);
            let body =
                json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
            MessageStream::open(session.ask(&body))
        })
        .collect();
    let more = || daemon.post("/v1/tool", &json!({ "command": "view", "path": text })).status;
    assert_eq!(more(), 503, "there is no room beside them");
    // A closed connection does not cancel the call.
    drop(waiting);
    assert_eq!(more(), 503);
    drop(held);
    eventually(|| if more() == 503 { Err("no room comes free") } else { Ok(()) });
}
