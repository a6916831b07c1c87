//! A reader of a stream: a position in its ring buffer.
//!
//! Events behind the position form the backlog. Delivered events and those of a replay do not
//! count. A reader with too large a backlog is warned, then evicted. It can reconnect with its
//! cursor and continue from the ring.

use std::sync::Arc;

use memory::clock::Timestamp;
use memory::limits::{EVENTS_DRAINED_PERCENT, EVENTS_WARNING_PERCENT};
use tokio::sync::watch;

use super::bus::{Bounds, EventBus, EventCursor};
use super::event::FeedEvent;
use super::ring::{Backlog, RingState};

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Event number, which rises within one stream. It counts 1, 2, 3 … unless several daemons share
    /// a log. `None` for messages of the stream about itself.
    pub id: Option<u64>,
    /// Time at which it was published or sent.
    pub at: Timestamp,
    /// The kind of event, with its data.
    pub kind: EventKind,
}

/// The kind of an event, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// Memories changed.
    MemoryChanged(Arc<FeedEvent>),
    /// All events after the cursor were delivered; later ones are live.
    ReplayComplete(ReplayComplete),
    /// Events were lost for good: the client must read the state again.
    StateResyncRequired(Resync),
    /// The reader has a large backlog.
    SlowReader(SlowReader),
    /// The reader was disconnected because of its backlog. No event follows.
    Evicted(Evicted),
}

/// All events after the cursor were delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayComplete {
    /// Number of replayed events.
    pub replayed: u64,
    /// Number of the newest event at the time of the subscription.
    pub last_id: u64,
}

/// Events were lost for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resync {
    /// The reason for the loss.
    pub reason: ResyncReason,
    /// Number of the last event before the loss.
    pub last_seen: u64,
    /// No event before this number is delivered after it.
    pub earliest: u64,
}

/// The reason why events were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResyncReason {
    /// The ring no longer holds them.
    Forgotten,
    /// The cursor is higher than any event.
    CursorAhead,
    /// The cursor belongs to another epoch.
    OtherEpoch,
    /// They exceed the size limit of a replay.
    TooMuch,
}

/// The size of a backlog: the events published after the change that is being delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogSize {
    /// Number of changes; the events of one change count as one.
    pub events: u64,
    /// Approximate size in bytes.
    pub bytes: u64,
}

/// The limit that a backlog exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExceededLimit {
    /// Events.
    Events,
    /// Bytes.
    Bytes,
    /// Both.
    Both,
}

/// A reader has a large backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowReader {
    /// Its backlog.
    pub waiting: BacklogSize,
    /// The maximum backlog.
    pub max: BacklogSize,
    /// The limit that is exceeded.
    pub exceeded: ExceededLimit,
    /// The number of the newest event.
    pub last_id: u64,
}

/// A reader was disconnected because of its backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Its backlog.
    pub waiting: BacklogSize,
    /// The maximum backlog.
    pub max: BacklogSize,
    /// The limit that was exceeded.
    pub exceeded: ExceededLimit,
    /// Number of the last delivered event, which serves as the cursor.
    pub last_delivered: u64,
}

/// A subscription of one reader. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    bus: Arc<EventBus>,
    growth: watch::Receiver<()>,
    end: watch::Receiver<Option<u64>>,
    /// Position in the ring: number of the last delivered event there.
    ring_position: u64,
    /// Number of the last event delivered to the reader.
    last_seen: u64,
    /// Position up to which events are a replay.
    live_after: u64,
    /// Sent before anything else.
    resync: Option<Resync>,
    /// Whether the end of the replay still has to be sent.
    announces_replay_end: bool,
    replayed: u64,
    warned: bool,
    evicted: bool,
}

/// The next action of a reader.
#[derive(Debug)]
enum NextAction {
    Deliver(Option<u64>, Timestamp, EventKind),
    Announce(EventKind),
    Wait,
    Stop,
}

impl Subscription {
    /// Subscribes from a cursor, or from now on.
    pub(super) fn new(bus: Arc<EventBus>, cursor: Option<&EventCursor>) -> Self {
        let (growth, end) = (bus.ring().subscribe(), bus.subscribe_to_end());
        let start = bus.ring().with_state(|ring| StartPosition::new(&bus, ring, cursor));
        let StartPosition { ring_position: position, live_after, resync } = start;
        let last_seen = match cursor {
            Some(cursor) => cursor.last_seen,
            None => live_after - bus.base(),
        };
        Self {
            bus,
            growth,
            end,
            ring_position: position,
            last_seen,
            live_after,
            resync,
            announces_replay_end: cursor.is_some(),
            replayed: 0,
            warned: false,
            evicted: false,
        }
    }

    /// Returns the number of the last delivered event: the cursor to continue from.
    pub fn position(&self) -> u64 {
        self.id(self.ring_position)
    }

    /// Waits for the next event; `None` when the stream has ended. Cancel-safe: dropping the future
    /// loses no event.
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
            // Both senders live in the bus, which this subscription keeps alive.
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
        bus.ring().with_state(|ring| {
            if let Some(message) = self.check_backlog(ring) {
                return NextAction::Announce(message);
            }
            if self.has_replayed(ring) && std::mem::take(&mut self.announces_replay_end) {
                let last_id = self.id(self.live_after);
                let replayed = self.replayed;
                return NextAction::Announce(EventKind::ReplayComplete(ReplayComplete {
                    replayed,
                    last_id,
                }));
            }
            self.deliver_next(ring, end)
        })
    }

    /// Tells whether all events of the replay were delivered. The last of their numbers may have no
    /// event.
    fn has_replayed(&self, ring: &RingState) -> bool {
        let next = ring.next_after(self.ring_position);
        self.ring_position >= self.live_after
            || (self.ring_position >= ring.before_first()
                && next.is_none_or(|next| next.number > self.live_after))
    }

    /// Delivers the next event up to `end`, if there is one.
    fn deliver_next(&mut self, ring: &RingState, end: Option<u64>) -> NextAction {
        if self.ring_position >= end.unwrap_or(u64::MAX) {
            return NextAction::Stop;
        }
        if self.ring_position < ring.before_first() {
            let last_seen = self.last_seen;
            self.ring_position = ring.before_first();
            let earliest = self.id(self.ring_position) + 1;
            let resync = Resync { reason: ResyncReason::Forgotten, last_seen, earliest };
            return NextAction::Announce(EventKind::StateResyncRequired(resync));
        }
        let slot = match (ring.next_after(self.ring_position), end) {
            (Some(slot), None) => slot,
            (Some(slot), Some(end)) if slot.number <= end => slot,
            (None, None) => return NextAction::Wait,
            (_, Some(_)) => return NextAction::Stop,
        };
        self.ring_position = slot.number;
        self.replayed += u64::from(self.ring_position <= self.live_after);
        self.last_seen = self.id(self.ring_position);
        let event = Arc::clone(&slot.event);
        NextAction::Deliver(Some(self.last_seen), slot.at, EventKind::MemoryChanged(event))
    }

    /// Warns a reader whose backlog grows large, and evicts one whose backlog is too large.
    fn check_backlog(&mut self, ring: &RingState) -> Option<EventKind> {
        let Backlog { batches, bytes, counted_bytes } =
            ring.backlog(self.ring_position.max(self.live_after));
        let waiting = BacklogSize { events: batches, bytes };
        let max = backlog_max(&self.bus.context().bounds);
        let last_id = self.id(ring.last());
        let counted = BacklogSize { bytes: counted_bytes, ..waiting };
        let overflow = exceeded_limit(counted, max, 100, |size, limit| size > limit);
        let near =
            exceeded_limit(waiting, max, EVENTS_WARNING_PERCENT, |size, limit| size >= limit);
        if let Some(exceeded) = near
            && !self.warned
        {
            self.warned = true;
            return Some(EventKind::SlowReader(SlowReader { waiting, max, exceeded, last_id }));
        }
        if let Some(exceeded) = overflow {
            self.evicted = true;
            let last_delivered = self.id(self.ring_position);
            return Some(EventKind::Evicted(Evicted { waiting, max, exceeded, last_delivered }));
        }
        if exceeded_limit(waiting, max, EVENTS_DRAINED_PERCENT, |size, limit| size > limit)
            .is_none()
        {
            self.warned = false;
        }
        None
    }

    /// Converts a number in the ring to an event number of this stream.
    fn id(&self, number: u64) -> u64 {
        number.saturating_sub(self.bus.base())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.bus.unsubscribe();
    }
}

/// Returns the maximum backlog.
fn backlog_max(bounds: &Bounds) -> BacklogSize {
    BacklogSize {
        events: u64::try_from(bounds.waiting_max).expect("a count fits into 64 bits"),
        bytes: bounds.waiting_bytes_max,
    }
}

/// Compares a backlog with `percent` percent of the maximum.
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

/// The position at which a reader starts.
#[derive(Debug)]
struct StartPosition {
    ring_position: u64,
    live_after: u64,
    resync: Option<Resync>,
}

impl StartPosition {
    fn new(bus: &EventBus, ring: &RingState, cursor: Option<&EventCursor>) -> Self {
        let live_after = ring.last().max(bus.base());
        let Some(EventCursor { last_seen, epoch }) = cursor else {
            return Self { ring_position: live_after, live_after, resync: None };
        };
        let last_seen = *last_seen;
        let first = ring.before_first().max(bus.base());
        let fits = ring.before_newest(bus.context().bounds.replayed_bytes_max);
        let (reason, requested) =
            if epoch.as_ref().is_some_and(|epoch| epoch != bus.epoch().as_str()) {
                (Some(ResyncReason::OtherEpoch), first)
            } else {
                match bus.base().checked_add(last_seen) {
                    Some(requested) if requested > live_after => {
                        (Some(ResyncReason::CursorAhead), first)
                    }
                    None => (Some(ResyncReason::CursorAhead), first),
                    Some(requested) if requested < first => (Some(ResyncReason::Forgotten), first),
                    Some(requested) => (None, requested),
                }
            };
        let position = requested.max(fits.min(live_after));
        let reason = reason.or((position > requested).then_some(ResyncReason::TooMuch));
        let earliest = position - bus.base() + 1;
        let resync = reason.map(|reason| Resync { reason, last_seen, earliest });
        Self { ring_position: position, live_after, resync }
    }
}
