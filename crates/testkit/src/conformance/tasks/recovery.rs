//! Tests of recovering a task after its runner died, and of retrying it.

use std::time::Duration;

use memory::change::ChangeId;
use state::{ChangeQuery, HistoryStore, Retention, Status, TaskStore};

use super::super::state::{time, write};
use super::rows::{TaskAndHistoryStores, attempt, begin, enqueue, new_task, task_outcome};

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    a_task_names_its_change_in_history(&make().await).await;
    an_aborted_change_is_no_longer_named(&make().await).await;
    a_requeued_task_keeps_its_position(&*make().await.0).await;
    pruning_keeps_the_change_of_a_running_task(&make().await).await;
    a_reopened_store_has_the_running_task_and_its_outcome(&make().await).await;
    a_stale_attempt_has_no_effect(&*make().await.0).await;
    only_the_running_attempt_may_record_a_change(&make().await).await;
}

async fn record(state: &dyn HistoryStore, path: &str, task: &str) -> ChangeId {
    state.record(write("one", path, path).task(task).build()).await.unwrap()
}

async fn a_task_names_its_change_in_history((tasks, state): &TaskAndHistoryStores) {
    enqueue(&**tasks, new_task("remember", 1)).await;
    enqueue(&**tasks, new_task("remember", 2)).await;
    let id = begin(&**tasks, 3).await.id;
    record(&**state, "other.md", "remember-2").await;
    assert_eq!(tasks.task(&id).await.unwrap().unwrap().change, None);
    let first = record(&**state, "a.md", &id).await;
    record(&**state, "b.md", &id).await;
    let running = tasks.running("here").await.unwrap();
    let running: Vec<_> = running.into_iter().map(|task| (task.id, task.change)).collect();
    assert_eq!(running, [(id.clone(), Some(first))]);
    tasks.finish_task(attempt(&id, 1), task_outcome("completed", "{}"), time(4)).await.unwrap();
    assert_eq!(tasks.task(&id).await.unwrap().unwrap().change, Some(first));
    let query = ChangeQuery { task: Some(id), max: 9, ..ChangeQuery::default() };
    assert_eq!(state.changes(&query).await.unwrap().len(), 2);
}

async fn an_aborted_change_is_no_longer_named((tasks, state): &TaskAndHistoryStores) {
    enqueue(&**tasks, new_task("remember", 1)).await;
    let id = begin(&**tasks, 2).await.id;
    let change = record(&**state, "a.md", &id).await;
    state.abort_change(change).await.unwrap();
    assert_eq!(tasks.running("here").await.unwrap()[0].change, None);
}

async fn a_requeued_task_keeps_its_position(tasks: &dyn TaskStore) {
    for second in 1..=2 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    let mut first = begin(tasks, 3).await;
    assert!(tasks.prepare_outcome(first.attempt(), "{}").await.unwrap());
    assert!(tasks.requeue(first.attempt(), time(4)).await.unwrap());
    (first.status, first.updated_at) = (Status::Queued, time(4));
    assert_eq!(tasks.task(&first.id).await.unwrap().unwrap(), first);
    assert!(!tasks.requeue(first.attempt(), time(5)).await.unwrap(), "it is queued already");
    (first.status, first.attempts, first.updated_at) = (Status::Running, 2, time(6));
    assert_eq!(begin(tasks, 6).await, first);
    tasks.finish_task(first.attempt(), task_outcome("failed", "{}"), time(7)).await.unwrap();
    assert_eq!(begin(tasks, 7).await.id, "remember-2");
}

async fn pruning_keeps_the_change_of_a_running_task((tasks, state): &TaskAndHistoryStores) {
    enqueue(&**tasks, new_task("remember", 1)).await;
    let id = begin(&**tasks, 2).await.id;
    let change = record(&**state, "a.md", &id).await;
    state.mark_durable(&[change]).await.unwrap();
    let nothing = Retention { age: Duration::ZERO, bytes: 0 };
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 0);
    assert_eq!(tasks.running("here").await.unwrap()[0].change, Some(change));
    tasks.finish_task(attempt(&id, 1), task_outcome("completed", "{}"), time(3)).await.unwrap();
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 1);
    assert_eq!(tasks.task(&id).await.unwrap().unwrap().change, None);
}

async fn a_reopened_store_has_the_running_task_and_its_outcome(
    (tasks, state): &TaskAndHistoryStores,
) {
    for second in 1..=3 {
        enqueue(&**tasks, new_task("remember", second)).await;
    }
    let first = begin(&**tasks, 4).await;
    tasks.prepare_outcome(first.attempt(), "{\"summary\":\"prepared\"}").await.unwrap();
    let change = record(&**state, "a.md", &first.id).await;
    state.close().await;
    assert_eq!(tasks.workspaces_with_work().await.unwrap(), ["here"]);
    let running = tasks.running("here").await.unwrap();
    let outcome = Some("{\"summary\":\"prepared\"}".to_owned());
    assert_eq!(running, [state::TaskRow { outcome, change: Some(change), ..first }]);
    let done = task_outcome("completed", "{\"summary\":\"prepared\"}");
    assert!(tasks.finish_task(running[0].attempt(), done, time(5)).await.unwrap());
    assert_eq!(begin(&**tasks, 5).await.id, "remember-2");
}

async fn a_stale_attempt_has_no_effect(tasks: &dyn TaskStore) {
    enqueue(tasks, new_task("remember", 1)).await;
    let first = begin(tasks, 2).await;
    assert!(tasks.requeue(first.attempt(), time(3)).await.unwrap());
    let second = begin(tasks, 4).await;
    assert_eq!(second.attempt(), attempt("remember-1", 2));
    let done = task_outcome("completed", "{\"by\":\"the first\"}");
    assert!(!tasks.prepare_outcome(first.attempt(), "{}").await.unwrap());
    assert!(!tasks.requeue(first.attempt(), time(5)).await.unwrap());
    assert!(!tasks.finish_task(first.attempt(), done, time(5)).await.unwrap());
    assert_eq!(tasks.task("remember-1").await.unwrap().unwrap(), second);
    assert!(tasks.prepare_outcome(second.attempt(), "{}").await.unwrap());
    assert!(
        tasks
            .finish_task(second.attempt(), task_outcome("completed", "{}"), time(6))
            .await
            .unwrap()
    );
}

async fn only_the_running_attempt_may_record_a_change((tasks, state): &TaskAndHistoryStores) {
    let record = async |path: &str, number| {
        let change = write("one", path, path).task("remember-1").attempt(number).build();
        state.record(change).await
    };
    record("early.md", 0).await.unwrap_err();
    enqueue(&**tasks, new_task("remember", 1)).await;
    record("waiting.md", 0).await.unwrap_err();
    let first = begin(&**tasks, 2).await;
    tasks.requeue(first.attempt(), time(3)).await.unwrap();
    record("put-back.md", 1).await.unwrap_err();
    let second = begin(&**tasks, 4).await;
    record("overtaken.md", 1).await.unwrap_err();
    let change = record("a.md", 2).await.unwrap();
    record("twice.md", 2).await.unwrap_err();
    assert!(!tasks.requeue(second.attempt(), time(5)).await.unwrap(), "it has a change");
    tasks.finish_task(second.attempt(), task_outcome("completed", "{}"), time(5)).await.unwrap();
    record("late.md", 2).await.unwrap_err();
    assert_eq!(tasks.task("remember-1").await.unwrap().unwrap().change, Some(change));
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    let heads: Vec<_> = heads.iter().map(|head| head.path.as_str()).collect();
    assert_eq!(heads, ["a.md"], "refused changes leave nothing");
    assert_eq!(state.stats().await.unwrap().open, 1);
}
