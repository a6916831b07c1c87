//! A ring buffer with the latest events of a feed, in the order of their numbers.
//!
//! The numbers of a feed that counts its own events are 1, 2, 3 …. Those of a log that several
//! daemons share have gaps, because the log has events of other workspaces, too.
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
    /// The highest number that was used.
    last: u64,
    /// The highest number whose event is not in the ring any more.
    forgotten: u64,
    /// The number of the newest batch.
    last_batch: u64,
    /// Number of all evicted events since the last loss of events, which counts as one.
    evicted: u64,
    /// Total bytes of all evicted events.
    bytes_evicted: u64,
}

/// An event with its number.
pub(super) type Numbered = (u64, Arc<FeedEvent>);

/// An event in a ring.
#[derive(Clone, Debug)]
pub(super) struct RingSlot {
    /// Its number.
    pub(super) number: u64,
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
    /// Returns an empty ring whose numbers come after `last`.
    pub(super) fn starting_after(last: u64, bounds: Bounds) -> Self {
        let state = RingState { last, forgotten: last, ..RingState::default() };
        Self { bounds, state: Mutex::new(state), growth: watch::Sender::new(()) }
    }

    /// Appends an event with the next number.
    pub(super) fn push(&self, event: Arc<FeedEvent>, at: Timestamp) {
        self.push_all(&[event], at);
    }

    /// Appends the events of one change with the next numbers. They count as one batch.
    pub(super) fn push_all(&self, batch: &[Arc<FeedEvent>], at: Timestamp) {
        self.append(at, |last| {
            let batch: Vec<_> = (last + 1..).zip(batch.iter().map(Arc::clone)).collect();
            let through = batch.last().map_or(last, |(number, _)| *number);
            (batch, through)
        });
    }

    /// Appends the events of one change with their numbers, which are above all before and at most
    /// `through`. All numbers up to `through` are used then. There may be no event.
    pub(super) fn push_numbered(&self, batch: Vec<Numbered>, through: u64, at: Timestamp) {
        self.append(at, |last| (batch, through.max(last)));
    }

    fn append(&self, at: Timestamp, numbered: impl FnOnce(u64) -> (Vec<Numbered>, u64)) {
        let is_read = self.growth.receiver_count() > 0;
        let has_grown = self.with_state(|state| {
            let (batch, through) = numbered(state.last);
            state.last = through;
            let Some(&(batch_end, _)) = batch.last() else { return false };
            state.push_batch(batch, batch_end, at);
            while state.slots.len() > self.bounds.kept_max
                && !(is_read && state.may_have_readers_in_oldest(&self.bounds))
            {
                state.pop_oldest();
            }
            true
        });
        if has_grown {
            self.growth.send_replace(());
        }
    }

    /// Records that events were lost before they got here. The gap takes a number that is never
    /// delivered, so that each reader learns that it missed something.
    pub(super) fn push_gap(&self) {
        self.forget(|last| last + 1);
    }

    /// Forgets all events, and continues with numbers after `last`. Readers from before learn that
    /// they missed something.
    pub(super) fn restart_after(&self, last: u64) {
        self.forget(|_| last);
    }

    /// Forgets all events. The numbers after what `restart` returns are next; it gets the highest
    /// number that was used.
    fn forget(&self, restart: impl FnOnce(u64) -> u64) {
        self.with_state(|state| {
            let last = restart(state.last);
            state.bytes_evicted = state.bytes();
            // How many events were lost is unknown, so they count as one.
            state.evicted = 1;
            state.slots.clear();
            (state.last, state.forgotten) = (last, last);
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
    fn push_batch(&mut self, events: Vec<Numbered>, batch_end: u64, at: Timestamp) {
        let mut bytes_until = self.bytes();
        self.last_batch += 1;
        let batch = self.last_batch;
        self.slots.extend(events.into_iter().map(|(number, event)| {
            bytes_until = bytes_until.saturating_add(event.bytes());
            RingSlot { number, event, at, bytes_until, batch, batch_end }
        }));
    }

    fn pop_oldest(&mut self) {
        if let Some(oldest) = self.slots.pop_front() {
            self.bytes_evicted = oldest.bytes_until;
            self.evicted += 1;
            self.forgotten = oldest.number;
        }
    }

    /// Checks whether a reader inside the oldest batch can still be within its limits.
    fn may_have_readers_in_oldest(&self, bounds: &Bounds) -> bool {
        let oldest = self.slots.front();
        oldest.is_some_and(|oldest| !self.backlog(oldest.number).exceeds(bounds))
    }

    /// Returns the highest number that was used, 0 if there was none.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the highest number whose event is not in the ring any more, 0 if all are.
    pub(super) fn before_first(&self) -> u64 {
        self.forgotten
    }

    /// Returns the number of events in the ring up to and including this number.
    fn count_through(&self, number: u64) -> usize {
        self.slots.partition_point(|slot| slot.number <= number)
    }

    /// Returns the newest event in the ring up to and including this number.
    fn newest_through(&self, number: u64) -> Option<&RingSlot> {
        self.slots.get(self.count_through(number).checked_sub(1)?)
    }

    /// Returns the next event in the ring after this number.
    pub(super) fn next_after(&self, number: u64) -> Option<&RingSlot> {
        self.slots.get(self.count_through(number))
    }

    /// Returns the backlog behind a position, without the rest of the batch that it is in.
    pub(super) fn backlog(&self, number: u64) -> Backlog {
        let (Some(first), Some(_)) = (self.slots.front(), self.next_after(number)) else {
            return Backlog::default();
        };
        let newest = self.newest_through(number);
        let (batches, end) = if let Some(slot) = newest {
            (self.last_batch - slot.batch, slot.batch_end.max(number))
        } else {
            // The batches of evicted events are unknown, so each event counts as one. Not all numbers
            // had an event.
            let evicted = self.forgotten.saturating_sub(number).min(self.evicted);
            (evicted + self.last_batch - first.batch + 1, number)
        };
        let bytes = self.bytes_after(end);
        let next = self.next_after(end);
        let is_excused = batches <= 1 || next.is_some_and(|next| next.batch_end > next.number);
        let counted_bytes = match next {
            Some(next) if is_excused => self.bytes_after(next.batch_end),
            _ => bytes,
        };
        Backlog { batches, bytes, counted_bytes }
    }

    /// Returns the bytes of all events in the ring after this number.
    pub(super) fn bytes_after(&self, number: u64) -> u64 {
        let before =
            self.newest_through(number).map_or(self.bytes_evicted, |slot| slot.bytes_until);
        self.bytes() - before
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
        let last_before_newest = self.slots.len().checked_sub(2);
        let index = last_before_newest.map(|last| last.min(too_early));
        index.and_then(|index| self.slots.get(index)).map_or(before, |slot| slot.number)
    }

    fn bytes(&self) -> u64 {
        self.slots.back().map_or(self.bytes_evicted, |slot| slot.bytes_until)
    }
}
