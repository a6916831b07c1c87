//! Tests of scheduled dreams.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use lukasa_engine::{
    CallContext, Caller, CuratorRequest, DreamSchedule, LaneSettings, NextDream, Requester,
    TaskFilter, TaskKind, Viewer, Workspace,
};
use memory::access::AgentClass;
use memory::clock::{Clock as _, Timestamp};
use memory::command::MemoryCommand;
use state::{SessionRow, SqliteState};
use store::Binding;
use testkit::{Faults, FaultyTasks};

use super::host::{LaneHost, LaneProcess, at, quick};

const HOUR: Duration = Duration::from_hours(1);

fn scheduled(host: &LaneHost) -> LaneProcess {
    host.process().with(LaneSettings { dream: Some(DreamSchedule::default()), ..quick() })
}

/// Registers `count` sessions and ends them.
async fn sessions(process: &LaneProcess, count: usize) {
    process.folders().create_state_folder();
    for _ in 0..count {
        let id = uuid::Uuid::new_v4().to_string();
        let workspace = process.workspace.id.clone();
        let session = SessionRow {
            id: id.clone(),
            workspace,
            client: id.clone(),
            created_at: Timestamp::UNIX_EPOCH,
        };
        process.tasks.add_session(session).await.unwrap();
        assert!(process.tasks.end_session(&id).await.unwrap());
    }
}

/// Runs maintenance once, waits for all tasks, and returns the number of dreams so far.
async fn dreams(host: &LaneHost, process: &LaneProcess) -> usize {
    dreams_of(host, process, process.workspace.clone()).await
}

async fn dreams_of(host: &LaneHost, process: &LaneProcess, workspace: Workspace) -> usize {
    process.lanes().maintain_once(&[workspace]).await.unwrap();
    let filter = TaskFilter::default();
    let lanes = process.lanes();
    for task in lanes.list(&process.workspace, filter, Viewer::Person).await.unwrap() {
        process.wait_for_end(&task).await;
    }
    begun(host)
}

fn begun(host: &LaneHost) -> usize {
    host.runner.begun.lock().unwrap().iter().filter(|id| id.starts_with("dream-")).count()
}

#[tokio::test]
async fn a_dream_needs_a_day_and_five_sessions() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    assert_eq!(dreams(&host, &process).await, 0);
    sessions(&process, 4).await;
    host.clock.advance(48 * HOUR);
    assert_eq!(dreams(&host, &process).await, 0, "four sessions");
    sessions(&process, 1).await;
    assert_eq!(dreams(&host, &process).await, 1);
    sessions(&process, 9).await;
    host.clock.advance(23 * HOUR + Duration::from_secs(3_599));
    assert_eq!(dreams(&host, &process).await, 1, "a second less than a day");
    host.clock.advance(Duration::from_secs(1));
    assert_eq!(dreams(&host, &process).await, 2);
    host.clock.advance(100 * HOUR);
    assert_eq!(dreams(&host, &process).await, 2, "no session since");
    process.close().await;
}

#[tokio::test]
async fn the_conditions_of_the_next_dream_are_reported() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    let next = async || process.lanes().next_dream(&process.workspace).await.unwrap();
    let never = NextDream { not_before: None, sessions_missing: 5 };
    assert_eq!(next().await, Some(never));
    sessions(&process, 2).await;
    assert_eq!(next().await, Some(NextDream { sessions_missing: 3, ..never }));
    sessions(&process, 3).await;
    assert_eq!(next().await, Some(NextDream { sessions_missing: 0, ..never }));
    let requested_at = host.clock.now();
    assert_eq!(dreams(&host, &process).await, 1);
    sessions(&process, 1).await;
    let after = NextDream { not_before: Some(requested_at + 24 * HOUR), sessions_missing: 4 };
    assert_eq!(next().await, Some(after));
    let untrusted = Workspace { trusted: false, ..process.workspace.clone() };
    assert_eq!(process.lanes().next_dream(&untrusted).await.unwrap(), None);
    process.close().await;
    let process = host.process();
    assert_eq!(process.lanes().next_dream(&process.workspace).await.unwrap(), None, "not on");
    process.close().await;
}

#[tokio::test]
async fn dreams_are_scheduled_only_where_enabled() {
    let host = LaneHost::new();
    let process = host.process();
    sessions(&process, 9).await;
    host.clock.advance(48 * HOUR);
    assert_eq!(dreams(&host, &process).await, 0);
    process.close().await;
    let process = scheduled(&host);
    let shop = process.workspace.clone();
    for closed in [
        Workspace { trusted: false, ..shop.clone() },
        Workspace { memory_enabled: false, ..shop.clone() },
        host.workspace("mill"),
    ] {
        assert_eq!(dreams_of(&host, &process, closed).await, 0);
    }
    assert_eq!(dreams(&host, &process).await, 1);
    process.close().await;
}

#[tokio::test]
async fn no_dream_is_queued_while_the_lane_has_work() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 5).await;
    let task = process.submit("wait").await;
    process.lanes().maintain_once(std::slice::from_ref(&process.workspace)).await.unwrap();
    host.runner.gate.add_permits(1);
    process.wait_for_end(&task).await;
    assert_eq!(begun(&host), 0);
    assert_eq!(dreams(&host, &process).await, 1);
    process.close().await;
}

#[tokio::test]
async fn of_two_daemons_only_one_queues_a_dream() {
    let host = LaneHost::new();
    for round in 1..=4 {
        let (one, other) = (scheduled(&host), scheduled(&host));
        sessions(&one, 5).await;
        host.clock.advance(24 * HOUR);
        let shop = [one.workspace.clone()];
        let results =
            tokio::join!(one.lanes().maintain_once(&shop), other.lanes().maintain_once(&shop));
        assert!(matches!(results, (Ok(()), Ok(()))), "{results:?}");
        assert_eq!(dreams(&host, &one).await, round);
        assert_eq!(dreams(&host, &other).await, round);
        one.close().await;
        other.close().await;
    }
}

#[tokio::test]
async fn the_last_dream_and_later_sessions_survive_a_restart() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 5).await;
    assert_eq!(dreams(&host, &process).await, 1);
    sessions(&process, 3).await;
    process.close().await;
    // The task of the dream has expired by then.
    host.clock.advance(23 * HOUR);
    let process = scheduled(&host);
    sessions(&process, 2).await;
    assert_eq!(dreams(&host, &process).await, 1);
    assert_eq!(
        process.tasks.tasks(&state::TaskQuery { max: 9, ..Default::default() }).await.unwrap(),
        []
    );
    host.clock.advance(HOUR);
    assert_eq!(dreams(&host, &process).await, 2);
    process.close().await;
}

#[tokio::test]
async fn failed_and_requested_dreams_restart_the_interval() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 5).await;
    host.runner.dreams_fail.store(true, Ordering::SeqCst);
    assert_eq!(dreams(&host, &process).await, 1);
    host.runner.dreams_fail.store(false, Ordering::SeqCst);
    sessions(&process, 5).await;
    assert_eq!(dreams(&host, &process).await, 1, "it failed just now");
    host.clock.advance(12 * HOUR);
    let submitted = process
        .lanes()
        .submit(&process.workspace, CuratorRequest::Dream, Requester::person("test"))
        .await;
    process.wait_for_end(&submitted.unwrap()).await;
    sessions(&process, 5).await;
    host.clock.advance(12 * HOUR);
    assert_eq!(dreams(&host, &process).await, 2, "one was requested half a day ago");
    host.clock.advance(12 * HOUR);
    assert_eq!(dreams(&host, &process).await, 3);
    process.close().await;
}

#[tokio::test]
async fn a_scheduled_dream_has_its_own_origin() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 5).await;
    dreams(&host, &process).await;
    let filter = TaskFilter { kind: Some(TaskKind::Dream), ..TaskFilter::default() };
    let listed = process.lanes().list(&process.workspace, filter, Viewer::Person).await.unwrap();
    let requesters: Vec<_> =
        listed.iter().map(|task| (task.requester.origin.as_str(), task.requester.trust)).collect();
    assert_eq!(requesters, [("schedule", memory::change::Trust::Background)]);
    process.close().await;
}

#[tokio::test]
async fn conversations_that_wrote_count_as_sessions() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 2).await;
    // The third conversation writes twice.
    for (number, conversation) in ["a", "b", "b", "c"].into_iter().enumerate() {
        assert_eq!(dreams(&host, &process).await, 0);
        let binding = Binding::resolve(&process.workspace.binding, &host.folders);
        let mut caller = Caller::agent(AgentClass::Exec, "mcp");
        caller.provenance.session = Some(conversation.to_owned());
        let memories = process.store.memories(binding, caller);
        let path = at(&format!("global/{number}.md"));
        let create = MemoryCommand::Create { path, file_text: "- x\n".to_owned() };
        memories.apply(create, &CallContext::default()).await.unwrap();
    }
    host.clock.advance(Duration::from_secs(1));
    assert_eq!(dreams(&host, &process).await, 1);
    host.clock.advance(24 * HOUR);
    sessions(&process, 4).await;
    assert_eq!(dreams(&host, &process).await, 1, "those were before the dream");
    process.close().await;
}

#[tokio::test]
async fn a_failure_of_the_state_is_retried_by_the_next_maintenance() {
    let host = LaneHost::new();
    let process = scheduled(&host);
    sessions(&process, 5).await;
    process.close().await;
    let state = Arc::new(SqliteState::new(host.folders.state.join("lukasa.db")));
    let faulty = Arc::new(FaultyTasks::new(Arc::clone(&state) as _));
    let settings = LaneSettings { dream: Some(DreamSchedule::default()), ..quick() };
    let process = host.process_on(state, Arc::clone(&faulty) as _).with(settings);
    let shop = [process.workspace.clone()];
    // Each of the calls that lead to a dream fails once.
    for call in 1..=5 {
        faulty.set(Faults::Call(call));
        drop(process.lanes().maintain_once(&shop).await);
        assert_eq!(begun(&host), 0, "call {call}");
    }
    faulty.set(Faults::Never);
    assert_eq!(dreams(&host, &process).await, 1);
    process.close().await;
}
