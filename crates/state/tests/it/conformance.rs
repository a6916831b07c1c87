//! SQLite passes the conformance suites of both ports.

use std::sync::{Arc, Mutex};

use lukasa_state::{HistoryStore, SqliteState, TaskStore};

#[tokio::test]
async fn sqlite_conforms_to_the_history_store() {
    let folders = Mutex::new(Vec::new());
    testkit::conformance::state::run(async || {
        let folder = tempfile::tempdir().unwrap();
        let state: Arc<dyn HistoryStore> =
            Arc::new(SqliteState::new(folder.path().join("state.db")));
        folders.lock().unwrap().push(folder);
        state
    })
    .await;
}

#[tokio::test]
async fn sqlite_conforms_to_the_task_store() {
    let folders = Mutex::new(Vec::new());
    testkit::conformance::tasks::run(async || {
        let folder = tempfile::tempdir().unwrap();
        let both = Arc::new(SqliteState::new(folder.path().join("state.db")));
        folders.lock().unwrap().push(folder);
        (Arc::clone(&both) as Arc<dyn TaskStore>, both as Arc<dyn HistoryStore>)
    })
    .await;
}
