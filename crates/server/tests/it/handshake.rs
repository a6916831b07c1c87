//! Tests of the handshake in every revision, and of the end of a connection.

use serde_json::{Value, json};

use crate::client::{NEWEST, TestClient, WITH_HANDSHAKE};
use crate::world::TestHome;

fn capabilities() -> Value {
    json!({ "tools": {}, "prompts": {}, "resources": { "subscribe": true, "listChanged": true } })
}

fn server_info() -> Value {
    json!({
        "name": "lukasa",
        "title": "Lukasa",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "A memory for AI agents",
    })
}

#[tokio::test]
async fn the_handshake_negotiates_the_requested_or_the_newest_revision() {
    let instructions = include_str!("../../src/mcp/prompts/instructions.md").trim_end();
    for (asked, spoken) in WITH_HANDSHAKE.map(|revision| (revision, revision)).into_iter().chain([
        ("1999-01-01", "2025-11-25"),
        ("2126-01-01", "2025-11-25"),
        (NEWEST, "2025-11-25"),
    ]) {
        let world = TestHome::new();
        let mut client = TestClient::connect(world.config());
        let expected = json!({
            "protocolVersion": spoken,
            "capabilities": capabilities(),
            "serverInfo": server_info(),
            "instructions": instructions,
        });
        assert_eq!(client.initialize(asked, json!({})).await, expected, "{asked}");
        client.notify("notifications/initialized", json!({})).await;
        assert_eq!(client.request("ping", json!({})).await, json!({}), "{asked}");
        let (rest, ended) = client.close().await;
        assert_eq!(rest, Vec::<Value>::new());
        ended.unwrap();
    }
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), NEWEST).await;
    let mut discovered = client.request("server/discover", json!({})).await;
    let instructions = discovered["instructions"].take();
    assert!(instructions.as_str().unwrap().len() <= 512, "{instructions}");
    assert_eq!(
        discovered,
        json!({
            "resultType": "complete",
            "supportedVersions":
                ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
            "capabilities": capabilities(),
            "instructions": null,
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { "io.modelcontextprotocol/serverInfo": server_info() },
        })
    );
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!(listed["tools"][0]["name"], "memory");
    client.close().await.1.unwrap();
}

#[tokio::test]
async fn a_request_without_metadata_is_refused_and_a_handshake_is_possible_afterwards() {
    let world = TestHome::new();
    let mut client = TestClient::connect(world.config());
    let refused = client.request("tools/list", json!({})).await;
    assert_eq!(refused["error"]["code"], -32602);
    client.begin("2025-11-25", json!({})).await;
    assert_eq!(client.request("ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn undeclared_methods_are_not_found() {
    for revision in ["2024-11-05", "2025-11-25", NEWEST] {
        let world = TestHome::new();
        let mut client = TestClient::with_revision(world.config(), revision).await;
        for (method, params) in [
            (
                "completion/complete",
                json!({
                    "ref": { "type": "ref/prompt", "name": "x" },
                    "argument": { "name": "a", "value": "b" },
                }),
            ),
            ("logging/setLevel", json!({ "level": "debug" })),
            ("tasks/get", json!({ "taskId": "1" })),
            ("skills/list", json!({})),
            ("made/up", json!({ "any": "thing" })),
        ] {
            let answer = client.request(method, params).await;
            assert_eq!(answer["error"]["code"], -32601, "{revision} {method}: {answer}");
        }
    }
}

#[tokio::test]
async fn requests_of_another_revision_are_not_found() {
    let world = TestHome::new();
    let mut older = TestClient::with_revision(world.config(), "2025-11-25").await;
    let listen = json!({ "notifications": {} });
    assert_eq!(older.request("subscriptions/listen", listen).await["error"]["code"], -32601);
    let mut newest = TestClient::with_revision(world.config(), NEWEST).await;
    // Before the first request the revision is unknown, and a ping is answered.
    newest.request("tools/list", json!({})).await;
    let memory = json!({ "uri": "lukasa://memories/global/a.md" });
    for (method, params) in [
        ("ping", json!({})),
        ("resources/subscribe", memory.clone()),
        ("resources/unsubscribe", memory),
    ] {
        assert_eq!(newest.request(method, params).await["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test]
async fn an_error_for_malformed_parameters_names_the_method() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    for (method, params) in [
        ("tools/call", json!({ "name": "memory", "arguments": "view" })),
        ("tools/call", json!({ "arguments": {} })),
        ("resources/read", json!({ "uri": 7 })),
        ("resources/subscribe", json!({})),
    ] {
        let answer = client.request(method, params).await;
        assert_eq!(
            answer["error"],
            json!({
                "code": -32602,
                "message": format!("the parameters of `{method}` have the wrong shape"),
            })
        );
    }
}

#[tokio::test]
async fn the_server_ends_without_an_error_when_its_client_disconnects() {
    for beginning in ["", "\n", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n"]
    {
        let world = TestHome::new();
        let mut client = TestClient::connect(world.config());
        client.write(beginning.as_bytes()).await;
        let (rest, ended) = client.close().await;
        assert_eq!(rest, Vec::<Value>::new());
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_request_before_the_client_disconnects_is_answered() {
    for revision in ["2024-11-05", NEWEST] {
        let world = TestHome::new();
        let mut client = TestClient::with_revision(world.config(), revision).await;
        let path = "/memories/global/last.md";
        let create = json!({ "command": "create", "path": path, "file_text": "words" });
        let id = client.ask("tools/call", json!({ "name": "memory", "arguments": create })).await;
        let (rest, ended) = client.close().await;
        let answered: Vec<&Value> = rest.iter().filter(|message| message["id"] == id).collect();
        assert_eq!(answered.len(), 1, "{rest:?}");
        assert_eq!(answered[0]["result"]["isError"], false);
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_shutdown_before_the_first_request_is_not_an_error() {
    let world = TestHome::new();
    let client = TestClient::connect(world.config());
    client.stop.cancel();
    client.read_remaining().await.1.unwrap();
}
