//! As much of HTTP as a server in a test speaks, and such a server.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::wait::LIMIT;

/// A server on this machine, which notes whatever it was sent.
///
/// It has threads of its own, so that tests of a process and tests within a runtime use it alike.
pub(crate) struct TestServer<R> {
    address: SocketAddr,
    log: Arc<Log<R>>,
    listening: Option<JoinHandle<()>>,
}

/// What a server was sent so far.
struct Log<R> {
    entries: Mutex<Entries<R>>,
    changed: Condvar,
}

struct Entries<R> {
    requests: Vec<R>,
    /// Connections that were closed before anything was answered.
    disconnects: usize,
    is_closing: bool,
}

impl<R> fmt::Debug for TestServer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<R: Clone + Send + 'static> TestServer<R> {
    /// Starts a server that makes requests of heads and JSON by `read`, and answers each, counted from 0. A request is
    /// left without an answer, as long as its connection is held, where `answer` returns `false`.
    pub(crate) fn start(
        read: fn(String, Value) -> R,
        answer: impl Fn(usize, &R, &mut TcpStream) -> io::Result<bool> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let entries =
            Mutex::new(Entries { requests: Vec::new(), disconnects: 0, is_closing: false });
        let log = Arc::new(Log { entries, changed: Condvar::new() });
        let (answer, of_thread) = (Arc::new(answer), Arc::clone(&log));
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if of_thread.entries.lock().is_closing {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (log, answer) = (Arc::clone(&of_thread), Arc::clone(&answer));
                // The client may have gone before the answer: that is no fault.
                std::thread::spawn(move || drop(log.serve(stream, read, &*answer)));
            }
        });
        Ok(Self { address, log, listening: Some(listening) })
    }

    /// Returns where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all that it was sent.
    pub(crate) fn requests(&self) -> Vec<R> {
        self.log.entries.lock().requests.clone()
    }

    /// Waits until it was sent this many requests; holds the thread up.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.wait(|entries| entries.requests.len() >= count);
    }

    /// Waits until this many connections were closed that nothing was answered on; holds the thread up.
    pub(crate) fn wait_for_disconnects(&self, count: usize) {
        self.wait(|entries| entries.disconnects >= count);
    }

    fn wait(&self, until: impl Fn(&Entries<R>) -> bool) {
        let mut entries = self.log.entries.lock();
        let waited = self.log.changed.wait_while_for(&mut entries, |now| !until(now), LIMIT);
        assert!(!waited.timed_out(), "the server was not asked so often, or not left");
    }
}

impl<R> Drop for TestServer<R> {
    fn drop(&mut self) {
        self.log.entries.lock().is_closing = true;
        drop(TcpStream::connect(self.address));
        self.listening.take().map(JoinHandle::join);
    }
}

impl<R: Clone> Log<R> {
    fn serve(
        &self,
        mut stream: TcpStream,
        read: fn(String, Value) -> R,
        answer: &impl Fn(usize, &R, &mut TcpStream) -> io::Result<bool>,
    ) -> io::Result<()> {
        let (head, body) = read_request(&mut BufReader::new(&stream))?;
        let request = read(head, body);
        let number = {
            let mut entries = self.entries.lock();
            entries.requests.push(request.clone());
            entries.requests.len() - 1
        };
        self.changed.notify_all();
        if !answer(number, &request, &mut stream)? {
            // Nothing more is sent: this ends when the other side does.
            drop(stream.read(&mut [0]));
            self.entries.lock().disconnects += 1;
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// Reads the head of a request and its JSON.
pub(crate) fn read_request(stream: &mut impl BufRead) -> io::Result<(String, Value)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok((head, serde_json::from_slice(&body)?))
}

/// Sends JSON, or what is said to be JSON, and ends the connection.
pub(crate) fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n")?;
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "content-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}

/// Sends the first half of a body and ends the connection.
pub(crate) fn answer_half(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    write!(stream, "{head} {}\r\n\r\n", body.len())?;
    stream.write_all(&body.as_bytes()[..body.len() / 2])
}

/// Sends bytes until the other side goes.
pub(crate) fn flood(stream: &mut TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let chunk = [b' '; 8_192];
    loop {
        write!(stream, "{:x}\r\n", chunk.len())?;
        stream.write_all(&chunk)?;
        stream.write_all(b"\r\n")?;
    }
}
