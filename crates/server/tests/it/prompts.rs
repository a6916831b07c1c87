//! Tests of the MCP prompts.

use serde_json::{Value, json};

use crate::client::{NEWEST, TestClient};
use crate::world::TestHome;

async fn prompt_text(client: &mut TestClient, name: &str, arguments: Value) -> String {
    let result =
        client.request("prompts/get", json!({ "name": name, "arguments": arguments })).await;
    assert_eq!(result["messages"].as_array().map(Vec::len), Some(1), "{result}");
    assert_eq!(result["messages"][0]["role"], "user", "{result}");
    result["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn each_revision_lists_the_prompts_with_their_arguments() {
    for revision in ["2024-11-05", "2025-11-25", NEWEST] {
        let world = TestHome::new();
        let mut client = TestClient::with_revision(world.config(), revision).await;
        let listed = client.request("prompts/list", json!({})).await;
        let prompts = listed["prompts"].as_array().unwrap();
        let shown: Vec<_> = prompts
            .iter()
            .map(|prompt| {
                let argument = &prompt["arguments"][0];
                (prompt["name"].clone(), argument["name"].clone(), argument["required"].clone())
            })
            .collect();
        let expected = [("remember", "text"), ("recall", "question"), ("review", "scope")]
            .map(|(name, argument)| (json!(name), json!(argument), json!(false)));
        assert_eq!(shown, expected, "{revision}");
    }
}

#[tokio::test]
async fn a_prompt_contains_its_instructions_and_the_argument() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    let remember =
        prompt_text(&mut client, "remember", json!({ "text": " I use {text} tabs\n" })).await;
    insta::assert_snapshot!(remember, @"
    Remember with the `memory` tool what is said below. View the folder that it belongs to first. Update the memory that already covers it; create one only if none does. Write one fact a line, and the reason where it matters. Never store secrets. Then tell in one sentence what you wrote, and where.

    I use {text} tabs
    ");
    let question = json!({ "question": "which port?" });
    let recall = prompt_text(&mut client, "recall", question).await;
    assert!(recall.contains("`recall` tool") && recall.ends_with("\n\nwhich port?"), "{recall}");
    let review = prompt_text(&mut client, "review", json!({ "scope": "project" })).await;
    assert!(review.starts_with("Review the memories in /memories/project. "), "{review}");
    // Some hosts leave out arguments, others send empty ones.
    for (name, part) in
        [("remember", "this conversation"), ("recall", "the task"), ("review", "in /memories. ")]
    {
        for arguments in [json!({}), json!({ "text": "", "question": " ", "scope": null })] {
            let text = prompt_text(&mut client, name, arguments).await;
            assert!(text.contains(part) && !text.contains('{'), "{name}: {text}");
            assert!(text.len() < 600, "{name} costs little");
        }
    }
}

#[tokio::test]
async fn an_error_names_the_unknown_prompt_or_the_invalid_argument() {
    let world = TestHome::new();
    let mut client = TestClient::with_revision(world.config(), "2025-11-25").await;
    for (params, part) in [
        (json!({ "name": "forget" }), "`forget`"),
        (
            json!({ "name": "review", "arguments": { "scope": "all" } }),
            "global, project or workspace",
        ),
        (json!({ "name": "recall", "arguments": { "question": 7 } }), "must be a string"),
        (json!({ "arguments": {} }), "wrong shape"),
    ] {
        let refused = client.request("prompts/get", params).await;
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
    }
}
