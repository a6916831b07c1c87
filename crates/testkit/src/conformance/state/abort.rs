//! Tests of aborting a recorded change.

use std::sync::Arc;

use memory::change::{ChangeId, ChangeKind, MemoryChange};
use memory::document::Revision;
use memory::usage::Usage;
use state::{ChangeQuery, Head, HistoryStore, OpenChange, Stats, UsageRow};

use super::builders::{
    ChangeBuilder, IDENTITY, edit, files, outside, path, remove, rename, time, write,
};
use super::history::record;
use super::usage::use_of;

pub(super) async fn check_all(make: &impl AsyncFn() -> Arc<dyn HistoryStore>) {
    for builder in aborted_changes() {
        an_aborted_change_leaves_no_trace(&*make().await, &builder).await;
    }
    only_an_open_change_can_be_aborted(&*make().await).await;
    a_change_number_is_never_reused(&*make().await).await;
    uses_counted_meanwhile_stay(&*make().await).await;
}

/// Everything that can be read from a store.
#[derive(Debug, PartialEq)]
struct Snapshot {
    changes: Vec<MemoryChange>,
    open: Vec<OpenChange>,
    heads: Vec<Head>,
    marks: Vec<UsageRow>,
    stats: Stats,
}

async fn snapshot(state: &dyn HistoryStore) -> Snapshot {
    let query = ChangeQuery { max: usize::MAX, ..ChangeQuery::default() };
    Snapshot {
        changes: state.changes(&query).await.unwrap(),
        open: state.open_changes("one").await.unwrap(),
        heads: state.heads("one", ChangeId(0)).await.unwrap(),
        marks: state.usage_rows(IDENTITY).await.unwrap(),
        stats: Stats { database_bytes: 0, ..state.stats().await.unwrap() },
    }
}

/// Changes on top of those of [`prepare`].
fn aborted_changes() -> Vec<ChangeBuilder> {
    let draft = files(ChangeKind::Draft, Vec::new())
        .merge(rename("one", ("notes/a.md", "b.md"), "a"))
        .merge(edit("one", "b.md", ("a", "2")))
        .merge(write("one", "notes/a.md", "another"))
        .merge(remove("one", "pinned.md", "p"))
        .uses("b.md");
    vec![
        write("one", "new.md", "new").at(9).uses("new.md"),
        edit("one", "notes/a.md", ("a", "b")).at(9).uses("notes/a.md").uses("notes/a.md"),
        edit("one", "pinned.md", ("p", "q")).at(9).uses("pinned.md"),
        remove("one", "pinned.md", "p").at(9),
        outside("one", "pinned.md", "p").at(9),
        rename("one", ("pinned.md", "notes/pinned.md"), "p").at(9).uses("notes/pinned.md"),
        rename("one", ("pinned.md", "stale.md"), "p").at(9).uses("stale.md"),
        remove("one", "notes/a.md", "a").at(9).folder("one", "notes", None),
        rename("one", ("notes/a.md", "n2/a.md"), "a").at(9).folder("one", "notes", Some("n2")),
        rename("one", ("notes/a.md", "old/a.md"), "a").at(9).folder("one", "notes", Some("old")),
        write("one", "x.md", "x").undoes(ChangeId(1)),
        draft,
    ]
}

async fn prepare(state: &dyn HistoryStore) -> Vec<ChangeId> {
    let mut ids = Vec::new();
    for (at, text) in [("notes/a.md", "a"), ("pinned.md", "p"), ("gone.md", "g")] {
        ids.push(record(state, &write("one", at, text).at(1).uses(at)).await);
    }
    ids.push(record(state, &remove("one", "gone.md", "g").at(2)).await);
    state.set_pin((IDENTITY, &path("pinned.md")), true, time(3)).await.unwrap();
    let unused = ["stale.md", "old/a.md", "old/deep/b.md", "notes/deep/c.md"];
    for at in unused {
        state.add_uses(&[use_of(at, 4, false)]).await.unwrap();
        state.set_pin((IDENTITY, &path(at)), true, time(5)).await.unwrap();
    }
    ids
}

async fn an_aborted_change_leaves_no_trace(state: &dyn HistoryStore, builder: &ChangeBuilder) {
    let earlier = prepare(state).await;
    let before = snapshot(state).await;
    let id = record(state, builder).await;
    assert_ne!(snapshot(state).await, before, "{builder:?}");
    state.abort_change(id).await.unwrap();
    assert_eq!(snapshot(state).await, before, "{builder:?}");
    assert_eq!(state.change(id).await.unwrap(), None);
    state.abort_change(id).await.unwrap();
    assert_eq!(snapshot(state).await, before, "aborting again: {builder:?}");
    for id in earlier.into_iter().rev() {
        state.abort_change(id).await.unwrap();
    }
    let after = snapshot(state).await;
    assert_eq!((after.changes, after.heads), (vec![], vec![]), "{builder:?}");
    assert_eq!(state.content(&Revision::digest(b"p")).await.unwrap(), None);
    assert_eq!(state.check().await.unwrap(), [] as [String; 0]);
}

async fn only_an_open_change_can_be_aborted(state: &dyn HistoryStore) {
    let id = record(state, &write("one", "a.md", "a").uses("a.md")).await;
    state.mark_durable(&[id]).await.unwrap();
    let before = snapshot(state).await;
    state.abort_change(id).await.unwrap_err();
    assert_eq!(snapshot(state).await, before);
    record(state, &edit("one", "a.md", ("a", "b"))).await;
}

async fn a_change_number_is_never_reused(state: &dyn HistoryStore) {
    let first = record(state, &write("one", "a.md", "a")).await;
    state.abort_change(first).await.unwrap();
    let second = record(state, &write("one", "a.md", "a")).await;
    assert!(second > first, "{second} after {first}");
}

async fn uses_counted_meanwhile_stay(state: &dyn HistoryStore) {
    state.add_uses(&[use_of("a.md", 1, true)]).await.unwrap();
    let id = record(state, &edit("one", "a.md", ("a", "b")).at(2).uses("a.md")).await;
    state.set_pin((IDENTITY, &path("a.md")), true, time(3)).await.unwrap();
    state.abort_change(id).await.unwrap();
    let marks = state.usage_rows(IDENTITY).await.unwrap();
    let usage = Usage { uses: 2, last_used_at: Some(time(3)), last_written_at: Some(time(2)) };
    assert_eq!(marks, [UsageRow { path: path("a.md"), pinned: true, usage }]);
}
