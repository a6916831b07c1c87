//! Tests of several processes on one home, including crashed ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{CancelOutcome, LaneSettings, Status, TaskErrorCode, Viewer};
use state::{LockMode, QueueLimits, SqliteState, TaskStore};

use super::host::{LaneHost, LaneProcess, code, quick};

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_a_lane() {
    let host = LaneHost::new();
    let processes = [host.process(), host.process(), host.process()];
    let mut submitted = Vec::new();
    for number in 0..15 {
        let process = &processes[number % 3];
        submitted.push((process, process.submit(&format!("add global/a.md {number}")).await));
    }
    for (process, task) in &submitted {
        assert_eq!(process.wait_for_end(task).await.status(), Status::Completed);
    }
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 1);
    let text = processes[0].text("global/a.md").await.unwrap();
    let lines: Vec<_> = (0..15).map(|number| format!("- {number}")).collect();
    assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    assert_eq!(host.runner.begun.lock().unwrap().len(), 15, "no task runs twice");
    // The process that queued a task publishes its end, whichever process ran it.
    let is_published = |process: &LaneProcess, id: &str| {
        process.feed.tasks().iter().any(|published| published == id)
    };
    for (process, task) in &submitted {
        while !is_published(process, task.id.as_str()) {
            tokio::task::yield_now().await;
        }
    }
    for process in processes {
        let mut published = process.feed.tasks();
        let all = published.len();
        published.sort();
        published.dedup();
        assert_eq!(published.len(), all, "no end is published twice");
        process.close().await;
    }
}

#[tokio::test]
async fn a_task_left_queued_by_another_process_runs_on_the_next_request() {
    let host = LaneHost::new();
    let gone = host.process();
    gone.lanes().drain(Duration::ZERO).await;
    // The process accepts no more tasks, so its queue is written directly, as if it had crashed
    // right after.
    let process = host.process();
    let task = process.submit("wait").await;
    let row = process.tasks.task(task.id.as_str()).await.unwrap().unwrap();
    let left = state::NewTask {
        id: "remember-67e55044-10b1-426f-9247-bb680e5fe0c8".to_owned(),
        workspace: row.workspace,
        kind: row.kind,
        client: None,
        request: row.request.replace("wait", "add global/a.md x"),
        at: row.created_at,
    };
    gone.tasks.enqueue(left.clone(), quick().limits).await.unwrap();
    host.runner.gate.add_permits(1);
    let left = left.id.parse().unwrap();
    let ended = process.lanes().wait(&process.workspace, &left).await.unwrap().unwrap();
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(process.text("global/a.md").await.as_deref(), Some("- x\n"));
    gone.close().await;
    process.close().await;
}

#[tokio::test]
async fn a_task_of_another_process_can_be_cancelled_before_it_writes() {
    let host = LaneHost::new();
    let (running, other) = (host.process(), host.process());
    let task = running.submit("add global/a.md x wait").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let id = &task.id;
    let cancelled = other.lanes().cancel(&other.workspace, id, Viewer::Person).await.unwrap();
    assert!(matches!(cancelled, Some(CancelOutcome::AlreadyEnded(_))), "{cancelled:?}");
    host.runner.gate.add_permits(1);
    // The lane is done with it once the next task has ended.
    running.submit_and_wait("").await;
    assert_eq!(code(&running.wait_for_end(&task).await), Some(TaskErrorCode::Cancelled));
    assert_eq!((running.text("global/a.md").await, running.changes_of(&task).await), (None, 0));
    assert_eq!(running.feed.tasks(), [""; 0]);
    running.close().await;
    other.close().await;
}

#[tokio::test]
async fn the_end_of_a_task_of_another_process_is_published_once() {
    let host = LaneHost::new();
    let (other, subscriber) = (host.process(), host.process());
    let lanes = subscriber.lanes().clone();
    let notices = subscriber.store.subscribe();
    let following = tokio::spawn(async move { lanes.follow(notices).await });
    let own = subscriber.submit_and_wait("add project/a.md x").await;
    let theirs = other.submit_and_wait("add project/a.md y add project/b.md y").await;
    let nothing = other.submit_and_wait("").await;
    // Does what a watch does after a change of a file.
    subscriber.notice().await;
    let last = subscriber.submit_and_wait("add project/b.md z").await;
    let is_published =
        |task: &lukasa_engine::Task| subscriber.feed.tasks().contains(&task.id.to_string());
    // Either process may run the last task.
    while !is_published(&theirs) || !is_published(&last) {
        tokio::task::yield_now().await;
    }
    let mut all = subscriber.feed.tasks();
    all.sort();
    let mut expected = [&own, &theirs, &last].map(|task| task.id.to_string());
    expected.sort();
    assert_eq!(all, expected, "not {}", nothing.id);
    let mut by_other = other.feed.tasks();
    by_other.retain(|id| *id != last.id.to_string());
    assert_eq!(by_other, [theirs.id.to_string()]);
    following.abort();
    subscriber.close().await;
    other.close().await;
}

#[tokio::test]
async fn ends_of_other_processes_are_published_after_missed_notices() {
    let host = LaneHost::new();
    let (other, subscriber) = (host.process(), host.process());
    let earlier = other.submit_and_wait("add project/a.md w").await;
    host.clock.advance(Duration::from_secs(1));
    let (sender, notices) = tokio::sync::broadcast::channel(1);
    let lanes = subscriber.lanes().clone();
    // Polled once, so that it has subscribed and waits.
    let mut following = Box::pin(async move { lanes.follow(notices).await });
    let soon = Duration::from_millis(1);
    assert!(tokio::time::timeout(soon, &mut following).await.is_err());
    let own = subscriber.submit_and_wait("add project/a.md x").await;
    let theirs = other.submit_and_wait("add project/a.md y").await;
    let nothing = other.submit_and_wait("").await;
    let mut announced = other.store.subscribe();
    let last = other.submit_and_wait("add project/b.md z").await;
    let notice = announced.recv().await.unwrap();
    for _ in 0..3 {
        sender.send(notice.clone()).unwrap();
    }
    drop(sender);
    following.await;
    while subscriber.feed.tasks().len() < 3 {
        tokio::task::yield_now().await;
    }
    let expected = [&own, &theirs, &last].map(|task| task.id.to_string());
    assert_eq!(subscriber.feed.tasks(), expected, "neither {} nor {}", earlier.id, nothing.id);
    subscriber.close().await;
    other.close().await;
}

/// Leaves a task running like a crashed process, after this number of attempts.
async fn left_running(host: &LaneHost, content: &str, attempts: u32) -> lukasa_engine::Task {
    let process = host.process();
    // The lane waits while its lock is held, so the task can be started behind its back.
    let lock = host.lock(&process.workspace).acquire(LockMode::Exclusive).await.unwrap();
    let task = process.submit(content).await;
    let tasks = &process.tasks;
    for attempt in 0..attempts {
        let begun = tasks.begin_next(&process.workspace.id, task.created_at).await.unwrap();
        let begun = begun.unwrap();
        assert_eq!(begun.id, task.id.to_string());
        if attempt + 1 < attempts {
            assert!(tasks.requeue(begun.attempt(), task.created_at).await.unwrap());
        }
    }
    process.close().await;
    drop(lock);
    task
}

#[tokio::test]
async fn a_task_of_a_crashed_process_runs_again_and_then_fails() {
    for (attempts, expected) in [(1, None), (2, Some(TaskErrorCode::RememberFailed))] {
        let host = LaneHost::new();
        let task = left_running(&host, "add global/a.md x", attempts).await;
        let process = host.process();
        process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
        let ended = process.wait_for_end(&task).await;
        assert_eq!(code(&ended), expected);
        let text = process.text("global/a.md").await;
        assert_eq!(text.as_deref(), expected.is_none().then_some("- x\n"));
        process.close().await;
    }
}

#[tokio::test]
async fn a_task_is_not_resumed_in_other_or_untrusted_workspaces() {
    let host = LaneHost::new();
    let task = left_running(&host, "add global/a.md x", 1).await;
    let process = host.process();
    process.lanes().resume(&[host.workspace("mill")]).await.unwrap();
    let mut untrusted = host.workspace("shop");
    untrusted.trusted = false;
    process.lanes().resume(&[untrusted]).await.unwrap();
    process.close().await;
    let state = SqliteState::new(host.folders.state.join("lukasa.db"));
    let tasks: Arc<dyn TaskStore> = Arc::new(state);
    assert_eq!(tasks.task(task.id.as_str()).await.unwrap().unwrap().status, Status::Running);
    assert_eq!(*host.runner.begun.lock().unwrap(), [""; 0]);
}

#[tokio::test]
async fn maintenance_runs_tasks_of_crashed_processes() {
    let host = LaneHost::new();
    let settings = LaneSettings { maintenance_interval: Duration::from_millis(5), ..quick() };
    let daemon = host.process().with(settings);
    let lanes = daemon.lanes().clone();
    lanes.register(&host.workspace("mill"));
    lanes.register(&host.workspace("shop"));
    let maintenance = tokio::spawn(async move { lanes.maintain().await });
    // The process crashes after the first maintenance: once with a running task, once with a queued
    // one.
    for (attempts, path) in [(1, "global/a.md"), (0, "global/b.md")] {
        let task = left_running(&host, &format!("add {path} x"), attempts).await;
        loop {
            let row = daemon.tasks.task(task.id.as_str()).await.unwrap().unwrap();
            if row.status == Status::Completed {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(daemon.text(path).await.as_deref(), Some("- x\n"));
    }
    daemon.lanes().drain(Duration::from_secs(5)).await;
    maintenance.await.unwrap();
    daemon.close().await;
}

#[tokio::test]
async fn expired_tasks_are_hidden_and_deleted_by_maintenance() {
    let host = LaneHost::new();
    let limits = QueueLimits { finished_max_age: Duration::from_mins(5), ..quick().limits };
    let process = host.process().with(LaneSettings { limits, ..quick() });
    let task = process.submit_and_wait("add global/a.md x").await;
    let shown = async || {
        let (lanes, workspace) = (process.lanes(), &process.workspace);
        let id = &task.id;
        let got = lanes.get(workspace, id, Viewer::Person).await.unwrap().is_some();
        let cancelled = lanes.cancel(workspace, id, Viewer::Person).await.unwrap().is_some();
        let filter = lukasa_engine::TaskFilter::default();
        let listed = lanes.list(workspace, filter, Viewer::Person).await.unwrap().len();
        (got, cancelled, listed, lanes.counts().await.unwrap().len())
    };
    host.clock.advance(Duration::from_mins(5));
    assert_eq!(shown().await, (true, true, 1, 1));
    host.clock.advance(Duration::from_secs(1));
    assert_eq!(shown().await, (false, false, 0, 0));
    assert!(process.tasks.task(task.id.as_str()).await.unwrap().is_some());
    let lanes = process.lanes().clone();
    let maintenance = tokio::spawn(async move { lanes.maintain().await });
    while process.tasks.task(task.id.as_str()).await.unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    process.lanes().drain(Duration::ZERO).await;
    maintenance.await.unwrap();
    process.close().await;
}
