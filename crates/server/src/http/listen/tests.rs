//! Tests of the limits and deadlines of connections, with paused time.

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

/// The capacity of the pipe that stands for a connection.
const PIPE_BYTES: usize = 1_024;

/// Connects to a server; returns the client's end, and the token that shuts the server down.
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

/// Sends bytes and reads until the connection ends; returns the answer and the time that it took.
async fn exchange(bytes: &[u8]) -> (String, Duration) {
    let started = Instant::now();
    let (mut stream, _ending) = connect();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    (String::from_utf8(answer).unwrap(), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_request_head_that_does_not_arrive_in_time_closes_the_connection() {
    for head in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: localhost\r\nX: "] {
        let (answer, took) = exchange(head.as_bytes()).await;
        assert!(!answer.contains("here"), "{head:?}: {answer}");
        assert_eq!(took, HTTP_HEADERS_WAIT, "{head:?}");
    }
    let (answer, took) = exchange(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.ends_with("here"), "{answer}");
    assert_eq!(took, HTTP_HEADERS_WAIT, "an idle connection is one that sends no head");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_in_time_is_answered_with_408() {
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n";
    let (answer, took) = exchange(format!("{head}Connection: close\r\n\r\nhalf").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\"code\":\"body_timeout\""), "{answer}");
    assert_eq!(took, HTTP_BODY_WAIT);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected() {
    let (mut stream, _ending) = connect();
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    tokio::time::sleep(2 * HTTP_READ_WAIT).await;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer.len(), PIPE_BYTES, "what was sent before, and no more");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_idle_connections_at_once() {
    let (mut stream, ending) = connect();
    let started = Instant::now();
    ending.cancel();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!((answer.len(), started.elapsed()), (0, Duration::ZERO));
}

/// The peer of test clients that do not use the socket.
const ELSEWHERE: Peer = Peer::Address(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST));

/// Creates a server whose route `/known` marks its connection as authenticated.
fn server(connections_max: usize) -> (Connections, Arc<Metrics>) {
    let authenticate = async |request: Request| {
        request.extensions().get::<ConnectionState>().unwrap().mark_authenticated();
        "known"
    };
    let router = Router::new().route("/", get(async || "here")).route("/known", get(authenticate));
    let metrics = Metrics::new();
    let ending = CancellationToken::new();
    let connections = Connections::new(router, connections_max, Arc::clone(&metrics), ending);
    (connections, metrics)
}

/// Opens a connection to a server.
fn open(connections: &Connections, peer: Peer) -> DuplexStream {
    let (ours, theirs) = duplex(PIPE_BYTES);
    connections.spawn_connection(Box::new(theirs), peer);
    ours
}

/// Requests a path over a connection that stays open; returns the answer, empty if the connection was closed.
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
async fn a_flood_at_the_address_leaves_connections_for_the_socket() {
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
async fn the_oldest_unauthenticated_connection_is_evicted_for_a_new_one() {
    // Of six connections at the address, three may be unauthenticated.
    let (connections, metrics) = server(8);
    let mut idle: Vec<_> = (0..3).map(|_| open(&connections, ELSEWHERE)).collect();
    assert!(
        ask(&mut idle[0], "/").await.ends_with("here"),
        "an unauthenticated client is answered"
    );
    let mut authenticated = open(&connections, ELSEWHERE);
    tokio::task::yield_now().await;
    assert_eq!(ask(&mut idle[0], "/").await, "", "and evicted for the next one");
    assert!(ask(&mut authenticated, "/known").await.ends_with("known"));
    idle.extend((0..30).map(|_| open(&connections, ELSEWHERE)));
    tokio::task::yield_now().await;
    assert!(
        ask(&mut authenticated, "/").await.ends_with("here"),
        "an authenticated connection stays"
    );
    let text = metrics.text().unwrap();
    assert!(!text.contains("connections_turned_away_total 0\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_over_the_limit_is_dropped() {
    let metrics = Metrics::new();
    let router = Router::new();
    let connections = Connections::new(router, 1, Arc::clone(&metrics), CancellationToken::new());
    let ((mut first, one), (mut second, two)) = (duplex(PIPE_BYTES), duplex(PIPE_BYTES));
    connections.spawn_connection(Box::new(one), Peer::Socket);
    connections.spawn_connection(Box::new(two), Peer::Socket);
    let mut answer = Vec::new();
    assert_eq!(second.read_to_end(&mut answer).await.unwrap(), 0);
    first.write_all(b"G").await.unwrap();
    assert!(metrics.text().unwrap().contains("connections_turned_away_total 1"));
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_is_drained_while_the_client_sends() {
    let (mut stream, _ending) = connect();
    let body = HTTP_BODY_BYTES_MAX + 1;
    let head = format!("POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: {body}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![b' '; body]).await.unwrap();
    let started = Instant::now();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert_eq!(
        started.elapsed(),
        Duration::ZERO,
        "the answer is whole, although this end stays open"
    );
    tokio::time::sleep(2 * HTTP_LINGER_IDLE_WAIT).await;
    assert!(stream.write_all(b"more").await.is_err(), "a silent client is not waited for");
}

#[tokio::test(start_paused = true)]
async fn draining_stops_at_its_byte_and_time_limits() {
    let (mut stream, _ending) = connect();
    let head = "POST /body HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut sent, chunk) = (0, [b' '; PIPE_BYTES]);
    while stream.write_all(&chunk).await.is_ok() {
        sent += PIPE_BYTES;
    }
    let most = HTTP_LINGER_BYTES_MAX + 2 * HTTP_HEADER_BYTES_MAX;
    assert!((HTTP_LINGER_BYTES_MAX..most).contains(&sent), "{sent} bytes were taken");

    // Single bytes with pauses do not extend the total time limit.
    let (mut stream, _ending) = connect();
    stream.write_all(head.as_bytes()).await.unwrap();
    let started = Instant::now();
    while stream.write_all(b" ").await.is_ok() {
        tokio::time::sleep(HTTP_LINGER_IDLE_WAIT / 2).await;
    }
    assert!(
        started.elapsed() <= HTTP_LINGER_WAIT + HTTP_LINGER_IDLE_WAIT,
        "{:?}",
        started.elapsed()
    );
}
