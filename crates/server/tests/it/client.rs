//! An MCP test client that writes and reads plain lines of JSON, so that the tests show the bytes on the wire.

use std::collections::VecDeque;
use std::time::Duration;

use lukasa_server::mcp::{self, McpConfig, ServeError};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The time limit for a line of the server.
const PATIENCE: Duration = Duration::from_secs(20);

/// The revisions that begin with a handshake.
pub(crate) const WITH_HANDSHAKE: [&str; 4] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The revision without a handshake.
pub(crate) const NEWEST: &str = "2026-07-28";

/// A client and its server, connected by a pair of pipes.
pub(crate) struct TestClient {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    server: JoinHandle<Result<(), ServeError>>,
    pub(crate) stop: CancellationToken,
    /// Messages received while the client waited for another one.
    unread: VecDeque<Value>,
    last_id: i64,
    /// The `_meta` of each request in the newest revision.
    meta: Option<Value>,
}

impl TestClient {
    /// Starts a server and connects a client that has sent nothing yet.
    pub(crate) fn connect(host: McpConfig) -> Self {
        let (client_end, server_end) = tokio::io::duplex(64 * 1024);
        let (output, input) = tokio::io::split(client_end);
        let (server_input, server_output) = tokio::io::split(server_end);
        let stop = CancellationToken::new();
        let server = tokio::spawn(mcp::serve(host, server_input, server_output, stop.clone()));
        Self {
            input: Some(input),
            output: BufReader::new(output).lines(),
            server,
            stop,
            unread: VecDeque::new(),
            last_id: 0,
            meta: None,
        }
    }

    /// Starts a server and connects a client of this revision, after the handshake if it has one.
    pub(crate) async fn with_revision(host: McpConfig, revision: &str) -> Self {
        let mut client = Self::connect(host);
        client.begin(revision, json!({})).await;
        client
    }

    /// Performs the handshake, if this revision has one.
    pub(crate) async fn begin(&mut self, revision: &str, capabilities: Value) {
        if revision == NEWEST {
            self.meta = Some(json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            }));
        } else {
            self.initialize(revision, capabilities).await;
            self.notify("notifications/initialized", json!({})).await;
        }
    }

    pub(crate) async fn initialize(&mut self, revision: &str, capabilities: Value) -> Value {
        let client = json!({ "name": "test", "version": "1" });
        let params = json!({
            "protocolVersion": revision, "capabilities": capabilities, "clientInfo": client,
        });
        self.request("initialize", params).await
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).await.unwrap();
    }

    /// Sends bytes; returns whether the server read them.
    pub(crate) async fn try_write(&mut self, bytes: &[u8]) -> bool {
        let input = self.input.as_mut().unwrap();
        matches!(timeout(PATIENCE, input.write_all(bytes)).await, Ok(Ok(())))
    }

    /// Makes the next request reuse the id of the last one.
    pub(crate) fn reuse_id(&mut self) {
        self.last_id -= 1;
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Sends a request and returns its id.
    pub(crate) async fn ask(&mut self, method: &str, mut params: Value) -> i64 {
        self.last_id += 1;
        if let Some(meta) = &self.meta {
            let own = params["_meta"].take();
            params["_meta"] = meta.clone();
            let both = params["_meta"].as_object_mut().unwrap();
            both.extend(own.as_object().cloned().unwrap_or_default());
        }
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a request and returns its result, or the whole answer if it is an error.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Waits for the answer to a request.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        let mut answer =
            self.wait_for(|message| message["id"] == id && message["method"].is_null()).await;
        if answer["error"].is_null() { answer["result"].take() } else { answer }
    }

    /// Waits for a notification.
    pub(crate) async fn notification(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method && message["id"].is_null()).await
    }

    /// Waits for a request of the server and returns its id.
    pub(crate) async fn wait_for_request(&mut self, method: &str) -> Value {
        self.wait_for_request_with_id(method).await.0
    }

    /// Waits for a request of the server and returns its id and parameters.
    pub(crate) async fn wait_for_request_with_id(&mut self, method: &str) -> (Value, Value) {
        let is_it = |message: &Value| message["method"] == method && !message["id"].is_null();
        let mut request = self.wait_for(is_it).await;
        (request["id"].take(), request["params"].take())
    }

    pub(crate) async fn respond(&mut self, id: Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    async fn wait_for(&mut self, matches: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unread.iter().position(&matches) {
            return self.unread.remove(index).unwrap();
        }
        loop {
            let message = self.line().await.expect("the server closed its end");
            if matches(&message) {
                return message;
            }
            self.unread.push_back(message);
        }
    }

    /// Reads the next line; `None` at the end.
    pub(crate) async fn line(&mut self) -> Option<Value> {
        let line =
            timeout(PATIENCE, self.output.next_line()).await.expect("no line in time").unwrap();
        line.map(|line| serde_json::from_str(&line).expect("a line of JSON"))
    }

    /// Calls the memory tool.
    pub(crate) async fn call(&mut self, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": "memory", "arguments": arguments })).await
    }

    /// Creates a memory.
    pub(crate) async fn create(&mut self, path: &str, text: &str) {
        let created =
            self.call(json!({ "command": "create", "path": path, "file_text": text })).await;
        assert_eq!(created["isError"], false, "{created}");
    }

    /// Waits for the server to end without reading its output.
    pub(crate) async fn close_unread(self) -> Result<(), ServeError> {
        timeout(PATIENCE, self.server).await.expect("the server ends in time").unwrap()
    }

    /// Closes the input, reads the remaining messages, and returns them with the result of the server.
    pub(crate) async fn close(mut self) -> (Vec<Value>, Result<(), ServeError>) {
        self.input.take().unwrap().shutdown().await.unwrap();
        self.read_remaining().await
    }

    /// Reads the remaining messages, and returns them with the result of the server.
    pub(crate) async fn read_remaining(mut self) -> (Vec<Value>, Result<(), ServeError>) {
        let mut rest: Vec<Value> = self.unread.drain(..).collect();
        while let Some(message) = self.line().await {
            rest.push(message);
        }
        (rest, self.server.await.unwrap())
    }
}
