//! Tests of the project that follows from a client's roots.

use lukasa_server::mcp::{McpConfig, ProjectSource};
use serde_json::{Value, json};

use crate::client::{NEWEST, TestClient};
use crate::world::TestHome;

fn with_roots() -> Value {
    json!({ "roots": { "listChanged": true } })
}

fn roots(folders: &[&std::path::Path]) -> Value {
    let roots: Vec<Value> = folders
        .iter()
        .map(|folder| json!({ "uri": format!("file://{}", folder.display()) }))
        .collect();
    json!({ "roots": roots })
}

/// Starts a server in the project `start`, for a client with roots.
async fn client(world: &TestHome, host: impl FnOnce(McpConfig) -> McpConfig) -> TestClient {
    let start = Some(world.project("start"));
    let mut binding = world.config().binding;
    binding.project = start.map(Into::into);
    let mut client = TestClient::connect(host(McpConfig { binding, ..world.config() }));
    client.begin("2025-11-25", with_roots()).await;
    client
}

/// Creates a project memory and returns the name of the folder that contains it.
async fn write_target(client: &mut TestClient, world: &TestHome, name: &str) -> &'static str {
    client.create(&format!("/memories/project/{name}"), "words\n").await;
    let found: Vec<&str> = ["start", "first", "second"]
        .into_iter()
        .filter(|folder| world.folder().join(folder).join(".lukasa/memory").join(name).exists())
        .collect();
    let [folder] = found[..] else { panic!("{name} is in {found:?}") };
    folder
}

#[tokio::test]
async fn the_only_project_among_the_roots_is_used_from_the_first_call_on() {
    let world = TestHome::new();
    let (first, second) = (world.project("first"), world.folder().join("second"));
    std::fs::create_dir(&second).unwrap();
    let mut client = client(&world, |host| host).await;
    // The call is sent before the roots are known.
    let create = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "x" });
    let call = client.ask("tools/call", json!({ "name": "memory", "arguments": create })).await;
    let request = client.wait_for_request("roots/list").await;
    client.respond(request, roots(&[&first, &second])).await;
    assert_eq!(client.answer(call).await["isError"], false);
    assert!(first.join(".lukasa/memory/a.md").exists());
    assert_eq!(write_target(&mut client, &world, "b.md").await, "first");
}

#[tokio::test]
async fn roots_in_several_projects_give_no_project_until_one_is_left() {
    let world = TestHome::new();
    let (first, second) = (world.project("first"), world.project("second"));
    let mut client = client(&world, |host| host).await;
    let request = client.wait_for_request("roots/list").await;
    client.respond(request, roots(&[&first, &second])).await;
    let create = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "x" });
    let call = json!({ "name": "memory", "arguments": create });
    let refused = client.request("tools/call", call).await;
    assert_eq!(refused["_meta"]["lukasa"]["code"], "scope_unavailable", "{refused}");
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("`lukasa mcp --project DIR`"), "{text}");
    for folder in ["start", "first", "second"] {
        assert!(!world.folder().join(folder).join(".lukasa").exists(), "{folder}");
    }
    client.notify("notifications/roots/list_changed", json!({})).await;
    let view = json!({ "name": "memory", "arguments": { "command": "view", "path": "/memories" } });
    let call = client.ask("tools/call", view).await;
    let request = client.wait_for_request("roots/list").await;
    client.respond(request, roots(&[&second])).await;
    client.answer(call).await;
    assert_eq!(write_target(&mut client, &world, "b.md").await, "second");
}

#[tokio::test]
async fn a_client_whose_roots_changed_is_asked_again() {
    let world = TestHome::new();
    let (first, second) = (world.project("first"), world.project("second"));
    let mut client = client(&world, |host| host).await;
    let request = client.wait_for_request("roots/list").await;
    client.respond(request, roots(&[&first])).await;
    assert_eq!(write_target(&mut client, &world, "a.md").await, "first");
    client.notify("notifications/roots/list_changed", json!({})).await;
    // A request that the server reads after the notification.
    let view = json!({ "name": "memory", "arguments": { "command": "view", "path": "/memories" } });
    let call = client.ask("tools/call", view).await;
    let request = client.wait_for_request("roots/list").await;
    client.respond(request, roots(&[&second])).await;
    client.answer(call).await;
    assert_eq!(write_target(&mut client, &world, "b.md").await, "second");
}

#[tokio::test]
async fn roots_without_a_local_folder_fall_back_to_the_start_folder() {
    for answer in [
        json!({ "roots": [] }),
        json!({ "roots": [{ "uri": "https://example.org/x" }, { "uri": "file://elsewhere/x" }] }),
        json!({}),
    ] {
        let world = TestHome::new();
        let mut client = client(&world, |host| host).await;
        let request = client.wait_for_request("roots/list").await;
        client.respond(request, answer).await;
        assert_eq!(write_target(&mut client, &world, "a.md").await, "start");
    }
}

#[tokio::test]
async fn an_error_for_the_roots_falls_back_to_the_start_folder() {
    let world = TestHome::new();
    let mut client = client(&world, |host| host).await;
    let request = client.wait_for_request("roots/list").await;
    let error = json!({ "code": -32601, "message": "no roots" });
    client.send(&json!({ "jsonrpc": "2.0", "id": request, "error": error })).await;
    assert_eq!(write_target(&mut client, &world, "a.md").await, "start");
}

#[tokio::test(start_paused = true)]
async fn a_missing_answer_about_roots_delays_calls_only_for_a_while() {
    let world = TestHome::new();
    let mut client = client(&world, |host| host).await;
    let view = json!({ "command": "view", "path": "/memories/project" });
    let call = client.ask("tools/call", json!({ "name": "memory", "arguments": view })).await;
    client.wait_for_request("roots/list").await;
    // Other requests are answered meanwhile, and the call itself after the time limit.
    assert_eq!(client.request("ping", json!({})).await, json!({}));
    assert!(client.answer(call).await["isError"].is_boolean());
}

#[tokio::test]
async fn a_shutdown_before_the_project_is_known_writes_to_no_project() {
    let world = TestHome::new();
    let mut client = client(&world, |host| host).await;
    let create = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "x" });
    let call = client.ask("tools/call", json!({ "name": "memory", "arguments": create })).await;
    client.wait_for_request("roots/list").await;
    client.stop.cancel();
    let (rest, ended) = client.read_remaining().await;
    assert!(rest.iter().any(|message| message["id"] == call && message["error"]["code"] == -32603));
    assert!(!world.folder().join("start/.lukasa").exists());
    ended.unwrap();
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_begins_does_nothing() {
    let world = TestHome::new();
    let first = world.project("first");
    let mut client = client(&world, |host| host).await;
    let create = json!({ "command": "create", "path": "/memories/project/a.md", "file_text": "x" });
    let call = client.ask("tools/call", json!({ "name": "memory", "arguments": create })).await;
    let request = client.wait_for_request("roots/list").await;
    client.notify("notifications/cancelled", json!({ "requestId": call })).await;
    client.respond(request, roots(&[&first])).await;
    assert_eq!(write_target(&mut client, &world, "b.md").await, "first");
    assert!(!first.join(".lukasa/memory/a.md").exists());
    let (rest, ended) = client.close().await;
    assert!(rest.iter().all(|message| message["id"] != call), "{rest:?}");
    ended.unwrap();
}

#[tokio::test]
async fn a_client_is_not_asked_for_roots_if_the_user_named_the_project() {
    let world = TestHome::new();
    let mut client =
        client(&world, |host| McpConfig { project: ProjectSource::Binding, ..host }).await;
    assert_eq!(write_target(&mut client, &world, "a.md").await, "start");
    assert_eq!(client.close().await.0, Vec::<Value>::new());
}

#[tokio::test]
async fn the_newest_revision_uses_the_start_folder() {
    let world = TestHome::new();
    let mut binding = world.config().binding;
    binding.project = Some(world.project("start").into());
    let mut client = TestClient::connect(McpConfig { binding, ..world.config() });
    client.begin(NEWEST, with_roots()).await;
    assert_eq!(write_target(&mut client, &world, "a.md").await, "start");
}
