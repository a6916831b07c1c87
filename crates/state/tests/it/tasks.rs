//! Tasks in the database file: earlier schemas, damage, kills, concurrent users.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Arc, Barrier};

use lukasa_state::{
    EnqueueResult, HistoryStore, ProposalQuery, RunRow, SessionRow, SqliteState, Status, TaskQuery,
    TaskRow, TaskStore,
};
use testkit::conformance::state::{root, time, write};
use testkit::conformance::tasks::proposals::proposal;
use testkit::conformance::tasks::{attempt, new_task, queue_limits, task_outcome};

use crate::support::{StateFolder, fill, recorded_changes};

async fn queued(state: &SqliteState, kind: &str, second: i64) -> TaskRow {
    let new = new_task(kind, second);
    let id = new.id.clone();
    assert_ne!(state.enqueue(new, queue_limits()).await.unwrap(), EnqueueResult::Full);
    state.task(&id).await.unwrap().unwrap()
}

async fn all(state: &SqliteState) -> Vec<TaskRow> {
    let query = TaskQuery { max: usize::MAX, ..TaskQuery::default() };
    state.tasks(&query).await.unwrap().into_iter().rev().collect()
}

fn session(id: &str) -> SessionRow {
    SessionRow {
        id: id.to_owned(),
        workspace: "here".to_owned(),
        client: format!("client-{id}"),
        created_at: time(1),
    }
}

fn run(task: &str) -> RunRow {
    RunRow {
        task: task.to_owned(),
        attempt: 1,
        runner: "inline".to_owned(),
        started_at: time(2),
        ended_at: None,
        outcome: None,
    }
}

/// Reduces the database to the first schema, as the release before tasks left it.
async fn make_first_schema(place: &StateFolder) {
    for sql in [
        "DROP TABLE tasks",
        "DROP TABLE sessions",
        "DROP TABLE runs",
        "DROP TABLE dreams",
        "DROP TABLE conversations",
        "DROP TABLE segments",
        "DROP TABLE proposals",
        "DROP TABLE influenced",
        "DROP TABLE model_work",
        "ALTER TABLE changes DROP COLUMN note",
        "ALTER TABLE totals DROP COLUMN database_id",
        "DELETE FROM _sqlx_migrations WHERE version > 1",
    ] {
        place.run(sql).await;
    }
}

#[tokio::test]
async fn a_database_of_the_first_schema_is_migrated_with_all_its_data() {
    let place = StateFolder::new();
    let state = place.state();
    let ids = fill(&state, 3).await;
    state.close().await;
    make_first_schema(&place).await;
    let state = place.state();
    assert_eq!(recorded_changes(&state).await, ids);
    assert_eq!(all(&state).await, []);
    let task = queued(&state, "remember", 1).await;
    assert_eq!(all(&state).await, [task]);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(state.last_repair(), None);
}

#[tokio::test]
async fn a_read_only_state_migrates_nothing() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 3).await;
    state.close().await;
    make_first_schema(&place).await;
    let before = fs::read(place.path()).unwrap();
    let read_only = place.state().read_only();
    assert_eq!(read_only.task("remember-1").await.unwrap(), None);
    assert_eq!(all(&read_only).await, []);
    assert_eq!(read_only.running("here").await.unwrap(), []);
    assert_eq!(read_only.workspaces_with_work().await.unwrap(), [] as [String; 0]);
    assert_eq!(read_only.sessions("here").await.unwrap(), []);
    assert!(!read_only.has_client("here", "client-a").await.unwrap());
    assert_eq!(read_only.runs("remember-1").await.unwrap(), []);
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn a_damaged_database_of_the_first_schema_is_set_aside() {
    let place = StateFolder::new();
    let state = place.state();
    fill(&state, 40).await;
    state.close().await;
    make_first_schema(&place).await;
    let sound = fs::read(place.path()).unwrap();
    for page in 1..sound.len() / 4096 {
        let after = StateFolder::new();
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xa5);
        fs::write(after.path(), &bytes).unwrap();
        let state = after.state();
        // Damage that the migration meets is repaired at once, the rest by the repair.
        state.enqueue(new_task("remember", 1), queue_limits()).await.unwrap();
        state.repair().await.unwrap();
        let id = queued(&state, "remember", 2).await.id;
        assert!(all(&state).await.iter().any(|task| task.id == id), "page {page}");
        assert_eq!(state.check().await.unwrap(), [] as [String; 0], "page {page}");
    }
}

#[tokio::test]
async fn reading_tasks_creates_no_file() {
    let place = StateFolder::new();
    let state = place.state();
    assert_eq!(state.begin_next("here", time(1)).await.unwrap(), None);
    assert!(
        !state.finish_task(attempt("a", 1), task_outcome("failed", "{}"), time(1)).await.unwrap()
    );
    assert!(!state.cancel_task("a", task_outcome("failed", "{}"), time(1)).await.unwrap());
    assert!(!state.requeue(attempt("a", 1), time(1)).await.unwrap());
    assert!(!state.prepare_outcome(attempt("a", 1), "{}").await.unwrap());
    assert!(!state.end_session("a").await.unwrap());
    state.end_run(attempt("a", 1), "{}", time(1)).await.unwrap();
    assert_eq!(state.drop_ended(time(9)).await.unwrap(), 0);
    assert_eq!(state.count_tasks(time(9)).await.unwrap(), []);
    assert_eq!(all(&state).await, []);
    assert_eq!(place.names(), [] as [String; 0]);
}

#[tokio::test]
async fn invalid_rows_are_skipped_and_a_repair_keeps_the_others() {
    let place = StateFolder::new();
    let state = place.state();
    for second in 1..=4 {
        let id = queued(&state, "remember", second).await.id;
        state.add_run(run(&id)).await.unwrap();
        state.add_session(session(&second.to_string())).await.unwrap();
    }
    state.close().await;
    for sql in [
        "PRAGMA ignore_check_constraints = on; UPDATE tasks SET status = 'lost' WHERE seq = 1",
        "UPDATE tasks SET attempts = -1 WHERE seq = 2",
        "UPDATE runs SET attempt = -3 WHERE task = 'remember-4'",
        "UPDATE runs SET task = 'missing' WHERE task = 'remember-3'",
        "UPDATE sessions SET created_at = created_at + 1 WHERE id = '2'",
    ] {
        place.run(sql).await;
    }
    let state = place.state();
    assert_eq!(state.runs("remember-4").await.unwrap(), []);
    assert_eq!(state.task("remember-2").await.unwrap(), None);
    assert_eq!(state.check().await.unwrap(), ["CHECK constraint failed in tasks"]);
    assert_eq!(state.repair().await.unwrap().unwrap().set_aside, None);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    let left: Vec<_> = all(&state).await.into_iter().map(|task| task.id).collect();
    assert_eq!(left, ["remember-3", "remember-4"]);
    assert_eq!(state.sessions("here").await.unwrap().len(), 4);
    assert_eq!(state.last_dream("here").await.unwrap().sessions, 4);
    assert_eq!(state.stats().await.unwrap().tasks, 3, "the unreadable one still counts");
}

#[tokio::test]
async fn invalid_proposals_are_skipped_and_a_repair_keeps_the_others() {
    let place = StateFolder::new();
    let state = place.state();
    let new: Vec<_> = (0..6).map(|number| proposal(&number.to_string(), &["one"])).collect();
    let ids = state.add_proposals(&new).await.unwrap().ids;
    state.close().await;
    for sql in [
        "UPDATE proposals SET roots = 'x' WHERE id = 1",
        "UPDATE proposals SET roots = '[1]' WHERE id = 2",
        "UPDATE proposals SET digest = x'00' WHERE id = 3",
        "UPDATE proposals SET trust = 'much' WHERE id = 4",
        "PRAGMA ignore_check_constraints = on; UPDATE proposals SET status = 'lost' WHERE id = 5",
    ] {
        place.run(sql).await;
    }
    let state = place.state();
    let query = ProposalQuery { roots: vec![root("one")], after: None, max: 9 };
    let waiting = async |state: &SqliteState| {
        let rows = state.proposals(&query).await.unwrap();
        rows.into_iter().map(|row| row.id).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&state).await, ids[5..]);
    state.repair().await.unwrap().unwrap();
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(waiting(&state).await, ids[5..]);
    // Numbers of lost proposals are not reused.
    let later = state.add_proposals(&[proposal("x", &["one"])]).await.unwrap().ids;
    assert!(later > ids[5..].to_vec(), "{later:?}");
    state.close().await;
    fs::write(place.path(), "no database at all".repeat(100)).unwrap();
    let fresh = state.add_proposals(&[proposal("x", &["one"])]).await.unwrap().ids;
    assert!(fresh > later, "{fresh:?}");
}

#[tokio::test]
async fn a_run_without_a_task_is_found_and_removed() {
    let place = StateFolder::new();
    let state = place.state();
    let id = queued(&state, "remember", 1).await.id;
    state.add_run(run(&id)).await.unwrap();
    state.close().await;
    place.run("UPDATE runs SET task = 'missing'").await;
    let state = place.state();
    assert_eq!(state.check().await.unwrap(), ["1 runs belong to a missing task"]);
    state.repair().await.unwrap().unwrap();
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(all(&state).await.len(), 1);
}

/// Copies the database as a killed process would leave it: without closing its files.
fn copy_as_killed(place: &StateFolder) -> StateFolder {
    let after = StateFolder::new();
    for name in ["state.db", "state.db-wal"] {
        let from = place.path().with_file_name(name);
        fs::copy(from, after.path().with_file_name(name)).unwrap();
    }
    after
}

#[tokio::test]
async fn every_step_survives_a_kill_even_if_it_is_not_synchronized() {
    let place = StateFolder::new();
    let state = place.state();
    let id = queued(&state, "remember", 1).await.id;
    let mut steps = Vec::new();
    let mut check_after_kill = async |step: &'static str| {
        let after = copy_as_killed(&place);
        let copied = after.state();
        let task = copied.task(&id).await.unwrap().unwrap();
        let outcome = task.outcome.unwrap_or_else(|| "-".to_owned());
        let runs = copied.runs(&id).await.unwrap().len();
        steps.push(format!("{step}: {} {outcome} {:?} {runs}", task.status, task.change));
        assert_eq!(copied.check().await.unwrap(), [] as [String; 0]);
    };
    check_after_kill("queued").await;
    state.begin_next("here", time(2)).await.unwrap().unwrap();
    check_after_kill("begun").await;
    state.add_run(run(&id)).await.unwrap();
    check_after_kill("run noted").await;
    state.prepare_outcome(attempt(&id, 1), "prepared").await.unwrap();
    check_after_kill("prepared").await;
    state.record(write("one", "a.md", "a").task(&id).build()).await.unwrap();
    check_after_kill("recorded").await;
    state
        .finish_task(attempt(&id, 1), task_outcome("completed", "prepared"), time(3))
        .await
        .unwrap();
    check_after_kill("finished").await;
    assert_eq!(
        steps,
        [
            "queued: queued - None 0",
            "begun: running - None 0",
            "run noted: running - None 1",
            "prepared: running prepared None 1",
            "recorded: running prepared Some(ChangeId(1)) 1",
            "finished: completed prepared Some(ChangeId(1)) 1",
        ]
    );
}

/// Runs the next task, if there is one, and returns its id.
async fn run_next(state: &SqliteState) -> Option<String> {
    let begun = state.begin_next("here", time(1)).await.unwrap()?;
    assert_eq!(begun.attempts, 1);
    assert!(state.prepare_outcome(begun.attempt(), "{}").await.unwrap());
    assert!(
        state.finish_task(begun.attempt(), task_outcome("completed", "{}"), time(1)).await.unwrap()
    );
    Some(begun.id)
}

/// Queues tasks and runs some in between, then runs the rest.
async fn use_lane(state: &SqliteState, user: usize) -> Vec<String> {
    let mut done = Vec::new();
    for number in 0..40 {
        let second = i64::try_from(user * 1_000 + number).unwrap();
        state.enqueue(new_task("remember", second), queue_limits()).await.unwrap();
        let running = state.running("here").await.unwrap().len();
        assert!(running <= 1, "{running} run");
        if number % 2 == 1 {
            done.extend(run_next(state).await);
        }
    }
    while let Some(id) = run_next(state).await {
        done.push(id);
    }
    done
}

#[tokio::test]
async fn eight_users_of_one_lane_never_run_a_task_twice() {
    const USERS: usize = 8;
    let place = StateFolder::new();
    let barrier = Arc::new(Barrier::new(USERS));
    let threads = (0..USERS).map(|user| {
        let (barrier, state) = (Arc::clone(&barrier), place.state());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            barrier.wait();
            runtime.unwrap().block_on(use_lane(&state, user))
        })
    });
    let threads: Vec<_> = threads.collect();
    let done: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
    let each: BTreeSet<_> = done.iter().collect();
    assert_eq!(each.len(), done.len(), "no task ran twice");
    let state = place.state();
    assert_eq!(state.workspaces_with_work().await.unwrap(), [] as [String; 0]);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

#[tokio::test]
async fn an_unreadable_running_task_is_failed_and_blocks_no_other() {
    let place = StateFolder::new();
    let state = place.state();
    let broken = queued(&state, "remember", 1).await;
    let next = queued(&state, "remember", 2).await;
    state.begin_next("here", time(3)).await.unwrap().unwrap();
    let failed = task_outcome("failed", "{}");
    assert_eq!(state.fail_unreadable("here", failed, time(4)).await.unwrap(), 0);
    place.run("UPDATE tasks SET attempts = -1 WHERE status = 'running'").await;
    assert_eq!(state.running("here").await.unwrap(), []);
    assert_eq!(state.begin_next("here", time(4)).await.unwrap(), None, "it blocks the lane");
    assert_eq!(state.fail_unreadable("elsewhere", failed, time(4)).await.unwrap(), 0);
    assert_eq!(state.fail_unreadable("here", failed, time(5)).await.unwrap(), 1);
    // The owner of the task can read that it failed.
    let failed_task = state.task(&broken.id).await.unwrap().unwrap();
    assert_eq!((failed_task.status, failed_task.outcome.as_deref()), (Status::Failed, Some("{}")));
    assert_eq!(state.begin_next("here", time(6)).await.unwrap().unwrap().id, next.id);
    // A task whose row cannot be repaired does not block the lane either.
    place.run("UPDATE tasks SET client = CAST(x'ff' AS TEXT) WHERE status = 'running'").await;
    assert_eq!(state.fail_unreadable("here", failed, time(7)).await.unwrap(), 1);
    let last = queued(&state, "remember", 8).await;
    assert_eq!(state.begin_next("here", time(9)).await.unwrap().unwrap().id, last.id);
    state.finish_task(attempt(&last.id, 1), failed, time(9)).await.unwrap();
    // Nor does a task of a kind that a later version added, and the database is kept.
    queued(&state, "remember", 10).await;
    place.run("UPDATE tasks SET kind = 'harvest' WHERE status = 'queued'").await;
    let next = queued(&state, "remember", 11).await;
    state.begin_next("here", time(12)).await.unwrap_err();
    assert_eq!(state.fail_unreadable("here", failed, time(13)).await.unwrap(), 1);
    assert_eq!(state.begin_next("here", time(14)).await.unwrap().unwrap().id, next.id);
    assert_eq!(state.last_repair(), None);
}
