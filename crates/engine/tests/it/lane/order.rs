//! Tests of order: one task at a time per workspace, workspaces in parallel, and no work when idle.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{CuratorRequest, ForgetRequest, LaneSettings, Status};

use testkit::FaultyState;

use super::ends::faulty;
use super::host::{LaneHost, anonymous_requester, quick, remember};

/// Waits until every task of the runtime waits for the test or for another task.
///
/// Paused time advances only while no task is ready and no blocking thread is busy. An unanswered
/// database call is neither, so it is checked separately.
async fn until_idle(state: &FaultyState) {
    tokio::time::pause();
    loop {
        tokio::time::sleep(Duration::from_millis(1)).await;
        if state.pending() == 0 {
            break;
        }
    }
    tokio::time::resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_workspace_run_one_at_a_time_in_order() {
    let host = LaneHost::new();
    let process = host.process();
    let mut submitted = Vec::new();
    for number in 0..12 {
        let request = match number % 4 {
            1 => CuratorRequest::Forget(ForgetRequest {
                query: "x".to_owned(),
                scope: None,
                file: None,
            }),
            2 => CuratorRequest::Dream,
            _ => remember(&format!("add global/a.md {number}")),
        };
        let task = process
            .lanes()
            .submit(&process.workspace, request, anonymous_requester())
            .await
            .unwrap();
        submitted.push(task);
    }
    for task in &submitted {
        assert_eq!(process.wait_for_end(task).await.status(), Status::Completed);
    }
    let ids: Vec<_> = submitted.iter().map(|task| task.id.to_string()).collect();
    assert_eq!(*host.runner.begun.lock().unwrap(), ids);
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 1);
    let text = process.text("global/a.md").await.unwrap();
    assert_eq!(text, "- 0\n- 3\n- 4\n- 7\n- 8\n- 11\n");
    process.close().await;
}

#[tokio::test]
async fn workspaces_run_in_parallel_up_to_a_maximum() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    let process = process.with(LaneSettings { concurrent_max: 2, ..quick() });
    let folders = ["shop", "mill", "barn"];
    let mut submitted = Vec::new();
    for folder in folders {
        let workspace = host.workspace(folder);
        let request = remember("wait");
        let task =
            process.lanes().submit(&workspace, request, anonymous_requester()).await.unwrap();
        submitted.push((workspace, task));
    }
    while host.runner.begun.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    until_idle(&state).await;
    assert_eq!(host.runner.begun.lock().unwrap().len(), 2, "no third runs beside them");
    host.runner.gate.add_permits(3);
    for (workspace, task) in &submitted {
        let ended = process.lanes().wait(workspace, &task.id).await.unwrap().unwrap();
        assert_eq!(ended.status(), Status::Completed);
    }
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 2);
    process.close().await;
}

#[tokio::test]
async fn an_idle_lane_has_no_tokio_task_once_its_caches_were_trimmed() {
    let host = LaneHost::new();
    let process = host.process();
    for _ in 0..3 {
        process.submit_and_wait("").await;
    }
    let metrics = tokio::runtime::Handle::current().metrics();
    // The store's background work may end a moment later than the lane.
    process.store.close().await;
    while metrics.num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
    let trims = host.runner.cache_trims.load(Ordering::SeqCst);
    assert!((1..=3).contains(&trims), "{trims}: at most once after each task");
    // The next task wakes the lane.
    assert_eq!(process.submit_and_wait("add global/a.md x").await.status(), Status::Completed);
    process.close().await;
}
