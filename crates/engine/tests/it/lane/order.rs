//! One at a time in a workspace, in order, beside other workspaces, and nothing when idle.

use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{CuratorRequest, ForgetRequest, LaneSettings, Status};

use testkit::FaultyState;

use super::ends::faulty;
use super::host::{LaneHost, anonymous_requester, quick, remember};

/// Waits until no task of the runtime can go on: all wait for the test, or for each other.
///
/// Paused time advances only while nothing else is ready and no blocking thread is busy. A call that the
/// database has not answered is neither.
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
async fn tasks_of_a_workspace_are_done_one_at_a_time_in_order() {
    let host = LaneHost::new();
    let process = host.process();
    let mut asked = Vec::new();
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
        asked.push(task);
    }
    for task in &asked {
        assert_eq!(process.wait_for_end(task).await.status(), Status::Completed);
    }
    let ids: Vec<_> = asked.iter().map(|task| task.id.to_string()).collect();
    assert_eq!(*host.runner.begun.lock().unwrap(), ids);
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 1);
    let text = process.text("global/a.md").await.unwrap();
    assert_eq!(text, "- 0\n- 3\n- 4\n- 7\n- 8\n- 11\n");
    process.close().await;
}

#[tokio::test]
async fn workspaces_do_not_wait_for_each_other_up_to_a_bound() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    let process = process.with(LaneSettings { concurrent_max: 2, ..quick() });
    let folders = ["shop", "mill", "barn"];
    let mut asked = Vec::new();
    for folder in folders {
        let workspace = host.workspace(folder);
        let request = remember("wait");
        let task =
            process.lanes().submit(&workspace, request, anonymous_requester()).await.unwrap();
        asked.push((workspace, task));
    }
    while host.runner.begun.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    until_idle(&state).await;
    assert_eq!(host.runner.begun.lock().unwrap().len(), 2, "no third runs beside them");
    host.runner.gate.add_permits(3);
    for (workspace, task) in &asked {
        let ended = process.lanes().wait(workspace, &task.id).await.unwrap().unwrap();
        assert_eq!(ended.status(), Status::Completed);
    }
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 2);
    process.close().await;
}

#[tokio::test]
async fn an_idle_lane_is_no_task_of_the_runtime_once_its_runner_was_told_to_rest() {
    let host = LaneHost::new();
    let process = host.process();
    for _ in 0..3 {
        process.submit_and_wait("").await;
    }
    let metrics = tokio::runtime::Handle::current().metrics();
    // The store's own settling ends a moment later than the lane.
    process.store.close().await;
    while metrics.num_alive_tasks() > 0 {
        tokio::task::yield_now().await;
    }
    let rests = host.runner.cache_trims.load(Ordering::SeqCst);
    assert!((1..=3).contains(&rests), "{rests}: at most once after each task");
    // It is woken by the next task.
    assert_eq!(process.submit_and_wait("add global/a.md x").await.status(), Status::Completed);
    process.close().await;
}
