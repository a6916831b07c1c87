//! Tests of the ends of tasks: success, no change, panic, timeout, drain, crash.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{
    CallContext, Caller, CancelOutcome, ChangesQuery, LaneSettings, ManagedChange, Requester,
    Status, TaskErrorCode, TaskKind, TaskState, Viewer,
};
use memory::change::{Actor, ChangeKind, Trust};
use memory::command::MemoryCommand;
use state::{Attempt, SqliteState};
use store::Binding;
use testkit::{Faults, FaultyState, FaultyTasks};

use super::host::{LaneHost, LaneProcess, PROJECT, at, client, code, quick, remember};

#[tokio::test]
async fn a_completed_task_is_in_the_files_the_history_and_one_event() {
    let host = LaneHost::new();
    let process = host.process();
    let requester = Requester::client("http", Some(client("ide-1")));
    let request = remember("add project/a.md x add project/b.md y");
    let task = process.lanes().submit(&process.workspace, request, requester).await.unwrap();
    assert_eq!(task.status(), Status::Queued);
    let ended = process.wait_for_end(&task).await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(process.text("project/b.md").await.as_deref(), Some("- y\n"));
    let published = process.feed.changes.lock().unwrap().clone();
    assert_eq!(
        published,
        [ManagedChange {
            workspace: process.workspace.id.clone(),
            source: TaskKind::Remember,
            task: task.id.clone(),
            scopes: [PROJECT].into(),
            originator: Some(client("ide-1")),
            saved: 0,
        }]
    );
    let binding = Binding::resolve(&process.workspace.binding, &host.folders);
    let memories = process.store.memories(binding, Caller::person("test"));
    let query = ChangesQuery { task: Some(task.id.to_string()), max: 9, ..Default::default() };
    let changes = memories.changes(&query).await.unwrap();
    let [change] = changes.as_slice() else { panic!("one change: {changes:?}") };
    let provenance = &change.provenance;
    assert_eq!(
        (change.kind, provenance.actor, provenance.trust),
        (ChangeKind::Draft, Actor::Task, Trust::Agent)
    );
    assert_eq!((provenance.origin.as_str(), provenance.client.as_deref()), ("http", Some("ide-1")));
    assert_eq!(provenance.task.as_deref(), Some(task.id.as_str()));
    let runs = process.tasks.runs(task.id.as_str()).await.unwrap();
    let [run] = runs.as_slice() else { panic!("one run: {runs:?}") };
    assert_eq!((run.attempt, run.runner.as_str(), run.ended_at.is_some()), (1, "scripted", true));
    process.close().await;
}

#[tokio::test]
async fn a_task_that_changes_nothing_is_completed_and_not_published() {
    let host = LaneHost::new();
    let process = host.process();
    let ended = process.submit_and_wait("").await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(process.feed.tasks(), [""; 0]);
    process.close().await;
}

#[tokio::test]
async fn a_panic_fails_its_task_and_no_other() {
    let host = LaneHost::new();
    let process = host.process();
    let ended = process.submit_and_wait("add global/a.md x panic").await;
    assert_eq!(code(&ended), Some(TaskErrorCode::RememberFailed));
    assert_eq!(process.text("global/a.md").await, None);
    assert_eq!(process.submit_and_wait("add global/a.md y").await.status(), Status::Completed);
    assert_eq!(process.text("global/a.md").await.as_deref(), Some("- y\n"));
    process.close().await;
}

#[tokio::test]
async fn a_task_that_never_ends_times_out() {
    let host = LaneHost::new();
    let settings = LaneSettings { task_wait: Duration::from_millis(20), ..quick() };
    let process = host.process().with(settings);
    let ended = process.submit_and_wait("add global/a.md x hang").await;
    assert_eq!(code(&ended), Some(TaskErrorCode::Timeout));
    assert_eq!(process.text("global/a.md").await, None);
    assert_eq!(process.submit_and_wait("").await.status(), Status::Completed);
    process.close().await;
}

#[tokio::test]
async fn a_conflicting_decision_is_repeated() {
    let host = LaneHost::new();
    let process = host.process();
    let ended = process.submit_and_wait("add global/a.md x conflict").await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(process.text("global/a.md").await.as_deref(), Some("- x\n"));
    let ended = process.submit_and_wait("add global/b.md x always-conflict").await;
    assert_eq!(code(&ended), Some(TaskErrorCode::RememberFailed));
    assert_eq!(process.text("global/b.md").await, None);
    process.close().await;
}

#[tokio::test]
async fn a_draft_with_an_outdated_base_is_decided_again() {
    let host = LaneHost::new();
    let process = host.process();
    let task = process.submit("add global/a.md x wait").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let binding = Binding::resolve(&process.workspace.binding, &host.folders);
    let memories = process.store.memories(binding, Caller::person("test"));
    let file_text = "- mine\n".to_owned();
    let create = MemoryCommand::Create { path: at("global/a.md"), file_text };
    memories.apply(create, &CallContext::default()).await.unwrap();
    host.runner.gate.add_permits(2);
    assert_eq!(process.wait_for_end(&task).await.status(), Status::Completed);
    assert_eq!(process.text("global/a.md").await.as_deref(), Some("- mine\n- x\n"));
    assert_eq!(host.runner.begun.lock().unwrap().len(), 2);
    process.close().await;
}

#[tokio::test]
async fn details_of_a_failure_are_redacted() {
    let host = LaneHost::new();
    let process = host.process();
    let ended = process.submit_and_wait("secret").await;
    let TaskState::Failed(error) = &ended.state else { panic!("{ended:?}") };
    assert_eq!(error.details(), Some("key [redacted]"));
    process.close().await;
}

#[tokio::test]
async fn a_corrupt_row_fails_and_the_next_task_runs() {
    let host = LaneHost::new();
    let process = host.process();
    let task = process.submit("wait").await;
    let row = process.tasks.task(task.id.as_str()).await.unwrap().unwrap();
    let strange = state::NewTask {
        id: "remember-67e55044-10b1-426f-9247-bb680e5fe0c8".to_owned(),
        workspace: row.workspace,
        kind: TaskKind::Remember,
        client: None,
        request: "{}".to_owned(),
        at: row.created_at,
    };
    process.tasks.enqueue(strange.clone(), quick().limits).await.unwrap();
    let next = process.submit("").await;
    host.runner.gate.add_permits(1);
    assert_eq!(process.wait_for_end(&next).await.status(), Status::Completed);
    let row = process.tasks.task(&strange.id).await.unwrap().unwrap();
    assert_eq!(row.status, Status::Failed);
    process.close().await;
}

#[tokio::test]
async fn a_drain_waits_for_the_running_task_and_leaves_the_others_queued() {
    let host = LaneHost::new();
    let process = host.process();
    let running = process.submit("add global/a.md x wait").await;
    let waiting = process.submit("add global/a.md y").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    host.runner.gate.add_permits(1);
    process.lanes().drain(Duration::from_secs(5)).await;
    assert_eq!(process.wait_for_end(&running).await.status(), Status::Completed);
    let left = process.tasks.task(waiting.id.as_str()).await.unwrap().unwrap();
    assert_eq!(left.status, Status::Queued);
    assert_eq!(process.text("global/a.md").await.as_deref(), Some("- x\n"));
    process.close().await;
    // The next process continues the task once it knows the workspace.
    let next = host.process();
    next.lanes().resume(&[host.workspace("mill"), host.workspace("shop")]).await.unwrap();
    assert_eq!(next.wait_for_end(&waiting).await.status(), Status::Completed);
    assert_eq!(next.text("global/a.md").await.as_deref(), Some("- x\n- y\n"));
    next.close().await;
}

#[tokio::test]
async fn a_drain_stops_a_task_that_does_not_end() {
    let host = LaneHost::new();
    let process = host.process();
    let task = process.submit("add global/a.md x heed").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    process.lanes().drain(Duration::from_millis(10)).await;
    let left = process.tasks.task(task.id.as_str()).await.unwrap().unwrap();
    assert_eq!((left.status.as_str(), left.change), ("queued", None));
    assert_eq!(process.text("global/a.md").await, None);
    process.close().await;
}

#[tokio::test]
async fn a_task_survives_any_number_of_drains() {
    let host = LaneHost::new();
    let first = host.process();
    let task = first.submit("add global/a.md x wait").await;
    let mut processes = vec![first];
    for count in 1..=4 {
        while host.runner.begun.lock().unwrap().len() < count {
            tokio::task::yield_now().await;
        }
        let ending = processes.pop().unwrap();
        ending.lanes().drain(Duration::ZERO).await;
        let left = ending.tasks.task(task.id.as_str()).await.unwrap().unwrap();
        assert_eq!(left.status, Status::Queued);
        ending.close().await;
        let next = host.process();
        next.lanes().resume(&[host.workspace("shop")]).await.unwrap();
        processes.push(next);
    }
    host.runner.gate.add_permits(1);
    let last = processes.pop().unwrap();
    assert_eq!(last.wait_for_end(&task).await.status(), Status::Completed);
    assert_eq!(last.text("global/a.md").await.as_deref(), Some("- x\n"));
    last.close().await;
}

#[tokio::test]
async fn drains_do_not_excuse_a_task_that_crashes_processes() {
    let host = LaneHost::new();
    let (mut process, mut state) = faulty(&host);
    let task = process.submit("add global/a.md x wait").await;
    for (begun, is_killed) in [(1, false), (2, true), (3, true)] {
        while host.runner.begun.lock().unwrap().len() < begun {
            tokio::task::yield_now().await;
        }
        if is_killed {
            // A crashed process cannot record the end of its attempt.
            state.set(Faults::CrashAfter(0));
        }
        process.lanes().drain(Duration::ZERO).await;
        process.close().await;
        (process, state) = faulty(&host);
        process.lanes().resume(&[host.workspace("shop")]).await.unwrap();
    }
    let ended = process.wait_for_end(&task).await;
    assert_eq!(code(&ended), Some(TaskErrorCode::RememberFailed));
    assert_eq!(host.runner.begun.lock().unwrap().len(), 3, "requeued once, then lost twice");
    assert_eq!(process.text("global/a.md").await, None);
    process.close().await;
}

#[tokio::test]
async fn a_panicking_commit_ends_only_its_task() {
    for call in 1..=12 {
        let host = LaneHost::new();
        let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
        let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
        let process = host.process_on(Arc::clone(&state) as _, sqlite);
        state.set(Faults::Panic(call));
        let broken = process.submit_and_wait("add global/a.md x").await;
        state.set(Faults::Never);
        let text = process.text("global/a.md").await;
        let changes = process.changes_of(&broken).await;
        match code(&broken) {
            None => assert_eq!((text.as_deref(), changes), (Some("- x\n"), 1), "call {call}"),
            Some(code) => {
                assert_eq!(code, TaskErrorCode::RememberFailed, "call {call}");
                assert_eq!((text, changes), (None, 0), "call {call}");
            }
        }
        let next = process.submit_and_wait("add global/b.md y").await;
        assert_eq!(next.status(), Status::Completed, "call {call}");
        process.close().await;
    }
}

#[tokio::test]
async fn a_decision_in_time_is_not_committed_after_the_deadline() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    let task_wait = Duration::from_mins(5);
    let process = process.with(LaneSettings { task_wait, ..quick() });
    // The process stalls before it prepares its outcome, until the deadline has passed.
    let task = process.submit("add global/a.md x wait").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    state.set(Faults::Pause(1));
    host.runner.gate.add_permits(1);
    while state.calls() == 0 {
        tokio::task::yield_now().await;
    }
    tokio::time::pause();
    tokio::time::advance(task_wait).await;
    tokio::time::resume();
    state.set(Faults::Never);
    assert_eq!(code(&process.wait_for_end(&task).await), Some(TaskErrorCode::Timeout));
    assert_eq!((process.text("global/a.md").await, process.changes_of(&task).await), (None, 0));
    process.close().await;
}

/// Starts a process whose state and tasks fail together.
pub(crate) fn faulty(host: &LaneHost) -> (LaneProcess, Arc<FaultyState>) {
    let sqlite = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
    let state = Arc::new(FaultyState::new(Arc::clone(&sqlite) as _));
    let tasks = Arc::new(FaultyTasks::sharing(sqlite, &state));
    (host.process_on(Arc::clone(&state) as _, tasks), state)
}

#[tokio::test]
async fn a_task_with_a_prepared_outcome_is_not_cancelled_at_once() {
    let host = LaneHost::new();
    let process = host.process();
    let task = process.submit("add global/a.md x wait").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // The state of the task right before the commit.
    let attempt = Attempt { task: task.id.as_str(), number: 1 };
    assert!(process.tasks.prepare_outcome(attempt, "{}").await.unwrap());
    let id = &task.id;
    let cancelled = process.lanes().cancel(&process.workspace, id, Viewer::Person).await.unwrap();
    assert!(matches!(cancelled, Some(CancelOutcome::Requested(_))), "{cancelled:?}");
    process.close().await;
}

#[tokio::test]
async fn a_transient_failure_of_the_state_delays_a_task() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    process.submit_and_wait("").await;
    for call in 2..12 {
        // The first call is the queueing itself, whose failure the caller would see.
        state.set(Faults::Call(call));
        let before = host.runner.begun.lock().unwrap().len();
        let content = format!("add global/a{call}.md x");
        let task = process.lanes().submit(
            &process.workspace,
            remember(&content),
            super::host::anonymous_requester(),
        );
        let task = task.await.unwrap();
        let ended = loop {
            // The wait itself may fail, too.
            if let Ok(ended) = process.lanes().wait(&process.workspace, &task.id).await {
                break ended.unwrap();
            }
        };
        state.set(Faults::Never);
        let text = process.text(&format!("global/a{call}.md")).await;
        match &ended.state {
            TaskState::Completed(_) => assert_eq!(text.as_deref(), Some("- x\n"), "call {call}"),
            TaskState::Failed(_) => assert_eq!(text, None, "call {call}"),
            other => panic!("{other:?}"),
        }
        assert!(host.runner.begun.lock().unwrap().len() <= before + 2, "call {call}");
    }
    assert_eq!(host.runner.active_max.load(Ordering::SeqCst), 1);
    process.close().await;
}
