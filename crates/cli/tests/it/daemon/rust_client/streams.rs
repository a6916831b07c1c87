//! Tests of event streams in the Rust client: no event is lost or duplicated when connections are cut.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use protocol::client::{ClientError, Cursor, EventStream, StartFrom};
use protocol::error::ErrorCode;
use protocol::event::{Envelope, Event, MemoryChanged, ResyncRequired};
use tokio::time::timeout;

use super::{TcpProxy, client, client_at, refusal, remembered};
use crate::daemon::{Daemon, PATIENCE};

async fn next(events: &mut EventStream) -> Envelope {
    timeout(PATIENCE, events.next()).await.expect("an event comes").unwrap().unwrap()
}

/// Returns the number and the memory of the next event of a changed memory.
async fn changed(events: &mut EventStream) -> (u64, String) {
    loop {
        let Envelope { id, event, .. } = next(events).await;
        match event {
            Event::MemoryChanged(MemoryChanged::File { path, .. }) => return (id.unwrap(), path),
            Event::ReplayComplete(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

fn named(id: u64, name: &str) -> (u64, String) {
    (id, format!("/memories/global/{name}.md"))
}

/// Creates memories with these names.
async fn make(daemon: &Daemon, names: &[&str]) {
    for name in names {
        client(daemon).create(&format!("/memories/global/{name}.md"), "x\n").await.unwrap();
    }
}

#[tokio::test]
async fn a_stream_continues_after_a_cut() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let line = TcpProxy::to(daemon.address());
    make(&daemon, &["before"]).await;
    let mut events = client_at(&line.url()).events(StartFrom::Now).await.unwrap();
    // The connection is cut before the first event, and events in the meantime still arrive.
    line.cut();
    make(&daemon, &["a", "b"]).await;
    assert_eq!(changed(&mut events).await, named(2, "a"));
    assert_eq!(changed(&mut events).await, named(3, "b"));
    for (id, name) in [(4, "c"), (5, "d"), (6, "e")] {
        line.cut();
        make(&daemon, &[name]).await;
        assert_eq!(changed(&mut events).await, named(id, name));
    }
    // A cancelled wait loses no event.
    while let Ok(told) = timeout(Duration::ZERO, events.next()).await {
        assert!(matches!(told.unwrap().unwrap().event, Event::ReplayComplete(_)));
    }
    make(&daemon, &["f"]).await;
    assert_eq!(changed(&mut events).await, named(7, "f"));

    let cursor = events.cursor().unwrap().clone();
    assert_eq!(cursor.last_seen, 7);
    drop(events);
    make(&daemon, &["g"]).await;
    let mut later = client(&daemon).events(StartFrom::After(cursor)).await.unwrap();
    assert_eq!(changed(&mut later).await, named(8, "g"));
    let all = client(&daemon).events(StartFrom::Oldest).await.unwrap().into_stream();
    let mut all = pin!(all);
    for id in 1..=8 {
        assert_eq!(all.try_next().await.unwrap().unwrap().id, Some(id));
    }
}

#[tokio::test]
async fn a_restarted_daemon_reports_a_possible_gap() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let line = TcpProxy::to(daemon.address());
    let mut events = client_at(&line.url()).events(StartFrom::Now).await.unwrap();
    make(&daemon, &["a", "b"]).await;
    assert_eq!(changed(&mut events).await, named(1, "a"));
    assert_eq!(changed(&mut events).await, named(2, "b"));
    daemon.kill();
    line.cut();
    let daemon = Daemon::start(&place);
    line.redirect_to(daemon.address());
    let resync = next(&mut events).await;
    let Event::StateResyncRequired(ResyncRequired { reason, last_delivered_id, .. }) = resync.event
    else {
        panic!("{resync:?}")
    };
    assert_eq!((reason.as_str(), last_delivered_id), ("epoch_reset", 2));
    // From here on the numbers restart, also after a cut.
    line.cut();
    make(&daemon, &["c"]).await;
    assert_eq!(changed(&mut events).await, named(1, "c"));
    line.cut();
    make(&daemon, &["d"]).await;
    assert_eq!(changed(&mut events).await, named(2, "d"));
}

#[tokio::test]
async fn a_cut_before_the_first_frame_still_reports_a_possible_gap() {
    let (place, daemon) = Daemon::in_new_sandbox();
    let line = TcpProxy::to(daemon.address());
    let mut events = client_at(&line.url()).events(StartFrom::Now).await.unwrap();
    make(&daemon, &["a"]).await;
    assert_eq!(changed(&mut events).await, named(1, "a"));
    daemon.kill();
    let daemon = Daemon::start(&place);
    make(&daemon, &["b"]).await;
    line.redirect_to(daemon.address());
    line.cut_after_heads(2);
    line.cut();
    let resync = next(&mut events).await;
    assert!(matches!(resync.event, Event::StateResyncRequired(_)), "{resync:?}");
    assert_eq!(events.cursor().unwrap().last_seen, 0);
}

#[tokio::test]
async fn a_stream_that_is_read_once_ends_with_the_daemon() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let mut events = client(&daemon).events(StartFrom::Now).await.unwrap().without_reconnect();
    daemon.signal("TERM");
    assert_eq!(events.next().await.unwrap(), None);
    assert_eq!(events.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_session_receives_tasks_until_it_ends() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let anybody = client(&daemon);
    let session = anybody.begin_session(None).await.unwrap();
    let ours = anybody.clone().with_client_id(&session.client_id).unwrap();
    let mut events = ours.session_events(&session.session_id, StartFrom::Oldest).await.unwrap();
    assert!(matches!(next(&mut events).await.event, Event::ReplayComplete(_)));
    let task = remembered(&ours, "I like tea.").await;
    let told = next(&mut events).await;
    assert_eq!(told.originator_client_id.as_ref(), Some(&session.client_id));
    let Event::MemoryChanged(MemoryChanged::Managed { task_id, .. }) = told.event else { panic!() };
    assert_eq!(task_id, task.task_id);
    ours.end_session(&session.session_id).await.unwrap();
    assert_eq!(refusal(events.next().await).code, ErrorCode::SessionNotFound);
}

#[tokio::test]
async fn a_stream_that_cannot_be_opened_has_an_error() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let client = client(&daemon);
    let refused = refusal(client.session_events("nowhere", StartFrom::Now).await);
    assert_eq!(refused.code, ErrorCode::SessionNotFound);
    let refused = refusal(client.clone().in_workspace("nowhere").events(StartFrom::Now).await);
    assert_eq!(refused.code, ErrorCode::WorkspaceNotFound);
    let cursor = Cursor { last_seen: 1, epoch: Some("a\nb".to_owned()) };
    let unsendable = client.events(StartFrom::After(cursor)).await.unwrap_err();
    assert!(matches!(unsendable, ClientError::Unsendable("the epoch")), "{unsendable:?}");
    daemon.kill();
    let gone = client.events(StartFrom::Now).await.unwrap_err();
    assert!(matches!(gone, ClientError::Unreachable(_)), "{gone:?}");
}
