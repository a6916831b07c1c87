//! The four wire formats: Anthropic messages, OpenAI chat completions, OpenAI responses, Gemini.
//!
//! Each is read for the tools it offers, the conversation and the tool results, and answered with one
//! text or one tool call.

use serde_json::{Value, json};

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireFormat {
    Messages,
    Chat,
    Responses,
    Gemini,
}

/// A tool as the host offers it to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: String,
    /// The name of the group that holds it, where the format has groups.
    namespace: Option<String>,
}

/// A reply of the model.
#[derive(Clone, Debug)]
pub(super) enum ScriptedReply {
    Say(String),
    Call { tool: Tool, arguments: Value },
}

impl Tool {
    /// Returns whether this is our tool of that name, with any prefix or suffix of the host.
    pub(super) fn is_ours(&self, name: &str) -> bool {
        let full = format!("{}__{}", self.namespace.as_deref().unwrap_or_default(), self.name);
        let own = full.split_once("lukasa").map(|(_, own)| own.trim_start_matches(['_', '-', '.']));
        own == Some(name)
    }
}

impl WireFormat {
    /// Returns the format of requests to this path, if a model answers them.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path {
            _ if path.ends_with("/messages") => Some(Self::Messages),
            _ if path.ends_with("/chat/completions") => Some(Self::Chat),
            _ if path.ends_with("/responses") => Some(Self::Responses),
            _ if path.ends_with("enerateContent") => Some(Self::Gemini),
            _ => None,
        }
    }

    /// Returns the name of the format for documents.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Messages => "Anthropic messages",
            Self::Chat => "OpenAI chat completions",
            Self::Responses => "OpenAI responses",
            Self::Gemini => "Gemini",
        }
    }

    /// Returns the tools that a request offers.
    pub(super) fn tools(self, body: &Value) -> Vec<Tool> {
        let tool = |name: &Value, namespace: Option<&str>| {
            let name = name.as_str()?.to_owned();
            Some(Tool { name, namespace: namespace.map(str::to_owned) })
        };
        let offered = items(&body["tools"]);
        match self {
            Self::Messages => offered.filter_map(|one| tool(&one["name"], None)).collect(),
            Self::Chat => offered.filter_map(|one| tool(&one["function"]["name"], None)).collect(),
            Self::Responses => offered
                .flat_map(|one| match one["type"].as_str() {
                    Some("namespace") => items(&one["tools"])
                        .filter_map(|inner| tool(&inner["name"], one["name"].as_str()))
                        .collect(),
                    _ => tool(&one["name"], None).into_iter().collect::<Vec<_>>(),
                })
                .collect(),
            Self::Gemini => offered
                .flat_map(|one| items(&one["functionDeclarations"]))
                .filter_map(|one| tool(&one["name"], None))
                .collect(),
        }
    }

    /// Returns the messages of a request.
    pub(super) fn conversation(self, body: &Value) -> &Value {
        match self {
            Self::Messages | Self::Chat => &body["messages"],
            Self::Responses => &body["input"],
            Self::Gemini => &body["contents"],
        }
    }

    /// Returns the part before the messages: instructions and tools.
    pub(super) fn preamble(self, body: &Value) -> Vec<String> {
        let instructions = match self {
            Self::Messages => &body["system"],
            Self::Responses => &body["instructions"],
            Self::Gemini => &body["systemInstruction"],
            Self::Chat => &Value::Null,
        };
        let mut all = leaves(instructions);
        all.push(body["tools"].to_string());
        all
    }

    /// Returns the tool results of a request, as the model reads them.
    pub(super) fn results(self, body: &Value) -> Vec<String> {
        let messages = items(self.conversation(body));
        match self {
            Self::Messages => messages
                .flat_map(|message| items(&message["content"]))
                .filter(|block| block["type"] == "tool_result")
                .map(|block| leaves(&block["content"]).join("\n"))
                .collect(),
            Self::Chat => messages
                .filter(|message| message["role"] == "tool")
                .map(|message| leaves(&message["content"]).join("\n"))
                .collect(),
            Self::Responses => messages
                .filter(|item| item["type"] == "function_call_output")
                .map(|item| leaves(&item["output"]).join("\n"))
                .collect(),
            Self::Gemini => messages
                .flat_map(|message| items(&message["parts"]))
                .filter(|part| part.get("functionResponse").is_some())
                .map(|part| leaves(&part["functionResponse"]["response"]).join("\n"))
                .collect(),
        }
    }

    /// Writes an answer as a stream; returns its content type and its text.
    pub(super) fn render(self, body: &Value, answer: &ScriptedReply) -> (&'static str, String) {
        let events = match self {
            Self::Messages => messages_events(body, answer),
            Self::Chat => chat_events(answer),
            Self::Responses => responses_events(answer),
            Self::Gemini => vec![gemini_answer(answer)],
        };
        let wants_stream = self == Self::Gemini || body["stream"] == true;
        assert!(wants_stream, "a host asked for an answer in one piece: {self:?}");
        let frame = |event: Value| match event["type"].as_str() {
            Some(name) => format!("event: {name}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        };
        let mut text = events.into_iter().map(frame).collect::<Vec<_>>().concat();
        if self == Self::Chat {
            text += "data: [DONE]\n\n";
        }
        ("text/event-stream", text)
    }
}

fn messages_events(body: &Value, answer: &ScriptedReply) -> Vec<Value> {
    let (block, delta, reason) = match answer {
        ScriptedReply::Say(text) => (
            json!({ "type": "text", "text": "" }),
            json!({ "type": "text_delta", "text": text }),
            "end_turn",
        ),
        ScriptedReply::Call { tool, arguments } => (
            json!({ "type": "tool_use", "id": call_id("toolu"), "name": tool.name, "input": {} }),
            json!({ "type": "input_json_delta", "partial_json": arguments.to_string() }),
            "tool_use",
        ),
    };
    let usage = json!({ "input_tokens": 1, "output_tokens": 1 });
    let message = json!({
        "id": call_id("msg"), "type": "message", "role": "assistant", "model": body["model"],
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let stopped = json!({ "stop_reason": reason, "stop_sequence": null });
    vec![
        json!({ "type": "message_start", "message": message }),
        json!({ "type": "content_block_start", "index": 0, "content_block": block }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_delta", "delta": stopped, "usage": { "output_tokens": 1 } }),
        json!({ "type": "message_stop" }),
    ]
}

fn chat_events(answer: &ScriptedReply) -> Vec<Value> {
    let (delta, reason) = match answer {
        ScriptedReply::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        ScriptedReply::Call { tool, arguments } => {
            let function = json!({ "name": tool.name, "arguments": arguments.to_string() });
            let call = json!({
                "index": 0, "id": call_id("call"), "type": "function", "function": function,
            });
            let delta = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
            (delta, "tool_calls")
        }
    };
    let chunk = |delta: &Value, reason: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        json!({
            "id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [choice],
        })
    };
    vec![chunk(&delta, Value::Null), chunk(&json!({}), reason.into())]
}

fn responses_events(answer: &ScriptedReply) -> Vec<Value> {
    let item = match answer {
        ScriptedReply::Say(text) => {
            let part = json!({ "type": "output_text", "text": text, "annotations": [] });
            json!({
                "type": "message", "id": call_id("msg"), "role": "assistant",
                "status": "completed", "content": [part],
            })
        }
        ScriptedReply::Call { tool, arguments } => {
            let mut item = json!({
                "type": "function_call", "id": call_id("fc"), "call_id": call_id("call"),
                "name": tool.name, "arguments": arguments.to_string(), "status": "completed",
            });
            if let Some(namespace) = &tool.namespace {
                item["namespace"] = json!(namespace);
            }
            item
        }
    };
    let usage = json!({
        "input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
        "input_tokens_details": { "cached_tokens": 0 },
        "output_tokens_details": { "reasoning_tokens": 0 },
    });
    let id = call_id("resp");
    let begun = json!({ "id": id, "object": "response", "status": "in_progress", "output": [] });
    let ended = json!({
        "id": id, "object": "response", "status": "completed", "output": [item], "usage": usage,
    });
    vec![
        json!({ "type": "response.created", "response": begun }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": ended }),
    ]
}

fn gemini_answer(answer: &ScriptedReply) -> Value {
    let part = match answer {
        ScriptedReply::Say(text) => json!({ "text": text }),
        ScriptedReply::Call { tool, arguments } => {
            json!({ "functionCall": { "name": tool.name, "args": arguments } })
        }
    };
    let content = json!({ "role": "model", "parts": [part] });
    json!({
        "candidates": [{ "content": content, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
    })
}

/// Returns an id that no other call has.
fn call_id(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{prefix}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns every text in a value, in order, but for marks that hosts move from request to request.
pub(super) fn leaves(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(all) => all.iter().flat_map(leaves).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !["cache_control", "type", "status"].contains(&name.as_str()))
            .flat_map(|(_, value)| leaves(value))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
