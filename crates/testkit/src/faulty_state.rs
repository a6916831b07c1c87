//! A state that fails when a test wants it to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory::change::{Change, ChangeId};
use memory::clock::Timestamp;
use memory::document::Revision;
use memory::path::RelativePath;
use state::{
    ChangeQuery, Head, Mark, NewChange, OpenChange, Pruned, Retention, State, StateError, Stats,
    Use,
};

use crate::faulty_backend::{self, Plan};

/// Which calls of a [`FaultyState`] fail; the first call after the plan is set is number 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Faults {
    /// None.
    #[default]
    Never,
    /// This one alone, without any effect.
    Call(u64),
    /// All after this one, as if the process had died then.
    CrashAfter(u64),
    /// This one has its effect and is never answered, and all after it fail.
    CrashBeforeAnswer(u64),
}

/// A state around another that fails according to [`Faults`].
#[derive(Debug)]
pub struct FaultyState {
    inner: Arc<dyn State>,
    plan: Option<Arc<Plan>>,
    faults: Mutex<Faults>,
    calls: AtomicU64,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Lost,
    Refused,
}

impl FaultyState {
    /// Wraps a state; nothing fails yet.
    pub fn new(inner: Arc<dyn State>) -> Self {
        Self { inner, plan: None, faults: Mutex::default(), calls: AtomicU64::new(0) }
    }

    /// Wraps a state whose calls are steps of a plan that it shares with backends, so that all of
    /// them die at once.
    pub fn sharing(inner: Arc<dyn State>, plan: Arc<Plan>) -> Self {
        Self { plan: Some(plan), ..Self::new(inner) }
    }

    /// Sets which calls fail, counted from here.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
        self.calls.store(0, Ordering::SeqCst);
    }

    /// Returns how many calls there were since the plan was set.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    fn fate(&self) -> Fate {
        if let Some(plan) = &self.plan {
            return match plan.fate() {
                faulty_backend::Fate::Done => Fate::Answered,
                faulty_backend::Fate::Refused | faulty_backend::Fate::Short => Fate::Refused,
                faulty_backend::Fate::Unanswered => Fate::Lost,
            };
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        match *self.faults.lock().unwrap_or_else(PoisonError::into_inner) {
            Faults::Call(failing) if call == failing => Fate::Refused,
            Faults::CrashAfter(last) if call > last => Fate::Refused,
            Faults::CrashBeforeAnswer(last) if call == last => Fate::Lost,
            Faults::CrashBeforeAnswer(last) if call > last => Fate::Refused,
            Faults::Never
            | Faults::Call(_)
            | Faults::CrashAfter(_)
            | Faults::CrashBeforeAnswer(_) => Fate::Answered,
        }
    }

    async fn run<T>(
        &self,
        call: impl Future<Output = Result<T, StateError>> + Send,
    ) -> Result<T, StateError> {
        match self.fate() {
            Fate::Answered => call.await,
            Fate::Lost => {
                call.await?;
                Err(fault())
            }
            Fate::Refused => Err(fault()),
        }
    }
}

fn fault() -> StateError {
    StateError::Failed {
        wanted: "go on",
        path: PathBuf::from("faulty"),
        source: "a fault that the test asked for".into(),
    }
}

#[async_trait]
impl State for FaultyState {
    async fn record(&self, change: NewChange) -> Result<ChangeId, StateError> {
        self.run(self.inner.record(change)).await
    }

    async fn withdraw(&self, id: ChangeId) -> Result<(), StateError> {
        self.run(self.inner.withdraw(id)).await
    }

    async fn settle(&self, ids: &[ChangeId]) -> Result<(), StateError> {
        self.run(self.inner.settle(ids)).await
    }

    async fn open_changes(&self, place: &str) -> Result<Vec<OpenChange>, StateError> {
        self.run(self.inner.open_changes(place)).await
    }

    async fn heads(&self, place: &str, after: ChangeId) -> Result<Vec<Head>, StateError> {
        self.run(self.inner.heads(place, after)).await
    }

    async fn changes(&self, query: &ChangeQuery) -> Result<Vec<Change>, StateError> {
        self.run(self.inner.changes(query)).await
    }

    async fn change(&self, id: ChangeId) -> Result<Option<Change>, StateError> {
        self.run(self.inner.change(id)).await
    }

    async fn content(&self, revision: &Revision) -> Result<Option<Vec<u8>>, StateError> {
        self.run(self.inner.content(revision)).await
    }

    async fn add_uses(&self, uses: &[Use]) -> Result<(), StateError> {
        self.run(self.inner.add_uses(uses)).await
    }

    async fn marks(&self, identity: &str) -> Result<Vec<Mark>, StateError> {
        self.run(self.inner.marks(identity)).await
    }

    async fn set_pin(
        &self,
        mark: (&str, &RelativePath),
        pinned: bool,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.run(self.inner.set_pin(mark, pinned, at)).await
    }

    async fn drop_marks(
        &self,
        identity: &str,
        paths: Option<&[RelativePath]>,
    ) -> Result<(), StateError> {
        self.run(self.inner.drop_marks(identity, paths)).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned, StateError> {
        self.run(self.inner.prune(retention, now)).await
    }

    async fn stats(&self) -> Result<Stats, StateError> {
        self.run(self.inner.stats()).await
    }

    async fn check(&self) -> Result<Vec<String>, StateError> {
        self.run(self.inner.check()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[cfg(test)]
mod tests {
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
