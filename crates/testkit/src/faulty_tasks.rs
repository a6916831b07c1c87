//! A task store that fails as a test specifies.

use std::sync::Arc;

use memory::change::RootKey;
use memory::clock::Timestamp;
use memory::proposal::ProposalId;
use state::{
    AddedProposals, Attempt, ConversationRow, DreamPreconditions, EnqueueResult, LastDream,
    ModelWorkRow, NewProposal, NewTask, ProposalQuery, ProposalRow, QueueLimits, RunRow,
    SegmentRow, SessionRow, StateError, TaskCount, TaskOutcome, TaskQuery, TaskRow, TaskStore,
};

use crate::faults::{FaultInjector, Faults, faulty};
use crate::faulty_state::FaultyState;

/// A wrapper of a task store that fails according to [`Faults`].
#[derive(Debug)]
pub struct FaultyTasks {
    inner: Arc<dyn TaskStore>,
    injector: Arc<FaultInjector>,
}

impl FaultyTasks {
    /// Wraps a task store; nothing fails yet.
    pub fn new(inner: Arc<dyn TaskStore>) -> Self {
        Self { inner, injector: Arc::default() }
    }

    /// Wraps a task store whose calls are counted together with those of a state. Both crash at the same call, like two
    /// views of one database.
    pub fn sharing(inner: Arc<dyn TaskStore>, state: &FaultyState) -> Self {
        Self { inner, injector: state.injector() }
    }

    /// Sets the failing calls, counted from now.
    pub fn set(&self, faults: Faults) {
        self.injector.set(faults);
    }

    /// Returns the number of calls since the faults were set.
    pub fn calls(&self) -> u64 {
        self.injector.calls()
    }
}

faulty! {
    TaskStore for FaultyTasks {}
    enqueue(task: NewTask, limits: QueueLimits) -> EnqueueResult;
    enqueue_dream(task: NewTask, limits: QueueLimits, gates: DreamPreconditions) -> EnqueueResult;
    last_dream(workspace: &str) -> LastDream;
    begin_next(workspace: &str, at: Timestamp) -> Option<TaskRow>;
    running(workspace: &str) -> Vec<TaskRow>;
    fail_unreadable(workspace: &str, end: TaskOutcome<'_>, at: Timestamp) -> u64;
    prepare_outcome(attempt: Attempt<'_>, outcome: &str) -> bool;
    requeue(attempt: Attempt<'_>, at: Timestamp) -> bool;
    finish_task(attempt: Attempt<'_>, end: TaskOutcome<'_>, at: Timestamp) -> bool;
    cancel_task(id: &str, end: TaskOutcome<'_>, at: Timestamp) -> bool;
    drop_ended(before: Timestamp) -> u64;
    count_tasks(ended_since: Timestamp) -> Vec<TaskCount>;
    task(id: &str) -> Option<TaskRow>;
    tasks(query: &TaskQuery) -> Vec<TaskRow>;
    workspaces_with_work() -> Vec<String>;
    add_session(session: SessionRow) -> ();
    end_session(id: &str) -> bool;
    session(id: &str) -> Option<SessionRow>;
    sessions(workspace: &str) -> Vec<SessionRow>;
    has_client(workspace: &str, client: &str) -> bool;
    conversation(id: &str) -> Option<ConversationRow>;
    save_conversation(row: ConversationRow) -> bool;
    drop_watched() -> u64;
    save_conversation_and_queue(
        row: ConversationRow, review: NewTask, unfinished_max: usize
    ) -> bool;
    segment(conversation: &str) -> Option<SegmentRow>;
    save_segment(row: SegmentRow) -> bool;
    add_run(run: RunRow) -> ();
    end_run(attempt: Attempt<'_>, outcome: &str, at: Timestamp) -> ();
    runs(task: &str) -> Vec<RunRow>;
    add_model_work(row: ModelWorkRow) -> ();
    model_work(workspace: Option<&str>, before: Option<u64>, max: usize) -> Vec<ModelWorkRow>;
    background_tokens(since: Timestamp) -> u64;
    add_proposals(new: &[NewProposal]) -> AddedProposals;
    proposals(query: &ProposalQuery) -> Vec<ProposalRow>;
    count_proposals(roots: &[RootKey]) -> u64;
    proposal(id: ProposalId) -> Option<ProposalRow>;
    withdraw_proposals(ids: &[ProposalId]) -> ();
    reject_proposal(id: ProposalId, at: Timestamp) -> bool;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use memory::change::ChangeId;
    use state::{HistoryStore, SqliteState, Status};

    use super::*;
    use crate::conformance::state::{time, write};
    use crate::conformance::tasks::{new_task, queue_limits, task_outcome};

    /// Runs a task through its lane, and returns the number of calls, its status and the recorded memories.
    async fn outcome(faults: Faults) -> (u64, Option<Status>, usize) {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Arc::new(SqliteState::new(folder.path().join("state.db")));
        let state = FaultyState::new(Arc::clone(&sqlite) as Arc<dyn HistoryStore>);
        let tasks = FaultyTasks::sharing(Arc::clone(&sqlite) as Arc<dyn TaskStore>, &state);
        state.set(faults);
        let steps = async || {
            tasks.enqueue(new_task("remember", 1), queue_limits()).await?;
            let begun = tasks.begin_next("here", time(2)).await?.unwrap();
            tasks.prepare_outcome(begun.attempt(), "{}").await?;
            state.record(write("one", "a.md", "a").task(&begun.id).build()).await?;
            tasks
                .finish_task(begun.attempt(), task_outcome("completed", "{}"), time(3))
                .await
                .map(drop)
        };
        let failed: Result<(), StateError> = steps().await;
        assert_eq!(failed.is_err(), faults != Faults::Never);
        let remaining = sqlite.tasks(&TaskQuery { max: 9, ..TaskQuery::default() }).await.unwrap();
        let recorded = sqlite.heads("one", ChangeId(0)).await.unwrap().len();
        (tasks.calls(), remaining.first().map(|task| task.status), recorded)
    }

    #[tokio::test]
    async fn tasks_and_their_state_crash_at_the_same_call() {
        assert_eq!(outcome(Faults::Never).await, (5, Some(Status::Completed), 1));
        assert_eq!(outcome(Faults::CrashAfter(0)).await, (1, None, 0));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(1)).await, (1, Some(Status::Queued), 0));
        assert_eq!(outcome(Faults::Call(3)).await, (3, Some(Status::Running), 0));
        assert_eq!(outcome(Faults::CrashAfter(3)).await, (4, Some(Status::Running), 0));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(4)).await, (4, Some(Status::Running), 1));
        assert_eq!(outcome(Faults::CrashBeforeAnswer(5)).await, (5, Some(Status::Completed), 1));
    }

    #[tokio::test]
    async fn without_faults_the_wrapper_conforms_to_the_task_store() {
        let folder = tempfile::tempdir().unwrap();
        let count = AtomicU64::new(0);
        crate::conformance::tasks::run(async || {
            let number = count.fetch_add(1, Ordering::SeqCst);
            let inner = Arc::new(SqliteState::new(folder.path().join(format!("{number}.db"))));
            let tasks = FaultyTasks::new(Arc::clone(&inner) as Arc<dyn TaskStore>);
            (Arc::new(tasks) as Arc<dyn TaskStore>, inner as Arc<dyn HistoryStore>)
        })
        .await;
    }
}
