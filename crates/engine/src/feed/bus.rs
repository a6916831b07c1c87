//! A stream with numbers of its own, and its subscriptions.
//!
//! A bus is a window on a ring: its events are those published after it was opened, numbered from
//! 1. A thousand sessions of one workspace, each with its own stream, therefore share one ring.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory::clock::Clock;
use memory::limits::{
    EVENT_BYTES_REPLAYED_MAX, EVENT_BYTES_WAITING_MAX, EVENTS_KEPT_MAX, EVENTS_WAITING_MAX,
    SESSION_STREAMS_MAX, WORKSPACE_STREAMS_MAX,
};
use state::StateError;
use tokio::sync::watch;
use uuid::Uuid;

use super::ring::Ring;
use super::subscription::Subscription;

/// The numbering that event ids belong to: one start of a daemon, whose next start counts from 1
/// again, or the log that several daemons share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch(String);

impl Epoch {
    /// Returns a new, unique epoch.
    #[expect(clippy::new_without_default, reason = "each value is unique, unlike a default")]
    pub fn new() -> Self {
        Self(Uuid::new_v4().to_string())
    }

    /// Returns the epoch of a log.
    pub(super) fn of_log(name: String) -> Self {
        Self(name)
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

/// The position of a reader: the last event that it has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCursor {
    /// The id of the event; 0 is before the first.
    pub last_seen: u64,
    /// The epoch that the client expects; `None` accepts the current one.
    pub epoch: Option<String>,
}

/// The limits of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of events kept for replay.
    pub kept_max: usize,
    /// Maximum backlog of one reader, in events.
    pub waiting_max: usize,
    /// Maximum backlog of one reader, in bytes; a single event may be larger.
    pub waiting_bytes_max: u64,
    /// Maximum size of a replay in bytes; a single event may be larger.
    pub replayed_bytes_max: u64,
    /// Maximum number of streams of one session.
    pub session_streams_max: usize,
    /// Maximum number of streams of all changes in one workspace.
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

/// The reason why a subscription is refused.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The stream has its maximum of readers.
    #[error("the stream has its maximum of readers; close one first")]
    Full,
    /// The stream is closed.
    #[error("the stream has ended")]
    Closed,
    /// The latest events of the log are not read yet.
    #[error("the events are not read yet; try again")]
    Behind,
    /// The log of the events cannot be read.
    #[error(transparent)]
    Log(#[from] StateError),
}

/// Values shared by all streams of a daemon.
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
    /// The last number in the ring when this was opened.
    base: u64,
    readers_max: usize,
    readers: AtomicUsize,
    /// The last event to deliver, once the stream is closed.
    end: watch::Sender<Option<u64>>,
}

impl EventBus {
    /// Opens a window on the events in a ring after `base`.
    pub(super) fn new(
        context: StreamContext,
        ring: Arc<Ring>,
        base: u64,
        readers_max: usize,
    ) -> Arc<Self> {
        let (readers, end) = (AtomicUsize::new(0), watch::Sender::new(None));
        Arc::new(Self { context, ring, base, readers_max, readers, end })
    }

    /// Subscribes from now on, or with a cursor, replaying the events after it.
    pub fn subscribe(
        self: &Arc<Self>,
        cursor: Option<&EventCursor>,
    ) -> Result<Subscription, SubscribeError> {
        let take_seat = |readers| (readers < self.readers_max).then_some(readers + 1);
        self.readers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take_seat)
            .map_err(|_| SubscribeError::Full)?;
        let subscription = Subscription::new(Arc::clone(self), cursor);
        if self.end.borrow().is_some() { Err(SubscribeError::Closed) } else { Ok(subscription) }
    }

    /// Closes the stream: readers receive the events published so far, and no more.
    pub fn close(&self) {
        let last = self.ring.with_state(|ring| ring.last());
        self.end.send_modify(|end| *end = end.or(Some(last)));
    }

    /// Returns the number of readers.
    pub fn readers(&self) -> usize {
        self.readers.load(Ordering::Relaxed)
    }

    /// Returns the epoch that the event ids belong to.
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

    pub(super) fn unsubscribe(&self) {
        self.readers.fetch_sub(1, Ordering::Relaxed);
    }
}
