//! Claims about holding a root against other writers.

use std::time::Duration;

use memory::change::ChangeId;
use store::backend::LastWrite;

use super::harness::{Harness, WAIT, outcome_word};

pub(super) async fn check_all(make: &impl Fn() -> Harness) {
    one_holds_at_a_time_and_says_so(&make()).await;
    who_waits_gets_the_root_when_it_is_given_back(&make()).await;
    every_write_is_counted_for_everybody(&make()).await;
    a_write_that_did_not_end_is_seen_until_one_does(&make()).await;
    the_last_change_carried_out_is_known_to_everybody(&make()).await;
    holding_makes_no_root(&make()).await;
}

async fn one_holds_at_a_time_and_says_so(rig: &Harness) {
    assert_eq!(rig.backend.holder().await, None);
    let held = rig.backend.lock(WAIT).await.unwrap();
    assert!(rig.backend.holder().await.is_some());
    assert!(rig.peer.holder().await.is_some());
    let soon = Duration::from_millis(10);
    assert_eq!(outcome_word(rig.backend.lock(soon).await), "locked");
    assert_eq!(outcome_word(rig.peer.lock(soon).await), "locked");
    drop(held);
    // A wait that was given up takes nothing from those who come later.
    drop(rig.peer.lock(WAIT).await.unwrap());
    drop(rig.backend.lock(WAIT).await.unwrap());
}

async fn who_waits_gets_the_root_when_it_is_given_back(rig: &Harness) {
    let held = rig.backend.lock(WAIT).await.unwrap();
    let give_back = async {
        tokio::task::yield_now().await;
        drop(held);
    };
    let (theirs, ()) = tokio::join!(rig.peer.lock(WAIT), give_back);
    drop(theirs.unwrap());
}

async fn every_write_is_counted_for_everybody(rig: &Harness) {
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    let start = held.generation();
    held.begin().unwrap();
    held.end(None).unwrap();
    assert_eq!(held.generation(), start + 1);
    drop(held);
    let mut held = rig.peer.lock(WAIT).await.unwrap();
    assert_eq!(held.generation(), start + 1);
    held.begin().unwrap();
    held.end(None).unwrap();
    drop(held);
    assert_eq!(rig.backend.lock(WAIT).await.unwrap().generation(), start + 2);
    // Holding alone is no write.
    assert_eq!(rig.peer.lock(WAIT).await.unwrap().generation(), start + 2);
}

async fn a_write_that_did_not_end_is_seen_until_one_does(rig: &Harness) {
    assert_ne!(rig.peer.last_write().await, LastWrite::Interrupted, "nothing was written");
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    held.begin().unwrap();
    held.end(None).unwrap();
    drop(held);
    assert_eq!(rig.peer.last_write().await, LastWrite::Ended);
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    assert!(!held.was_interrupted());
    held.begin().unwrap();
    drop(held);
    assert_eq!(rig.peer.last_write().await, LastWrite::Interrupted);
    // Looking, and holding without writing, mend nothing.
    let held = rig.peer.lock(WAIT).await.unwrap();
    assert!(held.was_interrupted() && !held.machine_restarted());
    drop(held);
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    assert!(held.was_interrupted());
    held.begin().unwrap();
    held.end(None).unwrap();
    assert!(!held.was_interrupted());
    drop(held);
    assert!(!rig.peer.lock(WAIT).await.unwrap().was_interrupted());
    assert_eq!(rig.backend.last_write().await, LastWrite::Ended);
}

async fn the_last_change_carried_out_is_known_to_everybody(rig: &Harness) {
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    held.begin().unwrap();
    held.end(Some(ChangeId(7))).unwrap();
    drop(held);
    let mut held = rig.peer.lock(WAIT).await.unwrap();
    assert_eq!(held.completed(), Some(ChangeId(7)));
    // A write that is no change carries none out, and neither does one that did not end.
    held.begin().unwrap();
    held.end(None).unwrap();
    held.begin().unwrap();
    drop(held);
    let mut held = rig.backend.lock(WAIT).await.unwrap();
    assert_eq!(held.completed(), Some(ChangeId(7)));
    held.begin().unwrap();
    held.end(Some(ChangeId(9))).unwrap();
    assert_eq!(held.completed(), Some(ChangeId(9)));
}

async fn holding_makes_no_root(rig: &Harness) {
    drop(rig.backend.lock(WAIT).await.unwrap());
    assert!(!rig.backend.exists().await.unwrap());
}
