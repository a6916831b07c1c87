//! Tests of locking a root against other writers.

use std::time::Duration;

use memory::change::ChangeId;
use store::backend::LastWrite;

use super::harness::{Harness, WAIT, outcome_word};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    the_lock_is_exclusive_and_names_its_holder(&make()).await;
    a_waiting_process_gets_the_lock_when_it_is_released(&make()).await;
    the_generation_counts_the_writes_of_all_processes(&make()).await;
    an_interrupted_write_is_reported_until_a_later_one_ends(&make()).await;
    the_last_completed_change_is_visible_to_all_processes(&make()).await;
    locking_creates_no_root(&make()).await;
}

async fn the_lock_is_exclusive_and_names_its_holder(harness: &Harness) {
    assert_eq!(harness.backend.holder().await, None);
    let guard = harness.backend.lock(WAIT).await.unwrap();
    assert!(harness.backend.holder().await.is_some());
    assert!(harness.peer.holder().await.is_some());
    let soon = Duration::from_millis(10);
    assert_eq!(outcome_word(harness.backend.lock(soon).await), "locked");
    assert_eq!(outcome_word(harness.peer.lock(soon).await), "locked");
    drop(guard);
    // An abandoned wait never acquires the lock.
    drop(harness.peer.lock(WAIT).await.unwrap());
    drop(harness.backend.lock(WAIT).await.unwrap());
}

async fn a_waiting_process_gets_the_lock_when_it_is_released(harness: &Harness) {
    let guard = harness.backend.lock(WAIT).await.unwrap();
    let release = async {
        tokio::task::yield_now().await;
        drop(guard);
    };
    let (peer_guard, ()) = tokio::join!(harness.peer.lock(WAIT), release);
    drop(peer_guard.unwrap());
}

async fn the_generation_counts_the_writes_of_all_processes(harness: &Harness) {
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    let start = guard.generation();
    guard.begin().unwrap();
    guard.end(None).unwrap();
    assert_eq!(guard.generation(), start + 1);
    drop(guard);
    let mut guard = harness.peer.lock(WAIT).await.unwrap();
    assert_eq!(guard.generation(), start + 1);
    guard.begin().unwrap();
    guard.end(None).unwrap();
    drop(guard);
    assert_eq!(harness.backend.lock(WAIT).await.unwrap().generation(), start + 2);
    // Holding the lock without writing does not count.
    assert_eq!(harness.peer.lock(WAIT).await.unwrap().generation(), start + 2);
}

async fn an_interrupted_write_is_reported_until_a_later_one_ends(harness: &Harness) {
    assert_ne!(harness.peer.last_write().await, LastWrite::Interrupted, "nothing was written");
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    guard.begin().unwrap();
    guard.end(None).unwrap();
    drop(guard);
    assert_eq!(harness.peer.last_write().await, LastWrite::Ended);
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    assert!(!guard.was_interrupted());
    guard.begin().unwrap();
    drop(guard);
    assert_eq!(harness.peer.last_write().await, LastWrite::Interrupted);
    // Reading, and holding the lock without writing, repair nothing.
    let guard = harness.peer.lock(WAIT).await.unwrap();
    assert!(guard.was_interrupted() && !guard.machine_restarted());
    drop(guard);
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    assert!(guard.was_interrupted());
    guard.begin().unwrap();
    guard.end(None).unwrap();
    assert!(!guard.was_interrupted());
    drop(guard);
    assert!(!harness.peer.lock(WAIT).await.unwrap().was_interrupted());
    assert_eq!(harness.backend.last_write().await, LastWrite::Ended);
}

async fn the_last_completed_change_is_visible_to_all_processes(harness: &Harness) {
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    guard.begin().unwrap();
    guard.end(Some(ChangeId(7))).unwrap();
    drop(guard);
    let mut guard = harness.peer.lock(WAIT).await.unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(7)));
    // A write without a change completes none, and neither does an interrupted one.
    guard.begin().unwrap();
    guard.end(None).unwrap();
    guard.begin().unwrap();
    drop(guard);
    let mut guard = harness.backend.lock(WAIT).await.unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(7)));
    guard.begin().unwrap();
    guard.end(Some(ChangeId(9))).unwrap();
    assert_eq!(guard.completed(), Some(ChangeId(9)));
}

async fn locking_creates_no_root(harness: &Harness) {
    drop(harness.backend.lock(WAIT).await.unwrap());
    assert!(!harness.backend.exists().await.unwrap());
}
