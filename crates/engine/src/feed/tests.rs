//! Tests of streams, on rings that the tests fill.

mod properties;
mod sessions;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use memory::change::{ChangeId, ChangeKind, Provenance, Trust};
use memory::clock::Timestamp;
use memory::path::{Layout, MemoryPath, Mount, Scope};
use testkit::ManualClock;

use super::bus::StreamContext;
use super::publishing::Throttle;
use super::ring::Ring;
use super::*;

/// Bounds that a test can reach; an event of these tests has about 400 bytes.
const SMALL: Bounds = Bounds {
    kept_max: 20,
    waiting_max: 8,
    waiting_bytes_max: 1_000_000,
    replayed_bytes_max: 1_000_000,
    session_streams_max: 3,
    workspace_streams_max: 3,
};

/// A stream that a test fills.
struct StreamFixture {
    clock: Arc<ManualClock>,
    ring: Arc<Ring>,
    bus: Arc<EventBus>,
}

impl StreamFixture {
    fn new(bounds: Bounds) -> Self {
        let clock = Arc::new(ManualClock::default());
        let ring = Arc::new(Ring::starting_after(0, bounds));
        let (epoch, time) = (Epoch::new(), Arc::clone(&clock) as Arc<dyn memory::clock::Clock>);
        let context = StreamContext { epoch, clock: time, bounds };
        let bus = EventBus::new(context, Arc::clone(&ring), 0, bounds.workspace_streams_max);
        Self { clock, ring, bus }
    }

    fn push(&self, event: FeedEvent) {
        let now = memory::clock::Clock::now(&*self.clock);
        self.ring.push(Arc::new(event), now);
    }

    /// Publishes `count` events of one change.
    fn publish_batch(&self, count: usize) {
        let batch: Vec<_> = (0..count).map(|_| Arc::new(task_event())).collect();
        self.ring.push_all(&batch, memory::clock::Clock::now(&*self.clock));
    }

    /// Publishes `count` events.
    fn publish(&self, count: usize) {
        for _ in 0..count {
            self.push(task_event());
        }
    }

    fn subscribe(&self) -> Subscription {
        self.bus.subscribe(None).unwrap()
    }

    fn subscribe_after(&self, last_seen: u64) -> Subscription {
        self.bus.subscribe(Some(&EventCursor { last_seen, epoch: None })).unwrap()
    }
}

fn task_event() -> FeedEvent {
    let change = FeedChange::Task {
        task: crate::task::TaskId::new(TaskKind::Dream),
        kind: TaskKind::Dream,
        scopes: BTreeSet::from([Mount::Scope(Scope::Global)]),
    };
    FeedEvent { originator: None, change }
}

/// Returns an event with a path of `bytes` bytes.
fn event_of_size(bytes: usize) -> FeedEvent {
    let mut text = "/memories/global/".to_owned();
    while text.len() + 201 < bytes {
        text.push_str(&"a".repeat(200));
        text.push('/');
    }
    text.push_str(&"a".repeat(bytes - text.len()));
    let change = FeedChange::File {
        path: MemoryPath::parse(&text, Layout::Scoped).unwrap(),
        moved_to: None,
        kind: ChangeKind::Edit,
        by: Arc::new(Provenance::agent("mcp")),
        trust: Trust::Agent,
        revision: None,
        change: ChangeId(1),
        workspace: None,
    };
    FeedEvent { originator: None, change }
}

/// Returns the events that are available without waiting, in short: ids, and words with numbers.
fn drain(subscription: &mut Subscription) -> String {
    let mut events = Vec::new();
    while let Some(event) = subscription.next().now_or_never() {
        let Some(event) = event else {
            events.push("end".to_owned());
            break;
        };
        events.push(describe(&event));
    }
    events.join(" ")
}

fn describe(event: &Event) -> String {
    match (&event.kind, event.id) {
        (EventKind::MemoryChanged(_), Some(id)) => id.to_string(),
        (EventKind::ReplayComplete(ReplayComplete { replayed, last_id }), None) => {
            format!("complete:{replayed}/{last_id}")
        }
        (EventKind::StateResyncRequired(Resync { reason, last_seen, earliest }), None) => {
            format!("{reason:?}:{last_seen}..{earliest}")
        }
        (EventKind::SlowReader(slow), None) => {
            format!("slow:{:?}:{}/{}", slow.exceeded, slow.waiting.events, slow.last_id)
        }
        (EventKind::Evicted(evicted), None) => {
            format!("evicted:{:?}:{}", evicted.exceeded, evicted.last_delivered)
        }
        _ => panic!("an id where none belongs, or none where one does: {event:?}"),
    }
}

/// Reads `count` events, which must be available.
fn read_events(subscription: &mut Subscription, count: usize) -> String {
    let events =
        (0..count).map(|_| describe(&subscription.next().now_or_never().unwrap().unwrap()));
    events.collect::<Vec<_>>().join(" ")
}

#[test]
fn ids_count_from_one_and_events_carry_the_time_of_their_publishing() {
    let world = StreamFixture::new(SMALL);
    let mut reader = world.subscribe();
    world.publish(1);
    world.clock.set(Timestamp::UNIX_EPOCH);
    world.publish(1);
    let first = reader.next().now_or_never().unwrap().unwrap();
    let second = reader.next().now_or_never().unwrap().unwrap();
    assert_eq!((first.id, first.at.to_string().as_str()), (Some(1), "2026-01-01T00:00:00Z"));
    assert_eq!((second.id, second.at), (Some(2), Timestamp::UNIX_EPOCH));
    assert_eq!(drain(&mut reader), "");
}

#[tokio::test]
async fn a_waiting_reader_is_woken() {
    let world = StreamFixture::new(SMALL);
    let mut reader = world.subscribe();
    let waiting = tokio::spawn(async move { (reader.next().await, reader.next().await) });
    tokio::task::yield_now().await;
    world.publish(1);
    tokio::task::yield_now().await;
    world.bus.close();
    let (event, ended) = waiting.await.unwrap();
    assert_eq!((describe(&event.unwrap()).as_str(), ended), ("1", None));
}

#[test]
fn a_cancelled_wait_loses_no_event() {
    let world = StreamFixture::new(SMALL);
    let mut reader = world.subscribe_after(0);
    assert_eq!(read_events(&mut reader, 1), "complete:0/0");
    assert!(reader.next().now_or_never().is_none());
    world.publish(2);
    assert_eq!(drain(&mut reader), "1 2");
}

/// Checks the events of a reader with this cursor after 30 events, of which 20 are in the ring;
/// then two more are published.
fn check_replay(cursor: Option<&EventCursor>, expected: &str) {
    let world = StreamFixture::new(SMALL);
    world.publish(30);
    let mut reader = world.bus.subscribe(cursor).unwrap();
    let replayed = drain(&mut reader);
    world.publish(2);
    assert_eq!(format!("{replayed} | {}", drain(&mut reader)), expected, "{cursor:?}");
}

#[test]
fn a_cursor_decides_what_is_replayed() {
    let all = "11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 complete:20/30 | 31 32";
    let at = |last_seen| EventCursor { last_seen, epoch: None };
    check_replay(None, " | 31 32");
    check_replay(Some(&at(30)), "complete:0/30 | 31 32");
    check_replay(Some(&at(29)), "30 complete:1/30 | 31 32");
    check_replay(Some(&at(27)), "28 29 30 complete:3/30 | 31 32");
    check_replay(Some(&at(10)), all);
    check_replay(Some(&at(9)), &format!("Forgotten:9..11 {all}"));
    check_replay(Some(&at(0)), &format!("Forgotten:0..11 {all}"));
    check_replay(Some(&at(31)), &format!("CursorAhead:31..11 {all}"));
    check_replay(Some(&at(u64::MAX)), &format!("CursorAhead:{}..11 {all}", u64::MAX));
}

#[test]
fn a_cursor_of_another_epoch_requires_a_resync() {
    let check = |epoch: fn(&StreamFixture) -> String, last_seen, expected: &str| {
        let world = StreamFixture::new(SMALL);
        world.publish(3);
        let cursor = EventCursor { last_seen, epoch: Some(epoch(&world)) };
        assert_eq!(drain(&mut world.bus.subscribe(Some(&cursor)).unwrap()), expected, "{cursor:?}");
    };
    let ours = |world: &StreamFixture| world.bus.epoch().to_string();
    let another = |_: &StreamFixture| Epoch::new().to_string();
    check(ours, 2, "3 complete:1/3");
    check(ours, 9, "CursorAhead:9..1 1 2 3 complete:3/3");
    check(another, 2, "OtherEpoch:2..1 1 2 3 complete:3/3");
    check(another, 3, "OtherEpoch:3..1 1 2 3 complete:3/3");
    check(another, 9, "OtherEpoch:9..1 1 2 3 complete:3/3");
    check(|_| String::new(), 0, "OtherEpoch:0..1 1 2 3 complete:3/3");
}

#[test]
fn a_stream_without_events_replays_none() {
    let world = StreamFixture::new(SMALL);
    assert_eq!(drain(&mut world.subscribe_after(0)), "complete:0/0");
    assert_eq!(drain(&mut world.subscribe_after(4)), "CursorAhead:4..1 complete:0/0");
}

#[test]
fn a_replay_above_the_limit_has_the_newest_events() {
    let check = |replayed_bytes_max, last_seen, expected: &str| {
        let world = StreamFixture::new(Bounds { replayed_bytes_max, ..SMALL });
        for bytes in [600, 100, 100, 1_000, 100] {
            world.push(event_of_size(bytes));
        }
        assert_eq!(drain(&mut world.subscribe_after(last_seen)), expected, "{replayed_bytes_max}");
    };
    let bytes =
        |sizes: &[usize]| sizes.iter().map(|&size| event_of_size(size).bytes()).sum::<u64>();
    check(bytes(&[600, 100, 100, 1_000, 100]), 0, "1 2 3 4 5 complete:5/5");
    check(bytes(&[600, 100, 100, 1_000, 100]) - 1, 0, "TooMuch:0..2 2 3 4 5 complete:4/5");
    check(bytes(&[1_000, 100]), 1, "TooMuch:1..4 4 5 complete:2/5");
    check(bytes(&[1_000, 100]), 3, "4 5 complete:2/5");
    check(1, 3, "TooMuch:3..5 5 complete:1/5");
    check(1, 4, "5 complete:1/5");
    check(1, 5, "complete:0/5");
    check(1, 6, "CursorAhead:6..5 5 complete:1/5");
}

#[test]
fn a_slow_reader_is_warned_once_then_evicted_and_resumes_with_its_cursor() {
    let world = StreamFixture::new(SMALL);
    let (mut slow, mut quick) = (world.subscribe(), world.subscribe());
    world.publish(5);
    assert_eq!(read_events(&mut slow, 1), "1");
    world.publish(2);
    assert_eq!(read_events(&mut slow, 3), "slow:Events:6/7 2 3");
    world.publish(2);
    assert_eq!(read_events(&mut slow, 1), "4");
    assert_eq!(drain(&mut quick), "slow:Events:9/9 evicted:Events:0 end");
    world.publish(4);
    assert_eq!(drain(&mut slow), "evicted:Events:4 end");
    drop(slow);
    let mut again = world.subscribe_after(4);
    assert_eq!(drain(&mut again), "5 6 7 8 9 10 11 12 13 complete:9/13");
    world.publish(1);
    assert_eq!(drain(&mut again), "14");
}

#[test]
fn a_reader_that_caught_up_is_warned_again() {
    let world = StreamFixture::new(SMALL);
    let mut reader = world.subscribe();
    world.publish(6);
    assert_eq!(read_events(&mut reader, 4), "slow:Events:6/6 1 2 3");
    // Three events are still waiting: more than a third of eight.
    world.publish(3);
    assert_eq!(read_events(&mut reader, 4), "4 5 6 7");
    assert_eq!(read_events(&mut reader, 1), "8", "with a backlog of two, the warning is reset");
    world.publish(5);
    assert_eq!(drain(&mut reader), "slow:Events:6/14 9 10 11 12 13 14");
}

#[test]
fn bytes_count_as_events_do() {
    let bytes = event_of_size(500).bytes();
    let world = StreamFixture::new(Bounds { waiting_bytes_max: 4 * bytes, ..SMALL });
    let (mut slow, mut both) = (world.subscribe(), world.subscribe());
    for _ in 0..3 {
        world.push(event_of_size(500));
    }
    assert_eq!(read_events(&mut slow, 2), "slow:Bytes:3/3 1");
    world.push(event_of_size(500));
    world.push(event_of_size(500));
    assert_eq!(read_events(&mut slow, 1), "2", "the maximum itself is not exceeded");
    world.publish(3);
    assert_eq!(drain(&mut slow), "evicted:Bytes:2 end");
    world.publish(1);
    assert_eq!(drain(&mut both), "slow:Both:9/9 evicted:Both:0 end");
}

#[test]
fn one_event_may_exceed_the_maximum_backlog() {
    let world = StreamFixture::new(Bounds { waiting_bytes_max: 100, ..SMALL });
    let (mut quick, mut slow) = (world.subscribe(), world.subscribe());
    world.push(event_of_size(900));
    assert_eq!(drain(&mut quick), "slow:Bytes:1/1 1");
    world.push(event_of_size(900));
    assert_eq!(drain(&mut quick), "slow:Bytes:1/2 2");
    assert_eq!(drain(&mut slow), "slow:Bytes:2/2 evicted:Bytes:0 end");
}

#[test]
fn a_replay_does_not_count_as_backlog() {
    let world = StreamFixture::new(SMALL);
    world.publish(20);
    let mut reader = world.subscribe_after(0);
    world.publish(5);
    let expected = "6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 complete:15/20 21 22 23 24 25";
    assert_eq!(drain(&mut reader), format!("Forgotten:0..6 {expected}"));
}

#[test]
fn events_evicted_during_a_replay_cause_a_resync() {
    let world = StreamFixture::new(SMALL);
    world.publish(20);
    let mut reader = world.subscribe_after(0);
    assert_eq!(read_events(&mut reader, 2), "1 2");
    world.publish(5);
    let expected = "Forgotten:2..6 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 complete:17/20 21 22";
    assert_eq!(read_events(&mut reader, 19), expected);
}

#[test]
fn a_gap_causes_a_resync_of_every_reader() {
    let world = StreamFixture::new(SMALL);
    let mut live = world.subscribe();
    world.publish(2);
    assert_eq!(drain(&mut live), "1 2");
    world.ring.push_gap();
    assert_eq!(drain(&mut live), "Forgotten:2..4");
    world.publish(1);
    assert_eq!(drain(&mut live), "4");
    assert_eq!(drain(&mut world.subscribe_after(2)), "Forgotten:2..4 4 complete:1/4");
}

#[test]
fn the_number_of_readers_is_limited() {
    let world = StreamFixture::new(SMALL);
    let mut readers = vec![world.subscribe(), world.subscribe(), world.subscribe_after(0)];
    assert!(matches!(world.bus.subscribe(None), Err(SubscribeError::Full)));
    assert_eq!(world.bus.readers(), 3);
    readers.pop();
    readers.push(world.subscribe());
    assert!(matches!(world.bus.subscribe(None), Err(SubscribeError::Full)));
    drop(readers);
    assert_eq!(world.bus.readers(), 0);
}

#[tokio::test]
async fn the_end_of_a_stream_ends_all_its_readers() {
    let world = StreamFixture::new(SMALL);
    let mut waiting_reader = world.subscribe();
    let (mut never_read, mut slow) = (world.subscribe(), world.subscribe_after(0));
    let waiting = tokio::spawn(async move {
        let event = waiting_reader.next().await.map(|event| describe(&event));
        (event, waiting_reader.next().await)
    });
    tokio::task::yield_now().await;
    world.publish(1);
    world.bus.close();
    world.bus.close();
    world.publish(2);
    assert_eq!(waiting.await.unwrap(), (Some("1".to_owned()), None));
    assert_eq!(drain(&mut never_read), "1 end");
    assert_eq!(drain(&mut slow), "complete:0/0 1 end");
    assert_eq!(drain(&mut slow), "end");
    drop((never_read, slow));
    assert!(matches!(world.bus.subscribe(None), Err(SubscribeError::Closed)));
    assert_eq!(world.bus.readers(), 0);
}

#[test]
fn the_ring_is_bounded_even_with_stuck_readers() {
    let world = StreamFixture::new(Bounds { workspace_streams_max: 100, ..Bounds::default() });
    let mut stuck: Vec<_> = (0..100).map(|_| world.subscribe()).collect();
    world.publish(20_000);
    let range = world.ring.with_state(|ring| (ring.before_first(), ring.last()));
    assert_eq!(range, (12_000, 20_000));
    for reader in &mut stuck {
        assert_eq!(drain(reader), "slow:Both:20000/20000 evicted:Both:0 end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_readers_receive_all_events_in_order() {
    let bounds = Bounds { waiting_max: 8_000, workspace_streams_max: 1_000, ..Bounds::default() };
    let world = Arc::new(StreamFixture::new(bounds));
    let readers = (0..1_000).map(|_| {
        let mut reader = world.subscribe();
        tokio::spawn(async move {
            for expected in 1..=400 {
                assert_eq!(reader.next().await.unwrap().id, Some(expected));
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let writers = (0..4).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            for _ in 0..100 {
                world.publish(1);
                tokio::task::yield_now().await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let all = async {
        for reader in readers {
            reader.await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all).await.unwrap();
    assert_eq!(world.bus.readers(), 0);
}

#[test]
fn a_change_of_any_size_reaches_a_reader_that_keeps_up() {
    let world = StreamFixture::new(SMALL);
    let mut reader = world.subscribe();
    world.publish(1);
    world.publish_batch(100);
    assert_eq!(read_events(&mut reader, 50), numbers(1, 50));
    // The backlog behind the batch is excused while the batch is being delivered.
    world.publish(3);
    world.publish_batch(30);
    assert_eq!(drain(&mut reader), numbers(51, 134));
    world.publish_batch(0);
    assert_eq!(drain(&mut reader), "");
}

fn numbers(first: u64, last: u64) -> String {
    (first..=last).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_large_change_without_readers_is_evicted_like_others() {
    let world = StreamFixture::new(SMALL);
    world.publish_batch(100);
    assert_eq!(
        drain(&mut world.subscribe_after(0)),
        format!("Forgotten:0..81 {} complete:20/100", numbers(81, 100))
    );
    let reader = world.subscribe();
    world.publish_batch(100);
    let before_first = || world.ring.with_state(|ring| ring.before_first());
    assert_eq!(before_first(), 80, "it may be read");
    drop(reader);
    world.publish(1);
    assert_eq!(before_first(), 181);
}

#[test]
fn a_reader_stuck_in_a_large_change_is_evicted_and_so_is_the_change() {
    let world = StreamFixture::new(SMALL);
    let mut slow = world.subscribe();
    world.publish_batch(100);
    assert_eq!(read_events(&mut slow, 2), "1 2");
    world.publish(8);
    let before_first = || world.ring.with_state(|ring| ring.before_first());
    assert_eq!(before_first(), 0);
    world.publish(1);
    assert_eq!(before_first(), 89);
    assert_eq!(drain(&mut slow), "slow:Events:97/109 evicted:Events:2 end");
}

#[test]
fn bytes_after_a_large_change_count_against_a_reader_but_those_of_the_change_do_not() {
    let bytes = task_event().bytes();
    let world = StreamFixture::new(Bounds { waiting_bytes_max: 4 * bytes, kept_max: 100, ..SMALL });
    let mut reader = world.subscribe();
    world.publish_batch(50);
    world.publish(4);
    assert_eq!(read_events(&mut reader, 2), "slow:Bytes:5/54 1");
    world.publish(1);
    assert_eq!(drain(&mut reader), "evicted:Bytes:1 end");
}

/// Returns the last event that a reader receives of a burst, if it drains its stream every ten
/// milliseconds.
async fn last_event_of_burst(count: usize, mut throttle: Option<Throttle>) -> String {
    let world = StreamFixture::new(Bounds::default());
    let mut reader = world.subscribe();
    let burst = async {
        for _ in 0..count {
            world.publish(1);
            if let Some(throttle) = &mut throttle {
                throttle.acquire().await;
            }
        }
    };
    let reading = async {
        let mut last = String::new();
        let end = count.to_string();
        while last != end {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let events = drain(&mut reader);
            if let Some(newest) = events.split(' ').next_back().filter(|it| !it.is_empty()) {
                newest.clone_into(&mut last);
            }
            if last == "end" {
                break;
            }
        }
        last
    };
    tokio::join!(burst, reading).1
}

#[tokio::test(start_paused = true)]
async fn a_throttled_burst_does_not_evict_readers_that_keep_up() {
    assert_eq!(last_event_of_burst(1_000, None).await, "end");
    assert_eq!(last_event_of_burst(1_000, Some(Throttle::new())).await, "1000");
}

#[tokio::test(start_paused = true)]
async fn events_at_a_steady_rate_are_never_throttled() {
    let mut throttle = Throttle::new();
    for _ in 0..10 * memory::limits::EVENTS_PUBLISHED_PER_BATCH {
        tokio::time::advance(Duration::from_micros(100)).await;
        assert!(throttle.acquire().now_or_never().is_some());
    }
}

#[test]
fn numbers_of_a_log_have_gaps_and_a_stream_continues_over_them() {
    let world = StreamFixture::new(SMALL);
    let at = Timestamp::UNIX_EPOCH;
    let push = |numbers: &[u64], through| {
        let batch = numbers.iter().map(|number| (*number, Arc::new(task_event()))).collect();
        world.ring.push_numbered(batch, through, at);
    };
    let mut live = world.subscribe();
    push(&[], 4);
    push(&[5, 7], 9);
    push(&[], 12);
    assert_eq!(drain(&mut live), "5 7");
    assert_eq!(drain(&mut world.subscribe_after(5)), "7 complete:1/12");
    assert_eq!(drain(&mut world.subscribe_after(6)), "7 complete:1/12");
    // A number that another workspace got is a cursor like any other.
    assert_eq!(drain(&mut world.subscribe_after(11)), "complete:0/12");
    assert_eq!(drain(&mut world.subscribe_after(13)), "CursorAhead:13..1 5 7 complete:2/12");
    // The log dropped events before they were read here.
    world.ring.restart_after(20);
    push(&[22], 22);
    assert_eq!(drain(&mut live), "Forgotten:7..21 22");
    world.bus.close();
    assert_eq!(drain(&mut live), "end");
}
