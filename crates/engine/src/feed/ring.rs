//! A ring buffer with the latest events of a feed, each with a number counted from 1.
//!
//! One lock protects it, held for the length of a push or a read. A running total of bytes is
//! stored with each event, so that the size between two positions is a subtraction.
//!
//! Events published at once form a batch: those of one change. A batch may exceed the ring's
//! capacity. While the ring has readers, a batch stays until no reader within its limits can still
//! be inside it.

use std::collections::VecDeque;
use std::sync::Arc;

use memory::clock::Timestamp;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::bus::Bounds;
use super::event::FeedEvent;

/// Events in order; the oldest are evicted.
#[derive(Debug)]
pub(super) struct Ring {
    bounds: Bounds,
    state: Mutex<RingState>,
    /// Notifies readers of new events.
    growth: watch::Sender<()>,
}

/// The contents of a ring.
#[derive(Debug, Default)]
pub(super) struct RingState {
    slots: VecDeque<RingSlot>,
    /// The number of the newest event.
    last: u64,
    /// The number of the newest batch.
    last_batch: u64,
    /// Total bytes of all evicted events.
    bytes_evicted: u64,
}

/// An event in a ring.
#[derive(Clone, Debug)]
pub(super) struct RingSlot {
    /// The event.
    pub(super) event: Arc<FeedEvent>,
    /// Time of publication.
    pub(super) at: Timestamp,
    /// Total bytes of all events up to and including this one.
    bytes_until: u64,
    /// Number of the batch that it belongs to.
    batch: u64,
    /// Number of the last event of that batch.
    batch_end: u64,
}

/// The backlog at a position in a ring, without the rest of the batch that the position is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    /// Number of batches.
    pub(super) batches: u64,
    /// Total bytes of those batches.
    pub(super) bytes: u64,
    /// Bytes that count against a reader at the position. The next batch is excused if it is the
    /// only one or has several events, because a reader can only take events one by one.
    pub(super) counted_bytes: u64,
}

impl Backlog {
    /// Checks whether a reader with this backlog exceeds the limits.
    fn exceeds(self, bounds: &Bounds) -> bool {
        self.batches > u64::try_from(bounds.waiting_max).expect("a count fits into 64 bits")
            || self.counted_bytes > bounds.waiting_bytes_max
    }
}

impl Ring {
    /// Returns an empty ring whose first event has the number after `last`.
    pub(super) fn starting_after(last: u64, bounds: Bounds) -> Self {
        let state = Mutex::new(RingState { last, ..RingState::default() });
        Self { bounds, state, growth: watch::Sender::new(()) }
    }

    /// Appends an event.
    pub(super) fn push(&self, event: Arc<FeedEvent>, at: Timestamp) {
        self.push_all(&[event], at);
    }

    /// Appends the events of one change, which count as one batch.
    pub(super) fn push_all(&self, batch: &[Arc<FeedEvent>], at: Timestamp) {
        if batch.is_empty() {
            return;
        }
        let is_read = self.growth.receiver_count() > 0;
        self.with_state(|state| {
            state.push_batch(batch, at);
            while state.slots.len() > self.bounds.kept_max
                && !(is_read && state.may_have_readers_in_oldest(&self.bounds))
            {
                state.pop_oldest();
            }
        });
        self.growth.send_replace(());
    }

    /// Records that events were lost before they got here. The gap takes a number that is never
    /// delivered, so that each reader learns that it missed something.
    pub(super) fn push_gap(&self) {
        self.with_state(|state| {
            state.bytes_evicted = state.bytes();
            state.slots.clear();
            state.last += 1;
            state.last_batch += 1;
        });
        self.growth.send_replace(());
    }

    /// Calls `f` with the locked contents.
    pub(super) fn with_state<T>(&self, f: impl FnOnce(&mut RingState) -> T) -> T {
        f(&mut self.state.lock())
    }

    /// Returns a receiver that is notified of new events.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.growth.subscribe()
    }
}

impl RingState {
    fn push_batch(&mut self, events: &[Arc<FeedEvent>], at: Timestamp) {
        let mut bytes_until = self.bytes();
        self.last_batch += 1;
        self.last += u64::try_from(events.len()).expect("a count fits into 64 bits");
        let (batch, batch_end) = (self.last_batch, self.last);
        self.slots.extend(events.iter().map(|event| {
            bytes_until = bytes_until.saturating_add(event.bytes());
            RingSlot { event: Arc::clone(event), at, bytes_until, batch, batch_end }
        }));
    }

    fn pop_oldest(&mut self) {
        if let Some(oldest) = self.slots.pop_front() {
            self.bytes_evicted = oldest.bytes_until;
        }
    }

    /// Checks whether a reader inside the oldest batch can still be within its limits.
    fn may_have_readers_in_oldest(&self, bounds: &Bounds) -> bool {
        !self.backlog(self.before_first() + 1).exceeds(bounds)
    }

    /// Returns the number of the newest event, 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number before the oldest event in the ring.
    pub(super) fn before_first(&self) -> u64 {
        self.last - u64::try_from(self.slots.len()).unwrap_or(self.last)
    }

    /// Returns the event with this number, if it is in the ring.
    pub(super) fn get(&self, number: u64) -> Option<&RingSlot> {
        let index = number.checked_sub(self.before_first() + 1)?;
        self.slots.get(usize::try_from(index).ok()?)
    }

    /// Returns the backlog behind an event, without the rest of its batch.
    pub(super) fn backlog(&self, number: u64) -> Backlog {
        let Some(first) = self.slots.front() else { return Backlog::default() };
        let (batches, end) = match self.get(number) {
            Some(slot) => (self.last_batch - slot.batch, slot.batch_end),
            None if number >= self.last => return Backlog::default(),
            // The batches of evicted events are unknown, so each event counts as one.
            None => (self.before_first() - number + self.last_batch - first.batch + 1, number),
        };
        let bytes = self.bytes_after(end);
        let next = end.max(self.before_first()) + 1;
        let next_end = self.get(next).map_or(self.last, |next| next.batch_end);
        let is_excused = batches <= 1 || next_end > next;
        let counted_bytes = if is_excused { self.bytes_after(next_end) } else { bytes };
        Backlog { batches, bytes, counted_bytes }
    }

    /// Returns the bytes of all events in the ring after this number.
    pub(super) fn bytes_after(&self, number: u64) -> u64 {
        let until = self.get(number).map_or(self.bytes_evicted, |slot| slot.bytes_until);
        if number >= self.last { 0 } else { self.bytes() - until }
    }

    /// Returns the number before the newest events that fit into `bytes_max` bytes together. The
    /// newest event is always included.
    pub(super) fn before_newest(&self, bytes_max: u64) -> u64 {
        let before = self.before_first();
        if self.bytes_after(before) <= bytes_max {
            return before;
        }
        let bytes = self.bytes();
        let too_early = self.slots.partition_point(|slot| bytes - slot.bytes_until > bytes_max);
        let first = before + 1 + u64::try_from(too_early).expect("a count fits into 64 bits");
        first.min(self.last - 1)
    }

    fn bytes(&self) -> u64 {
        self.slots.back().map_or(self.bytes_evicted, |slot| slot.bytes_until)
    }
}
