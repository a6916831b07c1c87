//! Several daemons on one database: each has a pool of its own.

use std::collections::BTreeSet;

use lukasa_postgres::{Database, OwnerState};
use memory::change::ChangeId;
use memory::proposal::ProposalId;
use state::{ChangeQuery, EnqueueResult, HistoryStore as _, StateError, TaskStore as _};
use testkit::conformance::state::{time, write};
use testkit::conformance::tasks::{attempt, new_task, proposals, queue_limits, task_outcome};
use testkit::postgres::PostgresVersion;

use crate::support::{Server, open};

/// Daemons that share a database.
const DAEMONS: usize = 3;
/// Calls of each daemon in a storm.
const CALLS: usize = 15;

/// Runs something in as many tasks, all at the same time, and returns their results in order.
async fn together<T, Running>(count: usize, run: impl Fn(usize) -> Running) -> Vec<T>
where
    T: Send + 'static,
    Running: Future<Output = T> + Send + 'static,
{
    let tasks: Vec<_> = (0..count).map(|number| tokio::spawn(run(number))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// Opens a new database and registers one owner, as several daemons do at the same time.
async fn daemons(server: &Server) -> Vec<OwnerState> {
    let (_, address) = server.new_database();
    together(DAEMONS, move |_| {
        let address = address.clone();
        async move { open(&address).await.owner("one").await.unwrap() }
    })
    .await
}

/// Runs something in as many tasks for each daemon, all at the same time.
async fn storm<T, Running>(
    daemons: &[OwnerState],
    run: impl Fn(OwnerState, usize) -> Running,
) -> Vec<T>
where
    T: Send + 'static,
    Running: Future<Output = T> + Send + 'static,
{
    let daemon = |number: usize| daemons.get(number % DAEMONS).unwrap().clone();
    together(DAEMONS * CALLS, |number| run(daemon(number), number)).await
}

async fn every_isolation_level(check: impl AsyncFn(Vec<OwnerState>)) {
    for isolation in ["read committed", "serializable"] {
        let setting = format!("default_transaction_isolation={isolation}");
        let server = Server::start(PostgresVersion::Debian, &[&setting]);
        check(daemons(&server).await).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_numbers_have_no_gaps_and_are_in_the_order_of_the_commits() {
    every_isolation_level(async |daemons| {
        let watching = daemons.first().unwrap().clone();
        let watcher = tokio::spawn(async move {
            let mut last = ChangeId(0);
            while last.0 < i64::try_from(DAEMONS * CALLS).unwrap() {
                let query = ChangeQuery { after: Some(last), max: 1_000, ..ChangeQuery::default() };
                for change in watching.changes(&query).await.unwrap().into_iter().rev() {
                    assert_eq!(change.id.0, last.0 + 1, "a number was committed out of order");
                    last = change.id;
                }
            }
        });
        let numbers = storm(&daemons, async |daemon, number| {
            let change = write("a", &format!("{number}.md"), "text").build();
            daemon.record(change).await.unwrap().0
        })
        .await;
        let numbers: BTreeSet<_> = numbers.into_iter().collect();
        assert!(numbers.into_iter().eq(1..=i64::try_from(DAEMONS * CALLS).unwrap()));
        watcher.await.unwrap();
        assert_eq!(daemons.first().unwrap().check().await.unwrap(), [""; 0]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uses_and_changes_of_several_daemons_are_all_counted() {
    every_isolation_level(async |daemons| {
        storm(&daemons, async |daemon, number| {
            let change = write("a", "a.md", &format!("text {number}")).uses("a.md").build();
            if number % 2 == 0 {
                daemon.add_uses(&change.uses).await.unwrap();
            } else {
                daemon.record(change).await.unwrap();
            }
        })
        .await;
        let identity = testkit::conformance::state::root("a").identity;
        let usage = daemons.first().unwrap().usage_rows(&identity).await.unwrap();
        let uses: Vec<_> = usage.iter().map(|row| row.usage.uses).collect();
        assert_eq!(uses, [(DAEMONS * CALLS) as u64]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_task_is_begun_once_and_no_two_of_a_lane_run_together() {
    every_isolation_level(async |daemons| {
        let owner = daemons.first().unwrap();
        let limits = state::QueueLimits { unfinished_max: 100, total_max: 100, ..queue_limits() };
        for second in 0..i64::try_from(CALLS).unwrap() {
            let queued = owner.enqueue(new_task("remember", second), limits).await.unwrap();
            assert!(matches!(queued, EnqueueResult::Queued(_)));
        }
        let begun = storm(&daemons, async |daemon, _| {
            let mut begun = Vec::new();
            while !daemon.workspaces_with_work().await.unwrap().is_empty() {
                let Some(task) = daemon.begin_next("here", time(0)).await.unwrap() else {
                    tokio::task::yield_now().await;
                    continue;
                };
                assert_eq!(daemon.running("here").await.unwrap().len(), 1);
                let end = task_outcome("completed", "{}");
                assert!(daemon.finish_task(task.attempt(), end, time(1)).await.unwrap());
                begun.push((task.id, task.attempts));
            }
            begun
        })
        .await;
        let begun: Vec<_> = begun.into_iter().flatten().collect();
        assert!(begun.iter().all(|(_, attempts)| *attempts == 1), "{begun:?}");
        let distinct: BTreeSet<_> = begun.iter().collect();
        assert_eq!((begun.len(), distinct.len()), (CALLS, CALLS));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_ended_or_changes_something_but_not_both() {
    every_isolation_level(async |daemons| {
        let owner = daemons.first().unwrap();
        for second in 0..10 {
            owner.enqueue(new_task("remember", second), queue_limits()).await.unwrap();
            let task = owner.begin_next("here", time(second)).await.unwrap().unwrap();
            let name = task.id.as_str();
            let change = write("a", &format!("{second}.md"), "text").task(name).attempt(1).build();
            let (recorded, requeued) = tokio::join!(
                daemons.get(1).unwrap().record(change),
                daemons.get(2).unwrap().requeue(attempt(name, 1), time(second)),
            );
            assert_ne!(recorded.is_ok(), requeued.unwrap(), "{recorded:?}");
            let number = if recorded.is_ok() { 1 } else { 2 };
            if number == 2 {
                owner.begin_next("here", time(second)).await.unwrap().unwrap();
            }
            let end = task_outcome("completed", "{}");
            assert!(owner.finish_task(attempt(name, number), end, time(second)).await.unwrap());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_a_lane_holds_for_all_daemons_together() {
    every_isolation_level(async |daemons| {
        let queued = storm(&daemons, async |daemon, number| {
            let task = new_task("remember", i64::try_from(number).unwrap());
            daemon.enqueue(task, queue_limits()).await.unwrap()
        })
        .await;
        let mut numbers: Vec<_> = queued
            .iter()
            .filter_map(|queued| match queued {
                EnqueueResult::Queued(row) => Some(row.seq),
                EnqueueResult::Full => None,
            })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6], "a task that found no room takes no number");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_is_added_once_and_decided_once() {
    every_isolation_level(async |daemons| {
        let added = storm(&daemons, async |daemon, _| {
            daemon.add_proposals(&[proposals::proposal("text", &["a"])]).await.unwrap().ids
        })
        .await;
        let added: Vec<_> = added.into_iter().flatten().collect();
        assert_eq!(added, [ProposalId(1)]);
        let decided = storm(&daemons, async |daemon, number| {
            if number % 2 == 0 {
                return daemon.reject_proposal(ProposalId(1), time(1)).await.unwrap();
            }
            let change = write("a", &format!("{number}.md"), "text").accepts(ProposalId(1));
            match daemon.record(change.build()).await {
                Ok(_) => true,
                Err(StateError::Failed { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
        assert_eq!(decided.into_iter().filter(|decided| *decided).count(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_writers_of_one_version_of_a_conversation_one_succeeds() {
    every_isolation_level(async |daemons| {
        for version in 1..=3 {
            let written = storm(&daemons, |daemon, number| async move {
                let row = state::ConversationRow {
                    id: "c".to_owned(),
                    workspace: "here".to_owned(),
                    version,
                    last_seen_at: time(0),
                    data: format!("{{\"by\":{number}}}"),
                };
                daemon.save_conversation(row).await.unwrap()
            })
            .await;
            assert_eq!(written.into_iter().filter(|written| *written).count(), 1);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_share_neither_rows_nor_numbers() {
    let server = Server::start(PostgresVersion::Newest, &[]);
    let (_, address) = server.new_database();
    let database: Database = open(&address).await;
    let (one, other) =
        (database.owner("one").await.unwrap(), database.owner("other").await.unwrap());
    assert_ne!(one.database_id().await.unwrap(), other.database_id().await.unwrap());
    for (owner, text) in [(&one, "of one"), (&other, "of the other")] {
        let id = owner.record(write("a", "a.md", text).uses("a.md").build()).await.unwrap();
        assert_eq!(id, ChangeId(1));
        let queued = owner.enqueue(new_task("remember", 1), queue_limits()).await.unwrap();
        assert!(matches!(queued, EnqueueResult::Queued(row) if row.seq == 1));
    }
    let texts = [&one, &other].map(|owner| async {
        let open = owner.open_changes("a").await.unwrap();
        open.into_iter().flat_map(|open| open.files).map(|file| file.bytes).collect::<Vec<_>>()
    });
    let [of_one, of_other] = texts;
    assert_eq!(
        (of_one.await, of_other.await),
        (vec![b"of one".into()], vec![b"of the other".into()])
    );
    one.abort_change(ChangeId(1)).await.unwrap();
    assert!(
        one.changes(&ChangeQuery { max: 9, ..ChangeQuery::default() }).await.unwrap().is_empty()
    );
    assert_eq!(other.heads("a", ChangeId(0)).await.unwrap().len(), 1);
    assert_eq!(other.stats().await.unwrap().changes, 1);
}
