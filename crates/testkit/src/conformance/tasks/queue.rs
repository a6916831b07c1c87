//! Tests of the order and the content of tasks.

use state::{
    EnqueueResult, NewTask, OwnerFilter, Status, TaskCount, TaskKind, TaskOutcome, TaskQuery,
    TaskRow, TaskStore,
};

use super::super::state::time;
use super::rows::{
    TaskAndHistoryStores, attempt, begin, enqueue, in_workspace, new_task, queue_limits, task_ids,
    task_outcome,
};

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    an_empty_queue_reads_as_empty(&make().await).await;
    a_task_is_read_as_it_was_queued(&*make().await.0).await;
    tasks_begin_in_order_of_arrival_in_each_workspace(&*make().await.0).await;
    order_is_by_arrival_when_the_clock_goes_back(&*make().await.0).await;
    no_task_is_begun_twice(&*make().await.0).await;
    a_finished_task_never_changes(&*make().await.0).await;
    a_queued_task_can_be_finished(&*make().await.0).await;
    a_task_with_a_prepared_outcome_cannot_be_cancelled(&*make().await.0).await;
    an_id_is_used_once(&*make().await.0).await;
    every_field_of_a_query_narrows_the_result(&*make().await.0).await;
    pages_contain_every_task_once(&*make().await.0).await;
    counts_are_in_the_statistics(&make().await).await;
    tasks_are_counted_by_workspace_and_status(&*make().await.0).await;
    old_finished_tasks_are_hidden_from_queries_and_can_be_dropped(&*make().await.0).await;
}

async fn an_empty_queue_reads_as_empty((tasks, state): &TaskAndHistoryStores) {
    assert_eq!(tasks.begin_next("here", time(0)).await.unwrap(), None);
    assert_eq!(tasks.running("here").await.unwrap(), []);
    assert!(!tasks.prepare_outcome(attempt("a", 1), "{}").await.unwrap());
    assert!(!tasks.requeue(attempt("a", 1), time(0)).await.unwrap());
    assert!(
        !tasks.finish_task(attempt("a", 1), task_outcome("failed", "{}"), time(0)).await.unwrap()
    );
    assert!(!tasks.cancel_task("a", task_outcome("failed", "{}"), time(0)).await.unwrap());
    assert_eq!(tasks.task("a").await.unwrap(), None);
    assert_eq!(task_ids(&**tasks).await, [] as [String; 0]);
    assert_eq!(tasks.workspaces_with_work().await.unwrap(), [] as [String; 0]);
    assert!(!tasks.end_session("a").await.unwrap());
    assert_eq!(tasks.session("a").await.unwrap(), None);
    assert_eq!(tasks.sessions("here").await.unwrap(), []);
    assert!(!tasks.has_client("here", "a").await.unwrap());
    tasks.end_run(attempt("a", 1), "{}", time(0)).await.unwrap();
    assert_eq!(tasks.runs("a").await.unwrap(), []);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

async fn a_task_is_read_as_it_was_queued(tasks: &dyn TaskStore) {
    let new = NewTask {
        client: Some("client:1".to_owned()),
        request: "{\"content\":\"\u{1f9f6} 'quoted' $1\"}".to_owned(),
        ..new_task("forget", 1)
    };
    let mut row = TaskRow {
        seq: 1,
        id: new.id.clone(),
        workspace: new.workspace.clone(),
        kind: new.kind,
        client: new.client.clone(),
        request: new.request.clone(),
        status: Status::Queued,
        attempts: 0,
        created_at: time(1),
        updated_at: time(1),
        outcome: None,
        change: None,
    };
    let result = tasks.enqueue(new, queue_limits()).await.unwrap();
    assert_eq!(result, EnqueueResult::Queued(row.clone()));
    assert_eq!(tasks.task(&row.id).await.unwrap(), Some(row.clone()));
    assert_eq!(tasks.workspaces_with_work().await.unwrap(), ["here"]);

    (row.status, row.attempts, row.updated_at) = (Status::Running, 1, time(2));
    assert_eq!(tasks.begin_next("here", time(2)).await.unwrap(), Some(row.clone()));
    assert_eq!(tasks.running("here").await.unwrap(), [row.clone()]);

    row.outcome = Some("{\"summary\":\"\"}".to_owned());
    assert!(tasks.prepare_outcome(row.attempt(), "{\"summary\":\"\"}").await.unwrap());
    assert_eq!(tasks.task(&row.id).await.unwrap(), Some(row.clone()));

    (row.status, row.updated_at) = (Status::Completed, time(3));
    (row.outcome, row.request) = (Some("{}".to_owned()), "{\"kept\":1}".to_owned());
    let end = TaskOutcome {
        status: Status::Completed,
        outcome: "{}",
        request: "{\"kept\":1}",
        effect: None,
    };
    assert!(tasks.finish_task(row.attempt(), end, time(3)).await.unwrap());
    assert_eq!(tasks.task(&row.id).await.unwrap(), Some(row));
    assert_eq!(tasks.running("here").await.unwrap(), []);
    assert_eq!(tasks.workspaces_with_work().await.unwrap(), [] as [String; 0]);
}

async fn tasks_begin_in_order_of_arrival_in_each_workspace(tasks: &dyn TaskStore) {
    for task in [
        new_task("remember", 1),
        in_workspace("there", new_task("dream", 2)),
        new_task("forget", 3),
        in_workspace("there", new_task("remember", 4)),
        new_task("dream", 5),
    ] {
        enqueue(tasks, task).await;
    }
    assert_eq!(tasks.workspaces_with_work().await.unwrap(), ["here", "there"]);
    let mut order = Vec::new();
    for workspace in ["here", "there", "here", "here", "there", "here"] {
        let Some(begun) = tasks.begin_next(workspace, time(9)).await.unwrap() else {
            order.push("none".to_owned());
            continue;
        };
        assert_eq!(tasks.begin_next(workspace, time(9)).await.unwrap(), None, "one runs");
        assert_eq!(tasks.running(workspace).await.unwrap(), std::slice::from_ref(&begun));
        tasks.finish_task(begun.attempt(), task_outcome("completed", "{}"), time(9)).await.unwrap();
        order.push(begun.id);
    }
    let expected =
        ["remember-1", "dream-2-there", "forget-3", "dream-5", "remember-4-there", "none"];
    assert_eq!(order, expected);
    assert_eq!(tasks.running("nowhere").await.unwrap(), []);
}

async fn order_is_by_arrival_when_the_clock_goes_back(tasks: &dyn TaskStore) {
    for second in [9, 3, 6] {
        enqueue(tasks, new_task("remember", second)).await;
    }
    for expected in ["remember-9", "remember-3", "remember-6"] {
        let begun = begin(tasks, 1).await;
        assert_eq!(begun.id, expected);
        tasks.finish_task(begun.attempt(), task_outcome("completed", "{}"), time(1)).await.unwrap();
    }
}

async fn no_task_is_begun_twice(tasks: &dyn TaskStore) {
    for second in 1..=4 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    let next = || tasks.begin_next("here", time(5));
    let (one, two, three, four, none) = tokio::join!(next(), next(), next(), next(), next());
    let all = [one, two, three, four, none];
    let begun = all.into_iter().filter_map(|task| task.unwrap()).map(|task| task.id);
    assert_eq!(begun.collect::<Vec<_>>(), ["remember-1"]);
}

async fn a_finished_task_never_changes(tasks: &dyn TaskStore) {
    let id = enqueue(tasks, new_task("remember", 1)).await.id;
    begin(tasks, 2).await;
    let timeout = task_outcome("failed", "{\"code\":\"timeout\"}");
    assert!(tasks.finish_task(attempt(&id, 1), timeout, time(3)).await.unwrap());
    let finished = tasks.task(&id).await.unwrap().unwrap();
    assert!(
        !tasks
            .finish_task(attempt(&id, 1), task_outcome("completed", "{}"), time(4))
            .await
            .unwrap()
    );
    assert!(!tasks.prepare_outcome(attempt(&id, 1), "{}").await.unwrap());
    assert!(!tasks.requeue(attempt(&id, 1), time(4)).await.unwrap());
    assert_eq!(tasks.begin_next("here", time(4)).await.unwrap(), None);
    assert_eq!(tasks.task(&id).await.unwrap(), Some(finished));
}

async fn a_queued_task_can_be_finished(tasks: &dyn TaskStore) {
    let id = enqueue(tasks, new_task("remember", 1)).await.id;
    let waiting = attempt(&id, 0);
    assert!(!tasks.prepare_outcome(waiting, "{}").await.unwrap(), "it does not run");
    let cancelled = task_outcome("failed", "{\"code\":\"cancelled\"}");
    assert!(tasks.finish_task(waiting, cancelled, time(2)).await.unwrap());
    assert_eq!(tasks.begin_next("here", time(3)).await.unwrap(), None);
    assert_eq!(tasks.task(&id).await.unwrap().unwrap().attempts, 0);
}

async fn a_task_with_a_prepared_outcome_cannot_be_cancelled(tasks: &dyn TaskStore) {
    for second in 1..=3 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    begin(tasks, 4).await;
    let mut results = Vec::new();
    for id in ["remember-1", "remember-2", "remember-3", "remember-3"] {
        if id == "remember-2" {
            let begun = begin(tasks, 4).await;
            assert!(tasks.prepare_outcome(begun.attempt(), "{}").await.unwrap());
        }
        let cancelled = task_outcome("failed", "{\"code\":\"cancelled\"}");
        results.push(tasks.cancel_task(id, cancelled, time(5)).await.unwrap());
    }
    assert_eq!(results, [true, false, true, false]);
    assert!(!tasks.prepare_outcome(attempt("remember-1", 1), "{}").await.unwrap());
    let mut rows = Vec::new();
    for id in ["remember-1", "remember-2", "remember-3"] {
        let task = tasks.task(id).await.unwrap().unwrap();
        rows.push((task.status, task.outcome.unwrap(), task.request, task.updated_at));
    }
    let cancelled =
        |status: Status| (status, "{\"code\":\"cancelled\"}".to_owned(), "{}".to_owned(), time(5));
    let running = (Status::Running, "{}".to_owned(), new_task("remember", 2).request, time(4));
    assert_eq!(rows, [cancelled(Status::Failed), running, cancelled(Status::Failed)]);
    assert_eq!(tasks.begin_next("here", time(6)).await.unwrap(), None);
}

async fn an_id_is_used_once(tasks: &dyn TaskStore) {
    let first = enqueue(tasks, new_task("remember", 1)).await;
    let again = NewTask { request: "{}".to_owned(), ..new_task("remember", 1) };
    tasks.enqueue(again, queue_limits()).await.unwrap_err();
    assert_eq!(tasks.task(&first.id).await.unwrap(), Some(first));
}

async fn every_field_of_a_query_narrows_the_result(tasks: &dyn TaskStore) {
    let owned = |task: NewTask| NewTask { client: Some("c".to_owned()), ..task };
    for task in [
        new_task("remember", 1),
        owned(new_task("remember", 2)),
        new_task("forget", 3),
        owned(in_workspace("there", new_task("remember", 4))),
    ] {
        enqueue(tasks, task).await;
    }
    begin(tasks, 9).await;
    let check = async |narrow: fn(&mut TaskQuery), expected: &[&str]| {
        let mut query = TaskQuery { max: 9, ..TaskQuery::default() };
        narrow(&mut query);
        let found = tasks.tasks(&query).await.unwrap();
        let ids: Vec<_> = found.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, expected, "{query:?}");
    };
    let all = ["remember-4-there", "forget-3", "remember-2", "remember-1"];
    check(|_| {}, &all).await;
    check(|query| query.max = 2, &all[..2]).await;
    check(|query| query.workspace = Some("here".to_owned()), &all[1..]).await;
    check(|query| query.kind = Some(TaskKind::Forget), &["forget-3"]).await;
    check(|query| query.status = Some(Status::Running), &["remember-1"]).await;
    check(|query| query.owner = OwnerFilter::WithoutClient, &["forget-3", "remember-1"]).await;
    let of_c = ["remember-4-there", "remember-2"];
    check(|query| query.owner = OwnerFilter::Client("c".to_owned()), &of_c).await;
    check(|query| query.owner = OwnerFilter::Client("C".to_owned()), &[]).await;
    check(
        |query| {
            query.workspace = Some("here".to_owned());
            query.owner = OwnerFilter::Client("c".to_owned());
            query.status = Some(Status::Queued);
        },
        &["remember-2"],
    )
    .await;
}

async fn pages_contain_every_task_once(tasks: &dyn TaskStore) {
    for second in 1..=5 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    let mut query = TaskQuery { max: 2, ..TaskQuery::default() };
    let mut ids = Vec::new();
    loop {
        let page = tasks.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.before = Some(last.seq);
        ids.extend(page.into_iter().map(|task| task.id));
    }
    ids.reverse();
    assert_eq!(ids, task_ids(tasks).await);
}

async fn counts_are_in_the_statistics((tasks, state): &TaskAndHistoryStores) {
    enqueue(&**tasks, new_task("remember", 1)).await;
    enqueue(&**tasks, new_task("dream", 2)).await;
    tasks.add_session(super::sessions::session("s1", "here", 1)).await.unwrap();
    let counted = state.stats().await.unwrap();
    assert_eq!((counted.tasks, counted.sessions), (2, 1));
}

fn count(workspace: &str, status: &str, tasks: u64) -> TaskCount {
    TaskCount { workspace: workspace.to_owned(), status: status.parse().unwrap(), tasks }
}

async fn tasks_are_counted_by_workspace_and_status(tasks: &dyn TaskStore) {
    assert_eq!(tasks.count_tasks(time(0)).await.unwrap(), []);
    for task in [
        new_task("remember", 1),
        new_task("dream", 2),
        in_workspace("there", new_task("remember", 3)),
    ] {
        enqueue(tasks, task).await;
    }
    enqueue(tasks, new_task("forget", 4)).await;
    begin(tasks, 5).await;
    let expected =
        [count("here", "queued", 2), count("here", "running", 1), count("there", "queued", 1)];
    assert_eq!(tasks.count_tasks(time(9)).await.unwrap(), expected);
}

async fn old_finished_tasks_are_hidden_from_queries_and_can_be_dropped(tasks: &dyn TaskStore) {
    for second in 1..=4 {
        enqueue(tasks, new_task("remember", second)).await;
    }
    for second in 5..=7 {
        let begun = begin(tasks, second).await;
        tasks
            .finish_task(begun.attempt(), task_outcome("completed", "{}"), time(second))
            .await
            .unwrap();
    }
    let since = async |second| {
        let ended_since = Some(time(second));
        let query = TaskQuery { ended_since, max: 9, ..TaskQuery::default() };
        tasks.tasks(&query).await.unwrap().into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    let all = ["remember-4", "remember-3", "remember-2", "remember-1"];
    assert_eq!(since(5).await, all);
    assert_eq!(since(6).await, all[..3], "queued tasks are always found");
    assert_eq!(since(99).await, all[..1]);
    let counted = [count("here", "completed", 1), count("here", "queued", 1)];
    assert_eq!(tasks.count_tasks(time(7)).await.unwrap(), counted);
    assert_eq!(tasks.drop_ended(time(5)).await.unwrap(), 0);
    assert_eq!(tasks.drop_ended(time(7)).await.unwrap(), 2);
    assert_eq!(task_ids(tasks).await, ["remember-3", "remember-4"]);
    assert_eq!(tasks.drop_ended(time(99)).await.unwrap(), 1);
    assert_eq!(task_ids(tasks).await, ["remember-4"]);
}
