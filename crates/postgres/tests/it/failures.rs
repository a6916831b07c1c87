//! Lost connections, killed servers, and databases that this program must not use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lukasa_postgres::{Database, DatabaseSettings, OpenError};
use memory::change::ChangeId;
use state::{ChangeQuery, HistoryStore as _, StateError};
use testkit::conformance::state::write;
use testkit::postgres::PostgresVersion;
use testkit::tcp_proxy::TcpProxy;
use tokio::sync::watch;

use crate::support::{Server, open};

/// Connections of a daemon with a short limit of calls.
const CONNECTIONS_MAX: u32 = 4;

/// A short limit of calls, for connections that are silent.
fn impatient() -> DatabaseSettings {
    let call_wait = Duration::from_millis(300);
    DatabaseSettings { connections_max: CONNECTIONS_MAX, call_wait, ..DatabaseSettings::default() }
}

fn is_unreachable<T: std::fmt::Debug>(result: Result<T, StateError>) -> bool {
    match result {
        Err(StateError::Unreachable { .. }) => true,
        Err(error) => panic!("{error:?}"),
        Ok(_) => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    let mut server = Server::start(PostgresVersion::Debian, &[]);
    let (_, address) = server.new_database();
    let owner = open(&address).await.owner("one").await.unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        let writing = owner.clone();
        let writer = tokio::spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0.. {
                let change = write("a", &format!("{round}-{number}.md"), "text").build();
                match writing.record(change).await {
                    Ok(id) => acknowledged.push(id),
                    Err(StateError::Unreachable { .. }) => break,
                    Err(error) => panic!("{error:?}"),
                }
            }
            acknowledged
        });
        testkit::delay_fault(Duration::from_millis(200));
        server.process.kill().unwrap();
        acknowledged.extend(writer.await.unwrap());
        assert!(is_unreachable(owner.heads("a", ChangeId(0)).await));
        server.process.restart().unwrap();
    }
    assert!(acknowledged.len() > 10, "{} changes", acknowledged.len());
    let query = ChangeQuery { max: 1_000_000, ..ChangeQuery::default() };
    let stored: Vec<_> = owner.changes(&query).await.unwrap().iter().map(|c| c.id).collect();
    for id in acknowledged {
        assert!(stored.contains(&id), "change {id} was acknowledged and is lost");
    }
    assert_eq!(owner.check().await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_a_synchronous_standby_takes_over() {
    let mut primary = Server::start(PostgresVersion::Debian, &[]);
    let (name, address) = primary.new_database();
    open(&address).await.close().await;
    let standby = primary.process.start_synchronous_standby().unwrap();
    let proxy = TcpProxy::start(primary.process.port()).unwrap();
    let address = format!("postgres://lukasa@127.0.0.1:{}/{name}", proxy.port());
    let owner = open(&address).await.owner("one").await.unwrap();
    let writing = owner.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let (count, counted) = watch::channel(0);
    let writer = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0.. {
            if stopped.load(Ordering::Relaxed) {
                break;
            }
            let change = write("a", &format!("{number}.md"), "text").build();
            match writing.record(change).await {
                Ok(id) => acknowledged.push((number, id)),
                Err(StateError::Unreachable { .. }) => {}
                Err(error) => panic!("{error:?}"),
            }
            count.send_replace(acknowledged.len());
        }
        acknowledged
    });
    let wait_for = async |more: usize| {
        let end = *counted.borrow() + more;
        counted.clone().wait_for(|count| *count >= end).await.map(drop).unwrap();
    };
    wait_for(20).await;
    primary.process.kill().unwrap();
    standby.promote().unwrap();
    proxy.redirect(standby.port());
    wait_for(20).await;
    stop.store(true, Ordering::Relaxed);
    let acknowledged = writer.await.unwrap();
    let query = ChangeQuery { max: 1_000_000, ..ChangeQuery::default() };
    let stored = owner.changes(&query).await.unwrap();
    for (number, id) in &acknowledged {
        let change = stored.iter().find(|change| change.id == *id);
        let change = change.unwrap_or_else(|| panic!("change {id} was acknowledged and is lost"));
        assert_eq!(change.files[0].path.to_string(), format!("{number}.md"));
    }
    assert!(stored.windows(2).all(|pair| pair[0].id.0 == pair[1].id.0 + 1), "no gaps");
    assert_eq!(owner.check().await.unwrap(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_fails_while_the_network_is_away_and_later_ones_succeed() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (name, _) = server.new_database();
    let proxy = TcpProxy::start(server.process.port()).unwrap();
    let address = format!("postgres://lukasa@127.0.0.1:{}/{name}", proxy.port());
    let owner = Database::open(&address, impatient()).await.unwrap().owner("one").await.unwrap();
    owner.record(write("a", "1.md", "text").build()).await.unwrap();
    for fault in [TcpProxy::cut, TcpProxy::freeze] {
        fault(&proxy);
        for _ in 0..6 {
            assert!(is_unreachable(owner.heads("a", ChangeId(0)).await));
            assert!(is_unreachable(owner.record(write("a", "2.md", "text").build()).await));
        }
        proxy.mend();
        // Connections from before may be dead, and each costs a call.
        let calls_max = 2 * CONNECTIONS_MAX;
        let mut calls = 0;
        while is_unreachable(owner.heads("a", ChangeId(0)).await) {
            calls += 1;
            assert!(calls < calls_max, "the connections do not recover");
        }
        owner.record(write("a", "3.md", "text").build()).await.unwrap();
    }
}

#[tokio::test]
async fn a_database_of_a_later_version_is_refused_and_stays() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (name, address) = server.new_database();
    open(&address).await.close().await;
    server.process.query(&name, "UPDATE schema_version SET version = 99").unwrap();
    let error = Database::open(&address, DatabaseSettings::default()).await.unwrap_err();
    let is_newer = matches!(error, OpenError::State(StateError::Newer { found: 99, .. }));
    assert!(is_newer, "{error:?}");
    assert_eq!(server.process.query(&name, "SELECT version FROM schema_version").unwrap(), "99\n");
}

#[tokio::test]
async fn an_error_shows_nothing_of_a_password() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let port = server.process.port();
    let open = async |address: &str| {
        let error = Database::open(address, DatabaseSettings::default()).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        error
    };
    let missing = open(&format!("postgres://lukasa:secret@127.0.0.1:{port}/missing")).await;
    assert!(matches!(missing, OpenError::State(StateError::Refused { .. })), "{missing:?}");
    for address in [
        "sqlite://secret",
        "secret",
        "",
        "postgres://lukasa:secret@:x/",
        "postgres://lukasa:a@secret/b@127.0.0.1/lukasa",
        "postgres://lukasa@127.0.0.1/lukasa?sslmode=secret",
    ] {
        let error = open(address).await;
        assert!(matches!(error, OpenError::Address(_)), "{address}: {error:?}");
    }
}
