//! One reader of a stream.
//!
//! A reader is a place in a ring. What lies between that place and the newest event waits for it; what
//! it was already told, or is being replayed, does not. One that falls too far behind is warned, then
//! cut off: it comes back with its cursor and finds in the ring what it missed.

use std::sync::Arc;

use memory::clock::Timestamp;
use memory::limits::{EVENTS_DRAINED_PERCENT, EVENTS_WARNING_PERCENT};
use tokio::sync::watch;

use super::bus::{Bounds, Bus, Cursor};
use super::news::News;
use super::ring::{Behind, Shelf};

/// What a stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number: 1, 2, 3 … on one stream. `None` for what the stream says about itself.
    pub id: Option<u64>,
    /// When it was published or said.
    pub at: Timestamp,
    /// What it is.
    pub kind: EventKind,
}

/// What an event is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Memories changed.
    MemoryChanged(Arc<News>),
    /// All that came after the cursor was told; what follows happens now.
    ReplayComplete(ReplayComplete),
    /// Something was missed for good: look anew instead of going on from what is known.
    StateResyncRequired(Resync),
    /// The reader falls behind.
    SlowReader(SlowReader),
    /// The reader fell too far behind. Nothing follows.
    Evicted(Evicted),
}

/// All that came after the cursor was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayComplete {
    /// How many events that were.
    pub replayed: u64,
    /// The number of the newest event when the reader came.
    pub last_id: u64,
}

/// Something was missed for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resync {
    /// Why.
    pub reason: ResyncReason,
    /// What the reader had seen last.
    pub last_seen: u64,
    /// The oldest event that is told after this.
    pub earliest: u64,
}

/// Why something was missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResyncReason {
    /// It is not kept any more.
    Forgotten,
    /// The cursor is higher than any event.
    CursorAhead,
    /// The cursor belongs to another numbering.
    OtherEpoch,
    /// There is more than is replayed at once.
    TooMuch,
}

/// What waits for a reader: what was published after the change that it is being told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Events; those of one change count as one.
    pub events: u64,
    /// Bytes, about.
    pub bytes: u64,
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Events.
    Events,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// A reader falls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReader {
    /// What waits for it.
    pub waiting: Waiting,
    /// What may wait.
    pub max: Waiting,
    /// What there is too much of.
    pub excess: Excess,
    /// The number of the newest event.
    pub last_id: u64,
}

/// A reader fell too far behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// What waited for it.
    pub waiting: Waiting,
    /// What may wait.
    pub max: Waiting,
    /// What there was too much of.
    pub excess: Excess,
    /// The last event that it was told: its cursor.
    pub last_told: u64,
}

/// A reader of a stream. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    bus: Arc<Bus>,
    grown: watch::Receiver<()>,
    end: watch::Receiver<Option<u64>>,
    /// The number in the ring after which it goes on.
    place: u64,
    /// The id that the reader saw last.
    last_seen: u64,
    /// Up to here it is a replay.
    live_after: u64,
    /// Said before anything else.
    resync: Option<Resync>,
    /// Said after the replay.
    completes: bool,
    replayed: u64,
    warned: bool,
    evicted: bool,
}

/// What a reader does next.
#[derive(Debug)]
enum Step {
    Tell(Option<u64>, Timestamp, EventKind),
    Say(EventKind),
    Wait,
    Stop,
}

impl Subscription {
    /// Begins at a cursor, or at what happens from now on.
    pub(super) fn new(bus: Arc<Bus>, cursor: Option<&Cursor>) -> Self {
        let (grown, end) = (bus.ring().growth(), bus.ending());
        let start = bus.ring().look(|shelf| Start::new(&bus, shelf, cursor));
        let Start { place, live_after, resync } = start;
        let last_seen = match cursor {
            Some(cursor) => cursor.last_seen,
            None => live_after - bus.base(),
        };
        Self {
            bus,
            grown,
            end,
            place,
            last_seen,
            live_after,
            resync,
            completes: cursor.is_some(),
            replayed: 0,
            warned: false,
            evicted: false,
        }
    }

    /// Returns the id after which the stream tells next: the cursor of a reader who leaves at this moment.
    pub fn position(&self) -> u64 {
        self.id(self.place)
    }

    /// Waits for what the stream says next; `None` when it has ended. Whoever stops waiting loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.grown.mark_unchanged();
            let end = *self.end.borrow_and_update();
            match self.step(end) {
                Step::Tell(id, at, kind) => return Some(Event { id, at, kind }),
                Step::Say(kind) => {
                    let at = self.bus.common().clock.now();
                    return Some(Event { id: None, at, kind });
                }
                Step::Stop => return None,
                Step::Wait => {}
            }
            // Neither sender goes away while the bus is held here.
            let woken = tokio::select! {
                grown = self.grown.changed() => grown,
                ended = self.end.changed() => ended,
            };
            if woken.is_err() {
                return None;
            }
        }
    }

    fn step(&mut self, end: Option<u64>) -> Step {
        if self.evicted {
            return Step::Stop;
        }
        if let Some(resync) = self.resync.take() {
            return Step::Say(EventKind::StateResyncRequired(resync));
        }
        let bus = Arc::clone(&self.bus);
        bus.ring().look(|shelf| {
            if let Some(said) = self.press(shelf) {
                return Step::Say(said);
            }
            if self.place >= self.live_after && std::mem::take(&mut self.completes) {
                let last_id = self.id(self.live_after);
                let replayed = self.replayed;
                return Step::Say(EventKind::ReplayComplete(ReplayComplete { replayed, last_id }));
            }
            if self.place >= end.unwrap_or(u64::MAX) {
                return Step::Stop;
            }
            self.tell(shelf)
        })
    }

    /// Tells the next event, if there is one.
    fn tell(&mut self, ring: &Shelf) -> Step {
        if self.place < ring.before_first() {
            let last_seen = self.last_seen;
            self.place = ring.before_first();
            let earliest = self.id(self.place) + 1;
            let resync = Resync { reason: ResyncReason::Forgotten, last_seen, earliest };
            return Step::Say(EventKind::StateResyncRequired(resync));
        }
        let Some(kept) = ring.get(self.place + 1) else { return Step::Wait };
        self.place += 1;
        self.replayed += u64::from(self.place <= self.live_after);
        self.last_seen = self.id(self.place);
        let news = Arc::clone(&kept.news);
        Step::Tell(Some(self.last_seen), kept.at, EventKind::MemoryChanged(news))
    }

    /// Warns a reader that falls behind, and cuts one off that is too far behind.
    fn press(&mut self, ring: &Shelf) -> Option<EventKind> {
        let Behind { batches, bytes, pressing } = ring.behind(self.place.max(self.live_after));
        let waiting = Waiting { events: batches, bytes };
        let max = max(&self.bus.common().bounds);
        let last_id = self.id(ring.last());
        let counted = Waiting { bytes: pressing, ..waiting };
        let overflow = excess(counted, max, 100, |waits, may| waits > may);
        let near = excess(waiting, max, EVENTS_WARNING_PERCENT, |waits, may| waits >= may);
        if let Some(excess) = near
            && !self.warned
        {
            self.warned = true;
            return Some(EventKind::SlowReader(SlowReader { waiting, max, excess, last_id }));
        }
        if let Some(excess) = overflow {
            self.evicted = true;
            let last_told = self.id(self.place);
            return Some(EventKind::Evicted(Evicted { waiting, max, excess, last_told }));
        }
        if excess(waiting, max, EVENTS_DRAINED_PERCENT, |waits, may| waits > may).is_none() {
            self.warned = false;
        }
        None
    }

    /// Returns the id on this stream of a number in the ring.
    fn id(&self, number: u64) -> u64 {
        number.saturating_sub(self.bus.base())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.bus.leave();
    }
}

/// Returns what may wait.
fn max(bounds: &Bounds) -> Waiting {
    Waiting {
        events: u64::try_from(bounds.waiting_max).expect("a count fits into 64 bits"),
        bytes: bounds.waiting_bytes_max,
    }
}

/// Compares what waits with so many percent of what may.
fn excess(
    waiting: Waiting,
    max: Waiting,
    percent: u64,
    is_too_much: impl Fn(u64, u64) -> bool,
) -> Option<Excess> {
    let part = |max: u64| max.saturating_mul(percent) / 100;
    let events = is_too_much(waiting.events, part(max.events));
    let bytes = is_too_much(waiting.bytes, part(max.bytes));
    match (events, bytes) {
        (true, true) => Some(Excess::Both),
        (true, false) => Some(Excess::Events),
        (false, true) => Some(Excess::Bytes),
        (false, false) => None,
    }
}

/// Where a reader begins.
#[derive(Debug)]
struct Start {
    place: u64,
    live_after: u64,
    resync: Option<Resync>,
}

impl Start {
    fn new(bus: &Bus, shelf: &Shelf, cursor: Option<&Cursor>) -> Self {
        let live_after = shelf.last().max(bus.base());
        let Some(Cursor { last_seen, epoch }) = cursor else {
            return Self { place: live_after, live_after, resync: None };
        };
        let last_seen = *last_seen;
        let first = shelf.before_first().max(bus.base());
        let fits = shelf.before_newest(bus.common().bounds.replayed_bytes_max);
        let (reason, wanted) = if epoch.as_ref().is_some_and(|epoch| epoch != bus.epoch().as_str())
        {
            (Some(ResyncReason::OtherEpoch), first)
        } else {
            match bus.base().checked_add(last_seen) {
                Some(wanted) if wanted > live_after => (Some(ResyncReason::CursorAhead), first),
                None => (Some(ResyncReason::CursorAhead), first),
                Some(wanted) if wanted < first => (Some(ResyncReason::Forgotten), first),
                Some(wanted) => (None, wanted),
            }
        };
        let place = wanted.max(fits.min(live_after));
        let reason = reason.or((place > wanted).then_some(ResyncReason::TooMuch));
        let earliest = place - bus.base() + 1;
        let resync = reason.map(|reason| Resync { reason, last_seen, earliest });
        Self { place, live_after, resync }
    }
}
