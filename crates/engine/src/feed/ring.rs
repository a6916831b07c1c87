//! The last events of a feed, each with its number.
//!
//! One lock, held for the length of a push or a look. Numbers count from 1. How much was ever published
//! is counted beside the events, so that what lies between two places is a subtraction.
//!
//! What is published at once is a batch: the events of one change. It may hold more than a ring keeps
//! otherwise. While somebody reads, it stays until no reader that keeps up can still be in it.

use std::collections::VecDeque;
use std::sync::Arc;

use memory::clock::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::bus::Bounds;
use super::event::FeedEvent;

/// Events in order, of which the oldest are forgotten.
#[derive(Debug)]
pub(super) struct Ring {
    bounds: Bounds,
    state: Mutex<RingState>,
    /// Wakes whoever waits for more.
    growth: watch::Sender<()>,
}

/// What is in a ring.
#[derive(Debug, Default)]
pub(super) struct RingState {
    slots: VecDeque<RingSlot>,
    /// The number of the newest event.
    last: u64,
    /// The number of the newest batch.
    last_batch: u64,
    /// Bytes of all events that are not kept any more.
    bytes_evicted: u64,
}

/// An event in a ring.
#[derive(Clone, Debug)]
pub(super) struct RingSlot {
    /// What happened.
    pub(super) event: Arc<FeedEvent>,
    /// When it was published.
    pub(super) at: Timestamp,
    /// Bytes of all events up to this one.
    bytes_until: u64,
    /// The batch that it was published in.
    batch: u64,
    /// The number of the last event of that.
    batch_end: u64,
}

/// What lies behind a place in a ring, after the batch that the place is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    /// Batches.
    pub(super) batches: u64,
    /// Bytes of those.
    pub(super) bytes: u64,
    /// Bytes that count against whoever is there: not those of the batch that is told next if it is the
    /// only one, or has several events, since nobody can take those faster than one by one.
    pub(super) counted_bytes: u64,
}

impl Backlog {
    /// Tells whether a reader there is too far behind.
    fn exceeds(self, bounds: &Bounds) -> bool {
        self.batches > u64::try_from(bounds.waiting_max).expect("a count fits into 64 bits")
            || self.counted_bytes > bounds.waiting_bytes_max
    }
}

impl Ring {
    /// Returns an empty ring whose first event has the number after `last`.
    pub(super) fn starting_after(last: u64, bounds: Bounds) -> Self {
        let shelf = Mutex::new(RingState { last, ..RingState::default() });
        Self { bounds, state: shelf, growth: watch::Sender::new(()) }
    }

    /// Adds an event.
    pub(super) fn push(&self, news: Arc<FeedEvent>, at: Timestamp) {
        self.push_all(&[news], at);
    }

    /// Adds events that are told one after the other and count as one thing that waits.
    pub(super) fn push_all(&self, batch: &[Arc<FeedEvent>], at: Timestamp) {
        if batch.is_empty() {
            return;
        }
        let is_read = self.growth.receiver_count() > 0;
        self.with_state(|shelf| {
            shelf.push_batch(batch, at);
            while shelf.slots.len() > self.bounds.kept_max
                && !(is_read && shelf.may_have_readers_in_oldest(&self.bounds))
            {
                shelf.pop_oldest();
            }
        });
        self.growth.send_replace(());
    }

    /// Says that something happened that nobody knows any more. It has a number that is never told, so
    /// each reader learns that it missed something.
    pub(super) fn push_gap(&self) {
        self.with_state(|shelf| {
            shelf.bytes_evicted = shelf.bytes();
            shelf.slots.clear();
            shelf.last += 1;
            shelf.last_batch += 1;
        });
        self.growth.send_replace(());
    }

    /// Looks at, or changes, what is in it.
    pub(super) fn with_state<T>(&self, at: impl FnOnce(&mut RingState) -> T) -> T {
        at(&mut self.state.lock())
    }

    /// Returns what says that there is more.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.growth.subscribe()
    }
}

impl RingState {
    fn push_batch(&mut self, news: &[Arc<FeedEvent>], at: Timestamp) {
        let mut bytes_until = self.bytes();
        self.last_batch += 1;
        self.last += u64::try_from(news.len()).expect("a count fits into 64 bits");
        let (batch, batch_end) = (self.last_batch, self.last);
        self.slots.extend(news.iter().map(|news| {
            bytes_until = bytes_until.saturating_add(news.bytes());
            RingSlot { event: Arc::clone(news), at, bytes_until, batch, batch_end }
        }));
    }

    fn pop_oldest(&mut self) {
        if let Some(oldest) = self.slots.pop_front() {
            self.bytes_evicted = oldest.bytes_until;
        }
    }

    /// Tells whether a reader in the midst of the oldest batch would not be cut off.
    fn may_have_readers_in_oldest(&self, bounds: &Bounds) -> bool {
        !self.backlog(self.before_first() + 1).exceeds(bounds)
    }

    /// Returns the number of the newest event, 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number before the oldest event that is kept.
    pub(super) fn before_first(&self) -> u64 {
        self.last - u64::try_from(self.slots.len()).unwrap_or(self.last)
    }

    /// Returns the event with this number, if it is kept.
    pub(super) fn get(&self, number: u64) -> Option<&RingSlot> {
        let index = number.checked_sub(self.before_first() + 1)?;
        self.slots.get(usize::try_from(index).ok()?)
    }

    /// Returns what lies behind an event, after its batch.
    pub(super) fn backlog(&self, number: u64) -> Backlog {
        let Some(first) = self.slots.front() else { return Backlog::default() };
        let (batches, end) = match self.get(number) {
            Some(kept) => (self.last_batch - kept.batch, kept.batch_end),
            None if number >= self.last => return Backlog::default(),
            // Which batches the forgotten ones were in is forgotten, too.
            None => (self.before_first() - number + self.last_batch - first.batch + 1, number),
        };
        let bytes = self.bytes_after(end);
        let next = end.max(self.before_first()) + 1;
        let next_end = self.get(next).map_or(self.last, |next| next.batch_end);
        let is_excused = batches <= 1 || next_end > next;
        let pressing = if is_excused { self.bytes_after(next_end) } else { bytes };
        Backlog { batches, bytes, counted_bytes: pressing }
    }

    /// Returns the bytes of all events that are kept after this number.
    pub(super) fn bytes_after(&self, number: u64) -> u64 {
        let until = self.get(number).map_or(self.bytes_evicted, |kept| kept.bytes_until);
        if number >= self.last { 0 } else { self.bytes() - until }
    }

    /// Returns the number before the first of the newest events that fit into so many bytes together;
    /// the newest one always does.
    pub(super) fn before_newest(&self, bytes_max: u64) -> u64 {
        let before = self.before_first();
        if self.bytes_after(before) <= bytes_max {
            return before;
        }
        let bytes = self.bytes();
        let too_early = self.slots.partition_point(|kept| bytes - kept.bytes_until > bytes_max);
        let first = before + 1 + u64::try_from(too_early).expect("a count fits into 64 bits");
        first.min(self.last - 1)
    }

    fn bytes(&self) -> u64 {
        self.slots.back().map_or(self.bytes_evicted, |kept| kept.bytes_until)
    }
}
