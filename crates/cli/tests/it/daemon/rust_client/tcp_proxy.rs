//! A proxy between a client and a daemon whose connections a test can cut, and peers that are no daemons.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Forwards connections to a daemon.
pub(super) struct TcpProxy {
    url: String,
    /// The number of next connections that end after the head of their answer.
    cut_after_heads: Arc<AtomicUsize>,
    target: Arc<Mutex<String>>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    accepted: Arc<AtomicUsize>,
}

impl TcpProxy {
    /// Starts a proxy to an address.
    pub(super) fn to(address: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let far_end = Arc::new(Mutex::new(address.to_owned()));
        let open = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::new(AtomicUsize::new(0));
        let (to, held, count) = (Arc::clone(&far_end), Arc::clone(&open), Arc::clone(&taken));
        let heads_alone = Arc::new(AtomicUsize::new(0));
        let heads = Arc::clone(&heads_alone);
        // The thread ends with the test process.
        std::thread::spawn(move || {
            for near in listener.incoming().map(Result::unwrap) {
                count.fetch_add(1, Ordering::Relaxed);
                // The daemon does not listen, so the client's connection is closed.
                let Ok(far) = TcpStream::connect(&*to.lock().unwrap()) else { continue };
                let ends = [&near, &far].map(|end| end.try_clone().unwrap());
                held.lock().unwrap().extend(ends);
                copy_bytes(&near, &far);
                let fewer = |heads: usize| heads.checked_sub(1);
                match heads.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer) {
                    Ok(_) => copy_head(&far, &near),
                    Err(_) => copy_bytes(&far, &near),
                }
            }
        });
        Self { url, cut_after_heads: heads_alone, target: far_end, open, accepted: taken }
    }

    /// Returns the URL for clients.
    pub(super) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns the number of connections so far.
    pub(super) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Forwards new connections to another address.
    pub(super) fn redirect_to(&self, address: &str) {
        address.clone_into(&mut self.target.lock().unwrap());
    }

    /// Cuts each of the next connections after the head of its answer.
    pub(super) fn cut_after_heads(&self, connections: usize) {
        self.cut_after_heads.store(connections, Ordering::Relaxed);
    }

    /// Cuts all open connections.
    pub(super) fn cut(&self) {
        for end in self.open.lock().unwrap().drain(..) {
            // The error of an already closed connection is ignored.
            end.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }
}

/// Copies bytes in one direction until either end closes.
fn copy_bytes(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        std::io::copy(&mut from, &mut to).map(drop).unwrap_or_default();
        to.shutdown(Shutdown::Both).unwrap_or_default();
        from.shutdown(Shutdown::Both).unwrap_or_default();
    });
}

/// Copies the head of one answer, and closes both ends.
fn copy_head(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") && from.read(&mut byte).is_ok_and(|count| count == 1) {
            head.extend(byte);
        }
        to.write_all(&head).unwrap_or_default();
        to.shutdown(Shutdown::Both).unwrap_or_default();
        from.shutdown(Shutdown::Both).unwrap_or_default();
    });
}

/// Returns the address of a peer that answers each connection with this text and closes it.
pub(super) fn serve_text(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut peer in listener.incoming().map(Result::unwrap) {
            // Reads the request first: a connection that is closed with unread bytes is reset.
            let mut request = [0; 4_096];
            peer.read(&mut request).map(drop).unwrap_or_default();
            peer.write_all(answer.as_bytes()).unwrap_or_default();
        }
    });
    url
}
