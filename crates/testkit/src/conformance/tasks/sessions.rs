//! Tests of sessions, clients, runs and model work.

use std::time::Duration;

use state::{ModelWorkRow, QueueLimits, RunRow, SessionRow, TaskStore};

use super::super::state::time;
use super::rows::{
    TaskAndHistoryStores, attempt, begin, enqueue, new_task, queue_limits, task_outcome,
};

pub(super) async fn check_all(make: &impl AsyncFn() -> TaskAndHistoryStores) {
    a_session_exists_until_it_is_ended(&*make().await.0).await;
    a_client_belongs_to_its_workspace(&*make().await.0).await;
    sessions_are_listed_oldest_first(&*make().await.0).await;
    a_session_id_is_used_once(&*make().await.0).await;
    each_attempt_has_a_run(&*make().await.0).await;
    model_work_is_listed_and_summed(&*make().await.0).await;
    runs_are_dropped_with_their_task(&make().await).await;
}

/// Returns a session of the client `c-<id>`.
pub(super) fn session(id: &str, workspace: &str, second: i64) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        workspace: workspace.to_owned(),
        client: format!("c-{id}"),
        created_at: time(second),
    }
}

async fn a_session_exists_until_it_is_ended(tasks: &dyn TaskStore) {
    let one = session("one", "here", 1);
    tasks.add_session(one.clone()).await.unwrap();
    tasks.add_session(session("two", "here", 2)).await.unwrap();
    assert_eq!(tasks.session("one").await.unwrap(), Some(one));
    assert!(tasks.end_session("one").await.unwrap());
    assert!(!tasks.end_session("one").await.unwrap());
    assert_eq!(tasks.session("one").await.unwrap(), None);
    assert!(!tasks.has_client("here", "c-one").await.unwrap());
    assert!(tasks.has_client("here", "c-two").await.unwrap());
}

async fn a_client_belongs_to_its_workspace(tasks: &dyn TaskStore) {
    tasks.add_session(session("one", "here", 1)).await.unwrap();
    for (workspace, client, is_registered) in
        [("here", "c-one", true), ("there", "c-one", false), ("here", "C-ONE", false)]
    {
        assert_eq!(tasks.has_client(workspace, client).await.unwrap(), is_registered, "{client}");
    }
}

async fn sessions_are_listed_oldest_first(tasks: &dyn TaskStore) {
    for (id, workspace, second) in
        [("b", "here", 2), ("c", "here", 1), ("a", "here", 2), ("d", "there", 0)]
    {
        tasks.add_session(session(id, workspace, second)).await.unwrap();
    }
    let found = tasks.sessions("here").await.unwrap();
    let expected = [session("c", "here", 1), session("a", "here", 2), session("b", "here", 2)];
    assert_eq!(found, expected);
}

async fn a_session_id_is_used_once(tasks: &dyn TaskStore) {
    tasks.add_session(session("one", "here", 1)).await.unwrap();
    tasks.add_session(session("one", "there", 2)).await.unwrap_err();
    assert_eq!(tasks.session("one").await.unwrap(), Some(session("one", "here", 1)));
}

fn run(task: &str, attempt: u32, second: i64) -> RunRow {
    RunRow {
        task: task.to_owned(),
        attempt,
        runner: "inline".to_owned(),
        started_at: time(second),
        ended_at: None,
        outcome: None,
    }
}

async fn each_attempt_has_a_run(tasks: &dyn TaskStore) {
    let id = enqueue(tasks, new_task("remember", 1)).await.id;
    let mut runs = [run(&id, 1, 2), run(&id, 2, 3)];
    for run in runs.iter().rev() {
        tasks.add_run(run.clone()).await.unwrap();
    }
    tasks.end_run(attempt(&id, 2), "{\"turns\":1}", time(4)).await.unwrap();
    runs[1].ended_at = Some(time(4));
    runs[1].outcome = Some("{\"turns\":1}".to_owned());
    assert_eq!(tasks.runs(&id).await.unwrap(), runs);
    // After a power cut undid the first attempt, it is recorded again.
    runs[0] = run(&id, 1, 9);
    tasks.add_run(runs[0].clone()).await.unwrap();
    assert_eq!(tasks.runs(&id).await.unwrap(), runs);
}

async fn model_work_is_listed_and_summed(tasks: &dyn TaskStore) {
    assert_eq!(tasks.model_work(None, None, 9).await.unwrap(), []);
    assert_eq!(tasks.background_tokens(time(0)).await.unwrap(), 0);
    let row = |number: u64, background| ModelWorkRow {
        number,
        workspace: "here".to_owned(),
        ended_at: time(i64::try_from(number).unwrap()),
        background,
        tokens: 10 * number,
        data: format!("{{\"turns\":{number}}}"),
    };
    for (number, background) in [(1, true), (2, false), (3, true)] {
        tasks.add_model_work(ModelWorkRow { number: 0, ..row(number, background) }).await.unwrap();
    }
    let found = tasks.model_work(Some("here"), None, 2).await.unwrap();
    assert_eq!(found, [row(3, true), row(2, false)]);
    assert_eq!(tasks.model_work(None, Some(2), 9).await.unwrap(), [row(1, true)]);
    assert_eq!(tasks.model_work(Some("there"), None, 9).await.unwrap(), []);
    assert_eq!(tasks.background_tokens(time(1)).await.unwrap(), 40);
    assert_eq!(tasks.background_tokens(time(2)).await.unwrap(), 30);
}

async fn runs_are_dropped_with_their_task((tasks, state): &TaskAndHistoryStores) {
    let id = enqueue(&**tasks, new_task("remember", 1)).await.id;
    begin(&**tasks, 2).await;
    tasks.add_run(run(&id, 1, 2)).await.unwrap();
    tasks.finish_task(attempt(&id, 1), task_outcome("completed", "{}"), time(3)).await.unwrap();
    assert_eq!(tasks.runs(&id).await.unwrap().len(), 1);
    let limits = QueueLimits { finished_max_age: Duration::from_secs(1), ..queue_limits() };
    tasks.enqueue(new_task("remember", 9), limits).await.unwrap();
    assert_eq!(tasks.runs(&id).await.unwrap(), []);
    tasks.add_run(run(&id, 2, 9)).await.unwrap();
    assert_eq!(tasks.runs(&id).await.unwrap(), [], "the task was dropped");
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}
