//! Embedding endpoints and chat models, tested over real connections.

#![expect(clippy::unwrap_used, reason = "the helpers of these tests fail where there is no server")]

mod chat;

use std::net::TcpListener;
use std::time::Duration;

use lukasa_model::{Address, ApiKey, EmbedError, EmbeddingEndpoint, KeyError, PlaintextReach};
use testkit::{EmbeddingReply, EmbeddingServer};

const LONG: Duration = Duration::from_mins(1);

fn server() -> EmbeddingServer {
    EmbeddingServer::start(|text| vec![1.0, f32::from(u8::try_from(text.len()).unwrap())]).unwrap()
}

fn endpoint(url: &str, key: ApiKey) -> EmbeddingEndpoint {
    EmbeddingEndpoint::new(Address::parse(url, PlaintextReach::ThisMachine).unwrap(), "small", key)
}

async fn error_of(server: &EmbeddingServer, reply: EmbeddingReply) -> EmbedError {
    server.set_reply(reply);
    endpoint(&server.url(), ApiKey::None).embed(&["a", "bb"], LONG).await.unwrap_err()
}

#[tokio::test]
async fn texts_become_vectors_in_their_order() {
    let server = server();
    let vectors = endpoint(&server.url(), ApiKey::None).embed(&["a", "bb"], LONG).await.unwrap();
    assert_eq!(vectors, [vec![1.0, 1.0], vec![1.0, 2.0]]);
    let [request] = server.requests().try_into().unwrap();
    assert!(request.head.starts_with("POST /v1/embeddings HTTP/1.1\r\n"), "{}", request.head);
    assert!(!request.head.to_lowercase().contains("authorization"), "{}", request.head);
    assert_eq!(
        (request.model.as_str(), request.texts.as_slice()),
        ("small", &["a".into(), "bb".into()][..])
    );
}

#[tokio::test]
async fn a_key_is_sent_and_not_shown() {
    let server = server();
    let endpoint = endpoint(&server.url(), ApiKey::from_variable("MY_KEY", Some(" k-123\n")));
    assert!(!format!("{endpoint:?}").contains("k-123"), "{endpoint:?}");
    endpoint.embed(&["a"], LONG).await.unwrap();
    let [request] = server.requests().try_into().unwrap();
    assert!(
        request.head.to_lowercase().contains("authorization: bearer k-123\r\n"),
        "{}",
        request.head
    );
}

#[tokio::test]
async fn nothing_is_sent_if_the_named_key_is_missing() {
    let server = server();
    for value in [None, Some(""), Some("  "), Some("a\nb")] {
        let endpoint = endpoint(&server.url(), ApiKey::from_variable("MY_KEY", value));
        let error = endpoint.embed(&["a"], LONG).await.unwrap_err();
        assert!(
            matches!(&error, EmbedError::NoKey(KeyError::Variable(name)) if name == "MY_KEY"),
            "{error:?}"
        );
    }
    assert_eq!(server.texts(), [] as [&str; 0]);
}

#[tokio::test]
async fn an_error_contains_the_status_and_not_the_body() {
    let server = server();
    for (status, may_be_text_fault) in
        [(500, false), (302, false), (401, false), (400, true), (413, true)]
    {
        let error = error_of(&server, EmbeddingReply::Status(status)).await;
        assert_eq!(error.to_string(), format!("the endpoint answered with status {status}"));
        assert_eq!(error.may_be_text_fault(), may_be_text_fault, "{status}");
    }
}

#[tokio::test]
async fn invalid_responses_are_errors() {
    let server = server();
    assert!(matches!(
        error_of(&server, EmbeddingReply::Page).await,
        EmbedError::InvalidResponse(_)
    ));
    assert!(matches!(error_of(&server, EmbeddingReply::Half).await, EmbedError::ConnectionLost(_)));
    assert!(matches!(error_of(&server, EmbeddingReply::Flood).await, EmbedError::TooLarge(_)));
}

#[tokio::test]
async fn an_unreachable_endpoint_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let error = endpoint(&url, ApiKey::None).embed(&["a"], LONG).await.unwrap_err();
    assert!(matches!(error, EmbedError::Unreachable(_)), "{error:?}");
}

#[tokio::test]
async fn a_silent_endpoint_times_out_and_is_disconnected() {
    let server = server();
    server.set_reply(EmbeddingReply::Nothing);
    let endpoint = endpoint(&server.url(), ApiKey::None);
    let error = endpoint.embed(&["a"], Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, EmbedError::TimedOut(_)), "{error:?}");
    tokio::task::spawn_blocking(move || server.wait_for_disconnects(1)).await.unwrap();
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let server = std::sync::Arc::new(server());
    server.set_reply(EmbeddingReply::Nothing);
    let endpoint = endpoint(&server.url(), ApiKey::None);
    let request = tokio::spawn(async move { endpoint.embed(&["a"], LONG).await });
    let server_handle = std::sync::Arc::clone(&server);
    tokio::task::spawn_blocking(move || server_handle.wait_for_requests(1)).await.unwrap();
    request.abort();
    tokio::task::spawn_blocking(move || server.wait_for_disconnects(1)).await.unwrap();
}
