//! A server of models on this machine, which says what a test wants it to, in the words of any of four wires.
//!
//! It knows the wire by the path that it is asked at, and notes whatever it was sent.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::http::{self, TestServer};

/// What a model says when it is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelReply {
    /// A text.
    Text(String),
    /// That tools be called: names and arguments.
    Calls(Vec<(String, Value)>),
    /// That one tool be called with arguments that are no JSON, where the wire has them as text.
    Garbage(String),
    /// A text that is cut because it was too long.
    Cut(String),
    /// This status, with a header and a message.
    Status(u16, Option<(&'static str, &'static str)>, &'static str),
    /// A page.
    Page,
    /// JSON of another form.
    Other,
    /// The beginning of a reply, and then the connection ends.
    Half,
    /// Nothing, as long as the connection is held.
    Nothing,
}

impl ModelReply {
    /// A text.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// That one tool be called.
    pub fn call(name: &str, arguments: Value) -> Self {
        Self::Calls(vec![(name.to_owned(), arguments)])
    }
}

/// What a server was sent.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: Value,
}

impl ModelRequest {
    /// Returns the body as text: whatever is looked for stands somewhere in it, escaped as JSON has it.
    pub fn text(&self) -> String {
        self.body.to_string()
    }
}

/// A server of models.
#[derive(Debug)]
pub struct ModelServer(TestServer<ModelRequest>);

impl ModelServer {
    /// Starts a server that says what the script returns for each request, which are counted from 0.
    pub fn start(
        script: impl Fn(usize, &ModelRequest) -> ModelReply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let replies = Replies::default();
        let answer = move |number, asked: &ModelRequest, stream: &mut TcpStream| {
            replies.answer(&script(number, asked), &asked.head, stream)
        };
        TestServer::start(|head, body| ModelRequest { head, body }, answer).map(Self)
    }

    /// Starts a server that says these things one after the other, and the last one from then on.
    pub fn scripted(script: Vec<ModelReply>) -> io::Result<Self> {
        Self::start(move |number, _| {
            script.get(number).or_else(|| script.last()).cloned().unwrap_or(ModelReply::Other)
        })
    }

    /// Returns where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.0.address()
    }

    /// Returns the URL that it is asked at.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address())
    }

    /// Returns all that it was asked.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.0.requests()
    }

    /// Waits until it was asked so often; holds the thread up.
    pub fn wait_for_requests(&self, count: usize) {
        self.0.wait_for_requests(count);
    }

    /// Waits until so many connections were closed that nothing was said on; holds the thread up.
    pub fn wait_for_disconnects(&self, count: usize) {
        self.0.wait_for_disconnects(count);
    }
}

/// Makes replies. Calls of tools have ids, which are counted.
#[derive(Default)]
struct Replies {
    calls: AtomicUsize,
}

impl Replies {
    /// Answers a request with this head; returns `false` if nothing is to be said.
    fn answer(&self, says: &ModelReply, head: &str, stream: &mut TcpStream) -> io::Result<bool> {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let reply = |says: &ModelReply| self.reply(path, says).to_string();
        match says {
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
            ModelReply::Half => http::answer_half(stream, &reply(&ModelReply::text("half")))?,
            ModelReply::Nothing => return Ok(false),
            ModelReply::Text(_)
            | ModelReply::Calls(_)
            | ModelReply::Garbage(_)
            | ModelReply::Cut(_) => {
                http::answer(stream, 200, &[], reply(says).as_bytes())?;
            }
        }
        Ok(true)
    }

    /// Returns a reply in the words of the wire that has this path.
    fn reply(&self, path: &str, says: &ModelReply) -> Value {
        let text = match says {
            ModelReply::Text(text) | ModelReply::Cut(text) => Some(text.as_str()),
            _ => None,
        };
        let calls = match says {
            ModelReply::Calls(calls) => calls.clone(),
            ModelReply::Garbage(name) => vec![(name.clone(), Value::Null)],
            _ => Vec::new(),
        };
        let said = ReplyContent {
            text,
            calls: calls
                .into_iter()
                .map(|(name, arguments)| (self.id(), name, arguments))
                .collect(),
            is_cut: matches!(says, ModelReply::Cut(_)),
            is_garbage: matches!(says, ModelReply::Garbage(_)),
        };
        match path {
            path if path.ends_with("/chat/completions") => said.as_completion(),
            path if path.ends_with("/responses") => said.as_response(),
            path if path.ends_with("/messages") => said.as_message(),
            _ => said.as_content(),
        }
    }

    fn id(&self) -> String {
        format!("call_{}", self.calls.fetch_add(1, Ordering::Relaxed))
    }
}

/// A reply, before it is put in the words of a wire.
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
