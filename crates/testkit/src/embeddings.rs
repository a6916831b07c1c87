//! A server of vectors on this machine, which answers as a test wants it to.
//!
//! It has threads of its own, so that tests of a process and tests within a runtime use it alike, and notes
//! whatever it was sent.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::fmt;
use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::http;
use crate::wait::LIMIT;

/// What a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
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
pub struct Sent {
    /// The request line and the headers.
    pub head: String,
    /// The model that was asked for.
    pub model: String,
    /// The texts.
    pub texts: Vec<String>,
}

/// A server of vectors.
#[derive(Debug)]
pub struct Embeddings {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Option<JoinHandle<()>>,
}

type Meaning = dyn Fn(&str) -> Vec<f32> + Send + Sync;

struct Shared {
    meaning: Box<Meaning>,
    now: Mutex<Now>,
    changed: Condvar,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("now", &self.now).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Now {
    answers: Answers,
    sent: Vec<Sent>,
    /// Connections that were closed before anything was answered.
    left: usize,
    ends: bool,
}

impl Embeddings {
    /// Starts a server that answers with what `meaning` makes of each text.
    pub fn start(meaning: impl Fn(&str) -> Vec<f32> + Send + Sync + 'static) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let now = Now { answers: Answers::Vectors, sent: Vec::new(), left: 0, ends: false };
        let shared = Arc::new(Shared {
            meaning: Box::new(meaning),
            now: Mutex::new(now),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let listening = std::thread::spawn(move || listen(&listener, &of_thread));
        Ok(Self { address, shared, listening: Some(listening) })
    }

    /// Returns where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL that it is asked at.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Says how it answers from now on.
    pub fn answer(&self, answers: Answers) {
        self.shared.lock().answers = answers;
    }

    /// Returns all that it was sent.
    pub fn sent(&self) -> Vec<Sent> {
        self.shared.lock().sent.clone()
    }

    /// Returns all texts that it was sent, in their order.
    pub fn texts(&self) -> Vec<String> {
        self.sent().into_iter().flat_map(|sent| sent.texts).collect()
    }

    /// Waits until it was sent this many requests; holds the thread up.
    pub fn wait_for_requests(&self, count: usize) {
        self.shared.wait(|now| now.sent.len() >= count);
    }

    /// Waits until this many connections were closed that nothing was answered on; holds the thread up.
    pub fn wait_for_leaving(&self, count: usize) {
        self.shared.wait(|now| now.left >= count);
    }
}

impl Drop for Embeddings {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        drop(TcpStream::connect(self.address));
        self.listening.take().map(JoinHandle::join);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock()
    }

    fn wait(&self, until: impl Fn(&Now) -> bool) {
        let mut now = self.lock();
        let waited = self.changed.wait_while_for(&mut now, |now| !until(now), LIMIT);
        assert!(!waited.timed_out(), "the server was not asked so often, or not left");
    }

    fn answer_one(&self, mut stream: TcpStream) -> io::Result<()> {
        let sent = read(&mut BufReader::new(&stream))?;
        let answers = {
            let mut now = self.lock();
            now.sent.push(sent.clone());
            self.changed.notify_all();
            now.answers
        };
        let status = match answers {
            Answers::StatusForTilde(status) if sent.texts.iter().any(|text| text.contains('~')) => {
                Some(status)
            }
            Answers::Status(status) => Some(status),
            _ => None,
        };
        if let Some(status) = status {
            return http::answer(
                &mut stream,
                status,
                &[],
                json!(sent.texts).to_string().as_bytes(),
            );
        }
        let vectors = self.vectors(&sent.texts, answers == Answers::Longer).to_string();
        match answers {
            Answers::Page => http::answer(&mut stream, 200, &[], b"<html>it works</html>"),
            Answers::Half => {
                let half = vectors.get(..vectors.len() / 2).unwrap_or_default();
                write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{half}", vectors.len())
            }
            Answers::Flood => http::flood(&mut stream),
            Answers::Nothing => {
                // Nothing more is sent: this ends when the other side does.
                drop(stream.read(&mut [0]));
                self.lock().left += 1;
                self.changed.notify_all();
                Ok(())
            }
            Answers::Vectors
            | Answers::Longer
            | Answers::Status(_)
            | Answers::StatusForTilde(_) => http::answer(&mut stream, 200, &[], vectors.as_bytes()),
        }
    }

    fn vectors(&self, texts: &[String], are_longer: bool) -> Value {
        let vector = |(index, text): (usize, &String)| {
            let mut embedding = (self.meaning)(text);
            embedding.extend(are_longer.then_some(1.0));
            json!({ "object": "embedding", "index": index, "embedding": embedding })
        };
        // In no order: the numbers tell.
        let data: Vec<Value> = texts.iter().enumerate().rev().map(vector).collect();
        json!({ "object": "list", "data": data, "usage": { "prompt_tokens": 1 } })
    }
}

fn listen(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.lock().ends {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // Whoever asked may have gone before the answer: that is nobody's fault.
        std::thread::spawn(move || drop(shared.answer_one(stream)));
    }
}

fn read(stream: &mut BufReader<&TcpStream>) -> io::Result<Sent> {
    let (head, body) = http::read(stream)?;
    let texts = body["input"].as_array().into_iter().flatten();
    Ok(Sent {
        head,
        model: body["model"].as_str().unwrap_or_default().to_owned(),
        texts: texts.filter_map(|text| Some(text.as_str()?.to_owned())).collect(),
    })
}
