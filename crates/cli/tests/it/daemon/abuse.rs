//! Tests of hostile and broken callers: they are refused at little cost, and nothing changes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use testkit::eventually;

use super::{Daemon, HttpResponse, TOKEN, socket};
use crate::mcp_clients::tool;
use crate::sandbox::Sandbox;

/// Sends raw bytes; returns the answer until the connection ends or is reset.
fn raw(daemon: &Daemon, bytes: &[u8]) -> Vec<u8> {
    let mut stream = daemon.connect();
    // Errors are ignored, because the daemon may close the connection before it has read everything.
    stream.write_all(bytes).unwrap_or_default();
    read_to_end(&mut stream)
}

fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map(drop).unwrap_or_default();
    answer
}

/// Returns the head of a request with the token and additional lines.
fn head(line: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n\r\n")
}

/// Checks that nothing was written and the daemon still serves requests.
fn check_still_serves(daemon: &Daemon) {
    assert_eq!(daemon.get("/v1/memories").json()["memories"], json!([]));
    assert_eq!(daemon.get("/v1/tasks").json()["tasks"], json!([]));
}

#[test]
fn every_request_without_the_token_is_refused() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let write = ("POST", "/workspace/memory/remember");
    let all = [write, ("GET", "/capabilities"), ("GET", "/v1/memories"), ("GET", "/v1/events")];
    let all = all.into_iter().chain([
        ("DELETE", "/v1/memories/global/a.md"),
        ("GET", "/openapi.json"),
        ("GET", "/docs"),
        ("GET", "/metrics"),
        ("POST", "/mcp"),
        ("GET", "/mcp"),
        ("DELETE", "/mcp"),
        ("GET", "/nowhere"),
        ("POST", "/health"),
    ]);
    for (method, path) in all {
        for token in ["", "Bearer", "Bearer x", "Basic dXNlcjpwYXNz"] {
            let ask = daemon.ask(method, path).header("Authorization", token);
            // The body is invalid, and must not be parsed before the token is checked.
            let answer = ask.bytes(b"{").send();
            assert_eq!(answer.status, 401, "{method} {path} {token:?}");
            assert_eq!(answer.header("WWW-Authenticate"), Some("Bearer"));
        }
    }
    assert_eq!(daemon.ask("GET", "/health").without_header("Authorization").send().status, 200);
    check_still_serves(&daemon);
}

#[test]
fn a_page_of_another_origin_gets_nothing_however_it_names_the_host() {
    let place = Sandbox::new();
    let allowed = "http://localhost:3000";
    let daemon =
        Daemon::start_with(&place, &["--allow-origin", allowed, "--allow-host", "box.lan"]);
    let ask =
        |name: &str, value: &str| daemon.ask("POST", "/workspace/memory/dream").header(name, value);
    for host in [
        "evil.example",
        "evil.example:4170",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "host.docker.internal",
        "",
        "10.0.0.1",
    ] {
        assert_eq!(ask("Host", host).code(), (403, "host_not_allowed".to_owned()), "{host}");
    }
    for origin in
        ["http://evil.example", "null", "http://localhost:30000", "https://localhost:3000"]
    {
        let answer = ask("Origin", origin).send();
        assert_eq!((answer.status, &answer.json()["code"]), (403, &json!("origin_not_allowed")));
        assert_eq!(answer.header("Vary"), Some("origin"));
        assert_eq!(answer.header("Access-Control-Allow-Origin"), None);
    }
    check_still_serves(&daemon);
    // An allowed page can read every answer, including a 403 of the daemon.
    let refused = daemon.ask("GET", "/capabilities").header("Origin", allowed);
    let refused = refused.header("Host", "evil.example").send();
    assert_eq!(
        (refused.status, refused.header("Access-Control-Allow-Origin")),
        (403, Some(allowed))
    );
    let welcome = daemon.ask("GET", "/capabilities").header("Origin", allowed).send();
    assert_eq!(
        (welcome.status, welcome.header("Access-Control-Allow-Origin")),
        (200, Some(allowed))
    );
    assert_eq!(daemon.ask("GET", "/capabilities").header("Host", "box.lan:80").send().status, 200);
}

#[test]
fn a_large_or_invalid_body_is_refused() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let check = |body: &[u8], expected: (u16, &str)| {
        let (status, code) = daemon.ask("POST", "/workspace/memory/remember").bytes(body).code();
        assert_eq!((status, code.as_str()), expected, "{:?}", &body[..body.len().min(40)]);
    };
    check(&vec![b'x'; 11 * 1024 * 1024], (413, "body_too_large"));
    check(b"", (400, "invalid_content"));
    for broken in [
        &b"{"[..],
        b"nonsense",
        b"[1]",
        b"\"text\"",
        b"null",
        b"\xff\xfe{}",
        b"{\"content\": \"\xc3\x28\"}",
    ] {
        check(broken, (400, "invalid_json"));
    }
    check("[".repeat(1_000_000).as_bytes(), (400, "invalid_json"));
    check("{\"content\":".repeat(100_000).as_bytes(), (400, "invalid_json"));

    // A body without length and without end.
    let chunked = "Transfer-Encoding: chunked\r\nConnection: close";
    let mut endless = head("POST /workspace/memory/remember", chunked).into_bytes();
    for _ in 0..11 {
        endless.extend_from_slice(b"100000\r\n");
        endless.extend_from_slice(&vec![b'x'; 0x10_0000]);
        endless.extend_from_slice(b"\r\n");
    }
    assert_eq!(HttpResponse::parse(&raw(&daemon, &endless)).status, 413);

    // A body of an announced gigabyte is refused before it arrives.
    let head = head("POST /v1/import", "Content-Length: 1073741824");
    assert_eq!(HttpResponse::parse(&raw(&daemon, head.as_bytes())).status, 413);
    check_still_serves(&daemon);
}

#[test]
fn a_client_that_still_sends_reads_why_its_body_is_refused() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/large_body.mjs");
    let mut client = assert_cmd::Command::new(tool("LUKASA_TEST_NODE"));
    client.arg(script).args([daemon.log_lines["url"].as_str().unwrap(), TOKEN]);
    let output = client.timeout(2 * super::PATIENCE).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!([[413, "body_too_large", "close"], [401, "unauthorized", null]]);
    assert_eq!(seen, expected);

    // A client that reads only after it has sent everything.
    let body = vec![b' '; 20 * 1024 * 1024];
    let head = head("POST /v1/tool", &format!("Content-Length: {}", body.len()));
    let mut stream = daemon.connect();
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).unwrap();
    assert_eq!(HttpResponse::parse(&read_to_end(&mut stream)).status, 413);
    check_still_serves(&daemon);
}

#[test]
fn the_connection_of_an_endless_head_is_closed() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let line = "GET /health HTTP/1.1\r\nHost: localhost\r\n";
    let long = format!("{line}X: {}\r\n\r\n", "x".repeat(1024 * 1024));
    assert_eq!(HttpResponse::parse(&raw(&daemon, long.as_bytes())).status, 431);
    let many = format!("{line}{}\r\n", "X: x\r\n".repeat(10_000));
    assert_eq!(HttpResponse::parse(&raw(&daemon, many.as_bytes())).status, 431);
    let path = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1024 * 1024));
    assert!([414, 431].contains(&HttpResponse::parse(&raw(&daemon, path.as_bytes())).status));
    for nonsense in
        ["\0\0\0\0\r\n\r\n", "HELLO\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET  HTTP/1.1\r\n\r\n"]
    {
        let answer = raw(&daemon, nonsense.as_bytes());
        assert!(answer.is_empty() || HttpResponse::parse(&answer).status == 400, "{nonsense:?}");
    }
    check_still_serves(&daemon);
}

#[test]
fn unknown_paths_and_methods_are_answered_as_json() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let code = |method: &str, path: &str| daemon.ask(method, path).code();
    for path in
        ["/", "/nowhere", "/v1", "/v2/memories", "/workspace/memory/review/x", "/%00", "//health"]
    {
        assert_eq!(code("GET", path), (404, "route_not_found".to_owned()), "{path}");
    }
    for (method, path) in [("PUT", "/health"), ("PATCH", "/v1/memories"), ("GET", "/v1/tool")] {
        let answer = daemon.ask(method, path).send();
        assert_eq!((answer.status, &answer.json()["code"]), (405, &json!("method_not_allowed")));
        assert!(answer.header("Allow").is_some(), "{method} {path}");
    }
}

/// Starts a daemon with a limit of open files.
fn with_files(place: &Sandbox, files: usize) -> Daemon {
    let mut shell = place.program("sh");
    let daemon = env!("CARGO_BIN_EXE_lukasa");
    let start = format!("ulimit -n {files}; exec {daemon} serve --port 0 --json");
    shell.args(["-c", &start]).env("LUKASA_TOKEN", TOKEN);
    Daemon::start_by(shell)
}

/// Sends a request over a connection that stays open; returns the answer or the error.
fn request_over(stream: &mut (impl Read + Write), token: &str) -> String {
    let request = format!(
        "GET /v1/tasks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap_or_default();
    let (mut answer, mut bytes) = (String::new(), [0; 4_096]);
    while !answer.ends_with('}') {
        match stream.read(&mut bytes) {
            Ok(count) if count > 0 => answer.push_str(&String::from_utf8_lossy(&bytes[..count])),
            _ => break,
        }
    }
    answer
}

#[test]
fn ten_thousand_idle_connections_block_no_caller_and_cost_little() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let mut known = daemon.connect();
    assert!(request_over(&mut known, TOKEN).starts_with("HTTP/1.1 200 "));
    let before = daemon.memory_peak();
    let mut idle = Vec::new();
    for number in 0..idle_connections() {
        idle.push(daemon.connect());
        if number % 500 == 0 {
            let answer = request_over(&mut known, TOKEN);
            assert!(answer.starts_with("HTTP/1.1 200 "), "who was let in stays: {number} {answer}");
        }
    }
    let mut next = daemon.connect();
    assert!(request_over(&mut next, TOKEN).starts_with("HTTP/1.1 200 "), "the next one is let in");
    let stats = daemon.get("/v1/stats").json();
    assert!(stats["connections"].as_u64().unwrap() < 300, "the others are gone: {stats}");
    let grown = daemon.memory_peak() - before;
    assert!(grown < 32 * 1024 * 1024, "{grown} bytes for {} connections", idle.len());
    check_still_serves(&daemon);
}

/// Returns the number of connections that this process may open, at most ten thousand.
fn idle_connections() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let files = maximum.map_or(usize::MAX, |files| usize::try_from(files).unwrap());
    (files - 200).min(10_000)
}

#[test]
fn connections_at_the_port_do_not_block_the_socket() {
    let place = Sandbox::new();
    // Of 64 connections, 48 are for the port.
    let daemon = with_files(&place, 320);
    let mut crowd = Vec::new();
    loop {
        let mut stream = daemon.connect();
        if request_over(&mut stream, TOKEN).is_empty() {
            break;
        }
        crowd.push(stream);
        assert!(crowd.len() <= 64, "there is no bound");
    }
    assert_eq!(crowd.len(), 48);
    for _ in 0..3 {
        let mut stream = UnixStream::connect(socket(&place)).unwrap();
        assert!(request_over(&mut stream, TOKEN).starts_with("HTTP/1.1 200 "));
    }
    drop(crowd);
    let is_shut = || request_over(&mut daemon.connect(), TOKEN).is_empty();
    eventually(|| if is_shut() { Err("nobody gets in") } else { Ok(()) });
}

#[test]
fn a_gigabyte_without_a_length_is_not_read() {
    const MEBIBYTE: usize = 1024 * 1024;
    let (_place, daemon) = Daemon::in_new_sandbox();
    let before = daemon.memory_peak();
    let mut stream = daemon.connect();
    let head = head("POST /v1/import", "Transfer-Encoding: chunked");
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = [b"100000\r\n", vec![b'x'; MEBIBYTE].as_slice(), b"\r\n"].concat();
    let taken = (0..1_024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
    // Bytes in the buffers of the system count as accepted too.
    assert!(taken < 64, "{taken} MiB were taken");
    let grown = daemon.memory_peak() - before;
    assert!(grown < 48 * MEBIBYTE, "{grown} bytes for one body");
    check_still_serves(&daemon);
}

#[test]
fn all_bodies_together_have_a_limit() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let (bytes, half) = (10 * 1024 * 1024, 9 * 1024 * 1024);
    let head = head("POST /v1/tool", &format!("Content-Length: {bytes}"));
    // Unfinished bodies hold the bytes that have arrived.
    let mut waiting: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(head.as_bytes()).unwrap();
            stream.write_all(&vec![b' '; half]).unwrap();
            stream
        })
        .collect();
    let large = || {
        let body = [b"{\"command\": \"view\", \"path\": \"".to_vec(), vec![b'x'; half]].concat();
        daemon.ask("POST", "/v1/tool").bytes(&body).send()
    };
    let refused = eventually(|| {
        let answer = large();
        if answer.status == 503 { Ok(answer) } else { Err("there is no bound") }
    });
    assert_eq!(refused.json()["code"], "overloaded");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    let small = json!({ "command": "view", "path": "/memories" });
    assert_eq!(daemon.post("/v1/tool", &small).status, 200, "small ones still fit");
    waiting.clear();
    eventually(|| if large().status == 503 { Err("no room comes free") } else { Ok(()) });
}

#[test]
fn an_undecodable_path_is_answered_as_json() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    for (method, path) in [
        ("GET", "/v1/memories/global/%FF.md"),
        ("PUT", "/v1/memories/global/%C3%28.md"),
        ("DELETE", "/v1/pins/%FF"),
        ("GET", "/workspace/memory/remember/%FF"),
        ("GET", "/v1/changes/%ff"),
        ("DELETE", "/session/%FE%FF"),
        ("GET", "/session/%FF/events"),
    ] {
        let code = daemon.ask(method, path).json(&json!({ "text": "x" })).code();
        assert_eq!(code, (400, "invalid_path".to_owned()), "{method} {path}");
    }
    assert_eq!(daemon.ask("GET", "/%FF").code(), (404, "route_not_found".to_owned()));
    check_still_serves(&daemon);
}

#[test]
fn an_empty_client_id_does_not_hide_the_other_header() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let ask = |value: &str| {
        let ask = daemon.ask("GET", "/v1/tasks").header("X-Qwen-Client-Id", "");
        ask.header("X-Lukasa-Client-Id", value).code()
    };
    assert_eq!(ask("a stranger"), (400, "invalid_client_id".to_owned()));
    assert_eq!(ask(&daemon.session().1).0, 200);
    assert_eq!(ask("").0, 200);
}

#[test]
fn the_socket_is_private_and_requires_the_token() {
    use std::os::unix::fs::PermissionsExt as _;
    let (place, daemon) = Daemon::in_new_sandbox();
    let path = socket(&place);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |token: &str| -> HttpResponse {
        let mut stream = UnixStream::connect(&path).unwrap();
        let head = format!(
            "GET /capabilities HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        HttpResponse::parse(&bytes)
    };
    assert_eq!(ask("wrong-wrong-wrong-wrong").status, 401);
    let told: Value = ask(TOKEN).json();
    assert_eq!(told["workspaceCwd"], daemon.log_lines["workspaces"][0]["cwd"]);
    daemon.signal("INT");
    assert_eq!(daemon.end().0, Some(0));
    assert!(!path.exists());
}
