//! Tests of requests to lanes: limits, refusals, visibility, cancellation.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{
    CancelOutcome, ClientId, CuratorRequest, ForgetRequest, Lanes, Requester, Status, SubmitError,
    TaskErrorCode, TaskFilter, TaskKind, TaskState, Viewer, Workspace,
};

use super::host::{
    Availability, LaneHost, LaneProcess, anonymous_requester, client, code, quick, remember,
};

async fn submit(
    process: &LaneProcess,
    request: CuratorRequest,
) -> Result<lukasa_engine::Task, SubmitError> {
    process.lanes().submit(&process.workspace, request, anonymous_requester()).await
}

fn forget() -> CuratorRequest {
    CuratorRequest::Forget(ForgetRequest { query: "x".to_owned(), scope: None, file: None })
}

#[tokio::test]
async fn the_seventeenth_unfinished_task_and_the_ninth_minor_one_are_refused() {
    let host = LaneHost::new();
    let process = host.process();
    let running = process.submit("wait").await;
    for number in 0..8 {
        let request = if number % 2 == 0 { forget() } else { CuratorRequest::Dream };
        submit(&process, request).await.unwrap();
    }
    assert!(matches!(submit(&process, forget()).await, Err(SubmitError::Full)));
    assert!(matches!(submit(&process, CuratorRequest::Dream).await, Err(SubmitError::Full)));
    let mut last = process.submit("add global/a.md x").await;
    for _ in 10..16 {
        last = process.submit("add global/a.md x").await;
    }
    assert!(matches!(
        submit(&process, remember("add global/a.md x")).await,
        Err(SubmitError::Full)
    ));
    // An ended task makes room.
    host.runner.gate.add_permits(1);
    assert_eq!(process.wait_for_end(&running).await.status(), Status::Completed);
    assert_eq!(process.wait_for_end(&last).await.status(), Status::Completed);
    process.submit_and_wait("add global/a.md x").await;
    process.close().await;
}

#[tokio::test]
async fn a_task_that_the_workspace_or_the_runner_does_not_allow_is_not_queued() {
    let host = LaneHost::new();
    let process = host.process();
    let (lanes, ours) = (process.lanes(), &process.workspace);
    let submit = async |workspace: &Workspace| {
        lanes.submit(workspace, remember("add global/a.md x"), anonymous_requester()).await
    };
    let untrusted = Workspace { trusted: false, ..ours.clone() };
    assert!(matches!(submit(&untrusted).await, Err(SubmitError::Untrusted)));
    let off = Workspace { memory_enabled: false, ..ours.clone() };
    assert!(matches!(submit(&off).await, Err(SubmitError::Unavailable)));
    for (available, expected) in [
        (Availability::No, "managed memory is off for this workspace"),
        (Availability::Fails, "the check whether tasks can run here failed"),
        (Availability::Panics, "the check whether tasks can run here failed"),
    ] {
        *host.runner.available.lock().unwrap() = available;
        let refused = submit(ours).await.unwrap_err();
        assert_eq!(refused.to_string(), expected, "{available:?}");
    }
    assert_eq!(lanes.list(ours, TaskFilter::default(), Viewer::Person).await.unwrap(), []);
    process.close().await;
}

#[tokio::test]
async fn an_availability_check_that_hangs_fails() {
    let host = LaneHost::new();
    let settings = lukasa_engine::LaneSettings { probe_wait: Duration::from_millis(10), ..quick() };
    let process = host.process().with(settings);
    *host.runner.available.lock().unwrap() = Availability::Hangs;
    assert!(matches!(submit(&process, forget()).await, Err(SubmitError::ProbeFailed)));
    process.close().await;
}

#[tokio::test]
async fn a_drain_during_the_availability_check_takes_precedence() {
    for available in [Availability::Waits, Availability::WaitsThenNo] {
        let host = LaneHost::new();
        let process = host.process();
        *host.runner.available.lock().unwrap() = available;
        let (submitted, ()) = tokio::join!(submit(&process, forget()), async {
            process.lanes().drain(Duration::ZERO).await;
            host.runner.gate.add_permits(1);
        });
        assert!(matches!(submitted, Err(SubmitError::Draining)), "{available:?}: {submitted:?}");
        process.close().await;
    }
}

/// Returns the status of a task as a viewer sees it.
async fn status_seen_by(
    process: &LaneProcess,
    task: &lukasa_engine::Task,
    viewer: Viewer<'_>,
) -> Option<Status> {
    let (lanes, workspace) = (process.lanes(), &process.workspace);
    let got = lanes.get(workspace, &task.id, viewer).await.unwrap();
    let listed = lanes.list(workspace, TaskFilter::default(), viewer).await.unwrap();
    assert_eq!(got.as_ref(), listed.iter().find(|listed_task| listed_task.id == task.id));
    got.map(|task| task.status())
}

#[tokio::test]
async fn a_task_is_visible_to_its_client_and_to_the_user() {
    let host = LaneHost::new();
    let process = host.process();
    let (one, two) = (client("one"), client("two"));
    let as_client = |id: &ClientId| Requester::client("test", Some(id.clone()));
    let lanes: &Lanes = process.lanes();
    let own = lanes.submit(&process.workspace, remember(""), as_client(&one)).await.unwrap();
    let free = lanes.submit(&process.workspace, remember(""), anonymous_requester()).await.unwrap();
    process.wait_for_end(&own).await;
    process.wait_for_end(&free).await;
    let done = Some(Status::Completed);
    for (task, viewer, expected) in [
        (&own, Viewer::Client(Some(&one)), done),
        (&own, Viewer::Client(Some(&two)), None),
        (&own, Viewer::Client(None), None),
        (&own, Viewer::Person, done),
        (&free, Viewer::Client(Some(&one)), None),
        (&free, Viewer::Client(None), done),
        (&free, Viewer::Person, done),
    ] {
        assert_eq!(status_seen_by(&process, task, viewer).await, expected, "{viewer:?}");
    }
    // The task is not visible from another workspace.
    let elsewhere = host.workspace("mill");
    assert_eq!(lanes.get(&elsewhere, &own.id, Viewer::Person).await.unwrap(), None);
    // Other clients cannot cancel it.
    let cancelled = lanes.cancel(&process.workspace, &own.id, Viewer::Client(Some(&two))).await;
    assert_eq!(cancelled.unwrap(), None);
    process.close().await;
}

#[tokio::test]
async fn a_listing_applies_its_filter() {
    let host = LaneHost::new();
    let process = host.process();
    let first = process.submit_and_wait("add global/a.md x").await;
    let failed = process.submit_and_wait("panic").await;
    let forgot = submit(&process, forget()).await.unwrap();
    process.wait_for_end(&forgot).await;
    let list = async |filter: TaskFilter| {
        let listed = process.lanes().list(&process.workspace, filter, Viewer::Person).await;
        listed.unwrap().into_iter().map(|task| task.id).collect::<Vec<_>>()
    };
    let all = [forgot.id.clone(), failed.id.clone(), first.id.clone()];
    assert_eq!(list(TaskFilter::default()).await, all);
    let max = Some(1);
    assert_eq!(list(TaskFilter { max, ..TaskFilter::default() }).await, all[..1]);
    let kind = Some(TaskKind::Remember);
    assert_eq!(list(TaskFilter { kind, ..TaskFilter::default() }).await, all[1..]);
    let status = Some(Status::Failed);
    assert_eq!(list(TaskFilter { status, ..TaskFilter::default() }).await, all[1..2]);
    process.close().await;
}

#[tokio::test]
async fn finished_tasks_expire() {
    let host = LaneHost::new();
    let process = host.process();
    let old = process.submit_and_wait("").await;
    host.clock.advance(quick().limits.finished_max_age + Duration::from_secs(1));
    let new = process.submit_and_wait("").await;
    let id = &old.id;
    assert_eq!(process.lanes().get(&process.workspace, id, Viewer::Person).await.unwrap(), None);
    assert_eq!(status_seen_by(&process, &new, Viewer::Person).await, Some(Status::Completed));
    process.close().await;
}

#[tokio::test]
async fn a_queued_task_is_cancelled_at_once_and_a_running_one_is_stopped() {
    let host = LaneHost::new();
    let process = host.process();
    let running = process.submit("add global/a.md x hang").await;
    let waiting = process.submit("add global/b.md x").await;
    let next = process.submit("add global/c.md x").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    for task in [&waiting, &running] {
        let id = &task.id;
        let cancelled = process.lanes().cancel(&process.workspace, id, Viewer::Person).await;
        let Some(CancelOutcome::AlreadyEnded(over)) = cancelled.unwrap() else {
            panic!("it is over")
        };
        assert_eq!(code(&over), Some(TaskErrorCode::Cancelled));
        assert_eq!(process.wait_for_end(task).await, over);
    }
    assert_eq!(process.wait_for_end(&next).await.status(), Status::Completed);
    assert_eq!(process.text("global/a.md").await, None);
    assert_eq!(process.text("global/b.md").await, None);
    assert_eq!(process.text("global/c.md").await.as_deref(), Some("- x\n"));
    assert_eq!(process.feed.tasks(), [next.id.to_string()]);
    // An ended task stays as it is.
    let id = &next.id;
    let late = process.lanes().cancel(&process.workspace, id, Viewer::Person).await.unwrap();
    let Some(CancelOutcome::AlreadyEnded(late)) = late else { panic!("it is over") };
    assert!(matches!(late.state, TaskState::Completed(_)));
    process.close().await;
}

#[tokio::test]
async fn a_removed_workspace_accepts_no_task_and_fails_its_tasks() {
    let host = LaneHost::new();
    let process = host.process();
    let running = process.submit("add global/a.md x hang").await;
    let waiting = process.submit("add global/b.md x").await;
    process.lanes().remove(&process.workspace).await.unwrap();
    for task in [&running, &waiting] {
        let ended = process.wait_for_end(task).await;
        assert_eq!(code(&ended), Some(TaskErrorCode::WorkspaceRemoved));
    }
    assert!(matches!(submit(&process, forget()).await, Err(SubmitError::Draining)));
    assert_eq!(process.text("global/a.md").await, None);
    // Other workspaces are not affected.
    let mill = host.workspace("mill");
    let task =
        process.lanes().submit(&mill, remember("add global/c.md x"), anonymous_requester()).await;
    let ended = process.lanes().wait(&mill, &task.unwrap().id).await.unwrap().unwrap();
    assert_eq!(ended.status(), Status::Completed);
    process.close().await;
}

#[tokio::test]
async fn a_failed_publication_does_not_fail_a_task() {
    let host = LaneHost::new();
    let process = host.process();
    process.feed.fails.store(true, Ordering::SeqCst);
    assert_eq!(process.submit_and_wait("add global/a.md x").await.status(), Status::Completed);
    process.close().await;
}
