//! Builders and helpers for tests of tasks.

use std::sync::Arc;
use std::time::Duration;

use state::{
    Attempt, EnqueueResult, HistoryStore, NewTask, QueueLimits, TaskOutcome, TaskRow, TaskStore,
};

use crate::conformance::state::time;

/// A task store and the history store on the same database.
pub type TaskAndHistoryStores = (Arc<dyn TaskStore>, Arc<dyn HistoryStore>);

/// Returns lane limits with small numbers.
pub fn queue_limits() -> QueueLimits {
    QueueLimits {
        unfinished_max: 6,
        minor_max: 3,
        total_max: 9,
        finished_max_age: Duration::from_secs(100),
    }
}

/// Returns a task of this kind without an owner, in the workspace `here`, created at this second.
pub fn new_task(kind: &str, second: i64) -> NewTask {
    NewTask {
        id: format!("{kind}-{second}"),
        workspace: "here".to_owned(),
        kind: kind.parse().unwrap(),
        client: None,
        request: format!("{{\"content\":\"{second}\"}}"),
        at: time(second),
    }
}

/// Returns the end of a task that keeps nothing of its request.
pub fn task_outcome<'t>(status: &str, outcome: &'t str) -> TaskOutcome<'t> {
    TaskOutcome { status: status.parse().unwrap(), outcome, request: "{}", effect: None }
}

/// Returns an attempt at a task.
pub const fn attempt(task: &str, number: u32) -> Attempt<'_> {
    Attempt { task, number }
}

/// Returns the task in another workspace.
pub(super) fn in_workspace(workspace: &str, task: NewTask) -> NewTask {
    NewTask { id: format!("{}-{workspace}", task.id), workspace: workspace.to_owned(), ..task }
}

/// Queues a task; panics if the lane is full.
pub(super) async fn enqueue(tasks: &dyn TaskStore, task: NewTask) -> TaskRow {
    match tasks.enqueue(task, queue_limits()).await.unwrap() {
        EnqueueResult::Queued(row) => row,
        EnqueueResult::Full => panic!("there should be room"),
    }
}

/// Begins the next task of the workspace `here`; panics if there is none.
pub(super) async fn begin(tasks: &dyn TaskStore, second: i64) -> TaskRow {
    tasks.begin_next("here", time(second)).await.unwrap().unwrap()
}

/// Returns the ids of all stored tasks, oldest first.
pub(super) async fn task_ids(tasks: &dyn TaskStore) -> Vec<String> {
    let query = state::TaskQuery { max: usize::MAX, ..state::TaskQuery::default() };
    tasks.tasks(&query).await.unwrap().into_iter().rev().map(|task| task.id).collect()
}
