//! A state that fails when a test wants it to.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use memory::change::{Change, ChangeId, Trust};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use state::{
    ChangeQuery, Head, Mark, NewChange, OpenChange, PathChange, Pruned, Retention, State,
    StateError, Stats, Use,
};

use crate::faults::{Fates, Faults};
use crate::faulty_backend::Plan;

/// A state around another that fails according to [`Faults`].
#[derive(Debug)]
pub struct FaultyState {
    inner: Arc<dyn State>,
    fates: Arc<Fates>,
}

impl FaultyState {
    /// Wraps a state; nothing fails yet.
    pub fn new(inner: Arc<dyn State>) -> Self {
        Self { inner, fates: Arc::default() }
    }

    /// Wraps a state whose calls are steps of a plan that it shares with backends, so that all of
    /// them die at once.
    pub fn sharing(inner: Arc<dyn State>, plan: Arc<Plan>) -> Self {
        Self { inner, fates: Arc::new(Fates::of(plan)) }
    }

    /// Sets which calls fail, counted from here.
    pub fn set(&self, faults: Faults) {
        self.fates.set(faults);
    }

    /// Returns how many calls there were since then.
    pub fn calls(&self) -> u64 {
        self.fates.calls()
    }

    /// Returns how many calls were made and have not returned.
    pub fn pending(&self) -> u64 {
        self.fates.pending()
    }

    pub(crate) fn fates(&self) -> Arc<Fates> {
        Arc::clone(&self.fates)
    }
}

#[async_trait]
impl State for FaultyState {
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError> {
        self.fates.run(self.inner.record(change)).await
    }

    async fn number_above(&self, given: ChangeId) -> Result<(), StateError> {
        self.fates.run(self.inner.number_above(given)).await
    }

    async fn withdraw(&self, id: ChangeId) -> Result<(), StateError> {
        self.fates.run(self.inner.withdraw(id)).await
    }

    async fn settle(&self, ids: &[ChangeId]) -> Result<(), StateError> {
        self.fates.run(self.inner.settle(ids)).await
    }

    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError> {
        self.fates.run(self.inner.open_changes(place)).await
    }

    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError> {
        self.fates.run(self.inner.heads(place, after)).await
    }

    async fn recorded(&self, identity: &str) -> Result<HashMap<Revision, Trust>, StateError> {
        self.fates.run(self.inner.recorded(identity)).await
    }

    async fn influenced(&self, identity: &str) -> Result<HashMap<Revision, ChangeId>, StateError> {
        self.fates.run(self.inner.influenced(identity)).await
    }

    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<Change>, StateError> {
        self.fates.run(self.inner.changes(query)).await
    }

    async fn last_changes(
        &self,
        place: &str,
        paths: &[RelativePath],
        max: usize,
    ) -> Result<Vec<PathChange>, StateError> {
        self.fates.run(self.inner.last_changes(place, paths, max)).await
    }

    async fn change(&self, id: ChangeId) -> Result<Option<Change>, StateError> {
        self.fates.run(self.inner.change(id)).await
    }

    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError> {
        self.fates.run(self.inner.content(revision)).await
    }

    async fn add_uses(&self, uses: &[Use]) -> Result<(), StateError> {
        self.fates.run(self.inner.add_uses(uses)).await
    }

    async fn marks(&self, identity: &str) -> Result<Vec<Mark>, StateError> {
        self.fates.run(self.inner.marks(identity)).await
    }

    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.fates.run(self.inner.set_pin(mark, pinned, at)).await
    }

    async fn drop_marks(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError> {
        self.fates.run(self.inner.drop_marks(identity, paths)).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StateError> {
        self.fates.run(self.inner.prune(retention, now)).await
    }

    async fn stats(&self) -> Result<Stats, StateError> {
        self.fates.run(self.inner.stats()).await
    }

    async fn check(&self) -> Result<Vec<String>, StateError> {
        self.fates.run(self.inner.check()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use state::SqliteState;

    use super::*;
    use crate::conformance::state::write;

    /// Records five memories, and returns which calls failed and which are recorded.
    async fn outcome(faults: Faults) -> (Vec<usize>, Vec<i64>) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Arc::new(SqliteState::new(folder.path().join("state.db")));
        let state = FaultyState::new(Arc::clone(&sqlite) as Arc<dyn State>);
        state.set(faults);
        let mut failed = Vec::new();
        for number in 1..=5 {
            let made = write("one", &format!("{number}.md"), "text");
            if state.record(made.to_record()).await.is_err() {
                failed.push(number);
            }
        }
        assert_eq!(state.calls(), 5);
        let heads = sqlite.heads("one", ChangeId(0)).await.unwrap();
        (failed, heads.iter().map(|head| head.change.0).collect())
    }

    #[tokio::test]
    async fn the_calls_that_the_test_names_fail() {
        assert_eq!(outcome(Faults::Never).await, (vec![], vec![1, 2, 3, 4, 5]));
        assert_eq!(outcome(Faults::Call(2)).await, (vec![2], vec![1, 2, 3, 4]));
        assert_eq!(outcome(Faults::CrashAfter(3)).await, (vec![4, 5], vec![1, 2, 3]));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(3)).await, (vec![3, 4, 5], vec![1, 2, 3]));
    }

    #[tokio::test]
    async fn without_faults_it_is_the_state_inside() {
        let folder = tempfile::tempdir().unwrap();
        let count = AtomicU64::new(0);
        crate::conformance::state::run(async || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let inner = SqliteState::new(folder.path().join(format!("{number}.db")));
            Arc::new(FaultyState::new(Arc::new(inner))) as Arc<dyn State>
        })
        .await;
    }
}
