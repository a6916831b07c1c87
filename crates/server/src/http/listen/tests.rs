//! Tests of the deadlines, with a clock that runs ahead while everybody waits.

use axum::body::Body;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::{Duration, Instant};

use super::*;
use crate::http::body;
use crate::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_BODY_WAIT, HTTP_LINGER_BYTES_MAX, HTTP_LINGER_IDLE_WAIT,
    HTTP_LINGER_WAIT,
};

/// How much a connection holds that nobody has read.
const PIPE_BYTES: usize = 1_024;

/// Connects to a server; returns this end of the connection, and what ends the server.
fn connect() -> (DuplexStream, CancellationToken) {
    let router = Router::new()
        .route("/", get(async || "here"))
        .route("/large", get(async || Body::from(vec![b'x'; 100 * PIPE_BYTES])))
        .route("/body", post(async |request: Request| body::bytes(request).await));
    let ending = CancellationToken::new();
    let connections = Connections::new(router, 2, Metrics::new(), ending.clone());
    let (ours, theirs) = duplex(PIPE_BYTES);
    connections.spawn_connection(Box::new(theirs), Peer::Socket);
    (ours, ending)
}

/// Sends bytes and reads until the connection ends; returns what came and how long that took.
async fn exchange(bytes: &[u8]) -> (String, Duration) {
    let begun = Instant::now();
    let (mut stream, _ending) = connect();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    (String::from_utf8(answer).unwrap(), begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    for begun in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "] {
        let (answer, took) = exchange(begun.as_bytes()).await;
        assert!(!answer.contains("here"), "{begun:?}: {answer}");
        assert_eq!(took, HTTP_HEADERS_WAIT, "{begun:?}");
    }
    let (answer, took) = exchange(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.ends_with("here"), "{answer}");
    assert_eq!(took, HTTP_HEADERS_WAIT, "an idle connection is one that sends no head");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_answered() {
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n";
    let (answer, took) = exchange(format!("{head}Connection: close\r\n\r\nhalf").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"body_timeout\""), "{answer}");
    assert_eq!(took, HTTP_BODY_WAIT);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_is_cut_off() {
    let (mut stream, _ending) = connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(2 * HTTP_READ_WAIT).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer.len(), PIPE_BYTES, "what was sent before, and no more");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_lets_idle_connections_go_at_once() {
    let (mut stream, ending) = connect();
    let begun = Instant::now();
    ending.cancel();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!((answer.len(), begun.elapsed()), (0, Duration::ZERO));
}

/// Where those of these tests come from who do not come through the socket.
const ELSEWHERE: Peer = Peer::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

/// A server that takes whoever asks for `/known` for one who has shown the token.
fn server(connections_max: usize) -> (Connections, Arc<Metrics>) {
    let known = async |request: Request| {
        request.extensions().get::<ConnectionState>().unwrap().mark_authenticated();
        "known"
    };
    let router = Router::new().route("/", get(async || "here")).route("/known", get(known));
    let measures = Metrics::new();
    let ending = CancellationToken::new();
    let connections = Connections::new(router, connections_max, Arc::clone(&measures), ending);
    (connections, measures)
}

/// Opens a connection to a server.
fn open(connections: &Connections, peer: Peer) -> DuplexStream {
    let (ours, theirs) = duplex(PIPE_BYTES);
    connections.spawn_connection(Box::new(theirs), peer);
    ours
}

/// Asks for a path over a connection that stays open; returns the answer, empty if it was cut off.
async fn ask(stream: &mut DuplexStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    if stream.write_all(request.as_bytes()).await.is_err() {
        return String::new();
    }
    let mut answer = vec![0; PIPE_BYTES];
    let count = stream.read(&mut answer).await.unwrap();
    String::from_utf8(answer[..count].to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_socket_is_answered_however_many_come_in_at_the_address() {
    let (connections, _) = server(8);
    let mut crowd = Vec::new();
    for number in 0..8 {
        let mut stream = open(&connections, ELSEWHERE);
        let is_let_in = ask(&mut stream, "/known").await.ends_with("known");
        assert_eq!(is_let_in, number < 6, "{number}");
        crowd.push(stream);
    }
    let mut at_socket: Vec<_> = (0..2).map(|_| open(&connections, Peer::Socket)).collect();
    for stream in &mut at_socket {
        assert!(ask(stream, "/").await.ends_with("here"));
    }
    assert_eq!(ask(&mut open(&connections, Peer::Socket), "/").await, "", "there is a bound");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_show_the_token_makes_room_for_the_next() {
    // Three may be strangers, of six at the address.
    let (connections, measures) = server(8);
    let mut idle: Vec<_> = (0..3).map(|_| open(&connections, ELSEWHERE)).collect();
    assert!(ask(&mut idle[0], "/").await.ends_with("here"), "a stranger is answered");
    let mut known = open(&connections, ELSEWHERE);
    tokio::task::yield_now().await;
    assert_eq!(ask(&mut idle[0], "/").await, "", "and cut off for the next one");
    assert!(ask(&mut known, "/known").await.ends_with("known"));
    idle.extend((0..30).map(|_| open(&connections, ELSEWHERE)));
    tokio::task::yield_now().await;
    assert!(ask(&mut known, "/").await.ends_with("here"), "who has shown it stays");
    let text = measures.text().unwrap();
    assert!(!text.contains("connections_turned_away_total 0\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn one_connection_too_many_is_dropped() {
    let measures = Metrics::new();
    let router = Router::new();
    let connections = Connections::new(router, 1, Arc::clone(&measures), CancellationToken::new());
    let ((mut first, one), (mut second, two)) = (duplex(PIPE_BYTES), duplex(PIPE_BYTES));
    connections.spawn_connection(Box::new(one), Peer::Socket);
    connections.spawn_connection(Box::new(two), Peer::Socket);
    let mut answer = Vec::new();
    assert_eq!(second.read_to_end(&mut answer).await.unwrap(), 0);
    first.write_all(b"G").await.unwrap();
    assert!(measures.text().unwrap().contains("connections_turned_away_total 1"));
}

#[tokio::test(start_paused = true)]
async fn what_a_client_still_sends_is_dropped_as_long_as_it_comes() {
    let (mut stream, _ending) = connect();
    let body = HTTP_BODY_BYTES_MAX + 1;
    let head = format!("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: {body}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; body]).await.unwrap();
    let begun = Instant::now();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(
        begun.elapsed(),
        Duration::ZERO,
        "the answer is whole, although this end stays open"
    );
    tokio::time::sleep(2 * HTTP_LINGER_IDLE_WAIT).await;
    assert!(stream.write_all(b"more").await.is_err(), "a silent client is not waited for");
}

#[tokio::test(start_paused = true)]
async fn what_a_client_sends_without_end_is_dropped_up_to_a_bound() {
    let (mut stream, _ending) = connect();
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut sent, chunk) = (0, [b' '; PIPE_BYTES]);
    while stream.write_all(&chunk).await.is_ok() {
        sent += PIPE_BYTES;
    }
    let most = HTTP_LINGER_BYTES_MAX + 2 * HTTP_HEADER_BYTES_MAX;
    assert!((HTTP_LINGER_BYTES_MAX..most).contains(&sent), "{sent} bytes were taken");

    // A byte now and then holds the connection no longer than everything together may take.
    let (mut stream, _ending) = connect();
    stream.write_all(head.as_bytes()).await.unwrap();
    let begun = Instant::now();
    while stream.write_all(b" ").await.is_ok() {
        tokio::time::sleep(HTTP_LINGER_IDLE_WAIT / 2).await;
    }
    assert!(begun.elapsed() <= HTTP_LINGER_WAIT + HTTP_LINGER_IDLE_WAIT, "{:?}", begun.elapsed());
}
