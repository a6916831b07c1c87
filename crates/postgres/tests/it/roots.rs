//! Roots whose files are rows: the conformance suite, locks that are lost, and a store on top.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use lukasa_postgres::{Database, DatabaseSettings, OwnerState};
use memory::change::{ChangeId, DatabaseId};
use memory::path::RelativePath;
use state::{HistoryStore as _, LockHold, StateError};
use store::backend::{Backend as _, BackendError, Expect};
use testkit::conformance::backend::{ExternalWriter, Harness};
use testkit::conformance::state::write;
use testkit::postgres::PostgresVersion;

use crate::support::{Server, open};

/// Time after which a lock of a stopped daemon is free.
const LEASE: Duration = Duration::from_millis(300);
/// Longest wait for a lock.
const WAIT: Duration = Duration::from_secs(30);
/// The database of the writers.
const RECORDER: DatabaseId = DatabaseId(7);

fn path(text: &str) -> RelativePath {
    text.parse().unwrap()
}

/// Another program that writes rows, without the lock.
#[derive(Debug)]
struct SqlWriter {
    server: Arc<Server>,
    database: String,
    place: String,
}

impl SqlWriter {
    fn run(&self, statement: &str) {
        let sql = format!(
            "WITH v AS (INSERT INTO roots (owner, place, last_version, is_created)
                SELECT id, '{place}', 1, true FROM owners
                ON CONFLICT (owner, place) DO UPDATE SET last_version = roots.last_version + 1, is_created = true
                RETURNING owner, last_version)
            {statement}",
            place = self.place,
        );
        self.server.process.query(&self.database, &sql).unwrap();
    }
}

impl ExternalWriter for SqlWriter {
    fn write(&self, path: &RelativePath, bytes: &[u8]) {
        let mut hex = String::new();
        for byte in bytes {
            write!(hex, "{byte:02x}").unwrap();
        }
        let folders = std::iter::successors(path.parent(), RelativePath::parent);
        for folder in folders {
            self.run(&format!(
                "INSERT INTO files (owner, place, path, version, modified_at)
                SELECT owner, '{}', '{folder}', last_version, 0 FROM v ON CONFLICT DO NOTHING",
                self.place
            ));
        }
        self.run(&format!(
            "INSERT INTO files (owner, place, path, bytes, version, modified_at)
            SELECT owner, '{}', '{path}', decode('{hex}', 'hex'), last_version, 0 FROM v
            ON CONFLICT (owner, place, path) DO UPDATE SET bytes = excluded.bytes, version = excluded.version",
            self.place
        ));
    }

    fn remove(&self, path: &RelativePath) {
        self.run(&format!(
            "DELETE FROM files USING v WHERE place = '{}' AND (path = '{path}' OR path LIKE '{path}/%')",
            self.place
        ));
    }

    fn link(&self, _path: &RelativePath) {
        unreachable!("rows hold no links")
    }

    fn pipe(&self, _path: &RelativePath) {
        unreachable!("rows hold no pipes")
    }

    fn temporary(&self, _path: &RelativePath) {
        unreachable!("bytes that are not in place are in memory")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_in_rows_conforms_to_the_backend() {
    for version in [PostgresVersion::Debian, PostgresVersion::Newest] {
        let server =
            Arc::new(Server::start(version, &["default_transaction_isolation=serializable"]));
        let (database, address) = server.new_database();
        let daemons = [open(&address).await, open(&address).await];
        let owners =
            [daemons[0].owner("one").await.unwrap(), daemons[1].owner("one").await.unwrap()];
        let roots = AtomicU32::new(0);
        testkit::conformance::backend::run(|| {
            let place = format!("place {}", roots.fetch_add(1, Ordering::Relaxed));
            Harness {
                backend: Arc::new(owners[0].root(&place)),
                peer: Arc::new(owners[1].root(&place)),
                external_writer: Box::new(SqlWriter {
                    server: Arc::clone(&server),
                    database: database.clone(),
                    place,
                }),
                holds_only_files: true,
                keep_alive: Box::new(()),
            }
        })
        .await;
    }
}

/// Opens the owner of a database as a daemon whose locks are soon free if it stops.
async fn impatient_owner(address: &str) -> OwnerState {
    let settings = DatabaseSettings { lease: LEASE, ..DatabaseSettings::default() };
    Database::open(address, settings).await.unwrap().owner("one").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_renewed_while_it_is_held() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (_, address) = server.new_database();
    let (one, other) = (impatient_owner(&address).await, impatient_owner(&address).await);
    let held = one.root("a").lock(RECORDER, WAIT).await.unwrap();
    let waited = other.root("a").lock(RECORDER, LEASE * 4).await;
    assert!(matches!(waited, Err(BackendError::Locked(_))), "{waited:?}");
    drop(held);
    other.root("a").lock(RECORDER, WAIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_holder_writes_and_records_nothing() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (name, address) = server.new_database();
    let (one, other) = (impatient_owner(&address).await, impatient_owner(&address).await);
    let (late, root) = (one.root("a"), other.root("a"));
    let mut late_lock = late.lock(RECORDER, WAIT).await.unwrap();
    late_lock.begin().await.unwrap();
    let holds = vec![LockHold { place: "a".to_owned(), fence: late_lock.fence().unwrap() }];
    let mut change = write("a", "late.md", "late").build();
    change.holds = holds;
    let mut first = write("a", "first.md", "first").build();
    first.holds.clone_from(&change.holds);
    let first = one.record(first).await.unwrap();
    // The time limit passes, as for a daemon that was stopped: it renews nothing.
    server.process.query(&name, "UPDATE leases SET until = now() - interval '1 s'").unwrap();
    let mut lock = root.lock(RECORDER, WAIT).await.unwrap();
    assert!(lock.was_interrupted(), "the next holder recovers");
    assert!(lock.fence() > late_lock.fence());

    let staged = late.stage(&path("late.md"), Arc::from(*b"late")).await.unwrap();
    let refused = [
        staged.publish(Expect::Absent).await,
        late.remove_empty(&path("d")).await,
        late.rename(&path("a.md"), &path("b.md")).await,
        late_lock.end(None).await,
        late_lock.begin().await,
    ];
    for refused in refused {
        assert!(matches!(refused, Err(BackendError::Locked(_))), "{refused:?}");
    }
    let recorded = one.record(change.clone()).await;
    assert!(matches!(recorded, Err(StateError::Busy { .. })), "{recorded:?}");
    // The next holder may have carried the first change out.
    let withdrawn = one.abort_change(first).await;
    assert!(matches!(withdrawn, Err(StateError::Busy { .. })), "{withdrawn:?}");
    drop(late_lock);

    lock.begin().await.unwrap();
    let staged = root.stage(&path("a.md"), Arc::from(*b"text")).await.unwrap();
    staged.publish(Expect::Absent).await.unwrap();
    lock.end(None).await.unwrap();
    let fence = lock.fence().unwrap();
    change.holds = vec![LockHold { place: "a".to_owned(), fence }];
    assert_eq!(other.record(change).await.unwrap(), ChangeId(2), "no number was lost");
    drop(lock);
    assert_eq!(root.count().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_of_which_a_crash_lost_a_step_never_ends() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (name, address) = server.new_database();
    let root = impatient_owner(&address).await.root("a");
    let publish = async |name: &str| {
        let staged = root.stage(&path(name), Arc::from(*b"text")).await.unwrap();
        staged.publish(Expect::Absent).await
    };
    let last_version = || server.process.query(&name, "SELECT last_version FROM roots").unwrap();
    for loses_start in [false, true] {
        let mut lock = root.lock(RECORDER, WAIT).await.unwrap();
        let before = last_version();
        lock.begin().await.unwrap();
        publish(&format!("{loses_start}.md")).await.unwrap();
        // What a crash of the server leaves that lost the last commits.
        let writing = if loses_start { "writes = writes - 1, writing = false," } else { "" };
        let lose = format!(
            "DELETE FROM files WHERE path = '{loses_start}.md';
            UPDATE roots SET {writing} last_version = {}",
            if before.is_empty() { "0" } else { before.trim() }
        );
        server.process.query(&name, &lose).unwrap();
        let refused = [publish("next.md").await, lock.end(Some(ChangeId(1))).await];
        for refused in refused {
            assert!(matches!(refused, Err(BackendError::Locked(_))), "{refused:?}");
        }
        drop(lock);
        let mut lock = root.lock(RECORDER, WAIT).await.unwrap();
        assert_eq!((lock.was_interrupted(), lock.completed()), (!loses_start, None));
        lock.begin().await.unwrap();
        lock.end(None).await.unwrap();
    }
    assert_eq!(root.count().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_daemons_get_a_lock_one_after_the_other() {
    let server = Server::start(PostgresVersion::Debian, &[]);
    let (_, address) = server.new_database();
    let owner = impatient_owner(&address).await;
    let mut tasks = Vec::new();
    for number in 0..4 {
        let root = impatient_owner(&address).await.root("a");
        tasks.push(tokio::spawn(async move {
            for round in 0..10 {
                let mut lock = root.lock(RECORDER, WAIT).await.unwrap();
                lock.begin().await.unwrap();
                let name = path(&format!("{number}-{round}.md"));
                let staged = root.stage(&name, Arc::from(*b"text")).await.unwrap();
                staged.publish(Expect::Absent).await.unwrap();
                lock.end(None).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let root = owner.root("a");
    assert_eq!(root.count().await.unwrap(), 40);
    let lock = root.lock(RECORDER, WAIT).await.unwrap();
    assert_eq!((lock.generation(), lock.was_interrupted()), (40, false));
}
