//! A stream with its own numbers, and whoever subscribed to it.
//!
//! A bus is a window on a ring: its events are those that come after it was opened, counted from 1. So
//! a thousand sessions of one workspace, each with its own stream, share what is kept.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory::clock::Clock;
use memory::limits::{
    EVENT_BYTES_REPLAYED_MAX, EVENT_BYTES_WAITING_MAX, EVENTS_KEPT_MAX, EVENTS_WAITING_MAX,
    SESSION_STREAMS_MAX, WORKSPACE_STREAMS_MAX,
};
use tokio::sync::watch;
use uuid::Uuid;

use super::ring::Ring;
use super::subscription::Subscription;

/// The numbering that ids of events belong to: one start of a daemon. Numbers begin anew with the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch(String);

impl Epoch {
    /// Returns a numbering that nobody has seen before.
    #[expect(clippy::new_without_default, reason = "each one is another, which no default is")]
    pub fn new() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What a reader has seen last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// The id of the event; 0 is before the first.
    pub last_seen: u64,
    /// The numbering that it says it means; `None` believes the current one.
    pub epoch: Option<String>,
}

/// How much streams hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Events that can be replayed.
    pub kept_max: usize,
    /// Events that may wait for one reader.
    pub waiting_max: usize,
    /// Bytes of events that may wait for one reader; a single event may be larger.
    pub waiting_bytes_max: u64,
    /// Bytes of events that are replayed to one reader; a single event may be larger.
    pub replayed_bytes_max: u64,
    /// Streams of one session.
    pub session_streams_max: usize,
    /// Streams of all that goes on in one workspace.
    pub workspace_streams_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            kept_max: EVENTS_KEPT_MAX,
            waiting_max: EVENTS_WAITING_MAX,
            waiting_bytes_max: EVENT_BYTES_WAITING_MAX,
            replayed_bytes_max: EVENT_BYTES_REPLAYED_MAX,
            session_streams_max: SESSION_STREAMS_MAX,
            workspace_streams_max: WORKSPACE_STREAMS_MAX,
        }
    }
}

/// Why nobody can subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubscribeError {
    /// As many listen as may.
    #[error("the stream has as many readers as it may")]
    Full,
    /// Nothing will be told here any more.
    #[error("the stream has ended")]
    Closed,
}

/// What all streams of a daemon have in common.
#[derive(Clone, Debug)]
pub(super) struct StreamContext {
    pub(super) epoch: Epoch,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) bounds: Bounds,
}

/// A stream of events with its own numbers.
#[derive(Debug)]
pub struct EventBus {
    context: StreamContext,
    ring: Arc<Ring>,
    /// The number that the ring had when this was opened.
    base: u64,
    readers_max: usize,
    readers: AtomicUsize,
    /// The last event that is told, once it is known.
    end: watch::Sender<Option<u64>>,
}

impl EventBus {
    /// Opens a window on what a ring holds after `base`.
    pub(super) fn new(
        common: StreamContext,
        ring: Arc<Ring>,
        base: u64,
        readers_max: usize,
    ) -> Arc<Self> {
        let (readers, end) = (AtomicUsize::new(0), watch::Sender::new(None));
        Arc::new(Self { context: common, ring, base, readers_max, readers, end })
    }

    /// Subscribes: without a cursor to what happens from now on, with one to what came after it, too.
    pub fn subscribe(
        self: &Arc<Self>,
        cursor: Option<&EventCursor>,
    ) -> Result<Subscription, SubscribeError> {
        let sit_down = |readers| (readers < self.readers_max).then_some(readers + 1);
        self.readers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, sit_down)
            .map_err(|_| SubscribeError::Full)?;
        let subscription = Subscription::new(Arc::clone(self), cursor);
        if self.end.borrow().is_some() { Err(SubscribeError::Closed) } else { Ok(subscription) }
    }

    /// Ends the stream: whoever listens is told what has happened so far, and no more.
    pub fn close(&self) {
        let last = self.ring.with_state(|shelf| shelf.last());
        self.end.send_modify(|end| *end = end.or(Some(last)));
    }

    /// Returns how many listen.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Returns the numbering that the ids belong to.
    pub fn epoch(&self) -> &Epoch {
        &self.context.epoch
    }

    pub(super) fn context(&self) -> &StreamContext {
        &self.context
    }

    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    pub(super) fn subscribe_to_end(&self) -> watch::Receiver<Option<u64>> {
        self.end.subscribe()
    }

    /// Notes that one reader is gone.
    pub(super) fn unsubscribe(&self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
