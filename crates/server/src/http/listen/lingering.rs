//! A stream that is closed in two steps: the write side first, then incoming bytes are read and dropped.
//!
//! A socket that is closed with unread bytes resets its connection. A client that is still sending its body would
//! then see the reset in place of the answer that says why the body is refused. The dropped bytes are bounded in
//! number and time, and are not kept in memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::{HTTP_LINGER_BYTES_MAX, HTTP_LINGER_IDLE_WAIT, HTTP_LINGER_WAIT};

/// The size of a read whose bytes are dropped.
const CHUNK_BYTES: usize = 16 * 1024;

/// A stream that drains incoming bytes at shutdown, if its [`Switch`] is on.
#[derive(Debug)]
pub(super) struct Lingering<S> {
    stream: S,
    switch: Switch,
    drain: Option<Drain>,
}

/// The shared flag that decides whether a stream lingers at shutdown.
#[derive(Clone, Debug, Default)]
pub(super) struct Switch(Arc<AtomicBool>);

/// The state of the second step.
#[derive(Debug)]
struct Drain {
    bytes_left: usize,
    ends: Instant,
    deadline: Pin<Box<Sleep>>,
}

impl Switch {
    pub(super) fn set(&self, is_on: bool) {
        self.0.store(is_on, Ordering::Relaxed);
    }
}

impl Drain {
    fn new() -> Self {
        let now = Instant::now();
        let deadline = Box::pin(sleep_until(now + HTTP_LINGER_IDLE_WAIT));
        Self { bytes_left: HTTP_LINGER_BYTES_MAX, ends: now + HTTP_LINGER_WAIT, deadline }
    }

    /// Reads and drops bytes until the peer closes its side, a bound is reached, or reading fails.
    fn poll(
        &mut self,
        mut stream: Pin<&mut impl AsyncRead>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let mut bytes = [0; CHUNK_BYTES];
        while self.bytes_left > 0 && self.deadline.as_mut().poll(context).is_pending() {
            let mut read = ReadBuf::new(&mut bytes);
            let result = ready!(stream.as_mut().poll_read(context, &mut read));
            if result.is_err() || read.filled().is_empty() {
                return Poll::Ready(());
            }
            self.bytes_left = self.bytes_left.saturating_sub(read.filled().len());
            let next = (Instant::now() + HTTP_LINGER_IDLE_WAIT).min(self.ends);
            self.deadline.as_mut().reset(next);
        }
        Poll::Ready(())
    }
}

impl<S> Lingering<S> {
    /// Returns the stream with its switch, which is off at first.
    pub(super) fn new(stream: S) -> (Self, Switch) {
        let switch = Switch::default();
        (Self { stream, switch: switch.clone(), drain: None }, switch)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Lingering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.drain.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
        }
        if this.switch.0.load(Ordering::Relaxed) {
            let drain = this.drain.get_or_insert_with(Drain::new);
            ready!(drain.poll(Pin::new(&mut this.stream), context));
        }
        Poll::Ready(Ok(()))
    }
}
