//! Claims about the copy of a database that another program may be using.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lukasa_state::{HistoryStore, SqliteState, StateError, copy_database};
use memory::error_code::MemoryErrorCode;
use testkit::conformance::state::{path, time, write};

use crate::support::{StateFolder, fill, names, recorded_changes};

/// Returns the names and bytes of the files in a folder.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    names(folder)
        .into_iter()
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect()
}

#[tokio::test]
async fn a_copy_has_what_is_in_the_log_and_leaves_the_original_as_it_is() {
    let place = StateFolder::new();
    let state = place.state();
    let ids = fill(&state, 3).await;
    state.set_pin(("global", &path("a.md")), true, time(1)).await.unwrap();
    // The state stays open, so that its log is not written back.
    assert!(place.names().iter().any(|name| name.ends_with("-wal")), "{:?}", place.names());
    let before = files(place.path().parent().unwrap());
    let elsewhere = tempfile::tempdir().unwrap();
    let to = elsewhere.path().join("copy.db");
    copy_database(&place.path(), &to).await.unwrap();
    assert_eq!(files(place.path().parent().unwrap()), before);
    let copy = SqliteState::new(to);
    assert_eq!(recorded_changes(&copy).await, ids);
    assert!(copy.usage_rows("global").await.unwrap().iter().any(|mark| mark.pinned));
    // What is done to the copy is done to the copy alone.
    copy.record(write("one", "later.md", "x").build()).await.unwrap();
    copy.close().await;
    assert_eq!(files(place.path().parent().unwrap()), before);
}

#[tokio::test]
async fn a_copy_beside_a_busy_writer_is_of_one_moment() {
    let place = StateFolder::new();
    let state = Arc::new(place.state());
    fill(&state, 1).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn({
        let (state, is_over) = (Arc::clone(&state), Arc::clone(&is_over));
        async move {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                let made = write("one", &format!("{count}.md"), &"text\n".repeat(100));
                state.record(made.build()).await.unwrap();
                count += 1;
            }
        }
    });
    let elsewhere = tempfile::tempdir().unwrap();
    let to = elsewhere.path().join("copy.db");
    match copy_database(&place.path(), &to).await {
        Err(StateError::Busy { .. }) => {}
        copied => copied.unwrap(),
    }
    is_over.store(true, Ordering::Relaxed);
    writing.await.unwrap();
    copy_database(&place.path(), &to).await.unwrap();
    let copy = SqliteState::new(to);
    assert_eq!(copy.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(recorded_changes(&copy).await, recorded_changes(&state).await);
}

#[tokio::test]
async fn what_cannot_be_copied_is_named() {
    let place = StateFolder::new();
    let to = place.path().with_extension("copy");
    let error = copy_database(&place.path(), &to).await.unwrap_err();
    assert_eq!(error.code(), MemoryErrorCode::StorageFailed);
    assert!(matches!(error, StateError::Unavailable { .. }), "{error}");
    fs::create_dir(place.path()).unwrap();
    let error = copy_database(&place.path(), &to).await.unwrap_err();
    assert!(matches!(error, StateError::Unavailable { .. }), "{error}");
    assert!(!to.exists());
}
