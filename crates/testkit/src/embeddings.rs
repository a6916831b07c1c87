//! A server of vectors on this machine, which answers as a test wants it to, and notes whatever it was sent.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::http::{self, TestServer};

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbeddingReply {
    /// A vector for each text.
    Vectors,
    /// Vectors that have one number more than before.
    Longer,
    /// This status, and the texts that it was asked for.
    Status(u16),
    /// This status if a text holds `~`, and vectors otherwise.
    StatusForTilde(u16),
    /// A page.
    Page,
    /// More bytes than anybody reads.
    Flood,
    /// The beginning of an answer, and then the connection ends.
    Half,
    /// Nothing, as long as the connection is held.
    Nothing,
}

/// What a server was sent.
#[derive(Clone, Debug)]
pub struct EmbeddingRequest {
    /// The request line and the headers.
    pub head: String,
    /// The model that was asked for.
    pub model: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// A server of vectors.
#[derive(Debug)]
pub struct EmbeddingServer {
    server: TestServer<EmbeddingRequest>,
    reply: Arc<Mutex<EmbeddingReply>>,
}

impl EmbeddingServer {
    /// Starts a server that answers with what `meaning` makes of each text.
    pub fn start(meaning: impl Fn(&str) -> Vec<f32> + Send + Sync + 'static) -> io::Result<Self> {
        let answers = Arc::new(Mutex::new(EmbeddingReply::Vectors));
        let of_server = Arc::clone(&answers);
        let answer = move |_, sent: &EmbeddingRequest, stream: &mut TcpStream| {
            let answers = *of_server.lock();
            answer(answers, sent, &meaning, stream)
        };
        Ok(Self { server: TestServer::start(read, answer)?, reply: answers })
    }

    /// Returns where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Returns the URL that it is asked at.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address())
    }

    /// Says how it answers from now on.
    pub fn set_reply(&self, answers: EmbeddingReply) {
        *self.reply.lock() = answers;
    }

    /// Returns all that it was sent.
    pub fn requests(&self) -> Vec<EmbeddingRequest> {
        self.server.requests()
    }

    /// Returns all texts that it was sent, in their order.
    pub fn texts(&self) -> Vec<String> {
        self.requests().into_iter().flat_map(|sent| sent.texts).collect()
    }

    /// Waits until it was sent this many requests; holds the thread up.
    pub fn wait_for_requests(&self, count: usize) {
        self.server.wait_for_requests(count);
    }

    /// Waits until this many connections were closed that nothing was answered on; holds the thread up.
    pub fn wait_for_disconnects(&self, count: usize) {
        self.server.wait_for_disconnects(count);
    }
}

/// Answers a request; returns `false` if nothing is to be said.
fn answer(
    answers: EmbeddingReply,
    sent: &EmbeddingRequest,
    meaning: impl Fn(&str) -> Vec<f32>,
    stream: &mut TcpStream,
) -> io::Result<bool> {
    let vectors = || vectors(&sent.texts, answers == EmbeddingReply::Longer, &meaning).to_string();
    let has_tilde = || sent.texts.iter().any(|text| text.contains('~'));
    match answers {
        EmbeddingReply::Page => http::answer(stream, 200, &[], b"<html>it works</html>")?,
        EmbeddingReply::Half => http::answer_half(stream, &vectors())?,
        EmbeddingReply::Flood => http::flood(stream)?,
        EmbeddingReply::Nothing => return Ok(false),
        EmbeddingReply::StatusForTilde(_) if !has_tilde() => {
            http::answer(stream, 200, &[], vectors().as_bytes())?;
        }
        EmbeddingReply::Status(status) | EmbeddingReply::StatusForTilde(status) => {
            http::answer(stream, status, &[], json!(sent.texts).to_string().as_bytes())?;
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
    // In no order: the numbers tell.
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
