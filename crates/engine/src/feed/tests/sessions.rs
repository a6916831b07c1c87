//! Tests of session streams: windows on the task events of a workspace.

use super::*;

/// Opens another stream on the same ring, starting at the last event.
fn window(world: &StreamFixture) -> Arc<EventBus> {
    let base = world.ring.with_state(|ring| ring.last());
    let context = world.bus.context().clone();
    EventBus::new(context, Arc::clone(&world.ring), base, SMALL.session_streams_max)
}

#[test]
fn each_session_counts_from_one() {
    let world = StreamFixture::new(SMALL);
    world.publish(4);
    let session = window(&world);
    let mut reader = session.subscribe(None).unwrap();
    let mut whole = world.subscribe_after(3);
    world.publish(2);
    assert_eq!(drain(&mut reader), "1 2");
    assert_eq!(drain(&mut whole), "4 complete:1/4 5 6");
}

#[test]
fn a_session_replays_no_events_from_before_its_start() {
    let world = StreamFixture::new(SMALL);
    world.publish(4);
    let session = window(&world);
    let check = |last_seen, expected: &str| {
        let cursor = EventCursor { last_seen, epoch: None };
        assert_eq!(drain(&mut session.subscribe(Some(&cursor)).unwrap()), expected, "{last_seen}");
    };
    check(0, "complete:0/0");
    check(1, "CursorAhead:1..1 complete:0/0");
    world.publish(2);
    check(0, "1 2 complete:2/2");
    check(1, "2 complete:1/2");
    check(7, "CursorAhead:7..1 1 2 complete:2/2");
    world.publish(20);
    check(1, "Forgotten:1..3 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 complete:20/22");
}

#[test]
fn the_end_of_a_session_does_not_affect_another() {
    let world = StreamFixture::new(SMALL);
    let (one, other) = (window(&world), window(&world));
    let mut readers = [one.subscribe(None).unwrap(), other.subscribe(None).unwrap()];
    one.close();
    world.publish(1);
    let [of_one, of_other] = &mut readers;
    assert_eq!((drain(of_one).as_str(), drain(of_other).as_str()), ("end", "1"));
}
