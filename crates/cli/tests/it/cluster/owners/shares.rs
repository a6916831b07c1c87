//! Shares of owners: one with all connections or memory of its share keeps no other one out, and sees no numbers of
//! others. Streams end with their tokens.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::postgres::PostgresVersion;
use testkit::{delay_fault, eventually};

use super::{TokenCaller, changed_path};
use crate::cluster::Database;
use crate::daemon::{Daemon, EventStreamReader};
use crate::sandbox::Sandbox;

/// Connections of one owner in a daemon of [`small_daemon`]: a quarter of those at the address.
const OWNER_CONNECTIONS: usize = 6;
/// Open files of such a daemon. It keeps 256 for other things, and 8 of 32 connections for the socket.
const OPEN_FILES: usize = 288;
/// The time within which a stream ends after its token was revoked, with some seconds for a slow machine.
const REVOCATION_WAIT: Duration = Duration::from_secs(14);
/// The largest body, in bytes.
const BODY_BYTES_MAX: usize = 10 * 1024 * 1024;

/// Starts a daemon with few connections.
fn small_daemon(database: &Database, place: &Sandbox) -> Daemon {
    let command = database.command(place, &[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit -n {OPEN_FILES} && exec \"$0\" \"$@\"")]);
    limited.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        limited.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    Daemon::start_by(limited)
}

impl TokenCaller<'_> {
    fn stream(self, path: &str) -> EventStreamReader {
        let bearer = format!("Bearer {}", self.token);
        let stream = self.daemon.stream(path, &[("Authorization", &bearer)]);
        assert_eq!(stream.head.status, 200);
        stream
    }

    /// Opens a connection and sends a request that keeps it open; the body is incomplete if there is one.
    fn begin(self, line: &str, length: usize, body: &[u8]) -> TcpStream {
        let mut stream = self.daemon.connect();
        let token = self.token;
        let head = format!(
            "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // The daemon may refuse a body before it is complete.
        stream.write_all(body).unwrap_or_default();
        stream
    }
}

/// Reads a short answer, and checks its status.
fn is_served(connection: &mut TcpStream) -> bool {
    let mut answer = [0; 4_096];
    let count = connection.read(&mut answer).unwrap();
    answer[..count].starts_with(b"HTTP/1.1 200 ")
}

#[test]
fn an_owner_with_all_connections_of_its_share_keeps_no_other_one_out() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = small_daemon(&database, &place);
    let tokens = ["ann", "ben", "cid"].map(|owner| database.new_token(&place, owner, "write"));
    let [ann, ben, cid] = tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });
    let health = || daemon.ask("GET", "/health").without_header("Authorization").send().status;

    let mut streams: Vec<_> = (0..OWNER_CONNECTIONS).map(|_| ann.stream("/v1/events")).collect();
    let refused = ann.get("/v1/memories");
    assert_eq!((refused.status, &refused.json()["code"]), (429, &json!("rate_limited")));
    assert_eq!(refused.header("Retry-After"), Some("1"));
    assert_eq!(refused.header("Connection"), Some("close"));
    assert_eq!((ben.get("/v1/memories").status, daemon.get("/v1/memories").status), (200, 200));
    assert_eq!(health(), 200);

    // An idle connection counts like a stream, and a request without a token does not free it.
    streams.pop().unwrap().cut();
    let mut idle = eventually(|| {
        let mut idle = ann.begin("GET /v1/memories", 0, b"");
        if is_served(&mut idle) { Ok(idle) } else { Err("refused") }
    });
    idle.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert!(is_served(&mut idle));
    assert_eq!(ann.get("/v1/memories").status, 429);
    // It counts for the owner that used it last.
    let head = format!("Host: localhost\r\nAuthorization: Bearer {}\r\n\r\n", ben.token);
    idle.write_all(format!("GET /v1/memories HTTP/1.1\r\n{head}").as_bytes()).unwrap();
    assert!(is_served(&mut idle));
    streams.push(ann.stream("/v1/events"));

    // Two owners have all that owners may have together. The operator and checks of health get through.
    streams.extend((1..OWNER_CONNECTIONS).map(|_| ben.stream("/v1/events")));
    let refused = cid.get("/v1/memories");
    assert_eq!((refused.status, &refused.json()["code"]), (503, &json!("overloaded")));
    assert_eq!(refused.header("Retry-After"), Some("1"));
    assert_eq!((health(), daemon.get("/v1/memories").status), (200, 200));
    drop(idle);
    eventually(|| match cid.get("/v1/memories").status {
        200 => Ok(()),
        other => Err(other),
    });
}

#[test]
fn an_owner_that_sends_large_bodies_slowly_keeps_no_other_one_out() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let tokens = ["ann", "ben"].map(|owner| database.new_token(&place, owner, "write"));
    let [ann, ben] = tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });
    let (path, text) = ("/v1/memories/global/own.md", "x\n".repeat(1_000));
    let body = vec![b' '; BODY_BYTES_MAX - 1];
    // Two bodies fill the share but for two bytes. A write between their last bytes could make one of them be refused, so
    // each attempt sends new ones.
    let (slow, refused) = eventually(|| {
        let slow = [(); 2].map(|()| ann.begin(&format!("PUT {path}"), BODY_BYTES_MAX, &body));
        delay_fault(Duration::from_millis(500));
        let refused = ann.put(path, &text);
        if refused.status == 503 { Ok((slow, refused)) } else { Err(refused.status) }
    });
    assert_eq!(refused.json()["code"], "overloaded");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    assert_eq!(ben.put(path, &text).status, 201);
    assert_eq!(daemon.ask("PUT", path).json(&json!({ "text": text })).send().status, 201);
    drop(slow);
    eventually(|| match ann.put(path, &text).status {
        201 | 428 => Ok(()),
        other => Err(other),
    });
}

/// Waits until a stream that has no further event ends.
fn wait_for_end(stream: &EventStreamReader, since: Instant) {
    assert!(stream.next().is_none());
    assert!(since.elapsed() < REVOCATION_WAIT, "{:?}", since.elapsed());
}

#[test]
fn a_stream_ends_soon_after_its_token_is_revoked_or_expired_but_not_while_the_server_is_away() {
    let mut database = Database::start(PostgresVersion::Newest);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let tokens = [(); 3].map(|()| database.new_token(&place, "ann", "write"));
    let [revoked, expired, valid] =
        tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });
    let session = revoked.post("/session", &json!({})).json();
    let session = format!("/session/{}/events", session["sessionId"].as_str().unwrap());
    let ending = [
        revoked.stream("/v1/events"),
        revoked.stream(&session),
        expired.stream("/v1/events?workspace=other"),
    ];
    let lasting = [valid.stream("/v1/events"), daemon.stream("/v1/events", &[])];
    let mut mcp = listening(revoked);

    let listed = database.token(&place, &["list", "--owner", "ann"]);
    let id = listed["tokens"][0]["id"].as_str().unwrap();
    database.token(&place, &["revoke", id]);
    let expire = format!("UPDATE tokens SET ends_at = now() WHERE id = '{}'", id_of(&listed, 1));
    database.server.query("lukasa", &expire).unwrap();
    let since = Instant::now();
    for stream in &ending {
        wait_for_end(stream, since);
    }
    mcp.read_to_end(&mut Vec::new()).unwrap();
    assert!(since.elapsed() < REVOCATION_WAIT, "{:?}", since.elapsed());
    assert_eq!(revoked.get("/v1/memories").status, 401);

    database.server.kill().unwrap();
    delay_fault(REVOCATION_WAIT);
    database.server.restart().unwrap();
    eventually(|| match valid.put("/v1/memories/global/news.md", "News.\n").status {
        201 | 428 => Ok(()),
        other => Err(other),
    });
    assert_eq!(changed_path(&lasting[0]), "/memories/global/news.md");
    assert_eq!(daemon.put_own("Own.\n"), 201);
    assert_eq!(changed_path(&lasting[1]), "/memories/global/own.md");
}

impl Daemon {
    /// Writes a memory of the operator, and returns the status.
    fn put_own(&self, text: &str) -> u16 {
        let path = "/v1/memories/global/own.md";
        self.ask("PUT", path).json(&json!({ "text": text })).send().status
    }
}

/// Returns the id of a listed token.
fn id_of(listed: &Value, index: usize) -> &str {
    listed["tokens"][index]["id"].as_str().unwrap()
}

/// Opens a stream of MCP notifications.
fn listening(of: TokenCaller<'_>) -> TcpStream {
    let (revision, method) = ("2026-07-28", "subscriptions/listen");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientInfo": { "name": "tester", "version": "7" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "notifications": { "resourcesListChanged": true }, "_meta": meta });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let asked = of
        .ask("POST", "/mcp")
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", revision)
        .header("Mcp-Method", method)
        .json(&message);
    let mut stream = asked.open();
    let mut begun = vec![0; 4_096];
    let count = stream.read(&mut begun).unwrap();
    let begun = String::from_utf8_lossy(&begun[..count]);
    assert!(begun.contains(" 200 ") && begun.contains("text/event-stream"), "{begun}");
    stream
}

#[test]
fn an_owner_sees_its_own_numbers_and_the_operator_those_of_the_daemon() {
    let database = Database::start(PostgresVersion::Debian);
    let place = Sandbox::new();
    let daemon = database.daemon(&place);
    let tokens = ["ann", "ben", "default"].map(|owner| database.new_token(&place, owner, "read"));
    let [ann, ben, own] = tokens.each_ref().map(|token| TokenCaller { daemon: &daemon, token });
    let _streams = [ann.stream("/v1/events"), ann.stream("/v1/events"), ben.stream("/v1/events")];
    for (caller, streams) in [(ann, 2), (ben, 1), (own, 0)] {
        let stats = caller.get("/v1/stats").json();
        let counts = (&stats["eventStreams"], &stats["connections"]);
        assert_eq!(counts, (&json!(streams), &json!(streams + 1)), "{stats}");
        assert_eq!(stats["history"].get("databaseBytes"), None, "{stats}");
        assert_eq!(stats["history"]["changes"], 0);
    }
    let stats = daemon.get("/v1/stats").json();
    assert_eq!(stats["eventStreams"], 3, "{stats}");
    assert!(stats["connections"].as_u64() >= Some(4), "{stats}");
    assert!(stats["history"]["databaseBytes"].as_u64() > Some(0), "{stats}");
}
