//! A minimal HTTP server for tests.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::wait::LIMIT;

/// A server on this machine that records its requests.
///
/// It has its own threads, so that tests of processes and tests within a runtime can both use it.
pub(crate) struct TestServer<R> {
    address: SocketAddr,
    log: Arc<Log<R>>,
    listening: Option<JoinHandle<()>>,
}

/// The recorded requests of a server.
struct Log<R> {
    entries: Mutex<Entries<R>>,
    changed: Condvar,
}

struct Entries<R> {
    requests: Vec<R>,
    /// Connections that the client closed before a response.
    disconnects: usize,
    is_closing: bool,
}

impl<R> fmt::Debug for TestServer<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl<R: Clone + Send + 'static> TestServer<R> {
    /// Starts a server that converts each request by `read` from its head and JSON body, and answers it. Requests are
    /// counted from 0. If `answer` returns `false`, the connection is kept open without a response until the client
    /// closes it.
    pub(crate) fn start(
        read: fn(String, Value) -> R,
        answer: impl Fn(usize, &R, &mut TcpStream) -> io::Result<bool> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let entries =
            Mutex::new(Entries { requests: Vec::new(), disconnects: 0, is_closing: false });
        let log = Arc::new(Log { entries, changed: Condvar::new() });
        let (answer, thread_log) = (Arc::new(answer), Arc::clone(&log));
        let listening = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if thread_log.entries.lock().is_closing {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let (log, answer) = (Arc::clone(&thread_log), Arc::clone(&answer));
                // The client may have disconnected before the response, which is not an error.
                std::thread::spawn(move || drop(log.serve(stream, read, &*answer)));
            }
        });
        Ok(Self { address, log, listening: Some(listening) })
    }

    /// Returns its socket address.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<R> {
        self.log.entries.lock().requests.clone()
    }

    /// Waits until this many requests were received; blocks the thread.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.wait(|entries| entries.requests.len() >= count);
    }

    /// Waits until this many connections were closed without a response; blocks the thread.
    pub(crate) fn wait_for_disconnects(&self, count: usize) {
        self.wait(|entries| entries.disconnects >= count);
    }

    fn wait(&self, until: impl Fn(&Entries<R>) -> bool) {
        let mut entries = self.log.entries.lock();
        let waited = self.log.changed.wait_while_for(&mut entries, |now| !until(now), LIMIT);
        assert!(!waited.timed_out(), "timeout while waiting for requests or disconnects");
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
            // No response: blocks until the client closes the connection.
            drop(stream.read(&mut [0]));
            self.entries.lock().disconnects += 1;
            self.changed.notify_all();
        }
        Ok(())
    }
}

/// Reads the head of a request and its JSON body, `null` if there is none.
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
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body)? };
    Ok((head, body))
}

/// Sends a response with a JSON content type, and ends the connection.
pub(crate) fn answer(
    stream: &mut TcpStream,
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n")?;
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "content-length: {}\r\nconnection: close\r\n\r\n", body.len())?;
    stream.write_all(body)
}

/// Sends the first half of a response, and ends the connection.
pub(crate) fn answer_half(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
    write!(stream, "{head} {}\r\n\r\n", body.len())?;
    stream.write_all(&body.as_bytes()[..body.len() / 2])
}

/// Sends an endless response until the client disconnects.
pub(crate) fn flood(stream: &mut TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
    let chunk = [b' '; 8_192];
    loop {
        write!(stream, "{:x}\r\n", chunk.len())?;
        stream.write_all(&chunk)?;
        stream.write_all(b"\r\n")?;
    }
}
