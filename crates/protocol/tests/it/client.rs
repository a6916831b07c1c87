//! The client against faulty peers: each is a listener in this test that sends one text and closes.

use std::time::Duration;

use lukasa_protocol::client::{Client, ClientError, Endpoint, StartFrom};
use lukasa_protocol::error::ErrorCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixListener};

const DEADLINE: Duration = Duration::from_millis(200);
/// Shorter than an attempt to reconnect takes.
const SHORT_WAIT: Duration = Duration::from_millis(30);

/// Reads the head of a request. Returns it, or `None` if the connection ended first.
async fn head(stream: &mut TcpStream) -> Option<String> {
    let mut read = Vec::new();
    let mut byte = [0];
    while !read.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).await.ok()? == 0 {
            return None;
        }
        read.extend_from_slice(&byte);
    }
    String::from_utf8(read).ok()
}

/// Starts a listener that sends one text to each connection and closes it. Returns a client of it.
async fn client_answering(answer: String) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if head(&mut stream).await.is_some() {
                // A client that has read enough closes first.
                let _closed = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    Client::new(url.parse().unwrap(), "token").unwrap()
}

/// Returns the error of a call that expects a small JSON value.
async fn error_of(answer: &str) -> ClientError {
    client_answering(answer.to_owned()).await.health().await.unwrap_err()
}

fn status_of(line: &str) -> u16 {
    line.split_once(' ').unwrap().0.parse().unwrap()
}

fn with_body(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n{body}")
}

#[tokio::test]
async fn an_answer_is_read_whatever_its_content_type() {
    for headers in ["", "Content-Type: text/html\r\n", "Content-Type: application/json\r\n"] {
        let client = client_answering(with_body("200 OK", headers, r#"{"status":"ok"}"#)).await;
        assert_eq!(client.health().await.unwrap().status, "ok");
    }
    for body in ["", "<html>", "[]", "{}", r#"{"status":7}"#, "{\"status\":\"ok\"} x"] {
        let error =
            error_of(&with_body("200 OK", "Content-Type: application/json\r\n", body)).await;
        assert!(matches!(error, ClientError::Unreadable(_)), "{body}: {error:?}");
        assert!(!error.is_temporary());
    }
}

#[tokio::test]
async fn a_truncated_response_is_a_broken_connection() {
    for answer in [
        "",
        "HTTP",
        "220 mail.example ESMTP\r\n",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"status\"",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"st",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        "HTTP/1.1 500 No\r\nContent-Length: 90\r\n\r\n{\"error\":\"x\"",
    ] {
        let error = error_of(answer).await;
        assert!(matches!(error, ClientError::Broken(_)), "{answer}: {error:?}");
        assert!(error.is_temporary(), "{answer}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "304 Not Modified"] {
        let expected: u16 = status_of(status);
        let error = error_of(&with_body(status, "Location: http://127.0.0.1:9/\r\n", "")).await;
        assert!(matches!(error, ClientError::Unexpected(found) if found == expected), "{error:?}");
        assert!(!error.is_temporary());
    }
}

#[tokio::test]
async fn an_error_response_is_reported_by_its_code_or_its_status() {
    let body = r#"{"error":"It is busy.","code":"locked","holder":7}"#;
    let error = error_of(&with_body("503 Busy", "Retry-After: 3\r\n", body)).await;
    assert_eq!(error.code(), Some(ErrorCode::Locked));
    assert_eq!(error.retry_after(), Some(Duration::from_secs(3)));
    assert!(error.is_temporary());
    let ClientError::Refused(refusal) = error else { panic!("{error:?}") };
    assert_eq!((refusal.status, refusal.sentence.as_str()), (503, "It is busy."));
    assert_eq!(refusal.facts.get("holder"), Some(&7.into()));

    for (status, body, temporary) in [
        ("502 Bad Gateway", "<html>no</html>", true),
        ("503 Busy", "{}", true),
        ("504 Late", "", true),
        ("500 No", r#"{"error":"x"}"#, false),
        ("404 None", "[1]", false),
        ("101 Switching Protocols", "", false),
    ] {
        let expected: u16 = status_of(status);
        let error = error_of(&with_body(status, "Retry-After: soon\r\n", body)).await;
        assert_eq!((error.is_temporary(), error.retry_after()), (temporary, None), "{status}");
        assert!(matches!(error, ClientError::Unexpected(found) if found == expected), "{error:?}");
    }
}

#[tokio::test]
async fn an_endless_body_is_refused_at_the_limit() {
    let body = "x".repeat(100_000);
    for status in ["200 OK", "500 No"] {
        for announced in ["Content-Length: 99999999999", "Transfer-Encoding: chunked"] {
            let head = format!("HTTP/1.1 {status}\r\n{announced}\r\n\r\n");
            let chunk = if announced.starts_with('T') { "186a0\r\n" } else { "" };
            let client =
                client_answering(format!("{head}{chunk}{body}")).await.with_answer_max(1_000);
            let error = client.health().await.unwrap_err();
            assert!(matches!(error, ClientError::TooLarge(1_000)), "{status}: {error:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_ends_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut open = Vec::new();
        for beginning in
            ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
        {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await.unwrap();
            stream.write_all(beginning.as_bytes()).await.unwrap();
            open.push(stream);
        }
        std::future::pending::<()>().await;
    });
    let client = Client::new(url.parse().unwrap(), "token").unwrap().with_deadline(DEADLINE);
    for _ in 0..3 {
        let error = client.health().await.unwrap_err();
        assert!(matches!(error, ClientError::TimedOut(after) if after == DEADLINE), "{error:?}");
        assert!(error.is_temporary());
    }
}

#[tokio::test]
async fn a_request_carries_the_token_and_the_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let taken = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = head(&mut stream).await.unwrap();
        let answer = with_body("200 OK", "", r#"{"status":"ok"}"#);
        stream.write_all(answer.as_bytes()).await.unwrap();
        request
    });
    let client = Client::new(format!("http://{address}").parse().unwrap(), " token\n").unwrap();
    client.with_client_id("ide-1").unwrap().health().await.unwrap();
    let request = taken.await.unwrap();
    let mut lines: Vec<_> = request.trim_end().lines().collect();
    lines[1..].sort_unstable();
    let host = format!("host: {address}");
    let expected = [
        "GET /health HTTP/1.1",
        "authorization: Bearer token",
        host.as_str(),
        "x-qwen-client-id: ide-1",
    ];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn an_endpoint_without_a_listener_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone.sock");
    drop(UnixListener::bind(&gone).unwrap());
    let none = folder.path().join("none.sock");
    for endpoint in [url.parse().unwrap(), Endpoint::Socket(gone), Endpoint::Socket(none)] {
        let error = Client::new(endpoint, "token").unwrap().health().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable(_)), "{error:?}");
        assert!(error.is_temporary());
    }
}

#[tokio::test]
async fn a_stream_skips_unknown_events_and_ends_with_the_connection() {
    let event = |id: u64, kind: &str| {
        let data = r#"{"replayedCount":0,"lastEventId":0}"#;
        format!(
            "id: {id}\nevent: {kind}\ndata: {{\"id\":{id},\"v\":1,\"type\":\"{kind}\",\"data\":{data},\"_meta\":{{\"serverTimestamp\":1}}}}\n\n"
        )
    };
    let frames = [
        ": hello\n\n",
        &event(4, "a_later_one"),
        "id: 5\ndata: no json\n\n",
        &event(6, "replay_complete"),
        "id: 7\ndata: {\"cut",
    ]
    .concat();
    let head = "HTTP/1.1 200 OK\r\nx-lukasa-event-cursor: 3\r\nx-qwen-event-epoch: e\r\n\r\n";
    let client = client_answering(format!("{head}{frames}")).await;
    let mut events = client.events(StartFrom::Now).await.unwrap().without_reconnect();
    assert_eq!(events.cursor().map(|cursor| cursor.last_seen), Some(3));
    let envelope = events.next().await.unwrap().unwrap();
    assert_eq!(envelope.id, Some(6));
    assert_eq!(events.next().await.unwrap(), None);
    let cursor = events.cursor().unwrap();
    assert_eq!((cursor.last_seen, cursor.epoch.as_deref()), (6, Some("e")));
}

#[tokio::test]
async fn a_reader_that_waits_only_shortly_reconnects_to_a_slow_daemon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (waited, has_waited) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let head_sent = "HTTP/1.1 200 OK\r\nx-lukasa-event-cursor: 3\r\n\r\n";
        let (mut first, _) = listener.accept().await.unwrap();
        head(&mut first).await.unwrap();
        first.write_all(head_sent.as_bytes()).await.unwrap();
        drop(first);
        let (mut second, _) = listener.accept().await.unwrap();
        head(&mut second).await.unwrap();
        has_waited.await.unwrap();
        let event = r#"{"id":4,"v":1,"type":"replay_complete","data":{"replayedCount":0,"lastEventId":0},"_meta":{"serverTimestamp":1}}"#;
        let frames = format!("{head_sent}id: 4\ndata: {event}\n\n");
        second.write_all(frames.as_bytes()).await.unwrap();
        // Only one connection is answered: a second attempt would wait for ever.
        std::future::pending::<()>().await;
    });
    let client = Client::new(url.parse().unwrap(), "token").unwrap();
    let mut events = client.events(StartFrom::Now).await.unwrap();
    let mut waited = Some(waited);
    for round in 0..100 {
        if let Ok(event) = tokio::time::timeout(SHORT_WAIT, events.next()).await {
            assert_eq!(event.unwrap().unwrap().id, Some(4));
            return;
        }
        if let Some(waited) = waited.take_if(|_| round == 9) {
            waited.send(()).unwrap();
        }
    }
    panic!("the stream never reconnected");
}

#[tokio::test]
async fn a_stream_with_an_endless_frame_is_an_error() {
    let head = "HTTP/1.1 200 OK\r\n\r\ndata: ";
    let client = client_answering(format!("{head}{}", "x".repeat(5 * 1024 * 1024))).await;
    let mut events = client.events(StartFrom::Now).await.unwrap();
    let error = events.next().await.unwrap_err();
    assert!(matches!(error, ClientError::TooLong(_)), "{error:?}");
}

#[tokio::test]
async fn a_refused_stream_reports_the_error_code() {
    let body = r#"{"error":"x","code":"too_many_subscribers"}"#;
    let client = client_answering(with_body("429 Too Many", "", body)).await;
    let error = client.events(StartFrom::Oldest).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TooManySubscribers));
}
