//! Tests of crashes at each step of a task, and of recovery by the next process.
//!
//! A crashed process is one whose state answers no more calls. The next process has the same files,
//! the same database and the same lock files.

use std::sync::Arc;

use lukasa_engine::{Requester, Status, TaskState, Viewer};
use state::SqliteState;
use testkit::{Faults, FaultyState, FaultyTasks};

use super::host::{LaneHost, LaneProcess, client, remember};

/// Number of state calls: more than two tasks make, including the polls that wait for them.
const CALLS: u64 = 44;

struct CrashingProcess {
    process: LaneProcess,
    state: Arc<FaultyState>,
}

impl CrashingProcess {
    fn start(host: &LaneHost) -> Self {
        let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
        let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
        let tasks = Arc::new(FaultyTasks::sharing(sqlite, &state));
        Self { process: host.process_on(Arc::clone(&state) as _, tasks), state }
    }

    /// Submits two tasks and crashes on the way; returns the ids of the acknowledged ones.
    async fn die(self, faults: Faults) -> Vec<lukasa_engine::TaskId> {
        self.state.set(faults);
        let mut acknowledged = Vec::new();
        for (content, name) in
            [("add project/a.md x add global/a.md x", "first"), ("add project/a.md y", SECOND)]
        {
            let lanes = self.process.lanes();
            let requester = Requester::client("test", Some(client(name)));
            let submitted =
                lanes.submit(&self.process.workspace, remember(content), requester).await;
            if let Ok(task) = submitted {
                // Returns after the crash or the end of the task.
                let waited = lanes.wait(&self.process.workspace, &task.id).await;
                drop(waited);
                acknowledged.push(task.id);
            }
        }
        self.process.lanes().drain(std::time::Duration::ZERO).await;
        self.process.store.close().await;
        acknowledged
    }
}

/// Checks the invariants after a crash, in the next process.
async fn check(host: &LaneHost, acknowledged: &[lukasa_engine::TaskId], context: &str) {
    let process = host.process();
    process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
    let tasks = process
        .lanes()
        .list(&process.workspace, lukasa_engine::TaskFilter::default(), Viewer::Person)
        .await
        .unwrap();
    for id in acknowledged {
        assert!(tasks.iter().any(|task| task.id == *id), "{context}: {id} is lost");
    }
    let mut expected = String::new();
    for task in tasks.iter().rev() {
        let ended = process.wait_for_end(task).await;
        assert_eq!(ended.status(), Status::Completed, "{context}: {ended:?}");
        let TaskState::Completed(result) = &ended.state else { continue };
        assert_eq!(result.summary, "done", "{context}");
        let line = if expected.is_empty() && !is_second(&ended) { "- x\n" } else { "- y\n" };
        expected.push_str(line);
        let changes = process.changes_of(&ended).await;
        assert_eq!(changes, 1, "{context}: a task has one change");
    }
    let project = process.text("project/a.md").await.unwrap_or_default();
    assert_eq!(project, expected, "{context}: each task once, in order");
    let global = process.text("global/a.md").await.unwrap_or_default();
    assert_eq!(global, expected.replace("- y\n", ""), "{context}: all files of a task or none");
    process.close().await;
}

/// Client name of the second task, which identifies it: a finished task does not keep its text.
const SECOND: &str = "second";

fn is_second(task: &lukasa_engine::Task) -> bool {
    task.requester.client.as_ref().is_some_and(|client| client.as_str() == SECOND)
}

#[tokio::test]
async fn two_tasks_make_fewer_calls_than_are_tested() {
    let host = LaneHost::new();
    let process = CrashingProcess::start(&host);
    let state = Arc::clone(&process.state);
    assert_eq!(process.die(Faults::Never).await.len(), 2);
    assert!(state.calls() <= CALLS, "{}", state.calls());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_runs_once_after_a_crash_at_any_step() {
    let mut worlds = tokio::task::JoinSet::new();
    for call in 1..=CALLS {
        for faults in [Faults::CrashAfter(call), Faults::CrashBeforeAnswer(call)] {
            worlds.spawn(async move {
                let host = LaneHost::new();
                let acknowledged = CrashingProcess::start(&host).die(faults).await;
                check(&host, &acknowledged, &format!("{faults:?}")).await;
            });
        }
    }
    worlds.join_all().await;
}

#[tokio::test]
async fn a_second_crash_during_recovery_is_survived() {
    for call in 1..=6 {
        let host = LaneHost::new();
        let acknowledged = CrashingProcess::start(&host).die(Faults::CrashAfter(3)).await;
        let second = CrashingProcess::start(&host);
        second.state.set(Faults::CrashAfter(call));
        drop(second.process.lanes().resume(&[host.workspace("shop")]).await);
        second.process.lanes().drain(std::time::Duration::from_millis(20)).await;
        second.process.store.close().await;
        let process = host.process();
        process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
        for id in &acknowledged {
            let ended = process.lanes().wait(&process.workspace, id).await.unwrap().unwrap();
            let (text, changes) =
                (process.text("project/a.md").await, process.changes_of(&ended).await);
            match ended.state {
                TaskState::Completed(_) => assert_eq!((text.is_some(), changes), (true, 1)),
                TaskState::Failed(_) => assert_eq!((text, changes), (None, 0)),
                other => panic!("{other:?}"),
            }
        }
        process.close().await;
    }
}

#[tokio::test]
async fn failures_of_the_state_do_not_count_as_lost_attempts() {
    let host = LaneHost::new();
    let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
    let tasks = Arc::new(FaultyTasks::new(Arc::clone(&sqlite) as _));
    let process = host.process_on(sqlite, Arc::clone(&tasks) as _);
    let task = process.submit("wait add project/a.md x").await;
    for attempts in 1..=5 {
        while host.runner.begun.lock().unwrap().len() < attempts {
            tokio::task::yield_now().await;
        }
        if attempts < 5 {
            // The state fails to store the prepared outcome.
            tasks.set(Faults::Call(1));
        }
        host.runner.gate.add_permits(1);
    }
    let ended = process.wait_for_end(&task).await;
    assert_eq!(ended.status(), Status::Completed, "{ended:?}");
    assert_eq!(process.changes_of(&ended).await, 1);
    process.close().await;
}
