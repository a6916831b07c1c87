//! Chat models over every protocol, with real connections.

use std::sync::Arc;
use std::time::Duration;

use lukasa_model::{
    Address, ApiKey, Chat, ChatError, ChatHistory, ChatProtocol, KeyError, PlaintextReach, ToolSpec,
};
use serde_json::{Value, json};
use strum::VariantArray as _;
use testkit::{ModelReply, ModelServer};

const LONG: Duration = Duration::from_mins(1);

fn chat(protocol: ChatProtocol, server: &ModelServer, key: ApiKey) -> Chat {
    chat_with_model(protocol, server, "small", key)
}

fn chat_with_model(protocol: ChatProtocol, server: &ModelServer, model: &str, key: ApiKey) -> Chat {
    let address = Address::parse(&server.url(), PlaintextReach::ThisMachine).unwrap();
    Chat::new(protocol, address, model, key)
}

fn key() -> ApiKey {
    ApiKey::from_variable("MY_KEY", Some("k-123"))
}

fn tools() -> [ToolSpec; 2] {
    let tool = |name, description| {
        let schema = json!({ "type": "object", "properties": { "path": { "type": "string" } }, "required": ["path"] });
        ToolSpec { name, description, schema }
    };
    [tool("read_file", "Reads a file."), tool("ls", "Lists a folder.")]
}

/// Returns a conversation with one message.
fn conversation() -> ChatHistory {
    let mut conversation = ChatHistory::new("You keep files.", &tools());
    conversation.push_user("Tidy up.");
    conversation
}

async fn error(reply: ModelReply) -> ChatError {
    let server = ModelServer::scripted(vec![reply]).unwrap();
    let chat = chat(ChatProtocol::OpenAi, &server, key());
    chat.next(&mut conversation(), Duration::from_secs(20)).await.unwrap_err()
}

#[tokio::test]
async fn tool_calls_results_and_text_work_over_every_protocol() {
    for &protocol in ChatProtocol::VARIANTS {
        let calls = vec![
            ("read_file".to_owned(), json!({ "path": "a.md" })),
            ("ls".to_owned(), json!({ "path": "/" })),
        ];
        let server =
            ModelServer::scripted(vec![ModelReply::Calls(calls), ModelReply::text("All is tidy.")])
                .unwrap();
        let chat = chat(protocol, &server, key());
        let mut conversation = conversation();
        let reply = chat.next(&mut conversation, LONG).await.unwrap();
        let called: Vec<_> =
            reply.calls.iter().map(|call| (call.name(), call.arguments().clone())).collect();
        assert_eq!(
            called,
            [("read_file", json!({ "path": "a.md" })), ("ls", json!({ "path": "/" }))],
            "{protocol:?}"
        );
        assert_eq!((reply.text.as_str(), reply.is_truncated), ("", false), "{protocol:?}");
        let results = ["- one fact", "a.md"].map(str::to_owned);
        conversation.push_results(reply.calls.iter().zip(results));
        let reply = chat.next(&mut conversation, LONG).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.calls.len()), ("All is tidy.", 0), "{protocol:?}");
        let usage = reply.usage;
        assert_eq!(
            (usage.tokens_in, usage.tokens_cached, usage.tokens_out),
            (100, 40, 7),
            "{protocol:?}"
        );
        assert_eq!(usage.cost, (protocol == ChatProtocol::OpenAi).then_some(0.25), "{protocol:?}");
        let [first, second] = server.requests().try_into().unwrap();
        for text in ["You keep files.", "Tidy up.", "read_file", "Lists a folder."] {
            assert!(
                first.text().contains(text),
                "{protocol:?} was not sent {text}: {}",
                first.text()
            );
        }
        for text in ["- one fact", "a.md"] {
            assert!(
                second.text().contains(text),
                "{protocol:?} was not sent {text}: {}",
                second.text()
            );
        }
        assert!(first.head.contains("k-123"), "{protocol:?}: {}", first.head);
        assert!(!first.text().contains("k-123"), "{protocol:?}");
    }
}

/// Every result must name its call, as the servers of each protocol demand.
#[tokio::test]
async fn results_name_their_calls() {
    let find = |protocol: ChatProtocol, body: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        match protocol {
            ChatProtocol::OpenAi => {
                assert_eq!(body["tool_choice"], "auto");
                let messages = list(&body["messages"]);
                let results = messages.iter().filter(|message| message["role"] == "tool");
                results
                    .map(|result| (text(&result["tool_call_id"]), text(&result["content"])))
                    .collect()
            }
            ChatProtocol::OpenAiResponses => {
                let items = list(&body["input"]);
                let results = items.iter().filter(|item| item["type"] == "function_call_output");
                results.map(|result| (text(&result["call_id"]), text(&result["output"]))).collect()
            }
            ChatProtocol::Anthropic => {
                // All results are in the one message after the calls, because servers refuse two messages in a row.
                let newest = list(&body["messages"]).pop().unwrap_or_default();
                list(&newest["content"])
                    .iter()
                    .map(|result| (text(&result["tool_use_id"]), text(&result["content"])))
                    .collect()
            }
            ChatProtocol::Gemini => {
                let contents = list(&body["contents"]);
                let parts = contents.iter().flat_map(|content| list(&content["parts"]));
                let results = parts.filter_map(|part| part.get("functionResponse").cloned());
                results
                    .map(|result| (text(&result["name"]), result["response"].to_string()))
                    .collect()
            }
        }
    };
    for &protocol in ChatProtocol::VARIANTS {
        let calls = vec![
            ("read_file".to_owned(), json!({ "path": "a.md" })),
            ("ls".to_owned(), json!({ "path": "/" })),
        ];
        let server =
            ModelServer::scripted(vec![ModelReply::Calls(calls), ModelReply::text("Done.")])
                .unwrap();
        let chat = chat(protocol, &server, key());
        let mut conversation = conversation();
        let reply = chat.next(&mut conversation, LONG).await.unwrap();
        let results = ["first result", "second result"].map(str::to_owned);
        conversation.push_results(reply.calls.iter().zip(results));
        chat.next(&mut conversation, LONG).await.unwrap();
        let found = find(protocol, &server.requests()[1].body);
        let names = if protocol == ChatProtocol::Gemini {
            ["read_file", "ls"]
        } else {
            ["call_0", "call_1"]
        };
        let [(one, first), (other, second)] = found.try_into().unwrap();
        assert_eq!([one.as_str(), other.as_str()], names, "{protocol:?}");
        assert!(
            first.contains("first result") && second.contains("second result"),
            "{protocol:?} {first} {second}"
        );
    }
}

#[tokio::test]
async fn a_model_name_that_ends_like_an_effort_is_sent_unchanged() {
    for protocol in [ChatProtocol::OpenAi, ChatProtocol::OpenAiResponses, ChatProtocol::Anthropic] {
        let server = ModelServer::scripted(vec![ModelReply::text("Yes.")]).unwrap();
        for name in ["mistral-medium", "qwen-max", "phi-none", "org::tiny", "plain", "odd-"] {
            chat_with_model(protocol, &server, name, key())
                .next(&mut conversation(), LONG)
                .await
                .unwrap();
            let body = server.requests().pop().unwrap().body;
            assert_eq!(body["model"], name, "{protocol:?}");
            for parameter in ["reasoning_effort", "reasoning", "thinking"] {
                assert!(body.get(parameter).is_none(), "{protocol:?} {name}: {body}");
            }
        }
    }
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    for protocol in [ChatProtocol::OpenAi, ChatProtocol::OpenAiResponses] {
        let server = ModelServer::scripted(vec![ModelReply::text("Yes.")]).unwrap();
        chat(protocol, &server, ApiKey::None).next(&mut conversation(), LONG).await.unwrap();
        let [request] = server.requests().try_into().unwrap();
        assert!(!request.head.to_lowercase().contains("authorization"), "{}", request.head);
    }
    let server = ModelServer::scripted(vec![ModelReply::text("Yes.")]).unwrap();
    let missing = ApiKey::from_variable("MY_KEY", None);
    let error = chat(ChatProtocol::OpenAi, &server, missing)
        .next(&mut conversation(), LONG)
        .await
        .unwrap_err();
    assert!(
        matches!(&error, ChatError::NoKey(KeyError::Variable(name)) if name == "MY_KEY"),
        "{error:?}"
    );
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn retries_wait_as_long_as_the_server_says() {
    let script = vec![
        ModelReply::Status(429, Some(("retry-after", "1")), "slow down"),
        ModelReply::Status(503, None, "busy"),
        ModelReply::text("Yes."),
    ];
    let server = ModelServer::scripted(script).unwrap();
    let begun = tokio::time::Instant::now();
    let reply = chat(ChatProtocol::Anthropic, &server, key())
        .next(&mut conversation(), LONG)
        .await
        .unwrap();
    assert_eq!((reply.text.as_str(), server.requests().len()), ("Yes.", 3));
    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_wait_beyond_the_deadline_fails_at_once() {
    let server = ModelServer::scripted(vec![ModelReply::Status(
        429,
        Some(("retry-after", "3600")),
        "quota",
    )])
    .unwrap();
    let begun = tokio::time::Instant::now();
    let error = chat(ChatProtocol::OpenAi, &server, key())
        .next(&mut conversation(), LONG)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "the model's server answered with status 429: quota");
    assert!(begun.elapsed() < Duration::from_secs(5) && server.requests().len() == 1);
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for status in [400, 401, 403, 404, 302] {
        let server =
            ModelServer::scripted(vec![ModelReply::Status(status, None, "no: k-123")]).unwrap();
        let error = chat(ChatProtocol::OpenAi, &server, key())
            .next(&mut conversation(), LONG)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the model's server answered with status {status}: no: [key]")
        );
        assert_eq!(server.requests().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = ModelServer::scripted(vec![ModelReply::text("Yes.")]).unwrap();
    let to: &'static str = Box::leak(format!("{}/chat/completions", other.url()).into_boxed_str());
    let server =
        ModelServer::scripted(vec![ModelReply::Status(307, Some(("location", to)), "over there")])
            .unwrap();
    let error = chat(ChatProtocol::OpenAi, &server, key())
        .next(&mut conversation(), LONG)
        .await
        .unwrap_err();
    assert!(matches!(error, ChatError::Refused { status: 307, .. }), "{error:?}");
    assert_eq!(other.requests().len(), 0);
}

#[tokio::test]
async fn invalid_replies_are_errors() {
    assert_eq!(error(ModelReply::Page).await.to_string(), "the model's reply is invalid: not JSON");
    assert!(matches!(error(ModelReply::Half).await, ChatError::ConnectionLost(_)));
    assert!(matches!(
        error(ModelReply::Status(500, None, "failed")).await,
        ChatError::Refused { status: 500, .. }
    ));
}

#[tokio::test]
async fn invalid_json_arguments_are_never_an_object() {
    for protocol in [ChatProtocol::OpenAi, ChatProtocol::OpenAiResponses] {
        let server = ModelServer::scripted(vec![ModelReply::Garbage("ls".to_owned())]).unwrap();
        let result = chat(protocol, &server, key()).next(&mut conversation(), LONG).await;
        match result {
            Ok(reply) => {
                assert!(reply.calls.iter().all(|call| !call.arguments().is_object()), "{reply:?}");
            }
            Err(error) => assert!(matches!(error, ChatError::InvalidReply(_)), "{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_truncated_reply_is_marked() {
    for &protocol in ChatProtocol::VARIANTS {
        let server = ModelServer::scripted(vec![ModelReply::Cut("half a".to_owned())]).unwrap();
        let reply = chat(protocol, &server, key()).next(&mut conversation(), LONG).await.unwrap();
        assert!(reply.is_truncated, "{protocol:?}: {reply:?}");
    }
}

#[tokio::test]
async fn an_unreachable_server_is_reported_without_the_key() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let address = Address::parse(&url, PlaintextReach::ThisMachine).unwrap();
    let chat = Chat::new(ChatProtocol::OpenAi, address, "small", key());
    let error = chat.next(&mut conversation(), LONG).await.unwrap_err();
    assert!(matches!(error, ChatError::Unreachable(_)), "{error:?}");
    assert!(!error.to_string().contains("k-123"), "{error}");
}

#[tokio::test]
async fn a_silent_server_times_out_and_is_disconnected() {
    let server = ModelServer::scripted(vec![ModelReply::Nothing]).unwrap();
    let wait = Duration::from_millis(80);
    let error = chat(ChatProtocol::Gemini, &server, key())
        .next(&mut conversation(), wait)
        .await
        .unwrap_err();
    assert!(matches!(error, ChatError::TimedOut(_)), "{error:?}");
    tokio::task::spawn_blocking(move || server.wait_for_disconnects(1)).await.unwrap();
}

#[tokio::test]
async fn dropping_a_request_closes_its_connection() {
    let server = Arc::new(ModelServer::scripted(vec![ModelReply::Nothing]).unwrap());
    let chat = chat(ChatProtocol::OpenAi, &server, key());
    let request = tokio::spawn(async move { chat.next(&mut conversation(), LONG).await });
    let server_handle = Arc::clone(&server);
    tokio::task::spawn_blocking(move || server_handle.wait_for_requests(1)).await.unwrap();
    request.abort();
    tokio::task::spawn_blocking(move || server.wait_for_disconnects(1)).await.unwrap();
}
