//! A server of embeddings that answers as a test specifies, and records its requests.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{self, TestServer};

/// A reply of an embedding server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingReply {
    /// A vector for each text.
    Vectors,
    /// Vectors with one dimension more than before.
    Longer,
    /// This status, with the requested texts as the body.
    Status(u16),
    /// This status if a text contains `~`, otherwise vectors.
    StatusForTilde(u16),
    /// An HTML page.
    Page,
    /// An endless response.
    Flood,
    /// The beginning of a response, after which the connection ends.
    Half,
    /// No response, as long as the client keeps the connection open.
    Nothing,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct EmbeddingRequest {
    /// The request line and the headers.
    pub head: String,
    /// The requested model.
    pub model: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// A server of embeddings.
#[derive(Debug)]
pub struct EmbeddingServer {
    server: TestServer<EmbeddingRequest>,
    reply: Arc<Mutex<EmbeddingReply>>,
}

impl EmbeddingServer {
    /// Starts a server whose vectors `meaning` computes from the texts.
    pub fn start(meaning: impl Fn(&str) -> Vec<f32> + Send + Sync + 'static) -> io::Result<Self> {
        let reply = Arc::new(Mutex::new(EmbeddingReply::Vectors));
        let server_reply = Arc::clone(&reply);
        let answer = move |_, request: &EmbeddingRequest, stream: &mut TcpStream| {
            let reply = *server_reply.lock();
            answer(reply, request, &meaning, stream)
        };
        Ok(Self { server: TestServer::start(read, answer)?, reply })
    }

    /// Returns its socket address.
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns its base URL.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address())
    }

    /// Sets the reply to all later requests.
    pub fn set_reply(&self, reply: EmbeddingReply) {
        *self.reply.lock() = reply;
    }

    /// Returns all requests so far.
    pub fn requests(&self) -> Vec<EmbeddingRequest> {
        self.server.requests()
    }

    /// Returns all requested texts, in order.
    pub fn texts(&self) -> Vec<String> {
        self.requests().into_iter().flat_map(|request| request.texts).collect()
    }

    /// Waits until this many requests were received; blocks the thread.
    pub fn wait_for_requests(&self, count: usize) {
        self.server.wait_for_requests(count);
    }

    /// Waits until this many connections were closed without a response; blocks the thread.
    pub fn wait_for_disconnects(&self, count: usize) {
        self.server.wait_for_disconnects(count);
    }
}

/// Answers a request; returns `false` if there is no response.
fn answer(
    reply: EmbeddingReply,
    request: &EmbeddingRequest,
    meaning: impl Fn(&str) -> Vec<f32>,
    stream: &mut TcpStream,
) -> io::Result<bool> {
    let vectors = || vectors(&request.texts, reply == EmbeddingReply::Longer, &meaning).to_string();
    let has_tilde = || request.texts.iter().any(|text| text.contains('~'));
    match reply {
        EmbeddingReply::Page => http::answer(stream, 200, &[], b"<html>it works</html>")?,
        EmbeddingReply::Half => http::answer_half(stream, &vectors())?,
        EmbeddingReply::Flood => http::flood(stream)?,
        EmbeddingReply::Nothing => return Ok(false),
        EmbeddingReply::StatusForTilde(_) if !has_tilde() => {
            http::answer(stream, 200, &[], vectors().as_bytes())?;
        }
        EmbeddingReply::Status(status) | EmbeddingReply::StatusForTilde(status) => {
            http::answer(stream, status, &[], json!(request.texts).to_string().as_bytes())?;
        }
        EmbeddingReply::Vectors | EmbeddingReply::Longer => {
            http::answer(stream, 200, &[], vectors().as_bytes())?;
        }
    }
    Ok(true)
}

fn vectors(texts: &[String], are_longer: bool, meaning: impl Fn(&str) -> Vec<f32>) -> Value {
    let vector = |(index, text): (usize, &String)| {
        let mut embedding = meaning(text);
        embedding.extend(are_longer.then_some(1.0));
        json!({ "object": "embedding", "index": index, "embedding": embedding })
    };
    // In reverse order, so that clients must use the indexes.
    let data: Vec<Value> = texts.iter().enumerate().rev().map(vector).collect();
    json!({ "object": "list", "data": data, "usage": { "prompt_tokens": 1 } })
}

fn read(head: String, mut body: Value) -> EmbeddingRequest {
    let texts = body["input"].take();
    let texts = texts.as_array().into_iter().flatten();
    EmbeddingRequest {
        head,
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        texts: texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect(),
    }
}
