//! A server of chat models that replies as a test specifies, in any of four protocols.
//!
//! The path of a request selects the protocol. The server records all requests.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::http::{self, TestServer};

/// A reply of a chat model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelReply {
    /// A text.
    Text(String),
    /// Tool calls: names and arguments.
    Calls(Vec<(String, Value)>),
    /// One tool call with arguments that are not JSON, in protocols that send them as text.
    Garbage(String),
    /// A text that was truncated at the token limit.
    Cut(String),
    /// This status, with a header and a message.
    Status(u16, Option<(&'static str, &'static str)>, &'static str),
    /// An HTML page.
    Page,
    /// JSON of another form.
    Other,
    /// The beginning of a reply, after which the connection ends.
    Half,
    /// No response, as long as the client keeps the connection open.
    Nothing,
}

impl ModelReply {
    /// Returns a text reply.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// Returns a reply that calls one tool.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::Calls(vec![(name.to_owned(), arguments)])
    }
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The request line and the headers.
    pub head: String,
    /// The JSON body.
    pub body: Value,
}

impl ModelRequest {
    /// Returns the body as JSON text, for searching.
    pub fn text(&self) -> String {
        self.body.to_string()
    }
}

/// A server of chat models.
#[derive(Debug)]
pub struct ModelServer(TestServer<ModelRequest>);

impl ModelServer {
    /// Starts a server that sends the reply that the script returns for each request. Requests are counted from 0.
    pub fn start(
        script: impl Fn(usize, &ModelRequest) -> ModelReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let replies = Replies::default();
        let answer = move |number, request: &ModelRequest, stream: &mut TcpStream| {
            replies.answer(&script(number, request), &request.head, stream)
        };
        TestServer::start(|head, body| ModelRequest { head, body }, answer).map(Self)
    }

    /// Starts a server that sends these replies in order, and repeats the last one.
    pub fn scripted(script: Vec<ModelReply>) -> io::Result<Self> {
        Self::start(move |number, _| {
            script.get(number).or_else(|| script.last()).cloned().unwrap_or(ModelReply::Other)
        })
    }

    /// Returns its socket address.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Returns its base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address())
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests()
    }

    /// Waits until this many requests were received; blocks the thread.
    pub fn wait_for_requests(&self, count: usize) {
        self.0.wait_for_requests(count);
    }

    /// Waits until this many connections were closed without a response; blocks the thread.
    pub fn wait_for_disconnects(&self, count: usize) {
        self.0.wait_for_disconnects(count);
    }
}

/// Encodes replies. Ids of tool calls are counted.
#[derive(Default)]
struct Replies {
    calls: AtomicUsize,
}

impl Replies {
    /// Answers a request with this head; returns `false` if there is no response.
    fn answer(&self, reply: &ModelReply, head: &str, stream: &mut TcpStream) -> io::Result<bool> {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let encode = |reply: &ModelReply| self.encode(path, reply).to_string();
        match reply {
            ModelReply::Status(status, header, message) => {
                let body = json!({ "error": { "message": message } }).to_string();
                http::answer(stream, *status, header.as_slice(), body.as_bytes())?;
            }
            ModelReply::Page => {
                let page = "<html>it works</html>";
                write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\n\r\n{page}",
                    page.len()
                )?;
            }
            ModelReply::Other => http::answer(stream, 200, &[], b"{\"it\": [\"works\"]}")?,
            ModelReply::Half => http::answer_half(stream, &encode(&ModelReply::text("half")))?,
            ModelReply::Nothing => return Ok(false),
            ModelReply::Text(_)
            | ModelReply::Calls(_)
            | ModelReply::Garbage(_)
            | ModelReply::Cut(_) => {
                http::answer(stream, 200, &[], encode(reply).as_bytes())?;
            }
        }
        Ok(true)
    }

    /// Encodes a reply in the protocol of this path.
    fn encode(&self, path: &str, reply: &ModelReply) -> Value {
        let text = match reply {
            ModelReply::Text(text) | ModelReply::Cut(text) => Some(text.as_str()),
            _ => None,
        };
        let calls = match reply {
            ModelReply::Calls(calls) => calls.clone(),
            ModelReply::Garbage(name) => vec![(name.clone(), Value::Null)],
            _ => Vec::new(),
        };
        let content = ReplyContent {
            text,
            calls: calls
                .into_iter()
                .map(|(name, arguments)| (self.id(), name, arguments))
                .collect(),
            is_cut: matches!(reply, ModelReply::Cut(_)),
            is_garbage: matches!(reply, ModelReply::Garbage(_)),
        };
        match path {
            path if path.ends_with("/chat/completions") => content.as_completion(),
            path if path.ends_with("/responses") => content.as_response(),
            path if path.ends_with("/messages") => content.as_message(),
            _ => content.as_content(),
        }
    }

    fn id(&self) -> String {
        format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed))
    }
}

/// The content of a reply, independent of the protocol.
struct ReplyContent<'a> {
    text: Option<&'a str>,
    /// Ids, names and arguments.
    calls: Vec<(String, String, Value)>,
    is_cut: bool,
    is_garbage: bool,
}

impl ReplyContent<'_> {
    fn arguments(&self, arguments: &Value) -> String {
        if self.is_garbage { "{\"path\": ".to_owned() } else { arguments.to_string() }
    }

    fn as_completion(&self) -> Value {
        let call = |(id, name, arguments): &(String, String, Value)| {
            json!({ "id": id, "type": "function",
                "function": { "name": name, "arguments": self.arguments(arguments) } })
        };
        let calls: Vec<Value> = self.calls.iter().map(call).collect();
        let reason = match () {
            () if self.is_cut => "length",
            () if calls.is_empty() => "stop",
            () => "tool_calls",
        };
        let mut message = json!({ "role": "assistant", "content": self.text });
        if !calls.is_empty() {
            message["tool_calls"] = json!(calls);
        }
        json!({ "id": "r", "object": "chat.completion", "model": "m",
            "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
            "usage": { "prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107,
                "prompt_tokens_details": { "cached_tokens": 40 }, "cost": 0.25 } })
    }

    fn as_response(&self) -> Value {
        let call = |(id, name, arguments): &(String, String, Value)| {
            json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                "arguments": self.arguments(arguments), "status": "completed" })
        };
        let mut output: Vec<Value> = self.calls.iter().map(call).collect();
        output.extend(self.text.map(|text| {
            json!({ "type": "message", "id": "m", "role": "assistant", "status": "completed",
                "content": [{ "type": "output_text", "text": text, "annotations": [] }] })
        }));
        let status = if self.is_cut { "incomplete" } else { "completed" };
        json!({ "id": "r", "object": "response", "model": "m", "status": status, "output": output,
            "usage": { "input_tokens": 100, "input_tokens_details": { "cached_tokens": 40 },
                "output_tokens": 7, "total_tokens": 107 } })
    }

    fn as_message(&self) -> Value {
        let text = self.text.map(|text| json!({ "type": "text", "text": text }));
        let call = |(id, name, arguments): &(String, String, Value)| json!({ "type": "tool_use", "id": id, "name": name, "input": arguments });
        let content: Vec<Value> = text.into_iter().chain(self.calls.iter().map(call)).collect();
        let reason = match () {
            () if self.is_cut => "max_tokens",
            () if self.calls.is_empty() => "end_turn",
            () => "tool_use",
        };
        json!({ "id": "r", "type": "message", "role": "assistant", "model": "m",
            "content": content, "stop_reason": reason,
            "usage": { "input_tokens": 60, "cache_read_input_tokens": 40,
                "cache_creation_input_tokens": 0, "output_tokens": 7 } })
    }

    fn as_content(&self) -> Value {
        let text = self.text.map(|text| json!({ "text": text }));
        let call = |(_, name, arguments): &(String, String, Value)| json!({ "functionCall": { "name": name, "args": arguments } });
        let parts: Vec<Value> = text.into_iter().chain(self.calls.iter().map(call)).collect();
        let reason = if self.is_cut { "MAX_TOKENS" } else { "STOP" };
        json!({ "candidates": [{ "content": { "role": "model", "parts": parts },
                "finishReason": reason, "index": 0 }],
            "usageMetadata": { "promptTokenCount": 100, "cachedContentTokenCount": 40,
                "candidatesTokenCount": 7, "totalTokenCount": 107 },
            "modelVersion": "m" })
    }
}
