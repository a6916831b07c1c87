//! One reader of a stream.
//!
//! A reader is a place in a ring. What lies between that place and the newest event waits for it; what
//! it was already told, or is being replayed, does not. One that falls too far behind is warned, then
//! cut off: it comes back with its cursor and finds in the ring what it missed.

use std::sync::Arc;

use memory::clock::Timestamp;
use memory::limits::{EVENTS_DRAINED_PERCENT, EVENTS_WARNING_PERCENT};
use tokio::sync::watch;

use super::bus::{Bounds, EventBus, EventCursor};
use super::event::FeedEvent;
use super::ring::{Backlog, RingState};

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
    MemoryChanged(Arc<FeedEvent>),
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
pub struct BacklogSize {
    /// Events; those of one change count as one.
    pub events: u64,
    /// Bytes, about.
    pub bytes: u64,
}

/// What there is too much of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
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
    pub waiting: BacklogSize,
    /// What may wait.
    pub max: BacklogSize,
    /// What there is too much of.
    pub exceeded: ExceededLimit,
    /// The number of the newest event.
    pub last_id: u64,
}

/// A reader fell too far behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// What waited for it.
    pub waiting: BacklogSize,
    /// What may wait.
    pub max: BacklogSize,
    /// What there was too much of.
    pub exceeded: ExceededLimit,
    /// The last event that it was told: its cursor.
    pub last_delivered: u64,
}

/// A reader of a stream. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    bus: Arc<EventBus>,
    growth: watch::Receiver<()>,
    end: watch::Receiver<Option<u64>>,
    /// The number in the ring after which it goes on.
    ring_position: u64,
    /// The id that the reader saw last.
    last_seen: u64,
    /// Up to here it is a replay.
    live_after: u64,
    /// Said before anything else.
    resync: Option<Resync>,
    /// Said after the replay.
    announces_replay_end: bool,
    replayed: u64,
    warned: bool,
    evicted: bool,
}

/// What a reader does next.
#[derive(Debug)]
enum NextAction {
    Deliver(Option<u64>, Timestamp, EventKind),
    Announce(EventKind),
    Wait,
    Stop,
}

impl Subscription {
    /// Begins at a cursor, or at what happens from now on.
    pub(super) fn new(bus: Arc<EventBus>, cursor: Option<&EventCursor>) -> Self {
        let (grown, end) = (bus.ring().subscribe(), bus.subscribe_to_end());
        let start = bus.ring().with_state(|shelf| StartPosition::new(&bus, shelf, cursor));
        let StartPosition { ring_position: place, live_after, resync } = start;
        let last_seen = match cursor {
            Some(cursor) => cursor.last_seen,
            None => live_after - bus.base(),
        };
        Self {
            bus,
            growth: grown,
            end,
            ring_position: place,
            last_seen,
            live_after,
            resync,
            announces_replay_end: cursor.is_some(),
            replayed: 0,
            warned: false,
            evicted: false,
        }
    }

    /// Returns the id after which the stream tells next: the cursor of a reader who leaves at this moment.
    pub fn position(&self) -> u64 {
        self.id(self.ring_position)
    }

    /// Waits for what the stream says next; `None` when it has ended. Whoever stops waiting loses
    /// nothing.
    pub async fn next(&mut self) -> Option<Event> {
        loop {
            self.growth.mark_unchanged();
            let end = *self.end.borrow_and_update();
            match self.next_action(end) {
                NextAction::Deliver(id, at, kind) => return Some(Event { id, at, kind }),
                NextAction::Announce(kind) => {
                    let at = self.bus.context().clock.now();
                    return Some(Event { id: None, at, kind });
                }
                NextAction::Stop => return None,
                NextAction::Wait => {}
            }
            // Neither sender goes away while the bus is held here.
            let woken = tokio::select! {
                grown = self.growth.changed() => grown,
                ended = self.end.changed() => ended,
            };
            if woken.is_err() {
                return None;
            }
        }
    }

    fn next_action(&mut self, end: Option<u64>) -> NextAction {
        if self.evicted {
            return NextAction::Stop;
        }
        if let Some(resync) = self.resync.take() {
            return NextAction::Announce(EventKind::StateResyncRequired(resync));
        }
        let bus = Arc::clone(&self.bus);
        bus.ring().with_state(|shelf| {
            if let Some(said) = self.check_backlog(shelf) {
                return NextAction::Announce(said);
            }
            if self.ring_position >= self.live_after
                && std::mem::take(&mut self.announces_replay_end)
            {
                let last_id = self.id(self.live_after);
                let replayed = self.replayed;
                return NextAction::Announce(EventKind::ReplayComplete(ReplayComplete {
                    replayed,
                    last_id,
                }));
            }
            if self.ring_position >= end.unwrap_or(u64::MAX) {
                return NextAction::Stop;
            }
            self.deliver_next(shelf)
        })
    }

    /// Tells the next event, if there is one.
    fn deliver_next(&mut self, ring: &RingState) -> NextAction {
        if self.ring_position < ring.before_first() {
            let last_seen = self.last_seen;
            self.ring_position = ring.before_first();
            let earliest = self.id(self.ring_position) + 1;
            let resync = Resync { reason: ResyncReason::Forgotten, last_seen, earliest };
            return NextAction::Announce(EventKind::StateResyncRequired(resync));
        }
        let Some(kept) = ring.get(self.ring_position + 1) else { return NextAction::Wait };
        self.ring_position += 1;
        self.replayed += u64::from(self.ring_position <= self.live_after);
        self.last_seen = self.id(self.ring_position);
        let news = Arc::clone(&kept.event);
        NextAction::Deliver(Some(self.last_seen), kept.at, EventKind::MemoryChanged(news))
    }

    /// Warns a reader that falls behind, and cuts one off that is too far behind.
    fn check_backlog(&mut self, ring: &RingState) -> Option<EventKind> {
        let Backlog { batches, bytes, counted_bytes: pressing } =
            ring.backlog(self.ring_position.max(self.live_after));
        let waiting = BacklogSize { events: batches, bytes };
        let max = backlog_max(&self.bus.context().bounds);
        let last_id = self.id(ring.last());
        let counted = BacklogSize { bytes: pressing, ..waiting };
        let overflow = exceeded_limit(counted, max, 100, |waits, may| waits > may);
        let near = exceeded_limit(waiting, max, EVENTS_WARNING_PERCENT, |waits, may| waits >= may);
        if let Some(excess) = near
            && !self.warned
        {
            self.warned = true;
            return Some(EventKind::SlowReader(SlowReader {
                waiting,
                max,
                exceeded: excess,
                last_id,
            }));
        }
        if let Some(excess) = overflow {
            self.evicted = true;
            let last_told = self.id(self.ring_position);
            return Some(EventKind::Evicted(Evicted {
                waiting,
                max,
                exceeded: excess,
                last_delivered: last_told,
            }));
        }
        if exceeded_limit(waiting, max, EVENTS_DRAINED_PERCENT, |waits, may| waits > may).is_none()
        {
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
        self.bus.unsubscribe();
    }
}

/// Returns what may wait.
fn backlog_max(bounds: &Bounds) -> BacklogSize {
    BacklogSize {
        events: u64::try_from(bounds.waiting_max).expect("a count fits into 64 bits"),
        bytes: bounds.waiting_bytes_max,
    }
}

/// Compares what waits with so many percent of what may.
fn exceeded_limit(
    waiting: BacklogSize,
    max: BacklogSize,
    percent: u64,
    is_too_much: impl Fn(u64, u64) -> bool,
) -> Option<ExceededLimit> {
    let part = |max: u64| max.saturating_mul(percent) / 100;
    let events = is_too_much(waiting.events, part(max.events));
    let bytes = is_too_much(waiting.bytes, part(max.bytes));
    match (events, bytes) {
        (true, true) => Some(ExceededLimit::Both),
        (true, false) => Some(ExceededLimit::Events),
        (false, true) => Some(ExceededLimit::Bytes),
        (false, false) => None,
    }
}

/// Where a reader begins.
#[derive(Debug)]
struct StartPosition {
    ring_position: u64,
    live_after: u64,
    resync: Option<Resync>,
}

impl StartPosition {
    fn new(bus: &EventBus, shelf: &RingState, cursor: Option<&EventCursor>) -> Self {
        let live_after = shelf.last().max(bus.base());
        let Some(EventCursor { last_seen, epoch }) = cursor else {
            return Self { ring_position: live_after, live_after, resync: None };
        };
        let last_seen = *last_seen;
        let first = shelf.before_first().max(bus.base());
        let fits = shelf.before_newest(bus.context().bounds.replayed_bytes_max);
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
        Self { ring_position: place, live_after, resync }
    }
}
