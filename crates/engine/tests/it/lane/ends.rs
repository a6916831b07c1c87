//! How tasks end: with memories, with nothing, with a panic, too late, or not yet.

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
async fn what_a_task_did_is_in_the_files_in_history_and_in_one_event() {
    let host = LaneHost::new();
    let process = host.process();
    let asker = Requester::client("http", Some(client("ide-1")));
    let request = remember("add project/a.md x add project/b.md y");
    let task = process.lanes().submit(&process.workspace, request, asker).await.unwrap();
    assert_eq!(task.status(), Status::Queued);
    let ended = process.wait_for_end(&task).await;
    assert_eq!(ended.status(), Status::Completed);
    assert_eq!(process.text("project/b.md").await.as_deref(), Some("- y\n"));
    let heard = process.feed.changes.lock().unwrap().clone();
    assert_eq!(
        heard,
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
    let by = &change.provenance;
    assert_eq!((change.kind, by.actor, by.trust), (ChangeKind::Draft, Actor::Task, Trust::Agent));
    assert_eq!((by.origin.as_str(), by.client.as_deref()), ("http", Some("ide-1")));
    assert_eq!(by.task.as_deref(), Some(task.id.as_str()));
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
async fn a_runner_that_never_ends_is_given_up() {
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
async fn a_decision_that_something_overtook_is_made_anew() {
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
async fn a_draft_that_somebody_wrote_under_is_decided_anew() {
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
async fn what_a_failure_says_is_cleaned() {
    let host = LaneHost::new();
    let process = host.process();
    let ended = process.submit_and_wait("secret").await;
    let TaskState::Failed(error) = &ended.state else { panic!("{ended:?}") };
    assert_eq!(error.details(), Some("key [redacted]"));
    process.close().await;
}

#[tokio::test]
async fn a_row_that_nobody_can_read_fails_and_the_next_is_done() {
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
async fn draining_lets_what_runs_end_and_leaves_the_rest_queued() {
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
    // The next life goes on with it, and needs to be told only where.
    let next = host.process();
    next.lanes().resume(&[host.workspace("mill"), host.workspace("shop")]).await.unwrap();
    assert_eq!(next.wait_for_end(&waiting).await.status(), Status::Completed);
    assert_eq!(next.text("global/a.md").await.as_deref(), Some("- x\n- y\n"));
    next.close().await;
}

#[tokio::test]
async fn draining_does_not_wait_for_what_does_not_end() {
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
async fn a_task_outlives_any_number_of_ends_of_its_process() {
    let host = LaneHost::new();
    let first = host.process();
    let task = first.submit("add global/a.md x wait").await;
    let mut lives = vec![first];
    for life in 1..=4 {
        while host.runner.begun.lock().unwrap().len() < life {
            tokio::task::yield_now().await;
        }
        let ending = lives.pop().unwrap();
        ending.lanes().drain(Duration::ZERO).await;
        let left = ending.tasks.task(task.id.as_str()).await.unwrap().unwrap();
        assert_eq!(left.status, Status::Queued);
        ending.close().await;
        let next = host.process();
        next.lanes().resume(&[host.workspace("shop")]).await.unwrap();
        lives.push(next);
    }
    host.runner.gate.add_permits(1);
    let last = lives.pop().unwrap();
    assert_eq!(last.wait_for_end(&task).await.status(), Status::Completed);
    assert_eq!(last.text("global/a.md").await.as_deref(), Some("- x\n"));
    last.close().await;
}

#[tokio::test]
async fn ends_that_its_process_chose_do_not_excuse_a_task_that_kills_processes() {
    let host = LaneHost::new();
    let (mut life, mut state) = faulty(&host);
    let task = life.submit("add global/a.md x wait").await;
    for (begun, is_killed) in [(1, false), (2, true), (3, true)] {
        while host.runner.begun.lock().unwrap().len() < begun {
            tokio::task::yield_now().await;
        }
        if is_killed {
            // It can say nothing of its end.
            state.set(Faults::CrashAfter(0));
        }
        life.lanes().drain(Duration::ZERO).await;
        life.close().await;
        (life, state) = faulty(&host);
        life.lanes().resume(&[host.workspace("shop")]).await.unwrap();
    }
    let ended = life.wait_for_end(&task).await;
    assert_eq!(code(&ended), Some(TaskErrorCode::RememberFailed));
    assert_eq!(host.runner.begun.lock().unwrap().len(), 3, "once put back, then twice left");
    assert_eq!(life.text("global/a.md").await, None);
    life.close().await;
}

#[tokio::test]
async fn a_commit_that_breaks_ends_its_task_at_once_and_nothing_else() {
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
async fn what_is_decided_in_time_is_not_committed_too_late() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    let task_wait = Duration::from_mins(5);
    let process = process.with(LaneSettings { task_wait, ..quick() });
    // It stands still when it is about to prepare its end, until its time is over.
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
async fn a_task_whose_change_is_recorded_is_too_late_to_take_back() {
    let host = LaneHost::new();
    let process = host.process();
    let task = process.submit("add global/a.md x wait").await;
    while host.runner.begun.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    // As the lane has it right before the commit.
    let attempt = Attempt { task: task.id.as_str(), number: 1 };
    assert!(process.tasks.prepare_outcome(attempt, "{}").await.unwrap());
    let id = &task.id;
    let cancelled = process.lanes().cancel(&process.workspace, id, Viewer::Person).await.unwrap();
    assert!(matches!(cancelled, Some(CancelOutcome::Requested(_))), "{cancelled:?}");
    process.close().await;
}

#[tokio::test]
async fn a_state_that_fails_for_a_moment_only_makes_a_task_wait() {
    let host = LaneHost::new();
    let (process, state) = faulty(&host);
    process.submit_and_wait("").await;
    for call in 2..12 {
        // The first is the queueing itself, which the one who asks would hear of.
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
            // Looking may be what fails.
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
