//! Many users of one file: threads with a state each, which SQLite and lock files treat like processes.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use lukasa_state::{HistoryStore, SqliteState, UseEvent};
use memory::change::ChangeId;
use testkit::conformance::state::{path, time, write};

use crate::support::{StateFolder, fill, recorded_changes};

const USERS: usize = 8;

/// Runs the same function on several threads at once, each with its own state and runtime, and returns their results.
fn run_concurrently<T: Send + 'static>(
    place: &StateFolder,
    run: &(impl AsyncFn(usize, SqliteState) -> T + Clone + Send + 'static),
) -> Vec<T> {
    let barrier = Arc::new(Barrier::new(USERS));
    let threads = (0..USERS).map(|user| {
        let (barrier, run, state) = (Arc::clone(&barrier), run.clone(), place.state());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            barrier.wait();
            runtime.unwrap().block_on(run(user, state))
        })
    });
    threads.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
}

#[tokio::test]
async fn eight_users_that_start_at_once_lose_nothing() {
    let place = StateFolder::new();
    let ids = run_concurrently(&place, &async |user, state| {
        let mut ids = Vec::new();
        for number in 0..25 {
            let builder = write("one", &format!("{user}/{number}.md"), &format!("{user} {number}"));
            ids.push(state.record(builder.build()).await.unwrap());
            let event = UseEvent {
                identity: "global".to_owned(),
                path: path("shared.md"),
                at: time(0),
                is_write: false,
            };
            state.add_uses(&[event]).await.unwrap();
            state.mark_durable(&ids).await.unwrap();
            assert!(state.heads("one", ChangeId(0)).await.unwrap().len() >= ids.len());
        }
        ids
    });
    let state = place.state();
    let all: BTreeSet<ChangeId> = ids.iter().flatten().copied().collect();
    assert_eq!(all.len(), 25 * USERS);
    assert_eq!(recorded_changes(&state).await, all.into_iter().collect::<Vec<_>>());
    let marks = state.usage_rows("global").await.unwrap();
    assert_eq!(marks.iter().map(|mark| mark.usage.uses).collect::<Vec<_>>(), [25 * 8]);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(state.last_repair(), None);
}

#[tokio::test]
async fn users_that_find_a_damaged_file_at_once_set_it_aside_once() {
    let place = StateFolder::new();
    std::fs::write(place.path(), "this was never a database ".repeat(500)).unwrap();
    let repaired = run_concurrently(&place, &async |user, state| {
        let builder = write("one", &format!("{user}.md"), "text");
        state.record(builder.build()).await.unwrap();
        state.last_repair().is_some()
    });
    assert_eq!(repaired.iter().filter(|&&repaired| repaired).count(), 1);
    let state = place.state();
    assert_eq!(state.heads("one", ChangeId(0)).await.unwrap().len(), USERS);
    let damaged = place.names().into_iter().filter(|name| name.contains("damaged"));
    assert_eq!(damaged.collect::<Vec<_>>(), ["state.db.damaged-1"]);
}

#[tokio::test]
async fn a_user_of_a_set_aside_file_continues_with_the_new_one() {
    let place = StateFolder::new();
    let (old, repairing) = (place.state(), place.state());
    fill(&old, 2).await;
    recorded_changes(&old).await;
    place.run("ALTER TABLE heads RENAME COLUMN trust TO tqust").await;
    assert!(repairing.repair().await.unwrap().is_some());
    let id = old.record(write("one", "later.md", "later").build()).await.unwrap();
    assert_eq!(recorded_changes(&repairing).await.last(), Some(&id));
    assert_eq!(recorded_changes(&old).await, recorded_changes(&repairing).await);
    old.close().await;
    assert_eq!(repairing.check().await.unwrap(), [] as [String; 0]);
    assert_eq!(recorded_changes(&place.state()).await.last(), Some(&id));
}

#[tokio::test]
async fn a_cancelled_call_blocks_no_other_and_leaves_no_partial_change() {
    let place = StateFolder::new();
    let (cancelled, other) = (Arc::new(place.state()), place.state());
    fill(&other, 1).await;
    for number in 0..60_u64 {
        let names = (0..20).map(|file| write("one", &format!("{number}/{file}.md"), "text"));
        let builder = names.reduce(testkit::conformance::state::ChangeBuilder::merge).unwrap();
        let deadline = Duration::from_micros(number * 100);
        let ended = tokio::time::timeout(deadline, cancelled.record(builder.build())).await;
        if let Ok(recorded) = ended {
            recorded.unwrap();
        }
        let next = other.record(write("one", &format!("{number}.md"), "text").build());
        tokio::time::timeout(Duration::from_secs(5), next).await.unwrap().unwrap();
    }
    let query =
        lukasa_state::ChangeQuery { max: usize::MAX, ..lukasa_state::ChangeQuery::default() };
    for change in other.changes(&query).await.unwrap() {
        assert!([1, 20].contains(&change.files.len()), "{change:?}");
    }
    assert_eq!(other.check().await.unwrap(), [] as [String; 0]);
}
