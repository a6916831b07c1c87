//! Tests of the limits of a lane.

use std::time::Duration;

use state::{DreamPreconditions, EnqueueResult, LastDream, QueueLimits, TaskStore};

use super::super::state::time;
use super::rows::{
    TaskAndHistoryStores, attempt, begin, enqueue, in_workspace, new_task, queue_limits, task_ids,
    task_outcome,
};
use super::sessions::session;

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    a_full_lane_refuses_tasks_until_one_is_finished(&*make().await.0).await;
    forget_and_dream_leave_room_for_remember(&*make().await.0).await;
    old_finished_tasks_are_dropped_in_every_workspace(&*make().await.0).await;
    the_oldest_finished_tasks_beyond_the_limit_are_dropped(&*make().await.0).await;
    unfinished_tasks_are_never_dropped(&*make().await.0).await;
    concurrent_tasks_never_exceed_the_limits(&*make().await.0).await;
    a_dream_is_queued_only_if_its_preconditions_hold(&*make().await.0).await;
    of_concurrent_dreams_only_one_is_queued(&*make().await.0).await;
}

async fn is_full(tasks: &dyn TaskStore, kind: &str, second: i64) -> bool {
    tasks.enqueue(new_task(kind, second), queue_limits()).await.unwrap() == EnqueueResult::Full
}

async fn finish_next(tasks: &dyn TaskStore, second: i64) {
    let begun = begin(tasks, second).await;
    let end = task_outcome("completed", "{}");
    assert!(tasks.finish_task(begun.attempt(), end, time(second)).await.unwrap());
}

async fn a_full_lane_refuses_tasks_until_one_is_finished(tasks: &dyn TaskStore) {
    for second in 1..=6 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    let before = task_ids(tasks).await;
    begin(tasks, 7).await;
    for kind in ["remember", "forget", "dream"] {
        assert!(is_full(tasks, kind, 8).await, "a running task is unfinished: {kind}");
    }
    assert_eq!(task_ids(tasks).await, before);
    enqueue(tasks, in_workspace("there", new_task("remember", 8))).await;
    tasks
        .finish_task(attempt("remember-1", 1), task_outcome("failed", "{}"), time(9))
        .await
        .unwrap();
    assert!(!is_full(tasks, "remember", 9).await);
    assert!(is_full(tasks, "remember", 10).await);
}

async fn forget_and_dream_leave_room_for_remember(tasks: &dyn TaskStore) {
    for (kind, second) in [("forget", 1), ("dream", 2), ("forget", 3)] {
        enqueue(tasks, new_task(kind, second)).await;
    }
    assert!(is_full(tasks, "forget", 4).await);
    assert!(is_full(tasks, "dream", 4).await);
    enqueue(tasks, in_workspace("there", new_task("dream", 4))).await;
    for second in 5..=7 {
        assert!(!is_full(tasks, "remember", second).await);
    }
    assert!(is_full(tasks, "remember", 8).await);
    finish_next(tasks, 9).await;
    assert!(!is_full(tasks, "dream", 10).await);
}

async fn old_finished_tasks_are_dropped_in_every_workspace(tasks: &dyn TaskStore) {
    for second in 1..=3 {
        enqueue(tasks, new_task("remember", second)).await;
        finish_next(tasks, second).await;
    }
    enqueue(tasks, in_workspace("there", new_task("remember", 4))).await;
    assert_eq!(
        task_ids(tasks).await,
        ["remember-1", "remember-2", "remember-3", "remember-4-there"]
    );
    // A task that is exactly at the age limit stays.
    enqueue(tasks, in_workspace("there", new_task("remember", 102))).await;
    let expected = ["remember-2", "remember-3", "remember-4-there", "remember-102-there"];
    assert_eq!(task_ids(tasks).await, expected);
    assert_eq!(tasks.task("remember-1").await.unwrap(), None);
}

async fn the_oldest_finished_tasks_beyond_the_limit_are_dropped(tasks: &dyn TaskStore) {
    enqueue(tasks, new_task("dream", 1)).await;
    enqueue(tasks, new_task("remember", 2)).await;
    // The second to arrive is the first to end.
    tasks
        .finish_task(attempt("remember-2", 0), task_outcome("failed", "{}"), time(2))
        .await
        .unwrap();
    finish_next(tasks, 3).await;
    for second in 4..=10 {
        enqueue(tasks, new_task("remember", second)).await;
        finish_next(tasks, second).await;
    }
    assert_eq!(task_ids(tasks).await.len(), 9);
    let elsewhere = in_workspace("there", new_task("remember", 11));
    enqueue(tasks, elsewhere).await;
    assert_eq!(task_ids(tasks).await.len(), 10, "another workspace has room of its own");
    enqueue(tasks, new_task("remember", 11)).await;
    assert_eq!(tasks.task("remember-2").await.unwrap(), None);
    enqueue(tasks, new_task("remember", 12)).await;
    assert_eq!(tasks.task("dream-1").await.unwrap(), None);
    let ids = task_ids(tasks).await;
    assert_eq!(ids.first().map(String::as_str), Some("remember-4"));
    assert_eq!(ids.len(), 10);
}

async fn unfinished_tasks_are_never_dropped(tasks: &dyn TaskStore) {
    let limits = QueueLimits { total_max: 1, finished_max_age: Duration::ZERO, ..queue_limits() };
    for second in 1..=4 {
        let result = tasks.enqueue(new_task("remember", second), limits).await.unwrap();
        assert!(matches!(result, EnqueueResult::Queued(_)));
    }
    begin(tasks, 5).await;
    let result = tasks.enqueue(new_task("remember", 1_000), limits).await.unwrap();
    assert!(matches!(result, EnqueueResult::Queued(_)));
    assert_eq!(task_ids(tasks).await.len(), 5);
}

async fn concurrent_tasks_never_exceed_the_limits(tasks: &dyn TaskStore) {
    let enqueue = |second| tasks.enqueue(new_task("remember", second), queue_limits());
    let (one, two, three, four) = tokio::join!(enqueue(1), enqueue(2), enqueue(3), enqueue(4));
    let (five, six, seven, eight) = tokio::join!(enqueue(5), enqueue(6), enqueue(7), enqueue(8));
    let all = [one, two, three, four, five, six, seven, eight];
    let full = all.into_iter().filter(|result| matches!(result, Ok(EnqueueResult::Full))).count();
    assert_eq!((full, task_ids(tasks).await.len()), (2, 6));
}

/// Queues a dream if none was requested in the last ten seconds and two sessions were registered since; returns whether
/// it was queued.
async fn is_dream_queued(tasks: &dyn TaskStore, second: i64) -> bool {
    let gates = DreamPreconditions { requested_before: time(second - 10), sessions_min: 2 };
    let queued =
        tasks.enqueue_dream(new_task("dream", second), queue_limits(), gates).await.unwrap();
    matches!(queued, EnqueueResult::Queued(_))
}

async fn a_dream_is_queued_only_if_its_preconditions_hold(tasks: &dyn TaskStore) {
    let last = async || tasks.last_dream("here").await.unwrap();
    assert_eq!(last().await, LastDream::default());
    assert!(!is_dream_queued(tasks, 20).await);
    for (id, workspace) in [("a", "here"), ("b", "there"), ("c", "there")] {
        tasks.add_session(session(id, workspace, 21)).await.unwrap();
    }
    assert!(!is_dream_queued(tasks, 22).await, "one session");
    tasks.end_session("a").await.unwrap();
    tasks.add_session(session("d", "here", 23)).await.unwrap();
    assert_eq!(last().await, LastDream { requested_at: None, sessions: 2 });
    assert!(is_dream_queued(tasks, 24).await);
    assert_eq!(last().await, LastDream { requested_at: Some(time(24)), sessions: 0 });
    for id in ["e", "f"] {
        tasks.add_session(session(id, "here", 25)).await.unwrap();
    }
    assert!(!is_dream_queued(tasks, 33).await, "nine seconds");
    assert!(is_dream_queued(tasks, 34).await);
    // A remember does not count, nor does a dream that found the lane full; a requested dream counts.
    enqueue(tasks, new_task("remember", 40)).await;
    assert_eq!(last().await.requested_at, Some(time(34)));
    enqueue(tasks, new_task("dream", 41)).await;
    assert_eq!(last().await.requested_at, Some(time(41)));
    assert!(is_full(tasks, "dream", 42).await);
    assert_eq!(last().await.requested_at, Some(time(41)));
    assert_eq!(tasks.last_dream("there").await.unwrap().sessions, 2);
}

async fn of_concurrent_dreams_only_one_is_queued(tasks: &dyn TaskStore) {
    for id in ["a", "b"] {
        tasks.add_session(session(id, "here", 1)).await.unwrap();
    }
    let results = tokio::join!(
        is_dream_queued(tasks, 20),
        is_dream_queued(tasks, 21),
        is_dream_queued(tasks, 22)
    );
    let results = [results.0, results.1, results.2];
    assert_eq!(results.into_iter().filter(|&queued| queued).count(), 1);
}
