//! Tests of pruning old history.

use std::sync::Arc;
use std::time::Duration;

use memory::change::ChangeId;
use memory::document::Revision;
use state::{ChangeQuery, HistoryStore, PruneReport, Retention, Stats};

use super::builders::{IDENTITY, edit, path, remove, time, write};
use super::history::{head, record};

pub(super) async fn check_all(make: &impl AsyncFn() -> Arc<dyn HistoryStore>) {
    history_within_both_limits_stays(&*make().await).await;
    old_changes_are_dropped_with_their_bytes(&*make().await).await;
    the_oldest_changes_are_dropped_until_the_bytes_fit(&*make().await).await;
    open_changes_stay(&*make().await).await;
    the_history_of_pinned_memories_stays(&*make().await).await;
    changes_that_wait_for_a_review_stay(&*make().await).await;
    the_head_of_a_removed_memory_is_dropped_with_its_change(&*make().await).await;
    long_histories_are_dropped_completely(&*make().await).await;
}

const FOREVER: Duration = Duration::from_secs(1_000_000_000);

fn text(number: usize) -> String {
    // Too short to be compressed, so that every stored content has the same size.
    format!("{number:04}")
}

/// Records `count` durable versions of a memory, one a second.
async fn versions(state: &dyn HistoryStore, at: &str, count: usize) -> Vec<ChangeId> {
    let mut ids = Vec::new();
    for number in 0..count {
        let builder = match number {
            0 => write("one", at, &text(0)),
            _ => edit("one", at, (&text(number - 1), &text(number))),
        };
        ids.push(record(state, &builder.at(i64::try_from(number).unwrap())).await);
    }
    state.mark_durable(&ids).await.unwrap();
    ids
}

async fn remaining_changes(state: &dyn HistoryStore) -> Vec<ChangeId> {
    let query = ChangeQuery { max: usize::MAX, ..ChangeQuery::default() };
    state.changes(&query).await.unwrap().into_iter().rev().map(|change| change.id).collect()
}

async fn remaining_texts(state: &dyn HistoryStore, count: usize) -> Vec<usize> {
    let mut remaining = Vec::new();
    for number in 0..count {
        if state.content(&Revision::digest(text(number).as_bytes())).await.unwrap().is_some() {
            remaining.push(number);
        }
    }
    remaining
}

async fn history_within_both_limits_stays(state: &dyn HistoryStore) {
    let ids = versions(state, "a.md", 4).await;
    let retention = Retention { age: Duration::from_secs(4), bytes: 12 };
    let pruned = state.prune(retention, time(4)).await.unwrap();
    assert_eq!(pruned, PruneReport::default());
    assert_eq!(remaining_changes(state).await, ids);
}

async fn old_changes_are_dropped_with_their_bytes(state: &dyn HistoryStore) {
    let ids = versions(state, "a.md", 6).await;
    let retention = Retention { age: Duration::from_secs(3), bytes: u64::MAX };
    let pruned = state.prune(retention, time(6)).await.unwrap();
    assert_eq!(pruned, PruneReport { changes: 3, bytes: 8 });
    assert_eq!(remaining_changes(state).await, ids[3..]);
    assert_eq!(remaining_texts(state, 6).await, [2, 3, 4, 5]);
    let all = state.prune(Retention { age: Duration::ZERO, bytes: 0 }, time(9)).await.unwrap();
    assert_eq!(all, PruneReport { changes: 3, bytes: 12 });
    assert_eq!(remaining_texts(state, 6).await, [5], "the current content stays");
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(heads, [head("a.md", Some("0005"), ids[5])]);
    let counted = state.stats().await.unwrap();
    let expected = Stats { changes: 0, open: 0, content_bytes: 4, ..counted };
    assert_eq!(counted, expected);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

async fn the_oldest_changes_are_dropped_until_the_bytes_fit(state: &dyn HistoryStore) {
    let ids = versions(state, "a.md", 10).await;
    // Nine earlier texts of four bytes each; four may stay.
    let retention = Retention { age: FOREVER, bytes: 16 };
    let pruned = state.prune(retention, time(10)).await.unwrap();
    assert_eq!(pruned, PruneReport { changes: 6, bytes: 20 });
    assert_eq!(remaining_changes(state).await, ids[6..]);
    assert_eq!(remaining_texts(state, 10).await, [5, 6, 7, 8, 9]);
    assert_eq!(state.prune(retention, time(10)).await.unwrap(), PruneReport::default());
}

async fn open_changes_stay(state: &dyn HistoryStore) {
    let settled = record(state, &write("one", "a.md", "0000")).await;
    let open = record(state, &edit("one", "a.md", ("0000", "0001"))).await;
    state.mark_durable(&[settled]).await.unwrap();
    let nothing = Retention { age: Duration::ZERO, bytes: 0 };
    let pruned = state.prune(nothing, time(99)).await.unwrap();
    assert_eq!(pruned, PruneReport { changes: 1, bytes: 0 });
    assert_eq!(remaining_changes(state).await, [open]);
    assert_eq!(remaining_texts(state, 2).await, [0, 1]);
    state.abort_change(open).await.unwrap();
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(heads, [head("a.md", Some("0000"), settled)]);
    assert_eq!(remaining_texts(state, 2).await, [0]);
}

async fn the_history_of_pinned_memories_stays(state: &dyn HistoryStore) {
    let pinned = versions(state, "pinned.md", 3).await;
    let other = record(state, &write("one", "other.md", "else")).await;
    state.mark_durable(&[other]).await.unwrap();
    state.set_pin((IDENTITY, &path("pinned.md")), true, time(1)).await.unwrap();
    let nothing = Retention { age: Duration::ZERO, bytes: 0 };
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 1);
    assert_eq!(remaining_changes(state).await, pinned);
    assert_eq!(remaining_texts(state, 3).await, [0, 1, 2]);
    state.set_pin((IDENTITY, &path("pinned.md")), false, time(2)).await.unwrap();
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 3);
}

async fn changes_that_wait_for_a_review_stay(state: &dyn HistoryStore) {
    let old = record(state, &write("one", "a.md", "0000").influenced()).await;
    let waits = record(state, &edit("one", "a.md", ("0000", "0001")).influenced()).await;
    state.mark_durable(&[old, waits]).await.unwrap();
    let nothing = Retention { age: Duration::ZERO, bytes: 0 };
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 1);
    assert_eq!(remaining_changes(state).await, [waits]);
    let accepted = record(state, &edit("one", "a.md", ("0001", "0001")).by_person()).await;
    state.mark_durable(&[accepted]).await.unwrap();
    assert_eq!(state.prune(nothing, time(99)).await.unwrap().changes, 2);
}

async fn the_head_of_a_removed_memory_is_dropped_with_its_change(state: &dyn HistoryStore) {
    let ids = [
        record(state, &write("one", "a.md", "0000").merge(write("one", "b.md", "0001"))).await,
        record(state, &remove("one", "a.md", "0000")).await,
    ];
    state.mark_durable(&ids).await.unwrap();
    let nothing = Retention { age: Duration::ZERO, bytes: 0 };
    assert_eq!(state.prune(nothing, time(9)).await.unwrap(), PruneReport { changes: 2, bytes: 4 });
    let heads = state.heads("one", ChangeId(0)).await.unwrap();
    assert_eq!(heads, [head("b.md", Some("0001"), ids[0])]);
}

async fn long_histories_are_dropped_completely(state: &dyn HistoryStore) {
    versions(state, "a.md", 300).await;
    let nothing = Retention { age: Duration::ZERO, bytes: u64::MAX };
    let pruned = state.prune(nothing, time(9_999)).await.unwrap();
    assert_eq!(pruned, PruneReport { changes: 300, bytes: 4 * 299 });
    assert_eq!(remaining_texts(state, 300).await, [299]);
}
