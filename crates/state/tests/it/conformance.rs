//! SQLite passes the suite that every state passes.

use std::sync::{Arc, Mutex};

use state::{SqliteState, State};

#[tokio::test]
async fn sqlite_is_a_state() {
    let folders = Mutex::new(Vec::new());
    testkit::conformance::state::run(async || {
        let folder = tempfile::tempdir().unwrap();
        let state: Arc<dyn State> = Arc::new(SqliteState::new(folder.path().join("state.db")));
        folders.lock().unwrap().push(folder);
        state
    })
    .await;
}
