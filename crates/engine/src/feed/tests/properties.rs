//! Property: a reader receives every event in order, or a resync that says it did not.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum ReaderStep {
    Publish(usize),
    Read(usize),
    /// The connection breaks, and the client reconnects with its cursor.
    Reconnect,
    /// The client loses its cursor.
    Forget,
    Lose,
    /// The log has events of other workspaces.
    Skip(u64),
}

fn steps() -> impl Strategy<Value = Vec<ReaderStep>> {
    let step = prop_oneof![
        4 => (1..12_usize).prop_map(ReaderStep::Publish),
        4 => (1..12_usize).prop_map(ReaderStep::Read),
        2 => Just(ReaderStep::Reconnect),
        1 => Just(ReaderStep::Forget),
        1 => Just(ReaderStep::Lose),
        2 => (1..40_u64).prop_map(ReaderStep::Skip),
    ];
    prop::collection::vec(step, 1..60)
}

/// A client that checks the sequence of its events.
struct ReplayingClient {
    subscription: Option<Subscription>,
    /// Id of the last event received.
    last_seen: u64,
    /// Whether a resync announced a gap before the next event.
    may_miss: bool,
}

impl ReplayingClient {
    fn connect(world: &StreamFixture, last_seen: u64) -> Self {
        Self { subscription: Some(world.subscribe_after(last_seen)), last_seen, may_miss: false }
    }

    /// Reads one event; returns whether there was one. `published` has the numbers of all events.
    fn read(&mut self, published: &BTreeSet<u64>) -> Result<bool, TestCaseError> {
        let Some(subscription) = &mut self.subscription else { return Ok(false) };
        let Some(event) = subscription.next().now_or_never() else { return Ok(false) };
        let Some(event) = event else {
            self.subscription = None;
            return Ok(true);
        };
        match (event.id, event.kind) {
            (Some(id), _) => {
                let next = published.range(self.last_seen + 1..).next();
                prop_assert!(next == Some(&id) || (self.may_miss && id > self.last_seen));
                prop_assert!(published.contains(&id));
                (self.last_seen, self.may_miss) = (id, false);
            }
            (None, EventKind::StateResyncRequired(resync)) => {
                prop_assert_eq!(resync.last_seen, self.last_seen);
                prop_assert!(resync.earliest > self.last_seen + 1);
                self.may_miss = true;
            }
            (None, EventKind::Evicted(evicted)) => {
                prop_assert!(evicted.last_delivered == self.last_seen || self.may_miss);
            }
            (None, EventKind::ReplayComplete(complete)) => {
                let live = published.range(complete.last_id + 1..).count();
                let waiting = published.range(self.last_seen + 1..).count();
                prop_assert!(waiting == live || self.may_miss, "an event of the replay is left");
            }
            (None, EventKind::SlowReader(_)) => {}
            (None, EventKind::MemoryChanged(_)) => prop_assert!(false, "an event without an id"),
        }
        Ok(true)
    }
}

fn run(steps: &[ReaderStep]) -> Result<(), TestCaseError> {
    let world = StreamFixture::new(SMALL);
    let mut client = ReplayingClient::connect(&world, 0);
    let (mut published, mut last, mut is_last_lost) = (BTreeSet::new(), 0, false);
    for step in steps {
        match step {
            ReaderStep::Publish(count) => {
                world.publish(*count);
                let before = last;
                last += u64::try_from(*count).unwrap();
                published.extend(before + 1..=last);
                is_last_lost = false;
            }
            ReaderStep::Lose => {
                world.ring.push_gap();
                last += 1;
                is_last_lost = true;
            }
            ReaderStep::Skip(count) => {
                last += *count;
                world.ring.push_numbered(Vec::new(), last, Timestamp::UNIX_EPOCH);
            }
            ReaderStep::Read(count) => {
                for _ in 0..*count {
                    client.read(&published)?;
                }
            }
            ReaderStep::Reconnect => {
                let may_miss = client.may_miss;
                client = ReplayingClient::connect(&world, client.last_seen);
                client.may_miss = may_miss;
            }
            ReaderStep::Forget => {
                drop(client);
                client = ReplayingClient::connect(&world, 0);
            }
        }
    }
    // A client that keeps reconnecting receives the newest event, whatever happened before.
    for _ in 0..2 {
        while client.read(&published)? {}
        if client.subscription.is_none() {
            let may_miss = client.may_miss;
            client = ReplayingClient::connect(&world, client.last_seen);
            client.may_miss = may_miss;
        }
    }
    if !is_last_lost {
        prop_assert_eq!(client.last_seen, published.last().copied().unwrap_or_default());
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_event_is_lost_silently_repeated_or_out_of_order(steps in steps()) {
        run(&steps)?;
    }

    #[test]
    fn a_replay_fits_into_its_bytes(
        sizes in prop::collection::vec(60..900_usize, 1..30),
        replayed_bytes_max in 0..12_000_u64,
        last_seen in 0..30_u64,
    ) {
        let world = StreamFixture::new(Bounds { replayed_bytes_max, ..SMALL });
        for &size in &sizes {
            world.push(event_of_size(size));
        }
        let mut replayed = Vec::new();
        let mut reader = world.subscribe_after(last_seen);
        while let Some(Some(event)) = reader.next().now_or_never() {
            if let EventKind::MemoryChanged(event_data) = event.kind {
                replayed.push(event_data.bytes());
            }
        }
        prop_assert!(replayed.len() == 1 || replayed.iter().sum::<u64>() <= replayed_bytes_max);
    }
}
