//! Tests that need the private connection or the lock file.

use std::sync::Arc;

use memory::change::{ChangeKind, FileChange, Provenance, RootKey, Trust};
use memory::error_code::MemoryErrorCode;

use super::*;
use crate::TaskStore;
use crate::record::NewFileChange;
use crate::task::Attempt;

fn write(path: &str, text: &str) -> NewChange {
    let change = FileChange {
        root: RootKey { identity: "global".to_owned(), place: "one".to_owned() },
        path: RelativePath::parse(path).unwrap(),
        moved_to: None,
        before: None,
        after: Some(Revision::digest(text.as_bytes())),
        trust: Trust::Person,
    };
    NewChange {
        at: Timestamp::UNIX_EPOCH,
        kind: ChangeKind::Create,
        provenance: Provenance::person("cli"),
        attempt: None,
        accepts: None,
        undoes: None,
        folder: None,
        files: vec![NewFileChange {
            change,
            before: None,
            after: Some(Arc::from(text.as_bytes())),
            influenced: false,
        }],
        uses: Vec::new(),
        holds: Vec::new(),
    }
}

fn state() -> (tempfile::TempDir, SqliteState) {
    let folder = tempfile::tempdir().unwrap();
    let state = SqliteState::new(folder.path().join("state.db"));
    (folder, state)
}

/// Prevents the open database from growing.
async fn forbid_growth(state: &SqliteState) {
    let mut writer = state.writer.lock().await;
    let connection = &mut writer.as_mut().unwrap().connection;
    sqlx::query("PRAGMA max_page_count = 1").execute(connection).await.unwrap();
}

fn incompressible() -> String {
    (0_u64..9_000).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string()).collect()
}

#[tokio::test]
async fn a_full_database_refuses_a_change_whole() {
    let (_folder, state) = state();
    let first = state.record(write("a.md", "a")).await.unwrap();
    forbid_growth(&state).await;
    let error = state.record(write("b.md", &incompressible())).await.unwrap_err();
    assert!(matches!(error, StateError::Full { .. }), "{error:?}");
    assert_eq!(error.code(), MemoryErrorCode::StorageFull);
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(heads.iter().map(|head| head.change).collect::<Vec<_>>(), [first]);
    // The failed call closed its connection, and with it the transaction and the limit.
    state.record(write("b.md", &incompressible())).await.unwrap();
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_held_is_reported_as_busy() {
    let (_folder, state) = state();
    let _held = file::lock(&state.path, LockMode::Exclusive).await.unwrap();
    let error = state.record(write("a.md", "a")).await.unwrap_err();
    assert!(matches!(error, StateError::Busy { .. }), "{error:?}");
    assert_eq!(error.code(), MemoryErrorCode::Locked);
}

#[tokio::test]
async fn writers_share_the_lock_file_and_a_repair_holds_it_exclusively() {
    let (_folder, state) = state();
    let first = file::lock(&state.path, LockMode::Shared).await.unwrap();
    let second = file::lock(&state.path, LockMode::Shared).await.unwrap();
    let mut alone = Box::pin(file::lock(&state.path, LockMode::Exclusive));
    let waiting = std::future::poll_fn(|context| {
        std::task::Poll::Ready(alone.as_mut().poll(context).is_pending())
    });
    assert!(waiting.await);
    drop(first);
    drop(second);
    drop(alone.await.unwrap());
}

#[tokio::test]
async fn idle_connections_are_bounded() {
    let (_folder, state) = state();
    state.record(write("a.md", "a")).await.unwrap();
    let state = Arc::new(state);
    let reads = (0..16).map(|_| {
        let state = Arc::clone(&state);
        tokio::spawn(async move { state.heads("one", ChangeId(0)).await.unwrap().len() })
    });
    for read in reads.collect::<Vec<_>>() {
        assert_eq!(read.await.unwrap(), 1);
    }
    assert!(state.idle_readers.lock().len() <= IDLE_READERS_MAX);
}

#[tokio::test]
async fn a_content_that_is_used_again_during_pruning_stays() {
    let (_folder, state) = state();
    let old = state.record(write("a.md", "the same text")).await.unwrap();
    let mut gone = write("a.md", "the same text");
    gone.kind = ChangeKind::Delete;
    gone.files[0].change.before = gone.files[0].change.after.take();
    gone.files[0].after = None;
    let gone = state.record(gone).await.unwrap();
    state.mark_durable(&[old, gone]).await.unwrap();
    let nothing = Retention { age: std::time::Duration::ZERO, bytes: 0 };
    let mut pruning = Pruning::new(nothing, Timestamp::from_second(9).unwrap());
    let step = async |pruning: Pruning| {
        let mut writer = state.writer.lock().await;
        let connection = &mut writer.as_mut().unwrap().connection;
        pruning.step(connection).await.unwrap()
    };
    while !pruning.is_sweeping() {
        pruning = step(pruning).await;
    }
    // The content is found to be unreferenced; before it is dropped, another memory gets the same text.
    state.record(write("b.md", "the same text")).await.unwrap();
    while !pruning.is_done() {
        pruning = step(pruning).await;
    }
    assert_eq!(pruning.report.changes, 2);
    let revision = Revision::digest(b"the same text");
    assert_eq!(state.content(&revision).await.unwrap().unwrap(), b"the same text");
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn writes_after_an_unsynchronized_step_are_synchronized_again() {
    let (_folder, state) = state();
    state.record(write("a.md", "a")).await.unwrap();
    let synchronous = async || {
        let mut writer = state.writer.lock().await;
        let connection = &mut writer.as_mut().unwrap().connection;
        let level: i64 =
            sqlx::query_scalar("PRAGMA synchronous").fetch_one(connection).await.unwrap();
        level
    };
    for _ in 0..3 {
        assert_eq!(state.begin_next("here", Timestamp::UNIX_EPOCH).await.unwrap(), None);
        assert_eq!(synchronous().await, 2, "full, as for every change");
        assert!(
            !state.prepare_outcome(Attempt { task: "missing", number: 1 }, "{}").await.unwrap()
        );
        assert_eq!(synchronous().await, 2, "full, as for every change");
    }
}

#[tokio::test]
async fn a_high_priority_writer_waits_for_at_most_one_earlier_writer() {
    let (_folder, state) = state();
    let order = Mutex::new(Vec::new());
    let enter = async |priority, name| {
        let writer = state.lock_writer(priority).await;
        order.lock().push(name);
        drop(writer);
    };
    let held = state.writer.lock().await;
    let release = async || drop(held);
    // Polled in this order, so this is the order of arrival.
    tokio::join!(
        enter(Priority::Normal, "first"),
        enter(Priority::Normal, "second"),
        enter(Priority::Normal, "third"),
        enter(Priority::High, "ahead"),
        release(),
    );
    assert_eq!(*order.lock(), ["first", "ahead", "second", "third"]);
}

/// Tables that are not copied: what is open is carried out before, and the others follow from the copied rows.
const NOT_COPIED: [&str; 3] = ["_sqlx_migrations", "open_changes", "totals"];

#[tokio::test]
async fn every_table_and_column_is_copied_or_known_not_to_be() {
    use sqlx::Row as _;
    let connection = <SqliteConnection as sqlx::Connection>::connect("sqlite::memory:").await;
    let mut connection = connection.unwrap();
    open::migrate(&mut connection).await.unwrap();
    let columns = "SELECT t.name AS of, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
        WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let rows = sqlx::query(columns).fetch_all(&mut connection).await.unwrap();
    let mut found: Vec<(String, String)> =
        rows.iter().map(|row| (row.get("of"), row.get("name"))).collect();
    found.retain(|(table, _)| !NOT_COPIED.contains(&table.as_str()));
    // A number of the row that nothing refers to.
    found.retain(|column| *column != ("contents".to_owned(), "id".to_owned()));
    let tables = crate::transfer::TABLES.iter();
    let mut copied: Vec<_> = tables
        .flat_map(|table| {
            table.columns.iter().map(|column| (table.name.to_owned(), column.name.to_owned()))
        })
        .collect();
    found.sort();
    copied.sort();
    assert_eq!(copied, found);
}
