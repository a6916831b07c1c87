//! A scripted model on loopback, in the four wire formats that agent hosts speak.
//!
//! The script is a list of calls, each of one of our tools. The model makes them one after the other, under the host's
//! name for the tool, and then ends its turn. It keeps every request, so that a test reads what the
//! model would have read.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::wire::{ScriptedReply, Tool, WireFormat};

/// A call of the script, by our own name of the tool.
#[derive(Clone, Debug)]
pub(super) struct ToolCall {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
}

/// A request that belongs to the conversation: it offers tools. Hosts also ask for titles and the like.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) wire: WireFormat,
    pub(super) body: Value,
}

/// The outcome of a scripted call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The tool result in the request that followed.
    Result(String),
    /// The host offered no such tool.
    NoSuchTool,
}

/// The model's side of one run of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct Transcript {
    pub(super) requests: Vec<Request>,
    /// One for each call that was made, in the order of the script.
    pub(super) outcomes: Vec<CallOutcome>,
    /// Whether a tool had to be searched for before it could be called.
    pub(super) searched: bool,
}

/// A model that makes scripted calls.
#[derive(Debug)]
pub(super) struct Model {
    /// `http://127.0.0.1:<port>`
    pub(super) url: String,
    turn: Arc<Mutex<ScriptState>>,
}

#[derive(Debug, Default)]
struct ScriptState {
    calls: VecDeque<ToolCall>,
    /// The call whose result the next request brings.
    pending: bool,
    transcript: Transcript,
    /// The name that was searched for, until it is called.
    searched: Option<String>,
}

impl Model {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let turn = Arc::new(Mutex::new(ScriptState::default()));
        let shared = Arc::clone(&turn);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let turn = Arc::clone(&shared);
                // A host may close the connection when it has its answer.
                std::thread::spawn(move || drop(serve(&connection.unwrap(), &turn)));
            }
        });
        Self { url, turn }
    }

    /// Replaces the script, and drops the recorded requests.
    pub(super) fn script(&self, calls: &[ToolCall]) {
        let calls = calls.iter().cloned().collect();
        *self.turn.lock().unwrap() = ScriptState { calls, ..ScriptState::default() };
    }

    pub(super) fn transcript(&self) -> Transcript {
        self.turn.lock().unwrap().transcript.clone()
    }
}

/// Answers the one request of a connection.
fn serve(connection: &TcpStream, turn: &Mutex<ScriptState>) -> std::io::Result<()> {
    let (path, body) = read(connection)?;
    let (content_type, answer) = match (WireFormat::of_path(&path), serde_json::from_slice(&body)) {
        (Some(wire), Ok(body)) => {
            let answer = turn.lock().unwrap().answer(wire, &body);
            wire.render(&body, &answer)
        }
        // Requests such as model lists and token counts do not belong to the conversation.
        _ => {
            ("application/json", json!({ "data": [], "models": [], "input_tokens": 1 }).to_string())
        }
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let mut connection = connection;
    connection.write_all((head + &answer).as_bytes())
}

impl ScriptState {
    fn answer(&mut self, wire: WireFormat, body: &Value) -> ScriptedReply {
        let tools = wire.tools(body);
        if tools.is_empty() {
            return ScriptedReply::Say("Done.".to_owned());
        }
        self.transcript.requests.push(Request { wire, body: body.clone() });
        if std::mem::take(&mut self.pending) {
            let result = wire.results(body).pop().unwrap_or_default();
            self.transcript.outcomes.push(CallOutcome::Result(result));
        }
        self.answer_next(&tools)
    }

    /// Returns the next call for which the host offers a tool.
    fn answer_next(&mut self, tools: &[Tool]) -> ScriptedReply {
        while let Some(call) = self.calls.front().cloned() {
            if let Some(answer) = self.make(&call, tools) {
                return answer;
            }
            self.calls.pop_front();
            self.transcript.outcomes.push(CallOutcome::NoSuchTool);
        }
        ScriptedReply::Say("Done.".to_owned())
    }

    /// Makes the call, or searches for its tool first where the host keeps tools back.
    fn make(&mut self, call: &ToolCall, tools: &[Tool]) -> Option<ScriptedReply> {
        let direct = tools.iter().find(|tool| tool.is_ours(call.tool));
        if let Some(tool) = direct {
            self.start_call();
            return Some(ScriptedReply::Call {
                tool: tool.clone(),
                arguments: call.arguments.clone(),
            });
        }
        let called = |name: &str| tools.iter().find(|tool| tool.name == name).cloned();
        let full = format!("mcp__lukasa__{}", call.tool);
        if self.searched.take().is_some() {
            let tool = called("tool_call")?;
            let arguments = json!({ "name": full, "arguments": call.arguments });
            self.start_call();
            return Some(ScriptedReply::Call { tool, arguments });
        }
        let tool = called("ToolSearch").or_else(|| called("tool_search"))?;
        self.transcript.searched = true;
        let query = format!("select:{full}");
        self.searched = Some(full);
        Some(ScriptedReply::Call { tool, arguments: json!({ "query": query, "max_results": 5 }) })
    }

    fn start_call(&mut self) {
        self.calls.pop_front();
        self.searched = None;
        self.pending = true;
    }
}

/// Reads a request: its path without a query, and its body.
fn read(connection: &TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut lines = BufReader::new(connection);
    let mut first = String::new();
    lines.read_line(&mut first)?;
    let target = first.split(' ').nth(1).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    let (mut line, mut length, mut is_chunked) = (String::new(), 0, false);
    while lines.read_line(&mut line)? > 2 {
        let header = line.trim().to_lowercase();
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        is_chunked |= header == "transfer-encoding: chunked";
        line.clear();
    }
    let mut body = vec![0; length];
    if is_chunked {
        body = read_chunks(&mut lines)?;
    } else {
        lines.read_exact(&mut body)?;
    }
    Ok((path, body))
}

fn read_chunks(lines: &mut BufReader<&TcpStream>) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; length + 2];
        lines.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(body);
        }
        chunk.truncate(length);
        body.extend(chunk);
    }
}
