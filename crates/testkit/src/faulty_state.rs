//! A history store that fails as a test specifies.

use std::collections::HashMap;
use std::sync::Arc;

use memory::change::{ChangeId, DatabaseId, MemoryChange, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use state::{
    ChangeQuery, Head, HistoryStore, NewChange, OpenChange, PathChange, PruneReport, Retention,
    StateError, Stats, UsageRow, UseEvent,
};

use crate::faults::{FaultInjector, Faults, faulty};
use crate::faulty_backend::FaultPlan;

/// A wrapper of a history store that fails according to [`Faults`].
#[derive(Debug)]
pub struct FaultyState {
    inner: Arc<dyn HistoryStore>,
    injector: Arc<FaultInjector>,
}

impl FaultyState {
    /// Wraps a store; nothing fails yet.
    pub fn new(inner: Arc<dyn HistoryStore>) -> Self {
        Self { inner, injector: Arc::default() }
    }

    /// Wraps a store whose calls are steps of a plan. Backends share the plan, so that all of them crash at the same
    /// step.
    pub fn sharing(inner: Arc<dyn HistoryStore>, plan: Arc<FaultPlan>) -> Self {
        Self { inner, injector: Arc::new(FaultInjector::with_plan(plan)) }
    }

    /// Sets the failing calls, counted from now.
    pub fn set(&self, faults: Faults) {
        self.injector.set(faults);
    }

    /// Returns the number of calls since the faults were set.
    pub fn calls(&self) -> u64 {
        self.injector.calls()
    }

    /// Returns the number of calls that have not returned yet.
    pub fn pending(&self) -> u64 {
        self.injector.pending()
    }

    pub(crate) fn injector(&self) -> Arc<FaultInjector> {
        Arc::clone(&self.injector)
    }
}

faulty! {
    HistoryStore for FaultyState {
        async fn close(&self) {
            self.inner.close().await;
        }
    }
    record(change: NewChange) -> ChangeId;
    database_id() -> DatabaseId;
    raise_change_number(given: ChangeId) -> ();
    abort_change(id: ChangeId) -> ();
    mark_durable(ids: &[ChangeId]) -> ();
    open_changes(place: &str) -> Vec<OpenChange>;
    heads(place: &str, after: ChangeId) -> Vec<Head>;
    recorded_revisions(identity: &str) -> HashMap<Revision, Trust>;
    influenced_revisions(identity: &str) -> HashMap<Revision, ChangeId>;
    changes(query: &ChangeQuery) -> Vec<MemoryChange>;
    last_changes(place: &str, paths: &[RelativePath], max: usize) -> Vec<PathChange>;
    change(id: ChangeId) -> Option<MemoryChange>;
    content(revision: &Revision) -> Option<Vec<u8>>;
    add_uses(uses: &[UseEvent]) -> ();
    usage_rows(identity: &str) -> Vec<UsageRow>;
    set_pin(mark: (&str, &RelativePath), pinned: bool, at: Timestamp) -> bool;
    merge_marks(identity: &str, marks: &[UsageRow]) -> ();
    drop_usage(identity: &str, paths: Option<&[RelativePath]>) -> ();
    prune(retention: Retention, now: Timestamp) -> PruneReport;
    stats() -> Stats;
    check() -> Vec<String>;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use state::SqliteState;

    use super::*;
    use crate::conformance::state::write;

    /// Records five memories; returns the numbers of the failed calls and the recorded changes.
    async fn outcome(faults: Faults) -> (Vec<usize>, Vec<i64>) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Arc::new(SqliteState::new(folder.path().join("state.db")));
        let state = FaultyState::new(Arc::clone(&sqlite) as Arc<dyn HistoryStore>);
        state.set(faults);
        let mut failed = Vec::new();
        for number in 1..=5 {
            let builder = write("one", &format!("{number}.md"), "text");
            if state.record(builder.build()).await.is_err() {
                failed.push(number);
            }
        }
        assert_eq!(state.calls(), 5);
        let heads = sqlite.heads("one", ChangeId(0)).await.unwrap();
        (failed, heads.iter().map(|head| head.change.0).collect())
    }

    #[tokio::test]
    async fn only_the_specified_calls_fail() {
        assert_eq!(outcome(Faults::Never).await, (vec![], vec![1, 2, 3, 4, 5]));
        assert_eq!(outcome(Faults::Call(2)).await, (vec![2], vec![1, 2, 3, 4]));
        assert_eq!(outcome(Faults::CrashAfter(3)).await, (vec![4, 5], vec![1, 2, 3]));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(3)).await, (vec![3, 4, 5], vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn without_faults_the_wrapper_conforms_to_the_history_store() {
        let folder = tempfile::tempdir().unwrap();
        let count = AtomicU64::new(0);
        crate::conformance::state::run(async || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let inner = SqliteState::new(folder.path().join(format!("{number}.db")));
            Arc::new(FaultyState::new(Arc::new(inner))) as Arc<dyn HistoryStore>
        })
        .await;
    }
}
