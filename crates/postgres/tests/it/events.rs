//! The log of events: all daemons read the same events under the same numbers, none is missing, and none comes twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::RunningServices;
use engine::feed::{Event, EventCursor, EventKind, FeedChange, FeedEvent, Resync, Subscription};
use memory::clock::{Clock, Timestamp};
use memory::command::{MemoryCommand, Reply};
use memory::limits::EVENTS_KEPT_MAX;
use state::{HistoryStore as _, Retention};
use store::clock::SystemClock;
use testkit::postgres::PostgresVersion;

use crate::engines::{Daemon, create, path, submit, workspace};
use crate::support::{Server, open};

/// Far longer than any of these events takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Daemons that share a database.
const DAEMONS: usize = 3;

/// A clock that differs from the one of the machine by some minutes.
#[derive(Debug)]
struct WrongClock(i64);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        let now = SystemClock.now();
        Timestamp::new(now.as_second() + 60 * self.0, now.subsec_nanosecond()).unwrap()
    }
}

/// Rounds of each writer.
const ROUNDS: usize = 6;

/// Returns an event in short.
fn describe(event: &FeedEvent) -> String {
    match &event.change {
        FeedChange::File { path, moved_to: Some(to), kind, .. } => format!("{kind} {path} {to}"),
        FeedChange::File { path, kind, .. } => format!("{kind} {path}"),
        FeedChange::Pin { path, pinned, by } => format!("pin {path} {pinned} {}", by.origin),
        FeedChange::Task { kind, scopes, .. } => format!("{} {scopes:?}", kind.as_str()),
        other => format!("{other:?}"),
    }
}

async fn next(stream: &mut Subscription) -> Event {
    tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap()
}

/// Returns the next event about memories, with its number.
async fn next_change(stream: &mut Subscription) -> (u64, String) {
    loop {
        let event = next(stream).await;
        match event.kind {
            EventKind::MemoryChanged(change) => return (event.id.unwrap(), describe(&change)),
            EventKind::ReplayComplete(_) | EventKind::SlowReader(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn changes(stream: &mut Subscription, count: usize) -> Vec<(u64, String)> {
    let mut changes = Vec::new();
    for _ in 0..count {
        changes.push(next_change(stream).await);
    }
    changes
}

async fn subscribe_after(services: &RunningServices, name: &str, last_seen: u64) -> Subscription {
    let epoch = Some(services.feeds.epoch().to_string());
    let cursor = EventCursor { last_seen, epoch };
    services.feeds.subscribe(&workspace(name).id, Some(&cursor)).await.unwrap()
}

async fn done(daemon: &Daemon, command: MemoryCommand) {
    let reply = daemon.apply(command).await;
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
}

/// Makes a memory, renames its folder, pins it, unpins it and deletes it: two changes of files, two pins, one change.
async fn write(daemon: &Daemon, name: &str) {
    for round in 0..ROUNDS {
        let at = |folder: &str| format!("/memories/workspace/{folder}-{name}-{round}/a.md");
        done(daemon, create(&at("old"), "text\n")).await;
        let folder = |folder: &str| path(at(folder).strip_suffix("/a.md").unwrap());
        let rename = MemoryCommand::Rename { old_path: folder("old"), new_path: folder("new") };
        done(daemon, rename).await;
        for pinned in [true, false] {
            assert!(daemon.memories().set_pin(&path(&at("new")), pinned).await.unwrap());
        }
        done(daemon, MemoryCommand::Delete { path: folder("new") }).await;
    }
}

async fn check_daemons_agree(settings: &[&str]) {
    let server = Server::start(PostgresVersion::Debian, settings);
    let (_, address) = server.new_database();
    let mut daemons = Vec::new();
    for minutes in [0, -20, 20] {
        let clock = Arc::new(WrongClock(minutes));
        daemons.push(Arc::new(Daemon::start_with_clock(&address, clock).await));
    }
    let first = daemons.first().unwrap().serve().await;
    let mut live = first.feeds.subscribe(&workspace("team").id, None).await.unwrap();
    let writers = daemons.iter().enumerate().map(|(number, daemon)| {
        let daemon = Arc::clone(daemon);
        tokio::spawn(async move { write(&daemon, &number.to_string()).await })
    });
    let writers: Vec<_> = writers.collect();
    submit(&first, &workspace("team"), ("blue", 2)).await;
    submit(&first, &workspace("other"), ("green", 2)).await;
    for writer in writers {
        writer.await.unwrap();
    }
    let expected = DAEMONS * ROUNDS * 5 + 2;
    let seen = changes(&mut live, expected).await;
    let numbers: Vec<_> = seen.iter().map(|(number, _)| *number).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let distinct: BTreeSet<_> = seen.iter().map(|(_, event)| event).collect();
    // The two tasks are described alike.
    assert_eq!(distinct.len(), expected - 1, "{seen:?}");
    for daemon in daemons.iter().skip(1) {
        let services = daemon.serve().await;
        assert_eq!(services.feeds.epoch(), first.feeds.epoch());
        let mut whole = subscribe_after(&services, "team", 0).await;
        assert_eq!(changes(&mut whole, expected).await, seen);
        let (middle, _) = seen.get(expected / 2).unwrap();
        let mut rest = subscribe_after(&services, "team", *middle).await;
        let rest = changes(&mut rest, expected - expected / 2 - 1).await;
        assert_eq!(rest, seen.split_at(expected / 2 + 1).1);
        // Another workspace sees the global memories, and not those of this one.
        let mut other = subscribe_after(&services, "other", 0).await;
        for (_, event) in changes(&mut other, 2).await {
            assert!(event.starts_with("remember") || event.contains("/global/"), "{event}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_with_clocks_apart_read_the_same_events_under_the_same_numbers() {
    check_daemons_agree(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_daemons_read_the_same_events_of_a_serializable_server() {
    check_daemons_agree(&["default_transaction_isolation=serializable"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_dropped_events_learns_that_it_missed_them() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (name, address) = server.new_database();
    let daemon = Daemon::start(&address).await;
    let services = daemon.serve().await;
    for number in 0..3 {
        done(&daemon, create(&format!("/memories/global/{number}.md"), "text\n")).await;
    }
    let mut live = subscribe_after(&services, "team", 0).await;
    assert_eq!(changes(&mut live, 3).await.last().unwrap().0, 3);

    // As many more events as are kept.
    let raise = format!("UPDATE counters SET last_event = last_event + {EVENTS_KEPT_MAX}");
    server.process.query(&name, &raise).unwrap();
    let owner = open(&address).await.owner("one").await.unwrap();
    let retention = Retention { age: Duration::MAX, bytes: u64::MAX };
    owner.prune(retention, Timestamp::UNIX_EPOCH).await.unwrap();
    done(&daemon, create("/memories/global/last.md", "text\n")).await;
    let last = u64::try_from(EVENTS_KEPT_MAX).unwrap() + 4;
    loop {
        match next(&mut live).await.kind {
            EventKind::StateResyncRequired(Resync { last_seen: 3, earliest, .. }) => {
                assert_eq!(earliest, last);
                break;
            }
            EventKind::ReplayComplete(_) => {}
            other => panic!("{other:?}"),
        }
    }
    let created = (last, "create /memories/global/last.md".to_owned());
    assert_eq!(next_change(&mut live).await, created);
    let second = Daemon::start(&address).await.serve().await;
    let mut late = subscribe_after(&second, "team", 3).await;
    let EventKind::StateResyncRequired(resync) = next(&mut late).await.kind else {
        panic!("the events in between are gone")
    };
    assert_eq!(resync.earliest, last);
    assert_eq!(next_change(&mut late).await, created);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_reads_the_same_events_after_tasks_were_dropped_and_says_that_changes_were() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (name, address) = server.new_database();
    let daemon = Daemon::start(&address).await;
    let services = daemon.serve().await;
    let mut live = subscribe_after(&services, "team", 0).await;
    let ids = submit(&services, &workspace("team"), ("blue", 1)).await;
    let seen = changes(&mut live, 1).await;
    assert!(seen.iter().all(|(_, event)| event.starts_with("remember")), "{seen:?}");
    services.lanes.wait(&workspace("team"), ids.first().unwrap()).await.unwrap().unwrap();
    done(&daemon, create("/memories/global/last.md", "text\n")).await;
    let last = next_change(&mut live).await;

    server.process.query(&name, "DELETE FROM tasks").unwrap();
    let later = Daemon::start(&address).await.serve().await;
    let mut whole = subscribe_after(&later, "team", 0).await;
    assert_eq!(
        changes(&mut whole, 2).await,
        [seen.as_slice(), std::slice::from_ref(&last)].concat()
    );

    // A dropped change may have been visible, so its number is a loss.
    server.process.query(&name, "DELETE FROM changes").unwrap();
    let latest = Daemon::start(&address).await.serve().await;
    let mut rest = subscribe_after(&latest, "team", last.0 - 1).await;
    let EventKind::StateResyncRequired(resync) = next(&mut rest).await.kind else {
        panic!("the change is gone")
    };
    assert_eq!((resync.last_seen, resync.earliest), (last.0 - 1, last.0 + 1));
    assert_eq!(last.1, "create /memories/global/last.md");
}
