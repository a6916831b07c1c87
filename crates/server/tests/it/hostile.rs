//! Tests of invalid and hostile input: the server answers requests with errors and keeps serving.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{NEWEST, TestClient};
use crate::world::TestHome;

/// Sends a line, checks the answers to it, and checks that the server still answers afterwards.
async fn check(line: &[u8], expected: Value) {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    client.write(line).await;
    client.write(b"\n").await;
    client.send(&json!({ "jsonrpc": "2.0", "id": "after", "method": "ping" })).await;
    let (rest, ended) = client.close().await;
    ended.unwrap();
    let shown: Vec<Value> = rest
        .iter()
        .map(|message| match &message["error"]["code"] {
            Value::Null => json!({ "id": message["id"] }),
            code => json!({ "id": message["id"], "error": code }),
        })
        .collect();
    let mut expected = expected.as_array().unwrap().clone();
    expected.push(json!({ "id": "after" }));
    let name = String::from_utf8_lossy(line);
    for answer in &expected {
        assert!(shown.contains(answer), "{name}: {answer} is not in {shown:?}");
    }
    assert_eq!(shown.len(), expected.len(), "{name}: {shown:?}");
}

#[tokio::test]
async fn an_invalid_line_is_answered_once() {
    let parse_error = json!([{ "id": null, "error": -32700 }]);
    let invalid = json!([{ "id": null, "error": -32600 }]);
    check(b"", json!([])).await;
    check(b"\x00\x01\x02", parse_error.clone()).await;
    check(b"\xff\xfe{}", parse_error.clone()).await;
    check(b"Content-Length: 42", parse_error.clone()).await;
    check(b"{\"jsonrpc\":\"2.0\",\"id\":1", parse_error.clone()).await;
    check("[".repeat(100_000).as_bytes(), parse_error).await;
    check(b"null", invalid.clone()).await;
    check(b"{}", invalid.clone()).await;
    check(b"[]", invalid).await;
    check(br#"{"jsonrpc":"2.0","id":99}"#, json!([{ "id": 99, "error": -32600 }])).await;
}

#[tokio::test]
async fn unsolicited_answers_and_unknown_notifications_are_ignored() {
    check(br#"{"jsonrpc":"2.0","id":1234,"result":{}}"#, json!([])).await;
    check(br#"{"jsonrpc":"2.0","id":1234,"error":{"code":1,"message":"x"}}"#, json!([])).await;
    check(
        br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}}"#,
        json!([]),
    )
    .await;
    check(br#"{"jsonrpc":"2.0","method":"notifications/made_up"}"#, json!([])).await;
    check(br#"{"jsonrpc":"2.0","method":"$/setTrace","params":{}}"#, json!([])).await;
}

#[tokio::test]
async fn each_message_of_a_batch_is_answered() {
    let batch = json!([
        { "jsonrpc": "2.0", "id": "a", "method": "ping" },
        { "jsonrpc": "2.0", "method": "notifications/initialized" },
        7,
        { "jsonrpc": "2.0", "id": "b", "method": "ping" },
    ]);
    let expected = json!([{ "id": "a" }, { "id": null, "error": -32600 }, { "id": "b" }]);
    check(batch.to_string().as_bytes(), expected).await;
}

#[tokio::test]
async fn an_oversized_message_is_refused_and_ends_the_server() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    let chunk = vec![b'a'; 1024 * 1024];
    let mut sent = 0;
    // The server stops reading at some point after the maximal length.
    while client.try_write(&chunk).await && sent < 64 {
        sent += 1;
    }
    assert!((16..64).contains(&sent), "{sent} MiB were read");
    let (rest, ended) = client.read_remaining().await;
    ended.unwrap();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["error"]["code"], -32600);
}

#[tokio::test]
async fn a_repeated_request_id_does_not_hang_the_server() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    let first = client.ask("tools/list", json!({})).await;
    client.reuse_id();
    assert_eq!(client.ask("tools/list", json!({})).await, first);
    client.answer(first).await;
    client.request("tools/list", json!({})).await;
}

#[tokio::test]
async fn the_server_shuts_down_even_if_its_client_does_not_read() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    // More answers than the pipe holds, none of which is read.
    for _ in 0..100 {
        client.ask("tools/list", json!({})).await;
    }
    client.stop.cancel();
    client.close_unread().await.unwrap();
}

/// Generates lines from garbage to almost valid requests.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[^\n\r]{0,60}",
        ("[a-z/]{1,20}", any::<i64>(), "[^\n\r\"\\\\]{0,20}").prop_map(|(method, id, param)| {
            json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": { "x": param } })
                .to_string()
        }),
        ("[^\n\r]{0,20}", "[^\n\r]{0,20}").prop_map(|(command, path)| {
            let arguments = json!({ "command": command, "path": path });
            let params = json!({ "name": "memory", "arguments": arguments });
            json!({ "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": params })
                .to_string()
        }),
        "[^\n\r]{0,30}".prop_map(|uri| {
            let params = json!({ "uri": format!("lukasa://memories/{uri}") });
            json!({ "jsonrpc": "2.0", "id": "x", "method": "resources/read", "params": params })
                .to_string()
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_server_answers_after_arbitrary_lines(lines in proptest::collection::vec(line(), 1..20)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = TestHome::new();
            let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
            for line in &lines {
                client.write(line.as_bytes()).await;
                client.write(b"\n").await;
            }
            assert_eq!(client.request("ping", json!({})).await, json!({}));
            client.close().await.1.unwrap();
        });
    }
}
