//! Tests of locking a root against other writers.

use std::time::Duration;

use memory::change::{ChangeId, DatabaseId};
use store::backend::{LastWrite, RootLock};

use super::harness::{Harness, WAIT, outcome_word};

/// The database of all writers but the one of another machine.
const OURS: DatabaseId = DatabaseId(7);
const THEIRS: DatabaseId = DatabaseId(u64::MAX);

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    the_lock_is_exclusive_and_names_its_holder(&make()).await;
    a_waiting_process_gets_the_lock_when_it_is_released(&make()).await;
    the_generation_counts_the_writes_of_all_processes(&make()).await;
    an_interrupted_write_is_reported_until_a_later_one_ends(&make()).await;
    the_last_completed_change_is_visible_to_all_processes(&make()).await;
    each_database_has_its_own_completed_change(&make()).await;
    locking_creates_no_root(&make()).await;
}

/// Releases a lock and waits until that is done: a backend may do it in the background.
async fn release(harness: &Harness, guard: Box<dyn RootLock>) {
    drop(guard);
    drop(harness.peer.lock(OURS, WAIT).await.unwrap());
}

async fn the_lock_is_exclusive_and_names_its_holder(harness: &Harness) {
    assert_eq!(harness.backend.holder().await, None);
    let guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert!(harness.backend.holder().await.is_some());
    assert!(harness.peer.holder().await.is_some());
    let soon = Duration::from_millis(10);
    assert_eq!(outcome_word(harness.backend.lock(OURS, soon).await), "locked");
    assert_eq!(outcome_word(harness.peer.lock(OURS, soon).await), "locked");
    drop(guard);
    // An abandoned wait never acquires the lock.
    drop(harness.peer.lock(OURS, WAIT).await.unwrap());
    drop(harness.backend.lock(OURS, WAIT).await.unwrap());
}

async fn a_waiting_process_gets_the_lock_when_it_is_released(harness: &Harness) {
    let guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    let release = async {
        tokio::task::yield_now().await;
        drop(guard);
    };
    let (peer_guard, ()) = tokio::join!(harness.peer.lock(OURS, WAIT), release);
    drop(peer_guard.unwrap());
}

async fn the_generation_counts_the_writes_of_all_processes(harness: &Harness) {
    // Only the numbers of one process are compared.
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    let start = guard.generation();
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    assert_eq!(guard.generation(), start + 1);
    drop(guard);
    let mut guard = harness.peer.lock(OURS, WAIT).await.unwrap();
    let start_of_peer = guard.generation();
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    drop(guard);
    assert_eq!(harness.backend.lock(OURS, WAIT).await.unwrap().generation(), start + 2);
    // Holding the lock without writing does not count.
    let generation_of_peer = harness.peer.lock(OURS, WAIT).await.unwrap().generation();
    assert_eq!(generation_of_peer, start_of_peer + 1);
}

async fn an_interrupted_write_is_reported_until_a_later_one_ends(harness: &Harness) {
    assert_ne!(harness.peer.last_write().await, LastWrite::Interrupted, "nothing was written");
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    release(harness, guard).await;
    assert_eq!(harness.peer.last_write().await, LastWrite::Ended);
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert!(!guard.was_interrupted());
    guard.begin().await.unwrap();
    release(harness, guard).await;
    assert_eq!(harness.peer.last_write().await, LastWrite::Interrupted);
    // Reading, and holding the lock without writing, repair nothing.
    let guard = harness.peer.lock(OURS, WAIT).await.unwrap();
    assert!(guard.was_interrupted() && !guard.machine_restarted());
    drop(guard);
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert!(guard.was_interrupted());
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    assert!(!guard.was_interrupted());
    drop(guard);
    assert!(!harness.peer.lock(OURS, WAIT).await.unwrap().was_interrupted());
    assert_eq!(harness.backend.last_write().await, LastWrite::Ended);
}

async fn the_last_completed_change_is_visible_to_all_processes(harness: &Harness) {
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    guard.begin().await.unwrap();
    guard.end(Some(ChangeId(7))).await.unwrap();
    drop(guard);
    let mut guard = harness.peer.lock(OURS, WAIT).await.unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(7)));
    // A write without a change completes none, and neither does an interrupted one.
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    guard.begin().await.unwrap();
    drop(guard);
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(7)));
    guard.begin().await.unwrap();
    guard.end(Some(ChangeId(9))).await.unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(9)));
}

async fn each_database_has_its_own_completed_change(harness: &Harness) {
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    guard.begin().await.unwrap();
    guard.end(Some(ChangeId(7))).await.unwrap();
    drop(guard);
    let mut guard = harness.peer.lock(THEIRS, WAIT).await.unwrap();
    assert!(guard.is_uncertain() && !guard.was_interrupted());
    assert_eq!(guard.completed(), None, "change 7 of the other database says nothing here");
    guard.begin().await.unwrap();
    guard.end(Some(ChangeId(3))).await.unwrap();
    drop(guard);
    let mut guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert!(guard.is_uncertain());
    assert_eq!(guard.completed(), Some(ChangeId(7)));
    // The other writer repairs an interrupted write and completes none of our changes.
    guard.begin().await.unwrap();
    drop(guard);
    let mut guard = harness.peer.lock(THEIRS, WAIT).await.unwrap();
    assert!(guard.was_interrupted() && guard.is_uncertain());
    assert_eq!(guard.completed(), Some(ChangeId(3)));
    guard.begin().await.unwrap();
    guard.end(None).await.unwrap();
    drop(guard);
    let guard = harness.backend.lock(OURS, WAIT).await.unwrap();
    assert!(guard.is_uncertain() && !guard.was_interrupted());
    assert_eq!(guard.completed(), Some(ChangeId(7)));
}

async fn locking_creates_no_root(harness: &Harness) {
    drop(harness.backend.lock(OURS, WAIT).await.unwrap());
    assert!(!harness.backend.exists().await.unwrap());
}
