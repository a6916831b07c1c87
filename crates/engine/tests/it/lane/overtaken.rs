//! A stalled process whose task another process takes over, and which then continues.
//!
//! The lock file of the lane was removed, so it no longer separates the two. Only the attempt
//! numbers in the state do.

use std::sync::Arc;
use std::time::Duration;

use lukasa_engine::{Status, Task};
use state::{SqliteState, TaskStore};
use testkit::{Faults, FaultyState, FaultyTasks};

use super::host::{LaneHost, LaneProcess, anonymous_requester, remember};

/// Number of state calls: more than a task makes.
const CALLS: u64 = 18;

/// Checks whether another process has advanced a task so far that it may wait for the stalled one.
async fn is_overtaken(tasks: &dyn TaskStore, id: &str) -> bool {
    let row = tasks.task(id).await.unwrap().unwrap();
    let is_prepared = row.attempts == 2 && row.outcome.is_some();
    is_prepared || row.status.is_final()
}

/// Returns the only task.
async fn only_task(process: &LaneProcess) -> Option<Task> {
    let (lanes, filter) = (process.lanes(), lukasa_engine::TaskFilter::default());
    let listed =
        lanes.list(&process.workspace, filter, lukasa_engine::Viewer::Person).await.unwrap();
    listed.into_iter().next()
}

/// Stalls a process at this call of a task, and has another one take over.
async fn overtake(call: u64) {
    let host = LaneHost::new();
    let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
    let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
    let tasks = Arc::new(FaultyTasks::sharing(sqlite, &state));
    let slow = host.process_on(Arc::clone(&state) as _, tasks);
    state.set(Faults::Pause(call));
    let (lanes, workspace) = (slow.lanes().clone(), slow.workspace.clone());
    let submitting = tokio::spawn(async move {
        let request = remember("add project/a.md x add global/a.md x");
        lanes.submit(&workspace, request, anonymous_requester()).await.unwrap()
    });
    let quick = host.process();
    let task = loop {
        if let Some(task) = only_task(&quick).await {
            let is_over = state.calls() < call && task.status().is_final();
            if is_over || state.calls() >= call {
                break task;
            }
        }
        tokio::task::yield_now().await;
    };
    host.remove_lock(&quick.workspace);
    quick.lanes().resume(&[host.workspace("shop")]).await.unwrap();
    while !is_overtaken(&*quick.tasks, task.id.as_str()).await {
        tokio::task::yield_now().await;
    }
    state.set(Faults::Never);
    assert_eq!(submitting.await.unwrap().id, task.id);
    let (by_slow, by_quick) = (slow.wait_for_end(&task).await, quick.wait_for_end(&task).await);
    assert_eq!((by_slow.status(), &by_slow), (Status::Completed, &by_quick), "call {call}");
    slow.close().await;
    assert_eq!(quick.changes_of(&task).await, 1, "call {call}");
    for path in ["project/a.md", "global/a.md"] {
        assert_eq!(quick.text(path).await.as_deref(), Some("- x\n"), "call {call}");
    }
    assert_eq!(
        quick.submit_and_wait("add project/a.md y").await.status(),
        Status::Completed,
        "call {call}"
    );
    quick.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_process_and_its_successor_run_the_task_once() {
    let mut worlds = tokio::task::JoinSet::new();
    for call in 2..=CALLS {
        worlds.spawn(async move {
            let overtaken = tokio::time::timeout(Duration::from_mins(1), overtake(call)).await;
            assert!(overtaken.is_ok(), "call {call} does not end");
        });
    }
    worlds.join_all().await;
}
