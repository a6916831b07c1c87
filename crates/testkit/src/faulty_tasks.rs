//! A queue of tasks that fails when a test wants it to.

use std::sync::Arc;

use async_trait::async_trait;
use memory::change::RootKey;
use memory::clock::Timestamp;
use memory::proposal::ProposalId;
use state::{
    AddedProposals, Attempt, ConversationRow, DreamGates, End, Enqueued, LastDream, ModelWorkRow,
    NewProposal, NewTask, ProposalQuery, ProposalRow, QueueLimits, RunRow, SegmentRow, SessionRow,
    StateError, TaskCount, TaskQuery, TaskRow, Tasks,
};

use crate::faults::{Fates, Faults};
use crate::faulty_state::FaultyState;

/// Tasks around others that fail according to [`Faults`].
#[derive(Debug)]
pub struct FaultyTasks {
    inner: Arc<dyn Tasks>,
    fates: Arc<Fates>,
}

impl FaultyTasks {
    /// Wraps tasks; nothing fails yet.
    pub fn new(inner: Arc<dyn Tasks>) -> Self {
        Self { inner, fates: Arc::default() }
    }

    /// Wraps tasks whose calls count together with those of a state, so that both die at once, as two
    /// views of one database do.
    pub fn beside(inner: Arc<dyn Tasks>, state: &FaultyState) -> Self {
        Self { inner, fates: state.fates() }
    }

    /// Sets which calls fail, counted from here.
    pub fn set(&self, faults: Faults) {
        self.fates.set(faults);
    }

    /// Returns how many calls there were since then.
    pub fn calls(&self) -> u64 {
        self.fates.calls()
    }
}

#[async_trait]
impl Tasks for FaultyTasks {
    async fn enqueue(&self, task: NewTask, limits: QueueLimits) -> Result<Enqueued, StateError> {
        self.fates.run(self.inner.enqueue(task, limits)).await
    }

    async fn enqueue_dream(
        &self,
        task: NewTask,
        limits: QueueLimits,
        gates: DreamGates,
    ) -> Result<Enqueued, StateError> {
        self.fates.run(self.inner.enqueue_dream(task, limits, gates)).await
    }

    async fn last_dream(&self, workspace: &str) -> Result<LastDream, StateError> {
        self.fates.run(self.inner.last_dream(workspace)).await
    }

    async fn begin_next(
        &self,
        workspace: &str,
        at: Timestamp,
    ) -> Result<Option<TaskRow>, StateError> {
        self.fates.run(self.inner.begin_next(workspace, at)).await
    }

    async fn running(&self, workspace: &str) -> Result<Vec<TaskRow>, StateError> {
        self.fates.run(self.inner.running(workspace)).await
    }

    async fn fail_unreadable(
        &self,
        workspace: &str,
        end: End<'_>,
        at: Timestamp,
    ) -> Result<u64, StateError> {
        self.fates.run(self.inner.fail_unreadable(workspace, end, at)).await
    }

    async fn prepare_outcome(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
    ) -> Result<bool, StateError> {
        self.fates.run(self.inner.prepare_outcome(attempt, outcome)).await
    }

    async fn requeue(&self, attempt: Attempt<'_>, at: Timestamp) -> Result<bool, StateError> {
        self.fates.run(self.inner.requeue(attempt, at)).await
    }

    async fn finish_task(
        &self,
        attempt: Attempt<'_>,
        end: End<'_>,
        at: Timestamp,
    ) -> Result<bool, StateError> {
        self.fates.run(self.inner.finish_task(attempt, end, at)).await
    }

    async fn give_up(&self, id: &str, end: End<'_>, at: Timestamp) -> Result<bool, StateError> {
        self.fates.run(self.inner.give_up(id, end, at)).await
    }

    async fn drop_ended(&self, before: Timestamp) -> Result<u64, StateError> {
        self.fates.run(self.inner.drop_ended(before)).await
    }

    async fn count_tasks(&self, ended_since: Timestamp) -> Result<Vec<TaskCount>, StateError> {
        self.fates.run(self.inner.count_tasks(ended_since)).await
    }

    async fn task(&self, id: &str) -> Result<Option<TaskRow>, StateError> {
        self.fates.run(self.inner.task(id)).await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<TaskRow>, StateError> {
        self.fates.run(self.inner.tasks(query)).await
    }

    async fn workspaces_with_work(&self) -> Result<Vec<String>, StateError> {
        self.fates.run(self.inner.workspaces_with_work()).await
    }

    async fn add_session(&self, session: SessionRow) -> Result<(), StateError> {
        self.fates.run(self.inner.add_session(session)).await
    }

    async fn end_session(&self, id: &str) -> Result<bool, StateError> {
        self.fates.run(self.inner.end_session(id)).await
    }

    async fn session(&self, id: &str) -> Result<Option<SessionRow>, StateError> {
        self.fates.run(self.inner.session(id)).await
    }

    async fn sessions(&self, workspace: &str) -> Result<Vec<SessionRow>, StateError> {
        self.fates.run(self.inner.sessions(workspace)).await
    }

    async fn has_client(&self, workspace: &str, client: &str) -> Result<bool, StateError> {
        self.fates.run(self.inner.has_client(workspace, client)).await
    }

    async fn conversation(&self, id: &str) -> Result<Option<ConversationRow>, StateError> {
        self.fates.run(self.inner.conversation(id)).await
    }

    async fn keep_conversation(&self, row: ConversationRow) -> Result<bool, StateError> {
        self.fates.run(self.inner.keep_conversation(row)).await
    }

    async fn drop_watched(&self) -> Result<u64, StateError> {
        self.fates.run(self.inner.drop_watched()).await
    }

    async fn keep_conversation_and_queue(
        &self,
        row: ConversationRow,
        review: NewTask,
        unfinished_max: usize,
    ) -> Result<bool, StateError> {
        let kept = self.inner.keep_conversation_and_queue(row, review, unfinished_max);
        self.fates.run(kept).await
    }

    async fn segment(&self, conversation: &str) -> Result<Option<SegmentRow>, StateError> {
        self.fates.run(self.inner.segment(conversation)).await
    }

    async fn keep_segment(&self, row: SegmentRow) -> Result<bool, StateError> {
        self.fates.run(self.inner.keep_segment(row)).await
    }

    async fn add_run(&self, run: RunRow) -> Result<(), StateError> {
        self.fates.run(self.inner.add_run(run)).await
    }

    async fn end_run(
        &self,
        attempt: Attempt<'_>,
        outcome: &str,
        at: Timestamp,
    ) -> Result<(), StateError> {
        self.fates.run(self.inner.end_run(attempt, outcome, at)).await
    }

    async fn runs(&self, task: &str) -> Result<Vec<RunRow>, StateError> {
        self.fates.run(self.inner.runs(task)).await
    }

    async fn add_model_work(&self, row: ModelWorkRow) -> Result<(), StateError> {
        self.fates.run(self.inner.add_model_work(row)).await
    }

    async fn model_work(
        &self,
        workspace: Option<&str>,
        before: Option<u64>,
        max: usize,
    ) -> Result<Vec<ModelWorkRow>, StateError> {
        self.fates.run(self.inner.model_work(workspace, before, max)).await
    }

    async fn background_tokens(&self, since: Timestamp) -> Result<u64, StateError> {
        self.fates.run(self.inner.background_tokens(since)).await
    }

    async fn add_proposals(&self, new: &[NewProposal]) -> Result<AddedProposals, StateError> {
        self.fates.run(self.inner.add_proposals(new)).await
    }

    async fn proposals(&self, query: &ProposalQuery) -> Result<Vec<ProposalRow>, StateError> {
        self.fates.run(self.inner.proposals(query)).await
    }

    async fn count_proposals(&self, roots: &[RootKey]) -> Result<u64, StateError> {
        self.fates.run(self.inner.count_proposals(roots)).await
    }

    async fn proposal(&self, id: ProposalId) -> Result<Option<ProposalRow>, StateError> {
        self.fates.run(self.inner.proposal(id)).await
    }

    async fn withdraw_proposals(&self, ids: &[ProposalId]) -> Result<(), StateError> {
        self.fates.run(self.inner.withdraw_proposals(ids)).await
    }

    async fn reject_proposal(&self, id: ProposalId, at: Timestamp) -> Result<bool, StateError> {
        self.fates.run(self.inner.reject_proposal(id, at)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use memory::change::ChangeId;
    use state::{SqliteState, State, Status};

    use super::*;
    use crate::conformance::state::{time, write};
    use crate::conformance::tasks::{end, new, of_lane};

    /// Takes a task through its lane, and returns how far it came.
    async fn outcome(faults: Faults) -> (u64, Option<Status>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Arc::new(SqliteState::new(folder.path().join("state.db")));
        let state = FaultyState::new(Arc::clone(&sqlite) as Arc<dyn State>);
        let tasks = FaultyTasks::beside(Arc::clone(&sqlite) as Arc<dyn Tasks>, &state);
        state.set(faults);
        let steps = async || {
            tasks.enqueue(new("remember", 1), of_lane()).await?;
            let begun = tasks.begin_next("here", time(2)).await?.unwrap();
            tasks.prepare_outcome(begun.attempt(), "{}").await?;
            state.record(write("one", "a.md", "a").task(&begun.id).to_record()).await?;
            tasks.finish_task(begun.attempt(), end("completed", "{}"), time(3)).await.map(drop)
        };
        let failed: Result<(), StateError> = steps().await;
        assert_eq!(failed.is_err(), faults != Faults::Never);
        let left = sqlite.tasks(&TaskQuery { max: 9, ..TaskQuery::default() }).await.unwrap();
        let recorded = sqlite.heads("one", ChangeId(0)).await.unwrap().len();
        (tasks.calls(), left.first().map(|task| task.status), recorded)
    }

    #[tokio::test]
    async fn tasks_and_their_state_die_at_the_same_call() {
        assert_eq!(outcome(Faults::Never).await, (5, Some(Status::Completed), 1));
        assert_eq!(outcome(Faults::CrashAfter(0)).await, (1, None, 0));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(1)).await, (1, Some(Status::Queued), 0));
        assert_eq!(outcome(Faults::Call(3)).await, (3, Some(Status::Running), 0));
        assert_eq!(outcome(Faults::CrashAfter(3)).await, (4, Some(Status::Running), 0));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(4)).await, (4, Some(Status::Running), 1));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(5)).await, (5, Some(Status::Completed), 1));
    }

    #[tokio::test]
    async fn without_faults_they_are_the_tasks_inside() {
        let folder = tempfile::tempdir().unwrap();
        let count = AtomicU64::new(0);
        crate::conformance::tasks::run(async || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let inner = Arc::new(SqliteState::new(folder.path().join(format!("{number}.db"))));
            let tasks = FaultyTasks::new(Arc::clone(&inner) as Arc<dyn Tasks>);
            (Arc::new(tasks) as Arc<dyn Tasks>, inner as Arc<dyn State>)
        })
        .await;
    }
}
